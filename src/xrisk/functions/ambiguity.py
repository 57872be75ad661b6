"""Worst cases over distributions near the one observed: balls of divergence, alone or at a cost, and unequal masses."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.functions.parameters import non_negative, positive
from xrisk.functions.risk import KLRisk


class KLBallRisk(NamedTuple):
    """ρ(u) = max of ⟨q, u⟩ − λ₀ KL(q) over KL(q) = Σ qᵢ log(n qᵢ) ≤ radius.

    It is min over λ ≥ λ₀ of λ log mean exp(u/λ) + (λ − λ₀)·radius; ``strength`` is λ₀, 0 for the ball alone.
    """

    radius: float = 0.5
    strength: float = 0.0

    def check(self) -> None:
        """Refuse a radius that is not positive and a negative strength."""
        positive("radius", self.radius)
        non_negative("strength", self.strength)


class ChiSquareBallRisk(NamedTuple):
    """ρ(u) = max of ⟨q, u⟩ − λ₀ χ²(q) over χ²(q) = (1/n) Σ ½ (n qᵢ − 1)² ≤ radius.

    ``strength`` is λ₀, 0 for the ball alone.
    """

    radius: float = 0.5
    strength: float = 0.0

    def check(self) -> None:
        """Refuse a radius that is not positive and a negative strength."""
        positive("radius", self.radius)
        non_negative("strength", self.strength)


class WithMasses(NamedTuple):
    """A risk of values that occur with unequal probabilities: the uniform weights 1/n become the masses."""

    risk: Any = KLRisk()
    masses: np.ndarray = np.array([0.25, 0.75])  # (n,) positive or zero, with a sum of one
