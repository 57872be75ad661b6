"""The smoothed share of pairs in the wrong order: values and slopes against brute force, the grid against pairs."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, check_grad
from scipy.special import expit

from xrisk.applications import sigmoid_partial_auc
from xrisk.data.rows import as_rows
from xrisk.inner import Pairs, sigmoid_pairs
from xrisk.inner.oracle import exact_vjp
from xrisk.inner.sigmoid_pairs import SigmoidPairs, between_rates, pairs_in_order, sigmoid_mean
from xrisk.metrics import partial_auc_score
from xrisk.run import Budget, minimize
from xrisk.solvers import Descent

RNG = np.random.default_rng(0)


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.standard_normal(n) > 1.2
    return X, y


def selection(X, y, min_tpr=0.4, max_fpr=0.3):
    return between_rates(Pairs(as_rows(X), np.flatnonzero(y), np.flatnonzero(~y)), min_tpr, max_fpr)


def stated(X, y, anchor=0.0, center=None):
    return sigmoid_partial_auc(X, np.where(y, 1, -1), min_tpr=0.4, max_fpr=0.3, anchor=anchor, center=center)


def test_the_value_is_the_mean_over_the_selected_pairs():
    X, y = table()
    w = np.array([1.0, 0.3, -0.2, 0.1])
    z = X @ w
    lowest, highest = int(y.sum() * 0.6 + 1e-9), int((~y).sum() * 0.3 + 1e-9)
    a, b = np.sort(z[y])[:lowest], np.sort(z[~y])[-highest:]
    expected = expit(b[None, :] - a[:, None]).mean()
    assert stated(X, y).value(w) == pytest.approx(expected, rel=1e-12)


def test_slopes_are_those_of_the_value():
    a, b = RNG.standard_normal(7), RNG.standard_normal(9)
    found = sigmoid_mean(a, b)
    assert check_grad(lambda v: sigmoid_mean(v, b).value, lambda v: sigmoid_mean(v, b).side_i, a) < 1e-7
    assert check_grad(lambda v: sigmoid_mean(a, v).value, lambda v: sigmoid_mean(a, v).side_j, b) < 1e-7
    assert found.side_i.sum() == pytest.approx(-found.side_j.sum())


@pytest.mark.parametrize("offset", [0.0, 1e6, -3e3])
def test_on_a_grid_the_mean_is_that_of_the_pairs(offset):
    a, b = 2.0 * RNG.standard_normal(400) + 1.0 + offset, 2.0 * RNG.standard_normal(500) + offset
    exact, grid = sigmoid_pairs._pair_by_pair(a, b), sigmoid_pairs._on_grid(a, b)
    assert grid.value == pytest.approx(exact.value, abs=2e-6)
    np.testing.assert_allclose(grid.side_i, exact.side_i, atol=5e-3 * np.abs(exact.side_i).max())
    np.testing.assert_allclose(grid.side_j, exact.side_j, atol=5e-3 * np.abs(exact.side_j).max())


def test_scores_out_of_reach_neither_count_nor_overflow():
    grid = sigmoid_pairs._on_grid(np.array([0.0, 1e8]), np.array([0.0, -1e8, 1.0]))
    assert np.isfinite(grid.value)
    assert grid.side_i[1] == grid.side_j[1] == 0.0


@pytest.mark.parametrize(("min_tpr", "max_fpr"), [(0.0, 1.0), (0.5, 0.3), (0.9, 0.05)])
def test_pairs_in_order_are_the_partial_auc_by_counts(min_tpr, max_fpr):
    X, y = table(n=400)
    X = np.round(X, 1)
    z = X[:, 0]
    found = pairs_in_order(selection(X, y, min_tpr, max_fpr), np.array([1.0, 0.0, 0.0, 0.0]))
    expected = partial_auc_score(y, z, min_tpr=min_tpr, max_fpr=max_fpr, method="counts")
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_gradient_is_that_of_the_objective():
    X, y = table()
    w, problem = np.array([1.0, 0.3, -0.2, 0.1]), stated(X, y)
    grad = np.zeros(4)
    exact_vjp(problem.inner, w, np.ones((1, 1)), grad)
    np.testing.assert_allclose(grad, approx_fprime(w, problem.value, 1e-7), atol=1e-6)


@pytest.mark.parametrize("anchor", [0.1, 0.001])
@pytest.mark.parametrize("seed", range(4))
def test_a_descent_lowers_the_objective(seed, anchor):
    X, y = table(seed=seed)
    start = np.random.default_rng(seed).standard_normal(4)
    problem = stated(X, y, anchor, start)
    result = minimize(problem, Descent(), start, budget=Budget(iterations=30))
    assert result.value == pytest.approx(problem.value(result.w), rel=1e-12)
    assert result.value < problem.value(start)
    values = [point.value for point in result.trace.points]
    assert values == sorted(values, reverse=True)


def test_a_strong_anchor_holds():
    X, y = table()
    start = np.array([0.2, 1.0, 0.0, 0.0])
    near, far = (
        minimize(stated(X, y, anchor, start), Descent(), start, budget=Budget(iterations=50)).w
        for anchor in (1e3, 1e-3)
    )
    assert np.linalg.norm(near - start) <= 1e-3 < np.linalg.norm(far - start)


def test_units_of_columns_do_not_change_a_descent():
    X, y = table()
    start, units = np.array([0.2, 1.0, 0.0, 0.0]), np.array([1.0, 1e6, 1e-3, 30.0])
    plain, scaled = (
        minimize(stated(X * s, y, 0.01, start / s), Descent(), start / s, budget=Budget(iterations=40)).w * s
        for s in (np.ones(4), units)
    )
    np.testing.assert_allclose(plain, scaled, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["lowest", "highest"])
@pytest.mark.parametrize("count", [0, 10_000, True, 1.5])
def test_numbers_of_rows_that_are_not_there_are_refused(name, count):
    X, y = table()
    problem = stated(X, y)
    with pytest.raises(ValueError, match=f"{name} must be a whole number from 1 to"):
        problem._replace(inner=problem.inner._replace(**{name: count})).check()


def test_it_is_built_without_arguments():
    assert SigmoidPairs().lowest == 1
