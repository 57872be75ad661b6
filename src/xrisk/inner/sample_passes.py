"""Full passes over single rows."""

import itertools

import numpy as np

from xrisk.compile import specialise
from xrisk.data.products import column_squares, row_block, row_gram, sampled_rows
from xrisk.data.rows import frozen
from xrisk.data.threads import borders, in_parts
from xrisk.inner.group_passes import add_model_hessian, model_score_size, model_visit
from xrisk.inner.models import model_rows, model_scores, model_target_centre, with_less_target
from xrisk.inner.oracle import exact_values, exact_vjp
from xrisk.inner.passes import (
    CHUNK,
    EPS,
    Walk,
    add_hessian,
    add_squares,
    chunks,
    column_sizes,
    jacobian,
    less_target,
    pass_loss,
    pass_rows,
    sampled,
    score_count,
    score_size,
    scores_at,
    target_centre,
    vjp_by_walk,
    walk,
    walk_rounding,
    with_loss,
    with_rows,
)
from xrisk.inner.samples import Samples
from xrisk.inner.visitors import LossValues, asks_direction, asks_factors, leaves_curvatures

exact_vjp.of(Samples)(vjp_by_walk)


pass_rows.of(Samples)(lambda g: g.model.rows)
pass_loss.of(Samples)(lambda g: g.model.loss)


@with_loss.of(Samples)
def _(g, loss):
    return Samples(g.model._replace(loss=loss))


@with_rows.of(Samples)
def _(g, rows):
    return Samples(g.model._replace(rows=rows))


target_centre.of(Samples)(lambda g: model_target_centre(g.model))


@less_target.of(Samples)
def _(g, centre):
    return Samples(with_less_target(g.model, centre))


score_count.of(Samples)(lambda g: model_scores(g.model))


@exact_values.of(Samples)
def _(g, w, out):
    """The losses, without the other numbers that a walk has of every row: rows may be many."""
    z, scores, visitor = scores_at(g, w), model_scores(g.model), LossValues()
    look = specialise(model_visit(g.model), visitor, g.model.loss)

    def part(low: int, high: int) -> None:
        seen = np.empty((scores + 5, min(2 * CHUNK, high - low)))
        for start, stop in itertools.pairwise(chunks(low, high)):
            span = np.ascontiguousarray(z[start:stop, 0]) if scores == 1 else z[start:stop]
            size = z[start:stop, 0]
            look(visitor, g.model.loss, span, span, size, size, g.model.target[start:stop], seen)
            out[start:stop, 0] = seen[0, : stop - start]

    in_parts(part, borders(z.shape[0], 0.5 * scores))


@walk.of(Samples)
def _(g, visitor, at, share):
    rows, scores = model_rows(g.model), model_scores(g.model)
    sums = np.empty((rows, 4))
    coefs = np.empty((scores + leaves_curvatures(visitor), rows if share.size else 0))
    look = specialise(model_visit(g.model), visitor, g.model.loss)
    z, direction = (at.z, at.direction) if scores > 1 else (_one_score(at.z), _one_score(at.direction))

    def part(low: int, high: int) -> None:
        seen = np.empty((scores + 5, min(2 * CHUNK, high - low)))
        for start, stop in itertools.pairwise(chunks(low, high)):
            span, moved = slice(start, stop), z[start:stop]
            if asks_direction(visitor):
                moved = direction[span]
            if asks_factors(visitor):
                moved = (moved.T * at.factor[span]).T
            look(
                visitor,
                g.model.loss,
                z[span],
                moved,
                at.error_bound[span],
                at.free_entry[span],
                g.model.target[span],
                seen,
            )
            sums[span] = seen[:4, : stop - start].T
            if share.size:
                np.multiply(seen[4 : 4 + len(coefs), : stop - start], share[span], out=coefs[:, span])

    in_parts(part, borders(rows, 0.5 * scores))
    return Walk(sums, coefs)


def _one_score(z: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(z[:, 0])


@walk_rounding.of(Samples)
def _(g):
    return 64 * EPS


@add_hessian.of(Samples)
def _(g, visitor, at, share, curvatures, H):
    add_model_hessian(g.model, at, curvatures, H)


@add_squares.of(Samples)
def _(g, visitor, at, c, H):
    slopes, d = walk(g, visitor, at, np.ones(c.size)).coefs, H.shape[0] // model_scores(g.model)
    for a in range(model_scores(g.model)):
        for b in range(a + 1):
            block = row_gram(g.model.rows, c * slopes[a] * slopes[b])
            H[a * d : (a + 1) * d, b * d : (b + 1) * d] += block
            if a != b:
                H[b * d : (b + 1) * d, a * d : (a + 1) * d] += block


@jacobian.of(Samples)
def _(g, visitor, at):
    slopes = walk(g, visitor, at, np.ones(model_rows(g.model))).coefs[: model_scores(g.model)]
    rows = row_block(g.model.rows, np.arange(model_rows(g.model)))
    return np.hstack([slope[:, None] * rows for slope in slopes])


@column_sizes.of(Samples)
def _(g):
    return np.sqrt(np.tile(column_squares(g.model.rows), model_scores(g.model)))


score_size.of(Samples)(lambda g: model_score_size(g.model))


@sampled.of(Samples)
def _(g, share, rng):
    chosen = np.flatnonzero(rng.random(model_rows(g.model)) < share)
    return Samples(g.model._replace(rows=sampled_rows(g.model.rows, chosen), target=frozen(g.model.target[chosen])))
