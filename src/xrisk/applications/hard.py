"""The problems of the lower bounds, with their optima in closed form."""

from typing import NamedTuple

import numpy as np

from xrisk.functions import L2, Box, HardNonsmooth, HardSmooth, Restricted
from xrisk.inner import NoisyCoordinates
from xrisk.problem import Problem


class HardInstance(NamedTuple):
    """A problem of the lower bounds with its optimum in closed form."""

    problem: Problem
    w: np.ndarray
    value: float


def hard_smooth(n: int = 8, *, eps: float = 0.01, sigma: float = 1.0) -> HardInstance:
    """Smooth f, strongly convex r: no method needs fewer than nσ²/(72 S ε) iterations (ALEXR, theorem 10).

    ν = 3√(2ε), X = [−1, 1]ⁿ, r = ‖x‖²/(4n), optimum xᵢ = −2ν/3 of value −ν²/3.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> instance = hard_smooth(4, eps=0.005)
    >>> abs(instance.problem.value(instance.w) - instance.value) < 1e-15
    True
    """
    if not 0.0 < eps < 1.0 / 18.0:
        raise ValueError(f"eps must lie between 0 and 1/18, got {eps}")
    nu = float(3.0 * np.sqrt(2.0 * eps))
    penalty = Restricted(L2(1.0 / (2.0 * n)), Box(-1.0, 1.0))
    problem = Problem(NoisyCoordinates(n, float(nu), float(sigma)), HardSmooth(float(nu)), penalty)
    problem.check()
    return HardInstance(problem, np.full(n, -2.0 * nu / 3.0), -(nu**2) / 3.0)


def hard_nonsmooth(
    n: int = 8, *, eps: float = 0.01, sigma: float = 1.0, lipschitz: float = 1.0, curvature: float = 0.0
) -> HardInstance:
    """f with a kink: no method needs fewer than n C² σ²/(64 S ε²) iterations (ALEXR, theorem 10).

    β = C, ν = 4ε/C, X = [−2ν, 2ν]ⁿ, r = (curvature/(2n))‖x‖².
    """
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be positive, got {eps}")
    beta, nu = float(lipschitz), 4.0 * eps / lipschitz
    x = -beta / curvature if curvature > beta / nu else -nu
    value = beta * max(x, -nu) + curvature * x * x / 2.0
    box = Box(-2.0 * nu, 2.0 * nu)
    penalty = Restricted(L2(curvature / n), box) if curvature > 0 else box
    problem = Problem(NoisyCoordinates(n, nu, float(sigma)), HardNonsmooth(beta, nu), penalty)
    problem.check()
    return HardInstance(problem, np.full(n, x), value)
