"""Full passes: a geometry walks all its samples once, a visitor looks at each.

Every inner function here is made of linear scores z = X w of the rows of one matrix. A pass has three parts: the
scores of all rows, the walk of the geometry over its samples in score space, and the adjoint Xᵀs of what it left on
the rows. A geometry (groups of rows, pairs of rows, …) implements `pass_rows`, `pass_loss` and `walk`; a visitor
(values, bounds, smoothed terms, duals) implements `visit`. Neither knows the other.
"""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Inner
from xrisk.data.products import centred_rows, column_means, row_adjoint, row_scores, with_intercept
from xrisk.data.rows import WithIntercept, row_count
from xrisk.generic import generic
from xrisk.inner.oracle import inner_count, inner_dim, inner_size
from xrisk.inner.visitors import LossValues, SmoothedTerms

EPS = float(np.finfo(np.float64).eps)
CHUNK = (
    8192  # samples looked at together, and summed before the sum is compensated: what is seen of them stays in cache
)


class Scores(NamedTuple):
    """What a pass sees of a point."""

    z: np.ndarray  # (rows, scores)
    direction: np.ndarray  # (rows, scores) a direction of the scores; z itself where no visitor asks for one
    error_bound: np.ndarray  # (rows,) a size of each row, by which its score may be off
    free_entry: np.ndarray  # (rows,) the entry of each row in a free coordinate
    factor: np.ndarray  # (n·m,) by which the moves of each inner function are multiplied


class Slopes(NamedTuple):
    """Slopes v of the losses of all samples, by the scores they are computed from: numbers per row, not per sample.

    v is the slope of the loss smoothed by ``mu`` at the scores z, to first order after they have moved on.
    """

    z: np.ndarray  # (rows, scores)
    direction: np.ndarray  # (rows, scores)
    factor: np.ndarray  # (n·m,) by which the moves of each inner function are multiplied
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


score_count.otherwise(lambda g: 1)


@generic
def walk(g, visitor, at, share):
    """Walk over all samples: `Walk`. ``share`` (n·m,) multiplies what goes to the rows; empty, nothing does."""


@generic
def add_hessian(g, visitor, at, share, curvatures, H):
    """Add Σ share·(Hessian of the inner functions) to H (d, d).

    ``curvatures`` (rows,) are those that the walk with that share leaves; empty where it leaves none.
    """


@generic
def jacobian(g, visitor, at):
    """∇gᵢ as rows: (n·m, d)."""


class Gradients(NamedTuple):
    """What is known of every inner function by itself."""

    slopes: np.ndarray  # (n·m, d) their gradients
    adjoints: np.ndarray  # (n·m,) means of the absolute slopes of the losses
    curvatures: np.ndarray  # (n·m,) means of the curvatures of the losses


@generic
def has_gradients(g):
    """Whether the gradients of all inner functions take no more than that of their sum."""


has_gradients.otherwise(lambda g: False)


@generic
def walk_apart(g, visitor, at):
    """The walk that leaves what `inner_gradients` asks for, where `has_gradients`."""


@generic
def inner_gradients(g, coefs):
    """`Gradients` of all inner functions, of what `walk_apart` has left."""


@generic
def shared_out(g, coefs, share):
    """What a walk with a share (n·m,) leaves on the rows, of what `walk_apart` has left, which is overwritten."""


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


score_size.otherwise(lambda g: 1.0)


@generic
def sampled(g, share, rng):
    """The same inner functions of about a ``share`` of the samples, at least a few for each."""


OFFSET = 1.0  # a column whose mean is so many times its deviation is centred: an intercept absorbs the mean


@generic
def target_centre(g):
    """The middle of targets that are far from zero beside how much they vary; zero of others, and of other losses."""


target_centre.otherwise(lambda g: 0.0)


@generic
def less_target(g, centre):
    """The same inner functions, all targets less ``centre``."""


