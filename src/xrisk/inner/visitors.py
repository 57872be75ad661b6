"""Visitors: what a full pass looks at in every sample.

A visitor says what it asks of a sample and, by `visit` (one score) or `visit_scores` (many), what it returns of it:
four numbers that the geometry averages, and what is left on the row. It knows no geometry.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel
from xrisk.functions.loss import (
    loss_conjugate,
    loss_domain,
    loss_slope,
    loss_smoothness,
    loss_terms,
    loss_value,
    scores_conjugate,
    scores_slope,
    scores_value,
)
from xrisk.functions.smoothing import Piecewise, plain_loss, smooth_loss
from xrisk.generic import generic

EPS = float(np.finfo(np.float64).eps)


class LossValues(NamedTuple):
    """Losses; their slopes go to the rows."""


class LossBounds(NamedTuple):
    """Losses, how much larger they may be where scores are off, and the sizes of both: what rounding is measured by."""

    reach: float = 0.0  # a score is off by at most this times the size of its row


class SmoothedTerms(NamedTuple):
    """Smoothed losses, losses, what the slopes prove of them, slopes along the move; slopes, curvatures to rows."""

    mu: float = 0.0


class DualTerms(NamedTuple):
    """Conjugates ℓ*(v), the sizes of their terms, |v| times the size of the row; v itself goes to the rows.

    v is the slope of the loss smoothed by ``mu``, to first order after the move, in the domain of ℓ*, times ``up``
    where it pushes a free coordinate up and ``down`` where it pushes it down.
    """

    mu: float = 0.0
    up: float = 1.0
    down: float = 1.0


class FreeSlope(NamedTuple):
    """How much the slopes v of `DualTerms` push a free coordinate up, and down; their sum on a row goes to it."""

    mu: float = 0.0


@generic
def asks_direction(visitor):
    """Whether the visitor looks at the moves of scores."""


@asks_direction.of(SmoothedTerms)
@asks_direction.of(DualTerms)
@asks_direction.of(FreeSlope)
def _(visitor):
    return True


asks_direction.otherwise(lambda visitor: False)


@generic
def asks_factors(visitor):
    """Whether the moves are to be multiplied by the gains of their inner functions."""


@asks_factors.of(DualTerms)
@asks_factors.of(FreeSlope)
def _(visitor):
    return True


asks_factors.otherwise(lambda visitor: False)


@generic
def asks_sizes(visitor):
    """Whether the visitor looks at the sizes of rows and at what they have in a free coordinate."""


@asks_sizes.of(LossBounds)
@asks_sizes.of(DualTerms)
@asks_sizes.of(FreeSlope)
def _(visitor):
    return True


asks_sizes.otherwise(lambda visitor: False)


@generic
def leaves_curvatures(visitor):
    """Whether the last of what the visitor leaves on the rows means something."""


leaves_curvatures.of(SmoothedTerms)(lambda visitor: True)
leaves_curvatures.otherwise(lambda visitor: False)


@generic
def visit(visitor, loss, z, direction, error_bound, free_entry, y):
    """Four numbers to average and two to leave on the row, of a sample with score z and target y."""


@visit.of(LossValues)
def _(visitor, loss, z, direction, error_bound, free_entry, y):
    value, slope, _ = loss_terms(loss, z, y)
    return value, 0.0, 0.0, 0.0, slope, 0.0


@visit.of(LossBounds)
def _(visitor, loss, z, direction, error_bound, free_entry, y):
    reach = visitor.reach * error_bound
    if loss_smoothness(loss) < np.inf:
        value, slope, _ = loss_terms(loss, z, y)
        rise = reach * (abs(slope) + loss_smoothness(loss) * reach)
    else:  # ℓ is convex: largest at an end
        value = loss_value(loss, z, y)
        rise = max(loss_value(loss, z - reach, y), loss_value(loss, z + reach, y)) - value
    return value, rise, 2.0 * abs(value) + rise, 0.0, 0.0, 0.0


@visit.of(SmoothedTerms)
def _(visitor, loss, z, direction, error_bound, free_entry, y):
    value, slope, curvature, true, lower = smooth_loss(loss, z, y, visitor.mu)
    return value, true, lower, slope * direction, slope, curvature


@visit.of(DualTerms)
def _(visitor, loss, z, direction, error_bound, free_entry, y):
    v = feasible_slope(loss, z, direction, y, visitor.mu)
    v *= visitor.up if v * free_entry > 0.0 else visitor.down
    value = loss_conjugate(plain_loss(loss), v, y)
    return value, abs(value) + 2.0 * abs(v * y), abs(v) * error_bound, 0.0, v, 0.0


@visit.of(FreeSlope)
def _(visitor, loss, z, direction, error_bound, free_entry, y):
    free_slope = feasible_slope(loss, z, direction, y, visitor.mu) * free_entry
    return max(free_slope, 0.0), max(-free_slope, 0.0), 0.0, 0.0, free_slope, 0.0


@register_jitable
def feasible_slope(loss, z, direction, y, mu):
    low, high = loss_domain(plain_loss(loss), y)
    return min(max(dual_slope(loss, z, direction, y, mu), low), high)


@generic
def dual_slope(loss, z, direction, y, mu):
    """Slope of the loss smoothed by ``mu``, to first order after the score has moved on by ``move``."""


@dual_slope.otherwise
def _(loss, z, direction, y, mu):
    _, slope, curvature = loss_terms(loss, z, y)
    return slope + curvature * direction


@dual_slope.of(Piecewise)
def _(loss, z, direction, y, mu):
    if mu == 0.0:
        return loss_slope(loss.loss, z, y)
    _, slope, curvature, _, _ = smooth_loss(loss, z, y, mu)
    return slope + curvature * direction


@generic
def visit_scores(visitor, loss, z, direction, error_bound, free_entry, y, v):
    """Four numbers to average, of a sample with many scores z (K,) and class y; v (K,) goes to the row."""


@visit_scores.of(LossValues)
def _(visitor, loss, z, direction, error_bound, free_entry, y, v):
    scores_slope(loss, z, y, v)
    return scores_value(loss, z, y), 0.0, 0.0, 0.0


@visit_scores.of(LossBounds)
def _(visitor, loss, z, direction, error_bound, free_entry, y, v):
    scores_slope(loss, z, y, v)
    value, reach = scores_value(loss, z, y), visitor.reach * error_bound
    # Σ|v| = 2 (1 − p_k) grows at most by the factor exp(2 reach), and is at most 2
    rise = 2.0 * reach * min(np.abs(v).sum() * np.exp(min(2.0 * reach, 1.0)), 2.0)
    return value, rise, 2.0 * abs(value) + rise, 0.0


@visit_scores.of(SmoothedTerms)
def _(visitor, loss, z, direction, error_bound, free_entry, y, v):
    scores_slope(loss, z, y, v)
    value, along = scores_value(loss, z, y), 0.0
    for c in range(v.size):
        along += v[c] * direction[c]
    return value, value, value, along


@visit_scores.of(DualTerms)
def _(visitor, loss, z, direction, error_bound, free_entry, y, v):
    scores_slope(loss, z, y, v)
    mean = 0.0
    for c in range(v.size):  # v = p − e_y, whose derivative is diag(p) − p pᵀ
        mean += (v[c] + (1.0 if c == y else 0.0)) * direction[c]
    for c in range(v.size):
        v[c] += (v[c] + (1.0 if c == y else 0.0)) * (direction[c] - mean)
        v[c] *= min(visitor.up, visitor.down)
    probable(v, y)
    # p_k = 1 + v_k is known to EPS, its logarithm is at most 36
    return scores_conjugate(loss, v, y), v.size + 8.0, np.abs(v).sum() * error_bound, 0.0


@register_jitable
def probable(v, own):
    """Move v into the domain of ℓ*: of the other classes p ≥ 0 with a sum below 1, of the row's own minus that sum."""
    total = 0.0
    for c in range(v.size):
        v[c] = max(v[c], 0.0) if c != own else 0.0
        total += v[c]
    most = 1.0 - 2.0 * EPS * v.size
    if total > most:
        for c in range(v.size):
            v[c] *= most / total
        total = most
    v[own] = -total


@kernel
def visit_samples(visitor, loss, z, direction, error_bound, free_entry, y, seen):
    """Write what the visitor returns of samples with one score each into the rows of ``seen`` (6, as many or more)."""
    a, b, c, e, one, two = seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]
    for r in range(z.size):
        a[r], b[r], c[r], e[r], one[r], two[r] = visit(
            visitor, loss, z[r], direction[r], error_bound[r], free_entry[r], y[r]
        )


@kernel
def visit_vectors(visitor, loss, z, direction, error_bound, free_entry, y, seen):
    """The same for scores (samples, K): four numbers, K slopes, and 1 in the last row of ``seen`` (K + 5, …)."""
    slopes = np.empty(z.shape[1])
    for r in range(z.shape[0]):
        terms = visit_scores(visitor, loss, z[r], direction[r], error_bound[r], free_entry[r], y[r], slopes)
        seen[0, r], seen[1, r], seen[2, r], seen[3, r] = terms
        for c in range(slopes.size):
            seen[4 + c, r] = slopes[c]
        seen[4 + slopes.size, r] = 1.0
