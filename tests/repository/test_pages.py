"""What README.md, the guide, CONTRIBUTING.md and docs/extending.md show runs as it stands."""

import functools
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.repository import run_blocks
from xrisk import solvers
from xrisk.solvers import catalogue

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/guide.md", "CONTRIBUTING.md", "docs/extending.md")
ALL_PAGES = [
    page for folder in (".", "docs", "docs/decisions", "experiments/*") for page in ROOT.glob(f"{folder}/*.md")
]
BLOCKS = [(page, k) for page in PAGES for k in range(len(run_blocks.blocks(ROOT / page)))]

# the example of an estimator must be able to warn of a limit that ran out
LIMIT = """
import warnings
from sklearn.exceptions import ConvergenceWarning
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    BalancedClassifier(solver=xrisk.solvers.ALEXR(), max_iter=3).fit(table.X, table.y, groups=table.groups)
assert [warning.category for warning in caught] == [ConvergenceWarning]
"""
MORE = {"CONTRIBUTING.md": [LIMIT]}
# fits take long in plain Python, kernels for specs of one's own take long to compile
DISABLE_JIT = {"README.md": "0", "docs/guide.md": "0", "CONTRIBUTING.md": "1", "docs/extending.md": "1"}


@functools.cache
def complaints(page, disable_jit, *more):
    """What went wrong in each block of a page; blocks may use what those before them made."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(Path(run_blocks.__file__)), str(ROOT / page), *more],
            env={**os.environ, "NUMBA_DISABLE_JIT": disable_jit},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


QUICK = [pytest.param(*block, marks=[] if block[0] == "README.md" else [pytest.mark.slow]) for block in BLOCKS]


@pytest.mark.parametrize(("page", "block"), QUICK)
def test_a_block_runs(page, block):
    found = complaints(page, DISABLE_JIT[page], *MORE.get(page, []))[block]
    assert found is None, found


@pytest.mark.slow
def test_the_example_of_an_estimator_says_when_a_limit_ran_out():
    found = complaints("CONTRIBUTING.md", "1", *MORE["CONTRIBUTING.md"])[-1]
    assert found is None, found


@pytest.mark.slow
@pytest.mark.parametrize("disable_jit", ["0", "1"], ids=["compiled", "plain"])
@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_a_block_runs_compiled_and_plain(page, block, disable_jit):
    found = complaints(page, disable_jit, *MORE.get(page, []))[block]
    assert found is None, found


def test_the_inventory_is_what_the_code_has():
    page = runpy.run_path(str(ROOT / "docs" / "inventory.py"))["page"]
    is_current = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8") == page()
    assert is_current, "docs/inventory.md is not what the code has: run `make docs`"


def test_the_type_stub_of_solvers_is_what_the_catalogue_has():
    lines = Path(solvers.__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    names = {line for line in lines if line.startswith("from ")}
    assert names == {line for line in catalogue.stub().splitlines() if line.startswith("from ")}, "run `make docs`"


def test_the_readme_is_short():
    assert (ROOT / "README.md").stat().st_size <= 9_000


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
