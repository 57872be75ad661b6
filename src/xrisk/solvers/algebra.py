"""Products with the rows of a data matrix, in chunks that never copy it whole, and solves with a Hessian."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from xrisk.compile import kernel
from xrisk.generic import generic
from xrisk.inner.rows import CSR, Dense, WithIntercept, add_row, row_count, row_dot, row_size

CHUNK = 2**19  # entries of X that are converted or scaled at a time: 4 MB
LEAST_ROWS = 512  # of a chunk: sums of Hessians must not cost more than their terms


@generic
def row_scores(rows, W):
    """X Wᵀ for W (scores, columns): (rows, scores)."""


@generic
def row_pull(rows, S):
    """Sᵀ X for S (rows, scores): (scores, columns)."""


@generic
def row_gram(rows, h):
    """Xᵀ diag(h) X, of shape (columns, columns)."""


def row_tiles(rows: int, columns: int, most: int = 2**62) -> list[slice]:
    """Stretches of rows that make a chunk each, of at most ``most`` rows."""
    step = max(1, min(max(LEAST_ROWS, CHUNK // max(1, columns)), most))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]


@row_scores.of(Dense)
def _(rows, W):
    if rows.X.dtype == np.float64:
        return rows.X @ W.T
    parts = [rows.X[part].astype(np.float64) @ W.T for part in row_tiles(*rows.X.shape)]
    return np.concatenate(parts)


@row_pull.of(Dense)
def _(rows, S):
    if rows.X.dtype == np.float64:
        return S.T @ rows.X
    return sum(S[part].T @ rows.X[part].astype(np.float64) for part in row_tiles(*rows.X.shape))


@row_gram.of(Dense)
def _(rows, h):
    d = rows.X.shape[1]
    total = np.zeros((d, d))
    live = np.flatnonzero(h)
    everywhere = live.size > 0.8 * h.size
    for part in row_tiles(h.size if everywhere else live.size, d):
        pick = part if everywhere else live[part]
        block, weight = rows.X[pick], h[pick]
        if weight.min() >= 0.0:
            block = block * np.sqrt(weight)[:, None]
            total += block.T @ block
        else:
            total += (block * weight[:, None]).T @ block
    return total


@row_scores.of(CSR)
def _(rows, W):
    out = np.empty((row_count(rows), W.shape[0]))
    sparse_scores(rows, W, out)
    return out


@row_pull.of(CSR)
def _(rows, S):
    out = np.zeros((S.shape[1], row_size(rows)))
    sparse_pull(rows, S, out)
    return out


@row_gram.of(CSR)
def _(rows, h):
    d, n = row_size(rows), row_count(rows)
    total = np.zeros((d, d))
    if rows.data.size <= 0.1 * n * d:
        sparse_gram(rows, h, total)
        return np.tril(total) + np.tril(total, -1).T
    for part in row_tiles(n, d):
        held = slice(rows.indptr[part.start], rows.indptr[part.stop])
        pointers = rows.indptr[part.start : part.stop + 1] - held.start
        block = csr_array((rows.data[held], rows.indices[held], pointers), shape=(pointers.size - 1, d)).toarray()
        total += row_gram(Dense(block), h[part])
    return total


@row_scores.of(WithIntercept)
def _(rows, W):
    return row_scores(rows.rows, np.ascontiguousarray(W[:, :-1])) + W[:, -1]


@row_pull.of(WithIntercept)
def _(rows, S):
    return np.hstack([row_pull(rows.rows, S), S.sum(axis=0)[:, None]])


@row_gram.of(WithIntercept)
def _(rows, h):
    d = row_size(rows)
    total = np.empty((d, d))
    total[:-1, :-1] = row_gram(rows.rows, h)
    total[-1, :-1] = total[:-1, -1] = row_pull(rows.rows, h[:, None])[0]
    total[-1, -1] = h.sum()
    return total


@generic
def row_block(rows, chosen):
    """The chosen rows as a matrix of float64 (chosen, columns)."""


@row_block.of(Dense)
def _(rows, chosen):
    return rows.X[chosen].astype(np.float64, copy=False)


@row_block.of(CSR)
def _(rows, chosen):
    whole = csr_array((rows.data, rows.indices, rows.indptr), shape=(row_count(rows), rows.size))
    return whole[chosen].toarray().astype(np.float64, copy=False)


@generic
def row_squares(rows):
    """Mean square (columns) of every column."""


@row_squares.of(Dense)
def _(rows):
    parts = [np.einsum("ij,ij->j", rows.X[part], rows.X[part], dtype=np.float64) for part in row_tiles(*rows.X.shape)]
    return sum(parts, np.zeros(rows.X.shape[1])) / max(1, rows.X.shape[0])


@row_squares.of(CSR)
def _(rows):
    squares = np.bincount(rows.indices, rows.data.astype(np.float64) ** 2, minlength=rows.size)
    return squares / max(1, row_count(rows))


@row_squares.of(WithIntercept)
def _(rows):
    return np.append(row_squares(rows.rows), 1.0)


@generic
def square_norms(rows):
    """Squared norm (rows,) of every row."""


@square_norms.of(Dense)
def _(rows):
    parts = [np.einsum("ij,ij->i", rows.X[part], rows.X[part], dtype=np.float64) for part in row_tiles(*rows.X.shape)]
    return np.concatenate(parts)


@square_norms.of(CSR)
def _(rows):
    k = np.repeat(np.arange(row_count(rows)), np.diff(rows.indptr))
    return np.bincount(k, rows.data.astype(np.float64) ** 2, minlength=row_count(rows))


@square_norms.of(WithIntercept)
def _(rows):
    return square_norms(rows.rows) + 1.0


@kernel
def sparse_scores(rows, W, out):
    for k in range(out.shape[0]):
        for c in range(W.shape[0]):
            out[k, c] = row_dot(rows, k, W[c])


@kernel
def sparse_pull(rows, S, out):
    for k in range(S.shape[0]):
        for c in range(S.shape[1]):
            if S[k, c] != 0.0:
                add_row(rows, k, S[k, c], out[c])


@kernel
def sparse_gram(rows, h, total):
    """Lower triangle of Xᵀ diag(h) X."""
    for k in range(h.size):
        if h[k] == 0.0:
            continue
        for p in range(rows.indptr[k], rows.indptr[k + 1]):
            i, part = rows.indices[p], h[k] * rows.data[p]
            for r in range(rows.indptr[k], p + 1):
                j = rows.indices[r]
                total[max(i, j), min(i, j)] += part * rows.data[r]


class Solve(NamedTuple):
    """Solves with a factored Hessian, on the coordinates that move and, where their sum is fixed, across it."""

    factor: Any
    scale: np.ndarray
    free: np.ndarray  # (d,) mask of coordinates that move
    summed: np.ndarray  # (d,) 1 where a coordinate counts in a fixed sum
    normal: np.ndarray  # H⁻¹ summed

    def __call__(self, g: np.ndarray) -> np.ndarray:
        x = self.back(g)
        weight = self.summed @ self.normal
        for _ in range(2 if weight > 0.0 else 0):  # twice: what rounding leaves of the sum would add up over the steps
            x -= self.normal * ((self.summed @ x) / weight)
        return x

    def back(self, g: np.ndarray) -> np.ndarray:
        return np.where(self.free, self.scale * cho_solve(self.factor, self.scale * g, check_finite=False), 0.0)


def factored(H: np.ndarray, fixed: np.ndarray, summed: np.ndarray) -> Solve:
    """Factor H (d, d), which is overwritten; ``fixed`` coordinates stay, of those ``summed`` the sum stays."""
    H[fixed, :] = 0.0
    H[:, fixed] = 0.0
    scale = 1.0 / np.sqrt(positive_or_one(np.diag(H)))
    H *= scale
    H *= scale[:, None]
    summed = np.where(fixed, 0.0, summed)
    solve = Solve(_cholesky(H), scale, ~fixed, summed, np.zeros(scale.size))
    return solve._replace(normal=solve.back(summed)) if summed.any() else solve


def positive_or_one(sizes: np.ndarray) -> np.ndarray:
    """The sizes, with one where they are zero: nothing is there to be divided."""
    return np.where(sizes > 0.0, sizes, 1.0)


def _cholesky(H: np.ndarray) -> Any:
    """Factor of H, whose diagonal is one, with the least ridge that makes it definite in floating point."""
    for ridge in 10.0 ** np.arange(-14, 0):
        np.fill_diagonal(H, 1.0 + ridge)
        try:
            return cho_factor(H, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return np.eye(H.shape[0]), True
