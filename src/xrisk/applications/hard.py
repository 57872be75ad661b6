"""The problems of the lower bounds, with their optima in closed form.

The bounds of the ALEXR paper (theorem 10) do not hold for every method. The two for the noise of inner values bind its
abstract scheme (Algorithm 2), of which ALEXR, SOX and MSVR are instances: from x = 0 and y = 0, an iteration reads one
sample (B = 1) of S of the n inner values, and changes a dual or a coordinate only within the span of its samples. They
do not bind a method that reads all n values in every iteration, such as SAPD or SMD. The bound for the noise of
gradients counts samples, and binds every method.
"""

from typing import NamedTuple

import numpy as np

from xrisk.applications.arguments import checked_problem, mean_loss
from xrisk.functions import L2, AffineLoss, Box, HardNonsmooth, HardSmooth, Restricted
from xrisk.functions.parameters import positive
from xrisk.inner import LinearModel, NoisyCoordinates, as_rows
from xrisk.problem import Problem


class HardInstance(NamedTuple):
    """A problem of the lower bounds with its optimum in closed form."""

    problem: Problem
    w: np.ndarray
    value: float


def hard_smooth(n: int = 8, *, eps: float = 0.01, sigma: float = 1.0) -> HardInstance:
    """Smooth f, strongly convex r: methods of the abstract scheme need nσ²/(72 S ε) iterations (ALEXR, theorem 10).

    The scheme is Algorithm 2 of the paper with B = 1, started at 0: block-coordinate methods that read S of the n
    values in an iteration. The target is (μ/2) E‖x − x*‖² ≤ ε or E[F − F*] ≤ ε.

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
    problem = checked_problem(NoisyCoordinates(n, float(nu), float(sigma)), HardSmooth(float(nu)), penalty)
    return HardInstance(problem, np.full(n, -2.0 * nu / 3.0), -(nu**2) / 3.0)


def hard_nonsmooth(
    n: int = 8, *, eps: float = 0.01, sigma: float = 1.0, lipschitz: float = 1.0, curvature: float = 0.0
) -> HardInstance:
    """f with a kink: methods of the abstract scheme need n C² σ²/(64 S ε²) iterations (ALEXR, theorem 10).

    The scheme is that of `hard_smooth`, the target E[F − F*] ≤ ε, and ``curvature`` at most C²/(4ε).

    β = C, ν = 4ε/C, X = [−2ν, 2ν]ⁿ, r = (curvature/(2n))‖x‖².
    """
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be positive, got {eps}")
    beta, nu = float(lipschitz), 4.0 * eps / lipschitz
    x = -beta / curvature if curvature > beta / nu else -nu
    value = beta * max(x, -nu) + curvature * x * x / 2.0
    box = Box(-2.0 * nu, 2.0 * nu)
    penalty = Restricted(L2(curvature / n), box) if curvature > 0 else box
    problem = checked_problem(NoisyCoordinates(n, nu, float(sigma)), HardNonsmooth(beta, nu), penalty)
    return HardInstance(problem, np.full(n, x), value)


def hard_gradient(*, eps: float = 0.01, mu: float = 1.0, sigma: float = 1.0, sign: int = 1) -> HardInstance:
    """f = identity, n = 1, μ-strongly convex r: Ω(σ²/(με)) samples, for all methods (ALEXR, theorem 10, first half).

    F(x) = E[ζ] x + (μ/2) x² where ζ = ±s with mean ``sign``·s/q, q = ⌊σ/(2√(με))⌋ and s = 2q√(με) ≤ σ, the optimum
    −2·sign·√(ε/μ) of value −2ε. A method that does not know the sign and draws at most 3q²/16 ≈ 3σ²/(64με) samples
    has E[(μ/2)(x − x*)²] = E[F − F*] ≥ ε for one of the two signs. ALEXR draws two samples of g in an iteration with
    B = 1, SGD one.

    Parameters
    ----------
    eps : float
        The target, at most σ²/(16μ).
    mu : float
        Strong convexity.
    sigma : float
        A bound on the standard deviation of a sampled gradient.
    sign : {1, -1}
        Which of the two problems.

    Notes
    -----
    The paper refers to the literature for this bound; the constants are ours, by Le Cam's method of two points. For any
    x the errors for both signs sum to at least 4ε, so their expected mean is at least 2ε(1 − TV). By Pinsker's
    inequality TV² ≤ T b artanh(b) ≤ (4/3) T b² for T samples of bias b = 1/q ≤ ½, which is at most ¼ up to T = 3q²/16.

    Examples
    --------
    >>> from xrisk.applications import hard_gradient
    >>> instance = hard_gradient(eps=0.01)
    >>> instance.w.round(9), round(instance.problem.value(instance.w), 9)
    (array([-0.2]), -0.02)
    """
    for name, value in (("eps", eps), ("mu", mu), ("sigma", sigma)):
        positive(name, value)
    if sign not in (1, -1):
        raise ValueError(f"sign must be 1 or -1, got {sign}")
    unit = 2.0 * np.sqrt(mu * eps)
    q = int(np.floor(sigma / unit * (1.0 + 1e-12)))
    if q < 2:
        raise ValueError(f"eps must be at most sigma²/(16 mu), {sigma**2 / (16.0 * mu)}, got {eps}")
    rows = sign * q * unit * np.repeat([1.0, -1.0], [q + 1, q - 1])[:, None]
    problem = mean_loss(LinearModel(as_rows(rows), np.zeros(2 * q), AffineLoss()), L2(float(mu)))
    return HardInstance(problem, np.array([-2.0 * sign * np.sqrt(eps / mu)]), -2.0 * eps)
