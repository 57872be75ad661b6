"""Certificates of risks over balls of divergence and of unequal masses: dual ≤ optimum ≤ primal."""

import cvxpy as cp
import numpy as np
import pytest

import xrisk.functions as fn
from tests.certificate.test_certificate import assert_ordered, certificates
from tests.random_problems import LOSSES, Known, pick, random_problem
from xrisk import Problem, certify
from xrisk.certificate.rounding import risk_upper
from xrisk.inner import LinearModel, Samples, as_rows
from xrisk.inner.oracle import inner_count

BALLS = [
    fn.KLBallRisk(0.3),
    fn.KLBallRisk(1e-9),
    fn.KLBallRisk(1e9),
    fn.KLBallRisk(0.3, 0.2),
    fn.KLBallRisk(2.0, 1e6),
    fn.KLBallRisk(1e-4, 1e-9),
    fn.ChiSquareBallRisk(0.3),
    fn.ChiSquareBallRisk(1e-9),
    fn.ChiSquareBallRisk(1e9),
    fn.ChiSquareBallRisk(0.3, 0.2),
    fn.ChiSquareBallRisk(2.0, 1e6),
    fn.ChiSquareBallRisk(1e-4, 1e-9),
]
INNER = [
    fn.CVaRRisk(0.3),
    fn.CVaRRisk(1e-6),
    fn.KLRisk(0.05),
    fn.KLRisk(1e6),
    fn.ChiSquareRiskA(0.3),
    fn.ChiSquareRiskA(1e6),
]
every_ball = pytest.mark.parametrize("rho", BALLS, ids=repr)
every_inner = pytest.mark.parametrize("rho", [*BALLS, *INNER], ids=repr)


def weighted(rng, problem, rho):
    """The problem under the risk of unequal masses, some of them zero or tiny."""
    p = rng.exponential(size=inner_count(problem.inner)) * pick(rng, (1.0, 1e-8)) ** rng.integers(0, 2)
    p[rng.integers(0, p.size)] += 1.0
    p[rng.random(p.size) < 0.2] *= 0.0
    p = p if p.sum() > 0.0 else np.ones(p.size)
    return problem._replace(outer=fn.WithMasses(rho, p / p.sum()))


@every_ball
def test_no_dual_exceeds_a_primal_over_a_ball(rho, plain):
    rng = np.random.default_rng(2)
    assert_ordered(certificates(random_problem(rng, loss=fn.Logistic(), outer=rho), rng, count=14))
    assert_ordered(certificates(random_problem(rng, outer=rho), rng, count=14))


@every_inner
def test_no_dual_exceeds_a_primal_of_unequal_masses(rho, plain):
    rng = np.random.default_rng(3)
    for loss in (fn.Logistic(), pick(rng, LOSSES)):
        problem = random_problem(rng, loss=loss, outer=fn.MaxRisk())
        assert_ordered(certificates(weighted(rng, problem, rho), rng, count=14))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_dual_exceeds_a_primal_on_hundreds_of_problems(seed, plain):
    rng = np.random.default_rng((5, seed))
    for _ in range(30):
        problem = random_problem(rng, outer=pick(rng, BALLS))
        assert_ordered(certificates(problem, rng))
        assert_ordered(certificates(weighted(rng, problem, pick(rng, BALLS + INNER)), rng))


@every_inner
def test_the_plain_bound_is_above_the_risk(rho):
    rng = np.random.default_rng(0)
    for _ in range(20):
        size, p = 10.0 ** rng.integers(-3, 4), rng.dirichlet(np.ones(6))
        u, risk = size * rng.standard_normal(6), fn.WithMasses(rho, p)
        assert risk_upper(risk, u) >= fn.risk_value(risk, u) - 1e-14 * size


def regression(rng):
    n = int(rng.integers(3, 9))
    X = rng.standard_normal((n, 2))
    return X, X @ rng.standard_normal(2) + rng.standard_normal(n), rng.dirichlet(np.ones(n))


def kl_optimum(X, y, p, rho):
    """min over w, λ ≥ λ₀, c of c + (λ − λ₀)·radius + ‖w‖²/20 with Σ p λ exp((ℓ − c)/λ) ≤ λ."""
    w, lam, c, t, z = cp.Variable(2), cp.Variable(), cp.Variable(), cp.Variable(y.size), cp.Variable(y.size)
    cones = [cp.constraints.ExpCone(t - c, lam * np.ones(y.size), z), p @ z <= lam]
    losses = [t >= cp.square(X @ w - y) / 2, lam >= rho.strength]
    objective = c + (lam - rho.strength) * rho.radius + cp.sum_squares(w) / 20
    return cp.Problem(cp.Minimize(objective), cones + losses).solve(solver=cp.CLARABEL), w.value


def chi_square_optimum(X, y, p, rho):
    """min over w, λ ≥ λ₀, η of η + λ/2 + Σ p (ℓ − η)₊²/(2λ) + (λ − λ₀)·radius + ‖w‖²/20."""
    w, lam, eta, e = cp.Variable(2), cp.Variable(), cp.Variable(), cp.Variable(y.size)
    limits = [e >= cp.square(X @ w - y) / 2 - eta, e >= 0, lam >= rho.strength]
    excess = cp.quad_over_lin(cp.multiply(np.sqrt(p / 2), e), lam)
    objective = eta + lam / 2 + excess + (lam - rho.strength) * rho.radius + cp.sum_squares(w) / 20
    return cp.Problem(cp.Minimize(objective), limits).solve(solver=cp.CLARABEL), w.value


OPTIMA = [
    (kl_optimum, fn.KLBallRisk(0.1)),
    (kl_optimum, fn.KLBallRisk(0.1, 0.5)),
    (kl_optimum, fn.KLBallRisk(0.02, 5.0)),
    (chi_square_optimum, fn.ChiSquareBallRisk(0.1)),
    (chi_square_optimum, fn.ChiSquareBallRisk(0.1, 0.5)),
    (chi_square_optimum, fn.ChiSquareBallRisk(0.02, 5.0)),
]


@pytest.mark.parametrize(("optimum", "rho"), OPTIMA, ids=[str(rho) for _, rho in OPTIMA])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_of_cvxpy_lies_between(optimum, rho, seed):
    X, y, p = regression(np.random.default_rng(seed))
    best, w = optimum(X, y, p, rho)
    problem = Problem(Samples(LinearModel(as_rows(X), y, fn.Squared())), fn.WithMasses(rho, p), fn.L2(0.1))
    found = certify(problem, Known(w))
    assert found.dual <= best + 1e-6
    assert found.primal >= best - 1e-6
    assert found.relative < 1e-3
