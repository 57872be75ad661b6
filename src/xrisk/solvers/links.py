"""How the outer function or risk joins the inner values: their weights y and the curvature of the join.

The join of inner values u is (1/n) Σ φ, its gradient y/n, and its Hessian, block by block,
(diag(c) − c cᵀ / Σc)/n where the weights of a block sum to a constant, diag(c)/n where nothing ties them.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import kernel, worthwhile
from xrisk.functions import (
    CVaRHinge,
    CVaRRisk,
    Identity,
    KLRisk,
    LogSumExp,
    MaxOuter,
    MaxRisk,
    TopSum,
    outer_conjugate,
    outer_domain,
    outer_value,
    risk_cap,
    risk_outer,
    risk_threshold,
    risk_value,
)
from xrisk.functions.special import xlogx
from xrisk.generic import generic
from xrisk.problem import is_risk, mean_block_value
from xrisk.solvers.smoothing import arc_slope, bend_outer, has_arc, outer_arc, smooth_outer


class Apart(NamedTuple):
    """φ = Σ f(u_j): nothing ties the weights."""

    f: Any = Identity()
    plain: Any = Identity()  # f before it was bent


class Tied(NamedTuple):
    """φ = max of Σ y_j (u_j − at) − bend·y_j²/2 over y in [lo, hi] with mean y = target, less Σ offset."""

    lo: float = 0.0
    hi: float = np.inf
    at: float = 0.0
    bend: float = 0.0
    target: float = 1.0
    offset: float = 0.0


class SoftTied(NamedTuple):
    """y_j = total · softmax(beta·u)_j."""

    beta: float = 1.0
    total: float = 1.0


class Thresholded(NamedTuple):
    """A risk known by its outer function f and its threshold."""

    risk: Any = MaxRisk()
    f: Any = CVaRHinge()


def link_of(outer: Any, n: int, m: int) -> Any:
    """The join of n blocks of m inner values."""
    if is_risk(outer):
        return _risk_link(outer, n)
    if isinstance(outer, MaxOuter):
        return Tied(target=1.0 / m)
    if isinstance(outer, LogSumExp):
        return SoftTied(outer.beta)
    if isinstance(outer, TopSum):
        return Tied(hi=1.0, target=outer.k / m) if outer.k < m else Apart()
    if type(outer) not in outer_value.table:
        raise ValueError(f"exact knows no curvature of the outer function {type(outer).__name__}")
    return Apart(bend_outer(outer), outer)


def _risk_link(risk: Any, n: int) -> Any:
    f = risk_outer(risk, n)
    if isinstance(risk, KLRisk):
        return SoftTied(1.0 / risk.lam, float(n))
    if isinstance(risk, (MaxRisk, CVaRRisk)):
        cap = n * risk_cap(risk, n)
        if cap <= 1.0 + 1e-12:
            return Apart()
        return Tied(hi=cap if cap < n * (1.0 - 1e-12) else np.inf)
    if not has_arc(f):
        return Thresholded(risk, f)
    lo, hi, at, bend = outer_arc(f)
    return Tied(lo, hi, at, bend, 1.0, -outer_value(f, at))


def join_value(outer: Any, u: np.ndarray) -> float:
    """The exact value of the outer function or risk at inner values u (n, m)."""
    if is_risk(outer):
        return float(risk_value(outer, np.ascontiguousarray(u[:, 0])))
    return mean_block_value(outer, u)


@generic
def link_slopes(link, u, mu, shift, y, curve):
    """Write weights y and curvatures into arrays of the shape of u (blocks, size); ``shift`` keeps thresholds."""


@generic
def link_conjugate(link, y):
    """Σ φ*(y) over the blocks."""


@generic
def link_domain(link):
    """(lo, hi), the range of a weight."""


@link_domain.of(Apart)
def _(link):
    return outer_domain(link.plain)


@link_domain.of(Thresholded)
def _(link):
    return outer_domain(link.f)


@link_domain.of(Tied)
def _(link):
    return link.lo, link.hi


@link_domain.of(SoftTied)
def _(link):
    return 0.0, np.inf


@generic
def link_is_tied(link):
    """Whether the weights of a block sum to a constant."""


@link_is_tied.of(Apart)
def _(link):
    return False


@link_is_tied.otherwise
def _(link):
    return True


@link_slopes.of(Apart)
def _(link, u, mu, shift, y, curve):
    worthwhile(apart_slopes, u.size, link)(link.f, u, mu, y, curve)


@link_slopes.of(Tied)
def _(link, u, mu, shift, y, curve):
    tied_slopes(link, u, mu, shift, y, curve)


@link_slopes.of(SoftTied)
def _(link, u, mu, shift, y, curve):
    y[:] = np.exp(link.beta * (u - u.max(axis=1, keepdims=True)))  # shifted: exp overflows at 710
    y *= link.total / y.sum(axis=1, keepdims=True)
    curve[:] = link.beta * y


@link_slopes.of(Thresholded)
def _(link, u, mu, shift, y, curve):
    worthwhile(apart_slopes, u.size, link)(link.f, u - risk_threshold(link.risk, u[0]), mu, y, curve)


@link_conjugate.of(Apart)
def _(link, y):
    return worthwhile(sum_conjugates, y.size, link)(link.plain, y)


@link_conjugate.of(Thresholded)
def _(link, y):
    return worthwhile(sum_conjugates, y.size, link)(link.f, y)


@link_conjugate.of(Tied)
def _(link, y):
    return float((y * (link.at + 0.5 * link.bend * y)).sum() + link.offset * y.size)


@link_conjugate.of(SoftTied)
def _(link, y):
    return float(sum(xlogx(weight) for weight in y.flat) / link.beta)


@kernel
def sum_conjugates(f, y):
    total = 0.0
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            total += outer_conjugate(f, y[i, j])
    return total


@kernel
def apart_slopes(f, u, mu, y, curve):
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            y[i, j], curve[i, j] = smooth_outer(f, u[i, j], mu)


@kernel
def tied_slopes(link, u, mu, shift, y, curve):
    """Find per block the threshold at which the mean weight is the target; its value is kept in ``shift``."""
    lo, hi, bend, target = link.lo, link.hi, link.bend, link.target
    alone = bend * target - mu / (target - lo) + mu / (hi - target)  # where one value by itself weighs the target
    for i in range(u.shape[0]):
        low, high = u[i].min() - alone, u[i].max() - alone
        c, reach = min(max(shift[i], low), high), 4.0 * (mu / target + bend * target)
        ends = (low, high)
        for _ in range(200):
            mean, steep = 0.0, 0.0
            for j in range(u.shape[1]):
                y[i, j], curve[i, j] = arc_slope(u[i, j] - c, lo, hi, bend, mu)
                mean += y[i, j]
                steep += curve[i, j]
            miss = mean / u.shape[1] - target
            if miss > 0.0:
                low = c
            else:
                high = c
            step = u.shape[1] * miss / steep
            if abs(miss) <= 1e-13 * target or high - low <= 4e-16 * abs(c):
                break
            if low < c + step < high:
                c += step
            elif (low, high) != ends and (low == ends[0] or high == ends[1]):  # near the last threshold, most likely
                c = min(c + reach, 0.5 * (c + high)) if miss > 0.0 else max(c - reach, 0.5 * (c + low))
                reach *= 8.0
            else:
                c = 0.5 * (low + high)
        shift[i] = c
        if math.isfinite(mean):
            for j in range(u.shape[1]):  # what the rounding of c leaves, shared out to first order
                y[i, j] = max(y[i, j] - curve[i, j] * miss * u.shape[1] / steep, 0.5 * y[i, j])
        else:  # u is too large for c to tell its values apart
            y[i], curve[i] = np.minimum(y[i], target * u.shape[1]), 0.0
