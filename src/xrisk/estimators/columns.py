"""Columns that a ranking can make nothing of."""

import numpy as np

from xrisk.annotations import Matrix
from xrisk.data.products import Centred, column_squares, less_offset
from xrisk.data.rows import as_rows
from xrisk.solvers.newton.smoothed import LARGEST_COLUMN

FEW_DIGITS = 64.0  # spacings of stored numbers


def check_columns(X: Matrix) -> None:
    """Refuse columns whose squares are not finite."""
    with np.errstate(over="ignore"):
        squares = column_squares(as_rows(X))
    if not (squares <= LARGEST_COLUMN**2).all():
        raise ValueError(
            f"columns of X must be at most {LARGEST_COLUMN:g} in size for squares to be finite: scale them"
        )


def few_digits(X: Matrix) -> str | None:
    """A sentence on a column that varies by hardly more than its storage can tell apart; None where there is none."""
    rows = less_offset(as_rows(X))
    if not isinstance(rows, Centred):
        return None
    spread, sizes = np.sqrt(column_squares(rows)), np.abs(rows.centre)
    for j in rows.far[spread[rows.far] <= FEW_DIGITS * np.finfo(X.dtype).eps * sizes[rows.far]].tolist():
        column = X[:, [j]]
        if column.max() > column.min():
            return (
                f"column {j} of X is about {rows.centre[j]:.3g} and varies by {spread[j]:.2g}, of which {X.dtype} "
                "keeps too few digits: subtract its mean before it is stored so, or leave the column out"
            )
    return None
