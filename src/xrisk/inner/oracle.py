"""What a solver may ask of inner functions g_1, …, g_n: Rᵈ → Rᵐ, each known through samples.

Samples come in batches. `draw` and `draw_part` choose samples of one gᵢ, by chance or by their numbers; `batch_value`
and `batch_vjp` belong to the mean of a batch. `place_block` builds a batch of blocks, one row each. `batch_losses`,
`batch_scores` and their vector–Jacobian products look at every row of a batch. The verbs `sample_…` look at one sample,
for methods that remember each. `tail_value` and its slopes compare a row i with the rows j of a batch, under a
threshold s that a method keeps for each i: gᵢ(w) = min over s of gᵢ(w, s), and only gᵢ(w, s) has unbiased samples.
"""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Inner
from xrisk.generic import generic


@register_jitable
def uniform_index(rng, low, high):
    """A whole number from low, …, high − 1; Numba's own ``integers`` takes eight times as long."""
    return min(low + int(rng.random() * (high - low)), high - 1)


class Oracles(NamedTuple):
    """Calls of the sampled oracles, counted per sample and per component of gᵢ."""

    values: int
    gradients: int


@generic
def inner_count(g):
    """Number n of inner functions."""


@generic
def inner_dim(g):
    """Number m of components of each gᵢ."""


@generic
def inner_size(g):
    """Number d of variables."""


@generic
def new_batch(g, size):
    """Memory for a batch of ``size`` samples of each component, or of ``size`` blocks."""


@generic
def draw(g, i, rng, batch):
    """Draw samples of gᵢ into ``batch``."""


@generic
def draw_part(g, i, first, batch):
    """Write the samples first, first + 1, … of gᵢ into ``batch``; places beyond the last weigh nothing.

    For a batch of B, gᵢ is the sum of gᵢ(w; part) over the parts that begin at 0, B, 2B, …, times B over the number of
    its samples.
    """


@generic
def has_parts(g, size):
    """Whether `draw_part` takes ``size`` samples at a time: by default, whether it is implemented."""


@has_parts.otherwise
def _(g, size):
    return draw_part.implemented(g)


@generic
def has_batches(g):
    """Whether the mean of a batch estimates gᵢ: whether `batch_value` is implemented, for what ``g`` is made of too."""


@has_batches.otherwise
def _(g):
    return batch_value.implemented(g)


@generic
def batch_value(g, i, w, batch, out):
    """Write gᵢ(w; batch), the mean over the batch, into ``out`` (m)."""


@generic
def batch_values(g, i, w, w_prev, batch, out, out_prev):
    """Write gᵢ(w; batch) and gᵢ(w_prev; batch) on the same samples."""


@batch_values.otherwise
def _(g, i, w, w_prev, batch, out, out_prev):
    batch_value(g, i, w, batch, out)
    batch_value(g, i, w_prev, batch, out_prev)


@generic
def batch_vjp(g, i, w, batch, y, scale, grad):
    """Add scale·Jᵢ(w; batch)ᵀ y to ``grad`` (d)."""


@generic
def place_block(g, i, batch, b):
    """Make the row of block i the b-th of ``batch``."""


@generic
def batch_losses(g, w, batch, out):
    """Write the loss of every row of the batch into ``out`` (B,)."""


@generic
def batch_losses_vjp(g, w, batch, scales, grad):
    """Add Σ scales[b]·(gradient of the loss of row b of the batch) to ``grad`` (d)."""


@generic
def batch_scores(g, w, batch):
    """Write the scores of the rows of a batch of pairs, and set their coefficients to zero."""


@generic
def batch_scores_vjp(g, batch, grad):
    """Add Σ coefs[b]·(row b of the batch) to ``grad`` (d)."""


@generic
def sample_range(g, i):
    """(low, high): the samples of gᵢ are low, …, high − 1."""


@generic
def sample_share(g, i, p):
    """What sample p counts in gᵢ; the shares of its samples sum to one."""


@generic
def sample_slopes(g, p, w, slopes):
    """The loss of sample p; its slopes in the scores of the sample are written into ``slopes`` (scores)."""


@generic
def sample_vjp(g, p, slopes, scale, grad):
    """Add scale·(gradient of the loss of sample p) to ``grad`` (d), from its slopes."""


@generic
def tail_share(g):
    """θ, the share of the rows j that are in a tail."""


