"""Coordinates seen through two-point noise: the inner functions of the lower-bound instances."""

from typing import NamedTuple

import numpy as np

from xrisk.data.products import Coordinates
from xrisk.data.rows import frozen
from xrisk.functions.loss import AffineLoss
from xrisk.inner.groups import Groups
from xrisk.inner.models import LinearModel
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_size,
    inner_smoothness,
    new_batch,
    shares_batch,
)
from xrisk.inner.passes import as_linear_groups


class NoisyCoordinates(NamedTuple):
    """gᵢ(x; ζ) = xᵢ + ζ with ζ = −ν with probability 1−p and ν(1−p)/p with probability p = ν²/σ² [1]_.

    E ζ = 0 and Var ζ = σ² − ν². One batch of noise serves all blocks of an iteration, as in the lower bound.

    References
    ----------
    .. [1] Wang and Yang, ALEXR, section 8 and appendix E.
    """

    n: int = 8
    nu: float = 0.1
    sigma: float = 1.0

    def check(self) -> None:
        """Refuse a ν that is no probability's."""
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        if not 0.0 < self.nu < self.sigma < np.inf:
            raise ValueError(f"nu must lie between 0 and sigma, {self.sigma}, got {self.nu}")


@inner_count.of(NoisyCoordinates)
@inner_size.of(NoisyCoordinates)
def _(g):
    return g.n


inner_dim.of(NoisyCoordinates)(lambda g: 1)


@inner_is_affine.of(NoisyCoordinates)
@shares_batch.of(NoisyCoordinates)
def _(g):
    return True


@new_batch.of(NoisyCoordinates)
def _(g, size):
    return np.empty(size, dtype=np.bool_)


@draw.of(NoisyCoordinates)
def _(g, i, rng, batch):
    rare = (g.nu / g.sigma) ** 2
    for b in range(batch.size):
        batch[b] = rng.random() < rare


@batch_value.of(NoisyCoordinates)
def _(g, i, w, batch, out):
    rare = (g.nu / g.sigma) ** 2
    total = 0.0
    for happened in batch:
        total += g.nu * (1.0 - rare) / rare if happened else -g.nu
    out[0] = w[i] + total / batch.size


@batch_vjp.of(NoisyCoordinates)
def _(g, i, w, batch, y, scale, grad):
    grad[i] += scale * y[0]


@exact_values.of(NoisyCoordinates)
def _(g, w, out):
    out[:, 0] = w


@exact_vjp.of(NoisyCoordinates)
def _(g, w, y, grad):
    grad += y[:, 0]


inner_lipschitz.of(NoisyCoordinates)(lambda g: 1.0)
inner_smoothness.of(NoisyCoordinates)(lambda g: 0.0)


@as_linear_groups.of(NoisyCoordinates)
def _(g):
    model = LinearModel(Coordinates(g.n), frozen(np.zeros(g.n)), AffineLoss())
    return Groups(model, frozen(np.arange(g.n + 1)))
