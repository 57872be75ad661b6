"""The exact solver against CVXPY, against itself in other guises, and against closed forms."""

import itertools
import warnings
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

import xrisk.functions as fn
from xrisk import Problem, Stop, certify
from xrisk.data.rows import frozen
from xrisk.functions.smoothing import smoothable_loss
from xrisk.generic import generic
from xrisk.inner import (
    Callables,
    Groups,
    Indexed,
    LinearModel,
    NoisyCoordinates,
    Partitioned,
    SoftmaxModel,
    Weighted,
    WithIntercept,
    as_rows,
)
from xrisk.inner.passes import Scores, pass_loss, score_count, scores_at, walk, with_loss
from xrisk.inner.visitors import DualTerms
from xrisk.solvers import exact

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


class ForeignSquare(NamedTuple):
    """f(u) = u² on u ≥ 0, known by value, slope and curvature; losses are not negative."""


fn.outer_value.of(ForeignSquare)(lambda f, u: u * u)
fn.outer_slope.of(ForeignSquare)(lambda f, u: 2 * u)
fn.outer_curvature.of(ForeignSquare)(lambda f, u: 2.0)
fn.outer_conjugate.of(ForeignSquare)(lambda f, y: y * y / 4)
fn.outer_domain.of(ForeignSquare)(lambda f: (-np.inf, np.inf))
fn.outer_is_monotone.of(ForeignSquare)(lambda f: True)


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
    u = cp.hstack([cp.sum(losses[a:b]) / (b - a) for a, b in itertools.pairwise(g.offsets)])
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


def slopes(problem, best):
    """The slopes v of the losses (rows, scores) that a result keeps by the scores they come from; rows in order."""
    g = with_loss(problem.inner, smoothable_loss(pass_loss(problem.inner)))
    z, direction, factor, mu = best.slopes
    unsized = np.zeros(z.shape[0])
    every = walk(g, DualTerms(mu), Scores(z, direction, unsized, unsized, factor), np.diff(g.offsets).astype(float))
    return every.coefs[: score_count(g)].T


def assert_optimal(problem, expected=None):
    expected = cvx_value(problem) if expected is None else expected
    best = exact(problem)
    slack = 1e-7 * max(1.0, abs(expected))
    assert best.value == pytest.approx(expected, rel=1e-6, abs=1e-8)
    assert best.value <= expected + slack
    assert best.value == pytest.approx(problem.value(best.w), rel=1e-14)
    assert best.gap <= 1.01e-9 * max(abs(best.value), 1e-3 * max(1.0, abs(problem.value(0 * best.w))))
    assert best.stop is Stop.CONVERGED
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


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """What nearly every test needs compiled: outside their time."""
    exact(Problem(groups(), fn.CVaRRisk(0.4), RIDGE))


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


def test_dual_weights_and_slopes_certify_the_optimum():
    problem = Problem(groups(fn.HingeLoss()), fn.CVaRRisk(0.4), RIDGE)
    assert certify(problem, exact(problem)).relative < 2e-9


