"""Domains: an indicator is a penalty, its prox the projection, its conjugate the support function."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Domain
from xrisk.functions.parameters import checks, finite, positive, require
from xrisk.functions.penalty import penalty_conjugate, penalty_convexity, penalty_slope, penalty_value, prox
from xrisk.functions.simplex import fill_from_top, project_capped_simplex, project_simplex
from xrisk.functions.special import clip, norm
from xrisk.generic import generic

SLACK = 1e-9  # relative, of being inside: what the rounding of a projection needs


@generic
def support_point(domain: Domain, v: np.ndarray) -> None:
    """The w of the domain with the largest ⟨v, w⟩ (of these the one nearest 0), in place on v; may be infinite."""


class Box(NamedTuple):
    """low ≤ w_j ≤ high.

    Examples
    --------
    >>> w = np.array([3.0, 0.5])
    >>> prox(Box(), w, 1.0)
    >>> w.tolist()
    [1.0, 0.5]
    """

    low: float = -1.0
    high: float = 1.0

    def check(self) -> None:
        """Refuse infinite or crossed bounds."""
        finite("low", self.low)
        finite("high", self.high)
        require(self.low <= self.high, "high", self.high, f"at least low={self.low!r}")


@checks(radius=positive)
class Ball(NamedTuple):
    """‖w‖ ≤ radius.

    Examples
    --------
    >>> w = np.array([3.0, 4.0])
    >>> penalty_value(Ball(), w)
    inf
    """

    radius: float = 1.0


class NonNegative(NamedTuple):
    """w_j ≥ 0."""


@checks(total=positive)
class Simplex(NamedTuple):
    """w ≥ 0, Σ w = total.

    Examples
    --------
    >>> w = np.array([1.0, 0.5])
    >>> prox(Simplex(), w, 1.0)
    >>> w.tolist()
    [0.75, 0.25]
    """

    total: float = 1.0


@checks(total=positive, cap=positive)
class CappedSimplex(NamedTuple):
    """0 ≤ w ≤ cap, Σ w = total; needs d · cap ≥ total.

    Examples
    --------
    >>> w = np.array([2.0, 0.0, 0.0])
    >>> prox(CappedSimplex(1.0, 0.5), w, 1.0)
    >>> w.tolist()
    [0.5, 0.25, 0.25]
    """

    total: float = 1.0
    cap: float = 1.0


@register_jitable
def inside_or_inf(inside):
    """The value of an indicator."""
    return 0.0 if inside else np.inf


@register_jitable
def inside_simplex(w, total, cap):
    """Whether Σ w = total and 0 ≤ w ≤ cap, up to the slack."""
    return w.min() >= -SLACK * total and w.max() <= cap + SLACK * total and abs(float(w.sum()) - total) <= SLACK * total


@penalty_slope.of(Box)
@penalty_slope.of(Ball)
@penalty_slope.of(NonNegative)
@penalty_slope.of(Simplex)
@penalty_slope.of(CappedSimplex)
def _(domain, w, out):
    out[:] = 0.0


@penalty_convexity.of(Box)
@penalty_convexity.of(Ball)
@penalty_convexity.of(NonNegative)
@penalty_convexity.of(Simplex)
@penalty_convexity.of(CappedSimplex)
def _(domain):
    return 0.0


@penalty_value.of(Box)
def _(domain, w):
    slack = SLACK * max(abs(domain.low), abs(domain.high))
    for j in range(w.size):  # there may be no coordinate at all
        if not domain.low - slack <= w[j] <= domain.high + slack:
            return np.inf
    return 0.0


@prox.of(Box)
def _(domain, w, s):
    for j in range(w.size):
        w[j] = clip(w[j], domain.low, domain.high)


@support_point.of(Box)
def _(domain, v):
    for j in range(v.size):
        if v[j] == 0.0:
            v[j] = clip(0.0, domain.low, domain.high)
        else:
            v[j] = domain.high if v[j] > 0.0 else domain.low


@penalty_value.of(Ball)
def _(domain, w):
    return inside_or_inf(norm(w) <= domain.radius * (1.0 + SLACK))


@prox.of(Ball)
def _(domain, w, s):
    length = norm(w)
    if length > domain.radius:
        for j in range(w.size):
            w[j] = w[j] / length * domain.radius


@support_point.of(Ball)
def _(domain, v):
    length = norm(v)
    if length > 0.0:
        for j in range(v.size):
            v[j] = v[j] / length * domain.radius


@penalty_value.of(NonNegative)
def _(domain, w):
    for j in range(w.size):
        if not w[j] >= 0.0:
            return np.inf
    return 0.0


@prox.of(NonNegative)
def _(domain, w, s):
    for j in range(w.size):
        w[j] = max(w[j], 0.0)


@support_point.of(NonNegative)
def _(domain, v):
    for j in range(v.size):
        v[j] = np.inf if v[j] > 0.0 else 0.0


@penalty_value.of(Simplex)
def _(domain, w):
    return inside_or_inf(inside_simplex(w, domain.total, domain.total))


@prox.of(Simplex)
def _(domain, w, s):
    project_simplex(w, domain.total)


@support_point.of(Simplex)
def _(domain, v):
    fill_from_top(v.copy(), domain.total, domain.total, v)


@penalty_value.of(CappedSimplex)
def _(domain, w):
    return inside_or_inf(inside_simplex(w, domain.total, domain.cap))


@prox.of(CappedSimplex)
def _(domain, w, s):
    project_capped_simplex(w, domain.total, domain.cap)


@support_point.of(CappedSimplex)
def _(domain, v):
    fill_from_top(v.copy(), domain.total, domain.cap, v)


@penalty_conjugate.of(Box)
@penalty_conjugate.of(Ball)
@penalty_conjugate.of(NonNegative)
@penalty_conjugate.of(Simplex)
@penalty_conjugate.of(CappedSimplex)
def _(domain, v):
    w = v.copy()
    support_point(domain, w)
    return inner_product(v, w)


@register_jitable
def inner_product(v, w):
    """⟨v, w⟩; inf if an entry of w is; a support point is infinite only where v is positive."""
    total = 0.0
    for j in range(v.size):
        if w[j] == np.inf:
            return np.inf
        total += float(v[j]) * float(w[j])
    return total
