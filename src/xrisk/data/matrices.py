"""Sparse matrices from users: compiled loops trust their indices, so these are checked first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from xrisk.annotations import Matrix


def refuse_broken(name: str, X: Matrix) -> Any:
    """Refuse a sparse matrix whose index arrays do not fit its shape, whatever its format; anything else passes.

    Unsorted and repeated indices have a meaning, and pass. Neither the matrix nor its cached flags are changed.

    Parameters
    ----------
    name : str
        What an error calls it.
    X : array, sparse matrix or anything else
        What was given.

    Returns
    -------
    X
        The same.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from xrisk.data.matrices import refuse_broken
    >>> X = csr_array(np.eye(2))
    >>> X.indices[1] = 7
    >>> refuse_broken("X", X)
    Traceback (most recent call last):
    ...
    ValueError: X must be a valid sparse matrix of shape (2, 2), its column indices must lie between 0 and 1, got 7
    """
    if scipy.sparse.issparse(X) and X.ndim == 2 and X.format in _CHECKS:
        wrong = _CHECKS[X.format](X)
        if wrong:
            raise ValueError(f"{name} must be a valid sparse matrix of shape {X.shape}, {wrong}")
    return X


def fresh_csr(X: Matrix) -> Any:
    """A valid sparse matrix as CSR that shares its arrays, without entries beyond the last row and cached flags.

    Flags such as ``has_canonical_format`` may be older than the arrays, which may have changed.
    """
    X = X.tocsr()
    count = int(X.indptr[-1])
    return scipy.sparse.csr_array((X.data[:count], X.indices[:count], X.indptr), shape=X.shape, copy=False)


def _wrong_list(name: str, values: Any, length: int | None = None) -> str:
    """What is wrong with an array of whole numbers, of ``length`` if one is given; empty if nothing is."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iu":
        return f"its {name} must be an array of whole numbers in one dimension"
    if length is not None and values.size != length:
        return f"its {name} must have length {length}, got {values.size}"
    return ""


def _wrong_range(name: str, values: np.ndarray, count: int) -> str:
    if not values.size or (values.min() >= 0 and values.max() < count):
        return ""
    wrong = values.min() if values.min() < 0 else values.max()
    return f"its {name} must lie between 0 and {count - 1}, got {wrong}"


def _wrong_compressed(indptr: Any, indices: Any, entries: int, shape: tuple[int, int], name: str) -> str:
    """What is wrong with compressed rows (or columns, or blocks) of ``shape``, with as many stored entries."""
    wrong = _wrong_list("indptr", indptr, shape[0] + 1) or _wrong_list("indices", indices, entries)
    if wrong:
        return wrong
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():  # differences of unsigned numbers are never negative
        return "its indptr must begin with 0 and never decrease"
    if indptr[-1] > entries:
        return f"its indptr must end at most at the number of stored entries, {entries}, got {indptr[-1]}"
    return _wrong_range(name, indices[: int(indptr[-1])], shape[1])


def _wrong_csr(X: Matrix) -> str:
    return _wrong_data(X, 1) or _wrong_compressed(X.indptr, X.indices, X.data.size, X.shape, "column indices")


def _wrong_csc(X: Matrix) -> str:
    return _wrong_data(X, 1) or _wrong_compressed(X.indptr, X.indices, X.data.size, X.shape[::-1], "row indices")


def _wrong_bsr(X: Matrix) -> str:
    if _wrong_data(X, 3):
        return _wrong_data(X, 3)
    (rows, columns), (high, wide) = X.shape, X.data.shape[1:]
    if not (high and wide) or rows % high or columns % wide:
        return f"its blocks must divide its shape, got blocks of {high} × {wide}"
    blocks = (rows // high, columns // wide)
    return _wrong_compressed(X.indptr, X.indices, X.data.shape[0], blocks, "indices of blocks")


def _wrong_coo(X: Matrix) -> str:
    wrong, names = _wrong_data(X, 1), ("row indices", "column indices")
    if wrong:
        return wrong
    if len(X.coords) != len(names):
        return f"it must have row and column indices, got {len(X.coords)} arrays"
    for name, indices, count in zip(names, X.coords, X.shape, strict=True):
        wrong = wrong or _wrong_list(name, indices, X.data.size) or _wrong_range(name, indices, count)
    return wrong


def _wrong_dia(X: Matrix) -> str:
    wrong = _wrong_data(X, 2) or _wrong_list("offsets", X.offsets, X.data.shape[0])
    return wrong or ("its offsets must be distinct" if np.unique(X.offsets).size < X.offsets.size else "")


def _wrong_lil(X: Matrix) -> str:
    if len(X.rows) != X.shape[0] or len(X.data) != X.shape[0]:
        return f"it must have {X.shape[0]} lists of columns and of numbers, got {len(X.rows)} and {len(X.data)}"
    if any(len(columns) != len(numbers) for columns, numbers in zip(X.rows, X.data, strict=True)):
        return "it must have as many columns as numbers in every row"
    return _wrong_range("column indices", _flat(X.rows), X.shape[1])


def _wrong_dok(X: Matrix) -> str:
    keys = list(X.keys())
    rows, columns = (_flat([key[axis : axis + 1] for key in keys]) for axis in (0, 1))
    return _wrong_range("row indices", rows, X.shape[0]) or _wrong_range("column indices", columns, X.shape[1])


def _flat(lists: Any) -> np.ndarray:
    return np.array([entry for entries in lists for entry in entries], dtype=object)  # of any size: nothing overflows


def _wrong_data(X: Matrix, dimensions: int) -> str:
    if not isinstance(X.data, np.ndarray) or X.data.ndim != dimensions:
        return f"its data must be an array in {dimensions} dimension{'s' if dimensions > 1 else ''}"
    return ""


_CHECKS: dict[str, Callable[[Any], str]] = {
    "csr": _wrong_csr,
    "csc": _wrong_csc,
    "bsr": _wrong_bsr,
    "coo": _wrong_coo,
    "dia": _wrong_dia,
    "lil": _wrong_lil,
    "dok": _wrong_dok,
}
