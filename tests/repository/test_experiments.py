"""The studies of the papers: what their pages say is what was measured, and a small one is measured again."""

import importlib.util
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

import xrisk

FOLDER = Path(__file__).parents[2] / "experiments" / "svrpda"
STUDIES = tomllib.loads((FOLDER / "study.toml").read_text())
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
NAMES = [name for name in STUDIES if name != "portfolio-methods"]


def script(path):
    """A script of experiments, as a module."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def study():
    return script(FOLDER / "study.py")


@pytest.mark.parametrize("name", NAMES)
def test_every_study_was_run_and_drawn(name):
    methods = STUDIES[name].get("methods", STUDIES["portfolio-methods"])
    assert list(EXPECTED[name]) == list(methods)
    assert (FOLDER / f"{name}.png").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_table_that_was_measured(study, name):
    assert study.as_markdown(EXPECTED[name]) in (FOLDER / "README.md").read_text()


@pytest.mark.slow
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


RARE = json.loads((STACO / "tables.json").read_text())
TWO_WAY = json.loads((STACO / "expected.json").read_text())


@pytest.mark.parametrize("name", TWO_WAY)
def test_the_page_on_rare_positives_has_the_table_that_was_measured(name):
    assert script(STACO / "study.py").as_markdown(name, TWO_WAY[name]) in (STACO / "README.md").read_text()


def test_the_page_on_rare_positives_has_the_table_of_tables_and_its_verdict():
    tables, page = script(STACO / "tables.py"), (STACO / "README.md").read_text()
    best, near, behind = tables.verdict(RARE)
    assert tables.as_markdown(RARE) in page
    assert f"best or level with the best in {best}, within one standard deviation of it in {near}" in page
    assert behind == 0


ALEXR = FOLDER.parent / "alexr"
PARTIAL = json.loads((ALEXR / "expected.json").read_text())


@pytest.fixture(scope="module")
def partial():
    return script(ALEXR / "study.py")


@pytest.mark.parametrize("name", PARTIAL)
def test_the_page_on_partial_auc_has_the_table_that_was_measured(partial, name):
    assert partial.as_markdown(name, PARTIAL[name]) in (ALEXR / "README.md").read_text()


def test_every_table_with_published_numbers_was_run_and_drawn(partial):
    assert set(partial.PUBLISHED) <= set(PARTIAL) <= set(partial.TABLES)
    assert (ALEXR / "picture.png").exists()


def test_settings_are_chosen_one_after_the_other(partial):
    def attempt(solver):
        return -abs(np.log(solver.step / 0.2)) - abs(np.log(solver.dual_step / 0.005)) - solver.theta

    assert partial.tuned("ALEXR", attempt) == (0.2, 0.005, 0.1)


def test_no_patient_is_in_two_parts(partial):
    rng = np.random.default_rng(0)
    z = {
        "logits": np.tile(rng.integers(0, 20, (60, 1, 1)), (1, 1, 2)).astype(float),
        "labels": rng.integers(0, 2, (60, 1)),
        "label_names": np.array(["Mass"]),
    }
    z["patient"] = z["logits"][:, 0, 0].astype(int)  # what is in a column, up to its scale
    parts = [set(rows[0][:, 0]) for rows in partial.xrays(z, "Mass")]
    assert sum(map(len, parts)) == len(np.unique(z["patient"])) == len(set.union(*parts))


SCDRO = FOLDER.parent / "scdro"
TAILS = json.loads((SCDRO / "tables.json").read_text())
BALLS = json.loads((SCDRO / "expected.json").read_text())


@pytest.fixture(scope="module")
def tails():
    return script(SCDRO / "tables.py")


@pytest.fixture(scope="module")
def balls():
    return script(SCDRO / "study.py")


@pytest.mark.parametrize("part", ["losses", "verdict", "shrunk", "scores", "penalties", "wrong"])
def test_the_page_on_the_tail_of_the_samples_has_the_tables_that_were_measured(tails, part):
    assert getattr(tails, f"as_{part}")(TAILS) in (SCDRO / "README.md").read_text()


def test_the_guide_has_the_ranges_that_were_measured(tails):
    assert tails.as_short(TAILS) in (FOLDER.parents[1] / "docs" / "guide.md").read_text()


@pytest.mark.parametrize("classes", [2, 10, None], ids=["two classes", "ten classes", "numbers"])
def test_one_label_in_twenty_is_made_wrong(tails, classes):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(200) if classes is None else np.arange(200) % classes
    spoilt, wrong = tails.spoilt(y, classes is not None, rng)
    assert np.array_equal(np.flatnonzero(spoilt != y), wrong)
    assert wrong.size == 10
    if classes:
        assert set(spoilt) <= set(y)


def test_groups_are_label_by_attribute_or_fifths_of_the_numbers(tails):
    attribute = np.array([0, 0, 1, 1] * 5)
    labelled = tails.Table(np.zeros((20, 1)), np.array([0, 1, 0, 1] * 5), attribute)
    assert np.array_equal(np.bincount(labelled.groups()), [5, 5, 5, 5])
    numbers = tails.Table(np.zeros((20, 1)), np.arange(20.0))
    assert np.array_equal(np.bincount(numbers.groups()), [4, 4, 4, 4, 4])
    assert numbers._replace(attribute=attribute).groups() is attribute


@pytest.mark.parametrize("name", BALLS)
def test_the_page_on_the_tail_of_the_samples_has_what_methods_reached(balls, name):
    page = (SCDRO / "README.md").read_text()
    assert balls.as_markdown(BALLS[name]) in page
    assert balls.as_sensitivity(name, BALLS[name]) in page
    assert (SCDRO / balls.picture(name)).exists()
