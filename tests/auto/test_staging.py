"""Runs of `Auto` in stages: resumed bit for bit anywhere, whichever method is at work."""

import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.applications.test_quadratic import random_form
from xrisk.applications import quadratic, sample_dro
from xrisk.auto import Auto, planned
from xrisk.datasets import make_groups

TABLE = make_groups(5, n=300, n_features=4, random_state=0)
ALWAYS_LBFGS = {"newton_steps": 1e30, "composite_steps": 1e30}
SAMPLED = {"least_speedup": 0.0, "least_rows": 10, "shares": (0.2,)}


def groups(**options):
    return xrisk.group_dro(
        TABLE.X, TABLE.y, TABLE.groups, **{"divergence": "cvar", "alpha": 0.25, "l2": 0.01, **options}
    )


def rows():
    masses = np.random.default_rng(0).dirichlet(np.ones(300))
    risk = fn.WithMasses(fn.KLRisk(0.5), masses)
    return sample_dro(TABLE.X, TABLE.y, ambiguity=risk, l2=0.01, fit_intercept=True)


def form():
    H, b = random_form(np.random.default_rng(9), 30, 1e5)
    return quadratic(H, b, penalty=fn.LeveragedBudget(1.0, 4.0))


CASES = {
    "composite": (groups, Auto(1e-10)),
    "lbfgs from a sample": (groups, Auto(1e-4, **SAMPLED, **ALWAYS_LBFGS)),
    "newton": (lambda: groups(loss="hinge"), Auto(1e-6)),
    "rows from a sample": (rows, Auto(1e-10, **SAMPLED)),
    "faces": (form, Auto(1e-10)),
}


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", CASES)
def test_a_run_that_is_resumed_is_the_whole_run(name, cut, tmp_path, plain):
    make, solver = CASES[name]
    problem, saved = make(), xrisk.Checkpoint(tmp_path / "run")
    whole = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=12))
    xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=cut), checkpoint=saved)
    parts = xrisk.resume(problem, solver, tmp_path / "run", budget=xrisk.Budget(iterations=12))
    np.testing.assert_array_equal(whole.w, parts.w)
    np.testing.assert_array_equal(whole.dual, parts.dual)
    assert whole.certificate == parts.certificate
    assert whole.stop is parts.stop


@pytest.mark.parametrize("name", CASES)
def test_the_cases_are_what_they_say(name):
    make, solver = CASES[name]
    stages = planned(make(), solver).stages
    assert (not stages[0].on_all_rows) == ("sample" in name)


def test_a_sample_of_rows_has_masses_of_its_own(plain):
    staged = planned(rows(), Auto(**SAMPLED))
    part = staged.stages[0].task().problem
    assert part.inner.model.target.size == 60
    assert part.outer.masses.sum() == pytest.approx(1.0)


def test_the_gap_of_the_method_is_that_of_the_result(plain):
    result = xrisk.minimize(rows(), Auto(1e-6), budget=xrisk.Budget(iterations=100))
    assert 0.0 <= result.gap <= 1e-6 * result.value


@pytest.mark.parametrize("penalty", [fn.Simplex(), fn.L1Ball(0.5)], ids=str)
def test_a_run_without_a_start_makes_no_proof_of_one(penalty):
    H, b = random_form(np.random.default_rng(0), 6, 10.0)
    problem = quadratic(H, b, penalty=penalty)
    first = xrisk.minimize(problem, Auto(1e-6), budget=xrisk.Budget(iterations=100)).trace.points[0]
    assert first.bound == -np.inf
    start = np.full(6, 1.0 / 12.0) if isinstance(penalty, fn.L1Ball) else np.eye(6)[0]
    warm = xrisk.minimize(problem, Auto(1e-6), start, budget=xrisk.Budget(iterations=100)).trace.points[0]
    assert warm.bound > -np.inf
