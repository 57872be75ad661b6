"""The studies of the papers: what their pages say is what was measured, and a small one is measured again."""

import importlib.util
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import xrisk

FOLDER = Path(__file__).parents[1] / "experiments" / "svrpda"
STUDIES = tomllib.loads((FOLDER / "study.toml").read_text())
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
NAMES = [name for name in STUDIES if name != "portfolio-methods"]


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("svrpda_study", FOLDER / "study.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_every_study_was_run_and_drawn(name):
    methods = STUDIES[name].get("methods", STUDIES["portfolio-methods"])
    assert list(EXPECTED[name]) == list(methods)
    assert (FOLDER / f"{name}.png").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_table_that_was_measured(study, name):
    assert study.as_markdown(EXPECTED[name]) in (FOLDER / "README.md").read_text()


def test_ten_states_are_evaluated_in_the_order_that_was_measured(study):
    found = study.summary(study.compare(STUDIES["mdp-10"], STUDIES["mdp-10"]["methods"], seeds=3))
    final = {name: known["final_gap"] for name, known in found.items()}
    assert final["svrpda-i"] <= 1e-12 < final["c-saga"]
    for name in ("svrpda-i", "svrpda-ii"):
        ratio = found[name]["calls_to"]["1e-06"] / EXPECTED["mdp-10"][name]["calls_to"]["1e-06"]
        assert 0.25 <= ratio <= 4.0


def test_calls_are_counted_as_published(study):
    case = study.mdp_case({"states": 10, "features": 3, "discount": 0.9}, 0)
    first, second, saga = (
        study.built({"solver": name, "step": 0.1, **fields}, case)
        for name, fields in (("SVRPDAI", {"epoch": 5}), ("SVRPDAII", {"epoch": 5}), ("CSAGA", {"batch": 2}))
    )
    assert case.count(first, 7) == 2 * (2 * 100) + 4 * 7
    assert case.count(second, 7) == 2 * (2 * 100) + 5 * 7
    assert case.count(saga, 7) == 2 * 10 * (2 * 10 + 2 * 2 * 7)


@pytest.mark.parametrize("calls", [1.0, 300.0, 12345.0])
def test_a_budget_of_calls_is_used_and_kept(study, calls):
    solver, count = xrisk.solvers.SVRPDAI(epoch=5), lambda solver, t: 200.0 * np.ceil(t / 5) + 4 * t
    t = study.iterations_for(solver, count, calls)
    assert t == 1 or count(solver, t) <= calls
    assert count(solver, t + 1) > calls


STACO = FOLDER.parent / "staco"


@pytest.mark.parametrize("file", ["expected.json", "tables.json"])
def test_the_page_on_rare_positives_has_what_was_measured(file):
    page, known = (STACO / "README.md").read_text(), json.loads((STACO / file).read_text())
    ranges = [found for table in known.values() for found in (table.values() if file == "tables.json" else [table])]
    cells = [values for found in ranges if isinstance(found, dict) for values in found.values()]
    assert len(cells) >= 20
    assert all(f"{np.mean(values):.3f} ({np.std(values):.3f})" in page for values in cells)


def test_the_default_is_never_clearly_behind():
    """On held-out rows of real tables: best, or within its standard deviation of the best."""
    for table in json.loads((STACO / "tables.json").read_text()).values():
        for found in (value for value in table.values() if isinstance(value, dict)):
            best = max(np.mean(values) for values in found.values())
            assert np.mean(found["default"]) >= best - np.std(found["default"])
