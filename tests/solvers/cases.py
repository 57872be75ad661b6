"""Solvers and problems of the contract: a newcomer adds a row here and is tested."""

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.optimize
import scipy.special

import xrisk
from tests.conftest import table
from xrisk.compile import uncompiled
from xrisk.data.rows import frozen
from xrisk.functions import (
    L2,
    AffineLoss,
    Ball,
    ChiSquareRiskA,
    CVaRRisk,
    Identity,
    KLBallRisk,
    KLRisk,
    LogSumExp,
    MaxOuter,
    Restricted,
    Simplex,
    Square,
    WithMasses,
)
from xrisk.inner import BatchForAll, Groups, Indexed, LinearModel, Samples, as_rows, inner_pooled
from xrisk.problem import Problem
from xrisk.solvers import (
    ALEG,
    ALEXR,
    ALEXRDL,
    ASCDRO,
    ASCPG,
    ASCVRG,
    AUCM,
    BSGD,
    CSAGA,
    GDRO,
    LSVRG,
    MSVR,
    NASA,
    NOL,
    NSSD,
    OOA,
    PAUCI,
    PGSMD2,
    RECOVER,
    SAPD,
    SCDRO,
    SCENT,
    SCGD,
    SGD,
    SMD,
    SONEX,
    SONX,
    SOTA,
    SOX,
    SPD,
    SPDC,
    SSD,
    STACO1,
    STACO2,
    SVRPDAI,
    SVRPDAII,
    TINF,
    AccMDA,
    AllThresholds,
    AveragedGradient,
    BatchGradient,
    Bundle,
    CompositeNewton,
    CompositionalSVRG1,
    CompositionalSVRG2,
    Conjugate,
    CrossEntropy,
    Decreasing,
    Descent,
    Drago,
    DrawnGroup,
    DualSGM,
    Entropy,
    EqualClasses,
    ExactThresholds,
    Faces,
    FastDRO,
    FastDROMLMC,
    GeometricAverage,
    Growing,
    LastIterate,
    Lengthening,
    MeanPoint,
    MomentumSGD,
    Nesterov,
    Newton,
    PolynomialAverage,
    PrintedScaling,
    Prospect,
    RandomPoint,
    Restarted,
    RowNewton,
    SameBatch,
    SingleLoop,
    SmoothedLBFGS,
    SnapshotMSVR,
    SOTAs,
    StageAverage,
    Stagewise,
    TailSONEX,
    TailSONX,
    TheoryCorrection,
    UniformAverage,
    UpweightedSGD,
)


def cvar():
    return xrisk.group_dro(*table(), divergence="cvar", alpha=0.4, l2=0.1)


def worst():
    """A CVaR of less than one group is the maximum."""
    return xrisk.group_dro(*table(), divergence="cvar", alpha=0.1, l2=0.1)


def chi2():
    return xrisk.group_dro(*table(), divergence="chi2", lam=1.0, loss="squared_hinge", l2=0.1)


def chi2_logistic():
    return xrisk.group_dro(*table(), divergence="chi2", lam=1.0, l2=0.1)


def kl_sparse():
    import scipy.sparse

    X, y, groups = table()
    X = np.where(np.abs(X) < 0.7, 0.0, X)
    return xrisk.group_dro(scipy.sparse.csr_matrix(X), y, groups, divergence="kl", lam=0.5, l2=0.2)


def tasks(outer):
    """Three tasks of two groups each."""
    X, y, groups = table()
    inner = xrisk.group_dro(X, y, groups, l2=0.1).inner
    return Problem(inner._replace(dim=2), outer, L2(0.1))


def squares():
    """mean (mean_k ⟨x_k, w⟩ − y_k)² over groups: affine inner functions under a function that is not monotone."""
    X, y, groups = table()
    inner = xrisk.group_dro(X, y, groups).inner
    model = LinearModel(as_rows(X + 1.0), inner.model.target, AffineLoss())
    return Problem(Groups(model, inner.offsets, inner.index), Square(), Restricted(L2(0.05), Ball(5.0)))


