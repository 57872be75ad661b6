"""Outer functions made of quadratic and linear pieces."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.functions.outer.generics import (
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_piece,
    outer_is_smooth,
    outer_lipschitz,
    outer_piece,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
)
from xrisk.functions.parameters import checks, inside_zero_to_one, positive
from xrisk.functions.special import clip


@checks(lam=positive)
class ChiSquareA(NamedTuple):
    """f(u) = λ A(u/λ), A(t) = ½ (t + 1)₊² − ½: the conjugate of the divergence ½ (q − 1)² on q ≥ 0, times λ.

    Examples
    --------
    >>> outer_value(ChiSquareA(2.0), 4.0)
    8.0
    """

    lam: float = 1.0


@checks(lam=positive)
class ChiSquareB(NamedTuple):
    """f(u) = λ B(u/λ), B(t) = ¼ (t + 2)₊² − 1: the conjugate of the divergence (q − 1)² on q ≥ 0, times λ.

    Examples
    --------
    >>> outer_value(ChiSquareB(2.0), 4.0)
    6.0
    """

    lam: float = 1.0


@checks(scale=positive)
class Square(NamedTuple):
    """f(u) = c u²; not monotone, so inner functions must be affine for a convex objective.

    Examples
    --------
    >>> outer_value(Square(0.5), 4.0)
    8.0
    """

    scale: float = 1.0


@checks(nu=inside_zero_to_one)
class HardSmooth(NamedTuple):
    """f(u) = ν u + h(u), h(u) = ½ u² for |u| ≤ 1 and |u| − ½ beyond, of the lower bound for smooth outer functions.

    Examples
    --------
    >>> outer_slope(HardSmooth(0.25), 7.0)
    1.25
    """

    nu: float = 0.1


@outer_is_monotone.of(ChiSquareA)
@outer_is_monotone.of(ChiSquareB)
@outer_is_smooth.of(ChiSquareA)
@outer_is_smooth.of(ChiSquareB)
@outer_is_smooth.of(Square)
@outer_is_smooth.of(HardSmooth)
def _(f):
    return True


@outer_is_monotone.of(Square)
@outer_is_monotone.of(HardSmooth)
def _(f):
    return False


@outer_domain.of(ChiSquareA)
@outer_domain.of(ChiSquareB)
def _(f):
    return (0.0, np.inf)


@outer_value.of(ChiSquareA)
def _(f, u):
    # expanded, so that nothing cancels near 0
    return u * (1.0 + 0.5 * (u / f.lam)) if u > -f.lam else -0.5 * f.lam


@outer_slope.of(ChiSquareA)
@outer_lipschitz.of(ChiSquareA)
def _(f, u):
    return max(u / f.lam + 1.0, 0.0)


@outer_curvature.of(ChiSquareA)
@outer_smoothness.of(ChiSquareA)
def _(f, u):
    return 1.0 / f.lam if u > -f.lam else 0.0


@outer_conjugate.of(ChiSquareA)
def _(f, y):
    return 0.5 * f.lam * (y - 1.0) * (y - 1.0) if y >= 0.0 else np.inf


@outer_dual_step.of(ChiSquareA)
def _(f, u, y0, tau):
    return max((u + tau * y0 + f.lam) / (f.lam + tau), 0.0)


@outer_prox.of(ChiSquareA)
def _(f, u, s):
    return (u - s) * (f.lam / (f.lam + s)) if u > -f.lam else u


@outer_value.of(ChiSquareB)
def _(f, u):
    return u * (1.0 + 0.25 * (u / f.lam)) if u > -2.0 * f.lam else -f.lam


@outer_slope.of(ChiSquareB)
@outer_lipschitz.of(ChiSquareB)
def _(f, u):
    return max(0.5 * (u / f.lam) + 1.0, 0.0)


@outer_curvature.of(ChiSquareB)
@outer_smoothness.of(ChiSquareB)
def _(f, u):
    return 0.5 / f.lam if u > -2.0 * f.lam else 0.0


@outer_conjugate.of(ChiSquareB)
def _(f, y):
    return f.lam * (y - 1.0) * (y - 1.0) if y >= 0.0 else np.inf


@outer_dual_step.of(ChiSquareB)
def _(f, u, y0, tau):
    return max((u + tau * y0 + 2.0 * f.lam) / (2.0 * f.lam + tau), 0.0)


@outer_prox.of(ChiSquareB)
def _(f, u, s):
    return (u - s) * (2.0 * f.lam / (2.0 * f.lam + s)) if u > -2.0 * f.lam else u


@outer_value.of(Square)
def _(f, u):
    return f.scale * u * u


@outer_slope.of(Square)
def _(f, u):
    return 2.0 * f.scale * u


@outer_curvature.of(Square)
@outer_smoothness.of(Square)
def _(f, u):
    return 2.0 * f.scale


@outer_conjugate.of(Square)
def _(f, y):
    return 0.25 * y * (y / f.scale)


@outer_domain.of(Square)
def _(f):
    return (-np.inf, np.inf)


@outer_dual_step.of(Square)
def _(f, u, y0, tau):
    return (u + tau * y0) * (2.0 * f.scale / (1.0 + 2.0 * f.scale * tau))


@outer_prox.of(Square)
def _(f, u, s):
    return u / (1.0 + 2.0 * f.scale * s)


@outer_lipschitz.of(Square)
def _(f, upper):
    return 2.0 * f.scale * abs(upper)


@outer_value.of(HardSmooth)
def _(f, u):
    a = abs(u)
    return f.nu * u + (0.5 * u * u if a <= 1.0 else a - 0.5)


@outer_slope.of(HardSmooth)
def _(f, u):
    return clip(u, -1.0, 1.0) + f.nu


@outer_curvature.of(HardSmooth)
def _(f, u):
    return 1.0 if abs(u) < 1.0 else 0.0


@outer_conjugate.of(HardSmooth)
def _(f, y):
    return 0.5 * (y - f.nu) * (y - f.nu) if -1.0 + f.nu <= y <= 1.0 + f.nu else np.inf


@outer_domain.of(HardSmooth)
def _(f):
    return (-1.0 + f.nu, 1.0 + f.nu)


@outer_dual_step.of(HardSmooth)
def _(f, u, y0, tau):
    return clip((u + tau * y0 + f.nu) / (1.0 + tau), -1.0 + f.nu, 1.0 + f.nu)


@outer_prox.of(HardSmooth)
def _(f, u, s):
    inside = (u - s * f.nu) / (1.0 + s)
    return inside if abs(inside) <= 1.0 else u - s * (f.nu + math.copysign(1.0, inside))


@outer_lipschitz.of(HardSmooth)
def _(f, upper):
    return max(1.0 - f.nu, clip(upper, -1.0, 1.0) + f.nu)


@outer_smoothness.of(HardSmooth)
def _(f, upper):
    return 1.0 if upper > -1.0 else 0.0


@outer_piece.of(ChiSquareA)
def _(f):
    return 0.0, np.inf, -f.lam, f.lam


@outer_piece.of(ChiSquareB)
def _(f):
    return 0.0, np.inf, -2.0 * f.lam, 2.0 * f.lam


@outer_piece.of(HardSmooth)
def _(f):
    return f.nu - 1.0, f.nu + 1.0, -f.nu, 1.0


@outer_is_piece.of(ChiSquareA)
@outer_is_piece.of(ChiSquareB)
@outer_is_piece.of(HardSmooth)
def _(f):
    return True
