"""Products with the identity matrix."""

from typing import NamedTuple

import numpy as np

from xrisk.data.products.verbs import (
    EPS,
    adjoint_rounding,
    column_squares,
    row_adjoint,
    row_bytes,
    row_gram,
    row_scores,
    row_work,
    scaled_norms,
    stored_numbers,
)
from xrisk.data.rows import add_row, row_count, row_dot, row_norm, row_size


class Coordinates(NamedTuple):
    """The rows of the identity matrix: scores are the variables themselves."""

    size: int = 1


adjoint_rounding.of(Coordinates)(lambda rows: EPS)
stored_numbers.of(Coordinates)(lambda rows: float(rows.size))


@row_bytes.of(Coordinates)
def _(rows):
    return 8.0 * rows.size


row_work.of(Coordinates)(lambda rows: float(rows.size))


@row_count.of(Coordinates)
@row_size.of(Coordinates)
def _(rows):
    return rows.size


row_dot.of(Coordinates)(lambda rows, k, w: w[k])


@add_row.of(Coordinates)
def _(rows, k, scale, grad):
    grad[k] += scale


row_norm.of(Coordinates)(lambda rows, k: 1.0)


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
