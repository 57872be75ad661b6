"""How the outer function or risk couples the inner values: their weights y and the curvature of the coupling.

The coupling of inner values u is (1/n) Σ φ, its gradient y/n, and its Hessian, block by block,
(diag(c) − c cᵀ / Σc)/n where the weights of a block sum to a constant, diag(c)/n where they are independent.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Outer, Risk
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
    outer_curvature,
    outer_domain,
    outer_is_piece,
    outer_piece,
    outer_value,
    risk_cap,
    risk_outer,
    risk_threshold,
    risk_value,
)
from xrisk.functions.smoothing import piece_slope, smooth_outer, smoothable_outer
from xrisk.functions.special import xlogx
from xrisk.generic import generic
from xrisk.problem import is_risk, mean_block_value


class Separable(NamedTuple):
    """φ = Σ f(u_j): the weights are independent."""

    f: Outer = Identity()
    plain: Any = Identity()  # f before it was wrapped for smoothing


class SumConstrained(NamedTuple):
    """φ = max of Σ y_j (u_j − at) − curvature·y_j²/2 over y in [lo, hi] with mean y = target, less Σ offset."""

    lo: float = 0.0
    hi: float = np.inf
    at: float = 0.0
    curvature: float = 0.0
    target: float = 1.0
    offset: float = 0.0


class SoftConstrained(NamedTuple):
    """y_j = total · softmax(beta·u)_j."""

    beta: float = 1.0
    total: float = 1.0


class Thresholded(NamedTuple):
    """A risk known by its outer function f and its threshold."""

    risk: Risk = MaxRisk()
    f: Outer = CVaRHinge()


@generic
def coupling_of(outer, n, m):
    """How an outer function or risk couples n blocks of m inner values."""


@coupling_of.otherwise
def _(outer, n, m):
    if is_risk(outer) and not risk_outer.implemented(outer):
        raise ValueError(
            f"Newton and L-BFGS take risks of the form min_c c + mean f(u − c), got {type(outer).__name__}: RowNewton "
            "takes it over single rows with a penalty of l1 and l2 norms"
        )
    if is_risk(outer):
        f = risk_outer(outer, n)
        return _piece_coupling(f) if outer_is_piece(f) else Thresholded(outer, f)
    if not (outer_value.implemented(outer) and outer_curvature.implemented(outer)):
        raise ValueError(f"full-batch methods know no curvature of the outer function {type(outer).__name__}")
    return Separable(smoothable_outer(outer), outer)


def _piece_coupling(f: Outer) -> Any:
    lo, hi, at, curvature = outer_piece(f)
    return SumConstrained(lo, hi, at, curvature, 1.0, -outer_value(f, at))


coupling_of.of(MaxOuter)(lambda outer, n, m: SumConstrained(target=1.0 / m))
coupling_of.of(LogSumExp)(lambda outer, n, m: SoftConstrained(outer.beta))
coupling_of.of(KLRisk)(lambda outer, n, m: SoftConstrained(1.0 / outer.lam, float(n)))


@coupling_of.of(TopSum)
def _(outer, n, m):
    return SumConstrained(hi=1.0, target=outer.k / m) if outer.k < m else Separable()


@coupling_of.of(MaxRisk)
@coupling_of.of(CVaRRisk)
def _(outer, n, m):
    cap = n * risk_cap(outer, n)
    if cap <= 1.0 + 1e-12:
        return Separable()
    return SumConstrained(hi=cap if cap < n * (1.0 - 1e-12) else np.inf)


def coupled_value(outer: Outer, u: np.ndarray) -> float:
    """The exact value of the outer function or risk at inner values u (n, m)."""
    if is_risk(outer):
        return float(risk_value(outer, np.ascontiguousarray(u[:, 0])))
    return mean_block_value(outer, u)


@generic
def coupling_slopes(coupling, u, mu, shift, y, curve):
    """Write weights y and curvatures into arrays of the shape of u (blocks, size); ``shift`` keeps thresholds."""


@generic
def coupling_conjugate(coupling, y):
    """Σ φ*(y) over the blocks."""


@generic
def coupling_domain(coupling):
    """(lo, hi), the range of a weight."""


coupling_domain.of(Separable)(lambda coupling: outer_domain(coupling.plain))
coupling_domain.of(Thresholded)(lambda coupling: outer_domain(coupling.f))
coupling_domain.of(SumConstrained)(lambda coupling: (coupling.lo, coupling.hi))
coupling_domain.of(SoftConstrained)(lambda coupling: (0.0, np.inf))


@generic
def coupling_is_constrained(coupling):
    """Whether the weights of a block sum to a constant."""


coupling_is_constrained.of(Separable)(lambda coupling: False)
coupling_is_constrained.otherwise(lambda coupling: True)


@generic
def coupling_has_kinks(coupling):
    """Whether the weights jump where nothing is smoothed."""


coupling_has_kinks.of(SoftConstrained)(lambda coupling: False)
coupling_has_kinks.of(SumConstrained)(lambda coupling: coupling.curvature == 0.0)
coupling_has_kinks.otherwise(lambda coupling: True)


@coupling_slopes.of(Separable)
def _(coupling, u, mu, shift, y, curve):
    worthwhile(separable_slopes, u.size, coupling)(coupling.f, u, mu, y, curve)


@coupling_slopes.of(SumConstrained)
def _(coupling, u, mu, shift, y, curve):
    constrained_slopes(coupling, u, mu, shift, y, curve)


@coupling_slopes.of(SoftConstrained)
def _(coupling, u, mu, shift, y, curve):
    y[:] = np.exp(coupling.beta * (u - u.max(axis=1, keepdims=True)))  # shifted: exp overflows at 710
    y *= coupling.total / y.sum(axis=1, keepdims=True)
    curve[:] = coupling.beta * y


@coupling_slopes.of(Thresholded)
def _(coupling, u, mu, shift, y, curve):
    worthwhile(separable_slopes, u.size, coupling)(coupling.f, u - risk_threshold(coupling.risk, u[0]), mu, y, curve)


@coupling_conjugate.of(Separable)
def _(coupling, y):
    return worthwhile(sum_conjugates, y.size, coupling)(coupling.plain, y)


@coupling_conjugate.of(Thresholded)
def _(coupling, y):
    return worthwhile(sum_conjugates, y.size, coupling)(coupling.f, y)


@coupling_conjugate.of(SumConstrained)
def _(coupling, y):
    return float((y * (coupling.at + 0.5 * coupling.curvature * y)).sum() + coupling.offset * y.size)


@coupling_conjugate.of(SoftConstrained)
def _(coupling, y):
    return float(sum(xlogx(weight) for weight in y.flat) / coupling.beta)


@kernel
def sum_conjugates(f, y):
    total = 0.0
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            total += outer_conjugate(f, y[i, j])
    return total


@kernel
def separable_slopes(f, u, mu, y, curve):
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            y[i, j], curve[i, j] = smooth_outer(f, u[i, j], mu)


@kernel
def constrained_slopes(coupling, u, mu, shift, y, curve):
    """Find per block the threshold at which the mean weight is the target; its value is kept in ``shift``."""
    lo, hi, curvature, target = coupling.lo, coupling.hi, coupling.curvature, coupling.target
    alone = curvature * target - mu / (target - lo) + mu / (hi - target)  # where one value by itself weighs the target
    for i in range(u.shape[0]):
        low, high = u[i, 0], u[i, 0]
        for j in range(u.shape[1]):
            low, high = min(low, u[i, j]), max(high, u[i, j])
        low, high = low - alone, high - alone
        c, radius = min(max(shift[i], low), high), 4.0 * (mu / target + curvature * target)
        lowest, highest = low, high
        for _ in range(200):
            mean, steep = 0.0, 0.0
            for j in range(u.shape[1]):
                y[i, j], curve[i, j] = piece_slope(u[i, j] - c, lo, hi, curvature, mu)
                mean += y[i, j]
                steep += curve[i, j]
            miss = mean / u.shape[1] - target
            if miss > 0.0:
                low = c
            else:
                high = c
            step = u.shape[1] * miss / steep if math.isfinite(steep) else np.inf
            if abs(miss) <= 1e-13 * target or high - low <= 4e-16 * abs(c):
                break
            if low < c + step < high:
                c += step
            elif (low == lowest) != (high == highest):  # near the last threshold, most likely
                c = min(c + radius, 0.5 * (c + high)) if miss > 0.0 else max(c - radius, 0.5 * (c + low))
                radius *= 8.0
            else:
                c = 0.5 * (low + high)
        shift[i] = c
        for j in range(u.shape[1]):
            if math.isfinite(mean):  # the error that the rounding of c leaves, distributed to first order
                y[i, j] = max(y[i, j] - curve[i, j] * miss * u.shape[1] / steep, 0.5 * y[i, j])
            else:  # u is so large that c cannot separate its values
                y[i, j], curve[i, j] = min(y[i, j], target * u.shape[1]), 0.0
