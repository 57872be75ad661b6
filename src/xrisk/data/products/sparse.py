"""Products with sparse rows."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from xrisk.compile import kernel
from xrisk.data.products.dense import gram_of_blocks, norms_in_parts
from xrisk.data.products.verbs import (
    EPS,
    MATRICES,
    adjoint_rounding,
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
)
from xrisk.data.rows import CSR, add_row, row_count, row_dot, row_size
from xrisk.data.threads import borders, in_parts


@adjoint_rounding.of(CSR)
def _(rows):
    return EPS * (row_count(rows) + 64)


stored_numbers.of(CSR)(lambda rows: float(rows.data.size))


@row_bytes.of(CSR)
def _(rows):
    return 4.0 * rows.data.size * (rows.data.itemsize + rows.indices.itemsize)  # jumps cost more than stretches


@row_work.of(CSR)
def _(rows):
    counts = np.diff(rows.indptr).astype(np.float64)
    sparse = 10.0 * float((counts**2).sum())  # a scattered sum takes about ten times as long
    return min(sparse, float(counts.size) * rows.size**2)


def _entries(rows: CSR) -> float:
    return max(1.0, rows.data.size / max(1, row_count(rows)))


@row_scores.of(CSR)
def _(rows, W):
    out = np.empty((row_count(rows), W.shape[0]))
    in_parts(lambda low, high: sparse_scores(rows, W, low, high, out), borders(out.shape[0], 2 * _entries(rows)))
    return out


@row_adjoint.of(CSR)
def _(rows, S):
    return _by_column(rows, S.shape[1], lambda low, high, grad: sparse_adjoint(rows, S, low, high, grad))


def _by_column(rows: CSR, count: int, add: Any) -> np.ndarray:
    """What ``add(low, high, total)`` adds to (count, columns) over all rows."""
    most = int(max(2, min(16, rows.data.size // max(1, 4 * rows.size))))  # a part has a total of its own

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((count, rows.size))
        add(low, high, total)
        return total

    return summed(in_parts(part, borders(row_count(rows), 2 * _entries(rows), most)))


@row_gram.of(CSR)
def _(rows, h):
    d, n = row_size(rows), row_count(rows)
    if rows.data.size > 0.1 * n * d:
        return gram_of_blocks(rows, h, lambda chosen: row_block(rows, chosen))
    most = int(max(1, min(4, MATRICES // (8 * d * d))))

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((d, d))
        sparse_gram(rows, h, low, high, total)
        return total

    total = summed(in_parts(part, borders(n, _entries(rows) ** 2, most)))
    return np.tril(total) + np.tril(total, -1).T


@row_block.of(CSR)
def _(rows, chosen):
    whole = csr_array((rows.data, rows.indices, rows.indptr), shape=(row_count(rows), rows.size))
    return whole[chosen].toarray().astype(np.float64, copy=False)


@column_squares.of(CSR)
def _(rows):
    squares = _by_column(rows, 1, lambda low, high, total: sparse_squares(rows, low, high, total[0]))
    return squares[0] / max(1, row_count(rows))


@scaled_norms.of(CSR)
def _(rows, scale):
    return norms_in_parts(rows, sparse_norms, rows, 1.0 / scale)


@sampled_rows.of(CSR)
def _(rows, chosen):
    part = csr_array((rows.data, rows.indices, rows.indptr), shape=(row_count(rows), rows.size))[chosen]
    kind = rows.indices.dtype
    return CSR(
        read_only(part.data), read_only(part.indices.astype(kind)), read_only(part.indptr.astype(kind)), rows.size
    )


@kernel
def sparse_scores(rows, W, low, high, out):
    for c in range(W.shape[0]):
        w, z = W[c], out[:, c]
        for k in range(low, high):
            z[k] = row_dot(rows, k, w)


@kernel
def sparse_adjoint(rows, S, low, high, grad):
    for c in range(S.shape[1]):
        s, into = S[:, c], grad[c]
        for k in range(low, high):
            if s[k] != 0.0:
                add_row(rows, k, s[k], into)


@kernel
def sparse_squares(rows, low, high, total):
    for p in range(np.uintp(rows.indptr[low]), np.uintp(rows.indptr[high])):
        total[np.uintp(rows.indices[p])] += float(rows.data[p]) ** 2


@kernel
def sparse_gram(rows, h, low, high, total):
    """Lower triangle of Xᵀ diag(h) X."""
    for k in range(low, high):
        if h[k] == 0.0:
            continue
        for p in range(rows.indptr[k], rows.indptr[k + 1]):
            i, part = rows.indices[p], h[k] * rows.data[p]
            for r in range(rows.indptr[k], p + 1):
                j = rows.indices[r]
                total[max(i, j), min(i, j)] += part * rows.data[r]


@kernel
def sparse_norms(rows, scale, low, high, out):
    for k in range(low, high):
        total = 0.0
        for p in range(rows.indptr[k], rows.indptr[k + 1]):
            value = rows.data[p] * scale[rows.indices[p]]
            total += value * value
        if 1e-280 < total < 1e300:
            out[k] = np.sqrt(total)
        else:  # the sum of squares overflows or has lost its digits
            total = 0.0
            for p in range(rows.indptr[k], rows.indptr[k + 1]):
                total = np.hypot(total, float(rows.data[p]) * scale[rows.indices[p]])
            out[k] = total
