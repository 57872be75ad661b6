"""Products with all rows of a data matrix: scores, adjoint, Gram matrix; on all cores, never copying it whole."""

from xrisk.data.products import dense, intercept, sparse  # noqa: F401  (what they can do)
from xrisk.data.products.centred import Centred, centred_rows, less_offset
from xrisk.data.products.coordinates import Coordinates
from xrisk.data.products.verbs import (
    adjoint_rounding,
    column_means,
    column_squares,
    row_adjoint,
    row_block,
    row_bytes,
    row_gram,
    row_scores,
    row_tiles,
    row_work,
    sampled_rows,
    scaled_norms,
    stored_numbers,
    with_intercept,
)

__all__ = [
    "Centred",
    "Coordinates",
    "adjoint_rounding",
    "centred_rows",
    "column_means",
    "column_squares",
    "less_offset",
    "row_adjoint",
    "row_block",
    "row_bytes",
    "row_gram",
    "row_scores",
    "row_tiles",
    "row_work",
    "sampled_rows",
    "scaled_norms",
    "stored_numbers",
    "with_intercept",
]
