"""Prospect against its naive twin, and where it leads."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.prospect import prospect
from tests.solvers.cases import cvar, rankings, regrouped, tasks, worst
from tests.solvers.running import begin, iterates
from xrisk.functions import MaxOuter, MaxRisk
from xrisk.inner import exact_values, exact_vjp
from xrisk.solvers import Prospect

plain = pytest.mark.usefixtures("plain")


def kl(lam=0.5, groups=None):
    X, y, own = table()
    return xrisk.group_dro(X, y, own if groups is None else groups, divergence="kl", lam=lam, l2=0.1)


def kl_weights(u):
    weights = np.exp(u / 0.5)
    return weights / weights.sum()


def shifted_weights(u, nu=0.2):
    """argmax over the simplex of ⟨q, u⟩ − (ν n/2)‖q − 1/n‖²."""
    v = np.sort(u / (u.size * nu))[::-1]
    thetas = (np.cumsum(v) - 1.0) / np.arange(1, u.size + 1)
    return np.maximum(u / (u.size * nu) - thetas[np.nonzero(v > thetas)[0][-1]], 0.0)


@plain
def test_it_follows_the_naive_twin():
    setting = {"step": 0.1, "blocks": 3}
    x0, xs = iterates(kl(), Prospect(**setting, batch=5))
    expected = prospect(problems.means(x0, 5), kl_weights, 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@plain
def test_it_follows_the_naive_twin_under_a_cost_of_shifts():
    setting = {"step": 0.1, "blocks": 2}
    x0, xs = iterates(worst(), Prospect(**setting, batch=3, smoothing=0.2))
    expected = prospect(problems.means(x0, 3), shifted_weights, 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@plain
def test_the_tables_add_up():
    problem, solver, state, rng = begin(cvar(), Prospect(0.1, smoothing=0.1, blocks=3, batch=4), start=0.1)
    state = solver.advance(problem, state, 30, rng)
    g = problem.inner
    sizes = np.diff(g.offsets)
    np.testing.assert_allclose(np.add.reduceat(state.losses, g.offsets[:-1]) / sizes, state.means, rtol=1e-12)
    share = np.repeat(1.0 / sizes, sizes) * state.weights * state.slopes[:, 0]
    np.testing.assert_allclose(share @ g.model.rows.X[g.index.rows], state.full, rtol=1e-9)


@plain
def test_the_first_tables_are_those_of_a_full_pass():
    problem, solver, state, rng = begin(kl(), Prospect(1e-300, blocks=1, batch=1), start=0.1)
    state = solver.advance(problem, state, 1, rng)
    u, full = np.empty((6, 1)), np.zeros(4)
    exact_values(problem.inner, state.w, u)
    exact_vjp(problem.inner, state.w, kl_weights(u), full)
    np.testing.assert_allclose(state.means, u[:, 0], rtol=1e-12)
    np.testing.assert_allclose(state.full, full, rtol=1e-10)


def gaps(stated, solver, times):
    best = xrisk.solvers.exact(stated).value
    runs = [xrisk.minimize(stated, solver, budget=xrisk.Budget(iterations=t), rng=0) for t in times]
    return [run.value - best for run in runs]


@pytest.mark.slow
def test_the_gap_falls_linearly_under_a_smooth_risk():
    first, second, third = gaps(kl(), Prospect(0.5, blocks=6), (20, 40, 60))
    assert first > 30 * second > 900 * third
    assert third < 1e-7


@pytest.mark.slow  # a kernel more to compile
def test_the_gap_falls_linearly_where_every_row_is_a_group():
    """As in the paper, one row per iteration."""
    first, second, third = gaps(kl(groups=np.arange(240)), Prospect(0.02, blocks=1, batch=1), (2000, 4000, 6000))
    assert first > 30 * second > 900 * third
    assert third < 1e-7


@pytest.mark.slow  # a kernel more to compile
def test_many_classes_are_remembered_too():
    X, y, groups = table()
    classes = np.where(X[:, 2] > 0.5, 2, y > 0)
    stated = xrisk.group_dro(X, classes, groups, divergence="chi2", lam=1.0, loss="multinomial", l2=0.1)
    best = xrisk.solvers.exact(stated).value
    result = xrisk.minimize(stated, Prospect(0.5, blocks=6), budget=xrisk.Budget(iterations=600), rng=0)
    assert result.value - best < 1e-7


@pytest.mark.slow  # a kernel more to compile
def test_weighted_rows_are_counted_by_their_weights():
    X, y, groups = table()
    weights = 0.5 + np.random.default_rng(1).random(240)
    stated = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1, sample_weight=weights)
    best = xrisk.solvers.exact(stated).value
    result = xrisk.minimize(stated, Prospect(0.3, blocks=6), budget=xrisk.Budget(iterations=600), rng=0)
    assert result.value - best < 1e-7


@plain
def test_one_group_that_is_one_row_makes_it_gradient_descent():
    row = regrouped([0, 1], [17])
    xs = iterates(row, Prospect(0.05, blocks=1, batch=1))[1]
    np.testing.assert_allclose(xs, iterates(row, xrisk.solvers.SGD(0.05))[1], rtol=1e-12)


def test_an_outer_function_is_refused():
    with pytest.raises(ValueError, match="Prospect needs a joint risk of the inner values, got MaxOuter"):
        Prospect().prepare(tasks(MaxOuter()))


def test_pairs_are_refused():
    with pytest.raises(ValueError, match="Prospect needs mean losses of groups of rows, got Pairs"):
        Prospect().prepare(rankings())


def test_smoothing_is_for_risks_with_a_kink():
    with pytest.raises(ValueError, match="Prospect needs the maximum or a CVaR of the inner values, got KLRisk"):
        Prospect(smoothing=0.1).prepare(kl())


@pytest.mark.parametrize("nu", [0.0, -1.0, np.nan, "much"])
def test_a_smoothing_that_is_not_positive_is_refused(nu):
    with pytest.raises(ValueError, match=f"smoothing must be (positive|finite), got {nu!r}"):
        Prospect(smoothing=nu).prepare(cvar()._replace(outer=MaxRisk()))
