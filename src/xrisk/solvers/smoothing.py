"""Smooth stand-ins for functions with kinks, for Newton's method: their slopes are interior dual points.

A loss or outer function made of lines and parabolas is φ(t) = max of v t − bend·v²/2 over v in [lo, hi]. Its stand-in

    φ_μ(t) = max over v of  v t − bend·v²/2 + μ log(v − lo) + μ log(hi − v)

is smooth, has its slope strictly inside [lo, hi], and v t − φ*(v) falls short of φ(t) by at most μ.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from xrisk.compile import kernel
from xrisk.functions import (
    ChiSquareA,
    ChiSquareB,
    CVaRHinge,
    HardNonsmooth,
    HardSmooth,
    HingeLoss,
    Huber,
    Power,
    Scaled,
    Smoothed,
    SmoothedHinge,
    SquaredHinge,
    loss_curvature,
    loss_is_affine,
    loss_kink,
    loss_slope,
    loss_value,
    outer_curvature,
    outer_kink,
    outer_slope,
)
from xrisk.generic import generic

formula = njit(error_model="numpy")


class Bent(NamedTuple):
    """A loss of lines and parabolas."""

    loss: Any = HingeLoss()


class BentOuter(NamedTuple):
    """An outer function of lines and parabolas."""

    f: Any = CVaRHinge()


@generic
def loss_arc(loss, y):
    """(lo, hi, at, bend) with ℓ(z, y) = max of v (z − at) − bend·v²/2 over v in [lo, hi]."""


@generic
def outer_arc(f):
    """(lo, hi, at, bend) with f(u) = constant + max of y (u − at) − bend·y²/2 over y in [lo, hi]."""


@generic
def smooth_loss(loss, z, y, mu):
    """(value, slope, curvature) of the stand-in, then ℓ(z, y) and its lower bound slope·z − ℓ*(slope)."""


@generic
def smooth_outer(f, u, mu):
    """(slope, curvature) of the stand-in."""


def bend_loss(loss: Any) -> Any:
    """The loss, wrapped if it is made of lines and parabolas."""
    kinked = type(loss) in loss_kink.table and not loss_is_affine(loss)
    return Bent(loss) if kinked or type(loss) in loss_arc.table else loss


def bend_outer(f: Any) -> Any:
    """The outer function, wrapped if it is made of lines and parabolas."""
    return BentOuter(f) if has_arc(f) else f


def has_arc(f: Any) -> bool:
    """Whether ``outer_arc`` describes f."""
    if isinstance(f, (Scaled, Smoothed)):
        return has_arc(f.f)
    return type(f) in outer_arc.table


@loss_arc.otherwise
def _(loss, y):
    lo, hi, at = loss_kink(loss, y)
    return lo, hi, at, 0.0


@loss_arc.of(SquaredHinge)
def _(loss, y):
    return (-np.inf, 0.0, 1.0, 0.5) if y > 0 else (0.0, np.inf, -1.0, 0.5)


@loss_arc.of(SmoothedHinge)
def _(loss, y):
    return (-1.0, 0.0, 1.0, loss.width) if y > 0 else (0.0, 1.0, -1.0, loss.width)


@loss_arc.of(Huber)
def _(loss, y):
    return -loss.delta, loss.delta, y, 1.0


@outer_arc.of(CVaRHinge)
@outer_arc.of(HardNonsmooth)
def _(f):
    lo, hi, at, _ = outer_kink(f)
    return lo, hi, at, 0.0


@outer_arc.of(ChiSquareA)
def _(f):
    return 0.0, np.inf, -f.lam, f.lam


@outer_arc.of(ChiSquareB)
def _(f):
    return 0.0, np.inf, -2.0 * f.lam, 2.0 * f.lam


@outer_arc.of(HardSmooth)
def _(f):
    return f.nu - 1.0, f.nu + 1.0, -f.nu, 1.0


@outer_arc.of(Smoothed)
def _(f):
    lo, hi, at, bend = outer_arc(f.f)
    return lo, hi, at, bend + f.nu


@outer_arc.of(Scaled)
def _(f):
    lo, hi, at, bend = outer_arc(f.f)
    gain = f.factor * f.slope
    return gain * lo, gain * hi, (at - f.shift) / f.slope, bend / (gain * f.slope)


@formula
def half_line(t, bend, mu):
    """The s > 0 with t − bend·s + μ/s = 0; inf where t pushes without end."""
    root = np.hypot(t, 2.0 * math.sqrt(bend * mu))
    if t > 0.0:
        return (t + root) / (2.0 * bend)
    return 2.0 * mu / (root - t)


@formula
def near_end(t, width, bend, mu):
    """The s in (0, width/2] with t − bend·s + μ/s − μ/(width − s) = 0, known to be there."""
    if bend == 0.0:
        return 2.0 * mu * width / (np.hypot(t * width, 2.0 * mu) + 2.0 * mu - t * width)
    s = min(half_line(t, bend, mu), 0.5 * width)
    for _ in range(60):
        # s times the equation is concave in s: Newton's method comes down to the root from the right
        rest = width - s
        value = (t - bend * s) * s + mu - mu * s / rest
        step = value / (t - 2.0 * bend * s - mu * width / (rest * rest))
        if not step > 1e-15 * s:
            break
        s -= step
    return s


@formula
def arc_slack(t, lo, hi, bend, mu):
    """(v − lo, hi − v) at the maximiser v of v t − bend·v²/2 + μ log(v − lo) + μ log(hi − v)."""
    if math.isinf(lo) and math.isinf(hi):
        return np.inf, np.inf
    if math.isinf(hi):
        return half_line(t - bend * lo, bend, mu), np.inf
    if math.isinf(lo):
        return np.inf, half_line(bend * hi - t, bend, mu)
    width = hi - lo
    if t < bend * 0.5 * (lo + hi):
        s = near_end(t - bend * lo, width, bend, mu)
        return s, width - s
    s = near_end(bend * hi - t, width, bend, mu)
    return width - s, s


@kernel
def arc_slope(t, lo, hi, bend, mu):
    """(slope, curvature) of φ_μ at t."""
    below, above = arc_slack(t, lo, hi, bend, mu)
    if math.isinf(below) and math.isinf(above):
        return t / bend, 1.0 / bend
    v = lo + below if below <= above else hi - above
    return v, 1.0 / (bend + mu / (below * below) + mu / (above * above))


@formula
def arc_terms(t, lo, hi, bend, mu):
    """(value, slope, curvature) of φ_μ at t, and by how much v t − φ*(v) falls short of φ(t)."""
    below, above = arc_slack(t, lo, hi, bend, mu)
    v = t / bend
    curvature = 1.0 / (bend + mu / (below * below) + mu / (above * above))
    wall = 0.0
    if not (math.isinf(below) and math.isinf(above)):
        v = lo + below if below <= above else hi - above
        width = 1.0 if math.isinf(hi - lo) else hi - lo
        wall = 0.0 if math.isinf(below) else math.log(below / width)
        wall += 0.0 if math.isinf(above) else math.log(above / width)
    best = (hi if t > 0.0 else lo) if bend == 0.0 else min(max(t / bend, lo), hi)
    short = max((best - v) * (t - 0.5 * bend * (best + v)), 0.0)
    return v * (t - 0.5 * bend * v) + mu * wall, v, curvature, short


@smooth_loss.otherwise
def _(loss, z, y, mu):
    value = loss_value(loss, z, y)
    return value, loss_slope(loss, z, y), loss_curvature(loss, z, y), value, value


@smooth_loss.of(Bent)
def _(loss, z, y, mu):
    lo, hi, at, bend = loss_arc(loss.loss, y)
    value, slope, curvature, short = arc_terms(z - at, lo, hi, bend, mu)
    true = loss_value(loss.loss, z, y)
    return value, slope, curvature, true, true - short


@smooth_outer.otherwise
def _(f, u, mu):
    return outer_slope(f, u), outer_curvature(f, u)


@smooth_outer.of(BentOuter)
def _(f, u, mu):
    lo, hi, at, bend = outer_arc(f.f)
    return arc_slope(u - at, lo, hi, bend, mu)


@smooth_outer.of(Power)
def _(f, u, mu):
    # (u)₊ becomes the root π of π (π − u) = μ², whose powers have a finite curvature below p = 2 too
    root = np.hypot(u, 2.0 * mu)
    plus = 0.5 * (u + root) if u > 0.0 else 2.0 * mu * mu / (root - u)
    first, second = plus / root, 2.0 * (mu / root) * (mu / root) / root
    power = plus ** (f.p - 1.0)
    return f.p * power * first, f.p * power * ((f.p - 1.0) * first / root + second)


@smooth_outer.of(Scaled)
def _(f, u, mu):
    slope, curvature = smooth_outer(f.f, f.slope * u + f.shift, mu / f.factor)
    return f.factor * f.slope * slope, f.factor * f.slope * f.slope * curvature
