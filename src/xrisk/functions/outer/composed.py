"""Outer functions made from another: Moreau smoothing, scaling and shifting."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Outer
from xrisk.functions.outer.curved import Softplus
from xrisk.functions.outer.generics import (
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_piece,
    outer_is_piecewise_linear,
    outer_is_smooth,
    outer_kink,
    outer_lipschitz,
    outer_piece,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
)
from xrisk.functions.outer.polyhedral import CVaRHinge
from xrisk.functions.parameters import checks, finite, positive
from xrisk.functions.special import clip


@checks(nu=positive)
class Smoothed(NamedTuple):
    """f_ν(u) = min_z f(z) + (z − u)² / (2ν) = max_y y u − f*(y) − (ν/2) y², for any scalar outer function f.

    Its curvature assumes that f has a kink wherever f″(z) = 0 and the slope is inside the domain of f*. This holds for
    all outer functions here, but not for one with several kinks.

    Examples
    --------
    >>> outer_slope(Smoothed(CVaRHinge(0.25), 0.5), 1.0)
    2.0
    """

    f: Outer = CVaRHinge()
    nu: float = 0.1


@checks(factor=positive, slope=positive, shift=finite, constant=finite)
class Scaled(NamedTuple):
    """h(u) = factor · f(slope · u + shift) + constant, with factor, slope > 0.

    Examples
    --------
    >>> outer_value(Scaled(CVaRHinge(0.5), 2.0, 3.0, 1.0, -4.0), 1.0)
    12.0
    """

    f: Outer = Softplus()
    factor: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    constant: float = 0.0


@outer_value.of(Smoothed)
def _(f, u):
    y = outer_dual_step(f.f, u, 0.0, f.nu)
    return outer_value(f.f, outer_prox(f.f, u, f.nu)) + 0.5 * f.nu * y * y


outer_slope.of(Smoothed)(lambda f, u: outer_dual_step(f.f, u, 0.0, f.nu))


@outer_curvature.of(Smoothed)
def _(f, u):
    curvature = outer_curvature(f.f, outer_prox(f.f, u, f.nu))
    lo, hi = outer_domain(f.f)
    at_kink = curvature == 0.0 and lo < outer_dual_step(f.f, u, 0.0, f.nu) < hi
    if at_kink or math.isinf(curvature):
        return 1.0 / f.nu
    return curvature / (1.0 + f.nu * curvature)


@outer_conjugate.of(Smoothed)
def _(f, y):
    return outer_conjugate(f.f, y) + 0.5 * f.nu * y * y


outer_domain.of(Smoothed)(lambda f: outer_domain(f.f))


@outer_dual_step.of(Smoothed)
def _(f, u, y0, tau):
    return outer_dual_step(f.f, u, tau / (tau + f.nu) * y0, tau + f.nu)


@outer_prox.of(Smoothed)
def _(f, u, s):
    far = outer_prox(f.f, u, s + f.nu)
    return (f.nu / (s + f.nu)) * u + (s / (s + f.nu)) * far


@outer_lipschitz.of(Smoothed)
def _(f, upper):
    lo = outer_domain(f.f)[0]
    if math.isinf(upper):
        return outer_lipschitz(f.f, upper)
    if math.isinf(lo):
        return outer_lipschitz(f.f, outer_prox(f.f, upper, f.nu))
    return max(abs(lo), abs(outer_dual_step(f.f, upper, 0.0, f.nu)))


@outer_smoothness.of(Smoothed)
def _(f, upper):
    reached = upper if math.isinf(upper) else outer_prox(f.f, upper, f.nu)
    smoothness = outer_smoothness(f.f, reached)
    return 1.0 / f.nu if math.isinf(smoothness) else smoothness / (1.0 + f.nu * smoothness)


@outer_is_monotone.of(Smoothed)
@outer_is_monotone.of(Scaled)
def _(f):
    return outer_is_monotone(f.f)


outer_is_smooth.of(Smoothed)(lambda f: True)


@outer_value.of(Scaled)
def _(f, u):
    return f.factor * outer_value(f.f, f.slope * u + f.shift) + f.constant


@outer_slope.of(Scaled)
def _(f, u):
    return f.factor * f.slope * outer_slope(f.f, f.slope * u + f.shift)


@outer_curvature.of(Scaled)
def _(f, u):
    return f.factor * f.slope * f.slope * outer_curvature(f.f, f.slope * u + f.shift)


@outer_conjugate.of(Scaled)
def _(f, y):
    lo, hi = outer_domain(f.f)
    steepness = f.factor * f.slope
    if y < steepness * lo or y > steepness * hi:
        return np.inf
    # clipped: at the ends y / steepness may round to outside the domain of f*
    return f.factor * outer_conjugate(f.f, clip(y / steepness, lo, hi)) - f.shift / f.slope * y - f.constant


@outer_domain.of(Scaled)
def _(f):
    lo, hi = outer_domain(f.f)
    return (f.factor * f.slope * lo, f.factor * f.slope * hi)


@outer_dual_step.of(Scaled)
def _(f, u, y0, tau):
    steepness = f.factor * f.slope
    return steepness * outer_dual_step(f.f, f.slope * u + f.shift, y0 / steepness, tau * f.slope * steepness)


@outer_prox.of(Scaled)
def _(f, u, s):
    z = outer_prox(f.f, f.slope * u + f.shift, s * f.factor * f.slope * f.slope)
    return (z - f.shift) / f.slope


@outer_lipschitz.of(Scaled)
def _(f, upper):
    reached = f.slope * upper + f.shift if outer_is_monotone(f.f) else f.slope * abs(upper) + abs(f.shift)
    return f.factor * f.slope * outer_lipschitz(f.f, reached)


@outer_smoothness.of(Scaled)
def _(f, upper):
    reached = f.slope * upper + f.shift if outer_is_monotone(f.f) else f.slope * abs(upper) + abs(f.shift)
    return f.factor * f.slope * f.slope * outer_smoothness(f.f, reached)


outer_is_smooth.of(Scaled)(lambda f: outer_is_smooth(f.f))
outer_is_piecewise_linear.of(Scaled)(lambda f: outer_is_piecewise_linear(f.f))


@outer_kink.of(Scaled)
def _(f):
    lo, hi, at, offset = outer_kink(f.f)
    steepness = f.factor * f.slope
    return (steepness * lo, steepness * hi, (at - f.shift) / f.slope, f.factor * offset + f.constant)


@outer_piece.of(Smoothed)
def _(f):
    lo, hi, at, dual_curvature = outer_piece(f.f)
    return lo, hi, at, dual_curvature + f.nu


@outer_piece.of(Scaled)
def _(f):
    lo, hi, at, dual_curvature = outer_piece(f.f)
    steepness = f.factor * f.slope
    return steepness * lo, steepness * hi, (at - f.shift) / f.slope, dual_curvature / (steepness * f.slope)


@outer_is_piece.of(Smoothed)
@outer_is_piece.of(Scaled)
def _(f):
    return outer_is_piece(f.f)