@pytest.mark.parametrize("risk", RISKS, ids=name)
def test_dual_weights_of_a_risk_are_in_its_dual_set(risk):
    best = exact(Problem(groups(), risk, RIDGE))
    q = best.dual[:, 0] / GROUPS
    near = q.copy()
    fn.risk_project(risk, near)
    np.testing.assert_allclose(q, near, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_slopes_are_in_the_domain_of_the_conjugate(loss):
    problem = Problem(groups(loss), fn.CVaRRisk(0.4), RIDGE)
    best = exact(problem)
    bounds, v = np.array([fn.loss_domain(loss, y) for y in problem.inner.model.target]), slopes(problem, best)[:, 0]
    assert (bounds[:, 0] <= v).all()
    assert (v <= bounds[:, 1]).all()


def test_the_duals_balance_the_gradient():
    problem = Problem(groups(fn.Absolute()), fn.MaxRisk(), RIDGE)
    best = exact(problem)
    weight = np.repeat(best.dual[:, 0] / GROUPS / np.diff(OFFSETS), np.diff(OFFSETS))
    adjoint = (weight * slopes(problem, best)[:, 0]) @ problem.inner.model.rows.X
    np.testing.assert_allclose(-adjoint / RIDGE.l2, best.w, atol=1e-4)


def test_sparse_rows_are_dense_rows():
    X = np.where(np.random.default_rng(1).random((ROWS, D)) < 0.5, 0.0, data()[0])
    dense = exact(Problem(groups(X=X), fn.CVaRRisk(0.4), RIDGE))
    sparse = exact(Problem(groups(X=scipy.sparse.csr_matrix(X)), fn.CVaRRisk(0.4), RIDGE))
    np.testing.assert_allclose(sparse.w, dense.w, atol=1e-9)
    assert sparse.value == pytest.approx(dense.value, rel=1e-12)


def test_very_sparse_rows_are_dense_rows():
    X = np.zeros((ROWS, 40))
    X[np.arange(ROWS), np.arange(ROWS) % 40] = 1.0
    X[np.arange(ROWS), np.arange(ROWS) % 7] = -0.5
    dense = exact(Problem(groups(X=X), fn.CVaRRisk(0.4), RIDGE))
    sparse = exact(Problem(groups(X=scipy.sparse.csr_matrix(X)), fn.CVaRRisk(0.4), RIDGE))
    assert sparse.value == pytest.approx(dense.value, rel=1e-12)


def test_single_precision_rows_are_solved_in_double_precision():
    X = data()[0].astype(np.float32)
    expected = exact(Problem(groups(X=X.astype(np.float64)), fn.CVaRRisk(0.4), RIDGE))
    found = exact(Problem(groups(X=X), fn.CVaRRisk(0.4), RIDGE))
    assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_a_memory_map_is_an_array(tmp_path):
    X = data()[0]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = exact(Problem(groups(X=mapped), fn.CVaRRisk(0.4), RIDGE))
    assert found.value == exact(Problem(groups(X=X), fn.CVaRRisk(0.4), RIDGE)).value


def test_an_intercept_is_a_column_of_ones():
    X = data()[0]
    penalty = fn.Unpenalised(RIDGE, 1)
    inner = groups()
    hidden = inner._replace(model=inner.model._replace(rows=WithIntercept(inner.model.rows)))
    ones = groups(X=np.hstack([X, np.ones((ROWS, 1))]))
    expected = exact(Problem(ones, fn.CVaRRisk(0.4), penalty))
    found = exact(Problem(hidden, fn.CVaRRisk(0.4), penalty))
    np.testing.assert_allclose(found.w, expected.w, atol=1e-8)


def test_listed_rows_are_copied_rows():
    rows = np.random.default_rng(2).integers(0, ROWS, 90)
    offsets = frozen(np.array([0, 30, 40, 75, 90]))
    inner = groups(fn.HingeLoss())
    listed = inner._replace(offsets=offsets, index=Indexed(frozen(rows)))
    model = LinearModel(as_rows(inner.model.rows.X[rows]), frozen(inner.model.target[rows]), fn.HingeLoss())
    expected = exact(Problem(Groups(model, offsets), fn.CVaRRisk(0.4), RIDGE))
    found = exact(Problem(listed, fn.CVaRRisk(0.4), RIDGE))
    assert found.value == pytest.approx(expected.value, rel=1e-11)


@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss()], ids=name)
def test_rows_of_mixed_groups_are_sorted_rows(loss):
    codes = np.random.default_rng(3).permutation(np.arange(ROWS) % GROUPS).astype(np.int32)
    order, offsets = np.argsort(codes, kind="stable"), frozen(np.arange(0, ROWS + 1, ROWS // GROUPS))
    inner = groups(loss)
    mixed = inner._replace(offsets=offsets, index=Partitioned(frozen(order), frozen(codes)))
    model = LinearModel(as_rows(inner.model.rows.X[order]), frozen(inner.model.target[order]), loss)
    expected = exact(Problem(Groups(model, offsets), fn.CVaRRisk(0.4), RIDGE))
    assert exact(Problem(mixed, fn.CVaRRisk(0.4), RIDGE)).value == pytest.approx(expected.value, rel=1e-11)


def test_weights_are_repeated_rows():
    X, y = data()
    y = np.where(y > 0, 1.0, -1.0)
    counts = np.random.default_rng(3).integers(1, 4, ROWS)
    group = np.repeat(np.arange(GROUPS), np.diff(OFFSETS))
    sums = np.bincount(group, counts)
    offsets = frozen(np.append(0, np.cumsum(sums)).astype(np.int64))
    repeated = Groups(
        LinearModel(as_rows(np.repeat(X, counts, axis=0)), frozen(np.repeat(y, counts)), LOGISTIC), offsets
    )
    weights = frozen(counts * (np.diff(OFFSETS) / sums)[group])
    weighted = groups()._replace(weight=Weighted(weights))
    expected = exact(Problem(repeated, fn.CVaRRisk(0.4), RIDGE))
    assert exact(Problem(weighted, fn.CVaRRisk(0.4), RIDGE)).value == pytest.approx(expected.value, rel=1e-11)


@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss(), fn.ExponentialLoss()], ids=name)
def test_the_scale_of_features_does_not_matter(loss):
    X, scale = data()[0], np.array([1e6, 1e-6, 1.0, 1e3])
    plain = exact(Problem(groups(loss), fn.CVaRRisk(0.4)))
    scaled = exact(Problem(groups(loss, X=X * scale), fn.CVaRRisk(0.4)))
    assert scaled.value == pytest.approx(plain.value, rel=2e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e6, 1e12])
