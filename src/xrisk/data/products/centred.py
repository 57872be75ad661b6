"""Products with centred rows: columns far from zero keep their digits."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Rows
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
)
from xrisk.data.rows import (
    CSR,
    Dense,
    add_row,
    careful_norm,
    fetch_row,
    row_count,
    row_dot,
    row_dots,
    row_norm,
    row_size,
)
from xrisk.data.threads import borders, in_parts
from xrisk.generic import generic
from xrisk.lanes import LANES, lanes, lanes_sum, rest, whole

FAR = 4.0  # deviations that the mean of a column is away from zero: of a sparse one nearly all entries are stored then


class Centred(NamedTuple):
    """The rows minus a centre; only the centre is stored."""

    rows: Rows = Dense()
    centre: np.ndarray = np.zeros(0)  # (columns,)
    far: np.ndarray = np.zeros(0, dtype=np.int64)  # the columns whose centre is not zero


def centred_rows(rows: Rows, centre: np.ndarray) -> Centred:
    """The rows minus a centre (columns,)."""
    return Centred(rows, centre, np.flatnonzero(centre))


def less_offset(rows: Rows) -> Any:
    """The rows minus the means of columns that are far from zero; differences of rows stay the same.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.data.products import less_offset, row_scores
    >>> from xrisk.data.rows import as_rows
    >>> row_scores(less_offset(as_rows(np.array([[1e9, 1.0], [1e9 + 2.0, -1.0]]))), np.ones((1, 2)))[:, 0]
    array([0., 0.])
    """
    n = row_count(rows)
    means, squares = row_adjoint(rows, np.full((n, 1), 1.0 / max(1, n)))[0], column_squares(rows)
    far = means**2 > FAR**2 * np.maximum(squares - means**2, 0.0)
    return centred_rows(rows, np.where(far, means, 0.0)) if far.any() else rows


@generic
def centred_dot(rows, k, centre, far, w):
    """⟨row k − centre, w⟩; ``far`` are the columns where the centre is not zero."""


@generic
def add_centred(rows, k, centre, far, scale, grad):
    """Add scale·(row k − centre) to ``grad``."""


@generic
def centred_norms(rows, centre, far, scale):
    """‖scale·(row k − centre)‖ (rows,) of every row k."""


@inlined
def _dense_dot(x, centre, w):
    total, end = lanes(0.0), centre.size - centre.size % LANES
    for j in range(0, end, LANES):
        total += (whole(x, j) - whole(centre, j)) * whole(w, j)
    return lanes_sum(total + (rest(x, end) - rest(centre, end)) * rest(w, end))


@centred_dot.of(Dense)
def _(rows, k, centre, far, w):
    return _dense_dot(rows.X[k], centre, w)


@add_centred.of(Dense)
def _(rows, k, centre, far, scale, grad):
    x = rows.X[k]
    for j in range(centre.size):
        grad[j] += scale * (x[j] - centre[j])


@centred_norms.of(Dense)
def _(rows, centre, far, scale):
    return norms_in_parts(rows, dense_norms, rows.X, centre, scale)


@centred_dot.of(CSR)
def _(rows, k, centre, far, w):
    total, met = 0.0, 0
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):
        j = np.uintp(rows.indices[p])
        total += (rows.data[p] - centre[j]) * w[j]
        met += centre[j] != 0.0
    if met < far.size:  # rows without an entry there are few
        for j in far:
            if not is_stored(rows, k, j):
                total -= centre[j] * w[j]
    return total


@add_centred.of(CSR)
def _(rows, k, centre, far, scale, grad):
    met = 0
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):
        j = np.uintp(rows.indices[p])
        grad[j] += scale * (rows.data[p] - centre[j])
        met += centre[j] != 0.0
    if met < far.size:
        for j in far:
            if not is_stored(rows, k, j):
                grad[j] -= scale * centre[j]


@centred_norms.of(CSR)
def _(rows, centre, far, scale):
    return norms_in_parts(rows, sparse_centred_norms, rows, centre, far, scale)


@inlined
def is_stored(rows, k, column):
    """Whether row k has an entry in a column."""
    found = False
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):
        found |= rows.indices[p] == column
    return found


@kernel
def sparse_centred_norms(rows, centre, far, scale, low, high, out):
    for k in range(low, high):
        total = 0.0  # hypot: a sum of squares may overflow or lose its digits
        for p in range(rows.indptr[k], rows.indptr[k + 1]):
            j = rows.indices[p]
            total = np.hypot(total, (float(rows.data[p]) - centre[j]) * scale[j])
        for j in far:
            if not is_stored(rows, k, j):
                total = np.hypot(total, centre[j] * scale[j])
        out[k] = total


row_count.of(Centred)(lambda rows: row_count(rows.rows))
row_size.of(Centred)(lambda rows: row_size(rows.rows))
row_dot.of(Centred)(lambda rows, k, w: centred_dot(rows.rows, k, rows.centre, rows.far, w))


@row_dots.of(Centred)
def _(rows, k, w, w_prev):
    centre, far = rows.centre, rows.far
    return centred_dot(rows.rows, k, centre, far, w), centred_dot(rows.rows, k, centre, far, w_prev)


@add_row.of(Centred)
def _(rows, k, scale, grad):
    add_centred(rows.rows, k, rows.centre, rows.far, scale, grad)


@fetch_row.of(Centred)
def _(rows, k):
    fetch_row(rows.rows, k)


@row_norm.of(Centred)
def _(rows, k):
    difference = np.zeros(rows.centre.size)
    add_centred(rows.rows, k, rows.centre, rows.far, 1.0, difference)
    return careful_norm(difference)


@adjoint_rounding.of(Centred)
def _(rows):
    return adjoint_rounding(rows.rows) + 4 * EPS  # an entry minus its centre is rounded once


stored_numbers.of(Centred)(lambda rows: stored_numbers(rows.rows))
row_bytes.of(Centred)(lambda rows: row_bytes(rows.rows))
row_work.of(Centred)(lambda rows: row_work(rows.rows))


def _borders(rows: Centred) -> np.ndarray:
    return borders(row_count(rows), max(1.0, stored_numbers(rows) / max(1, row_count(rows))))


@row_scores.of(Centred)
def _(rows, W):
    out = np.empty((row_count(rows), W.shape[0]))
    for c in range(W.shape[0]):
        w = np.ascontiguousarray(W[c])
        in_parts(lambda low, high, w=w, c=c: centred_scores(rows, w, low, high, out[:, c]), _borders(rows))
    return out


@row_adjoint.of(Centred)
def _(rows, S):
    def part(low: int, high: int) -> np.ndarray:
        grad = np.zeros((S.shape[1], rows.centre.size))
        for c in range(S.shape[1]):
            centred_adjoint(rows, S[:, c], low, high, grad[c])
        return grad

    return summed(in_parts(part, _borders(rows)))


@row_gram.of(Centred)
def _(rows, h):
    return gram_of_blocks(rows.rows, h, lambda chosen: row_block(rows.rows, chosen) - rows.centre)


@row_block.of(Centred)
def _(rows, chosen):
    return row_block(rows.rows, chosen) - rows.centre


@column_squares.of(Centred)
def _(rows):
    return mean_of_parts(rows, lambda X: (X**2).sum(axis=0))


@scaled_norms.of(Centred)
def _(rows, scale):
    return centred_norms(rows.rows, rows.centre, rows.far, 1.0 / scale)


@sampled_rows.of(Centred)
def _(rows, chosen):
    return Centred(sampled_rows(rows.rows, chosen), rows.centre, rows.far)


@kernel
def centred_scores(rows, w, low, high, out):
    for k in range(low, high):
        out[k] = row_dot(rows, k, w)


@kernel
def centred_adjoint(rows, s, low, high, grad):
    part = np.zeros(grad.size)
    for start in range(low, high, STRETCH):
        part[:] = 0.0
        for k in range(start, min(start + STRETCH, high)):
            add_row(rows, k, s[k], part)
        for j in range(grad.size):
            grad[j] += part[j]
