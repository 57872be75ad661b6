"""Penalties in a certificate: the rounding of r, and upper bounds on r*."""

import math

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Penalty
from xrisk.certificate.rounding import EPS, TINY
from xrisk.compile import kernel, worthwhile
from xrisk.functions import (
    L1,
    L2,
    Ball,
    Box,
    CappedSimplex,
    ElasticNet,
    GroupLasso,
    Hyperplane,
    L1Ball,
    LeveragedBudget,
    NonNegative,
    NoPenalty,
    Restricted,
    Simplex,
    SolidSimplex,
    Tilted,
    Unpenalised,
    penalty_conjugate,
    penalty_convexity,
    penalty_value,
    prox,
)
from xrisk.functions.restricted import slope_stride
from xrisk.generic import generic


@generic
def penalty_terms(r, w):
    """Size of the terms that r(w) adds up."""


@generic
def conjugate_upper(r, v, error_bound):
    """An upper bound on r*(v + e) over all |e_j| ≤ error_bound[j], its own rounding included."""


@generic
def penalty_needs(r):
    """The pairs (verb, spec) that must be implemented for a bound on r*."""


@generic
def penalised_part(r):
    """(penalty, free): the penalty of all coordinates but the last ``free`` ones, which have none."""


penalised_part.otherwise(lambda r: (r, 0))
penalised_part.of(Unpenalised)(lambda r: (r.penalty, r.free))


@generic
def distance_upper(domain, w):
    """An upper bound on ‖e‖₁ for some e with w + e in the domain: how far rounding has left w (d,) outside."""


distance_upper.of(NoPenalty)(lambda domain, w: 0.0)
distance_upper.of(NonNegative)(lambda domain, w: _negative_part(w))
distance_upper.of(Hyperplane)(lambda domain, w: _wider(abs(math.fsum([*w, -domain.total]))))
distance_upper.of(L1Ball)(lambda domain, w: _wider(max(math.fsum([*np.abs(w), -domain.radius]), 0.0)))


@distance_upper.of(Simplex)
def _(domain, w):
    return 2.0 * _negative_part(w) + _wider(abs(math.fsum([*w, -domain.total])))


@distance_upper.of(SolidSimplex)
def _(domain, w):
    return _negative_part(w) + _wider(max(math.fsum([*np.maximum(w, 0.0), -domain.total]), 0.0))


@distance_upper.of(LeveragedBudget)
def _(domain, w):
    # correcting the sum and cutting both sides back moves w by no more than these two errors
    wrong, over = abs(math.fsum([*w, -domain.total])), max(math.fsum([*np.abs(w), -domain.gross]), 0.0)
    return _wider(wrong + over)


def _negative_part(w: np.ndarray) -> float:
    return _wider(-math.fsum(np.minimum(w, 0.0)))


def _wider(length: float) -> float:
    return length * (1.0 + 8.0 * EPS)


@penalty_terms.otherwise
def _(r, w):
    return penalty_value(r, w)  # a sum of terms that are not negative


@penalty_terms.of(Tilted)
def _(r, w):
    # a point is in its domain up to rounding, which costs at most its length times the steepest slope
    stride, total, steepest = slope_stride(r, w), 0.0, 0.0
    for j in range(w.size):
        total += abs(w[j])
        steepest = max(steepest, abs(r.slope[j * stride]))
    return penalty_terms(r.penalty, w) + steepest * total + abs(r.constant)


@penalty_terms.of(Unpenalised)
def _(r, w):
    return penalty_terms(r.penalty, w[: w.size - r.free])


@kernel
def terms_of_penalty(r, w):
    return penalty_terms(r, w)


def penalty_rounding(r: Penalty, w: np.ndarray) -> float:
    """An error bound of r(w), and of adding it to an objective."""
    terms = float(worthwhile(terms_of_penalty, w.size, r)(r, w))
    return 4 * EPS * (w.size + 16) * terms + TINY * (1.0 + w.size * (1.0 + penalty_convexity(r)))


penalty_needs.otherwise(lambda r: [(conjugate_upper, r)])
penalty_needs.of(Tilted)(lambda r: penalty_needs(r.penalty))


@penalty_needs.of(Restricted)
def _(r):
    return [(conjugate_upper, r), (restricted_upper, r.domain), (conjugate_upper, r.penalty)]


@register_jitable
def conjugate_terms(r, v):
    """⟨v, w⟩ + r(w) at the maximiser w of ⟨v, w⟩ − r(w), or more: both are differences of r* between v and 2v."""
    near, far = penalty_conjugate(r, v), penalty_conjugate(r, 2.0 * v)
    return 2.0 * (abs(near) + abs(far)) if far < np.inf else 0.0  # an indicator, which adds up no terms


@register_jitable
def symmetric_conjugate_upper(r, v, error_bound):
    """The bound where r does not change with the sign of any coordinate, so that r* grows with every |v_j|."""
    wider = np.empty(v.size)
    for j in range(v.size):
        wider[j] = v[j] + error_bound[j] if v[j] > 0.0 else v[j] - error_bound[j]
    return _with_rounding(r, penalty_conjugate(r, wider), np.abs(v))


