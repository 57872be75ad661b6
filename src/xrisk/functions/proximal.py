"""Quadratics around a point: those of proximal-point loops and regularised theorems, and the anchor of a descent."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Penalty
from xrisk.functions.parameters import non_negative, positive, require
from xrisk.functions.penalty import L2, penalty_convexity, penalty_slope, penalty_value, prox, shrink


class Proximal(NamedTuple):
    """r(w) + (strength/2)‖w − center‖².

    prox_{s}(v) = prox of r with s′ = s/(1 + s·strength) at (v + s·strength·center)/(1 + s·strength).
    """

    penalty: Penalty = L2()
    strength: float = 1.0
    center: np.ndarray = np.zeros(1)  # (d,)

    def check(self) -> None:
        """Refuse a strength that is not positive and a centre that is not finite."""
        positive("strength", self.strength)
        require(bool(np.isfinite(self.center).all()), "center", self.center, "finite")


@penalty_value.of(Proximal)
def _(r, w):
    total = 0.0
    for j in range(w.size):
        total += (w[j] - r.center[j]) ** 2
    return penalty_value(r.penalty, w) + 0.5 * r.strength * total


@prox.of(Proximal)
def _(r, w, s):
    scale = 1.0 + s * r.strength
    for j in range(w.size):
        w[j] = (w[j] + s * r.strength * r.center[j]) / scale
    prox(r.penalty, w, s / scale)


@penalty_slope.of(Proximal)
def _(r, w, out):
    penalty_slope(r.penalty, w, out)
    for j in range(w.size):
        out[j] += r.strength * (w[j] - r.center[j])


@penalty_convexity.of(Proximal)
def _(r):
    return penalty_convexity(r.penalty) + r.strength


class Anchored(NamedTuple):
    """r(w) = (strength/2) Σⱼ (scales[j] (w[j] − center[j]))².

    Examples
    --------
    >>> float(penalty_value(Anchored(2.0, np.ones(2), np.array([1.0, 3.0])), np.array([2.0, 0.0])))
    10.0
    """

    strength: float = 1.0
    center: np.ndarray = np.zeros(1)  # (d,)
    scales: np.ndarray = np.ones(1)  # (d,)

    def check(self) -> None:
        """Refuse a strength below 0, a centre that is not finite and scales that are not positive."""
        non_negative("strength", self.strength)
        require(bool(np.isfinite(self.center).all()), "center", self.center, "finite")
        valid = np.isfinite(self.scales) & (self.scales > 0.0)
        require(bool(valid.all()), "scales", self.scales, "positive and finite")


@penalty_value.of(Anchored)
def _(r, w):
    total = 0.0
    for j in range(w.size):
        total += (r.scales[j] * (w[j] - r.center[j])) ** 2
    return 0.5 * r.strength * total


@prox.of(Anchored)
def _(r, w, s):
    for j in range(w.size):
        weight = s * r.strength * r.scales[j] ** 2
        w[j] = (w[j] + weight * r.center[j]) / (1.0 + weight)


@shrink.of(Anchored)
def _(r, w, s):
    pass


@penalty_slope.of(Anchored)
def _(r, w, out):
    for j in range(w.size):
        out[j] = r.strength * r.scales[j] ** 2 * (w[j] - r.center[j])


penalty_convexity.of(Anchored)(lambda r: r.strength * r.scales.min() ** 2)
