"""Settings of the theorems on SCDRO, ASCDRO and their restarts, for KL-constrained DRO over single rows.

The paper bounds the smoothness L_F of F(w, λ) = λ log mean exp(v/λ) + (λ − λ₀)ρ by a number exponential in 1/λ₀, and
steps from it are zero in floating point. `dro_smoothness` bounds it by one that is not, and takes its place everywhere
here. The proofs bound log s and exp(v/λ) one by one, not F as a whole, so that with it the settings have the theorems'
form but not their guarantee. σ² is the largest variance of a batch's estimates of g = mean exp(v/λ) and its gradients;
nothing in a problem tells it. There is one step size for w and λ, as in the paper.
"""

import math
from typing import Any

from xrisk.annotations import Solver
from xrisk.functions.parameters import positive
from xrisk.functions.row_risks import ball_radius, floored, largest_temperature, temperature_range
from xrisk.inner.oracle import inner_lipschitz, inner_smoothness
from xrisk.problem import Problem
from xrisk.solvers.dro.ascdro import ASCDRO
from xrisk.solvers.dro.scdro import SCDRO
from xrisk.solvers.restarted import Restarted
from xrisk.solvers.schedules import Decreasing, LastIterate
from xrisk.solvers.theory.alexr import Setting


def dro_smoothness(problem: Problem, *, spread: float, floor: float = 1e-3) -> float:
    """L_F ≤ L + G²/λ₀ + R²/(4λ₀³), of losses that are G-Lipschitz, L-smooth and within R = ``spread`` of each other.

    The Hessian of F is E_p[∇²v] beside 0, plus the covariance under p of (∇v, −v/λ), over λ. ``floor`` is λ₀ of a ball
    without a price.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> from xrisk.solvers import theory
    >>> model = LinearModel(as_rows(np.array([[2.0], [1.0]])), np.array([1.0, -1.0]))  # G = 2, L = 1
    >>> theory.dro_smoothness(xrisk.Problem(Samples(model), KLBallRisk(0.5, 0.5)), spread=1.0)
    11.0
    """
    positive("spread", spread)
    low = temperature_range(floored(problem.outer, floor))[0]
    steep, curved = float(inner_lipschitz(problem.inner)), float(inner_smoothness(problem.inner))
    if not (steep < math.inf and curved < math.inf):
        raise ValueError(f"losses must be Lipschitz and smooth, got constants {steep} and {curved}")
    return curved + steep**2 / low + spread**2 / (4.0 * low**3)


def scdro_setting(
    problem: Problem, eps: float, *, spread: float, sigma: float, drop: float, solver: SCDRO = SCDRO()
) -> Setting:
    """Theorem 1: E dist(0, ∂F)² ≤ ε² at a random iterate.

    β = 1/√T and η = β/(20 L_F²) give at most (624σ² + 280Δ) L_F²/√T + 20 L_F²Δ/T; T is such that each is ε²/2.

    Parameters
    ----------
    problem : Problem
        Smooth losses of single rows under a KL ball or a price on KL divergence.
    eps : float
        Length of a subgradient to reach.
    spread : float
        A bound R on the differences of the losses.
    sigma : float
        σ, at least that of the batch of the solver.
    drop : float
        A bound Δ on F(x₀) − F*.
    solver : SCDRO
        Its other fields are kept.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> from xrisk.solvers import theory
    >>> model = LinearModel(as_rows(np.array([[2.0], [1.0]])), np.array([1.0, -1.0]))
    >>> problem = xrisk.Problem(Samples(model), KLBallRisk(0.5, 0.5))  # L_F = 11
    >>> setting = theory.scdro_setting(problem, 100.0, spread=1.0, sigma=1.0, drop=1.0)
    >>> setting.iterations, round(setting.solver.track * setting.iterations**0.5, 9)
    (479, 1.0)
    """
    _check(eps=eps, sigma=sigma, drop=drop)
    smooth = dro_smoothness(problem, spread=spread, floor=solver.floor)
    slow = 2.0 * (624.0 * sigma**2 + 280.0 * drop) * smooth**2 / eps**2
    iterations = math.ceil(max(slow**2, 40.0 * smooth**2 * drop / eps**2, 1.0))
    beta = 1.0 / math.sqrt(iterations)
    return Setting(problem, _with_step(solver, beta / (20.0 * smooth**2), beta), iterations)


