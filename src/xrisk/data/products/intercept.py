"""Products with rows that have a column of ones at their end, centred or not."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import inlined, kernel
from xrisk.data.products.dense import dense_norms, gram_of_blocks, mean_of_parts, norms_in_parts
from xrisk.data.products.verbs import (
    EPS,
    STRETCH,
    adjoint_rounding,
    column_squares,
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
    with_intercept,
)
from xrisk.data.rows import Dense, WithIntercept, add_row, row_count, row_dot, row_size
from xrisk.data.threads import borders, in_parts
from xrisk.lanes import LANES, lanes, lanes_sum, rest, whole


class Centred(NamedTuple):
    """The rows less a centre, with a column of ones at their end: what an intercept absorbs is taken out."""

    rows: Any = Dense()
    centre: np.ndarray = np.zeros(0)  # (columns,)


@adjoint_rounding.of(WithIntercept)
@adjoint_rounding.of(Centred)
def _(rows):
    return adjoint_rounding(rows.rows) + 64 * EPS  # sums of columns are pairwise


@stored_numbers.of(WithIntercept)
@stored_numbers.of(Centred)
def _(rows):
    return stored_numbers(rows.rows)


@row_bytes.of(WithIntercept)
@row_bytes.of(Centred)
def _(rows):
    return row_bytes(rows.rows)


@row_work.of(WithIntercept)
@row_work.of(Centred)
def _(rows):
    return row_work(rows.rows)


@row_scores.of(WithIntercept)
def _(rows, W):
    z = row_scores(rows.rows, np.ascontiguousarray(W[:, :-1]))
    z += W[:, -1]
    return z


@row_adjoint.of(WithIntercept)
def _(rows, S):
    return np.hstack([row_adjoint(rows.rows, S), _totals(S)])


def _totals(S: np.ndarray) -> np.ndarray:
    return np.array([[S[:, c].sum()] for c in range(S.shape[1])])  # by columns: pairwise, whatever the strides


@row_gram.of(WithIntercept)
def _(rows, h):
    return _bordered(row_gram(rows.rows, h), row_adjoint(rows.rows, h[:, None])[0], h)


def _bordered(gram: np.ndarray, sums: np.ndarray, h: np.ndarray) -> np.ndarray:
    total = np.empty((sums.size + 1, sums.size + 1))
    total[:-1, :-1] = gram
    total[-1, :-1] = total[:-1, -1] = sums
    total[-1, -1] = h.sum()
    return total


@row_block.of(WithIntercept)
def _(rows, chosen):
    block = row_block(rows.rows, chosen)
    return np.hstack([block, np.ones((block.shape[0], 1))])


@column_squares.of(WithIntercept)
def _(rows):
    return np.append(column_squares(rows.rows), 1.0)


@scaled_norms.of(WithIntercept)
def _(rows, scale):
    return np.hypot(scaled_norms(rows.rows, scale[:-1]), 1.0 / scale[-1])


@with_intercept.of(WithIntercept)
def _(rows):
    return True


@sampled_rows.of(WithIntercept)
def _(rows, chosen):
    return WithIntercept(sampled_rows(rows.rows, chosen))


@row_count.of(Centred)
def _(rows):
    return row_count(rows.rows)


@row_size.of(Centred)
def _(rows):
    return row_size(rows.rows) + 1


@inlined
def _centred_dot(x, centre, w):
    total, end = lanes(0.0), w.size - w.size % LANES
    for j in range(0, end, LANES):
        total += (whole(x, j) - whole(centre, j)) * whole(w, j)
    return lanes_sum(total + (rest(x, end) - rest(centre, end)) * rest(w, end))


@row_dot.of(Centred)
def _(rows, k, w):
    return _centred_dot(rows.rows.X[k], rows.centre, w[:-1]) + w[-1]


@add_row.of(Centred)
def _(rows, k, scale, grad):
    x = rows.rows.X[k]
    for j in range(x.size):
        grad[j] += scale * (x[j] - rows.centre[j])
    grad[-1] += scale


@row_scores.of(Centred)
def _(rows, W):
    X, out = rows.rows.X, np.empty((row_count(rows), W.shape[0]))
    for c in range(W.shape[0]):
        w = np.ascontiguousarray(W[c, :-1])
        in_parts(
            lambda low, high, w=w, c=c: centred_scores(X, rows.centre, w, W[c, -1], low, high, out[:, c]),
            borders(*X.shape),
        )
    return out


@row_adjoint.of(Centred)
def _(rows, S):
    X, d = rows.rows.X, rows.centre.size

    def part(low: int, high: int) -> np.ndarray:
        grad = np.zeros((S.shape[1], d))
        for c in range(S.shape[1]):
            centred_adjoint(X, rows.centre, S[:, c], low, high, grad[c])
        return grad

    return np.hstack([summed(in_parts(part, borders(*X.shape))), _totals(S)])


@row_gram.of(Centred)
def _(rows, h):
    inside = gram_of_blocks(rows.rows, h, lambda chosen: row_block(rows.rows, chosen) - rows.centre)
    return _bordered(inside, row_adjoint(rows, h[:, None])[0, :-1], h)


@row_block.of(Centred)
def _(rows, chosen):
    block = row_block(rows.rows, chosen) - rows.centre
    return np.hstack([block, np.ones((block.shape[0], 1))])


@column_squares.of(Centred)
def _(rows):
    return np.append(mean_of_parts(rows.rows, lambda X: ((X - rows.centre) ** 2).sum(axis=0)), 1.0)


@scaled_norms.of(Centred)
def _(rows, scale):
    inside = norms_in_parts(rows.rows, dense_norms, rows.rows.X, rows.centre, 1.0 / scale[:-1])
    return np.hypot(inside, 1.0 / scale[-1])


@with_intercept.of(Centred)
def _(rows):
    return True


@sampled_rows.of(Centred)
def _(rows, chosen):
    return Centred(sampled_rows(rows.rows, chosen), rows.centre)


@kernel
def centred_scores(X, centre, w, shift, low, high, out):
    for k in range(low, high):
        out[k] = _centred_dot(X[k], centre, w) + shift


@kernel
def centred_adjoint(X, centre, s, low, high, grad):
    part = np.zeros(grad.size)
    for start in range(low, high, STRETCH):
        part[:] = 0.0
        for k in range(start, min(start + STRETCH, high)):
            x, scale = X[k], s[k]
            for j in range(grad.size):
                part[j] += scale * (x[j] - centre[j])
        for j in range(grad.size):
            grad[j] += part[j]