def rows_of(ambiguity, **numbers):
    """The worst case over single rows."""
    X, y, _ = table()
    return xrisk.applications.sample_dro(X, y, ambiguity=ambiguity, l2=0.1, **numbers)


def single_rows():
    """mean (⟨x_k, w⟩ − y_k)² over thirty rows, each an inner function of its own."""
    stated = squares()
    rows = stated.inner.index.rows[:30]
    return stated._replace(
        inner=stated.inner._replace(offsets=frozen(np.arange(31)), index=Indexed(frozen(rows.copy())))
    )


def portfolio():
    """Mean and variance of twelve assets, long positions that sum to one: a face of the simplex."""
    rng = np.random.default_rng(0)
    returns = rng.standard_normal((40, 12)) @ rng.standard_normal((12, 12)) + 0.5
    return xrisk.applications.mean_variance_of_moments(returns.mean(0), np.cov(returns.T), domain=Simplex(1.0))


def pushed():
    X, y, _ = table(n=60)
    return xrisk.applications.p_norm_push(X, y, p=2.0, loss="logistic", l2=0.1)


def auc_tail(loss="hinge", **options):
    """Partial AUC with TPR ≥ ½, of losses with a kink."""
    X, y, _ = table(n=60)
    return xrisk.applications.partial_auc(X, y, min_tpr=0.5, loss=loss, l2=0.1, **options)


def highest_negative():
    """The mean over positives of their loss against the highest negative alone: top push, the other way round."""
    X, y, _ = table(n=60)
    share = 1.0 / np.count_nonzero(y < 0)
    return xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.0, max_fpr=share, l2=0.1)


def pushed_to_the_top(stated):
    """The same problem as a maximum over negatives."""
    X, y, _ = table(n=60)
    return xrisk.applications.top_push(X, y, l2=0.1)


def regrouped(offsets, rows=None):
    """The rows of ``cvar``, or those that are listed, in other groups."""
    stated = cvar()
    index = Indexed(frozen(np.array(stated.inner.index.rows if rows is None else rows)))
    return stated._replace(inner=stated.inner._replace(offsets=frozen(np.array(offsets)), index=index))


def pooled(stated):
    """The mean loss of all rows."""
    return Problem(inner_pooled(stated.inner), Identity(), stated.penalty)


def averaged(stated):
    """The mean of the inner functions."""
    return stated._replace(outer=Identity())


def noisy():
    return xrisk.applications.hard_smooth(5, eps=0.005).problem


def rankings():
    X, y, _ = table(n=60)
    return xrisk.applications.partial_auc(X, y, min_tpr=0.5, l2=0.1)


def two_way(loss="squared_hinge", **options):
    """Half of the positives against half of the negatives."""
    X, y, _ = table(n=60)
    return xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, loss=loss, l2=0.1, **options)


def two_way_sparse():
    import scipy.sparse

    X, y, _ = table(n=60)
    X = scipy.sparse.csr_matrix(np.where(np.abs(X) < 0.3, 0.0, X))
    return xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.3, max_fpr=0.4, loss="hinge", l2=0.1)


def tail_optimum(stated):
    """The optimum of a two-way partial AUC by an interior-point method on its pairs, l2 = 0.1."""
    import cvxpy as cp

    g = stated.inner
    rows = g.pairs.rows
    X = rows.X if hasattr(rows, "X") else np.array([_dense_row(rows, k) for k in range(rows.indptr.size - 1)])
    positive, negative = X[g.pairs.outer], X[g.pairs.inner]
    losses = {
        "HingeLoss": lambda margin: cp.pos(1.0 - margin),
        "SquaredHinge": lambda margin: cp.square(cp.pos(1.0 - margin)),
        "Logistic": lambda margin: cp.logistic(-margin),
    }
    loss, w = losses[type(g.pairs.loss).__name__], cp.Variable(X.shape[1])
    k = round(stated.outer.alpha * len(positive))
    inner = cp.hstack([cp.sum_largest(loss((x - negative) @ w), g.top) / g.top for x in positive])
    return cp.Problem(cp.Minimize(cp.sum_largest(inner, k) / k + 0.05 * cp.sum_squares(w))).solve()


