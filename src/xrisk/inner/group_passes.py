"""Full passes over groups of rows."""

import itertools
from typing import Any

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.compile import kernel, specialise
from xrisk.data.products import column_squares, row_gram, sampled_rows, stored_numbers
from xrisk.data.rows import add_row, frozen, row_count, row_size
from xrisk.data.threads import borders, in_parts
from xrisk.generic import generic
from xrisk.inner.groups import Groups
from xrisk.inner.layout import Equal, Indexed, InOrder, Partitioned, Weighted, row_at
from xrisk.inner.models import (
    LinearModel,
    SoftmaxModel,
    model_rows,
    model_scores,
    model_target_centre,
    with_less_target,
)
from xrisk.inner.oracle import exact_jacobians, exact_values, exact_vjp, inner_size
from xrisk.inner.passes import (
    CHUNK,
    EPS,
    Gradients,
    Scores,
    Walk,
    add_compensated,
    add_hessian,
    add_squares,
    chunks,
    column_sizes,
    has_gradients,
    inner_gradients,
    jacobian,
    jacobians_by_walk,
    less_target,
    pass_loss,
    pass_rows,
    sampled,
    score_count,
    score_size,
    shared_out,
    squares_by_jacobian,
    sum_parts,
    target_centre,
    values_by_walk,
    vjp_by_walk,
    walk,
    walk_apart,
    walk_rounding,
    with_loss,
    with_rows,
)
from xrisk.inner.visitors import asks_direction, asks_factors, leaves_curvatures, visit_samples, visit_vectors

KEPT = 4  # times as many numbers as the gradients of all groups the rows must hold

exact_values.of(Groups)(values_by_walk)
exact_vjp.of(Groups)(vjp_by_walk)
exact_jacobians.of(Groups)(jacobians_by_walk)


@generic
def by_row(index, coefs, rows):
    """What is kept by place (channels, places), summed to rows."""


by_row.otherwise(lambda index, coefs, rows: coefs)


@by_row.of(Indexed)
def _(index, coefs, rows):
    return np.stack([np.bincount(index.rows, channel, rows) for channel in coefs])


pass_rows.of(Groups)(lambda g: g.model.rows)
pass_loss.of(Groups)(lambda g: g.model.loss)


@with_loss.of(Groups)
def _(g, loss):
    return g._replace(model=g.model._replace(loss=loss))


@with_rows.of(Groups)
def _(g, rows):
    return g._replace(model=g.model._replace(rows=rows))


target_centre.of(Groups)(lambda g: model_target_centre(g.model))


@less_target.of(Groups)
def _(g, centre):
    return g._replace(model=with_less_target(g.model, centre))


score_count.of(Groups)(lambda g: model_scores(g.model))


@walk.of(Groups)
def _(g, visitor, at, share):
    done = _walk(g, visitor, at, share)
    return done._replace(coefs=by_row(g.index, done.coefs, model_rows(g.model))) if share.size else done


def _walk(g: Groups, visitor: Spec, at: Scores, share: np.ndarray) -> Walk:
    """The walk, what is left on the rows being kept by place."""
    positions, sizes, scores = int(g.offsets[-1]), np.diff(g.offsets), model_scores(g.model)
    edges, scale = borders(positions, 0.5 * scores), share / sizes[: share.size]
    at, channels = _as_read(at, scores), scores + leaves_curvatures(visitor)
    coefs = np.empty((channels, positions if share.size else 0))
    look, add = specialise(model_visit(g.model), visitor, g.model.loss), specialise(add_chunk)

    def part(low: int, high: int) -> tuple[int, np.ndarray]:
        first, last = index_groups(g.index, g.offsets, low, high)
        sums, lost, pending = np.zeros((3, last - first, 4))
        seen = np.empty((scores + 5, min(2 * CHUNK, high - low)))
        for start, stop in itertools.pairwise(chunks(low, high)):
            rows, groups = index_rows(g.index, start, stop), index_codes(g.index, g.offsets, start, stop)
            weights = weight_chunk(g.weight, g.index, start, stop)
            z, direction, y, error_bound, free_entry = (
                at.z[rows],
                at.z[rows],
                g.model.target[rows],
                at.error_bound[rows],
                at.free_entry[rows],
            )
            if asks_direction(visitor):
                direction = at.direction[rows]
            if asks_factors(visitor):
                direction = (direction.T * at.factor[groups]).T
            look(visitor, g.model.loss, z, direction, error_bound, free_entry, y, seen)
            add(seen, groups, weights, scale, start, first, sums, lost, pending, coefs)
        return first, sums

    total = sum_parts(in_parts(part, edges), sizes.size)
    total /= sizes[:, None]
    return Walk(total, coefs)


