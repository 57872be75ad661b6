"""Products with all rows of a data matrix: scores, adjoint, Gram matrix; on all cores, never copying it whole."""

from xrisk.data.products import dense as dense
from xrisk.data.products import intercept as intercept
from xrisk.data.products import sparse as sparse
from xrisk.data.products.centred import Centred as Centred
from xrisk.data.products.centred import centred_rows as centred_rows
from xrisk.data.products.centred import less_offset as less_offset
from xrisk.data.products.coordinates import Coordinates as Coordinates
from xrisk.data.products.verbs import adjoint_rounding as adjoint_rounding
from xrisk.data.products.verbs import column_means as column_means
from xrisk.data.products.verbs import column_squares as column_squares
from xrisk.data.products.verbs import row_adjoint as row_adjoint
from xrisk.data.products.verbs import row_block as row_block
from xrisk.data.products.verbs import row_bytes as row_bytes
from xrisk.data.products.verbs import row_gram as row_gram
from xrisk.data.products.verbs import row_scores as row_scores
from xrisk.data.products.verbs import row_tiles as row_tiles
from xrisk.data.products.verbs import row_work as row_work
from xrisk.data.products.verbs import sampled_rows as sampled_rows
from xrisk.data.products.verbs import scaled_norms as scaled_norms
from xrisk.data.products.verbs import stored_numbers as stored_numbers
from xrisk.data.products.verbs import with_intercept as with_intercept
