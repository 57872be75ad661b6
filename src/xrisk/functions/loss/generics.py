"""The verbs of a loss ℓ(z, y) of a linear score z; every loss implements them."""
# mypy: disable-error-code="empty-body"

import numpy as np

from xrisk.annotations import Loss
from xrisk.generic import generic


@generic
def loss_value(loss: Loss, z: float, y: float) -> float:
    """ℓ(z, y)."""


@generic
def loss_slope(loss: Loss, z: float, y: float) -> float:
    """∂ℓ/∂z, one subgradient at a kink."""


@generic
def loss_curvature(loss: Loss, z: float, y: float) -> float:
    """∂²ℓ/∂z² ≥ 0; 0 at a kink."""


@generic
def loss_conjugate(loss: Loss, v: float, y: float) -> float:
    """ℓ*(v, y) = sup_z v z − ℓ(z, y); inf outside its domain."""


@generic
def loss_domain(loss: Loss, y: float) -> tuple[float, float]:
    """(lo, hi): the closure of {v: ℓ*(v, y) < ∞}."""


@generic
def loss_lipschitz(loss: Loss) -> float:
    """sup |∂ℓ/∂z|, inf when unbounded."""


@generic
def loss_smoothness(loss: Loss) -> float:
    """sup ∂²ℓ/∂z², inf when unbounded or when there is a kink."""


@generic
def loss_is_classification(loss: Loss) -> bool:
    """Whether targets must be ±1."""


@generic
def loss_is_affine(loss: Loss) -> bool:
    """Whether ℓ is affine in z."""


@generic
def loss_kink(loss: Loss, y: float) -> tuple[float, float, float]:
    """(lo, hi, at) with ℓ(z, y) = max of v (z − at) over v in [lo, hi]; piecewise linear losses only."""


@generic
def loss_piece(loss: Loss, y: float) -> tuple[float, float, float, float]:
    """(lo, hi, at, κ) with ℓ(z, y) = max of v (z − at) − κ·v²/2 over v in [lo, hi]; lines and parabolas only."""


@generic
def loss_terms(loss: Loss, z: float, y: float) -> tuple[float, float, float]:
    """(ℓ, ∂ℓ/∂z, ∂²ℓ/∂z²) at once, for loops over all samples."""


@generic
def scores_value(loss: Loss, z: np.ndarray, k: int) -> float:
    """ℓ(z, k) of K scores ``z`` (shape (K,)) and the class k."""


@generic
def scores_slope(loss: Loss, z: np.ndarray, k: int, out: np.ndarray) -> None:
    """Write ∇_z ℓ(z, k) into ``out`` (shape (K,))."""


@generic
def scores_conjugate(loss: Loss, v: np.ndarray, k: int) -> float:
    """ℓ*(v, k) = sup_z ⟨v, z⟩ − ℓ(z, k); inf outside its domain."""


@generic
def scores_lipschitz(loss: Loss) -> float:
    """sup ‖∇_z ℓ‖₂."""


@generic
def scores_smoothness(loss: Loss) -> float:
    """sup of the largest eigenvalue of ∇²_z ℓ."""


loss_is_classification.otherwise(lambda loss: False)
loss_is_affine.otherwise(lambda loss: False)


@loss_piece.otherwise
def _(loss, y):
    lo, hi, at = loss_kink(loss, y)
    return lo, hi, at, 0.0


@loss_terms.otherwise
def _(loss, z, y):
    return loss_value(loss, z, y), loss_slope(loss, z, y), loss_curvature(loss, z, y)
