"""Sizes of the terms that a function adds up: its rounding is a small multiple of EPS times them."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.compile import kernel
from xrisk.functions import (
    Absolute,
    AffineLoss,
    ChiSquareA,
    ChiSquareB,
    ChiSquareBallRisk,
    ChiSquareRiskA,
    ChiSquareRiskB,
    CVaRHinge,
    CVaRRisk,
    Exponential,
    ExponentialLoss,
    HardNonsmooth,
    HardSmooth,
    HingeLoss,
    Huber,
    Identity,
    KLBallRisk,
    KLRisk,
    Logistic,
    LogisticOuter,
    LogSumExp,
    MarginLoss,
    MaxOuter,
    MaxRisk,
    Multinomial,
    Pinball,
    Power,
    Scaled,
    Smoothed,
    SmoothedHinge,
    Softplus,
    Square,
    Squared,
    SquaredHinge,
    TopSum,
    WithMasses,
    block_conjugate,
    block_project,
    block_value,
    outer_conjugate,
    outer_domain,
    outer_dual_step,
    outer_prox,
    outer_slope,
    outer_value,
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
    defect: float  # distance to a point exactly in the set, in the sum of absolute values
    loose: float = 0.0  # relative distance to weights that balance a coordinate exactly, of weights made smaller for it


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
    """Size of the terms of ρ and ρ* over n values other than the values themselves."""


@generic
def risk_upper(rho, u):
    """An upper bound on ρ(u) without terms larger than the values u (n,), for large λ; inf where none is known."""


risk_upper.otherwise(lambda rho, u: np.inf)


class ValueMoments(NamedTuple):
    """Mean, variance and range of values under their masses."""

    mean: float
    variance: float
    width: float  # largest − smallest


@generic
def moments_upper(rho, found):
    """`risk_upper` by the moments of the values."""


moments_upper.otherwise(lambda rho, found: np.inf)


for _risk in (KLRisk, ChiSquareRiskA, ChiSquareRiskB, KLBallRisk, ChiSquareBallRisk):
    risk_upper.of(_risk)(lambda rho, u: moments_upper(rho, ValueMoments(u.mean(), u.var(), u.max() - u.min())))


@risk_upper.of(WithMasses)
def _(rho, u):
    p = base_weights(rho, u.size)
    mean = p @ u
    return moments_upper(rho.risk, ValueMoments(mean, p @ (u - mean) ** 2, u.max() - u.min()))


@generic
def base_weights(rho, n):
    """The weights (n,) at which ρ* is zero, up to rounding of each."""


base_weights.otherwise(lambda rho, n: np.full(n, 1.0 / n))
base_weights.of(WithMasses)(lambda rho, n: rho.masses / math.fsum(rho.masses))


# Hoeffding's lemma; the maximum over weights of either sign
moments_upper.of(KLRisk)(lambda rho, found: found.mean + found.width**2 / (8.0 * rho.lam))
moments_upper.of(ChiSquareRiskA)(lambda rho, found: found.mean + found.variance / (2.0 * rho.lam))
moments_upper.of(ChiSquareRiskB)(lambda rho, found: found.mean + found.variance / (4.0 * rho.lam))


@moments_upper.of(KLBallRisk)
def _(rho, found):
    ball = found.width * min(math.sqrt(0.5 * rho.radius), 1.0)  # Pinsker's inequality
    costly = found.width**2 / (8.0 * rho.strength) if rho.strength > 0.0 else np.inf
    return found.mean + min(ball, costly)


@moments_upper.of(ChiSquareBallRisk)
def _(rho, found):
    ball = min(math.sqrt(2.0 * rho.radius * found.variance), found.width)
    costly = found.variance / (2.0 * rho.strength) if rho.strength > 0.0 else np.inf
    return found.mean + min(ball, costly)


@generic
def loss_rounding(loss):
    """Relative error of ℓ and ℓ* as computed, in units of EPS, without that of their argument."""


def usual_outer_terms(f, u):
    """|f(u)| + |f′(u) u|, of a function without terms larger than itself."""
    return abs(outer_value(f, u)) + abs(outer_slope(f, u) * u)


USUAL = (CVaRHinge, ChiSquareA, ChiSquareB, HardNonsmooth, HardSmooth, Identity, LogisticOuter, Softplus, Square)
for _outer in (*USUAL, Exponential, Power):
    outer_terms.of(_outer)(usual_outer_terms)


@outer_terms.of(Scaled)
def _(f, u):
    at = f.slope * u + f.shift
    argument = abs(outer_slope(f.f, at)) * (abs(f.slope * u) + abs(f.shift))
    return f.factor * (outer_terms(f.f, at) + argument) + abs(f.constant)


@outer_terms.of(Smoothed)
def _(f, u):
    at, y = outer_prox(f.f, u, f.nu), outer_dual_step(f.f, u, 0.0, f.nu)
    return outer_terms(f.f, at) + abs(y) * (abs(u) + abs(at)) + f.nu * y * y


def usual_outer_conjugate_terms(f, y):
    """|f*(y)|, of a conjugate without terms larger than itself."""
    return abs(outer_conjugate(f, y))


for _outer in USUAL:
    outer_conjugate_terms.of(_outer)(usual_outer_conjugate_terms)


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


block_conjugate_terms.of(MaxOuter)(lambda f, y: 0.0)
block_conjugate_terms.of(TopSum)(lambda f, y: 0.0)


@block_conjugate_terms.of(LogSumExp)
def _(f, y):
    return (1.0 + math.log(y.size)) / f.beta


risk_terms.of(MaxRisk)(lambda rho, n: 0.0)
risk_terms.of(CVaRRisk)(lambda rho, n: 0.0)
for _risk in (ChiSquareRiskA, ChiSquareRiskB, KLRisk):
    risk_terms.of(_risk)(lambda rho, n: rho.lam * (2.0 + math.log(n)))
for _risk in (KLBallRisk, ChiSquareBallRisk):
    risk_terms.of(_risk)(lambda rho, n: rho.strength * (2.0 + math.log(n)))


@risk_terms.of(WithMasses)
def _(rho, n):
    p = rho.masses[rho.masses > 0.0]
    return risk_terms(rho.risk, max(n, p.sum() / p.min()))


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


LOSSES = (Absolute, AffineLoss, ExponentialLoss, HingeLoss, Huber, Logistic, MarginLoss, Multinomial, Pinball)
for _loss in (*LOSSES, SmoothedHinge, Squared, SquaredHinge):
    loss_rounding.of(_loss)(lambda loss: 16.0)