@walk_rounding.of(Groups)
def _(g):
    sizes = np.diff(g.offsets)
    return EPS * (min(flushed_after(sizes.size), float(sizes.max())) + 64)


@generic
def index_rows(index, start, stop):
    """The rows of the places start, …, stop − 1."""


index_rows.otherwise(lambda index, start, stop: slice(start, stop))


@index_rows.of(Indexed)
def _(index, start, stop):
    return index.rows[start:stop]


@generic
def index_codes(index, offsets, start, stop):
    """The group of each place."""


@index_codes.otherwise
def _(index, offsets, start, stop):
    first, last = index_groups(index, offsets, start, stop)
    sizes = np.diff(np.clip(offsets[first : last + 1], start, stop))
    return np.repeat(np.arange(first, last, dtype=np.int32), sizes)


@index_codes.of(Partitioned)
def _(index, offsets, start, stop):
    return index.codes[start:stop]


@generic
def index_groups(index, offsets, start, stop):
    """The first group of the places start, …, stop − 1, and the one after their last."""


@index_groups.otherwise
def _(index, offsets, start, stop):
    return int(np.searchsorted(offsets, start, side="right")) - 1, int(np.searchsorted(offsets, stop, side="left"))


@index_groups.of(Partitioned)
def _(index, offsets, start, stop):
    return 0, offsets.size - 1


@generic
def weight_chunk(weight, index, start, stop):
    """The weight of each place."""


@weight_chunk.of(Equal)
def _(weight, index, start, stop):
    return ONES[: stop - start]


@weight_chunk.of(Weighted)
def _(weight, index, start, stop):
    return index_weights(index, weight)[start:stop]


@generic
def index_weights(index, weight):
    """The weights of all places."""


index_weights.otherwise(lambda index, weight: weight.weights)
index_weights.of(Partitioned)(lambda index, weight: weight.by_row)


ONES = frozen(np.ones(2 * CHUNK))


def _as_read(at: Scores, scores: int) -> Scores:
    """Scores of one number a row as a vector: loops over them use vector registers."""
    if scores > 1:
        return at
    return at._replace(z=np.ascontiguousarray(at.z[:, 0]), direction=np.ascontiguousarray(at.direction[:, 0]))


@generic
def model_visit(model):
    """The kernel that looks at rows."""


model_visit.of(LinearModel)(lambda model: visit_samples)
model_visit.of(SoftmaxModel)(lambda model: visit_vectors)


@register_jitable
def flushed_after(groups):
    """Rows that are summed before the sums of all groups are compensated: so many that this takes little."""
    return max(4096, 16 * groups)


