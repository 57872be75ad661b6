"""Penalties r(w): value, prox, conjugate, gradient of the differentiable part, strong convexity."""
# mypy: disable-error-code="empty-body"

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Penalty
from xrisk.functions.parameters import checks, non_negative, norm_strength, whole_from
from xrisk.functions.special import norm
from xrisk.generic import generic


@generic
def penalty_value(r: Penalty, w: np.ndarray) -> float:
    """r(w), w of shape (d,); inf outside a domain (relative slack 1e-9, which the rounding of a projection needs)."""


@generic
def prox(r: Penalty, w: np.ndarray, s: float) -> None:
    """argmin_x r(x) + ‖x − w‖² / (2 s), in place."""


@generic
def penalty_conjugate(r: Penalty, v: np.ndarray) -> float:
    """r*(v) = sup_w ⟨v, w⟩ − r(w); inf when infinite, without slack."""


@generic
def penalty_slope(r: Penalty, w: np.ndarray, out: np.ndarray) -> None:
    """Write the gradient of the differentiable part of r at w into ``out``."""


@generic
def penalty_convexity(r: Penalty) -> float:
    """The largest μ for which r − (μ/2) ‖·‖² is convex on all of its domain."""


@generic
def shrink(r: Penalty, w: np.ndarray, s: float) -> None:
    """prox of the part of r that is not differentiable, in place: soft thresholding."""


class NoPenalty(NamedTuple):
    """r(w) = 0."""


@checks(l1=norm_strength)
class L1(NamedTuple):
    """r(w) = l1 ‖w‖₁.

    Examples
    --------
    >>> w = np.array([3.0, -0.5])
    >>> prox(L1(1.0), w, 1.0)
    >>> w.tolist()
    [2.0, 0.0]
    """

    l1: float = 1.0


@checks(l2=non_negative)
class L2(NamedTuple):
    """r(w) = ½ l2 ‖w‖².

    Examples
    --------
    >>> penalty_value(L2(2.0), np.array([1.0, 2.0]))
    5.0
    """

    l2: float = 1.0


@checks(l1=norm_strength, l2=non_negative)
class ElasticNet(NamedTuple):
    """r(w) = l1 ‖w‖₁ + ½ l2 ‖w‖².

    Examples
    --------
    >>> penalty_value(ElasticNet(1.0, 2.0), np.array([1.0, -2.0]))
    8.0
    """

    l1: float = 0.0
    l2: float = 1.0


@checks(strength=norm_strength, l2=non_negative, size=whole_from(1))
class GroupLasso(NamedTuple):
    """r(w) = strength Σ_g ‖w_g‖ + ½ l2 ‖w‖² over consecutive groups of ``size`` coordinates, the last maybe shorter.

    Examples
    --------
    >>> penalty_value(GroupLasso(1.0, 0.0, 2), np.array([3.0, 4.0, 2.0]))
    7.0
    """

    strength: float = 1.0
    l2: float = 0.0
    size: int = 1


@register_jitable
def absolute_sum(w):
    """‖w‖₁."""
    total = 0.0
    for j in range(w.size):
        total += abs(float(w[j]))
    return total


@register_jitable
def half_squares(w, l2):
    """½ l2 ‖w‖², 0 for l2 = 0 even where ‖w‖² overflows."""
    if l2 == 0.0:
        return 0.0
    total = 0.0
    for j in range(w.size):
        total += float(w[j]) * float(w[j])
    return 0.5 * l2 * total


@register_jitable
def soft_threshold(w, t):
    """sign(w) (|w| − t)₊ in place."""
    for j in range(w.size):
        w[j] = max(w[j] - t, 0.0) + min(w[j] + t, 0.0)


@register_jitable
def scale_by(w, factor):
    """factor · w in place."""
    for j in range(w.size):
        w[j] *= factor


@register_jitable
def write_scaled(w, factor, out):
    """factor · w into ``out``."""
    for j in range(w.size):
        out[j] = factor * w[j]


@register_jitable
def excess_conjugate(excess, l2):
    """sup_t excess · t − ½ l2 t² for an excess ≥ 0 over the slope at 0."""
    if l2 > 0.0:
        return 0.5 * excess * (excess / l2)
    return 0.0 if excess <= 0.0 else np.inf


@register_jitable
def separable_conjugate(v, l1, l2):
    """Σ_j sup_t v_j t − l1 |t| − ½ l2 t²."""
    total = 0.0
    for j in range(v.size):
        total += excess_conjugate(max(abs(float(v[j])) - l1, 0.0), l2)
    return total


penalty_value.of(NoPenalty)(lambda r, w: 0.0)


@prox.of(NoPenalty)
@shrink.of(NoPenalty)
@shrink.of(L2)
def _(r, w, s):
    pass


@penalty_conjugate.of(NoPenalty)
def _(r, v):
    return excess_conjugate(absolute_sum(v), 0.0)


@penalty_slope.of(NoPenalty)
@penalty_slope.of(L1)
def _(r, w, out):
    out[:] = 0.0


@penalty_convexity.of(NoPenalty)
@penalty_convexity.of(L1)
def _(r):
    return 0.0


@penalty_value.of(L1)
def _(r, w):
    return r.l1 * absolute_sum(w)


@prox.of(L1)
@shrink.of(L1)
@shrink.of(ElasticNet)
def _(r, w, s):
    soft_threshold(w, s * r.l1)


penalty_conjugate.of(L1)(lambda r, v: separable_conjugate(v, r.l1, 0.0))
penalty_value.of(L2)(lambda r, w: half_squares(w, r.l2))


@prox.of(L2)
def _(r, w, s):
    scale_by(w, 1.0 / (1.0 + s * r.l2))


penalty_conjugate.of(L2)(lambda r, v: separable_conjugate(v, 0.0, r.l2))


@penalty_slope.of(L2)
@penalty_slope.of(ElasticNet)
@penalty_slope.of(GroupLasso)
def _(r, w, out):
    write_scaled(w, r.l2, out)


@penalty_convexity.of(L2)
@penalty_convexity.of(ElasticNet)
@penalty_convexity.of(GroupLasso)
def _(r):
    return r.l2


@penalty_value.of(ElasticNet)
def _(r, w):
    return r.l1 * absolute_sum(w) + half_squares(w, r.l2)


@prox.of(ElasticNet)
def _(r, w, s):
    soft_threshold(w, s * r.l1)
    scale_by(w, 1.0 / (1.0 + s * r.l2))


penalty_conjugate.of(ElasticNet)(lambda r, v: separable_conjugate(v, r.l1, r.l2))


@penalty_value.of(GroupLasso)
def _(r, w):
    total = 0.0
    for start in range(0, w.size, r.size):
        total += norm(w[start : start + r.size])
    return r.strength * total + half_squares(w, r.l2)


@shrink.of(GroupLasso)
def _(r, w, s):
    for start in range(0, w.size, r.size):
        group = w[start : start + r.size]
        length = norm(group)
        scale_by(group, 1.0 - s * r.strength / length if length > s * r.strength else 0.0)


@prox.of(GroupLasso)
def _(r, w, s):
    shrink(r, w, s)
    scale_by(w, 1.0 / (1.0 + s * r.l2))


@penalty_conjugate.of(GroupLasso)
def _(r, v):
    total = 0.0
    for start in range(0, v.size, r.size):
        total += excess_conjugate(max(norm(v[start : start + r.size]) - r.strength, 0.0), r.l2)
    return total
