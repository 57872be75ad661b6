"""Quadratics: the objective as given, the minimum against closed form and cvxpy, and how tight the certificates are."""

import cvxpy as cp
import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.functions.test_penalty import modelled, solve
from xrisk.applications import quadratic
from xrisk.applications.quadratic import least_eigenvalue


def random_form(rng, d, cond, scale=1.0):
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    H = (Q * np.logspace(0, -np.log10(cond), d)) @ Q.T
    return scale * 0.5 * (H + H.T), scale * rng.standard_normal(d)


def solved(problem, tol=1e-8):
    return xrisk.minimize(problem, xrisk.solvers.Auto(tol=tol), budget=xrisk.Budget(iterations=300))


DOMAINS = [
    fn.Simplex(),
    fn.NonNegative(),
    fn.Box(-1.0, 2.0),
    fn.Ball(3.0),
    fn.L1(0.3),
    fn.Restricted(fn.L2(0.1), fn.Simplex(2.0)),
]


@pytest.mark.parametrize(
    "penalty", [fn.NoPenalty(), fn.L2(0.3), fn.L1(0.2), fn.Tilted(fn.L2(0.1), np.ones(1))], ids=str
)
@pytest.mark.parametrize("cond", [10.0, 1e8, 1e20])
def test_the_objective_is_the_quadratic_with_its_penalty(cond, penalty):
    rng = np.random.default_rng(0)
    H, b = random_form(rng, 6, cond)
    problem, w = quadratic(H, b, -3.0, penalty=penalty), rng.standard_normal(6)
    expected = w @ H @ w - 2 * b @ w - 3.0 + fn.penalty_value(penalty, w)
    assert problem.value(w) == pytest.approx(expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("cond", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("d", [1, 7, 60])
def test_the_minimum_is_that_of_the_closed_form(d, cond, scale):
    H, b = random_form(np.random.default_rng(d), d, cond, scale)
    best = -b @ np.linalg.solve(H, b)
    found = solved(quadratic(H, b)).certificate
    assert found.relative <= 1e-8
    assert found.primal == pytest.approx(best, rel=1e-6)
    assert found.dual <= best + 1e-7 * abs(best)


@pytest.mark.parametrize("cond", [10.0, 1e8])
@pytest.mark.parametrize("penalty", DOMAINS, ids=str)
def test_the_minimum_over_a_domain_is_that_of_cvxpy(penalty, cond):
    H, b = random_form(np.random.default_rng(3), 12, cond)
    x = cp.Variable(12)
    value, constraints = modelled(penalty, x)
    model = solve(cp.Problem(cp.Minimize(cp.quad_form(x, cp.psd_wrap(H)) - 2 * b @ x + value), constraints))
    found = solved(quadratic(H, b, penalty=penalty)).certificate
    assert found.relative <= 1e-8
    assert found.primal == pytest.approx(model.value, abs=1e-6 * max(1.0, abs(model.value)))


@pytest.mark.parametrize("penalty", [fn.NoPenalty(), fn.Simplex(), fn.Box(), fn.L2(0.1)], ids=str)
def test_a_singular_form_is_solved_where_there_is_a_minimum(penalty):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 8))
    found = xrisk.solvers.exact(quadratic(A.T @ A, A.T @ rng.standard_normal(3), penalty=penalty))
    assert np.isfinite(found.value)


def test_an_optimum_of_zero_is_certified():
    found = solved(quadratic(np.eye(3), -np.ones(3), penalty=fn.NonNegative()))
    assert found.stop is xrisk.Stop.PERFECT
    assert found.certificate.gap <= 1e-11


@pytest.mark.parametrize("d", [1, 5, 40])
def test_the_least_eigenvalue_is_found_up_to_a_factor(d):
    H, _ = random_form(np.random.default_rng(d), d, 1e6)
    least = np.linalg.eigvalsh(H)[0]
    assert 0.9 * least <= least_eigenvalue(H) <= 2.0 * least


def test_columns_of_unlike_scales_have_a_least_eigenvalue():
    D = np.logspace(0, 8, 5)
    assert least_eigenvalue((np.eye(5) + 0.5) * D * D[:, None]) == pytest.approx(1.0, rel=0.5)


def test_a_singular_form_has_no_least_eigenvalue():
    assert least_eigenvalue(np.ones((2, 2))) == least_eigenvalue(np.zeros((2, 2))) == 0.0


WRONG = {
    "second must be a square matrix, got shape": (np.ones((2, 3)), np.ones(2)),
    "second must be finite": (np.full((2, 2), np.nan), np.ones(2)),
    "second must be symmetric": (np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones(2)),
    "second must be positive semi-definite, its least eigenvalue is -1": (-np.eye(2), np.ones(2)),
    "first must be finite and of shape": (np.eye(2), np.ones(3)),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_wrong_is_named(sentence):
    with pytest.raises(ValueError, match=sentence):
        quadratic(*WRONG[sentence])


def test_a_penalty_is_a_spec():
    with pytest.raises(TypeError, match="penalty must be a penalty or domain spec"):
        quadratic(np.eye(2), np.ones(2), penalty=0.1)
