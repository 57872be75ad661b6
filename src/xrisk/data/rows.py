"""Rows of a data matrix: how they are stored is their type."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Matrix, Rows
from xrisk.compile import inlined, prefetch
from xrisk.data.matrices import fresh_csr, refuse_broken
from xrisk.generic import generic
from xrisk.lanes import LANES, lanes, lanes_sum, rest, whole


@generic
def row_count(rows):
    """Number of rows."""


@generic
def row_size(rows):
    """Number of columns."""


@generic
def row_dot(rows, k, w):
    """⟨row k, w⟩."""


@generic
def row_dots(rows, k, w, w_prev):
    """⟨row k, w⟩ and ⟨row k, w_prev⟩, reading the row once."""


@generic
def add_row(rows, k, scale, grad):
    """Add scale·row k to ``grad``."""


@generic
def fetch_row(rows, k):
    """Prefetch row k, so that the rows of a batch arrive together."""


@fetch_row.otherwise
def _(rows, k):
    pass


@generic
def rows_dot(rows, chosen, w, out):
    """⟨row k, w⟩ for every k of ``chosen``."""


@rows_dot.otherwise
def _(rows, chosen, w, out):
    for b in range(chosen.size):
        out[b] = row_dot(rows, chosen[b], w)


@generic
def rows_dots(rows, chosen, w, w_prev, out, out_prev):
    """The same at two points, reading every row once."""


@rows_dots.otherwise
def _(rows, chosen, w, w_prev, out, out_prev):
    for b in range(chosen.size):
        out[b], out_prev[b] = row_dots(rows, chosen[b], w, w_prev)


@generic
def add_rows(rows, chosen, scales, grad):
    """Add Σ scales[b]·row chosen[b] to ``grad``."""


@add_rows.otherwise
def _(rows, chosen, scales, grad):
    for b in range(chosen.size):
        if scales[b] != 0.0:
            add_row(rows, chosen[b], scales[b], grad)


@generic
def row_norm(rows, k):
    """Euclidean norm of row k."""


class Dense(NamedTuple):
    """A matrix in C order, float32 or float64; memory maps stay on disk."""

    X: np.ndarray = np.zeros((0, 0))


class CSR(NamedTuple):
    """A sparse matrix by compressed rows."""

    data: np.ndarray = np.zeros(0)
    indices: np.ndarray = np.zeros(0, dtype=np.int32)
    indptr: np.ndarray = np.zeros(1, dtype=np.int32)
    size: int = 0


class WithIntercept(NamedTuple):
    """The rows with a column of ones at their end, which is never stored."""

    rows: Rows = Dense()


@inlined
def dense_dot(x, w):
    total, end = lanes(0.0), x.size - x.size % LANES
    for j in range(0, end, LANES):
        total += whole(x, j) * whole(w, j)
    return lanes_sum(total + rest(x, end) * rest(w, end))


@inlined
def dense_square(x):
    total, end = lanes(0.0), x.size - x.size % LANES
    for j in range(0, end, LANES):
        value = whole(x, j)
        total += value * value
    value = rest(x, end)
    return lanes_sum(total + value * value)


@register_jitable
def careful_norm(x):
    """‖x‖ where the sum of squares overflows or loses its digits."""
    total = 0.0
    for value in x:
        total = np.hypot(total, float(value))
    return total


@inlined
def dense_dots(x, w, w_prev):
    total, total_prev, end = lanes(0.0), lanes(0.0), x.size - x.size % LANES
    for j in range(0, end, LANES):
        value = whole(x, j)
        total += value * whole(w, j)
        total_prev += value * whole(w_prev, j)
    value = rest(x, end)
    return lanes_sum(total + value * rest(w, end)), lanes_sum(total_prev + value * rest(w_prev, end))


@inlined
def four_dots(a, b, c, e, w):
    """`dense_dot` of four rows, each to the last bit as if alone."""
    za, zb, zc, ze, end = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0), w.size - w.size % LANES
    for j in range(0, end, LANES):
        v = whole(w, j)
        za += whole(a, j) * v
        zb += whole(b, j) * v
        zc += whole(c, j) * v
        ze += whole(e, j) * v
    v = rest(w, end)
    za, zb, zc, ze = za + rest(a, end) * v, zb + rest(b, end) * v, zc + rest(c, end) * v, ze + rest(e, end) * v
    return lanes_sum(za), lanes_sum(zb), lanes_sum(zc), lanes_sum(ze)


@inlined
def dense_four_dot(X, k, w, out):
    """Four rows at a time: their cache misses overlap, and w is read once for them."""
    out[0], out[1], out[2], out[3] = four_dots(X[k[0]], X[k[1]], X[k[2]], X[k[3]], w)


@inlined
def two_by_two_dots(a, b, w, w_prev):
    """`dense_dots` of two rows: eight sums at once would not fit into the registers of every processor."""
    za, zb, pa, pb, end = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0), w.size - w.size % LANES
    for j in range(0, end, LANES):
        x, y, v, v_prev = whole(a, j), whole(b, j), whole(w, j), whole(w_prev, j)
        za += x * v
        zb += y * v
        pa += x * v_prev
        pb += y * v_prev
    x, y, v, v_prev = rest(a, end), rest(b, end), rest(w, end), rest(w_prev, end)
    za, zb, pa, pb = za + x * v, zb + y * v, pa + x * v_prev, pb + y * v_prev
    return lanes_sum(za), lanes_sum(zb), lanes_sum(pa), lanes_sum(pb)


@inlined
def dense_four_dots(X, k, w, w_prev, out, out_prev):
    out[0], out[1], out_prev[0], out_prev[1] = two_by_two_dots(X[k[0]], X[k[1]], w, w_prev)
    out[2], out[3], out_prev[2], out_prev[3] = two_by_two_dots(X[k[2]], X[k[3]], w, w_prev)


@inlined
def dense_add_four(X, k, scales, grad):
    a, b, c, e = X[k[0]], X[k[1]], X[k[2]], X[k[3]]
    sa, sb, sc, se = scales[0], scales[1], scales[2], scales[3]
    for j in range(grad.size):
        grad[j] += (sa * a[j] + sb * b[j]) + (sc * c[j] + se * e[j])


row_count.of(Dense)(lambda rows: rows.X.shape[0])
row_size.of(Dense)(lambda rows: rows.X.shape[1])


@row_dot.of(Dense)
def _(rows, k, w):
    return dense_dot(rows.X[k], w)


@row_dots.of(Dense)
def _(rows, k, w, w_prev):
    return dense_dots(rows.X[k], w, w_prev)


@add_row.of(Dense)
def _(rows, k, scale, grad):
    x = rows.X[k]
    for j in range(x.size):
        grad[j] += scale * x[j]


@fetch_row.of(Dense)
def _(rows, k):
    prefetch(rows.X, k)


@rows_dot.of(Dense)
def _(rows, chosen, w, out):
    fours = chosen.size // 4 * 4
    for b in range(0, fours, 4):
        dense_four_dot(rows.X, chosen[b : b + 4], w, out[b : b + 4])
    for b in range(fours, chosen.size):
        out[b] = dense_dot(rows.X[chosen[b]], w)


@rows_dots.of(Dense)
def _(rows, chosen, w, w_prev, out, out_prev):
    fours = chosen.size // 4 * 4
    for b in range(0, fours, 4):
        dense_four_dots(rows.X, chosen[b : b + 4], w, w_prev, out[b : b + 4], out_prev[b : b + 4])
    for b in range(fours, chosen.size):
        out[b], out_prev[b] = dense_dots(rows.X[chosen[b]], w, w_prev)


@add_rows.of(Dense)
def _(rows, chosen, scales, grad):
    fours = chosen.size // 4 * 4
    for b in range(0, fours, 4):
        dense_add_four(rows.X, chosen[b : b + 4], scales[b : b + 4], grad)
    for b in range(fours, chosen.size):
        add_row(rows, chosen[b], scales[b], grad)


@row_norm.of(Dense)
def _(rows, k):
    x = rows.X[k]
    total = dense_square(x)
    return np.sqrt(total) if 1e-280 < total < 1e300 else careful_norm(x)


@row_count.of(CSR)
def _(rows):
    return rows.indptr.size - 1


row_size.of(CSR)(lambda rows: rows.size)


@row_dot.of(CSR)
def _(rows, k, w):
    total = 0.0
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):  # unsigned: no index counts from the end
        total += rows.data[p] * w[np.uintp(rows.indices[p])]
    return total


@row_dots.of(CSR)
def _(rows, k, w, w_prev):
    total, total_prev = 0.0, 0.0
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):
        j = np.uintp(rows.indices[p])
        total += rows.data[p] * w[j]
        total_prev += rows.data[p] * w_prev[j]
    return total, total_prev


@add_row.of(CSR)
def _(rows, k, scale, grad):
    for p in range(np.uintp(rows.indptr[k]), np.uintp(rows.indptr[k + 1])):
        grad[np.uintp(rows.indices[p])] += scale * rows.data[p]


@row_norm.of(CSR)
def _(rows, k):
    x = rows.data[rows.indptr[k] : rows.indptr[k + 1]]
    total = dense_square(x)
    return np.sqrt(total) if 1e-280 < total < 1e300 else careful_norm(x)


row_count.of(WithIntercept)(lambda rows: row_count(rows.rows))


@row_size.of(WithIntercept)
def _(rows):
    return row_size(rows.rows) + 1


@row_dot.of(WithIntercept)
def _(rows, k, w):
    return row_dot(rows.rows, k, w[:-1]) + w[-1]


@row_dots.of(WithIntercept)
def _(rows, k, w, w_prev):
    z, z_prev = row_dots(rows.rows, k, w[:-1], w_prev[:-1])
    return z + w[-1], z_prev + w_prev[-1]


@add_row.of(WithIntercept)
def _(rows, k, scale, grad):
    add_row(rows.rows, k, scale, grad[:-1])
    grad[-1] += scale


@fetch_row.of(WithIntercept)
def _(rows, k):
    fetch_row(rows.rows, k)


@rows_dot.of(WithIntercept)
def _(rows, chosen, w, out):
    rows_dot(rows.rows, chosen, w[:-1], out)
    for b in range(chosen.size):
        out[b] += w[-1]


@rows_dots.of(WithIntercept)
def _(rows, chosen, w, w_prev, out, out_prev):
    rows_dots(rows.rows, chosen, w[:-1], w_prev[:-1], out, out_prev)
    for b in range(chosen.size):
        out[b] += w[-1]
        out_prev[b] += w_prev[-1]


@add_rows.of(WithIntercept)
def _(rows, chosen, scales, grad):
    add_rows(rows.rows, chosen, scales, grad[:-1])
    for b in range(chosen.size):
        grad[-1] += scales[b]


@row_norm.of(WithIntercept)
def _(rows, k):
    return np.hypot(row_norm(rows.rows, k), 1.0)


def as_rows(X: Matrix) -> Dense | CSR:
    """Rows of an array, a memory map or a scipy sparse matrix, copied only if stored otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.inner import as_rows
    >>> as_rows(np.eye(2, dtype=np.float32)).X.dtype
    dtype('float32')
    """
    import scipy.sparse

    if scipy.sparse.issparse(X):
        _refuse_no_matrix(X)
        return _csr(X)
    X = as_numbers("X", X)
    _refuse_no_matrix(X)
    with np.errstate(over="ignore"):  # wider floats may become infinite, which is refused
        X = np.ascontiguousarray(X, dtype=kept_dtype(X.dtype))
    refuse_non_finite("X", X)
    return Dense(frozen(X))


def refuse_masked(name: str, values: Any) -> None:
    """Refuse a masked array, whose masked entries would count."""
    if isinstance(values, np.ma.MaskedArray):
        raise ValueError(f"{name} must not be masked: fill the masked entries or leave their rows out")


def as_numbers(name: str, values: Any) -> np.ndarray:
    """An array of real numbers, not copied if it is one; ``name`` is what an error calls it."""
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers, got parts of unequal lengths") from error
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got dtype {array.dtype}")
    return array


def row_numbers(listed: np.ndarray, count: int) -> np.ndarray:
    """Numbers of rows below ``count``, read-only and in four bytes each where that is enough."""
    return frozen(listed.astype(np.int32 if count <= np.iinfo(np.int32).max else np.int64, copy=False))


def _refuse_no_matrix(X: Matrix) -> None:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}")
    if 0 in X.shape:
        raise ValueError(f"X must have at least one row and one column, got shape {X.shape}")


def kept_dtype(dtype: Any) -> Any:
    """The type that rows of this one are stored in."""
    return dtype if dtype in (np.float32, np.float64) else np.float64


def _csr(X: Matrix) -> CSR:
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold numbers, got dtype {X.dtype}")
    X = fresh_csr(refuse_broken("X", X))
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    with np.errstate(over="ignore"):
        data = np.ascontiguousarray(X.data, dtype=kept_dtype(X.dtype))
    if not np.isfinite(data).all():
        raise ValueError("X must be finite, it holds NaN or infinity")
    wide = np.int64 if max(X.nnz, X.shape[1]) > np.iinfo(np.int32).max else np.int32
    return CSR(
        frozen(data), frozen(X.indices.astype(wide, copy=False)), frozen(X.indptr.astype(wide, copy=False)), X.shape[1]
    )


def refuse_non_finite(name: str, X: np.ndarray) -> None:
    """Refuse a matrix (rows, columns) that holds NaN or infinity."""
    step = max(1, 2**20 // max(1, X.shape[1]))  # in pieces: the test of a memory map must not load all of it
    for start in range(0, X.shape[0], step):
        piece = X[start : start + step]
        with np.errstate(over="ignore", invalid="ignore"):
            total = piece.sum(dtype=np.float64)
        if not (np.isfinite(total) or np.isfinite(piece).all()):  # a sum is faster, but may overflow
            raise ValueError(f"{name} must be finite, got NaN or infinity")


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view: kernels then see one type, whether or not the caller's array is writable."""
    view = np.asarray(array).view(np.ndarray)
    view = view[...] if view.ndim else view
    view.flags.writeable = False
    return view
