"""Full passes over pairs of rows, which keep nothing of a single pair.

Sums over pairs of rank-one matrices of differences split: with weights hᵢⱼ, their sums rᵢ over j and cⱼ over i,

    Σ hᵢⱼ (xᵢ − xⱼ)(xᵢ − xⱼ)ᵀ = Σ rᵢ xᵢxᵢᵀ + Σ cⱼ xⱼxⱼᵀ − A − Aᵀ,    A = Σᵢ xᵢ (Σⱼ hᵢⱼ xⱼ)ᵀ,

so that a pair costs d operations, not d², by a product of a tile of weights and a tile of rows. Rows are taken
less their mean, which differences do not see: far from the origin the four terms would cancel.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.compile import kernel, specialise
from xrisk.data.products import row_adjoint, row_block, row_tiles, sampled_rows
from xrisk.data.rows import frozen, row_count
from xrisk.data.threads import borders, give_way, in_parts, one_thread_each
from xrisk.functions.loss import ExponentialLoss, HingeLoss, SquaredHinge, loss_value
from xrisk.functions.smoothing import smooth_loss
from xrisk.generic import generic
from xrisk.inner.oracle import exact_jacobians, exact_values, exact_vjp, inner_size
from xrisk.inner.pairs import Pairs
from xrisk.inner.passes import (
    CHUNK,
    EPS,
    NO_SHARE,
    Scores,
    Walk,
    add_compensated,
    add_hessian,
    add_squares,
    column_sizes,
    jacobian,
    jacobians_by_walk,
    pass_loss,
    pass_rows,
    sampled,
    scores_at,
    scores_only,
    sum_parts,
    vjp_by_walk,
    walk,
    walk_rounding,
    with_loss,
)
from xrisk.inner.visitors import LossValues, asks_direction, asks_factors, asks_sizes, visit_samples
from xrisk.lanes import array_sum

SUMMED = 4096  # pairs that are summed before the sum is compensated
TILE = 2**20  # pairs whose weights are held at a time: 8 MB

exact_vjp.of(Pairs)(vjp_by_walk)
exact_jacobians.of(Pairs)(jacobians_by_walk)


pass_rows.of(Pairs)(lambda g: g.rows)
pass_loss.of(Pairs)(lambda g: g.loss)


@with_loss.of(Pairs)
def _(g, loss):
    return g._replace(loss=loss)


class PairScores(NamedTuple):
    """Of the rows i: scores, moves, sizes, entries in a free coordinate; of the rows j the same.

    The margin of a pair is a difference of scores, its entry in a free coordinate one of entries.
    """

    ahead: np.ndarray  # (n,)
    behind: np.ndarray  # (m,)
    ahead_direction: np.ndarray  # (n,)
    behind_direction: np.ndarray  # (m,)
    ahead_error: np.ndarray  # (n,)
    behind_error: np.ndarray  # (m,)
    ahead_free: np.ndarray  # (n,)
    behind_free: np.ndarray  # (m,)
    factor: np.ndarray  # (n,)


def _of_pairs(g: Pairs, visitor: Spec, at: Scores) -> PairScores:
    """What the visitor asks for; the scores stand where it does not."""
    i, j = g.outer, g.inner
    scores = directions = sizes = free_entries = g.side * at.z[i, 0], g.side * at.z[j, 0]
    if asks_direction(visitor):
        directions = g.side * at.direction[i, 0], g.side * at.direction[j, 0]
    if asks_sizes(visitor):
        sizes, free_entries = (
            (at.error_bound[i], at.error_bound[j]),
            (g.side * at.free_entry[i], g.side * at.free_entry[j]),
        )
    return PairScores(*scores, *directions, *sizes, *free_entries, at.factor)


@walk.of(Pairs)
def _(g, visitor, at, share):
    n, m, scores = g.outer.size, g.inner.size, _of_pairs(g, visitor, at)
    sums, up, down = np.zeros((n, 4)), np.zeros(n if share.size else 0), np.zeros(m)

    def by_outer(low: int, high: int) -> np.ndarray:
        own = np.zeros(m)
        walk_tiles(g, visitor, scores, (low, high, 0, m), share, (sums, up, own))
        return own

    def by_inner(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        own = np.zeros((n, 4)), np.zeros(up.size)
        walk_tiles(g, visitor, scores, (0, n, low, high), share, (*own, down))
        return own

    if n >= m:  # what every part has of its own is of the smaller side
        for own in in_parts(by_outer, borders(n, 2.0 * m)):
            down += own
    else:
        parts = in_parts(by_inner, borders(m, 2.0 * n))
        sums, up = sum_parts([(0, own) for own, _ in parts], n), sum((own for _, own in parts), up)
    sums /= m
    if not share.size:
        return Walk(sums, np.empty((1, 0)))
    coefs = np.zeros((1, row_count(g.rows)))
    np.add.at(coefs[0], g.outer, g.side * up)
    np.subtract.at(coefs[0], g.inner, np.multiply(g.side, down, out=down))
    return Walk(sums, coefs)


def walk_tiles(
    g: Pairs, visitor: Spec, scores: PairScores, at: tuple[int, int, int, int], share: np.ndarray, into: tuple[Any, ...]
) -> None:
    """Look at the pairs of rows i0 ≤ i < i1 and j0 ≤ j < j1, adding to sums (n, 4), up (n,) and down (m,)."""
    i0, i1, j0, j1 = at
    sums, up, down = into
    width = min(j1 - j0, CHUNK)
    height = max(1, CHUNK // max(1, width))
    workspace, seen, ones = np.zeros((4, height * width)), np.empty((6, height * width)), np.ones(height * width)
    look, fill, add = specialise(visit_samples, visitor, g.loss), specialise(fill_pairs), specialise(add_pairs)
    for i in range(i0, i1, height):
        lost = np.zeros((height, 4))
        for j in range(j0, j1, width):
            give_way()
            tile = (i, min(i + height, i1), j, min(j + width, j1))
            size = fill(scores, tile, asks_sizes(visitor), asks_direction(visitor), asks_factors(visitor), workspace)
            z, direction, error_bound, free_entry = workspace[:, :size]
            look(visitor, g.loss, z, direction, error_bound, free_entry, ones[:size], seen)
            add(seen, tile, share, sums, lost, up, down)


@kernel
def fill_pairs(at, tile, sizes, directions, factors, workspace):
    """Write scores, moves, sizes and entries of the pairs of a tile into the rows of ``workspace``."""
    i0, i1, j0, j1 = tile
    width = j1 - j0
    for i in range(i0, i1):
        at_i = slice((i - i0) * width, (i - i0 + 1) * width)
        subtract(at.ahead[i], at.behind[j0:j1], 1.0, workspace[0, at_i])
        if directions:
            subtract(
                at.ahead_direction[i], at.behind_direction[j0:j1], at.factor[i] if factors else 1.0, workspace[1, at_i]
            )
        if sizes:
            subtract(-at.ahead_error[i], at.behind_error[j0:j1], -1.0, workspace[2, at_i])
            subtract(at.ahead_free[i], at.behind_free[j0:j1], 1.0, workspace[3, at_i])
    return (i1 - i0) * width


@register_jitable
def subtract(one, others, scale, out):
    for r in range(out.size):
        out[r] = scale * (one - others[r])


@kernel
def add_pairs(seen, tile, share, sums, lost, up, down):
    """Add what was seen of a tile to the sums of its rows i, and, if there is a share, to what is left on rows."""
    i0, i1, j0, j1 = tile
    width = j1 - j0
    for i in range(i0, i1):
        low = (i - i0) * width
        for start in range(low, low + width, SUMMED):
            stop = min(start + SUMMED, low + width)
            for j in range(4):
                term = array_sum(seen[j, start:stop])
                sums[i, j], lost[i - i0, j] = add_compensated(sums[i, j], lost[i - i0, j], term)
        if share.size > 0:
            scale, slopes, left = share[i] / down.size, seen[4, low : low + width], down[j0:j1]
            for r in range(width):
                left[r] += scale * slopes[r]
            up[i] += scale * array_sum(slopes)


@walk_rounding.of(Pairs)
def _(g):
    return EPS * (min(SUMMED, g.inner.size) + 64)


@exact_values.of(Pairs)
def _(g, w, out):
    """At zero, where runs start, no pair is looked at: all margins are zero, and a first value has to come soon."""
    out[:, 0] = pair_means(g.loss, g, scores_at(g, w)) if w.any() else loss_value(g.loss, 0.0, 1.0)


@generic
def pair_means(loss, g, z):
    """gᵢ (n,) at scores z (rows, 1)."""


@pair_means.otherwise
def _(loss, g, z):
    return walk(g, LossValues(), scores_only(g, z), NO_SHARE).sums[:, 0]


@pair_means.of(ExponentialLoss)
def _(loss, g, z):
    ahead, behind = g.side * z[g.outer, 0], g.side * z[g.inner, 0]
    top = behind.max()  # exp overflows at 710
    with np.errstate(over="ignore"):
        return np.exp(top - ahead) * np.exp(behind - top).mean()


@pair_means.of(HingeLoss)
def _(loss, g, z):
    return _gap_sums(g, z)[0] / g.inner.size


@pair_means.of(SquaredHinge)
def _(loss, g, z):
    return _gap_sums(g, z)[1] / g.inner.size


def _gap_sums(g: Pairs, z: np.ndarray) -> np.ndarray:
    """Sums over j of (1 − ahead[i] + behind[j])₊ and of its square, (2, n), by sorting both."""
    ahead, behind = g.side * z[g.outer, 0], g.side * z[g.inner, 0]
    order, sums = np.argsort(-ahead), np.empty((2, ahead.size))
    give_way()
    gap_sweep(ahead, order, -np.sort(-behind), sums)
    return sums


@kernel
def gap_sweep(ahead, order, behind, sums):
    """Gaps only grow along the sweep, so that nothing but positive numbers is added up."""
    at, counted, first, second = 0.0, 0, 0.0, 0.0
    for i in order:
        short = 1.0 - ahead[i]
        if counted > 0:
            rise = short - at
            second += rise * (2.0 * first + counted * rise)
            first += counted * rise
        at = short
        while counted < behind.size and short + behind[counted] > 0.0:
            gap = short + behind[counted]
            first += gap
            second += gap * gap
            counted += 1
        sums[0, i], sums[1, i] = first, second


class Weighing(NamedTuple):
    """Weights of pairs, and where their sums over i go."""

    fill: Callable  # writes the weights of a tile
    share: np.ndarray  # (part,) of each row i in the sums
    down: np.ndarray  # (m,) the sums


@jacobian.of(Pairs)
def _(g, visitor, at):
    J = np.empty((g.outer.size, inner_size(g)))
    for part, block in _gradients(g, visitor, at):
        J[part] = block
    return J


@add_squares.of(Pairs)
def _(g, visitor, at, c, H):
    for part, block in _gradients(g, visitor, at):
        block *= np.sqrt(c[part])[:, None]
        H += block.T @ block


@add_hessian.of(Pairs)
def _(g, visitor, at, share, curvatures, H):
    centre, scores, fill = _centre(g), _of_pairs(g, LossValues(), at), specialise(tile_curvatures, g.loss)
    share = share / g.inner.size
    tiles = row_tiles(g.outer.size, centre.size)

    def part(low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        cross, down = np.zeros(H.shape), np.zeros(g.inner.size)
        for tile in tiles[low:high]:
            X, Y, up = _weighted(g, visitor, scores, tile, centre, Weighing(fill, share[tile], down))
            cross += (X * share[tile, None]).T @ (Y - 0.5 * up[:, None] * X)
        return cross, down

    with one_thread_each():
        parts = in_parts(part, np.linspace(0, len(tiles), min(4, len(tiles)) + 1).astype(np.int64))
        down = sum(part[1] for part in parts)
        for cross, _ in parts:
            H -= cross + cross.T
        for tile in row_tiles(g.inner.size, centre.size):
            X = row_block(g.rows, g.inner[tile]) - centre
            H += X.T @ (down[tile, None] * X)


def _gradients(g: Pairs, visitor: Spec, at: Scores) -> Iterator[tuple[slice, np.ndarray]]:
    """∇gᵢ, stretch by stretch of the rows i."""
    centre, scale, scores = _centre(g), g.side / g.inner.size, _of_pairs(g, LossValues(), at)
    for part in row_tiles(g.outer.size, centre.size):
        n = part.stop - part.start
        weighing = Weighing(specialise(tile_slopes, g.loss), np.zeros(n), np.zeros(g.inner.size))
        X, Y, up = _weighted(g, visitor, scores, part, centre, weighing)
        yield part, scale * (up[:, None] * X - Y)


def _weighted(
    g: Pairs, visitor: Spec, at: PairScores, part: slice, centre: np.ndarray, weighing: Weighing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows i of ``part`` (part, d), their weights times the rows j (part, d), and the sums of these weights."""
    X = row_block(g.rows, g.outer[part]) - centre
    Y, up = np.zeros(X.shape), np.zeros(X.shape[0])
    for columns in row_tiles(g.inner.size, centre.size, TILE // X.shape[0]):
        give_way()
        weights = np.empty((X.shape[0], columns.stop - columns.start))
        weighing.fill(g.loss, at.ahead[part], at.behind[columns], visitor.mu, weights)
        Y += weights @ (row_block(g.rows, g.inner[columns]) - centre)
        up += weights.sum(axis=1)
        weighing.down[columns] += weighing.share @ weights
    return X, Y, up


def _centre(g: Pairs) -> np.ndarray:
    rows = row_count(g.rows)
    return row_adjoint(g.rows, np.full((rows, 1), 1.0 / rows))[0]


@kernel
def tile_slopes(loss, ahead, behind, mu, weights):
    for i in range(ahead.size):
        for j in range(behind.size):
            weights[i, j] = smooth_loss(loss, ahead[i] - behind[j], 1.0, mu)[1]


@kernel
def tile_curvatures(loss, ahead, behind, mu, weights):
    for i in range(ahead.size):
        for j in range(behind.size):
            weights[i, j] = smooth_loss(loss, ahead[i] - behind[j], 1.0, mu)[2]


@column_sizes.of(Pairs)
def _(g):
    """Root mean square of the differences: the variances of both sides and the distance of their means."""
    centre = _centre(g)
    first, second = np.zeros((2, 2, inner_size(g)))
    for side, listed in enumerate((g.outer, g.inner)):
        for part in row_tiles(listed.size, centre.size):
            give_way()
            X = row_block(g.rows, listed[part]) - centre
            first[side] += X.sum(axis=0) / listed.size
            second[side] += np.einsum("ij,ij->j", X, X) / listed.size
    return np.sqrt(np.maximum(second.sum(axis=0) - 2.0 * first[0] * first[1], 0.0))


LEAST_SAMPLE = 50  # rows of either side that a sample keeps, if there are so many
MOST_SAMPLE = 20_000  # rows of a sample, or the share of all rows where that is more


@sampled.of(Pairs)
def _(g, share, rng):
    sizes = _sample_sizes(g, share)
    outer, inner = (_some(listed, size, rng) for listed, size in zip((g.outer, g.inner), sizes, strict=True))
    rows = sampled_rows(g.rows, np.concatenate([outer, inner]))
    n = outer.size
    return g._replace(rows=rows, outer=frozen(np.arange(n)), inner=frozen(np.arange(n, n + inner.size)))


def _sample_sizes(g: Pairs, share: float) -> np.ndarray:
    """Rows of both sides that make a share of the pairs: as many of either, all of a side that has fewer."""
    sizes = np.array([g.outer.size, g.inner.size])
    wanted = np.minimum(np.maximum(np.sqrt(share * sizes.prod(dtype=np.float64)), share * sizes), sizes)
    wanted *= min(1.0, max(MOST_SAMPLE, share * row_count(g.rows)) / wanted.sum())
    return np.minimum(np.maximum(np.ceil(wanted), LEAST_SAMPLE), sizes).astype(np.int64)


def _some(listed: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    return listed[np.sort(rng.permutation(listed.size)[:size])]