def centred(g: Inner, centre: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """The inner functions with columns and targets far from zero centred, and the centre (d,); one given, if it is.

    Where the last column is that of an intercept which is free to move, this is the same problem: the intercept takes
    up what is taken out (`to_centred`). The centre holds the means of the columns and, in the place of the intercept,
    the middle of the targets. What is near zero, and storages that cannot be centred, stay as they are.
    """
    centre = far_means(g) if centre is None else centre
    if centre[:-1].any():
        g = with_rows(g, WithIntercept(centred_rows(pass_rows(g).rows, centre[:-1].copy())))
    return (less_target(g, float(centre[-1])) if centre[-1] else g), centre


def to_centred(centre: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The parameters of the centred problem at those of the problem as stated."""
    x = w.copy()
    x[-1] += float(centre[:-1] @ w[:-1])
    x[-1] -= centre[-1]
    return x


def from_centred(centre: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The parameters of the problem as stated at those of the centred one."""
    w = x.copy()
    w[-1] -= float(centre[:-1] @ x[:-1])
    w[-1] += centre[-1]
    return w


def far_means(g: Inner) -> np.ndarray:
    """What `centred` takes out: of columns and targets that are far from zero beside how much they vary."""
    rows, centre = pass_rows(g), np.zeros(inner_size(g))
    if score_count(g) > 1 or not with_intercept(rows):
        return centre
    centre[-1] = target_centre(g)
    if not column_means.implemented(rows.rows):
        return centre
    means, squares = column_means(rows.rows)
    far = np.abs(means) > OFFSET * np.sqrt(np.maximum(squares - means**2, 0.0))
    far &= means**2 > 1e-30 * squares.max(initial=0.0)
    centre[:-1] = np.where(far, means, 0.0)
    return centre


@generic
def as_linear_groups(g):
    """The same inner functions as group means of a linear model; what is none is returned as it is."""


as_linear_groups.otherwise(lambda g: g)


def walks(g: Inner) -> bool:
    """Whether full passes over the inner functions are known."""
    return bool(walk.implemented(as_linear_groups(g)))


def scores_at(g: Inner, w: np.ndarray) -> np.ndarray:
    """The scores (rows, scores) of all rows at w (d,)."""
    if not w.any():  # where runs start: no need to read the rows
        return np.zeros((row_count(pass_rows(g)), score_count(g)))
    return row_scores(pass_rows(g), np.ascontiguousarray(w, dtype=np.float64).reshape(score_count(g), -1))


def adjoint(g: Inner, coefs: np.ndarray) -> np.ndarray:
    """Σ (what a walk left on row k)·row k: (d,)."""
    return row_adjoint(pass_rows(g), coefs[: score_count(g)].T).reshape(-1)


def scores_only(g: Inner, z: np.ndarray) -> Scores:
    """Scores that neither move nor err."""
    return Scores(z, z, z[:, 0], z[:, 0], np.ones(inner_count(g) * inner_dim(g)))


NO_SHARE = np.zeros(0)


def values_by_walk(g: Inner, w: np.ndarray, out: np.ndarray) -> None:
    """Write gᵢ(w) for all i into ``out`` (n, m): `exact_values` of a geometry."""
    out[:] = walk(g, LossValues(), scores_only(g, scores_at(g, w)), NO_SHARE).sums[:, 0].reshape(out.shape)


def vjp_by_walk(g: Inner, w: np.ndarray, y: np.ndarray, grad: np.ndarray) -> None:
    """Add Σᵢ Jᵢ(w)ᵀ yᵢ to ``grad`` (d), y of shape (n, m): `exact_vjp` of a geometry."""
    at = scores_only(g, scores_at(g, w))
    grad += adjoint(g, walk(g, LossValues(), at, np.ascontiguousarray(y, dtype=np.float64).reshape(-1)).coefs)


def jacobians_by_walk(g: Inner, w: np.ndarray, out: np.ndarray) -> None:
    """Write Jᵢ(w) for all i into ``out`` (n, m, d): `exact_jacobians` of a geometry."""
    out[:] = jacobian(g, SmoothedTerms(0.0), scores_only(g, scores_at(g, w))).reshape(out.shape)


def chunks(low: int, high: int) -> list[int]:
    """Where chunks of about as many samples begin and end, from low to high."""
    number = round((high - low) / CHUNK)
    return [low, high] if number < 2 else np.linspace(low, high, number + 1).astype(np.int64).tolist()


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
        current = slice(first, first + part.shape[0])
        with np.errstate(invalid="ignore"):
            term = part - lost[current]
            raised = total[current] + term
            rest = (raised - total[current]) - term
        lost[current], total[current] = np.where(np.isfinite(rest), rest, 0.0), raised
    return total
