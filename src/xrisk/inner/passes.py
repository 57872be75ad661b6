"""Full passes: a geometry walks all its samples once, a visitor looks at each.

Every inner function here is made of linear scores z = X w of the rows of one matrix. A pass has three parts: the
scores of all rows, the walk of the geometry over its samples in score space, and the adjoint Xᵀs of what it left on
the rows. A geometry (groups of rows, pairs of rows, …) implements `pass_rows`, `pass_loss` and `walk`; a visitor
(values, bounds, smoothed terms, duals) implements `visit`. Neither knows the other.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel
from xrisk.data.products import Centred, column_means, row_adjoint, row_scores, with_intercept
from xrisk.data.rows import row_count
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
from xrisk.inner.oracle import inner_count, inner_dim, inner_size

EPS = float(np.finfo(np.float64).eps)
CHUNK = (
    8192  # samples looked at together, and summed before the sum is compensated: what is seen of them stays in cache
)


class Scores(NamedTuple):
    """What a pass sees of a point."""

    z: np.ndarray  # (rows, scores)
    move: np.ndarray  # (rows, scores) a direction of the scores; z itself where no visitor asks for one
    off: np.ndarray  # (rows,) a size of each row, by which its score may be off
    lean: np.ndarray  # (rows,) the entry of each row in a free coordinate
    gain: np.ndarray  # (n·m,) by which the moves of each inner function are multiplied


class Slopes(NamedTuple):
    """Slopes v of the losses of all samples, by the scores they are computed from: numbers per row, not per sample.

    v is the slope of the loss smoothed by ``mu`` at the scores z, to first order after they have moved on.
    """

    z: np.ndarray  # (rows, scores)
    move: np.ndarray  # (rows, scores)
    gain: np.ndarray  # (n·m,) by which the moves of each inner function are multiplied
    mu: float


class Walk(NamedTuple):
    """What a walk leaves behind."""

    sums: np.ndarray  # (n·m, 4) means over the samples of each inner function of what the visitor returns
    coefs: np.ndarray  # (channels, rows) sums over the samples of a row of share·weight·(what the visitor returns):
    # slopes of every score, then curvatures where the visitor has them


@generic
def pass_rows(g):
    """The rows whose scores the inner functions are made of."""


@generic
def pass_loss(g):
    """The loss of a sample."""


@generic
def with_loss(g, loss):
    """The same geometry with another loss."""


@generic
def with_rows(g, rows):
    """The same geometry over other rows, as many."""


@generic
def score_count(g):
    """Number of scores of a row."""


@score_count.otherwise
def _(g):
    return 1


@generic
def walk(g, visitor, at, share):
    """Walk over all samples: `Walk`. ``share`` (n·m,) multiplies what goes to the rows; empty, nothing does."""


@generic
def add_hessian(g, visitor, at, share, coefs, H):
    """Add Σ share·(Hessian of the inner functions) to H (d, d); ``coefs`` are those of the walk with that share."""


@generic
def jacobian(g, visitor, at):
    """∇gᵢ as rows: (n·m, d)."""


class Gradients(NamedTuple):
    """What is known of every inner function by itself."""

    slopes: np.ndarray  # (n·m, d) their gradients
    pulls: np.ndarray  # (n·m,) means of the absolute slopes of the losses
    curvatures: np.ndarray  # (n·m,) means of the curvatures of the losses


@generic
def has_gradients(g):
    """Whether the gradients of all inner functions take no more than that of their sum."""


@has_gradients.otherwise
def _(g):
    return False


@generic
def walk_apart(g, visitor, at):
    """The walk that leaves what `inner_gradients` asks for, where `has_gradients`."""


@generic
def inner_gradients(g, coefs):
    """`Gradients` of all inner functions, of what `walk_apart` has left."""


@generic
def add_squares(g, visitor, at, c, H):
    """Add Σ cᵢ ∇gᵢ ∇gᵢᵀ to H (d, d), c ≥ 0 of shape (n·m,)."""


@add_squares.otherwise
def squares_by_jacobian(g, visitor, at, c, H):
    """The sum through ∇gᵢ as a matrix."""
    J = jacobian(g, visitor, at)
    J *= np.sqrt(c)[:, None]
    H += J.T @ J


@generic
def column_sizes(g):
    """Root mean square (d,) of what multiplies each coordinate in a sample."""


@generic
def score_size(g):
    """The size that scores are expected to have."""


@score_size.otherwise
def _(g):
    return 1.0


@generic
def sampled(g, share, rng):
    """The same inner functions of about a ``share`` of the samples, at least a few for each."""


OFFSET = 1.0  # a column whose mean is so many times its deviation is centred: an intercept absorbs the mean


def centred(g: Any, centre: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """The inner functions with columns far from zero less their means, and these means (d,); those given, if they are.

    Where the last column is that of an intercept which is free to move, this is the same problem: the intercept of
    centred columns is b + ⟨means, w⟩. Columns near zero, and storages that cannot be centred, stay as they are.
    """
    centre = far_means(g) if centre is None else centre
    return (with_rows(g, Centred(pass_rows(g).rows, centre[:-1].copy())) if centre.any() else g), centre


def far_means(g: Any) -> np.ndarray:
    """The means (d,) of the columns that are far from zero beside how much they vary, zero for all others."""
    rows, centre = pass_rows(g), np.zeros(inner_size(g))
    if score_count(g) > 1 or not (with_intercept(rows) and column_means.implemented(rows.rows)):
        return centre
    means, squares = column_means(rows.rows)
    far = np.abs(means) > OFFSET * np.sqrt(np.maximum(squares - means**2, 0.0))
    far &= means**2 > 1e-30 * squares.max(initial=0.0)
    centre[:-1] = np.where(far, means, 0.0)
    return centre


@generic
def as_linear_groups(g):
    """The same inner functions as group means of a linear model; what is none is returned as it is."""


@as_linear_groups.otherwise
def _(g):
    return g


def walks(g: Any) -> bool:
    """Whether full passes over the inner functions are known."""
    return bool(walk.implemented(as_linear_groups(g)))


def scores_at(g: Any, w: np.ndarray) -> np.ndarray:
    """The scores (rows, scores) of all rows at w (d,)."""
    if not w.any():  # where runs start: no need to read the rows
        return np.zeros((row_count(pass_rows(g)), score_count(g)))
    return row_scores(pass_rows(g), np.ascontiguousarray(w, dtype=np.float64).reshape(score_count(g), -1))


def adjoint(g: Any, coefs: np.ndarray) -> np.ndarray:
    """Σ (what a walk left on row k)·row k: (d,)."""
    return row_adjoint(pass_rows(g), coefs[: score_count(g)].T).reshape(-1)


def scores_only(g: Any, z: np.ndarray) -> Scores:
    """Scores that neither move nor err."""
    return Scores(z, z, z[:, 0], z[:, 0], np.ones(inner_count(g) * inner_dim(g)))


NO_SHARE = np.zeros(0)


def values_by_walk(g: Any, w: np.ndarray, out: np.ndarray) -> None:
    """Write gᵢ(w) for all i into ``out`` (n, m): `exact_values` of a geometry."""
    out[:] = walk(g, LossValues(), scores_only(g, scores_at(g, w)), NO_SHARE).sums[:, 0].reshape(out.shape)


def vjp_by_walk(g: Any, w: np.ndarray, y: np.ndarray, grad: np.ndarray) -> None:
    """Add Σᵢ Jᵢ(w)ᵀ yᵢ to ``grad`` (d), y of shape (n, m): `exact_vjp` of a geometry."""
    at = scores_only(g, scores_at(g, w))
    grad += adjoint(g, walk(g, LossValues(), at, np.ascontiguousarray(y, dtype=np.float64).reshape(-1)).coefs)


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
    where it pulls a free coordinate up and ``down`` where it pulls it down.
    """

    mu: float = 0.0
    up: float = 1.0
    down: float = 1.0