def ascdro_setting(
    problem: Problem,
    iterations: int,
    *,
    spread: float,
    sigma: float,
    alpha: float = 2.0,
    solver: ASCDRO = ASCDRO(),
) -> Setting:
    """Theorem 2: E dist(0, ∂F)² is O(log T/T^{2/3}) at a random iterate, for any ``alpha`` > 1.

    ::

        k = α σ^{2/3}/L_F,    ω = max{ 2σ², (16 L_F² k)³ },    c = σ²/(14 L_F k³) + 130 L_F⁴
        η_t = k/(ω + tσ²)^{1/3},    β_t = c η_t²

    The constant of the rate is not in the text, so T is asked for. Other arguments are those of `scdro_setting`.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> from xrisk.solvers import theory
    >>> model = LinearModel(as_rows(np.array([[2.0], [1.0]])), np.array([1.0, -1.0]))
    >>> problem = xrisk.Problem(Samples(model), KLBallRisk(0.5, 0.5))  # L_F = 11
    >>> setting = theory.ascdro_setting(problem, 1000, spread=1.0, sigma=1.0)
    >>> setting.solver.track.initial <= 1.0, round(setting.solver.step.initial * 16 * 11**2, 9)
    (True, 1.0)
    """
    _check(iterations=iterations, sigma=sigma)
    if not alpha > 1.0:
        raise ValueError(f"alpha must be above 1, got {alpha!r}")
    smooth = dro_smoothness(problem, spread=spread, floor=solver.floor)
    k = alpha * sigma ** (2 / 3) / smooth
    omega = max(2.0 * sigma**2, (16.0 * smooth**2 * k) ** 3)
    c = sigma**2 / (14.0 * smooth * k**3) + 130.0 * smooth**4
    first, delay = k / omega ** (1 / 3), omega / sigma**2
    step, track = Decreasing(first, delay, 1 / 3), Decreasing(c * first**2, delay, 2 / 3)
    return Setting(problem, _with_step(solver, step, track), iterations)


def rscdro_setting(
    problem: Problem,
    eps: float,
    *,
    spread: float,
    sigma: float,
    drop: float,
    reach: float,
    solver: SCDRO = SCDRO(),
) -> Setting:
    """Lemma 4 and Corollary 1: E F(x_K) − F* ≤ ε for convex losses, after K = ⌈log₂(Δ/ε)⌉ + 1 stages.

    With μ = ε/(2(reach² + λ̃²)), λ̃ the bound on the optimal temperature, c = 384 L_F² and ε_k = Δ/2^{k−1}::

        β_k = min{ με_k/(cσ²), 1/c },    η_k = β_k/(12 L_F²)
        T_k = max{ 384 c L_F² σ²/(μ²ε_k), 384 c L_F²/μ }

    Parameters
    ----------
    reach : float
        A bound on ‖w‖.

    Notes
    -----
    From the first stage on settings are halved and lengths doubled, which the minima come to once με_k ≤ σ². Other
    arguments are those of `scdro_setting`.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> from xrisk.solvers import theory
    >>> model = LinearModel(as_rows(np.array([[2.0], [1.0]])), np.array([1.0, -1.0]))
    >>> problem = xrisk.Problem(Samples(model), KLBallRisk(0.5, 0.5))  # L_F = 11, λ̃ = ½
    >>> setting = theory.rscdro_setting(problem, 0.1, spread=1.0, sigma=1.0, drop=1.0, reach=1.0)
    >>> round(setting.solver.solver.strength, 9), setting.solver.step_factor
    (0.04, 0.5)
    """
    smooth, mu = _restarts(problem, eps, spread, sigma, drop, reach, solver)
    c = 384.0 * smooth**2
    beta = min(mu * drop / (c * sigma**2), 1.0 / c)
    length = math.ceil(max(sigma**2 / (mu * drop), 1.0) * 384.0 * c * smooth**2 / mu)
    inner = _with_step(solver, beta / (12.0 * smooth**2), beta)._replace(strength=mu)
    return Setting(problem, Restarted(inner, length), _all_stages(length, drop, eps))


