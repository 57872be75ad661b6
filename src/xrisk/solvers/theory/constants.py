"""The constants that the theorems ask of a problem, and what of them can be known or measured."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.certificate import certifiable, certify
from xrisk.functions import (
    block_lipschitz,
    block_max_smoothness,
    block_slope,
    block_smoothness,
    penalty_convexity,
)
from xrisk.generic import generic
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    inner_count,
    inner_dim,
    inner_lipschitz,
    inner_size,
    inner_smoothness,
    new_batch,
)
from xrisk.problem import Problem, coupled, coupled_start, inner_values, is_risk
from xrisk.solvers.shared.mirror import Conjugate, Entropy, Quadratic

MEASURED = ("noise_value", "noise_gradient", "spread")  # at a few points, whatever else is known


class Constants(NamedTuple):
    """What the theorems ask of a problem, in its coupled form; ‖·‖ is the norm of a block of m values.

    It is ‖·‖₂, and of smoothness_f under the entropy map ‖·‖_∞, in which L_f = 1/(ρ μ_ψ) (ALEXR, proposition 1).
    """

    n: int  # inner functions
    lipschitz_f: float  # C_f ≥ ‖∂f‖
    smoothness_f: float  # L_f, inf if f has a kink
    lipschitz_g: float  # C_g with ‖gᵢ(x) − gᵢ(x′)‖ ≤ C_g ‖x − x′‖₂
    smoothness_g: float  # L_g, of the Jacobian of gᵢ, inf if g has a kink
    noise_value: float  # σ₀² ≥ E‖gᵢ(x; ζ) − gᵢ(x)‖²
    noise_gradient: float  # σ₁², likewise of the Jacobian
    spread: float  # δ², variance over i of Jᵢᵀyᵢ
    mu: float  # strong convexity of r
    distance: float  # D ≥ ‖x₀ − x*‖
    omega: float  # Ω ≥ Σᵢ D_ψ(yᵢ*, yᵢ₀)
    measured: tuple[str, ...] = ()  # fields that are estimates from samples, no bounds

    def check(self) -> None:
        """Refuse constants no problem has."""
        for name, value in zip(self._fields[:-1], self[:-1], strict=True):
            if not value >= 0:
                raise ValueError(f"{name} must not be negative, got {value}")


@generic
def map_smoothness(mirror, f, upper):
    """L_f on u ≤ upper, in the norm in which the map ψ is strongly convex."""


@generic
def map_convexity(mirror, smoothness):
    """ρ with D_{f*} ≥ ρ D_ψ, of an L_f in the norm of the map (ALEXR, proposition 1)."""


@generic
def map_omega(mirror, c, size, m):
    """Ω ≥ Σᵢ D_ψ(yᵢ*, yᵢ₀) from C_f, L_f and a bound ``size`` on ‖gᵢ(x*)‖₂ of m values."""


@generic
def map_least_smoothness(mirror, f):
    """The least L_f that constants may have under the map: a theorem in ‖·‖_∞ needs that of all u."""


@generic
def map_is_quadratic(mirror):
    """Whether ψ is ½‖·‖², for theorems about no other map."""


map_least_smoothness.otherwise(lambda mirror, f: 0.0)
map_least_smoothness.of(Entropy)(lambda mirror, f: block_max_smoothness(f, np.inf))
map_is_quadratic.otherwise(lambda mirror: False)
map_is_quadratic.of(Quadratic)(lambda mirror: True)


@map_smoothness.of(Quadratic)
@map_smoothness.of(Conjugate)
def _(mirror, f, upper):
    return block_smoothness(f, upper)


map_smoothness.of(Entropy)(lambda mirror, f, upper: block_max_smoothness(f, upper))


@map_convexity.of(Quadratic)
@map_convexity.of(Entropy)
def _(mirror, smoothness):
    return 1.0 / smoothness


map_convexity.of(Conjugate)(lambda mirror, smoothness: 1.0)


@map_omega.of(Quadratic)
def _(mirror, c, size, m):
    return c.n * c.lipschitz_f**2 / 2.0  # the first dual is the point of the domain next to 0, or its centre


@map_omega.of(Conjugate)
def _(mirror, c, size, m):
    return c.n * c.smoothness_f * size**2 / 2.0  # D_{f*}(f′(u), f′(0)) = D_f(0, u)


@map_omega.of(Entropy)
def _(mirror, c, size, m):
    return c.n * math.log(m)  # KL from the uniform distribution


def estimate_constants(
    problem: Problem,
    *,
    mirror: Spec = Quadratic(),
    w0: np.ndarray | None = None,
    distance: float | None = None,
    points: int = 3,
    samples: int = 32,
    rng: int | np.random.Generator = 0,
) -> Constants:
    """Constants of the problem in its coupled form: bounds where they can be known, ``measured`` names the others.

    C_g and L_g are bounds from the rows of X. C_f and L_f hold for all values of gᵢ if f has such constants; otherwise
    for those in the ball ‖x − x₀‖ ≤ D, where |gᵢ(x)| ≤ maxᵢ|gᵢ(x₀)| + C_g D. An iterate may leave it: for such an
    f the theorems ask for a domain. σ₀², σ₁² and δ² are measured at x₀ and ``points`` − 1 points around it.

    ``distance`` has to be given unless the penalty is μ-strongly convex in w and a bound F_low ≤ F* is proved by
    `xrisk.certify` at w₀. Then ‖w₀ − w*‖² ≤ 2(F(w₀) − F_low)/μ; the threshold of a risk lies between the smallest and
    the largest gᵢ(w), at w₀ as at w*.
    """
    problem.check()
    rng = np.random.default_rng(rng)
    w0 = np.zeros(inner_size(problem.inner)) if w0 is None else np.asarray(w0, dtype=np.float64)
    work, x0 = coupled(problem), coupled_start(problem, w0)
    distance = _distance(problem, w0) if distance is None else float(distance)
    n, m = inner_count(work.inner), inner_dim(work.inner)
    u, lipschitz_g = inner_values(work, x0), float(inner_lipschitz(work.inner))
    reach = lipschitz_g * distance if distance > 0.0 else 0.0
    upper = float(np.abs(u).max()) + reach
    noises = np.zeros(3)
    for point in range(points):
        x = x0 + (0.0 if point == 0 else 0.5 * distance / np.sqrt(x0.size)) * rng.standard_normal(x0.size)
        noises = np.maximum(noises, _measure(work, x, samples, rng))
    c = Constants(
        n,
        _least(block_lipschitz(work.outer, np.inf, m), block_lipschitz(work.outer, upper, m)),
        _least(map_smoothness(mirror, work.outer, np.inf), map_smoothness(mirror, work.outer, upper)),
        lipschitz_g,
        float(inner_smoothness(work.inner)),
        float(noises[0]),
        float(noises[1]),
        float(noises[2]),
        float(penalty_convexity(work.penalty)),
        distance,
        0.0,
        MEASURED,
    )
    return c._replace(omega=float(map_omega(mirror, c, float(np.linalg.norm(u, axis=1).max()) + reach, m)))


def _least(everywhere: float, in_ball: float) -> float:
    """The constant that holds everywhere, unless there is none."""
    return float(everywhere if everywhere < np.inf else in_ball)


class _Start(NamedTuple):
    w: np.ndarray


def _distance(problem: Problem, w0: np.ndarray) -> float:
    mu = penalty_convexity(problem.penalty)
    if mu <= 0:
        raise ValueError("distance must be given: without a strongly convex penalty it cannot be estimated")
    gap = certify(problem, _Start(w0)).gap if certifiable(problem) else np.inf
    if gap == np.inf:
        raise ValueError("distance must be given: no lower bound of the objective is known")
    weights = float(np.sqrt(2.0 * gap / mu))
    if not is_risk(problem.outer):
        return weights
    lipschitz = inner_lipschitz(problem.inner)
    if lipschitz == np.inf:
        raise ValueError("distance must be given: the inner functions have no known Lipschitz constant")
    return float(np.hypot(weights, np.ptp(inner_values(problem, w0)) + lipschitz * weights))


def _measure(work: Problem, x: np.ndarray, samples: int, rng: np.random.Generator) -> tuple[float, float, float]:
    """σ₀², σ₁² and δ² at x, from at most 64 blocks; Jacobians in the Frobenius norm, above the operator's."""
    n, m = inner_count(work.inner), inner_dim(work.inner)
    u = inner_values(work, x)
    value, y, batch = np.empty(m), np.empty(m), new_batch(work.inner, 1)
    noise_value, noise_gradient, means = [], [], []
    for i in rng.permutation(n)[:64]:
        block_slope(work.outer, u[i], y)
        values, rows = np.empty((samples, m)), np.zeros((samples, m, x.size))
        for k in range(samples):
            draw(work.inner, i, rng, batch)
            batch_value(work.inner, i, x, batch, value)
            values[k] = value
            for j, unit in enumerate(np.eye(m)):
                batch_vjp(work.inner, i, x, batch, unit, 1.0, rows[k, j])
        noise_value.append(float(values.var(axis=0).sum()))
        noise_gradient.append(float(rows.var(axis=0).sum()))
        means.append(y @ rows.mean(axis=0))
    return max(noise_value), max(noise_gradient), float(np.var(means, axis=0).sum())


def check_constants(c: Constants, *, strongly: bool) -> None:
    """Refuse constants that no theorem covers, or none for a strongly convex penalty and a smooth outer function."""
    c.check()
    if strongly and c.mu <= 0:
        raise ValueError("this theorem needs a strongly convex penalty, mu is 0: use theorem 6, 18, 5.8 or 5.9")
    if strongly and not math.isfinite(c.smoothness_f):
        raise ValueError("this theorem needs a smooth outer function: smooth it with Smoothed, or use theorem 6 or 5.8")
    if not math.isfinite(c.lipschitz_f) or not math.isfinite(c.lipschitz_g):
        raise ValueError(
            "the theorems need Lipschitz functions: give constants with finite lipschitz_f and lipschitz_g"
        )


def gradient_noise(c: Constants, S: int, B: int) -> float:
    """Variance of the primal gradient estimate, S blocks without replacement and B samples of each."""
    between = c.spread * (c.n - S) / (S * (c.n - 1)) if c.n > 1 else 0.0
    return c.lipschitz_f**2 * c.noise_gradient / (S * B) + between