class FreePull(NamedTuple):
    """What the slopes v of `DualTerms` pull a free coordinate up by, and down; their net pull on a row goes to it."""

    mu: float = 0.0


@generic
def asks_moves(visitor):
    """Whether the visitor looks at the moves of scores."""


@asks_moves.of(SmoothedTerms)
@asks_moves.of(DualTerms)
@asks_moves.of(FreePull)
def _(visitor):
    return True


@asks_moves.otherwise
def _(visitor):
    return False


@generic
def asks_gains(visitor):
    """Whether the moves are to be multiplied by the gains of their inner functions."""


@asks_gains.of(DualTerms)
@asks_gains.of(FreePull)
def _(visitor):
    return True


@asks_gains.otherwise
def _(visitor):
    return False


@generic
def asks_sizes(visitor):
    """Whether the visitor looks at the sizes of rows and at what they have in a free coordinate."""


@asks_sizes.of(LossBounds)
@asks_sizes.of(DualTerms)
@asks_sizes.of(FreePull)
def _(visitor):
    return True


@asks_sizes.otherwise
def _(visitor):
    return False


@generic
def leaves_curvatures(visitor):
    """Whether the last of what the visitor leaves on the rows means something."""


@leaves_curvatures.of(SmoothedTerms)
def _(visitor):
    return True


