"""Random small problems of every kind, and random points to certify them at."""

from typing import NamedTuple

import numpy as np
import scipy.sparse

import xrisk.functions as fn
from xrisk import Problem
from xrisk.data.rows import frozen, row_count
from xrisk.inner import (
    Equal,
    Groups,
    Indexed,
    InOrder,
    LinearModel,
    Pairs,
    Partitioned,
    SoftmaxModel,
    Weighted,
    WithIntercept,
    as_rows,
    inner_count,
    inner_dim,
)
from xrisk.inner.passes import Slopes, pass_rows, score_count

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
    fn.AffineLoss(),
    fn.MarginLoss(),
    fn.Multinomial(),
]
MONOTONE = [
    fn.Identity(),
    fn.CVaRHinge(0.3),
    fn.ChiSquareA(0.5),
    fn.ChiSquareB(0.5),
    fn.Power(1.1),
    fn.Power(1.5),
    fn.Power(3.0),
    fn.Exponential(0.5),
    fn.Softplus(),
    fn.LogisticOuter(-1.0),
    fn.HardNonsmooth(2.0, 0.1),
    fn.Smoothed(fn.CVaRHinge(0.3), 0.2),
    fn.Smoothed(fn.Exponential(0.5), 0.2),
    fn.Scaled(fn.CVaRHinge(0.3), 2.0, 0.5, -0.3, 1.0),
    fn.Scaled(fn.Exponential(0.7), 2.0, 0.5, -0.2, -3.0),
]
FREE = [fn.Square(0.5), fn.LogisticOuter(1.0), fn.HardSmooth(0.3), fn.Scaled(fn.Square(), 1.0, 2.0, 5.0, -3.0)]
JOINT = [fn.MaxOuter(), fn.LogSumExp(3.0), fn.TopSum(2)]
RISKS = [
    fn.MaxRisk(),
    fn.CVaRRisk(0.1),
    fn.CVaRRisk(0.45),
    fn.CVaRRisk(1.0),
    fn.ChiSquareRiskA(0.3),
    fn.ChiSquareRiskB(2.0),
    fn.KLRisk(0.05),
    fn.KLRisk(1e6),
]
PENALTIES = [
    fn.L2(0.1),
    fn.L2(1e-4),
    fn.ElasticNet(0.05, 0.1),
    fn.ElasticNet(0.3, 1e-3),
    fn.GroupLasso(0.1, 0.1, 2),
    fn.Ball(0.3),
    fn.Ball(10.0),
    fn.Box(-0.2, 0.5),
    fn.Box(0.1, 0.4),
    fn.Box(-1e3, 1e-3),
    fn.Restricted(fn.L2(0.1), fn.Ball(0.5)),
    fn.Restricted(fn.ElasticNet(0.05, 0.1), fn.Ball(0.5)),
    fn.Restricted(fn.L2(0.1), fn.Box(-0.3, 0.2)),
    fn.Restricted(fn.ElasticNet(0.05, 0.1), fn.Box(0.1, 2.0)),
    fn.Restricted(fn.L2(0.1), fn.NonNegative()),
    fn.Restricted(fn.ElasticNet(0.05, 0.1), fn.NonNegative()),
    fn.Simplex(0.7),
    fn.Restricted(fn.L2(0.1), fn.Simplex(1.0)),
    fn.L1(0.1),
    fn.NonNegative(),
    fn.NoPenalty(),
    fn.Tilted(fn.L2(0.1), np.array([0.3]), -2.0),
    fn.Tilted(fn.ElasticNet(0.05, 0.1), np.array([-1e3]), 1e6),
    fn.Tilted(fn.Restricted(fn.L2(1e-3), fn.Simplex(0.7)), np.array([1e-3])),
    fn.Tilted(fn.Box(-0.2, 0.5), np.array([-5.0])),
    fn.Tilted(fn.NonNegative(), np.array([0.4])),
    fn.L1Ball(0.4),
    fn.SolidSimplex(0.4),
    fn.LeveragedBudget(-0.3, 2.0),
    fn.Hyperplane(0.3),
    fn.Tilted(fn.Restricted(fn.L2(0.1), fn.Hyperplane(0.3)), np.array([1e4])),
    fn.Tilted(fn.Restricted(fn.L2(1e-3), fn.LeveragedBudget(0.5, 2.0)), np.array([0.2])),
    fn.Restricted(fn.L2(0.1), fn.L1Ball(0.4)),
    fn.Restricted(fn.L2(0.1), fn.SolidSimplex(0.4)),
]


class Known(NamedTuple):
    """What `certify` may be told: a point, dual weights, slopes."""

    w: np.ndarray
    dual: np.ndarray | None = None
    slopes: Slopes | None = None


def pick(rng, choices):
    return choices[int(rng.integers(len(choices)))]


