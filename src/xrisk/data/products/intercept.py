"""Products with rows that have a column of ones at their end."""

import numpy as np

from xrisk.data.products.verbs import (
    EPS,
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
    with_intercept,
)
from xrisk.data.rows import WithIntercept


@adjoint_rounding.of(WithIntercept)
def _(rows):
    return adjoint_rounding(rows.rows) + 64 * EPS  # sums of columns are pairwise


stored_numbers.of(WithIntercept)(lambda rows: stored_numbers(rows.rows))
row_bytes.of(WithIntercept)(lambda rows: row_bytes(rows.rows))
row_work.of(WithIntercept)(lambda rows: row_work(rows.rows))


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


with_intercept.of(WithIntercept)(lambda rows: True)


@sampled_rows.of(WithIntercept)
def _(rows, chosen):
    return WithIntercept(sampled_rows(rows.rows, chosen))
