"""Sizes of the terms that a function adds up: its rounding is a small multiple of EPS times them."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel
from xrisk.functions import (
    L1,
    L2,
    Absolute,
    AffineLoss,
    Ball,
    Box,
    CappedSimplex,
    ChiSquareA,
    ChiSquareB,
    ChiSquareRiskA,
    ChiSquareRiskB,
    CVaRHinge,
    CVaRRisk,
    ElasticNet,
    Exponential,
    ExponentialLoss,
    GroupLasso,
    HardNonsmooth,
    HardSmooth,
    HingeLoss,
    Huber,
    Identity,
    KLRisk,
    Logistic,
    LogisticOuter,
    LogSumExp,
    MarginLoss,
    MaxOuter,
    MaxRisk,
    Multinomial,
    NonNegative,
    NoPenalty,
    Pinball,
    Power,
    Restricted,
    Scaled,
    Simplex,
    Smoothed,
    SmoothedHinge,
    Softplus,
    Square,
    Squared,
    SquaredHinge,
    TopSum,
    block_conjugate,
    block_project,
    block_value,
    outer_conjugate,
    outer_domain,
    outer_dual_step,
    outer_prox,
    outer_slope,
    outer_value,
    penalty_conjugate,
)
from xrisk.functions.special import clip
from xrisk.generic import generic

EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)  # below it products lose digits


class Weights(NamedTuple):
    """A point q of the dual set, known up to rounding, and the conjugate there."""

    q: np.ndarray  # (n, m)
    conjugate: float
    size: float  # of the terms of the conjugate
    defect: float  # a point that is exactly in the set is this near, in the sum of absolute values
    loose: float = 0.0  # of weights made smaller to balance a coordinate: those that do exactly are so near, relatively


@generic
def outer_terms(f, u):
    """Size of the terms of f(u), the rounding of u among them."""


@generic
def outer_conjugate_terms(f, y):
    """Size of the terms of f*(y)."""


@generic
def block_terms(f, u):
    """Size of the terms of f(u) of a block."""


@generic
def block_conjugate_terms(f, y):
    """Size of the terms of f*(y) of a block."""


@generic
def risk_terms(rho, n):
    """Size of the terms of ρ and ρ* over n values beside the values themselves."""


@generic
def risk_above(rho, u):
    """An upper bound on ρ(u) without terms larger than the values u (n,): they drown in λ; inf where none is known."""


@risk_above.otherwise
def _(rho, u):
    return np.inf


@risk_above.of(KLRisk)
def _(rho, u):
    return u.mean() + (u.max() - u.min()) ** 2 / (8.0 * rho.lam)  # Hoeffding's lemma


@risk_above.of(ChiSquareRiskA)
def _(rho, u):
    return u.mean() + u.var() / (2.0 * rho.lam)  # the maximum over weights of either sign


@risk_above.of(ChiSquareRiskB)
def _(rho, u):
    return u.mean() + u.var() / (4.0 * rho.lam)


@generic
def loss_rounding(loss):
    """Relative error of ℓ and ℓ* as they are computed, in units of EPS, beside that of their argument."""


@generic
def conjugate_above(r, v, off):
    """A bound on r*(v + e) over all |e_j| ≤ off_j, its own rounding included."""


@outer_terms.of(CVaRHinge)
@outer_terms.of(ChiSquareA)
@outer_terms.of(ChiSquareB)
@outer_terms.of(Exponential)
@outer_terms.of(HardNonsmooth)
@outer_terms.of(HardSmooth)
@outer_terms.of(Identity)
@outer_terms.of(LogisticOuter)
@outer_terms.of(Power)
@outer_terms.of(Softplus)
@outer_terms.of(Square)
def usual_outer_terms(f, u):
    """|f(u)| + |f′(u) u|, of a function that adds up nothing larger than itself."""
    return abs(outer_value(f, u)) + abs(outer_slope(f, u) * u)


@outer_terms.of(Scaled)
def _(f, u):
    at = f.slope * u + f.shift
    moved = abs(outer_slope(f.f, at)) * (abs(f.slope * u) + abs(f.shift))
    return f.factor * (outer_terms(f.f, at) + moved) + abs(f.constant)


@outer_terms.of(Smoothed)
def _(f, u):
    at, y = outer_prox(f.f, u, f.nu), outer_dual_step(f.f, u, 0.0, f.nu)
    return outer_terms(f.f, at) + abs(y) * (abs(u) + abs(at)) + f.nu * y * y


@outer_conjugate_terms.of(CVaRHinge)
@outer_conjugate_terms.of(ChiSquareA)
@outer_conjugate_terms.of(ChiSquareB)
@outer_conjugate_terms.of(HardNonsmooth)
@outer_conjugate_terms.of(HardSmooth)
@outer_conjugate_terms.of(Identity)
@outer_conjugate_terms.of(LogisticOuter)
@outer_conjugate_terms.of(Softplus)
@outer_conjugate_terms.of(Square)
def usual_outer_conjugate_terms(f, y):
    """|f*(y)|, of a conjugate that adds up nothing larger than itself."""
    return abs(outer_conjugate(f, y))


@outer_conjugate_terms.of(Exponential)
def _(f, y):
    return abs(outer_conjugate(f, y)) + 2.0 * f.tau * y


@outer_conjugate_terms.of(Power)
def _(f, y):
    # the rounding of y/p and of the exponent p/(p − 1), which is large for p near 1
    exponent = f.p / (f.p - 1.0)
    return outer_conjugate(f, y) * (1.0 + exponent * (2.0 + abs(math.log(max(y / f.p, TINY))))) if y > 0.0 else 0.0


@outer_conjugate_terms.of(Scaled)
def _(f, y):
    lo, hi = outer_domain(f.f)
    at = clip(y / (f.factor * f.slope), lo, hi)
    return f.factor * outer_conjugate_terms(f.f, at) + abs(f.shift / f.slope * y) + abs(f.constant)


@outer_conjugate_terms.of(Smoothed)
def _(f, y):
    return outer_conjugate_terms(f.f, y) + f.nu * y * y


@block_terms.otherwise
def _(f, u):
    total = 0.0
    for k in range(u.size):
        total += outer_terms(f, float(u[k]))
    return total


@block_terms.of(MaxOuter)
@block_terms.of(LogSumExp)
@block_terms.of(TopSum)
def _(f, u):
    return abs(block_value(f, u)) + np.abs(u).sum()


@block_conjugate_terms.otherwise
def _(f, y):
    total = 0.0
    for k in range(y.size):
        total += outer_conjugate_terms(f, float(y[k]))
    return total


@block_conjugate_terms.of(MaxOuter)
@block_conjugate_terms.of(TopSum)
def _(f, y):
    return 0.0


@block_conjugate_terms.of(LogSumExp)
def _(f, y):
    return (1.0 + math.log(y.size)) / f.beta


@risk_terms.of(MaxRisk)
@risk_terms.of(CVaRRisk)
def _(rho, n):
    return 0.0


@risk_terms.of(ChiSquareRiskA)
@risk_terms.of(ChiSquareRiskB)
@risk_terms.of(KLRisk)
def _(rho, n):
    return rho.lam * (2.0 + math.log(n))


@kernel
def block_sizes(f, u, values, sizes):
    """f(uᵢ) and the size of its terms for every block i."""
    for i in range(u.shape[0]):
        values[i] = block_value(f, u[i])
        sizes[i] = block_terms(f, u[i])


@kernel
def project_blocks(f, y, conjugates, sizes):
    """Move every yᵢ into the domain of f*; f*(yᵢ) and the size of its terms."""
    for i in range(y.shape[0]):
        block_project(f, y[i])
        conjugates[i] = block_conjugate(f, y[i])
        sizes[i] = block_conjugate_terms(f, y[i])


@register_jitable
def conjugate_terms(r, v):
    """⟨v, w⟩ + r(w) at the maximiser w of ⟨v, w⟩ − r(w), or more: both are differences of r* between v and 2v."""
    near, far = penalty_conjugate(r, v), penalty_conjugate(r, 2.0 * v)
    return 2.0 * (abs(near) + abs(far)) if far < np.inf else 0.0  # only an indicator, which adds nothing up


@register_jitable
def symmetric_conjugate_above(r, v, off):
    """The bound where r does not change with the sign of any coordinate, so that r* grows with every |v_j|."""
    wider = np.empty(v.size)
    for j in range(v.size):
        wider[j] = v[j] + off[j] if v[j] > 0.0 else v[j] - off[j]
    return _with_rounding(r, penalty_conjugate(r, wider), np.abs(v))


@register_jitable
def increasing_conjugate_above(r, v, off):
    """The bound where r is finite on w ≥ 0 only, so that r* grows with every v_j."""
    return _with_rounding(r, penalty_conjugate(r, v + off), np.abs(v))


@register_jitable
def separable_conjugate_above(r, v, off):
    """The bound where r is a sum over coordinates: either end may be the worse one, coordinate by coordinate."""
    value, size = 0.0, 0.0
    for j in range(v.size):
        one, width = v[j : j + 1], off[j]
        value += max(penalty_conjugate(r, one - width), penalty_conjugate(r, one + width))
        size += conjugate_terms(r, one)
    return value + 4.0 * EPS * (v.size + 16.0) * (abs(value) + size)


@register_jitable
def _with_rounding(r, value, v):
    return value + 4.0 * EPS * (v.size + 16.0) * (abs(value) + conjugate_terms(r, v))


for _symmetric in (NoPenalty, L1, L2, ElasticNet, GroupLasso, Ball):
    conjugate_above.of(_symmetric)(symmetric_conjugate_above)
for _positive in (Simplex, CappedSimplex):
    conjugate_above.of(_positive)(increasing_conjugate_above)
for _separable in (Box, NonNegative):
    conjugate_above.of(_separable)(separable_conjugate_above)


@conjugate_above.of(Restricted)
def _(r, v, off):
    return restricted_above(r.domain, r, v, off)


@generic
def restricted_above(domain, r, v, off):
    """The bound of a penalty on a domain, by the kind of the domain; all our penalties are symmetric."""


restricted_above.of(Ball)(lambda domain, r, v, off: symmetric_conjugate_above(r, v, off))
restricted_above.of(Simplex)(lambda domain, r, v, off: increasing_conjugate_above(r, v, off))
restricted_above.of(CappedSimplex)(lambda domain, r, v, off: increasing_conjugate_above(r, v, off))
restricted_above.of(Box)(lambda domain, r, v, off: separable_conjugate_above(r, v, off))
restricted_above.of(NonNegative)(lambda domain, r, v, off: separable_conjugate_above(r, v, off))


@kernel
def bound_conjugate(r, v, off):
    return conjugate_above(r, v, off)


LOSSES = (Absolute, AffineLoss, ExponentialLoss, HingeLoss, Huber, Logistic, MarginLoss, Multinomial, Pinball)
for _loss in (*LOSSES, SmoothedHinge, Squared, SquaredHinge):
    loss_rounding.of(_loss)(lambda loss: 16.0)
