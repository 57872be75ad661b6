"""What every kind of storage can do with all of its rows, and the parts that such products are made of."""

import numpy as np

from xrisk.generic import generic

TILE = 2**17  # entries of X that are converted or scaled at a time: 1 MB on every core
LEAST_ROWS = 512  # of a tile: sums of Gram matrices must not cost more than their terms
STRETCH = 256  # rows summed before their sum is added: the rounding of n terms is that of STRETCH + n/STRETCH
EPS = float(np.finfo(np.float64).eps)
MATRICES = 2**27  # bytes that the Gram matrices of the parts may take


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


@generic
def stored_numbers(rows):
    """How many entries of the rows are stored."""


@generic
def row_bytes(rows):
    """Bytes read in a product with all rows."""


@generic
def row_work(rows):
    """Operations of a Gram matrix, by the time they take in a product of dense matrices."""


@generic
def with_intercept(rows):
    """Whether the last column is that of an intercept, all ones."""


with_intercept.otherwise(lambda rows: False)


@generic
def sampled_rows(rows, chosen):
    """The chosen rows as rows of the same kind of storage, copied."""


def row_tiles(count: int, columns: int, most: int = 2**62) -> list[slice]:
    """Stretches of items that make a tile each, of at most ``most`` items."""
    step = max(1, min(max(LEAST_ROWS, TILE // max(1, columns)), most))
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def tiles(low: int, high: int, columns: int) -> list[slice]:
    """The same of the items from low to high."""
    return [slice(low + part.start, low + part.stop) for part in row_tiles(high - low, columns)]


def summed(parts: list[np.ndarray]) -> np.ndarray:
    """The sum of parts, in their order."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


def read_only(array: np.ndarray) -> np.ndarray:
    """The array itself, read-only from now on."""
    array.flags.writeable = False
    return array
