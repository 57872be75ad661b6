"""Projections onto domains of portfolios: against cvxpy over many points with ties, and what must stay exact."""

import cvxpy as cp
import numpy as np
import pytest

import xrisk.functions as fn
from tests.functions.test_penalty import modelled, near, solve

DOMAINS = [
    fn.Hyperplane(0.7),
    fn.L1Ball(1.3),
    fn.SolidSimplex(0.8),
    fn.LeveragedBudget(1.0, 1.6),
    fn.LeveragedBudget(-0.5, 0.5),
    fn.LeveragedBudget(0.0, 2.0),
]


def points(seed, count, d=6):
    """Points of several sizes, every other one with ties."""
    rng = np.random.default_rng(seed)
    found = rng.standard_normal((count, d)) * rng.choice([0.1, 1.0, 10.0], (count, 1))
    found[::2] = np.round(found[::2])
    return found


def worst_miss(domain, chosen):
    """The largest distance of our projection from cvxpy's."""
    x, v = cp.Variable(chosen.shape[1]), cp.Parameter(chosen.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - v)), modelled(domain, x)[1])
    misses = []
    for point in chosen:
        v.value = point
        solve(problem)
        misses.append(np.abs(near(domain, point) - x.value).max())
    return max(misses)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_projections_agree_with_cvxpy(domain):
    assert worst_miss(domain, points(0, 20)) < 2e-5


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@pytest.mark.parametrize("d", [1, 2, 9])
def test_projections_agree_with_cvxpy_on_hundreds_of_points(domain, d):
    assert worst_miss(domain, points(d, 100, d)) < 1e-4


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_no_point_of_the_domain_is_nearer(domain):
    rng = np.random.default_rng(1)
    for v in points(2, 50):
        x = near(domain, v)
        for rival in (near(domain, 3.0 * rng.standard_normal(6)), near(domain, x + 1e-3 * rng.standard_normal(6))):
            assert (x - v) @ (rival - x) >= -1e-9 * max(1.0, np.abs(v).max() ** 2)


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
def test_a_projection_stays_where_it_is(domain):
    for v in points(3, 50):
        x = near(domain, v)
        np.testing.assert_allclose(near(domain, x), x, atol=1e-14)


@pytest.mark.parametrize("domain", DOMAINS[1:], ids=str)
def test_weights_of_zero_stay_zero(domain):
    for v in points(4, 50):
        x = near(domain, v)
        np.testing.assert_array_equal(near(domain, x)[x == 0.0], 0.0)


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e9])
def test_a_budget_with_leverage_does_not_see_a_shift(shift):
    v = np.array([3.0, 1.0, 0.0, -2.0])
    domain = fn.LeveragedBudget(1.0, 2.0)
    np.testing.assert_allclose(near(domain, v + shift), near(domain, v), atol=1e-15 * abs(shift) + 1e-15)


def test_leverage_that_is_the_budget_allows_no_short_position():
    for v in points(5, 20):
        np.testing.assert_allclose(near(fn.LeveragedBudget(1.0, 1.0), v), near(fn.Simplex(1.0), v), atol=1e-14)
        np.testing.assert_allclose(near(fn.LeveragedBudget(-1.0, 1.0), v), -near(fn.Simplex(1.0), -v), atol=1e-14)


@pytest.mark.parametrize("domain", DOMAINS[1:], ids=str)
def test_the_support_is_that_of_the_best_of_many_points(domain):
    rng = np.random.default_rng(6)
    for v in points(7, 20):
        best = fn.penalty_conjugate(domain, v)
        tried = [near(domain, 1e3 * v), *(near(domain, 9.0 * rng.standard_normal(6)) for _ in range(20))]
        assert max(v @ x for x in tried) <= best + 1e-9 * max(1.0, abs(best))
        assert max(v @ x for x in tried) == pytest.approx(best, rel=1e-6, abs=1e-6)