@register_jitable
def increasing_conjugate_upper(r, v, error_bound):
    """The bound where r is finite on w ≥ 0 only, so that r* grows with every v_j."""
    return _with_rounding(r, penalty_conjugate(r, v + error_bound), np.abs(v))


@register_jitable
def separable_conjugate_upper(r, v, error_bound):
    """The bound where r is a sum over coordinates: in each, either end may give the larger value."""
    value, size = 0.0, 0.0
    for j in range(v.size):
        one, width = v[j : j + 1], error_bound[j]
        value += max(penalty_conjugate(r, one - width), penalty_conjugate(r, one + width))
        size += conjugate_terms(r, one)
    return value + 4.0 * EPS * (v.size + 16.0) * (abs(value) + size)


@register_jitable
def _with_rounding(r, value, v):
    return value + 4.0 * EPS * (v.size + 16.0) * (abs(value) + conjugate_terms(r, v))


for _symmetric in (NoPenalty, L1, L2, ElasticNet, GroupLasso, Ball, L1Ball):
    conjugate_upper.of(_symmetric)(symmetric_conjugate_upper)
for _positive in (Simplex, CappedSimplex, SolidSimplex):
    conjugate_upper.of(_positive)(increasing_conjugate_upper)
for _separable in (Box, NonNegative):
    conjugate_upper.of(_separable)(separable_conjugate_upper)


@conjugate_upper.of(Hyperplane)
def _(domain, v, error_bound):
    if v.size > 1:
        return np.inf
    return domain.total * v[0] + abs(domain.total) * (error_bound[0] + 8.0 * EPS * abs(v[0]))


@conjugate_upper.of(LeveragedBudget)
def _(domain, v, error_bound):
    return leveraged_upper(penalty_conjugate(domain, v), domain, v, error_bound)


@register_jitable
def leveraged_upper(value, domain, v, error_bound):
    """The bound where ‖w‖₁ ≤ gross, from the computed value: r* is Lipschitz, and so is its rounding."""
    return (
        value
        + domain.gross * (1.0 + 16.0 * EPS) * error_bound.max()
        + 4.0 * EPS * (v.size + 16.0) * (abs(value) + 2.0 * domain.gross * np.abs(v).max())
    )


@register_jitable
def hyperplane_upper(r, v, error_bound):
    """The bound on Σ w = total under a ridge μ: r*(v + e) ≤ r*(v) + ⟨e, w⟩ + ‖e‖²/(2μ) at the maximiser w.

    A constant c changes r* by exactly c·total, so v is centred first; its terms are then the squares of the rest.
    """
    mu, total = penalty_convexity(r), r.domain.total
    if not mu > 0.0:
        return conjugate_upper(r.domain, v, error_bound)
    c = 0.5 * (v.min() + v.max())
    w, change, terms = (v - c) / mu, 0.0, abs(c * total)
    value = penalty_conjugate(r, v - c)
    prox(r.domain, w, 1.0)
    for j in range(v.size):
        wide = error_bound[j] + EPS * abs(v[j] - c)
        change += wide * abs(w[j]) + 0.5 * wide * (wide / mu)
        terms += (v[j] - c) * ((v[j] - c) / mu) + mu * w[j] * w[j]
    slack = 4.0 * EPS * (v.size + 16.0) * (abs(value) + terms + change)
    return value + c * total + change + slack


@conjugate_upper.of(Restricted)
def _(r, v, error_bound):
    return restricted_upper(r.domain, r, v, error_bound)


@generic
def restricted_upper(domain, r, v, error_bound):
    """The bound of a penalty on a domain, by the kind of the domain; all our penalties are symmetric."""


for _symmetric in (Ball, L1Ball):
    restricted_upper.of(_symmetric)(lambda domain, r, v, error_bound: symmetric_conjugate_upper(r, v, error_bound))
for _positive in (Simplex, CappedSimplex, SolidSimplex):
    restricted_upper.of(_positive)(lambda domain, r, v, error_bound: increasing_conjugate_upper(r, v, error_bound))
for _separable in (Box, NonNegative):
    restricted_upper.of(_separable)(lambda domain, r, v, error_bound: separable_conjugate_upper(r, v, error_bound))
restricted_upper.of(Hyperplane)(lambda domain, r, v, error_bound: hyperplane_upper(r, v, error_bound))


@restricted_upper.of(LeveragedBudget)
def _(domain, r, v, error_bound):
    upper = leveraged_upper(penalty_conjugate(r, v), domain, v, error_bound)
    return upper + 4.0 * EPS * (v.size + 16.0) * penalty_convexity(r) * domain.gross * domain.gross


@conjugate_upper.of(Tilted)
def _(r, v, error_bound):
    # r*(v) = penalty*(v − slope) − constant; the difference has an error of one rounding
    stride, shifted, wider = slope_stride(r, v), np.empty(v.size), np.empty(v.size)
    for j in range(v.size):
        shifted[j] = v[j] - r.slope[j * stride]
        wider[j] = (error_bound[j] + EPS * abs(shifted[j])) * (1.0 + 4.0 * EPS)
    upper = conjugate_upper(r.penalty, shifted, wider)
    return upper - r.constant + 4.0 * EPS * (abs(upper) + abs(r.constant))


@kernel
def bound_conjugate(r, v, error_bound):
    return conjugate_upper(r, v, error_bound)
