"""Full passes over groups of rows."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel, specialise
from xrisk.data.products import MATRICES, column_squares, row_gram, sampled_rows
from xrisk.data.rows import add_row, frozen, row_size
from xrisk.data.threads import borders, in_parts
from xrisk.generic import generic
from xrisk.inner.groups import Equal, Groups, Indexed, InOrder, Partitioned, Weighted, row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel, model_rows, model_scores
from xrisk.inner.oracle import exact_values, exact_vjp
from xrisk.inner.passes import (
    BLOCK,
    EPS,
    FLUSH,
    Scores,
    Walk,
    add_compensated,
    add_hessian,
    add_squares,
    asks_gains,
    asks_moves,
    asks_sizes,
    column_sizes,
    jacobian,
    new_buffers,
    pass_loss,
    pass_rows,
    sampled,
    score_count,
    score_size,
    squares_by_jacobian,
    sum_parts,
    values_by_walk,
    visit_block,
    visit_scores,
    vjp_by_walk,
    walk,
    walk_rounding,
    with_loss,
    with_rows,
)

exact_values.of(Groups)(values_by_walk)
exact_vjp.of(Groups)(vjp_by_walk)


class Layout(NamedTuple):
    """Which rows make which group: kernels that do not look at the model are compiled once for all models."""

    offsets: np.ndarray
    index: Any
    weight: Any


@generic
def gather(index, values, start, size, out):
    """Copy the values (rows,) of ``size`` positions from ``start`` on to the head of ``out``."""


@gather.of(InOrder)
def _(index, values, start, size, out):
    there = values[start : start + size]
    for r in range(size):
        out[r] = there[r]


@gather.of(Partitioned)
@gather.of(Indexed)
def _(index, values, start, size, out):
    listed = index.rows[start : start + size]
    for r in range(size):
        out[r] = values[listed[r]]


@generic
def place_of(index, p):
    """Where what is left on the row of position p is kept: by row; by position where rows are in several groups."""


@place_of.of(InOrder)
@place_of.of(Indexed)
def _(index, p):
    return p


@place_of.of(Partitioned)
def _(index, p):
    return index.rows[p]


@generic
def by_row(index, coefs, rows):
    """What is kept by place (channels, places), summed to rows."""


@by_row.otherwise
def _(index, coefs, rows):
    return coefs


@by_row.of(Indexed)
def _(index, coefs, rows):
    return np.stack([np.bincount(index.rows, channel, rows) for channel in coefs])


@pass_rows.of(Groups)
def _(g):
    return g.model.rows


@pass_loss.of(Groups)
def _(g):
    return g.model.loss


@with_loss.of(Groups)
def _(g, loss):
    return g._replace(model=g.model._replace(loss=loss))


@with_rows.of(Groups)
def _(g, rows):
    return g._replace(model=g.model._replace(rows=rows))


@score_count.of(Groups)
def _(g):
    return model_scores(g.model)


@walk.of(Groups)
def _(g, visitor, at, share):
    done = _walk(g, visitor, at, share)
    return done._replace(coefs=by_row(g.index, done.coefs, model_rows(g.model))) if share.size else done


def _walk(g: Groups, visitor: Any, at: Scores, share: np.ndarray) -> Walk:
    """The walk, what is left on the rows being kept by place."""
    offsets, positions = g.offsets, int(g.offsets[-1])
    sizes, channels = np.diff(offsets), model_scores(g.model) + 1
    coefs = np.empty((channels, positions if share.size else 0))
    edges = borders(positions, 2.0 * (channels - 1))
    first, last = index_groups(g.index, offsets, edges)
    sums = [np.zeros((int(b - a), 4)) for a, b in zip(first, last, strict=True)]
    run = specialise(index_walk(g.index, g.model), visitor, g.model.loss)
    layout, scores, scale = Layout(offsets, g.index, g.weight), _as_read(at, channels), share / sizes[: share.size]

    def part(low: int, high: int) -> None:
        k = int(np.searchsorted(edges, low))
        run(visitor, g.model.loss, g.model.target, layout, scores, scale, int(first[k]), low, high, sums[k], coefs)

    in_parts(part, edges)
    total = sum_parts(sums, first.tolist(), sizes.size)
    total /= sizes[:, None]
    return Walk(total, coefs)


@walk_rounding.of(Groups)
def _(g):
    return EPS * (min(FLUSH * BLOCK, float(np.diff(g.offsets).max())) + 64)


@generic
def index_groups(index, offsets, edges):
    """The first group of every part between two edges, and the one after its last."""


@index_groups.otherwise
def _(index, offsets, edges):
    first = np.searchsorted(offsets, edges[:-1], side="right") - 1
    return first, np.searchsorted(offsets, edges[1:], side="left")


@index_groups.of(Partitioned)
def _(index, offsets, edges):
    return np.zeros(edges.size - 1, dtype=np.int64), np.full(edges.size - 1, offsets.size - 1)


@generic
def index_walk(index, model):
    """The kernel that walks over the rows of groups."""


@index_walk.otherwise
def _(index, model):
    return model_walk(model)


@index_walk.of(Partitioned)
def _(index, model):
    return model_walk_mixed(model)


def _as_read(at: Scores, channels: int) -> Scores:
    """Scores of one number a row as a vector: loops over them use vector registers."""
    if channels > 2:
        return at
    return at._replace(z=np.ascontiguousarray(at.z[:, 0]), move=np.ascontiguousarray(at.move[:, 0]))


@generic
def row_weight(weight, k):
    """Weight of row k."""


@row_weight.of(Equal)
def _(weight, k):
    return 1.0


@row_weight.of(Weighted)
def _(weight, k):
    return weight.by_row[k]


@kernel
def walk_mixed(visitor, loss, target, layout, at, scale, first, low, high, sums, coefs):
    """Rows low, …, high − 1 in the order in which they are stored, whatever their groups."""
    codes, weight, room = layout.index.codes, layout.weight, new_buffers()
    lost, held = np.zeros(sums.shape), np.zeros(sums.shape)
    z, move, off, lean, y = room.z, room.move, room.off, room.lean, room.y
    a, b, c, e, one, two = room.a, room.b, room.c, room.e, room.first, room.second
    for start in range(low, high, BLOCK):
        size = min(BLOCK, high - start)
        code = codes[start : start + size]
        copy_to(at.z[start : start + size], z)
        copy_to(target[start : start + size], y)
        if asks_sizes(visitor):
            copy_to(at.off[start : start + size], off)
            copy_to(at.lean[start : start + size], lean)
        if asks_moves(visitor):
            copy_to(at.move[start : start + size], move)
        if asks_gains(visitor):
            for r in range(size):
                move[r] *= at.gain[code[r]]
        visit_block(visitor, loss, room, size)
        for r in range(size):
            part, into = row_weight(weight, start + r), held[code[r]]
            into[0] += part * a[r]
            into[1] += part * b[r]
            into[2] += part * c[r]
            into[3] += part * e[r]
        if scale.size > 0:
            left, right = coefs[0, start : start + size], coefs[1, start : start + size]
            for r in range(size):
                part = scale[code[r]] * row_weight(weight, start + r)
                left[r] = part * one[r]
                right[r] = part * two[r]
        if (start - low) % (FLUSH * BLOCK) == 0:
            flush(sums, lost, held)
    flush(sums, lost, held)


@register_jitable
def copy_to(values, out):
    for r in range(values.size):
        out[r] = values[r]


@register_jitable
def flush(sums, lost, held):
    """Add what is held to compensated sums."""
    for i in range(sums.shape[0]):
        for j in range(4):
            sums[i, j], lost[i, j] = add_compensated(sums[i, j], lost[i, j], held[i, j])
            held[i, j] = 0.0


@kernel
def walk_linear(visitor, loss, target, layout, at, scale, first, low, high, sums, coefs):
    """Positions low, …, high − 1 of the groups from ``first`` on."""
    offsets, index, weight = layout
    room, i = new_buffers(), first
    lost = np.zeros(sums.shape)
    z, move, off = room.z, room.move, room.off
    a, b, c, e, one, two = room.a, room.b, room.c, room.e, room.first, room.second
    for start in range(low, high, BLOCK):
        size = min(BLOCK, high - start)
        gather(index, at.z, start, size, z)
        gather(index, target, start, size, room.y)
        if asks_sizes(visitor):
            gather(index, at.off, start, size, off)
            gather(index, at.lean, start, size, room.lean)
        if asks_moves(visitor):
            gather(index, at.move, start, size, move)
        if asks_gains(visitor):
            r, group = 0, i
            while r < size:
                end = min(size, offsets[group + 1] - start)
                for q in range(r, end):
                    move[q] *= at.gain[group]
                r, group = end, group + 1
        visit_block(visitor, loss, room, size)
        r = 0
        while r < size:
            end = min(size, offsets[i + 1] - start)
            ta, tb, tc, te = 0.0, 0.0, 0.0, 0.0
            for q in range(r, end):
                part = weight_at(weight, start + q)
                ta += part * a[q]
                tb += part * b[q]
                tc += part * c[q]
                te += part * e[q]
            add_terms((ta, tb, tc, te), 1.0, sums[i - first], lost[i - first])
            if scale.size > 0:
                for q in range(r, end):
                    place, part = place_of(index, start + q), scale[i] * weight_at(weight, start + q)
                    coefs[0, place] = part * one[q]
                    coefs[1, place] = part * two[q]
            r = end
            if start + end == offsets[i + 1]:
                i += 1


@kernel
def walk_softmax(visitor, loss, target, layout, at, scale, first, low, high, sums, coefs):
    """The same for a score per class; the last channel holds the weights of the rows themselves."""
    offsets, index, weight = layout
    classes, i = at.z.shape[1], first
    v, lost, move = np.empty(classes), np.zeros(sums.shape), np.empty(classes)
    for p in range(low, high):
        while p >= offsets[i + 1]:
            i += 1
        k, part = row_at(index, p), weight_at(weight, p)
        for c in range(classes):
            move[c] = at.gain[i] * at.move[k, c]
        terms = visit_scores(visitor, loss, at.z[k], move, at.off[k], at.lean[k], target[k], v)
        add_terms(terms, part, sums[i - first], lost[i - first])
        if scale.size > 0:
            part *= scale[i]
            place = place_of(index, p)
            for c in range(classes):
                coefs[c, place] = part * v[c]
            coefs[classes, place] = part


@generic
def model_walk(model):
    """The kernel that walks over the rows of groups."""


@model_walk.of(LinearModel)
def _(model):
    return walk_linear


@model_walk.of(SoftmaxModel)
def _(model):
    return walk_softmax


@generic
def model_walk_mixed(model):
    """The kernel that walks over rows in the order in which they are stored."""


@model_walk_mixed.of(LinearModel)
def _(model):
    return walk_mixed


@model_walk_mixed.of(SoftmaxModel)
def _(model):
    return walk_mixed_softmax


@kernel
def walk_mixed_softmax(visitor, loss, target, layout, at, scale, first, low, high, sums, coefs):
    codes, weight, classes = layout.index.codes, layout.weight, at.z.shape[1]
    v, lost, move = np.empty(classes), np.zeros(sums.shape), np.empty(classes)
    for k in range(low, high):
        i, part = codes[k], row_weight(weight, k)
        for c in range(classes):
            move[c] = at.gain[i] * at.move[k, c]
        terms = visit_scores(visitor, loss, at.z[k], move, at.off[k], at.lean[k], target[k], v)
        add_terms(terms, part, sums[i], lost[i])
        if scale.size > 0:
            part *= scale[i]
            for c in range(classes):
                coefs[c, k] = part * v[c]
            coefs[classes, k] = part


@register_jitable
def add_terms(terms, part, into, kept):
    into[0], kept[0] = add_compensated(into[0], kept[0], part * terms[0])
    into[1], kept[1] = add_compensated(into[1], kept[1], part * terms[1])
    into[2], kept[2] = add_compensated(into[2], kept[2], part * terms[2])
    into[3], kept[3] = add_compensated(into[3], kept[3], part * terms[3])


@add_hessian.of(Groups)
def _(g, visitor, at, share, coefs, H):
    add_model_hessian(g.model, at, coefs, H)


@generic
def add_model_hessian(model, at, coefs, H):
    """Add the Hessian of Σ (weight of row k)·(loss of row k) to H."""


@add_model_hessian.of(LinearModel)
def _(model, at, coefs, H):
    if coefs[1].any():
        H += row_gram(model.rows, coefs[1])


@add_model_hessian.of(SoftmaxModel)
def _(model, at, coefs, H):
    d, weights = row_size(model.rows), coefs[model.n_classes]
    p = np.exp(at.z - at.z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    for a in range(model.n_classes):
        for b in range(a + 1):
            block = row_gram(model.rows, weights * p[:, a] * ((a == b) - p[:, b]))
            H[a * d : (a + 1) * d, b * d : (b + 1) * d] += block
            if a != b:
                H[b * d : (b + 1) * d, a * d : (a + 1) * d] += block


@jacobian.of(Groups)
def _(g, visitor, at):
    groups, scores = g.offsets.size - 1, model_scores(g.model)
    coefs = _walk(g, visitor, at, np.ones(groups)).coefs
    codes, listed = row_codes(g.index, g)
    return np.hstack([group_adjoint(g.model.rows, codes, listed, coefs[c], groups) for c in range(scores)])


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


def group_adjoint(rows: Any, codes: np.ndarray, index: Any, coefs: np.ndarray, groups: int) -> np.ndarray:
    """Σ coefs·row over the places of each group: (groups, columns)."""
    d = row_size(rows)
    most = int(max(1, min(8, MATRICES // (8 * groups * d))))

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((groups, d))
        add_by_group(rows, codes, index, coefs, low, high, total)
        return total

    parts = in_parts(part, borders(codes.size, d, most))
    for other in parts[1:]:
        parts[0] += other
    return parts[0]


@kernel
def add_by_group(rows, codes, index, coefs, low, high, total):
    for p in range(low, high):
        if coefs[p] != 0.0:
            add_row(rows, row_at(index, p), coefs[p], total[codes[p]])


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


@score_size.of(Groups)
def _(g):
    return model_score_size(g.model)


@generic
def model_score_size(model):
    """The size that scores are expected to have."""


@model_score_size.of(LinearModel)
def _(model):
    return float(np.abs(model.target).mean()) or 1.0


@model_score_size.of(SoftmaxModel)
def _(model):
    return 1.0


LEAST_SAMPLE = 20  # rows of a group that a sample keeps, if there are so many


@sampled.of(Groups)
def _(g, share, rng):
    mask = rng.random(int(g.offsets[-1])) < share
    for group in np.flatnonzero(np.add.reduceat(mask, g.offsets[:-1], dtype=np.int64) < LEAST_SAMPLE):
        low, high = int(g.offsets[group]), int(g.offsets[group + 1])
        mask[low + rng.permutation(high - low)[:LEAST_SAMPLE]] = True
    positions, keep = np.flatnonzero(mask), np.add.reduceat(mask, g.offsets[:-1], dtype=np.int64)
    listed = getattr(g.index, "rows", None)
    chosen = positions if listed is None else listed[positions]
    model = g.model._replace(rows=sampled_rows(g.model.rows, chosen), target=frozen(g.model.target[chosen]))
    offsets = frozen(np.concatenate(([0], np.cumsum(keep))))
    return Groups(model, offsets, InOrder(), sampled_weight(g.weight, positions, offsets), g.dim)


@generic
def sampled_weight(weight, positions, offsets):
    """The weights of the chosen positions, which average to one in every group again."""


@sampled_weight.of(Equal)
def _(weight, positions, offsets):
    return weight


@sampled_weight.of(Weighted)
def _(weight, positions, offsets):
    chosen, sizes = weight.weights[positions], np.diff(offsets)
    sums = np.add.reduceat(chosen, offsets[:-1])
    chosen = np.where(np.repeat(sums, sizes) > 0.0, chosen, 1.0)
    return Weighted(frozen(chosen * np.repeat(sizes / np.add.reduceat(chosen, offsets[:-1]), sizes)))
