"""Products with the rows of an array or a memory map."""

from typing import Any

import numpy as np

from xrisk.annotations import Rows
from xrisk.compile import inlined, kernel
from xrisk.data.products.verbs import (
    EPS,
    MATRICES,
    STRETCH,
    adjoint_rounding,
    column_means,
    column_squares,
    read_only,
    row_adjoint,
    row_block,
    row_bytes,
    row_gram,
    row_scores,
    row_work,
    sampled_rows,
    scaled_norms,
    stored_numbers,
    summed,
    tiles,
)
from xrisk.data.rows import Dense, dense_dot, four_dots, row_count, row_size
from xrisk.data.threads import borders, give_way, in_parts, one_thread_each
from xrisk.lanes import LANES, lanes, lanes_sum, rest, whole


@adjoint_rounding.of(Dense)
def _(rows):
    return EPS * (min(STRETCH, row_count(rows)) + row_count(rows) / STRETCH + 64)


stored_numbers.of(Dense)(lambda rows: float(rows.X.size))


@row_bytes.of(Dense)
def _(rows):
    return float(rows.X.size * rows.X.itemsize)


@row_work.of(Dense)
def _(rows):
    return float(rows.X.shape[0]) * rows.X.shape[1] ** 2


@row_scores.of(Dense)
def _(rows, W):
    X = rows.X
    out = np.empty((X.shape[0], W.shape[0]))
    if W.shape[0] == 1:
        in_parts(lambda low, high: dense_scores(X, W[0], low, high, out[:, 0]), borders(*X.shape))
        return out

    def part(low: int, high: int) -> None:
        for tile in tiles(low, high, X.shape[1]):
            out[tile] = X[tile].astype(np.float64, copy=False) @ W.T

    with one_thread_each():
        in_parts(part, borders(*X.shape))
    return out


@row_adjoint.of(Dense)
def _(rows, S):
    X, d = rows.X, rows.X.shape[1]

    def one(low: int, high: int) -> np.ndarray:
        grad = np.zeros((1, d))
        dense_adjoint(X, S[:, 0], low, high, grad[0])
        return grad

    def many(low: int, high: int) -> np.ndarray:
        return summed([S[tile].T @ X[tile].astype(np.float64, copy=False) for tile in tiles(low, high, d)])

    with one_thread_each():
        return summed(in_parts(one if S.shape[1] == 1 else many, borders(*X.shape)))


@row_gram.of(Dense)
def _(rows, h):
    return gram_of_blocks(rows, h, lambda chosen: rows.X[chosen].astype(np.float64, copy=False))


def gram_of_blocks(rows: Rows, h: np.ndarray, block: Any) -> np.ndarray:
    d = row_size(rows)
    live = np.flatnonzero(h)
    everywhere = live.size > 0.8 * h.size
    most = int(max(1, min(8, MATRICES // (8 * d * d))))

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((d, d))
        for tile in tiles(low, high, d):
            give_way()
            pick = tile if everywhere else live[tile]
            chosen, weight = block(pick), h[pick]
            if weight.min() >= 0.0:
                chosen = _scaled(chosen, np.sqrt(weight))
                total += chosen.T @ chosen
            else:
                total += (chosen * weight[:, None]).T @ chosen
        return total

    if live.size == 0:
        return np.zeros((d, d))
    with one_thread_each():
        return summed(in_parts(part, borders(h.size if everywhere else live.size, d, most)))


def _scaled(block: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The rows of the block times ``by``: in place where it is a copy, not where it is a part of X."""
    return np.multiply(block, by[:, None], out=block if block.flags.owndata else None)


@row_block.of(Dense)
def _(rows, chosen):
    return rows.X[chosen].astype(np.float64, copy=False)


@column_squares.of(Dense)
def _(rows):
    return mean_of_parts(rows, lambda X: np.einsum("ij,ij->j", X, X))


@column_means.of(Dense)
def _(rows):
    return mean_of_parts(rows, lambda X: np.stack([X.sum(axis=0), np.einsum("ij,ij->j", X, X)]))


def mean_of_parts(rows: Rows, of: Any) -> np.ndarray:
    """Mean over the rows of what ``of`` sums over a tile of them."""
    n, d = row_count(rows), row_size(rows)

    def part(low: int, high: int) -> np.ndarray:
        return summed([of(row_block(rows, tile)) for tile in tiles(low, high, d)])

    return summed(in_parts(part, borders(n, d))) / n


@scaled_norms.of(Dense)
def _(rows, scale):
    return norms_in_parts(rows, dense_norms, rows.X, np.zeros(scale.size), 1.0 / scale)


def norms_in_parts(rows: Rows, norms: Any, *arguments: Any) -> np.ndarray:
    out = np.empty(row_count(rows))
    in_parts(lambda low, high: norms(*arguments, low, high, out), borders(out.size, row_size(rows)))
    return out


@sampled_rows.of(Dense)
def _(rows, chosen):
    return Dense(read_only(rows.X[chosen]))


@kernel
def dense_scores(X, w, low, high, out):
    """Write ⟨row k, w⟩ for low ≤ k < high."""
    fours = low + (high - low) // 4 * 4
    for k in range(low, fours, 4):
        out[k], out[k + 1], out[k + 2], out[k + 3] = four_dots(X[k], X[k + 1], X[k + 2], X[k + 3], w)
    for k in range(fours, high):
        out[k] = dense_dot(X[k], w)


@inlined
def _dense_adjoint(X, s, low, high, grad):
    fours = low + (high - low) // 4 * 4
    for k in range(low, fours, 4):
        a, b, c, e = X[k], X[k + 1], X[k + 2], X[k + 3]
        sa, sb, sc, se = s[k], s[k + 1], s[k + 2], s[k + 3]
        for j in range(grad.size):
            grad[j] += (sa * a[j] + sb * b[j]) + (sc * c[j] + se * e[j])
    for k in range(fours, high):
        for j in range(grad.size):
            grad[j] += s[k] * X[k, j]


@kernel
def dense_adjoint(X, s, low, high, grad):
    """Add Σ s_k·row k over low ≤ k < high to ``grad``, stretch by stretch: rounding does not grow with their number."""
    part = np.zeros(grad.size)
    for start in range(low, high, STRETCH):
        part[:] = 0.0
        _dense_adjoint(X, s, start, min(start + STRETCH, high), part)
        for j in range(grad.size):
            grad[j] += part[j]


@inlined
def _square(x, centre, scale):
    total, end = lanes(0.0), x.size - x.size % LANES
    for j in range(0, end, LANES):
        value = (whole(x, j) - whole(centre, j)) * whole(scale, j)
        total += value * value
    value = (rest(x, end) - rest(centre, end)) * rest(scale, end)
    return lanes_sum(total + value * value)


@kernel
def dense_norms(X, centre, scale, low, high, out):
    """‖scale·(row k − centre)‖ for low ≤ k < high."""
    for k in range(low, high):
        total = _square(X[k], centre, scale)
        if 1e-280 < total < 1e300:
            out[k] = np.sqrt(total)
        else:  # the sum of squares overflows or has lost its digits
            total = 0.0
            for j in range(centre.size):
                total = np.hypot(total, (float(X[k, j]) - centre[j]) * scale[j])
            out[k] = total