def rascdro_setting(
    problem: Problem,
    eps: float,
    *,
    spread: float,
    sigma: float,
    drop: float,
    reach: float,
    solver: ASCDRO = ASCDRO(),
) -> Setting:
    """Lemma 5 (corrected) and Corollary 2: E F(x_K) − F* ≤ ε for convex losses.

    With μ as in `rscdro_setting`, c = 768 L_F²::

        β_k = min{ με_k/(cσ²), 1/c },    η_k = min{ √(με_k)/(24 c L_F σ), 1/(24 c L_F²) }
        T_k = max{ 192 c L_F σ/(μ^{3/2} √ε_k), 192 c L_F² σ²/(με_k), 192 c L_F²/μ }

    η_k is printed with σ² for σ, and the last length with a factor σ²: neither is what the proof needs. Arguments are
    those of `rscdro_setting`.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> from xrisk.solvers import theory
    >>> model = LinearModel(as_rows(np.array([[2.0], [1.0]])), np.array([1.0, -1.0]))
    >>> problem = xrisk.Problem(Samples(model), KLBallRisk(0.5, 0.5))  # L_F = 11, λ̃ = ½
    >>> setting = theory.rascdro_setting(problem, 0.1, spread=1.0, sigma=1.0, drop=1.0, reach=1.0)
    >>> round(setting.solver.step_factor**2, 9), setting.solver.track_factor
    (0.5, 0.5)
    """
    smooth, mu = _restarts(problem, eps, spread, sigma, drop, reach, solver)
    c, share = 768.0 * smooth**2, mu * drop
    beta = min(share / (c * sigma**2), 1.0 / c)
    step = min(math.sqrt(share) / (24.0 * c * smooth * sigma), 1.0 / (24.0 * c * smooth**2))
    lengths = (smooth * sigma / (mu * math.sqrt(share)), smooth**2 * sigma**2 / share, smooth**2 / mu)
    length = math.ceil(192.0 * c * max(lengths))
    inner = _with_step(solver, step, beta)._replace(strength=mu)
    return Setting(problem, Restarted(inner, length, step_factor=0.5**0.5), _all_stages(length, drop, eps))


def _restarts(problem: Problem, *given: Any) -> tuple[float, float]:
    """L_F and μ of the restarted methods."""
    eps, spread, sigma, drop, reach, solver = given
    _check(eps=eps, sigma=sigma, drop=drop, reach=reach)
    risk = floored(problem.outer, solver.floor)
    low, high = temperature_range(risk)
    top = high if high < math.inf else max(low, largest_temperature(ball_radius(risk), spread))
    smooth = dro_smoothness(problem, spread=spread, floor=solver.floor)
    return smooth, eps / (2.0 * (reach**2 + top**2))


def _all_stages(length: int, drop: float, eps: float) -> int:
    """Iterations of all stages, whose lengths double."""
    return length * (2 ** (max(math.ceil(math.log2(drop / eps)), 0) + 1) - 1)


def _with_step(solver: Solver, step: Any, track: Any) -> Any:
    return solver._replace(step=step, temperature_step=step, track=track, average=LastIterate())


def _check(**given: float) -> None:
    for name, value in given.items():
        positive(name, value)