def test_the_scale_of_targets_does_not_matter(scale):
    inner = groups(fn.Absolute())
    scaled = inner._replace(model=inner.model._replace(target=frozen(inner.model.target * scale)))
    plain = exact(Problem(inner, fn.CVaRRisk(0.4))).value
    assert exact(Problem(scaled, fn.CVaRRisk(0.4))).value == pytest.approx(scale * plain, rel=2e-9)


def test_constant_and_collinear_features_change_nothing():
    X = data()[0]
    more = np.hstack([X, X[:, :2], np.zeros((ROWS, 1))])
    plain = exact(Problem(groups(fn.HingeLoss()), fn.MaxRisk()))
    assert exact(Problem(groups(fn.HingeLoss(), X=more), fn.MaxRisk())).value == pytest.approx(plain.value, rel=2e-9)


@pytest.mark.parametrize("penalty", [fn.L2(0.1), fn.L1(0.05), fn.Simplex()], ids=name)
@pytest.mark.parametrize("loss", [fn.Logistic(), fn.Absolute()], ids=name)
def test_more_features_than_rows_agree_with_cvxpy(penalty, loss):
    X = np.random.default_rng(5).standard_normal((ROWS, 80))
    assert_optimal(Problem(groups(loss, X=X), fn.CVaRRisk(0.4), penalty))


@pytest.mark.parametrize("offsets", [[0, 60], list(range(61))], ids=["one group", "one row each"])
@pytest.mark.parametrize("risk", [fn.MaxRisk(), fn.CVaRRisk(0.3), fn.ChiSquareRiskB(0.2), fn.KLRisk(0.2)], ids=name)
def test_any_sizes_of_groups_agree_with_cvxpy(offsets, risk):
    inner = groups(fn.HingeLoss())._replace(offsets=frozen(np.array(offsets)))
    assert_optimal(Problem(inner, risk, fn.L2(0.01)))


@pytest.mark.parametrize("outer", [fn.CVaRRisk(0.4), fn.Identity(), fn.Power(2.0)], ids=name)
@pytest.mark.parametrize("penalty", [fn.L2(0.1), fn.Ball(0.5)], ids=name)
def test_softmax_agrees_with_cvxpy(outer, penalty):
    X, y = data()
    target = np.digitize(y, [-1.0, 1.0])
    inner = Groups(SoftmaxModel(as_rows(X), frozen(target), 3), OFFSETS)
    w = cp.Variable(3 * D)
    scores = X @ cp.reshape(w, (3, D), order="C").T
    losses = cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(scores, np.eye(3)[target]), axis=1)
    u = cp.hstack([cp.sum(losses[a:b]) / (b - a) for a, b in itertools.pairwise(OFFSETS)])
    problem = Problem(inner, outer, penalty)
    assert_optimal(problem, cvx_minimum(problem, u, w))


def test_slopes_of_many_classes_are_probabilities_less_the_class():
    X, y = data()
    target = np.digitize(y, [-1.0, 1.0])
    problem = Problem(Groups(SoftmaxModel(as_rows(X), frozen(target), 3), OFFSETS), fn.CVaRRisk(0.4), RIDGE)
    best = exact(problem)
    odds = np.exp(X @ best.w.reshape(3, D).T)
    expected = odds / odds.sum(axis=1, keepdims=True) - np.eye(3)[target]
    np.testing.assert_allclose(slopes(problem, best), expected, atol=1e-6)


def test_two_classes_of_softmax_are_the_logistic_loss():
    X, y = data()
    inner = Groups(SoftmaxModel(as_rows(X), frozen((y > 0).astype(np.int64)), 2), OFFSETS)
    expected = exact(Problem(groups(), fn.CVaRRisk(0.4))).value
    assert exact(Problem(inner, fn.CVaRRisk(0.4))).value == pytest.approx(expected, rel=2e-9)


@pytest.mark.parametrize("nu", [0.3, 0.01])
def test_smooth_hard_instance_has_its_closed_form(nu):
    problem = Problem(NoisyCoordinates(8, nu), fn.HardSmooth(nu), fn.Restricted(fn.L2(1 / 16), fn.Box(-1.0, 1.0)))
    best = exact(problem)
    assert best.value == pytest.approx(-(nu**2) / 3, rel=2e-9)
    np.testing.assert_allclose(best.w, -2 * nu / 3, rtol=1e-4)
    np.testing.assert_allclose(best.dual, nu / 3, rtol=1e-4)


