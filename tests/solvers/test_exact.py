"""The exact solver against CVXPY, against itself in other guises, and against closed forms."""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import xrisk.functions as fn
from xrisk import Problem
from xrisk.generic import generic
from xrisk.inner import (
    Groups,
    LinearModel,
    as_rows,
)
from xrisk.inner.rows import frozen
from xrisk.solvers.exact import exact

ROWS, D, GROUPS = 60, 4, 6
OFFSETS = frozen(np.array([0, 5, 16, 20, 37, 48, 60]))
RIDGE, LOGISTIC = fn.L2(0.1), fn.Logistic()
BLOCKS = [fn.MaxOuter(), fn.LogSumExp(3.0), fn.TopSum(1), fn.TopSum(2), fn.TopSum(3)]


@generic
def cvx_loss(loss, z, y):
    """The loss of scores z as a CVXPY expression."""


@generic
def cvx_outer(f, u):
    """The sum of f over u as a CVXPY expression."""


@generic
def cvx_risk(rho, u):
    """The risk of u as a CVXPY expression."""


@generic
def cvx_penalty(r, w):
    """(penalty, constraints) as CVXPY expressions."""


cvx_loss.of(fn.Logistic)(lambda f, z, y: cp.logistic(-cp.multiply(y, z)))
cvx_loss.of(fn.Squared)(lambda f, z, y: cp.square(z - y) / 2)
cvx_loss.of(fn.HingeLoss)(lambda f, z, y: cp.pos(1 - cp.multiply(y, z)))
cvx_loss.of(fn.SquaredHinge)(lambda f, z, y: cp.square(cp.pos(1 - cp.multiply(y, z))))
cvx_loss.of(fn.SmoothedHinge)(lambda f, z, y: cp.huber(cp.pos(1 - cp.multiply(y, z)), f.width) / (2 * f.width))
cvx_loss.of(fn.Huber)(lambda f, z, y: cp.huber(z - y, f.delta) / 2)
cvx_loss.of(fn.Absolute)(lambda f, z, y: cp.abs(z - y))
cvx_loss.of(fn.Pinball)(lambda f, z, y: cp.maximum(f.quantile * (y - z), (1 - f.quantile) * (z - y)))
cvx_loss.of(fn.ExponentialLoss)(lambda f, z, y: cp.exp(-cp.multiply(y, z)))
cvx_loss.of(fn.AffineLoss)(lambda f, z, y: z - y)

cvx_outer.of(fn.CVaRHinge)(lambda f, u: cp.pos(u) / f.alpha)
cvx_outer.of(fn.ChiSquareA)(lambda f, u: f.lam * (cp.square(cp.pos(u / f.lam + 1)) / 2 - 0.5))
cvx_outer.of(fn.ChiSquareB)(lambda f, u: f.lam * (cp.square(cp.pos(u / f.lam + 2)) / 4 - 1))
cvx_outer.of(fn.Square)(lambda f, u: f.scale * cp.square(u))
cvx_outer.of(fn.Power)(lambda f, u: cp.power(cp.pos(u), f.p))
cvx_outer.of(fn.Exponential)(lambda f, u: f.tau * cp.exp(u / f.tau))
cvx_outer.of(fn.Softplus)(lambda f, u: cp.logistic(u))
cvx_outer.of(fn.LogisticOuter)(lambda f, u: cp.logistic(-f.sign * u))
cvx_outer.of(fn.Identity)(lambda f, u: u)
cvx_outer.of(fn.HardSmooth)(lambda f, u: cp.huber(u, 1) / 2 + f.nu * u)
cvx_outer.of(fn.HardNonsmooth)(lambda f, u: f.beta * cp.maximum(u, -f.nu))
cvx_outer.of(fn.Smoothed)(lambda f, u: cp.huber(cp.pos(u), f.nu / f.f.alpha) / (2 * f.nu))
cvx_outer.of(fn.Scaled)(lambda f, u: f.factor * cvx_outer(f.f, f.slope * u + f.shift) + f.constant)
cvx_outer.of(fn.MaxOuter)(lambda f, u: cp.max(u, axis=1))
cvx_outer.of(fn.LogSumExp)(lambda f, u: cp.log_sum_exp(f.beta * u, axis=1) / f.beta)
cvx_outer.of(fn.TopSum)(lambda f, u: cp.hstack([cp.sum_largest(u[i], f.k) for i in range(u.shape[0])]))


def cvx_thresholded(rho, u):
    c = cp.Variable()
    return c + cp.sum(cvx_outer(fn.risk_outer(rho, u.size), cp.reshape(u, (u.size,), order="C") - c)) / u.size