@generic
def tail_value(g, score, batch, s):
    """gᵢ(w, s; batch) = s + meanⱼ (ℓᵢⱼ − s)₊/θ of the row i with that score, over the rows j of a batch."""


@generic
def add_tail_slopes(g, batch_i, a, batch_j, s, scale):
    """Add scale·∂gᵢ(w, s; batch_j)/∂w to the coefficients of the a-th row of ``batch_i`` and of those of ``batch_j``.

    Returns the share of losses that are above s, which is θ (1 − ∂gᵢ/∂s).
    """


@generic
def soft_value(g, score, batch, lam):
    """log meanⱼ exp(ℓᵢⱼ/λ) of the row i with that score, over the rows j of a batch."""


@generic
def add_soft_slopes(g, batch_i, a, batch_j, lam, log_u, log_scale):
    """As `add_tail_slopes`, with the gradients of the losses weighed by exp(ℓ/λ − log_u + log_scale)."""


@register_jitable
def sample_parts(g, size, count):
    """The ``count`` parts of ``size`` samples: whose they are, their first samples, ``size`` over all samples of gᵢ."""
    group, first, share = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64), np.empty(count)
    c = 0
    for i in range(inner_count(g)):
        low, high = sample_range(g, i)
        for start in range(0, high - low, size):
            group[c], first[c], share[c] = i, start, size / (high - low)
            c += 1
    return group, first, share


def part_count(g: Inner, size: int) -> int:
    """Number of parts of ``size`` samples; the last one of every gᵢ may be shorter."""
    ranges = (sample_range(g, i) for i in range(inner_count(g)))
    return sum(-(-int(high - low) // size) for low, high in ranges)


def shared_count(g: Inner) -> int:
    """Number of samples of each gᵢ where all have as many, so that the j-th of every one is a sample of g; else 0.

    0 as well where samples cannot be had by their numbers, and of blocks of several components.
    """
    if not (has_parts(g, 1) and inner_dim(g) == 1):
        return 0
    counts = {int(high - low) for low, high in (sample_range(g, i) for i in range(inner_count(g)))}
    return counts.pop() if len(counts) == 1 else 0


@generic
def exact_values(g, w, out):
    """Write gᵢ(w) for all i into ``out`` (n, m)."""


@generic
def exact_vjp(g, w, y, grad):
    """Add Σᵢ Jᵢ(w)ᵀ yᵢ to ``grad`` (d), y of shape (n, m)."""


@generic
def exact_jacobians(g, w, out):
    """Write Jᵢ(w) for all i into ``out`` (n, m, d), which is zero: a full pass."""


@exact_jacobians.otherwise
def _(g, w, out):  # a pass for each row: right for whoever knows no better
    y = np.zeros(out.shape[:2])
    for place in np.ndindex(*y.shape):
        y[place] = 1.0
        exact_vjp(g, w, y, out[place])
        y[place] = 0.0


@generic
def inner_samples(g):
    """Number of samples of all components of all gᵢ, finite sums: what a full pass costs."""


@generic
def inner_is_affine(g):
    """Whether every gᵢ is affine, so that an outer function need not be monotone."""


@generic
def shares_batch(g):
    """Whether one batch serves all blocks of an iteration."""


shares_batch.otherwise(lambda g: False)


@generic
def inner_pooled(g):
    """All samples of all components as those of one inner function, each as likely as any other."""


@generic
def inner_shares(g):
    """The share (n, m) that each component has in `inner_pooled`; they sum to one."""


@generic
def inner_lipschitz(g):
    """C_g with ‖gᵢ(w) − gᵢ(w′)‖₂ ≤ C_g ‖w − w′‖₂ for the m components together (inf if unknown)."""


@generic
def inner_smoothness(g):
    """A bound on the Lipschitz constant of the Jacobian of gᵢ (inf if there is none)."""


@generic
def sample_lipschitz(g):
    """A bound on ‖∇gᵢ(w; one sample)‖₂ for the m components together; where none is known, that of the means."""


sample_lipschitz.otherwise(lambda g: inner_lipschitz(g))


@generic
def sample_smoothness(g):
    """A bound on the Lipschitz constant of the Jacobian of one sample; where none is known, that of the means."""


sample_smoothness.otherwise(lambda g: inner_smoothness(g))
