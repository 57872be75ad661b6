"""Outer functions of exponentials, logarithms and powers."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.functions.outer.generics import (
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_smooth,
    outer_lipschitz,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
)
from xrisk.functions.parameters import checks, positive, require
from xrisk.functions.special import (
    exp,
    exp_conjugate,
    log1pexp,
    logit_root,
    negative_entropy,
    power,
    power_root,
    sigmoid,
    sigmoid_slope,
    wright_omega,
)


class Power(NamedTuple):
    """f(u) = (u)₊^p, p > 1.

    Examples
    --------
    >>> outer_value(Power(3.0), 2.0)
    8.0
    """

    p: float = 2.0

    def check(self) -> None:
        """Refuse an exponent that is not above 1."""
        require(math.isfinite(self.p) and self.p > 1.0, "p", self.p, "above 1 and finite")


@checks(tau=positive)
class Exponential(NamedTuple):
    """f(u) = τ exp(u/τ); inf where it overflows.

    Examples
    --------
    >>> outer_value(Exponential(2.0), 0.0)
    2.0
    """

    tau: float = 1.0


class Softplus(NamedTuple):
    """f(u) = log(1 + exp(u)).

    Examples
    --------
    >>> outer_slope(Softplus(), 0.0)
    0.5
    """


class LogisticOuter(NamedTuple):
    """f(u) = log(1 + exp(−b u)), b = ±1; non-decreasing for b = −1 only.

    Examples
    --------
    >>> outer_slope(LogisticOuter(1.0), 0.0)
    -0.5
    """

    sign: float = 1.0

    def check(self) -> None:
        """Refuse a sign that is not ±1."""
        require(self.sign in (-1.0, 1.0), "sign", self.sign, "1 or -1")


@outer_is_monotone.of(Power)
@outer_is_monotone.of(Exponential)
@outer_is_monotone.of(Softplus)
@outer_is_smooth.of(Exponential)
@outer_is_smooth.of(Softplus)
@outer_is_smooth.of(LogisticOuter)
def _(f):
    return True


@outer_is_monotone.of(LogisticOuter)
def _(f):
    return f.sign < 0.0


@outer_is_smooth.of(Power)
def _(f):
    return f.p >= 2.0


@outer_domain.of(Power)
@outer_domain.of(Exponential)
def _(f):
    return (0.0, np.inf)


@outer_value.of(Power)
def _(f, u):
    return power(u, f.p) if u > 0.0 else 0.0


@outer_slope.of(Power)
@outer_lipschitz.of(Power)
def _(f, u):
    return f.p * power(u, f.p - 1.0) if u > 0.0 else 0.0


@outer_curvature.of(Power)
def _(f, u):
    return f.p * (f.p - 1.0) * power(u, f.p - 2.0) if u > 0.0 else 0.0


@outer_smoothness.of(Power)
def _(f, upper):
    if upper <= 0.0:
        return 0.0
    return f.p * (f.p - 1.0) * power(upper, f.p - 2.0) if f.p >= 2.0 else np.inf


@outer_conjugate.of(Power)
def _(f, y):
    return (f.p - 1.0) * power(y / f.p, f.p / (f.p - 1.0)) if y >= 0.0 else np.inf


@outer_dual_step.of(Power)
def _(f, u, y0, tau):
    w = u + tau * y0
    return power_root(f.p, w, tau)[1] if w > 0.0 else 0.0


@outer_prox.of(Power)
def _(f, u, s):
    return power_root(f.p, u, s)[0] if u > 0.0 else u


@outer_value.of(Exponential)
def _(f, u):
    return f.tau * exp(u / f.tau)


@outer_slope.of(Exponential)
@outer_lipschitz.of(Exponential)
def _(f, u):
    return exp(u / f.tau)


@outer_curvature.of(Exponential)
@outer_smoothness.of(Exponential)
def _(f, u):
    return exp(u / f.tau) / f.tau


@outer_conjugate.of(Exponential)
def _(f, y):
    return f.tau * exp_conjugate(y)


@outer_dual_step.of(Exponential)
def _(f, u, y0, tau):
    w = u + tau * y0
    z = w / f.tau + (math.log(tau) - math.log(f.tau))
    if z < -40.0:
        return exp(w / f.tau)  # τ y is too small to matter, and ω(z) might underflow
    if math.isinf(z):
        return w / tau  # w/f.tau overflowed, and log ω is negligible next to ω
    return f.tau / tau * wright_omega(z)


@outer_prox.of(Exponential)
def _(f, u, s):
    # a long step from the slope exp(z/τ): in u − s y the two terms nearly cancel when u is large
    y = outer_dual_step(f, u, 0.0, s)
    return f.tau * math.log(y) if s * y > f.tau else u - s * y


outer_value.of(Softplus)(lambda f, u: log1pexp(u))


@outer_slope.of(Softplus)
@outer_lipschitz.of(Softplus)
def _(f, u):
    return sigmoid(u)


@outer_curvature.of(Softplus)
@outer_curvature.of(LogisticOuter)
def _(f, u):
    return sigmoid_slope(u)


@outer_smoothness.of(Softplus)
@outer_smoothness.of(LogisticOuter)
def _(f, upper):
    return sigmoid_slope(min(upper, 0.0))


outer_conjugate.of(Softplus)(lambda f, y: negative_entropy(y))


@outer_domain.of(Softplus)
def _(f):
    return (0.0, 1.0)


@outer_dual_step.of(Softplus)
def _(f, u, y0, tau):
    return sigmoid(logit_root(u + tau * y0, tau))


outer_prox.of(Softplus)(lambda f, u, s: logit_root(u, s))


@outer_value.of(LogisticOuter)
def _(f, u):
    return log1pexp(-f.sign * u)


@outer_slope.of(LogisticOuter)
def _(f, u):
    return -f.sign * sigmoid(-f.sign * u)


@outer_lipschitz.of(LogisticOuter)
def _(f, upper):
    return 1.0 if f.sign > 0.0 else sigmoid(upper)


@outer_conjugate.of(LogisticOuter)
def _(f, y):
    return negative_entropy(-f.sign * y)


@outer_domain.of(LogisticOuter)
def _(f):
    return (-1.0, 0.0) if f.sign > 0.0 else (0.0, 1.0)


@outer_dual_step.of(LogisticOuter)
def _(f, u, y0, tau):
    return -f.sign * sigmoid(logit_root(-f.sign * (u + tau * y0), tau))


@outer_prox.of(LogisticOuter)
def _(f, u, s):
    return -f.sign * logit_root(-f.sign * u, s)