def random_problem(rng, *, loss=None, outer=None, penalty=None):
    """A problem of 5 to 60 rows; what is not given is drawn."""
    loss = pick(rng, LOSSES) if loss is None else loss
    n, dim = int(rng.integers(1, 7)), 1
    if outer is None:
        outer = pick(rng, RISKS if rng.random() < 0.5 else MONOTONE + (3 * FREE if fn.loss_is_affine(loss) else JOINT))
    if type(outer) in fn.block_value.table:
        n, dim = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    inner = random_groups(rng, loss, n * dim)._replace(dim=dim)
    penalty = pick(rng, PENALTIES) if penalty is None else penalty
    if isinstance(inner.model.rows, WithIntercept):
        penalty = fn.Unpenalised(penalty, 1)
    return Problem(inner, outer, penalty)


def random_groups(rng, loss, groups):
    n, d = int(rng.integers(max(5, groups), 61)), int(rng.integers(1, 6))
    X = rng.standard_normal((n, d)) * pick(rng, (1.0, 1.0, 1e-3, 10.0))
    model = random_model(rng, loss, random_rows(rng, X), X @ rng.standard_normal(d) + rng.standard_normal(n))
    labels = rng.permutation(np.concatenate([np.arange(groups), rng.integers(0, groups, n - groups)]))
    offsets = frozen(np.concatenate([[0], np.cumsum(np.bincount(labels))]))
    order, weights = np.argsort(labels, kind="stable"), rng.exponential(size=n)
    listed = Indexed(frozen(rng.integers(0, n, n)))
    index = pick(rng, (InOrder(), InOrder(), listed, Partitioned(frozen(order), frozen(labels.astype(np.int32)))))
    weight = Weighted(frozen(weights[order]), frozen(weights)) if rng.random() < 0.3 else Equal()
    return Groups(model, offsets, index, weight)


def random_pairs(rng, loss, *, outer=None, penalty=None):
    """A problem of means over pairs of 5 to 40 rows; the outer function and the penalty are drawn if not given."""
    n, d = int(rng.integers(5, 41)), int(rng.integers(2, 6))
    X = rng.standard_normal((n, d)) * pick(rng, (1.0, 1e-3, 10.0)) + pick(rng, (0.0, 5.0))
    ahead = int(rng.integers(1, n))
    rows = as_rows(pick(rng, (X, X.astype(np.float32), scipy.sparse.csr_array(np.where(np.abs(X) < 0.5, 0, X)))))
    inner = Pairs(rows, frozen(np.arange(ahead)), frozen(np.arange(ahead, n)), loss, pick(rng, (1.0, -1.0)))
    outer = pick(rng, RISKS + MONOTONE + (FREE if fn.loss_is_affine(loss) else [])) if outer is None else outer
    return Problem(inner, outer, pick(rng, PENALTIES) if penalty is None else penalty)


def random_rows(rng, X):
    stored = rng.integers(4)
    rows = as_rows([X, X.astype(np.float32), scipy.sparse.csr_array(np.where(np.abs(X) < 0.5, 0, X)), X][stored])
    return WithIntercept(rows) if rng.random() < 0.2 else rows


def random_model(rng, loss, rows, y):
    if isinstance(loss, fn.Multinomial):
        classes = int(rng.integers(2, 4))
        return SoftmaxModel(rows, frozen(rng.integers(0, classes, y.size)), classes, loss)
    target = np.where(y > 0, 1.0, -1.0) if fn.loss_is_classification(loss) else y * pick(rng, (1.0, 1.0, 100.0))
    return LinearModel(rows, frozen(target), loss)


def random_points(rng, problem, near):
    """Points of every size, most with duals that are not feasible; ``near`` (d,) is one to stay close to."""
    g, d = problem.inner, near.size
    n, m = inner_count(g), inner_dim(g)
    points = [np.zeros(d), near, near + 1e-8 * rng.standard_normal(d)]
    points += [size * rng.standard_normal(d) for size in (1e-12, 0.1, 1.0, 1e3, 1e6)]
    for w in points[1:]:
        if rng.random() < 0.7:
            fn.prox(problem.penalty, w, 1e-300)
    known = [Known(w) for w in points]
    size = pick(rng, (1.0, 1e-6, 1e6))
    known += [Known(w, size * rng.standard_normal((n, m))) for w in points]
    known += [Known(w, rng.exponential(size=(n, m)), random_slopes(rng, g, size)) for w in points[:4]]
    return known


def random_slopes(rng, g, size):
    scores = (row_count(pass_rows(g)), score_count(g))
    z, direction = size * rng.standard_normal((2, *scores))
    return Slopes(z, direction, rng.standard_normal(inner_count(g) * inner_dim(g)), pick(rng, (0.0, 1e-9, 0.1)) * size)
