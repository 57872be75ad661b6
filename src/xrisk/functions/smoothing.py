"""Smooth approximations of functions with kinks, for Newton's method: their slopes are interior dual points.

A loss or outer function made of lines and parabolas is φ(t) = max of v t − κ·v²/2 over v in [lo, hi], κ the dual
curvature. Its approximation

    φ_μ(t) = max over v of  v t − κ·v²/2 + μ log(v − lo) + μ log(hi − v)

is smooth, its slope lies strictly inside [lo, hi], and v t − φ*(v) is at most μ below φ(t).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from xrisk.annotations import Loss, Outer
from xrisk.compile import kernel
from xrisk.functions.loss import (
    HingeLoss,
    loss_is_affine,
    loss_kink,
    loss_piece,
    loss_terms,
    loss_value,
)
from xrisk.functions.outer import (
    CVaRHinge,
    Power,
    Scaled,
    outer_curvature,
    outer_is_piece,
    outer_piece,
    outer_slope,
)
from xrisk.generic import STRICT, generic

formula = njit(**STRICT, forceinline=False)


class Piecewise(NamedTuple):
    """A loss of lines and parabolas."""

    loss: Loss = HingeLoss()


class PiecewiseOuter(NamedTuple):
    """An outer function of lines and parabolas."""

    f: Outer = CVaRHinge()


@generic
def smooth_loss(loss, z, y, mu):
    """(value, slope, curvature) of the approximation, then ℓ(z, y) and its lower bound slope·z − ℓ*(slope)."""


@generic
def smooth_outer(f, u, mu):
    """(slope, curvature) of the approximation."""


def smoothable_loss(loss: Loss) -> Any:
    """The loss, wrapped if it is made of lines and parabolas."""
    kinked = type(loss) in loss_kink.table and not loss_is_affine(loss)
    return Piecewise(loss) if kinked or type(loss) in loss_piece.table else loss


@generic
def plain_loss(loss):
    """The loss before it was wrapped."""


plain_loss.otherwise(lambda loss: loss)
plain_loss.of(Piecewise)(lambda loss: loss.loss)


def smoothable_outer(f: Outer) -> Any:
    """The outer function, wrapped if it is made of lines and parabolas."""
    return PiecewiseOuter(f) if outer_is_piece(f) else f


@formula
def half_line(t, dual_curvature, mu):
    """The s > 0 with t − κ·s + μ/s = 0; inf where t pushes without end."""
    root = np.hypot(t, 2.0 * math.sqrt(dual_curvature * mu))
    if t > 0.0:
        return (t + root) / (2.0 * dual_curvature) if dual_curvature > 0.0 else np.inf
    return 2.0 * mu / (root - t) if root > t else 0.0


@formula
def stiffness(s, mu):
    """μ/s², the curvature of μ log(s): without end at the end itself, where also μ = 0 leads."""
    return (mu / s) / s if s > 0.0 else np.inf


@formula
def barrier(s, width, mu):
    """μ log(s/width); 0 for μ = 0, and where there is no end."""
    return mu * math.log(s / width) if 0.0 < s < np.inf else 0.0


@formula
def near_end(t, width, dual_curvature, mu):
    """The s in (0, width/2] with t − κ·s + μ/s − μ/(width − s) = 0, known to be there."""
    if dual_curvature == 0.0:
        reach = np.hypot(t * width, 2.0 * mu) + 2.0 * mu - t * width
        return 2.0 * mu * width / reach if reach > 0.0 else 0.5 * width
    s = min(half_line(t, dual_curvature, mu), 0.5 * width)
    for _ in range(60):
        # s times the equation is concave in s: Newton's method comes down to the root from the right
        rest = width - s
        value = (t - dual_curvature * s) * s + mu - mu * s / rest
        slope = t - 2.0 * dual_curvature * s - mu * width / (rest * rest)
        if not value < 1e-15 * s * slope:
            break
        s -= value / slope
    return s


@formula
def piece_slack(t, lo, hi, dual_curvature, mu):
    """(v − lo, hi − v) at the maximiser v of v t − κ·v²/2 + μ log(v − lo) + μ log(hi − v)."""
    if math.isinf(lo) and math.isinf(hi):
        return np.inf, np.inf
    if math.isinf(hi):
        return half_line(t - dual_curvature * lo, dual_curvature, mu), np.inf
    if math.isinf(lo):
        return np.inf, half_line(dual_curvature * hi - t, dual_curvature, mu)
    width = hi - lo
    if t < dual_curvature * 0.5 * (lo + hi):
        s = near_end(t - dual_curvature * lo, width, dual_curvature, mu)
        return s, width - s
    s = near_end(dual_curvature * hi - t, width, dual_curvature, mu)
    return width - s, s


@formula
def flexibility(lower, upper, dual_curvature, mu):
    """The curvature of φ_μ: inf at a kink that μ = 0 leaves."""
    stiff = dual_curvature + stiffness(lower, mu) + stiffness(upper, mu)
    return 1.0 / stiff if stiff > 0.0 else np.inf


@kernel
def piece_slope(t, lo, hi, dual_curvature, mu):
    """(slope, curvature) of φ_μ at t."""
    lower, upper = piece_slack(t, lo, hi, dual_curvature, mu)
    if math.isinf(lower) and math.isinf(upper):
        return (t / dual_curvature, 1.0 / dual_curvature) if dual_curvature > 0.0 else (np.inf, np.inf)
    v = lo + lower if lower <= upper else hi - upper
    return v, flexibility(lower, upper, dual_curvature, mu)


@formula
def piece_terms(t, lo, hi, dual_curvature, mu):
    """(value, slope, curvature) of φ_μ at t, and by how much v t − φ*(v) falls short of φ(t)."""
    lower, upper = piece_slack(t, lo, hi, dual_curvature, mu)
    curvature, barriers = flexibility(lower, upper, dual_curvature, mu), 0.0
    if math.isinf(lower) and math.isinf(upper):
        v = t / dual_curvature
    else:
        v = lo + lower if lower <= upper else hi - upper
        width = 1.0 if math.isinf(hi - lo) else hi - lo
        barriers = barrier(lower, width, mu) + barrier(upper, width, mu)
    best = (hi if t > 0.0 else lo) if dual_curvature == 0.0 else min(max(t / dual_curvature, lo), hi)
    short = max((best - v) * (t - 0.5 * dual_curvature * (best + v)), 0.0)
    return v * (t - 0.5 * dual_curvature * v) + barriers, v, curvature, short


@smooth_loss.otherwise
def _(loss, z, y, mu):
    value, slope, curvature = loss_terms(loss, z, y)
    return value, slope, curvature, value, value


@smooth_loss.of(Piecewise)
def _(loss, z, y, mu):
    lo, hi, at, dual_curvature = loss_piece(loss.loss, y)
    value, slope, curvature, short = piece_terms(z - at, lo, hi, dual_curvature, mu)
    true = loss_value(loss.loss, z, y)
    return value, slope, curvature, true, true - short


@smooth_outer.otherwise
def _(f, u, mu):
    return outer_slope(f, u), outer_curvature(f, u)


@smooth_outer.of(PiecewiseOuter)
def _(f, u, mu):
    lo, hi, at, dual_curvature = outer_piece(f.f)
    return piece_slope(u - at, lo, hi, dual_curvature, mu)


@smooth_outer.of(Power)
def _(f, u, mu):
    # (u)₊ becomes the root π of π (π − u) = μ², whose powers have a finite curvature below p = 2 too
    if mu == 0.0:
        return outer_slope(f, u), outer_curvature(f, u)
    root = np.hypot(u, 2.0 * mu)
    plus = 0.5 * (u + root) if u > 0.0 else 2.0 * mu * mu / (root - u)
    first, second = plus / root, 2.0 * (mu / root) * (mu / root) / root
    power = plus ** (f.p - 1.0)
    return f.p * power * first, f.p * power * ((f.p - 1.0) * first / root + second)


@smooth_outer.of(Scaled)
def _(f, u, mu):
    slope, curvature = smooth_outer(f.f, f.slope * u + f.shift, mu / f.factor)
    return f.factor * f.slope * slope, f.factor * f.slope * f.slope * curvature