def _dense_row(rows, k):
    x, place = np.zeros(rows.size), slice(rows.indptr[k], rows.indptr[k + 1])
    x[rows.indices[place]] = rows.data[place]
    return x


class Smooth(NamedTuple):
    """A smooth function of w (d), and of more behind it that is minimised over, l2 = 0.1 on w included."""

    function: Any  # of (w, the rest)
    rest: np.ndarray
    bounds: list[Any]
    d: int

    def value(self, w):
        return self._least(lambda rest: self.function(w, rest), self.rest, self.bounds)

    def optimum(self):
        start, bounds = np.append(np.zeros(self.d), self.rest), [(None, None)] * self.d + self.bounds
        return self._least(lambda x: self.function(x[: self.d], x[self.d :]), start, bounds)

    def _least(self, function, start, bounds):
        if not start.size:
            return function(start)
        return scipy.optimize.minimize(function, start, bounds=bounds, tol=1e-10, options={"maxfun": 100_000}).fun


def _both_sides(stated):
    X, pairs = stated.inner.pairs.rows.X, stated.inner.pairs
    return X[pairs.outer], X[pairs.inner]


def soft_two_way(stated, lam, outer_lam):
    """What SOTA-s minimises, of squared hinges."""
    positive, negative = _both_sides(stated)

    def value(w, rest):
        losses = np.maximum(1.0 - (positive @ w)[:, None] + negative @ w, 0.0) ** 2
        log_u = scipy.special.logsumexp(losses / lam, axis=1) - np.log(losses.shape[1])
        soft = scipy.special.logsumexp(lam / outer_lam * log_u) - np.log(len(log_u))
        return outer_lam * soft + 0.05 * w @ w

    return Smooth(value, np.zeros(0), [], 4)


def sigmoid_two_way(stated):
    """What PAUCI minimises with κ = 2 and ω = 0, maximised over its dual on a grid and by a parabola between."""
    positive, negative = _both_sides(stated)
    share, tail, grid = stated.outer.alpha, stated.inner.top / len(negative), np.linspace(-1.0, 1.0, 2001)

    def value(w, rest):
        c, a, b, s, s2 = rest
        f, h = scipy.special.expit(positive @ w + c), scipy.special.expit(negative @ w + c)
        gammas = grid[grid >= max(-a, b - 1.0) - 1e-9][:, None]
        high = np.logaddexp(0.0, 2.0 * ((f - a) ** 2 - 2.0 * (1.0 + gammas) * f - s)).mean(axis=1) / (2.0 * share)
        low = np.logaddexp(0.0, 2.0 * ((h - b) ** 2 + 2.0 * (1.0 + gammas) * h - s2)).mean(axis=1) / (2.0 * tail)
        return (s + s2 + high + low - gammas[:, 0] ** 2).max() + 0.05 * w @ w

    bounds = [(None, None), (0.0, 1.0), (0.0, 1.0), (-4.0, 1.0), (0.0, 5.0)]
    return Smooth(value, np.array([0.0, 0.5, 0.5, 0.5, 0.5]), bounds, 4)


def margin_auc(stated, margin):
    """What AUCM minimises."""
    positive, negative = _both_sides(stated)

    def value(w, rest):
        f, h = positive @ w, negative @ w
        return f.var() + h.var() + max(margin + h.mean() - f.mean(), 0.0) ** 2 + 0.05 * w @ w

    return Smooth(value, np.zeros(0), [], 4)


def row_losses(stated, weight):
    """Cross-entropy with that weight of the positives."""
    positive, negative = _both_sides(stated)

    def value(w, rest):
        high, low = np.logaddexp(0.0, -positive @ w - rest[0]), np.logaddexp(0.0, negative @ w + rest[0])
        return weight * high.mean() + (1.0 - weight) * low.mean() + 0.05 * w @ w

    return Smooth(value, np.zeros(1), [(None, None)], 4)


