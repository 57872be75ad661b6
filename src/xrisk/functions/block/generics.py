"""The verbs of an outer function of a block of m inner values; a scalar f acts as the sum of f(u_k)."""
# mypy: disable-error-code="empty-body"

import numpy as np

from xrisk.annotations import Outer
from xrisk.functions.outer import (
    outer_conjugate,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_smooth,
    outer_lipschitz,
    outer_slope,
    outer_smoothness,
    outer_value,
)
from xrisk.functions.special import clip
from xrisk.generic import generic


@generic
def block_value(f: Outer, u: np.ndarray) -> float:
    """f(u), u of shape (m,)."""


@generic
def block_slope(f: Outer, u: np.ndarray, y: np.ndarray) -> None:
    """Write a subgradient of f at u into ``y``."""


@generic
def block_conjugate(f: Outer, y: np.ndarray) -> float:
    """f*(y) = sup_u ⟨y, u⟩ − f(u); inf outside its domain (slack 1e-9 for simplices)."""


@generic
def block_dual_step(f: Outer, u: np.ndarray, y0: np.ndarray, tau: float, y: np.ndarray) -> None:
    """Write argmax_y ⟨y, u⟩ − f*(y) − (τ/2) ‖y − y₀‖² into ``y``, which may be ``y0`` itself."""


@generic
def block_entropy_step(f: Outer, u: np.ndarray, logy: np.ndarray, tau: float) -> None:
    """log of argmax_y ⟨y, u⟩ − f*(y) − τ KL(y, y₀) over the simplex, in place on log y₀."""


@generic
def block_start(f: Outer, y: np.ndarray) -> None:
    """Write the first dual: 0 projected onto the domain, or the centre of a simplex."""


@generic
def block_project(f: Outer, y: np.ndarray) -> None:
    """Nearest point of the domain of f*, in place."""


@generic
def block_lipschitz(f: Outer, upper: float, m: int) -> float:
    """sup ‖∂f‖₂ on m values u ≤ upper."""


@generic
def block_smoothness(f: Outer, upper: float) -> float:
    """Lipschitz constant of ∇f in ‖·‖₂ on u ≤ upper; inf when not finite."""


@generic
def block_max_smoothness(f: Outer, upper: float) -> float:
    """Lipschitz constant of ∇f from ‖·‖_∞ to ‖·‖₁ on u ≤ upper, 1/ρ of the entropy map; inf when not finite."""


@generic
def block_is_monotone(f: Outer) -> bool:
    """Whether f is non-decreasing in every coordinate."""


@generic
def block_is_smooth(f: Outer) -> bool:
    """Whether f is differentiable with a locally Lipschitz gradient."""


@block_value.otherwise
def _(f, u):
    total = 0.0
    for k in range(u.size):
        total += outer_value(f, float(u[k]))
    return total


@block_slope.otherwise
def _(f, u, y):
    for k in range(u.size):
        y[k] = outer_slope(f, float(u[k]))


@block_conjugate.otherwise
def _(f, y):
    total = 0.0
    for k in range(y.size):
        total += outer_conjugate(f, float(y[k]))
    return total


@block_dual_step.otherwise
def _(f, u, y0, tau, y):
    for k in range(u.size):
        y[k] = outer_dual_step(f, float(u[k]), float(y0[k]), tau)


@block_start.otherwise
def _(f, y):
    lo, hi = outer_domain(f)
    y[:] = clip(0.0, lo, hi)


@block_project.otherwise
def _(f, y):
    lo, hi = outer_domain(f)
    for k in range(y.size):
        y[k] = clip(y[k], lo, hi)


@block_lipschitz.otherwise
def _(f, upper, m):
    return m**0.5 * outer_lipschitz(f, upper)


block_smoothness.otherwise(lambda f, upper: outer_smoothness(f, upper))
block_is_monotone.otherwise(lambda f: outer_is_monotone(f))
block_is_smooth.otherwise(lambda f: outer_is_smooth(f))
