"""Sizes of the terms that a function adds up: its rounding is a small multiple of EPS times them."""

import math

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel
from xrisk.functions import (
    Box,
    ChiSquareRiskA,
    ChiSquareRiskB,
    Exponential,
    KLRisk,
    LogSumExp,
    MaxOuter,
    NonNegative,
    Power,
    Restricted,
    Scaled,
    Smoothed,
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
def domain_is_product(r):
    """Whether r is finite on a product of intervals that need not be symmetric, and a sum over coordinates there."""


@outer_terms.otherwise
def _(f, u):
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


@outer_conjugate_terms.otherwise
def _(f, y):
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


@risk_terms.otherwise
def _(rho, n):
    return 0.0


@risk_terms.of(ChiSquareRiskA)
@risk_terms.of(ChiSquareRiskB)
@risk_terms.of(KLRisk)
def _(rho, n):
    return rho.lam * (2.0 + math.log(n))


@domain_is_product.otherwise
def _(r):
    return False


@domain_is_product.of(Box)
@domain_is_product.of(NonNegative)
def _(r):
    return True


@domain_is_product.of(Restricted)
def _(r):
    return domain_is_product(r.domain)


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


@kernel
def conjugate_above(r, v, off):
    """A bound on r*(v + e) over all |e_j| ≤ off, its own rounding included.

    On a product of intervals either end may be the worse one, coordinate by coordinate. Every other r is symmetric
    in the sign of each coordinate, so that r* grows with |v_j|, or lives on w ≥ 0, so that it grows with v_j.
    """
    if domain_is_product(r):
        value, size = 0.0, 0.0
        for j in range(v.size):
            one = v[j : j + 1]
            value += max(penalty_conjugate(r, one - off), penalty_conjugate(r, one + off))
            size += conjugate_terms(r, one)
    else:
        away = np.where(v > 0.0, v + off, v - off)
        value = max(penalty_conjugate(r, away), penalty_conjugate(r, v + off))
        size = conjugate_terms(r, np.abs(v))
    return value + 4.0 * EPS * (v.size + 16.0) * (abs(value) + size)