def masses():
    """Unequal masses of sixty rows, some of them zero."""
    counts = np.arange(60) % 4 + 0.5
    counts[::7] = 0.0
    return counts / counts.sum()


def row_risk(risk):
    """A risk over sixty single rows."""
    X, y, _ = table(n=60)
    return Problem(Samples(LinearModel(as_rows(X), y.astype(float))), risk, L2(0.1))


def kl_ball():
    return row_risk(KLBallRisk(0.2, 0.05))


def kl_price():
    return row_risk(KLRisk(0.5))


def rows_alike(stated):
    """The mean loss of the rows."""
    return stated._replace(outer=CVaRRisk(1.0))


def kl_masses():
    return row_risk(WithMasses(KLBallRisk(0.2, 0.05), masses()))


def ball_optimum(stated, p=1.0 / 60.0):
    """The optimum of `kl_ball`, over parameters and temperature by BFGS."""
    X, y, _ = table(n=60)
    radius, price = 0.2, 0.05

    def dual(x):
        w, lam = x[:-1], price + np.exp(x[-1])
        soft = scipy.special.logsumexp(np.logaddexp(0.0, -y * (X @ w)) / lam, b=p)
        return lam * soft + (lam - price) * radius + 0.05 * w @ w

    return scipy.optimize.minimize(dual, np.zeros(5), tol=1e-10).fun


def masses_optimum(stated):
    """The optimum of `kl_masses`."""
    return ball_optimum(stated, masses())


def shared_negatives():
    stated = rankings()
    return stated._replace(inner=stated.inner._replace(sampling=BatchForAll()))


class Case(NamedTuple):
    name: str
    problem: Any  # () -> Problem
    solver: Any
    iterations: int  # to come within ``gap`` of the optimum
    gap: float
    aim: Any = lambda stated: stated  # what it minimises instead of the problem as stated
    optimum: Any = lambda aim: xrisk.solvers.exact(aim).value  # its least value
    cut: int = 25  # iterations after which it is stopped and resumed, where it can be fewer than it takes to converge


POSITIVE = (table(n=60)[1] == 1).mean()
SLOW = Stagewise(0.2, 0.5, 2000, 2.0)