@pytest.mark.parametrize(("alpha", "expected"), [(0.5, -1.7 * 0.3 + 0.25 * 0.09), (20.0, -(1.7**2) / 40)])
def test_nonsmooth_hard_instance_has_its_closed_form(alpha, expected):
    domain = fn.Restricted(fn.L2(alpha / 8), fn.Box(-0.6, 0.6))
    best = exact(Problem(NoisyCoordinates(8, 0.3), fn.HardNonsmooth(1.7, 0.3), domain))
    assert best.value == pytest.approx(expected, rel=2e-9)


@pytest.mark.parametrize("loss", [fn.Logistic(), fn.ExponentialLoss()], ids=name)
@pytest.mark.parametrize("outer", [fn.Identity(), fn.MaxRisk()], ids=name)
def test_separable_data_without_penalty_stop_honestly(loss, outer):
    X = data()[0]
    inner = groups(loss)
    separable = inner._replace(model=inner.model._replace(target=frozen(np.sign(X[:, 0]))))
    best = exact(Problem(separable, outer))
    assert best.stop is Stop.FLAT
    assert best.value < 1e-10


@pytest.mark.parametrize("outer", [fn.Identity(), fn.MaxRisk(), fn.CVaRRisk(0.5), fn.ChiSquareRiskA()], ids=name)
def test_an_objective_without_bound_stops_honestly(outer):
    inner = groups(fn.AffineLoss())._replace(offsets=frozen(np.array([0, 20, 40, 60])))
    assert exact(Problem(inner, outer)).stop is Stop.UNBOUNDED


def test_too_few_steps_stop_honestly():
    best = exact(Problem(groups(), fn.MaxRisk(), RIDGE), max_steps=3)
    assert best.stop is Stop.ITERATIONS
    assert best.progress.iterations == 3
    assert best.gap > 1e-6


def test_a_looser_tolerance_takes_fewer_steps_and_is_kept():
    problem = Problem(groups(), fn.MaxRisk(), RIDGE)
    loose, tight = exact(problem, tol=1e-3), exact(problem, tol=1e-10)
    assert loose.progress.iterations < tight.progress.iterations
    assert loose.value - tight.value <= 1e-3 * tight.value


def test_callables_are_refused():
    inner = Callables(1, 2, lambda *_: 0, lambda *_: 0.0, lambda *_: np.zeros(2), lambda *_: 0.0)
    with pytest.raises(ValueError, match="needs inner functions with full passes, got Callables"):
        exact(Problem(inner, fn.Softplus(), RIDGE))


def test_too_many_variables_are_refused():
    X = scipy.sparse.csr_matrix((ROWS, 6000))
    with pytest.raises(ValueError, match="at most 5000 variables, got 6000"):
        exact(Problem(groups(X=X), fn.Softplus(), RIDGE))


def test_losses_that_overflow_at_the_start_are_refused():
    X, scale = data()[0], 1e200
    inner = groups(fn.Squared(), X=X)
    huge = inner._replace(model=inner.model._replace(target=frozen(inner.model.target * scale)))
    with pytest.raises(ValueError, match="overflow"):
        exact(Problem(huge, fn.Identity(), RIDGE))


def test_scores_of_positions_follow_the_index():
    inner = groups()._replace(offsets=frozen(np.array([0, 2, 3])), index=Indexed(frozen(np.array([7, 1, 7]))))
    w = np.arange(4.0)
    np.testing.assert_allclose(scores_at(inner, w)[inner.index.rows, 0], inner.model.rows.X[[7, 1, 7]] @ w)


def test_a_foreign_outer_function_is_solved_by_its_own_curvature():
    expected = exact(Problem(groups(), fn.Power(2.0), RIDGE)).value
    assert exact(Problem(groups(), ForeignSquare(), RIDGE)).value == pytest.approx(expected, rel=2e-9)


def test_many_groups_end_converged():
    rng = np.random.default_rng(6)
    X = rng.standard_normal((3000, 5))
    y = np.where(X[:, 0] + rng.standard_normal(3000) > 0, 1.0, -1.0)
    inner = Groups(LinearModel(as_rows(X), frozen(y), fn.HingeLoss()), frozen(np.arange(0, 3001, 3)))
    best = exact(Problem(inner, fn.Scaled(fn.CVaRHinge(0.5), shift=-0.5), RIDGE))
    assert best.stop is Stop.CONVERGED