cvx_risk.of(fn.MaxRisk)(lambda rho, u: cp.max(u))
cvx_risk.of(fn.KLRisk)(lambda rho, u: rho.lam * (cp.log_sum_exp(u / rho.lam) - np.log(u.size)))
for _risk in (fn.CVaRRisk, fn.ChiSquareRiskA, fn.ChiSquareRiskB):
    cvx_risk.of(_risk)(cvx_thresholded)

cvx_penalty.of(fn.NoPenalty)(lambda r, w: (0, []))
cvx_penalty.of(fn.L1)(lambda r, w: (r.l1 * cp.norm1(w), []))
cvx_penalty.of(fn.L2)(lambda r, w: (r.l2 / 2 * cp.sum_squares(w), []))
cvx_penalty.of(fn.ElasticNet)(lambda r, w: (r.l1 * cp.norm1(w) + r.l2 / 2 * cp.sum_squares(w), []))
cvx_penalty.of(fn.Box)(lambda r, w: (0, [w >= r.low, w <= r.high]))
cvx_penalty.of(fn.Ball)(lambda r, w: (0, [cp.norm2(w) <= r.radius]))
cvx_penalty.of(fn.NonNegative)(lambda r, w: (0, [w >= 0]))
cvx_penalty.of(fn.Simplex)(lambda r, w: (0, [w >= 0, cp.sum(w) == r.total]))
cvx_penalty.of(fn.CappedSimplex)(lambda r, w: (0, [w >= 0, w <= r.cap, cp.sum(w) == r.total]))
cvx_penalty.of(fn.Unpenalised)(lambda r, w: cvx_penalty(r.penalty, w[: w.size - r.free]))


@cvx_penalty.of(fn.GroupLasso)
def _(r, w):
    norms = [cp.norm2(w[i : i + r.size]) for i in range(0, w.size, r.size)]
    return r.strength * cp.sum(cp.hstack(norms)) + r.l2 / 2 * cp.sum_squares(w), []


@cvx_penalty.of(fn.Restricted)
def _(r, w):
    return cvx_penalty(r.penalty, w)[0], cvx_penalty(r.domain, w)[1]


def data(seed=0, rows=ROWS, d=D):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, d))
    return X, X @ rng.standard_normal(d) + rng.standard_normal(rows)


def groups(loss=LOGISTIC, dim=1, seed=0, X=None):
    """Six groups of sixty rows; labels carry noise, so nothing is separable."""
    Z, y = data(seed)
    X = Z if X is None else X
    target = np.where(y > 0, 1.0, -1.0) if fn.loss_is_classification(loss) else y
    return Groups(LinearModel(as_rows(X), frozen(target), loss), OFFSETS, dim=dim)


def cvx_value(problem, X=None):
    """The optimum by CVXPY; of a linear model with rows in order."""
    g = problem.inner
    X = np.asarray(g.model.rows.X, dtype=float) if X is None else X
    w = cp.Variable(X.shape[1])
    losses = cvx_loss(g.model.loss, X @ w, g.model.target)
    spans = list(zip(g.offsets[:-1], g.offsets[1:], strict=True))
    u = cp.hstack([cp.sum(losses[a:b]) / (b - a) for a, b in spans])
    return cvx_minimum(problem, u, w)


