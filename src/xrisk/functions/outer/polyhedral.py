"""Piecewise linear outer functions with at most one kink."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

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
from xrisk.functions.parameters import checks, positive, share
from xrisk.functions.special import clip


@checks(alpha=share)
class CVaRHinge(NamedTuple):
    """f(u) = (u)₊ / α.

    Examples
    --------
    >>> outer_value(CVaRHinge(0.25), 2.0)
    8.0
    """

    alpha: float = 0.1


@checks(beta=positive, nu=positive)
class HardNonsmooth(NamedTuple):
    """f(u) = β max(u, −ν), of the lower bound for non-smooth outer functions.

    Examples
    --------
    >>> outer_value(HardNonsmooth(2.0, 0.25), -1.0)
    -0.5
    """

    beta: float = 1.0
    nu: float = 0.1


class Identity(NamedTuple):
    """f(u) = u.

    Examples
    --------
    >>> outer_value(Identity(), 3.0)
    3.0
    """


@register_jitable
def kink_prox(u, s, slopes, at):
    """prox of max of y (u − at) over y between two slopes; exactly ``at`` if that is the minimiser."""
    lo, hi = slopes
    return max(u - s * hi, min(u - s * lo, at))


@outer_is_piecewise_linear.of(CVaRHinge)
@outer_is_piecewise_linear.of(HardNonsmooth)
@outer_is_piecewise_linear.of(Identity)
@outer_is_monotone.of(CVaRHinge)
@outer_is_monotone.of(HardNonsmooth)
@outer_is_monotone.of(Identity)
@outer_is_smooth.of(Identity)
def _(f):
    return True


@outer_is_smooth.of(CVaRHinge)
@outer_is_smooth.of(HardNonsmooth)
def _(f):
    return False


@outer_curvature.of(CVaRHinge)
@outer_curvature.of(HardNonsmooth)
@outer_curvature.of(Identity)
def _(f, u):
    return 0.0


@outer_value.of(CVaRHinge)
def _(f, u):
    return max(u, 0.0) / f.alpha


@outer_slope.of(CVaRHinge)
def _(f, u):
    return 1.0 / f.alpha if u > 0.0 else 0.0


@outer_conjugate.of(CVaRHinge)
def _(f, y):
    return 0.0 if 0.0 <= y <= 1.0 / f.alpha else np.inf


@outer_domain.of(CVaRHinge)
def _(f):
    return (0.0, 1.0 / f.alpha)


@outer_dual_step.of(CVaRHinge)
def _(f, u, y0, tau):
    return clip(y0 + u / tau, 0.0, 1.0 / f.alpha)


@outer_prox.of(CVaRHinge)
def _(f, u, s):
    return kink_prox(u, s, (0.0, 1.0 / f.alpha), 0.0)


@outer_lipschitz.of(CVaRHinge)
def _(f, upper):
    return 1.0 / f.alpha if upper >= 0.0 else 0.0


@outer_smoothness.of(CVaRHinge)
def _(f, upper):
    return np.inf if upper >= 0.0 else 0.0


@outer_kink.of(CVaRHinge)
def _(f):
    return (0.0, 1.0 / f.alpha, 0.0, 0.0)


@outer_value.of(HardNonsmooth)
def _(f, u):
    return f.beta * max(u, -f.nu)


@outer_slope.of(HardNonsmooth)
def _(f, u):
    return f.beta if u > -f.nu else 0.0


@outer_conjugate.of(HardNonsmooth)
def _(f, y):
    return f.nu * (f.beta - y) if 0.0 <= y <= f.beta else np.inf


@outer_domain.of(HardNonsmooth)
def _(f):
    return (0.0, f.beta)


@outer_dual_step.of(HardNonsmooth)
def _(f, u, y0, tau):
    return clip(y0 + (u + f.nu) / tau, 0.0, f.beta)


@outer_prox.of(HardNonsmooth)
def _(f, u, s):
    return kink_prox(u, s, (0.0, f.beta), -f.nu)


@outer_lipschitz.of(HardNonsmooth)
def _(f, upper):
    return f.beta if upper >= -f.nu else 0.0


@outer_smoothness.of(HardNonsmooth)
def _(f, upper):
    return np.inf if upper >= -f.nu else 0.0


@outer_kink.of(HardNonsmooth)
def _(f):
    return (0.0, f.beta, -f.nu, -f.beta * f.nu)


outer_value.of(Identity)(lambda f, u: u)
outer_slope.of(Identity)(lambda f, u: 1.0)


@outer_conjugate.of(Identity)
def _(f, y):
    return 0.0 if y == 1.0 else np.inf


@outer_domain.of(Identity)
def _(f):
    return (1.0, 1.0)


outer_dual_step.of(Identity)(lambda f, u, y0, tau: 1.0)


@outer_prox.of(Identity)
def _(f, u, s):
    return u - s


outer_lipschitz.of(Identity)(lambda f, upper: 1.0)
outer_smoothness.of(Identity)(lambda f, upper: 0.0)


@outer_kink.of(Identity)
def _(f):
    return (1.0, 1.0, 0.0, 0.0)


@outer_piece.of(CVaRHinge)
@outer_piece.of(HardNonsmooth)
def _(f):
    lo, hi, at, _ = outer_kink(f)
    return lo, hi, at, 0.0


@outer_is_piece.of(CVaRHinge)
@outer_is_piece.of(HardNonsmooth)
def _(f):
    return True
