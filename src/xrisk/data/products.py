"""Products with all rows of a data matrix: scores, adjoint, Gram matrix; on all cores, never copying it whole."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from xrisk.compile import dot_loop, kernel
from xrisk.data.rows import CSR, Dense, WithIntercept, add_row, row_count, row_dot, row_norm, row_size
from xrisk.data.threads import borders, give_way, in_parts, one_thread_each
from xrisk.generic import generic

TILE = 2**17  # entries of X that are converted or scaled at a time: 1 MB on every core
LEAST_ROWS = 512  # of a tile: sums of Gram matrices must not cost more than their terms
STRETCH = 256  # rows summed before their sum is added: the rounding of n terms is that of STRETCH + n/STRETCH
EPS = float(np.finfo(np.float64).eps)
MATRICES = 2**27  # bytes that the Gram matrices of the parts may take


class Coordinates(NamedTuple):
    """The rows of the identity matrix: scores are the variables themselves."""

    size: int = 1


class Centred(NamedTuple):
    """The rows less a centre, with a column of ones at their end: what an intercept absorbs is taken out."""

    rows: Any = Dense()
    centre: np.ndarray = np.zeros(0)  # (columns,)


@generic
def row_scores(rows, W):
    """X Wᵀ for W (scores, columns): (rows, scores)."""


@generic
def row_adjoint(rows, S):
    """Sᵀ X for S (rows, scores): (scores, columns)."""


@generic
def row_gram(rows, h):
    """Xᵀ diag(h) X, of shape (columns, columns)."""


@generic
def row_block(rows, chosen):
    """The chosen rows, a slice or an array of numbers, as a matrix of float64 (chosen, columns)."""


@generic
def column_squares(rows):
    """Mean square (columns,) of every column."""


@generic
def column_means(rows):
    """Mean and mean square (columns,) of every column; of storages that can be centred."""


@generic
def scaled_norms(rows, scale):
    """√Σⱼ (x_kj/scale_j)² (rows,) of every row k; ``scale`` (columns,) is positive."""


@generic
def adjoint_rounding(rows):
    """Relative error of the sums of `row_adjoint`, by the sums of absolute values."""


@adjoint_rounding.of(Dense)
def _(rows):
    return EPS * (min(STRETCH, row_count(rows)) + row_count(rows) / STRETCH + 64)


@adjoint_rounding.of(CSR)
def _(rows):
    return EPS * (row_count(rows) + 64)


@adjoint_rounding.of(WithIntercept)
@adjoint_rounding.of(Centred)
def _(rows):
    return adjoint_rounding(rows.rows) + 64 * EPS  # sums of columns are pairwise


@adjoint_rounding.of(Coordinates)
def _(rows):
    return EPS


@generic
def stored_numbers(rows):
    """How many entries of the rows are stored."""


@stored_numbers.of(Dense)
def _(rows):
    return float(rows.X.size)


@stored_numbers.of(CSR)
def _(rows):
    return float(rows.data.size)


@stored_numbers.of(WithIntercept)
@stored_numbers.of(Centred)
def _(rows):
    return stored_numbers(rows.rows)


@stored_numbers.of(Coordinates)
def _(rows):
    return float(rows.size)


@generic
def row_bytes(rows):
    """Bytes read in a product with all rows."""


@row_bytes.of(Dense)
def _(rows):
    return float(rows.X.size * rows.X.itemsize)


@row_bytes.of(CSR)
def _(rows):
    return 4.0 * rows.data.size * (rows.data.itemsize + rows.indices.itemsize)  # jumps cost more than stretches


@row_bytes.of(WithIntercept)
@row_bytes.of(Centred)
def _(rows):
    return row_bytes(rows.rows)


@row_bytes.of(Coordinates)
def _(rows):
    return 8.0 * rows.size


@generic
def row_work(rows):
    """Operations of a Gram matrix, by the time they take in a product of dense matrices."""


@row_work.of(Dense)
def _(rows):
    return float(rows.X.shape[0]) * rows.X.shape[1] ** 2


@row_work.of(CSR)
def _(rows):
    counts = np.diff(rows.indptr).astype(np.float64)
    sparse = 10.0 * float((counts**2).sum())  # a scattered sum takes about ten times as long
    return min(sparse, float(counts.size) * rows.size**2)


@row_work.of(WithIntercept)
@row_work.of(Centred)
def _(rows):
    return row_work(rows.rows)


@row_work.of(Coordinates)
def _(rows):
    return float(rows.size)


@generic
def with_intercept(rows):
    """Whether the last column is that of an intercept, all ones."""


@generic
def sampled_rows(rows, chosen):
    """The chosen rows as rows of the same kind of storage, copied."""


def row_tiles(count: int, columns: int, most: int = 2**62) -> list[slice]:
    """Stretches of items that make a tile each, of at most ``most`` items."""
    step = max(1, min(max(LEAST_ROWS, TILE // max(1, columns)), most))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _tiles(low: int, high: int, columns: int) -> list[slice]:
    return [slice(low + part.start, low + part.stop) for part in row_tiles(high - low, columns)]


def _summed(parts: list[np.ndarray]) -> np.ndarray:
    """The sum of parts, in their order."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


