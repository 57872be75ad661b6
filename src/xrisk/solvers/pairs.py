"""What Newton's method needs of pairs of rows, in passes over pairs that keep nothing of a single pair.

Sums over pairs of rank-one matrices of differences split: with weights hᵢⱼ, their sums rᵢ over j and cⱼ over i,

    Σ hᵢⱼ (xᵢ − xⱼ)(xᵢ − xⱼ)ᵀ = Σ rᵢ xᵢxᵢᵀ + Σ cⱼ xⱼxⱼᵀ − A − Aᵀ,    A = Σᵢ xᵢ (Σⱼ hᵢⱼ xⱼ)ᵀ,

so that a pair costs d operations, not d², by a product of a tile of weights and a tile of rows. Rows are taken
less their mean, which differences do not see: far from the origin the four terms would cancel.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from xrisk.certificate.pairs import PairSlopes, pair_slope
from xrisk.compile import kernel, specialise
from xrisk.inner.oracle import inner_size
from xrisk.inner.pairs import Pairs, square_distances
from xrisk.inner.rows import row_count
from xrisk.solvers.algebra import row_block, row_pull, row_scores, row_tiles
from xrisk.solvers.newton import (
    add_bend,
    add_pull,
    add_squares,
    column_sizes,
    empty_terms,
    fill_terms,
    jacobian,
    moved_slopes,
    row_lengths,
    score_size,
    scores_of,
    smoothed_inner,
    step_work,
)
from xrisk.solvers.smoothing import Bent, bend_loss, smooth_loss

TILE = 2**20  # pairs whose weights are held at a time: 8 MB
PAIR_WORK = 1000.0  # operations that the losses of a pair take in a Newton step, by the time of a matrix product


class PairTerms(NamedTuple):
    """The inner functions at one point, and where that is: slopes and curvatures of pairs are computed when needed."""

    u: np.ndarray  # (n,) smoothed values
    true: np.ndarray  # (n,) values
    lower: np.ndarray  # (n,) what the slopes prove of the values
    along: np.ndarray  # (n,) derivatives of u in the direction last tried
    z: np.ndarray  # (n + m,) scores of the rows i and of the rows j, times the side
    mu: np.ndarray  # (1,) smoothing


class Weighing(NamedTuple):
    """Weights of pairs, and where their sums over i go."""

    fill: Callable  # writes the weights of a tile
    share: np.ndarray  # (part,) of each row i in the sums
    down: np.ndarray  # (m,) the sums


@scores_of.of(Pairs)
def _(g, w):
    z = g.side * row_scores(g.rows, w[None, :])[:, 0]
    return np.concatenate([z[g.outer], z[g.inner]])[:, None]


@empty_terms.of(Pairs)
def _(g):
    n = g.outer.size
    return PairTerms(*np.zeros((4, n)), np.zeros(n + g.inner.size), np.zeros(1))


@fill_terms.of(Pairs)
def _(g, z, dz, mu, terms):
    n = g.outer.size
    terms.z[:], terms.mu[0] = z[:, 0], mu
    ahead, behind, move, back = z[:n, 0], z[n:, 0], dz[:n, 0], dz[n:, 0]
    specialise(pair_terms, g.loss)(g.loss, ahead, behind, move, back, mu, terms[:4])


@add_pull.of(Pairs)
def _(g, terms, q, grad):
    n, m = g.outer.size, g.inner.size
    up, down = np.zeros(n), np.zeros(m)
    specialise(pair_pull, g.loss)(g.loss, terms.z[:n], terms.z[n:], terms.mu[0], q / m, up, down)
    rows = row_count(g.rows)
    pull = np.bincount(g.outer, up, rows) - np.bincount(g.inner, down, rows)
    grad += g.side * row_pull(g.rows, pull[:, None])[0]


@jacobian.of(Pairs)
def _(g, terms):
    J = np.empty((g.outer.size, inner_size(g)))
    for part, block in _gradients(g, terms):
        J[part] = block
    return J


@add_squares.of(Pairs)
def _(g, terms, c, H):
    for part, block in _gradients(g, terms):
        block *= np.sqrt(c[part])[:, None]
        H += block.T @ block


@add_bend.of(Pairs)
def _(g, terms, q, lengths, spare, H):
    centre, share, fill = _centre(g), q / g.inner.size, specialise(tile_curvatures, g.loss)
    down = np.zeros(g.inner.size)
    for part in row_tiles(g.outer.size, centre.size):
        X, Y, up = _weighted(g, terms, part, centre, Weighing(fill, share[part], down))
        A = (X * share[part, None]).T @ (Y - 0.5 * up[:, None] * X)
        H -= A + A.T
    for part in row_tiles(g.inner.size, centre.size):
        X = row_block(g.rows, g.inner[part]) - centre
        H += X.T @ (down[part, None] * X)


def _gradients(g: Pairs, terms: PairTerms) -> Iterator[tuple[slice, np.ndarray]]:
    """∇gᵢ, stretch by stretch of the rows i."""
    centre, scale = _centre(g), g.side / g.inner.size
    for part in row_tiles(g.outer.size, centre.size):
        n = part.stop - part.start
        weighing = Weighing(specialise(tile_slopes, g.loss), np.zeros(n), np.zeros(g.inner.size))
        X, Y, up = _weighted(g, terms, part, centre, weighing)
        yield part, scale * (up[:, None] * X - Y)


def _weighted(
    g: Pairs, terms: PairTerms, part: slice, centre: np.ndarray, weighing: Weighing
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows i of ``part`` (part, d), their weights times the rows j (part, d), and the sums of these weights."""
    ahead, behind = np.split(terms.z, [g.outer.size])
    X = row_block(g.rows, g.outer[part]) - centre
    Y, up = np.zeros(X.shape), np.zeros(X.shape[0])
    for columns in row_tiles(g.inner.size, centre.size, TILE // X.shape[0]):
        weights = np.empty((X.shape[0], columns.stop - columns.start))
        weighing.fill(g.loss, ahead[part], behind[columns], terms.mu[0], weights)
        Y += weights @ (row_block(g.rows, g.inner[columns]) - centre)
        up += weights.sum(axis=1)
        weighing.down[columns] += weighing.share @ weights
    return X, Y, up


def _centre(g: Pairs) -> np.ndarray:
    rows = row_count(g.rows)
    return row_pull(g.rows, np.full((rows, 1), 1.0 / rows))[0]


@row_lengths.of(Pairs)
def _(g):
    return square_distances(g)


@moved_slopes.of(Pairs)
def _(g, here, last, dz, share):
    n, at = g.outer.size, here if isinstance(g.loss, Bent) else last
    move = dz[:, 0]
    return PairSlopes(g.loss, at.z[:n], at.z[n:], move[:n], move[n:], np.ascontiguousarray(share), float(at.mu[0]), 1.0)


@pair_slope.of(Bent)
def _(loss, margin, move, width):
    _, slope, curvature, _, _ = smooth_loss(loss, margin, 1.0, width)
    return slope + curvature * move


@smoothed_inner.of(Pairs)
def _(g):
    return g._replace(loss=bend_loss(g.loss))


@column_sizes.of(Pairs)
def _(g):
    """Root mean square of the differences: the variances of both sides and the distance of their means."""
    centre = _centre(g)
    first, second = np.zeros((2, 2, inner_size(g)))
    for side, listed in enumerate((g.outer, g.inner)):
        for part in row_tiles(listed.size, centre.size):
            X = row_block(g.rows, listed[part]) - centre
            first[side] += X.sum(axis=0) / listed.size
            second[side] += np.einsum("ij,ij->j", X, X) / listed.size
    return np.sqrt(np.maximum(second.sum(axis=0) - 2.0 * first[0] * first[1], 0.0))


@score_size.of(Pairs)
def _(g):
    return 1.0


@step_work.of(Pairs)
def _(g):
    n, m, d = g.outer.size, g.inner.size, inner_size(g)
    return float(n) * m * (PAIR_WORK + 4.0 * d) + 2.0 * (n + m) * float(d) ** 2


@kernel
def pair_terms(loss, ahead, behind, move, back, mu, terms):
    u, true, lower, along = terms
    for i in range(ahead.size):
        totals = (0.0, 0.0, 0.0, 0.0)
        for j in range(behind.size):
            value, slope, _, exact, proven = smooth_loss(loss, ahead[i] - behind[j], 1.0, mu)
            rise = slope * (move[i] - back[j])
            totals = (totals[0] + value, totals[1] + exact, totals[2] + proven, totals[3] + rise)
        u[i], true[i] = totals[0] / behind.size, totals[1] / behind.size
        lower[i], along[i] = totals[2] / behind.size, totals[3] / behind.size


@kernel
def pair_pull(loss, ahead, behind, mu, share, up, down):
    """Sums of share[i] times the slopes of the pairs, over j and over i."""
    for i in range(ahead.size):
        total = 0.0
        for j in range(behind.size):
            slope = share[i] * smooth_loss(loss, ahead[i] - behind[j], 1.0, mu)[1]
            total += slope
            down[j] += slope
        up[i] = total


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
