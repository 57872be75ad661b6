"""Domains of portfolios: the sum of the weights, and bounds on their absolute values."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions.domain import SLACK, inner_product, inside_or_inf, support_point
from xrisk.functions.parameters import checks, finite, positive, require
from xrisk.functions.penalty import (
    absolute_sum,
    penalty_conjugate,
    penalty_convexity,
    penalty_slope,
    penalty_value,
    prox,
)
from xrisk.functions.simplex import fill_from_top, project_simplex, simplex_threshold

ROUNDING = 1e-15  # relative, of a sum


@checks(total=finite)
class Hyperplane(NamedTuple):
    """Σ w = total.

    Examples
    --------
    >>> w = np.array([3.0, 0.0])
    >>> prox(Hyperplane(1.0), w, 1.0)
    >>> w.tolist()
    [2.0, -1.0]
    """

    total: float = 1.0


@checks(radius=positive)
class L1Ball(NamedTuple):
    """‖w‖₁ ≤ radius.

    Examples
    --------
    >>> w = np.array([3.0, -1.0])
    >>> prox(L1Ball(2.0), w, 1.0)
    >>> w.tolist()
    [2.0, 0.0]
    """

    radius: float = 1.0


@checks(total=positive)
class SolidSimplex(NamedTuple):
    """w ≥ 0, Σ w ≤ total.

    Examples
    --------
    >>> w = np.array([0.25, -1.0])
    >>> prox(SolidSimplex(1.0), w, 1.0)
    >>> w.tolist()
    [0.25, 0.0]
    """

    total: float = 1.0


class LeveragedBudget(NamedTuple):
    """Σ w = total, ‖w‖₁ ≤ gross: long positions of at most (gross + total)/2, short ones of (gross − total)/2.

    Examples
    --------
    >>> w = np.array([3.0, 0.0, -3.0])
    >>> prox(LeveragedBudget(1.0, 2.0), w, 1.0)
    >>> w.tolist()
    [1.5, 0.0, -0.5]
    """

    total: float = 1.0
    gross: float = 2.0

    def check(self) -> None:
        """Refuse a total that is not finite, and a gross exposure that is not positive or smaller than it."""
        finite("total", self.total)
        positive("gross", self.gross)
        require(self.gross >= abs(self.total), "gross", self.gross, f"at least |total|={abs(self.total)!r}")


@penalty_slope.of(Hyperplane)
@penalty_slope.of(L1Ball)
@penalty_slope.of(SolidSimplex)
@penalty_slope.of(LeveragedBudget)
def _(domain, w, out):
    out[:] = 0.0


@penalty_convexity.of(Hyperplane)
@penalty_convexity.of(L1Ball)
@penalty_convexity.of(SolidSimplex)
@penalty_convexity.of(LeveragedBudget)
def _(domain):
    return 0.0


@register_jitable
def sums_to(w, total):
    """Whether Σ w = total, up to the slack."""
    return abs(float(w.sum()) - total) <= SLACK * max(absolute_sum(w), abs(total))


@register_jitable
def shift_to(w, total):
    """The nearest point with Σ w = total, in place; done twice, as the first sum may be of far larger numbers.

    A point that has this sum up to rounding is not changed, so that zero weights stay zero.
    """
    for _ in range(2):
        short = total - w.sum()
        if abs(short) > ROUNDING * absolute_sum(w):
            for j in range(w.size):
                w[j] += short / w.size


@penalty_value.of(Hyperplane)
def _(domain, w):
    return inside_or_inf(sums_to(w, domain.total))


@prox.of(Hyperplane)
def _(domain, w, s):
    shift_to(w, domain.total)


@support_point.of(Hyperplane)
def _(domain, v):
    if v.min() == v.max():
        v[:] = domain.total / v.size
    else:
        highest = v.argmax()
        v[:] = 0.0
        v[highest] = np.inf


@penalty_value.of(L1Ball)
def _(domain, w):
    return inside_or_inf(absolute_sum(w) <= domain.radius * (1.0 + SLACK))


@prox.of(L1Ball)
def _(domain, w, s):
    if absolute_sum(w) > domain.radius:
        top, theta = simplex_threshold(np.abs(w), domain.radius)
        for j in range(w.size):  # top and θ one after the other: their sum would round θ away
            size = max(abs(w[j]) - top - theta, 0.0)
            w[j] = size if w[j] > 0.0 or size == 0.0 else -size


@support_point.of(L1Ball)
def _(domain, v):
    shares = np.empty(v.size)
    fill_from_top(np.abs(v), domain.radius, domain.radius, shares)
    for j in range(v.size):
        v[j] = shares[j] * np.sign(v[j])


@penalty_value.of(SolidSimplex)
def _(domain, w):
    return inside_or_inf(w.min() >= -SLACK * domain.total and float(w.sum()) <= domain.total * (1.0 + SLACK))


@prox.of(SolidSimplex)
def _(domain, w, s):
    positive_part = 0.0
    for j in range(w.size):
        positive_part += max(w[j], 0.0)
    if positive_part > domain.total:
        project_simplex(w, domain.total)
    else:
        for j in range(w.size):
            w[j] = max(w[j], 0.0)


@support_point.of(SolidSimplex)
def _(domain, v):
    if v.max() > 0.0:
        fill_from_top(v.copy(), domain.total, domain.total, v)
    else:
        v[:] = 0.0


@penalty_value.of(LeveragedBudget)
def _(domain, w):
    return inside_or_inf(absolute_sum(w) <= domain.gross * (1.0 + SLACK) and sums_to(w, domain.total))


@prox.of(LeveragedBudget)
def _(domain, w, s):
    v = w.copy()
    shift_to(w, domain.total)
    if absolute_sum(w) > domain.gross or not np.isfinite(w).all():
        top, upper = simplex_threshold(v, 0.5 * (domain.gross + domain.total))
        low, lower = simplex_threshold(-v, 0.5 * (domain.gross - domain.total))
        for j in range(v.size):
            w[j] = max(v[j] - top - upper, 0.0) - max(-v[j] - low - lower, 0.0)


@support_point.of(LeveragedBudget)
def _(domain, v):
    long, short = np.empty(v.size), np.empty(v.size)
    a, b = 0.5 * (domain.gross + domain.total), 0.5 * (domain.gross - domain.total)
    fill_from_top(v, a, a, long)
    fill_from_top(-v, b, b, short)
    for j in range(v.size):
        v[j] = long[j] - short[j]


@penalty_conjugate.of(Hyperplane)
@penalty_conjugate.of(L1Ball)
@penalty_conjugate.of(SolidSimplex)
@penalty_conjugate.of(LeveragedBudget)
def _(domain, v):
    w = v.copy()
    support_point(domain, w)
    return inner_product(v, w)