def cvx_minimum(problem, u, w):
    if type(problem.outer) in cvx_risk.table:
        joined = cvx_risk(problem.outer, u)
    else:
        m = problem.inner.dim
        blocks = u if type(problem.outer) in fn.outer_value.table else cp.reshape(u, (u.size // m, m), order="C")
        joined = cp.sum(cvx_outer(problem.outer, blocks)) / (u.size // m)
    penalty, constraints = cvx_penalty(problem.penalty, w)
    task = cp.Problem(cp.Minimize(joined + penalty), constraints)
    precise = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"), 1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says so when it stops short of such a tolerance
        task.solve(solver=cp.CLARABEL, max_iter=200, **precise)
    return task.value


def assert_optimal(problem, expected=None):
    expected = cvx_value(problem) if expected is None else expected
    best = exact(problem)
    slack = 1e-7 * max(1.0, abs(expected))
    assert best.value == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert best.value <= expected + slack
    assert best.value == problem.value(best.w)
    assert best.gap <= 1.01e-9 * max(abs(best.value), 1e-3 * max(1.0, abs(problem.value(0 * best.w))))
    assert best.stop == "the gap is within the tolerance"
    return best


LOSSES = [
    fn.Logistic(),
    fn.Squared(),
    fn.HingeLoss(),
    fn.SquaredHinge(),
    fn.SmoothedHinge(0.5),
    fn.Huber(0.7),
    fn.Absolute(),
    fn.Pinball(0.3),
    fn.ExponentialLoss(),
]
OUTERS = [
    fn.CVaRHinge(0.3),
    fn.ChiSquareA(0.5),
    fn.ChiSquareB(0.5),
    fn.Power(2.0),
    fn.Power(1.5),
    fn.Power(3.0),
    fn.Exponential(0.5),
    fn.Softplus(),
    fn.LogisticOuter(-1.0),
    fn.Identity(),
    fn.HardNonsmooth(2.0, 0.1),
    fn.Smoothed(fn.CVaRHinge(0.3), 0.2),
    fn.Scaled(fn.CVaRHinge(0.3), 2.0, 0.5, -0.3, 1.0),
    fn.Scaled(fn.Power(3.0), 2.0, 0.5, -0.2, 1.0),
    fn.Scaled(fn.Exponential(0.7), 2.0, 0.5, -0.2, 1.0),
]
RISKS = [
    fn.MaxRisk(),
    fn.CVaRRisk(0.1),
    fn.CVaRRisk(0.5),
    fn.CVaRRisk(0.7),
    fn.CVaRRisk(1.0),
    fn.ChiSquareRiskA(0.05),
    fn.ChiSquareRiskB(0.3),
    fn.KLRisk(0.05),
]
PENALTIES = [
    fn.NoPenalty(),
    fn.L1(0.05),
    fn.L2(0.3),
    fn.ElasticNet(0.05, 0.1),
    fn.GroupLasso(0.05, 0.0, 2),
    fn.GroupLasso(0.05, 0.1, 3),
    fn.Box(-0.2, 0.1),
    fn.Box(-5.0, 5.0),
    fn.Box(0.1, 0.3),
    fn.Ball(0.2),
    fn.NonNegative(),
    fn.Simplex(0.7),
    fn.CappedSimplex(1.0, 0.4),
    fn.CappedSimplex(1.0, 0.25),
    fn.Restricted(fn.L2(0.1), fn.Ball(0.3)),
    fn.Restricted(fn.ElasticNet(0.05, 0.1), fn.Box(-0.2, 0.2)),
    fn.Restricted(fn.ElasticNet(0.05, 0.1), fn.NonNegative()),
    fn.Restricted(fn.L2(0.1), fn.Simplex(1.0)),
    fn.Unpenalised(fn.L2(0.3), 1),
    fn.Unpenalised(fn.L1(0.1), 2),
    fn.Unpenalised(fn.Ball(0.2), 1),
    fn.Unpenalised(fn.Simplex(1.0), 1),
]


def name(spec):
    return str(spec).replace(" ", "")


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_every_loss_agrees_with_cvxpy(loss):
    assert_optimal(Problem(groups(loss), fn.CVaRRisk(0.4), RIDGE))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_mean_of_every_loss_agrees_with_cvxpy(loss):
    assert_optimal(Problem(groups(loss), fn.Identity(), fn.NoPenalty()))


@pytest.mark.parametrize("outer", OUTERS, ids=name)
def test_every_outer_function_agrees_with_cvxpy(outer):
    assert_optimal(Problem(groups(), outer, RIDGE))


@pytest.mark.parametrize("outer", [*OUTERS, fn.Square(0.5), fn.LogisticOuter(1.0), fn.HardSmooth(0.3)], ids=name)
def test_every_outer_function_of_affine_losses_agrees_with_cvxpy(outer):
    assert_optimal(Problem(groups(fn.AffineLoss()), outer, RIDGE))


@pytest.mark.parametrize("risk", RISKS, ids=name)
def test_every_risk_agrees_with_cvxpy(risk):
    assert_optimal(Problem(groups(), risk, RIDGE))


@pytest.mark.parametrize("risk", RISKS, ids=name)
def test_every_risk_of_a_kinked_loss_without_penalty_agrees_with_cvxpy(risk):
    assert_optimal(Problem(groups(fn.Absolute()), risk))


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_every_penalty_agrees_with_cvxpy(penalty):
    assert_optimal(Problem(groups(), fn.CVaRRisk(0.4), penalty))


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_every_penalty_with_a_smooth_objective_agrees_with_cvxpy(penalty):
    assert_optimal(Problem(groups(fn.Squared()), fn.Identity(), penalty))


@pytest.mark.parametrize(
    "outer", [fn.MaxOuter(), fn.LogSumExp(3.0), fn.TopSum(1), fn.TopSum(2), fn.TopSum(3)], ids=name
)
@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss()], ids=name)
def test_every_outer_function_of_blocks_agrees_with_cvxpy(outer, loss):
    assert_optimal(Problem(groups(loss, dim=3), outer, RIDGE))


@pytest.mark.parametrize("outer", [fn.MaxOuter(), fn.LogSumExp(3.0), fn.TopSum(1)], ids=name)
def test_a_block_of_one_is_the_mean(outer):
    expected = exact(Problem(groups(), fn.Identity(), RIDGE)).value
    assert exact(Problem(groups(), outer, RIDGE)).value == pytest.approx(expected, rel=1e-9)