@leaves_curvatures.otherwise
def _(visitor):
    return False


@generic
def visit(visitor, loss, z, move, off, lean, y):
    """Four numbers to average and two to leave on the row, of a sample with score z and target y."""


@visit.of(LossValues)
def _(visitor, loss, z, move, off, lean, y):
    value, slope, _ = loss_terms(loss, z, y)
    return value, 0.0, 0.0, 0.0, slope, 0.0


@visit.of(LossBounds)
def _(visitor, loss, z, move, off, lean, y):
    reach = visitor.reach * off
    if loss_smoothness(loss) < np.inf:
        value, slope, _ = loss_terms(loss, z, y)
        rise = reach * (abs(slope) + loss_smoothness(loss) * reach)
    else:  # ℓ is convex: largest at an end
        value = loss_value(loss, z, y)
        rise = max(loss_value(loss, z - reach, y), loss_value(loss, z + reach, y)) - value
    return value, rise, 2.0 * abs(value) + rise, 0.0, 0.0, 0.0


@visit.of(SmoothedTerms)
def _(visitor, loss, z, move, off, lean, y):
    value, slope, curvature, true, lower = smooth_loss(loss, z, y, visitor.mu)
    return value, true, lower, slope * move, slope, curvature


@visit.of(DualTerms)
def _(visitor, loss, z, move, off, lean, y):
    v = feasible_slope(loss, z, move, y, visitor.mu)
    v *= visitor.up if v * lean > 0.0 else visitor.down
    value = loss_conjugate(plain_loss(loss), v, y)
    return value, abs(value) + 2.0 * abs(v * y), abs(v) * off, 0.0, v, 0.0


@visit.of(FreePull)
def _(visitor, loss, z, move, off, lean, y):
    pull = feasible_slope(loss, z, move, y, visitor.mu) * lean
    return max(pull, 0.0), max(-pull, 0.0), 0.0, 0.0, pull, 0.0


@register_jitable
def feasible_slope(loss, z, move, y, mu):
    low, high = loss_domain(plain_loss(loss), y)
    return min(max(dual_slope(loss, z, move, y, mu), low), high)


@generic
def dual_slope(loss, z, move, y, mu):
    """Slope of the loss smoothed by ``mu``, to first order after the score has moved on by ``move``."""


@dual_slope.otherwise
def _(loss, z, move, y, mu):
    _, slope, curvature = loss_terms(loss, z, y)
    return slope + curvature * move


@dual_slope.of(Piecewise)
def _(loss, z, move, y, mu):
    if mu == 0.0:
        return loss_slope(loss.loss, z, y)
    _, slope, curvature, _, _ = smooth_loss(loss, z, y, mu)
    return slope + curvature * move


@generic
def visit_scores(visitor, loss, z, move, off, lean, y, v):
    """Four numbers to average, of a sample with many scores z (K,) and class y; v (K,) goes to the row."""


