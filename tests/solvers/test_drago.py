"""Drago against its naive twin, and where it leads."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.drago import drago
from tests.solvers.cases import chi2, chi2_logistic, cvar, noisy, rankings, regrouped, tasks, worst
from tests.solvers.running import begin, iterates
from xrisk.compile import uncompiled
from xrisk.functions import MaxOuter
from xrisk.solvers import Drago

SETTING = {"step": 0.1, "track": 0.3, "theta": 0.8}


def kl():
    return xrisk.group_dro(*table(), divergence="kl", lam=0.5, l2=0.1)


def kl_weights(z):
    weights = np.exp(z / 0.5)
    return weights / weights.sum()


def capped_weights(z, smoothing=0.2, cap=1 / (0.4 * 6)):
    """The threshold by bisection."""
    low, high = -10.0, 10.0
    for _ in range(100):
        middle = (low + high) / 2
        q = np.clip((1 + z / smoothing) / 6 - middle, 0.0, cap)
        low, high = (middle, high) if q.sum() > 1 else (low, middle)
    return q


def run(stated, solver, steps=50):
    problem, solver, state, rng = begin(stated, solver, start=0.1)
    found = []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            found.append((state.w.copy(), state.q.copy()))
    return (np.array(part) for part in zip(*found, strict=True))


@pytest.mark.parametrize(
    ("stated", "smoothing", "weights"),
    [(kl(), 0.0, kl_weights), (cvar(), 0.2, capped_weights)],
    ids=["kl", "cvar"],
)
@pytest.mark.parametrize("batch", [9, 50], ids=["parts", "groups"])
def test_it_follows_the_naive_twin(stated, smoothing, weights, batch):
    """In fifty steps every part is visited twice, or each group, whole, eight times."""
    ws, qs = run(stated, Drago(**SETTING, batch=batch, smoothing=smoothing))
    p = problems.means(np.full(4, 0.1), batch)
    xs, expected = drago(p, weights, 50, np.random.default_rng(0), **SETTING, batch=batch)
    np.testing.assert_allclose(ws, xs, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(qs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("stated", [kl(), chi2_logistic(), chi2()], ids=["kl", "chi2", "squared-hinge"])
def test_it_converges_linearly(stated):
    best = xrisk.solvers.exact(stated).value
    runs = [
        xrisk.minimize(stated, Drago(0.05), budget=xrisk.Budget(oracle_calls=passes * 240), rng=0)
        for passes in (12, 22, 42, 82)
    ]
    gaps = [found.value - best for found in runs]
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[2] < 0.1 * gaps[1]
    assert abs(gaps[3]) < 1e-8


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_smoothed_risk_is_as_near_as_its_price():
    best = xrisk.solvers.exact(cvar()).value
    solver, budget = Drago(0.05, 0.05, smoothing=0.02), xrisk.Budget(iterations=3000)
    assert xrisk.minimize(cvar(), solver, budget=budget, rng=0).value - best < 0.5 * 0.02 * (1 / 0.4 - 1)


def test_one_part_makes_it_the_optimistic_gradient_method():
    """A table refreshed at every step; of one group q is 1."""
    one, p = regrouped([0, 240]), problems.means(np.full(4, 0.1), 1)
    p.X, p.y, _ = table()
    rows, x = np.array(one.inner.index.rows)[None, :], p.x0
    _, xs = iterates(one._replace(outer=kl().outer), Drago(0.5, theta=1.0, batch=240), steps=5)
    before = p.jacobian(0, x, rows)[0]
    for found in xs:
        slope = p.jacobian(0, x, rows)[0]
        x = p.prox(x - 0.5 * (2 * slope - before), 0.5)
        before = slope
        np.testing.assert_allclose(found, x, rtol=1e-12)


def test_the_first_iteration_fills_the_tables():
    problem, solver = Drago(batch=7).prepare(kl())
    parts = np.ceil(np.bincount(table()[2]) / 7).sum()
    assert solver.oracles(problem, 0) == (0, 0)
    assert solver.oracles(problem, 10) == (7 * (20 + parts), 7 * (20 + parts))


def test_a_kink_needs_smoothing():
    with pytest.raises(ValueError, match=r"smoothing must be positive for a risk with a kink, got 0\.0 for CVaRRisk"):
        Drago().prepare(worst())


def test_a_smooth_risk_has_enough_of_it():
    with pytest.raises(ValueError, match=r"smoothing must be 0 for a smooth risk, got 0\.1 for KLRisk"):
        Drago(smoothing=0.1).prepare(kl())


@pytest.mark.parametrize("smoothing", [-0.1, np.nan, np.inf, "much"])
def test_a_smoothing_out_of_range_is_refused(smoothing):
    with pytest.raises(ValueError, match="smoothing must be finite and not negative, got"):
        Drago(smoothing=smoothing).prepare(cvar())


def test_an_outer_function_is_refused():
    with pytest.raises(ValueError, match="Drago needs a joint risk of the inner values, got MaxOuter"):
        Drago().prepare(tasks(MaxOuter()))


@pytest.mark.parametrize("stated", [rankings(), noisy()._replace(outer=kl().outer)], ids=["pairs", "noisy"])
def test_samples_without_an_order_are_refused(stated):
    with pytest.raises(ValueError, match="Drago needs"):
        Drago().prepare(stated)