CASES = [  # the first of each solver is the one whose compiled runs are quick tests
    Case("alexr-cvar-last", cvar, ALEXR(0.05, 0.1, blocks=3, batch=4, average=LastIterate()), 20000, 0.05),
    Case("alexr-cvar-stages", cvar, ALEXR(SLOW, SLOW, blocks=3, batch=8, average=StageAverage(SLOW)), 30000, 0.01),
    Case("alexr-cvar-theta0", cvar, ALEXR(0.05, 0.1, theta=0.0, blocks=3, average=UniformAverage()), 20000, 0.05),
    Case("alexr-cvar-same", cvar, ALEXR(0.05, 0.1, blocks=3, batch=8, pairing=SameBatch()), 20000, 0.02),
    Case("alexr-chi2-conjugate", chi2, ALEXR(0.02, 0.1, blocks=3, mirror=Conjugate()), 20000, 0.02),
    Case("alexr-kl-sparse", kl_sparse, ALEXR(Decreasing(0.05, 1000.0), 0.1, mirror=Conjugate(), blocks=6), 20000, 0.02),
    Case("alexr-shared-negatives", shared_negatives, ALEXR(0.02, 0.02, blocks=4), 20000, 0.02),
    Case("alexr-tasks-max", lambda: tasks(MaxOuter()), ALEXR(0.05, 0.1, blocks=2, mirror=Entropy()), 20000, 0.02),
    Case("alexr-tasks-lse", lambda: tasks(LogSumExp(2.0)), ALEXR(0.05, 0.1, blocks=2, batch=3), 20000, 0.02),
    Case("alexr-squares", squares, ALEXR(0.05, 0.1, blocks=2, average=PolynomialAverage(2)), 20000, 0.02),
    Case("alexr-noisy", noisy, ALEXR(0.1, 0.05, blocks=2, average=GeometricAverage(0.999)), 20000, 0.02),
    Case("bsgd", chi2_logistic, BSGD(0.02, blocks=3, batch=8), 10000, 0.01),  # the bias, at most σ₀²/16, is in the gap
    Case("msvr-v2", chi2_logistic, MSVR(blocks=3), 10000, 0.01),
    Case("msvr-v1", chi2_logistic, MSVR(blocks=3, gradient=AveragedGradient()), 10000, 0.01),
    Case("msvr-v3", chi2_logistic, SnapshotMSVR(epoch=7, blocks=3), 5000, 0.001),
    Case("msvr-stagewise", chi2_logistic, Restarted(MSVR(0.1, 0.5, 0.5, blocks=3), 30, step_factor=0.7), 10000, 0.01),
    Case("sox-boost", chi2_logistic, Restarted(SOX(0.1, 0.5, 0.5, blocks=3), 30), 10000, 0.01),
    Case("sonex-v1", cvar, SONEX(0.02, nu=0.02, correction=0.0, blocks=3), 10000, 0.01),
    Case("sonex-v2", cvar, SONEX(0.02, nu=0.02, blocks=3), 10000, 0.01),
    Case("sonx-v1", cvar, SONX(0.02, correction=0.0, blocks=3), 10000, 0.01),
    Case("sonx-v2", cvar, SONX(0.02, correction=TheoryCorrection(), blocks=3), 10000, 0.01),
    Case("ooa", cvar, OOA(0.05, 0.02, blocks=3), 10000, 0.005),
    Case("smd", cvar, SMD(0.05, 0.05), 5000, 0.002),
    Case("smd-drawn", cvar, SMD(0.05, 0.05, gradient=DrawnGroup()), 5000, 0.005),
    Case("nol", worst, NOL(0.02, 0.005, scale=1.5), 30000, 0.015),
    Case("aleg", cvar, ALEG(epoch=7), 3000, 2e-4),
    Case("aleg-last", worst, ALEG(epoch=7, average=LastIterate()), 3000, 1e-6),
    Case("drago", chi2_logistic, Drago(), 1000, 1e-8),
    Case("drago-smoothed", cvar, Drago(0.05, 0.02, batch=5, smoothing=0.005), 5000, 0.002),
    Case("gdro-exp3p", worst, GDRO(0.02, 0.005), 30000, 0.015),
    Case("gdro-exp3p-capped", cvar, GDRO(0.02, 0.005), 30000, 0.015),
    Case("gdro-tinf", worst, GDRO(0.02, 0.005, TINF(1.5)), 30000, 0.015),
    Case("lsvrg", chi2_logistic, LSVRG(0.05, epoch=7, blocks=3), 5000, 0.001),
    Case("prospect", chi2_logistic, Prospect(0.2, blocks=3), 2000, 1e-8),
    Case("prospect-sparse", kl_sparse, Prospect(0.1, blocks=2, batch=3), 5000, 1e-8),
    Case("prospect-smoothed", cvar, Prospect(0.1, smoothing=0.01, blocks=3), 2000, 0.01),
    Case("sgd", cvar, SGD(0.05), 20000, 1e-3, pooled),
    Case("sgd-pairs", rankings, SGD(0.05), 20000, 1e-3, averaged),
    Case("upweighted-sgd", cvar, UpweightedSGD(0.05, blocks=3), 20000, 1e-3, averaged),
    Case("sox", chi2_logistic, SOX(SLOW, Stagewise(0.5, 0.5, 2000, 2.0), 0.5, blocks=3), 20000, 0.01),
    Case("scgd", chi2_logistic, SCGD(batch=4), 10000, 0.001),
    Case("ascpg", chi2_logistic, ASCPG(batch=4), 10000, 0.001),
    Case("nasa", chi2_logistic, NASA(blocks=2, batch=4), 10000, 0.001),
    Case("sapd", cvar, SAPD(blocks=2), 10000, 0.005),
    Case("ssd", chi2_logistic, SSD(blocks=2, batch=4), 10000, 0.001),
    Case("nssd", cvar, NSSD(blocks=2), 10000, 0.005),
    Case("alexr-dl", cvar, ALEXRDL(ALEXR(0.05, 0.1, blocks=3), length=15), 20000, 0.01),
    Case("alexr2", cvar, ALEXRDL(ALEXR(0.05, 0.1, blocks=3), 0.5, 15, 0.02, momentum=0.5), 20000, 0.02),
    Case("svrpda-i", chi2_logistic, SVRPDAI(0.05, 0.5, epoch=30), 5000, 1e-9),
    Case("svrpda-i-random", squares, SVRPDAI(0.02, 0.5, epoch=15, restart=RandomPoint(), batch=2), 20000, 1e-9),
    Case("svrpda-i-tasks", lambda: tasks(LogSumExp(2.0)), SVRPDAI(0.05, 0.5), 5000, 1e-9),
    Case("svrpda-i-single", single_rows, SVRPDAI(0.02, 0.5, SingleLoop()), 20000, 1e-9),
    Case("svrpda-ii", chi2_logistic, SVRPDAII(0.05, 0.5, epoch=30), 5000, 1e-9),
    Case("svrpda-ii-affine", squares, SVRPDAII(0.01, 0.2, epoch=7, batch=2), 20000, 1e-9),
    Case("compositional-svrg-1", chi2_logistic, CompositionalSVRG1(0.05, epoch=30), 5000, 1e-9),
    Case("compositional-svrg-2", chi2_logistic, CompositionalSVRG2(0.05, epoch=30), 5000, 1e-9),
    Case("compositional-svrg-2-mean", squares, CompositionalSVRG2(0.02, Growing(9, 1.2), MeanPoint()), 20000, 1e-9),
    Case("ascvrg", chi2_logistic, ASCVRG(0.1), 5000, 1e-9),
    Case("c-saga", pushed, CSAGA(0.1, batch=3), 1000, 1e-9),
    Case("spdc", single_rows, SPDC(0.02, 0.5, blocks=3), 10000, 1e-9),
    Case("staco1", two_way, STACO1(0.02, 0.05, 0.05, 0.02, blocks=6, batch=5), 20000, 0.005, optimum=tail_optimum),
    Case(
        "staco1-hinge-sparse",
        two_way_sparse,
        STACO1(0.02, 0.05, 0.05, 0.02, blocks=6, batch=8, first=ExactThresholds()),
        20000,
        0.005,
        optimum=tail_optimum,
    ),
    Case("staco1-logistic", lambda: two_way("logistic"), STACO1(), 20000, 0.002, optimum=tail_optimum),
    Case("staco1-one-way", rankings, STACO1(0.02, 0.05, 0.05, 0.02, blocks=4, batch=8), 20000, 0.001),
    Case("staco2", two_way, STACO2(0.02, 0.05, 0.05, 0.02, epoch=15, blocks=6), 20000, 0.03, optimum=tail_optimum),
    Case(
        "staco2-printed",
        two_way,
        STACO2(0.02, 0.05, 0.05, 0.02, 0.01, Growing(200, 1.5), PrintedScaling(), blocks=6),
        20000,
        0.005,
        optimum=tail_optimum,
    ),
    Case("tail-sonx-v2", two_way, TailSONX(0.02, 0.05, 0.02, blocks=6), 20000, 0.01, optimum=tail_optimum),
    Case("tail-sonx-v1", two_way, TailSONX(0.02, 0.05, 0.02, correction=0.0), 20000, 0.01, optimum=tail_optimum),
    Case("tail-sonex-v2", two_way, TailSONEX(0.02, 0.05, 0.02, blocks=6), 20000, 0.01, optimum=tail_optimum),
    Case("tail-sonex-v1", two_way, TailSONEX(0.02, 0.05, 0.02, correction=0.0), 20000, 0.01, optimum=tail_optimum),
    Case("sota", two_way, SOTA(0.02, 0.05, 0.05, 0.02, epoch=150, blocks=6), 20000, 0.02, optimum=tail_optimum),
    Case(
        "sota-all",
        two_way,
        SOTA(0.02, 0.05, 0.05, 0.02, epoch=15, coordinates=AllThresholds(), blocks=6),
        20000,
        0.02,
        optimum=tail_optimum,
    ),
    Case(
        "sota-s",
        two_way,
        SOTAs(Stagewise(0.02, 0.5, 2000, 1.5), lam=2.0, outer_lam=1.0),
        20000,
        1e-4,
        lambda stated: soft_two_way(stated, 2.0, 1.0),
        Smooth.optimum,
    ),
    Case("pauci", two_way, PAUCI(blocks=8), 20000, 0.005, sigmoid_two_way, Smooth.optimum),
    Case("aucm", two_way, AUCM(epoch=200), 20000, 2e-4, lambda stated: margin_auc(stated, 0.5), Smooth.optimum),
    Case("ce", two_way, CrossEntropy(), 20000, 1e-5, lambda stated: row_losses(stated, POSITIVE), Smooth.optimum),
    Case(
        "ce-balanced",
        two_way,
        CrossEntropy(weights=EqualClasses()),
        20000,
        1e-5,
        lambda stated: row_losses(stated, 0.5),
        Smooth.optimum,
    ),
    Case("scdro", kl_ball, SCDRO(batch=16), 5000, 1e-3, optimum=ball_optimum),
    Case("scdro-price", kl_price, SCDRO(batch=16), 5000, 1e-3),
    Case("scdro-masses", kl_masses, SCDRO(batch=16), 5000, 1e-3, optimum=masses_optimum),
    Case("ascdro", kl_ball, ASCDRO(batch=16), 5000, 1e-3, optimum=ball_optimum),
    Case("rscdro", kl_ball, Restarted(SCDRO(0.1, 0.1, 0.5, 16, strength=1e-4), 15), 5000, 1e-3, optimum=ball_optimum),
    Case(
        "rascdro",
        kl_ball,
        Restarted(ASCDRO(0.1, 0.1, 0.5, 16, strength=1e-4), 15, step_factor=0.5**0.5),
        5000,
        1e-3,
        optimum=ball_optimum,
    ),
    Case("recover", kl_price, RECOVER(batch=16), 5000, 1e-3),
    Case("scent", kl_price, SCENT(batch=16), 5000, 1e-3),
    Case("fastdro", kl_price, FastDRO(), 5000, 1e-3),
    Case("fastdro-ball", kl_ball, FastDRO(batch=256), 5000, 1e-3, optimum=ball_optimum),
    Case("fastdro-cvar", lambda: row_risk(CVaRRisk(0.3)), FastDRO(batch=256), 5000, 2e-3),
    Case("fastdro-mlmc", kl_price, FastDROMLMC(), 5000, 1e-3),
    Case("dual-sgm", kl_ball, DualSGM(batch=16), 5000, 1e-3, optimum=ball_optimum),
    Case("dual-sgm-cvar", lambda: row_risk(CVaRRisk(0.3)), DualSGM(batch=16), 10000, 2e-3),
    Case("dual-sgm-chi2", lambda: row_risk(ChiSquareRiskA(0.5)), DualSGM(batch=16), 5000, 1e-3),
    Case("spd", kl_price, SPD(), 5000, 1e-3),
    Case("spd-ball", kl_ball, SPD(), 10000, 5e-3, optimum=ball_optimum),
    Case("pg-smd2", kl_price, PGSMD2(epoch=Lengthening(15)), 5000, 1e-3),
    Case("accmda", kl_price, AccMDA(), 5000, 1e-3),
    Case("sgd-momentum", lambda: row_risk(CVaRRisk(0.3)), MomentumSGD(), 5000, 1e-3, rows_alike),
    Case("batch-gradient", lambda: tasks(LogSumExp(2.0)), BatchGradient(0.3), 300, 1e-9),
    Case("batch-gradient-nesterov", squares, BatchGradient(0.05, Nesterov()), 3000, 1e-9),
    Case("faces", portfolio, Faces(), 100, 1e-8, cut=1),
    Case("bundle", auc_tail, Bundle(1e-8), 300, 1e-8, cut=7),
    Case("bundle-kink", lambda: auc_tail("squared_hinge", l1=0.05), Bundle(1e-8), 300, 1e-8, cut=5),
    Case("bundle-tail", highest_negative, Bundle(1e-8, cuts=8), 600, 1e-8, aim=pushed_to_the_top, cut=7),
    Case("newton", cvar, Newton(), 100, 1e-8, cut=7),
    Case("newton-tasks-max", lambda: tasks(MaxOuter()), Newton(), 100, 1e-8, cut=7),
    Case("newton-squares", squares, Newton(), 100, 1e-8, cut=5),
    Case("composite-newton", cvar, CompositeNewton(tol=1e-8), 100, 1e-8, cut=2),
    Case("composite-newton-max", worst, CompositeNewton(tol=1e-6), 100, 1e-6, cut=2),
    Case("row-newton", lambda: rows_of("cvar", alpha=0.3), RowNewton(1e-8), 100, 1e-8, cut=3),
    Case("row-newton-kl", lambda: rows_of("kl", strength=0.5), RowNewton(1e-8), 100, 1e-8, cut=2),
    Case("descent", pushed, Descent(), 100, 1e-8, cut=3),
    Case("descent-average", lambda: averaged(cvar()), Descent(memory=3), 100, 1e-8, cut=3),
    Case("smoothed-lbfgs", cvar, SmoothedLBFGS(tol=1e-8), 1000, 1e-8, cut=7),
    Case("smoothed-lbfgs-max", worst, SmoothedLBFGS(tol=1e-6, memory=3), 1000, 1e-6, cut=7),
    Case("smoothed-lbfgs-squares", squares, SmoothedLBFGS(tol=1e-8), 1000, 1e-8, cut=7),
]
FULL = (Newton, CompositeNewton, RowNewton, SmoothedLBFGS, BatchGradient, Descent, Faces, Bundle)
FULL_BATCH = [case for case in CASES if isinstance(case.solver, FULL)]  # draw no samples
SAMPLED = [case for case in CASES if case not in FULL_BATCH]

