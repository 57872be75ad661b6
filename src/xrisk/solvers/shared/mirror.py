"""Mirror maps ψ of the dual step y⁺ = argmax ⟨y, g̃⟩ − f*(y) − τ D_ψ(y, y₀) (ALEXR, section 4).

A dual block is kept in coordinates z that suit its map: the tracked value u for ψ = f*, y itself for ψ = ½‖·‖²,
log y for the entropy.
"""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Outer
from xrisk.functions import (
    block_dual_step,
    block_entropy_step,
    block_is_smooth,
    block_slope,
    block_start,
    block_value,
)
from xrisk.functions.special import xlogx
from xrisk.generic import generic


@generic
def mirror_start(mirror, f, z):
    """Write the coordinates of the first dual block into ``z`` (m)."""


@generic
def mirror_step(mirror, f, value, z, tau):
    """Move the coordinates ``z`` (m) of a dual block by one step with weight τ."""


@generic
def mirror_dual(mirror, f, z, y):
    """Write the dual block y with coordinates ``z``."""


@generic
def mirror_distance(mirror, f, u, y, y0):
    """D_ψ(y, y₀) of y = ∇f(u) from the first dual block y₀."""


@generic
def mirror_check(mirror, f):
    """Raise an error of one sentence if the map does not suit the outer function."""


class Conjugate(NamedTuple):
    """ψ = f*: z tracks the inner value, z⁺ = (τz + g̃)/(1 + τ), and y = f′(z)."""


class Quadratic(NamedTuple):
    """ψ = ½‖·‖²: y⁺ is a proximal step on f*, for any convex f."""


class Entropy(NamedTuple):
    """ψ = Σ y log y on the simplex, for a maximum or log-sum-exp of the components of gᵢ."""


@mirror_start.of(Conjugate)
def _(mirror, f, z):
    z[:] = 0.0


@mirror_step.of(Conjugate)
def _(mirror, f, value, z, tau):
    for j in range(z.size):
        z[j] = (tau * z[j] + value[j]) / (1.0 + tau)


@mirror_dual.of(Conjugate)
def _(mirror, f, z, y):
    block_slope(f, z, y)


@mirror_distance.of(Conjugate)
def _(mirror, f, u, y, y0):
    """D_f*(∇f(u), ∇f(0)) = D_f(0, u)."""
    return block_value(f, np.zeros(u.size)) - block_value(f, u) + (y * u).sum()


@mirror_check.of(Conjugate)
def _(mirror: Conjugate, f: Outer) -> None:
    if not block_is_smooth(f):
        raise ValueError(f"mirror must be Quadratic() for an outer function with a kink, got {mirror} for {f}")


@mirror_start.of(Quadratic)
def _(mirror, f, z):
    block_start(f, z)


@mirror_step.of(Quadratic)
def _(mirror, f, value, z, tau):
    block_dual_step(f, value, z, tau, z)


@mirror_dual.of(Quadratic)
def _(mirror, f, z, y):
    for j in range(z.size):
        y[j] = z[j]


@mirror_distance.of(Quadratic)
def _(mirror, f, u, y, y0):
    return 0.5 * ((y - y0) ** 2).sum()


@mirror_check.of(Quadratic)
def _(mirror: Quadratic, f: Outer) -> None:
    pass


@mirror_start.of(Entropy)
def _(mirror, f, z):
    z[:] = -np.log(z.size)


@mirror_step.of(Entropy)
def _(mirror, f, value, z, tau):
    block_entropy_step(f, value, z, tau)


@mirror_dual.of(Entropy)
def _(mirror, f, z, y):
    for j in range(z.size):
        y[j] = np.exp(z[j])


@mirror_distance.of(Entropy)
def _(mirror, f, u, y, y0):
    total = 0.0
    for j in range(y.size):
        total += xlogx(y[j]) - y[j] * np.log(y0[j])
    return total


@mirror_check.of(Entropy)
def _(mirror: Entropy, f: Outer) -> None:
    if type(f) not in block_entropy_step.table:
        raise ValueError(f"mirror must be Quadratic() unless the duals are a simplex, got {mirror} for {f}")