@visit_scores.of(LossValues)
def _(visitor, loss, z, move, off, lean, y, v):
    scores_slope(loss, z, y, v)
    return scores_value(loss, z, y), 0.0, 0.0, 0.0


@visit_scores.of(LossBounds)
def _(visitor, loss, z, move, off, lean, y, v):
    scores_slope(loss, z, y, v)
    value, reach = scores_value(loss, z, y), visitor.reach * off
    # Σ|v| = 2 (1 − p_k) grows at most by the factor exp(2 reach), and is at most 2
    rise = 2.0 * reach * min(np.abs(v).sum() * np.exp(min(2.0 * reach, 1.0)), 2.0)
    return value, rise, 2.0 * abs(value) + rise, 0.0


@visit_scores.of(SmoothedTerms)
def _(visitor, loss, z, move, off, lean, y, v):
    scores_slope(loss, z, y, v)
    value, along = scores_value(loss, z, y), 0.0
    for c in range(v.size):
        along += v[c] * move[c]
    return value, value, value, along


@visit_scores.of(DualTerms)
def _(visitor, loss, z, move, off, lean, y, v):
    scores_slope(loss, z, y, v)
    mean = 0.0
    for c in range(v.size):  # v = p − e_y, whose derivative is diag(p) − p pᵀ
        mean += (v[c] + (1.0 if c == y else 0.0)) * move[c]
    for c in range(v.size):
        v[c] += (v[c] + (1.0 if c == y else 0.0)) * (move[c] - mean)
        v[c] *= min(visitor.up, visitor.down)
    probable(v, y)
    # p_k = 1 + v_k is known to EPS, its logarithm is at most 36
    return scores_conjugate(loss, v, y), v.size + 8.0, np.abs(v).sum() * off, 0.0


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
def visit_samples(visitor, loss, z, move, off, lean, y, seen):
    """Write what the visitor returns of samples with one score each into the rows of ``seen`` (6, as many or more)."""
    a, b, c, e, one, two = seen[0], seen[1], seen[2], seen[3], seen[4], seen[5]
    for r in range(z.size):
        a[r], b[r], c[r], e[r], one[r], two[r] = visit(visitor, loss, z[r], move[r], off[r], lean[r], y[r])


def chunks(low: int, high: int) -> list[int]:
    """Where chunks of about as many samples begin and end, from low to high."""
    number = round((high - low) / CHUNK)
    return [low, high] if number < 2 else np.linspace(low, high, number + 1).astype(np.int64).tolist()


@kernel
def visit_vectors(visitor, loss, z, move, off, lean, y, seen):
    """The same for scores (samples, K): four numbers, K slopes, and 1 in the last row of ``seen`` (K + 5, …)."""
    slopes = np.empty(z.shape[1])
    for r in range(z.shape[0]):
        terms = visit_scores(visitor, loss, z[r], move[r], off[r], lean[r], y[r], slopes)
        seen[0, r], seen[1, r], seen[2, r], seen[3, r] = terms
        for c in range(slopes.size):
            seen[4 + c, r] = slopes[c]
        seen[4 + slopes.size, r] = 1.0


@register_jitable
def add_compensated(total, lost, term):
    """Add ``term`` to a sum whose rounding so far is ``lost``; infinity less infinity would be NaN."""
    term -= lost
    raised = total + term
    return raised, (raised - total) - term if abs(raised) < np.inf else 0.0


@generic
def walk_rounding(g):
    """Relative error of the means of a walk, by the means of absolute terms."""


@walk_rounding.otherwise
def _(g):
    return EPS * (16384 + 64)


def sum_parts(parts: list[tuple[int, np.ndarray]], count: int) -> np.ndarray:
    """Sums (count, 4) of parts: the inner function that each begins at, and its sums."""
    total, lost = np.zeros((2, count, 4))
    for first, part in parts:
        here = slice(first, first + part.shape[0])
        with np.errstate(invalid="ignore"):
            term = part - lost[here]
            raised = total[here] + term
            rest = (raised - total[here]) - term
        lost[here], total[here] = np.where(np.isfinite(rest), rest, 0.0), raised
    return total
