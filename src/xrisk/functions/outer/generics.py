"""The verbs of a scalar outer function f(u); every outer function implements them or has the default."""
# mypy: disable-error-code="empty-body"

from xrisk.annotations import Outer
from xrisk.generic import generic


@generic
def outer_value(f: Outer, u: float) -> float:
    """f(u)."""


@generic
def outer_slope(f: Outer, u: float) -> float:
    """f′(u), one subgradient at a kink."""


@generic
def outer_curvature(f: Outer, u: float) -> float:
    """f″(u) ≥ 0; 0 at a kink."""


@generic
def outer_conjugate(f: Outer, y: float) -> float:
    """f*(y) = sup_u y u − f(u); inf outside its domain."""


@generic
def outer_domain(f: Outer) -> tuple[float, float]:
    """(lo, hi): the closure of {y: f*(y) < ∞}, which is that of the slopes."""


@generic
def outer_dual_step(f: Outer, u: float, y0: float, tau: float) -> float:
    """P_f(u, y₀, τ) = argmax_y y u − f*(y) − (τ/2) (y − y₀)²."""


@generic
def outer_prox(f: Outer, u: float, s: float) -> float:
    """prox_{s f}(u) = argmin_z f(z) + (z − u)² / (2 s)."""


@generic
def outer_lipschitz(f: Outer, upper: float) -> float:
    """sup |f′| on u ≤ upper (on |u| ≤ |upper| for an even f); inf when not finite."""


@generic
def outer_smoothness(f: Outer, upper: float) -> float:
    """Lipschitz constant of f′ on u ≤ upper (on |u| ≤ |upper| for an even f); inf when not finite."""


@generic
def outer_is_monotone(f: Outer) -> bool:
    """Whether f is non-decreasing."""


@generic
def outer_is_smooth(f: Outer) -> bool:
    """Whether f is differentiable with a locally Lipschitz derivative."""


@generic
def outer_is_piecewise_linear(f: Outer) -> bool:
    """Whether ``outer_kink`` describes f."""


@generic
def outer_kink(f: Outer) -> tuple[float, float, float, float]:
    """(lo, hi, at, offset) with f(u) = offset + max of y (u − at) over y in [lo, hi]; piecewise linear f only."""


@generic
def outer_piece(f: Outer) -> tuple[float, float, float, float]:
    """(lo, hi, at, κ) with f(u) = constant + max of y (u − at) − κ·y²/2 over y in [lo, hi]."""


@generic
def outer_is_piece(f: Outer) -> bool:
    """Whether ``outer_piece`` describes f."""


outer_is_piece.otherwise(lambda f: False)
outer_is_piecewise_linear.otherwise(lambda f: False)


@outer_prox.otherwise
def _(f, u, s):
    return u - s * outer_dual_step(f, u, 0.0, s)