# dense


@row_scores.of(Dense)
def _(rows, W):
    X = rows.X
    out = np.empty((X.shape[0], W.shape[0]))
    if W.shape[0] == 1:
        in_parts(lambda low, high: dense_scores(X, W[0], low, high, out[:, 0]), borders(*X.shape))
        return out

    def part(low: int, high: int) -> None:
        for tile in _tiles(low, high, X.shape[1]):
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
        return _summed([S[tile].T @ X[tile].astype(np.float64, copy=False) for tile in _tiles(low, high, d)])

    with one_thread_each():
        return _summed(in_parts(one if S.shape[1] == 1 else many, borders(*X.shape)))


@row_gram.of(Dense)
def _(rows, h):
    return _gram(rows, h, lambda chosen: rows.X[chosen].astype(np.float64, copy=False))


def _gram(rows: Any, h: np.ndarray, block: Any) -> np.ndarray:
    d = row_size(rows)
    live = np.flatnonzero(h)
    everywhere = live.size > 0.8 * h.size
    most = int(max(1, min(8, MATRICES // (8 * d * d))))

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((d, d))
        for tile in _tiles(low, high, d):
            give_way()
            pick = tile if everywhere else live[tile]
            rows_there, weight = block(pick), h[pick]
            if weight.min() >= 0.0:
                rows_there = _scaled(rows_there, np.sqrt(weight))
                total += rows_there.T @ rows_there
            else:
                total += (rows_there * weight[:, None]).T @ rows_there
        return total

    if live.size == 0:
        return np.zeros((d, d))
    with one_thread_each():
        return _summed(in_parts(part, borders(h.size if everywhere else live.size, d, most)))


def _scaled(block: np.ndarray, by: np.ndarray) -> np.ndarray:
    """The rows of the block times ``by``: in place where it is a copy, not where it is a part of X."""
    return np.multiply(block, by[:, None], out=block if block.flags.owndata else None)


@row_block.of(Dense)
def _(rows, chosen):
    return rows.X[chosen].astype(np.float64, copy=False)


@column_squares.of(Dense)
def _(rows):
    return _mean_of_parts(rows, lambda X: np.einsum("ij,ij->j", X, X))


@column_means.of(Dense)
def _(rows):
    return _mean_of_parts(rows, lambda X: np.stack([X.sum(axis=0), np.einsum("ij,ij->j", X, X)]))


def _mean_of_parts(rows: Any, of: Any) -> np.ndarray:
    """Mean over the rows of what ``of`` sums over a tile of them."""
    n, d = rows.X.shape

    def part(low: int, high: int) -> np.ndarray:
        return _summed([of(rows.X[tile].astype(np.float64, copy=False)) for tile in _tiles(low, high, d)])

    return _summed(in_parts(part, borders(n, d))) / n


@scaled_norms.of(Dense)
def _(rows, scale):
    return _norms(rows, dense_norms, rows.X, np.zeros(scale.size), 1.0 / scale)


def _norms(rows: Any, norms: Any, *arguments: Any) -> np.ndarray:
    out = np.empty(row_count(rows))
    in_parts(lambda low, high: norms(*arguments, low, high, out), borders(out.size, row_size(rows)))
    return out


@with_intercept.otherwise
def _(rows):
    return False


@sampled_rows.of(Dense)
def _(rows, chosen):
    return Dense(_frozen(rows.X[chosen]))


def _frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@dot_loop
def _dense_scores(X, w, low, high, out):
    fours = low + (high - low) // 4 * 4
    for k in range(low, fours, 4):  # four rows at a time: w is read once for them
        a, b, c, e = X[k], X[k + 1], X[k + 2], X[k + 3]
        za, zb, zc, ze = 0.0, 0.0, 0.0, 0.0
        for j in range(w.size):
            za += a[j] * w[j]
            zb += b[j] * w[j]
            zc += c[j] * w[j]
            ze += e[j] * w[j]
        out[k], out[k + 1], out[k + 2], out[k + 3] = za, zb, zc, ze
    for k in range(fours, high):
        z = 0.0
        for j in range(w.size):
            z += X[k, j] * w[j]
        out[k] = z


@kernel
def dense_scores(X, w, low, high, out):
    """Write ⟨row k, w⟩ for low ≤ k < high."""
    _dense_scores(X, w, low, high, out)


@dot_loop
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


@dot_loop
def _square(x, centre, gain):
    total = 0.0
    for j in range(x.size):
        value = (x[j] - centre[j]) * gain[j]
        total += value * value
    return total


@kernel
def dense_norms(X, centre, gain, low, high, out):
    """‖gain·(row k − centre)‖ for low ≤ k < high."""
    for k in range(low, high):
        total = _square(X[k], centre, gain)
        if 1e-280 < total < 1e300:
            out[k] = np.sqrt(total)
        else:  # the sum of squares overflows or has lost its digits
            total = 0.0
            for j in range(centre.size):
                total = np.hypot(total, (float(X[k, j]) - centre[j]) * gain[j])
            out[k] = total


# sparse


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

    return _summed(in_parts(part, borders(row_count(rows), 2 * _entries(rows), most)))


@row_gram.of(CSR)
def _(rows, h):
    d, n = row_size(rows), row_count(rows)
    if rows.data.size > 0.1 * n * d:
        return _gram(rows, h, lambda chosen: row_block(rows, chosen))
    most = int(max(1, min(4, MATRICES // (8 * d * d))))

    def part(low: int, high: int) -> np.ndarray:
        total = np.zeros((d, d))
        sparse_gram(rows, h, low, high, total)
        return total

    total = _summed(in_parts(part, borders(n, _entries(rows) ** 2, most)))
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
    return _norms(rows, sparse_norms, rows, 1.0 / scale)


@sampled_rows.of(CSR)
def _(rows, chosen):
    part = csr_array((rows.data, rows.indices, rows.indptr), shape=(row_count(rows), rows.size))[chosen]
    kind = rows.indices.dtype
    return CSR(_frozen(part.data), _frozen(part.indices.astype(kind)), _frozen(part.indptr.astype(kind)), rows.size)


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
def sparse_norms(rows, gain, low, high, out):
    for k in range(low, high):
        total = 0.0
        for p in range(rows.indptr[k], rows.indptr[k + 1]):
            value = rows.data[p] * gain[rows.indices[p]]
            total += value * value
        if 1e-280 < total < 1e300:
            out[k] = np.sqrt(total)
        else:  # the sum of squares overflows or has lost its digits
            total = 0.0
            for p in range(rows.indptr[k], rows.indptr[k + 1]):
                total = np.hypot(total, float(rows.data[p]) * gain[rows.indices[p]])
            out[k] = total


# with an intercept


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


# centred, with an intercept


@row_count.of(Centred)
def _(rows):
    return row_count(rows.rows)


@row_size.of(Centred)
def _(rows):
    return row_size(rows.rows) + 1


@dot_loop
def _centred_dot(x, centre, w):
    total = 0.0
    for j in range(w.size):
        total += (x[j] - centre[j]) * w[j]
    return total


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

    return np.hstack([_summed(in_parts(part, borders(*X.shape))), _totals(S)])


@row_gram.of(Centred)
def _(rows, h):
    inside = _gram(rows.rows, h, lambda chosen: row_block(rows.rows, chosen) - rows.centre)
    return _bordered(inside, row_adjoint(rows, h[:, None])[0, :-1], h)


@row_block.of(Centred)
def _(rows, chosen):
    block = row_block(rows.rows, chosen) - rows.centre
    return np.hstack([block, np.ones((block.shape[0], 1))])


@column_squares.of(Centred)
def _(rows):
    return np.append(_mean_of_parts(rows.rows, lambda X: ((X - rows.centre) ** 2).sum(axis=0)), 1.0)


@scaled_norms.of(Centred)
def _(rows, scale):
    inside = _norms(rows.rows, dense_norms, rows.rows.X, rows.centre, 1.0 / scale[:-1])
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


# the identity matrix


@row_count.of(Coordinates)
@row_size.of(Coordinates)
def _(rows):
    return rows.size


@row_dot.of(Coordinates)
def _(rows, k, w):
    return w[k]


@add_row.of(Coordinates)
def _(rows, k, scale, grad):
    grad[k] += scale


@row_norm.of(Coordinates)
def _(rows, k):
    return 1.0


@row_scores.of(Coordinates)
def _(rows, W):
    return np.ascontiguousarray(W.T)


@row_adjoint.of(Coordinates)
def _(rows, S):
    return np.ascontiguousarray(S.T)


@row_gram.of(Coordinates)
def _(rows, h):
    return np.diag(h)


@column_squares.of(Coordinates)
def _(rows):
    return np.ones(rows.size)


@scaled_norms.of(Coordinates)
def _(rows, scale):
    return 1.0 / scale