FIRST = list({type(case.solver): case for case in reversed(CASES)}.values())
# one or two of each kind of kernel; those of the others are compiled by their twins, and by the slow tests
QUICK = (ALEXR, SOX, SVRPDAI, STACO1, SCDRO, Bundle, Faces, RowNewton, *FULL)


def plain(cases):
    """Cases as parameters of runs in plain Python, for the fixture `case`."""
    return [pytest.param((case, uncompiled), id=f"{case.name}-plain") for case in cases]


def plain_first(cases):
    """The same where a run takes long: only the first case of a solver is quick."""
    return [
        *plain([case for case in cases if case in FIRST]),
        *plain_slow([case for case in cases if case not in FIRST]),
    ]


def plain_slow(cases):
    """The same where a run takes so long that the compiled one is quicker."""
    return [pytest.param(*each.values, id=each.id, marks=[pytest.mark.slow]) for each in plain(cases)]


def compiled(cases):
    """Cases as parameters of compiled runs; compiling takes seconds, so only the first of a few solvers are quick."""
    return [
        pytest.param(
            (case, nullcontext), id=f"{case.name}-compiled", marks=[] if is_quick(case) else [pytest.mark.slow]
        )
        for case in cases
    ]


def is_quick(case):
    return case in FIRST and isinstance(case.solver, QUICK)