@kernel
def add_chunk(seen, groups, weights, scale, start, first, sums, lost, pending, coefs):
    """Add what was seen of a chunk to the sums of its groups, and leave it on its places if there is a scale."""
    if sums.shape[0] > 2 * groups.size:  # many groups: few rows each
        for r in range(groups.size):
            for j in range(4):
                i, term = groups[r] - first, weights[r] * seen[j, r]
                sums[i, j], lost[i, j] = add_compensated(sums[i, j], lost[i, j], term)
    else:
        a, b, c, e = seen[0], seen[1], seen[2], seen[3]
        stretch = flushed_after(sums.shape[0])
        for r in range(groups.size):
            part, into = weights[r], pending[groups[r] - first]
            into[0] += part * a[r]
            into[1] += part * b[r]
            into[2] += part * c[r]
            into[3] += part * e[r]
            if (r + 1) % stretch == 0 or r + 1 == groups.size:
                for i in range(sums.shape[0]):
                    for j in range(4):
                        sums[i, j], lost[i, j] = add_compensated(sums[i, j], lost[i, j], pending[i, j])
                        pending[i, j] = 0.0
    if scale.size > 0:
        for c in range(coefs.shape[0]):
            left, right = coefs[c, start : start + groups.size], seen[4 + c]
            for r in range(groups.size):
                left[r] = scale[groups[r]] * weights[r] * right[r]


@add_hessian.of(Groups)
def _(g, visitor, at, share, curvatures, H):
    add_model_hessian(g.model, at, curvatures, H)


@generic
def add_model_hessian(model, at, curvatures, H):
    """Add the Hessian of Σ (weight of row k)·(loss of row k) to H."""


@add_model_hessian.of(LinearModel)
def _(model, at, curvatures, H):
    if curvatures.any():
        H += row_gram(model.rows, curvatures)


