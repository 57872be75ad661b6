"""Inner functions: where samples come from."""

from xrisk.data.rows import CSR, Dense, WithIntercept, add_row, as_rows, row_dot
from xrisk.inner import group_passes as group_passes
from xrisk.inner import pair_passes as pair_passes
from xrisk.inner import sample_passes as sample_passes
from xrisk.inner.callables import Callables
from xrisk.inner.deviations import Deviations
from xrisk.inner.generated import Generated, GeneratedSimulator, generated_transitions
from xrisk.inner.groups import Groups
from xrisk.inner.layout import Equal, Indexed, InOrder, Partitioned, Weighted
from xrisk.inner.models import LinearModel, SoftmaxModel
from xrisk.inner.noisy import NoisyCoordinates
from xrisk.inner.oracle import (
    Oracles,
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    draw_part,
    exact_jacobians,
    exact_values,
    exact_vjp,
    has_parts,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_pooled,
    inner_samples,
    inner_shares,
    inner_size,
    inner_smoothness,
    new_batch,
    sample_lipschitz,
    sample_smoothness,
    shares_batch,
    uniform_index,
)
from xrisk.inner.pairs import BatchEach, BatchForAll, Pairs, PooledPairs
from xrisk.inner.perturbed import Dropout, Gaussian, Perturbed, Sampler
from xrisk.inner.samples import Samples
from xrisk.inner.shifted import Shifted
from xrisk.inner.tail import Tail
from xrisk.inner.transitions import Reweighted, Simulated, Transitions

__all__ = [
    "CSR",
    "BatchEach",
    "BatchForAll",
    "Callables",
    "Dense",
    "Deviations",
    "Dropout",
    "Equal",
    "Gaussian",
    "Generated",
    "GeneratedSimulator",
    "Groups",
    "InOrder",
    "Indexed",
    "LinearModel",
    "NoisyCoordinates",
    "Oracles",
    "Pairs",
    "Partitioned",
    "Perturbed",
    "PooledPairs",
    "Reweighted",
    "Sampler",
    "Samples",
    "Shifted",
    "Simulated",
    "SoftmaxModel",
    "Tail",
    "Transitions",
    "Weighted",
    "WithIntercept",
    "add_row",
    "as_rows",
    "batch_value",
    "batch_values",
    "batch_vjp",
    "draw",
    "draw_part",
    "exact_jacobians",
    "exact_values",
    "exact_vjp",
    "generated_transitions",
    "has_parts",
    "inner_count",
    "inner_dim",
    "inner_is_affine",
    "inner_lipschitz",
    "inner_pooled",
    "inner_samples",
    "inner_shares",
    "inner_size",
    "inner_smoothness",
    "new_batch",
    "row_dot",
    "sample_lipschitz",
    "sample_smoothness",
    "shares_batch",
    "uniform_index",
]
