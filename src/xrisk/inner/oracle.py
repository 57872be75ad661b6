"""What a solver may ask of inner functions g_1, …, g_n: Rᵈ → Rᵐ, each known through samples."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

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
    """Room for a batch of ``size`` samples of each component."""


@generic
def draw(g, i, rng, batch):
    """Draw samples of gᵢ into ``batch`` and return it."""


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
def has_batches(g):
    """Whether the mean of a batch estimates gᵢ: whether `batch_value` is implemented, for what ``g`` is made of too."""


@has_batches.otherwise
def _(g):
    return batch_value.implemented(g)


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


@shares_batch.otherwise
def _(g):
    return False


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


@sample_lipschitz.otherwise
def _(g):
    return inner_lipschitz(g)


@generic
def sample_smoothness(g):
    """A bound on the Lipschitz constant of the Jacobian of one sample; where none is known, that of the means."""


@sample_smoothness.otherwise
def _(g):
    return inner_smoothness(g)