@add_model_hessian.of(SoftmaxModel)
def _(model, at, curvatures, H):
    d = row_size(model.rows)
    p = np.exp(at.z - at.z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for a in range(model.n_classes):
        for b in range(a + 1):
            block = row_gram(model.rows, curvatures * p[:, a] * ((a == b) - p[:, b]))
            H[a * d : (a + 1) * d, b * d : (b + 1) * d] += block
            if a != b:
                H[b * d : (b + 1) * d, a * d : (a + 1) * d] += block


@walk_apart.of(Groups)
def _(g, visitor, at):
    return _walk(g, visitor, at, np.ones(g.offsets.size - 1))


@jacobian.of(Groups)
def _(g, visitor, at):
    return inner_gradients(g, walk_apart(g, visitor, at).coefs).slopes


@has_gradients.of(Groups)
def _(g):
    return KEPT * float((g.offsets.size - 1) * inner_size(g)) <= stored_numbers(g.model.rows)


@inner_gradients.of(Groups)
def _(g, coefs):
    codes, listed = row_codes(g.index, g)
    parts = (group_adjoint(g, codes, listed, slope, coefs[-1]) for slope in coefs[: model_scores(g.model)])
    slopes, sizes = zip(*parts, strict=True)
    adjoints = sum(size[:, 0] for size in sizes)
    curvatures = sizes[0][:, 1].copy()  # products of strided vectors are summed in another order than stored ones
    return Gradients(slopes[0] if len(slopes) == 1 else np.hstack(slopes), adjoints, curvatures)


@shared_out.of(Groups)
def _(g, coefs, share):
    codes, _ = row_codes(g.index, g)
    coefs *= share[codes]
    return by_row(g.index, coefs, model_rows(g.model))


@generic
def row_codes(index, g):
    """The group of each place where a walk keeps coefficients, and the row of it."""


@row_codes.of(InOrder)
def _(index, g):
    return g.groups(), InOrder()


@row_codes.of(Partitioned)
def _(index, g):
    return index.codes, InOrder()


@row_codes.of(Indexed)
def _(index, g):
    return g.groups(), index


def group_adjoint(
    g: Groups, codes: np.ndarray, index: Any, slopes: np.ndarray, curvatures: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Σ slope·row over the places of each group, (groups, columns); Σ |slope| and Σ curvature, (groups, 2)."""
    rows, shape = g.model.rows, (g.offsets.size - 1, row_size(g.model.rows))
    numbers = stored_numbers(rows) / row_count(rows)
    most = int(max(1, min(8, codes.size * numbers / (shape[0] * shape[1]))))  # matrices that are worth their room

    def part(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        total, sizes = np.zeros(shape), np.zeros((shape[0], 2))
        add_by_group(rows, codes, index, slopes, curvatures, low, high, total, sizes)
        return total, sizes

    (total, sizes), *parts = in_parts(part, borders(codes.size, numbers, most))
    for other, others in parts:
        total += other
        sizes += others
    return total, sizes


@kernel
def add_by_group(rows, codes, index, slopes, curvatures, low, high, total, sizes):
    for p in range(low, high):
        i = codes[p]
        sizes[i, 0] += abs(slopes[p])
        sizes[i, 1] += curvatures[p]
        if slopes[p] != 0.0:
            add_row(rows, row_at(index, p), slopes[p], total[i])


@add_squares.of(Groups)
def _(g, visitor, at, c, H):
    if g.offsets.size - 1 < g.offsets[-1] or model_scores(g.model) > 1:
        squares_by_jacobian(g, visitor, at, c, H)
    else:  # every group is a row: the rows are not copied
        slopes = walk(g, visitor, at, np.sqrt(c)).coefs[0]
        add_row_squares(g.index, g, visitor, at, c, slopes, H)


@generic
def add_row_squares(index, g, visitor, at, c, slopes, H):
    """The same for groups of one row each, ``slopes`` being √c·∇ of every row."""


@add_row_squares.otherwise
def _(index, g, visitor, at, c, slopes, H):
    H += row_gram(g.model.rows, slopes**2)


@add_row_squares.of(Indexed)
def _(index, g, visitor, at, c, slopes, H):
    squares_by_jacobian(g, visitor, at, c, H)  # a row may stand in several groups


@column_sizes.of(Groups)
def _(g):
    return np.sqrt(np.tile(column_squares(g.model.rows), model_scores(g.model)))


score_size.of(Groups)(lambda g: model_score_size(g.model))


@generic
def model_score_size(model):
    """The size that scores are expected to have."""


@model_score_size.of(LinearModel)
def _(model):
    return float(np.abs(model.target).mean()) or 1.0


model_score_size.of(SoftmaxModel)(lambda model: 1.0)


LEAST_SAMPLE = 20  # rows of a group that a sample keeps, if there are so many


@sampled.of(Groups)
def _(g, share, rng):
    mask = rng.random(int(g.offsets[-1])) < share
    for group in np.flatnonzero(np.add.reduceat(mask, g.offsets[:-1], dtype=np.int64) < LEAST_SAMPLE):
        low, high = int(g.offsets[group]), int(g.offsets[group + 1])
        mask[low + rng.permutation(high - low)[:LEAST_SAMPLE]] = True
    positions, keep = np.flatnonzero(mask), np.add.reduceat(mask, g.offsets[:-1], dtype=np.int64)
    chosen = row_at(g.index, positions)
    model = g.model._replace(rows=sampled_rows(g.model.rows, chosen), target=frozen(g.model.target[chosen]))
    offsets = frozen(np.concatenate(([0], np.cumsum(keep))))
    return Groups(model, offsets, InOrder(), sampled_weight(g.weight, positions, offsets), g.dim)


@generic
def sampled_weight(weight, positions, offsets):
    """The weights of the chosen positions, which average to one in every group again."""


sampled_weight.of(Equal)(lambda weight, positions, offsets: weight)


@sampled_weight.of(Weighted)
def _(weight, positions, offsets):
    chosen, sizes = weight.weights[positions], np.diff(offsets)
    sums = np.add.reduceat(chosen, offsets[:-1])
    chosen = np.where(np.repeat(sums, sizes) > 0.0, chosen, 1.0)
    return Weighted(frozen(chosen * np.repeat(sizes / np.add.reduceat(chosen, offsets[:-1]), sizes)))
