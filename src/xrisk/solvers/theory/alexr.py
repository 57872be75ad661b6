"""The theorems' parameter settings of ALEXR: from the constants of a problem and a target ε to a solver.

Formulas are those of the ALEXR paper (theorems 3, 6, 18, 20, 22) and of its book chapter (5.7, 5.8, 5.9), with the
corrections listed in ``docs/decisions/0003-corrected-theorems.md``. Where a theorem hides absolute constants, one is
put for each of them; 5.7, 5.8 and 5.9 have explicit ones.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.functions.proximal import Proximal
from xrisk.inner.oracle import inner_size
from xrisk.problem import Problem, block_slopes, coupled, coupled_start, inner_values
from xrisk.solvers.coupled.alexr import ALEXR
from xrisk.solvers.schedules import GeometricAverage, LastIterate, UniformAverage
from xrisk.solvers.shared.mirror import Quadratic, mirror_distance, mirror_dual, mirror_start
from xrisk.solvers.theory.constants import (
    Constants,
    check_constants,
    estimate_constants,
    gradient_noise,
    map_convexity,
    map_is_quadratic,
    map_least_smoothness,
)

CHOICES = {"blocks", "batch", "mirror"}  # fields of ALEXR that a theorem leaves open


class Setting(NamedTuple):
    """A solver with the theorem's parameters, its iterations, and the problem it is to run on."""

    problem: Problem
    solver: Solver
    iterations: int


def realised_omega(problem: Problem, w: np.ndarray, *, mirror: Spec = Quadratic()) -> float:
    """Ω = Σᵢ D_ψ(yᵢ, yᵢ₀) at ``w``: yᵢ = ∇f(gᵢ(w)), yᵢ₀ the duals ALEXR starts from.

    The theorems allow for the largest Ω there is, n·C_f²/2 for ψ = ½‖·‖². Near the optimum of a CVaR only the share α
    of the blocks has yᵢ ≠ 0, and Ω is about n/(2α), not n/(2α²): ALEXR paper, remark 8. The threshold of a risk is the
    optimal one for ``w``. The price is a full pass.

    Examples
    --------
    Along a run, as an observer:

    >>> import numpy as np, xrisk
    >>> from xrisk.solvers.theory import realised_omega
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 5, 300)
    >>> y = np.where(X[:, 0] + groups * X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.4, l2=0.1)
    >>> omegas = []
    >>> watch = lambda seen: omegas.append(realised_omega(seen.problem, seen.w))
    >>> result = xrisk.minimize(
    ...     problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=50), rng=0, observers=[watch]
    ... )
    >>> omegas[-1]  # 1/α for the one group above the threshold: half of 2.5²
    3.125
    """
    work, x = coupled(problem), coupled_start(problem, w)
    u = inner_values(work, x)
    z0, y0 = np.zeros((2, u.shape[1]))
    mirror_start(mirror, work.outer, z0)
    mirror_dual(mirror, work.outer, z0, y0)
    y = block_slopes(work.outer, u)
    return float(sum(mirror_distance(mirror, work.outer, u[i], y[i], y0) for i in range(len(u))))


def theorem_5_7(problem: Problem, eps: float, **options: Any) -> Setting:
    """Book, theorem 5.7: μ > 0, f smooth; (μ/2) E‖x_T − x*‖² ≤ ε for the last iterate. Explicit constants."""
    c, solver = _settle(problem, eps, options, strongly=True)
    S, B, rho = solver.blocks, solver.batch, map_convexity(solver.mirror, c.smoothness_f)
    smooth_g = math.isfinite(c.smoothness_g)
    noise = 3.0 * (gradient_noise(c, S, B) + (0.0 if smooth_g else 4.0 * (c.lipschitz_f * c.lipschitz_g) ** 2))
    bounds = [S / (2.0 * c.n), 0.5, math.sqrt(c.mu * S / (c.n * c.smoothness_f)) / (8.0 * c.lipschitz_g)]
    bounds.append(c.mu * eps / (noise + c.mu * eps))
    if c.noise_value > 0:
        a = eps * B / (24.0 * c.smoothness_f * c.noise_value)
        bounds.append(a / (1.0 + a) * S / c.n)
    if smooth_g:
        bounds.append(c.mu / (2.0 * c.lipschitz_f * c.smoothness_g + c.mu))
    left = min(bounds)  # 1 − θ
    theta = 1.0 - left
    tau = rho * (S / c.n - left) / left
    start = c.mu / 2.0 * c.distance**2 + 2.0 * rho / S * c.omega
    return _setting(problem, solver, left / (theta * c.mu), tau, theta, math.log(max(3.0 * start / eps, math.e)) / left)


def theorem_3(problem: Problem, eps: float, **options: Any) -> Setting:
    """ALEXR, theorem 3: μ > 0, f smooth; (μ/2) E‖x_T − x*‖² ≤ ε for the last iterate."""
    c, solver = _settle(problem, eps, options, strongly=True)
    S, rho = solver.blocks, map_convexity(solver.mirror, c.smoothness_f)
    left = min(S / (2.0 * c.n), 0.5, _theorem_3_bounds(c, S, solver.batch, eps))
    tau = rho * (S / (c.n * left) - 1.0)
    start = c.mu / 2.0 * c.distance**2 + 2.0 * rho / S * c.omega
    iterations = math.log(max(3.0 * start / eps, math.e)) / left
    return _setting(problem, solver, left / (c.mu * (1.0 - left)), tau, 1.0 - left, iterations)


def theorem_18(problem: Problem, eps: float, **options: Any) -> Setting:
    """ALEXR, theorem 18: convex r, f smooth; F − F* of order ε for the weighted average.

    Theorem 3 on F + (ε/2)‖x‖² with the target ε²/(C_g² L_f), which its proof asks for; regularising adds at most
    (ε/2)‖x*‖². The problem of the setting is the regularised one in its coupled form: a threshold stands last in w.
    """
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be positive, got {eps}")
    work = coupled(problem)
    regular = Problem(work.inner, work.outer, Proximal(work.penalty, float(eps), np.zeros(inner_size(work.inner))))
    estimates = {name: value for name, value in options.items() if name not in {"blocks", "batch", "constants"}}
    c = options.get("constants") or estimate_constants(problem, **estimates)
    c = c._replace(mu=c.mu + eps)
    target = eps**2 / (c.lipschitz_g**2 * c.smoothness_f)
    chosen = {name: value for name, value in options.items() if name in CHOICES}
    # f with a kink has L_f = inf and no target; theorem 3 then says what it needs
    setting = theorem_3(regular, target or eps, constants=c, **chosen)
    return setting._replace(solver=setting.solver._replace(average=GeometricAverage(setting.solver.theta)))


def theorem_20(problem: Problem, eps: float, **options: Any) -> Setting:
    """ALEXR, theorem 20: θ = 0, μ > 0, f smooth: the rate of SOX without momentum."""
    c, solver = _settle(problem, eps, options, strongly=True)
    S, rho = solver.blocks, map_convexity(solver.mirror, c.smoothness_f)
    curved = c.mu / (c.lipschitz_g**2 * c.smoothness_f)
    # at most a third of S/n keeps the corrected τ positive
    left = min(S / (3.0 * c.n), 0.5, _theorem_3_bounds(c, S, solver.batch, eps), curved)
    tau = rho * (S / (2.0 * c.n * left) - 1.0 + S / (2.0 * c.n))
    start = c.mu / 2.0 * c.distance**2 + 2.0 * rho / S * c.omega
    iterations = math.log(max(3.0 * start / eps, math.e)) / left
    return _setting(problem, solver, left / (c.mu * (1.0 - left)), tau, 0.0, iterations)


def theorem_6(problem: Problem, eps: float, **options: Any) -> Setting:
    """ALEXR, theorem 6: convex r, θ = 1, ψ quadratic; E[F − F*] ≤ ε for the mean of x_1, …, x_T."""
    c, solver = _settle(problem, eps, options, strongly=False)
    _quadratic_only(solver)
    S, B = solver.blocks, solver.batch
    cost = [math.sqrt(c.n / S) * c.lipschitz_g, c.spread / (S * eps), c.lipschitz_f**2 * c.noise_gradient / (B * eps)]
    smooth_g = math.isfinite(c.smoothness_g)
    cost.append(
        c.smoothness_g * c.lipschitz_f if smooth_g else (c.lipschitz_f * c.lipschitz_g) ** 2 / eps,
    )
    tau = max(math.sqrt(S / c.n) * c.lipschitz_g, c.noise_value / (B * eps))
    return _convex(problem, solver, c, eps, 1.0 / max(cost), tau, 1.0)


def theorem_22(problem: Problem, eps: float, **options: Any) -> Setting:
    """ALEXR, theorem 22 (corrected): convex r, θ = 0, ψ quadratic."""
    c, solver = _settle(problem, eps, options, strongly=False)
    _quadratic_only(solver)
    S, B = solver.blocks, solver.batch
    cost = (c.lipschitz_f * c.lipschitz_g) ** 2 + c.spread / S + c.lipschitz_f**2 * c.noise_gradient / B
    tau = max(c.noise_value / (B * eps), np.finfo(float).tiny)
    return _convex(problem, solver, c, eps, eps / cost, tau, 0.0)


def theorem_5_9(problem: Problem, eps: float, **options: Any) -> Setting:
    """Book, theorem 5.9: convex r, g smooth, θ = 1, ψ quadratic; explicit constants, corrected iterations."""
    c, solver = _settle(problem, eps, options, strongly=False)
    if not math.isfinite(c.smoothness_g):
        raise ValueError("theorem 5.9 needs smooth inner functions: theorem 5.8 does not")
    _quadratic_only(solver)
    S, B = solver.blocks, solver.batch
    steps = [math.sqrt(S / c.n) / c.lipschitz_g]
    sigma2 = gradient_noise(c, S, B)
    if sigma2 > 0:
        steps.append(eps / (8.0 * sigma2))
    if c.smoothness_g > 0:
        steps.append(1.0 / (2.0 * c.lipschitz_f * c.smoothness_g))
    step = min(steps)
    tau = max(64.0 * c.noise_value / (B * eps), 32.0 * step * c.lipschitz_g**2)
    iterations = max(
        4.0 * c.distance**2 / (step * eps),
        8.0 * c.omega * (3.0 - 2.0 * S / c.n) * tau / (S * eps),
        128.0 * c.omega * c.noise_value / (c.n * B * eps**2),
    )
    return _setting(problem, solver, step, tau, 1.0, iterations, UniformAverage())


def theorem_5_8(problem: Problem, eps: float, **options: Any) -> Setting:
    """Book, theorem 5.8: convex r, g Lipschitz, θ = 0, ψ quadratic; explicit constants, corrected iterations."""
    c, solver = _settle(problem, eps, options, strongly=False)
    _quadratic_only(solver)
    S, B = solver.blocks, solver.batch
    step = eps / (6.0 * (gradient_noise(c, S, B) + 8.0 * (c.lipschitz_f * c.lipschitz_g) ** 2))
    tau = max(6.0 * c.noise_value / (B * eps), np.finfo(float).tiny)
    iterations = max(
        3.0 * c.distance**2 / (step * eps),
        36.0 * c.omega * c.noise_value * (2.0 - S / c.n) / (B * S * eps**2),
        18.0 * c.omega * c.noise_value / (c.n * B * eps**2),
    )
    return _setting(problem, solver, step, tau, 0.0, iterations, UniformAverage())


def _theorem_3_bounds(c: Constants, S: int, B: int, eps: float) -> float:
    bounds = [math.sqrt(c.mu * S / (c.n * c.smoothness_f)) / c.lipschitz_g]
    noises = (
        (B * S * eps, c.n * c.smoothness_f * c.noise_value),
        (B * c.mu * eps, c.lipschitz_f**2 * c.noise_gradient),
        (S * c.mu * eps, c.spread),
    )
    bounds += [top / noise for top, noise in noises if noise > 0]
    if math.isfinite(c.smoothness_g):
        bounds += [c.mu / (c.smoothness_g * c.lipschitz_f)] if c.smoothness_g > 0 else []
    else:
        bounds.append(c.mu * eps / (c.lipschitz_f * c.lipschitz_g) ** 2)
    return min(bounds)


def _convex(
    problem: Problem, solver: ALEXR, c: Constants, eps: float, step: float, tau: float, theta: float
) -> Setting:
    """Iterations of theorems 6 and 22: the distance and the dual term, κ_ψ = 1 + L_ψ²/(S μ_ψ²) with L_ψ = μ_ψ = 1."""
    S = solver.blocks or 1
    iterations = c.distance**2 / (step * eps) + (1.0 + 1.0 / S) * tau * c.omega / (S * eps)
    return _setting(problem, solver, step, tau, theta, iterations, UniformAverage())


def _settle(problem: Problem, eps: float, options: dict[str, Any], *, strongly: bool) -> tuple[Constants, Any]:
    if not 0.0 < eps < np.inf:
        raise ValueError(f"eps must be positive, got {eps}")
    chosen = ALEXR(**{name: value for name, value in options.items() if name in CHOICES})
    work, solver = chosen.prepare(problem)
    rest = {name: value for name, value in options.items() if name not in CHOICES}
    c = rest.pop("constants", None)
    c = estimate_constants(problem, mirror=solver.mirror, **rest) if c is None else c
    check_constants(c, strongly=strongly)
    if c.smoothness_f < (least := map_least_smoothness(solver.mirror, work.outer)):
        raise ValueError(f"smoothness_f must be at least {least} under {solver.mirror}, in ‖·‖_∞, got {c.smoothness_f}")
    return c, solver


def _setting(
    problem: Problem,
    solver: ALEXR,
    step: float,
    tau: float,
    theta: float,
    iterations: float,
    average: Spec = LastIterate(),
) -> Setting:
    solver = solver._replace(step=float(step), dual_step=1.0 / float(tau), theta=float(theta), average=average)
    return Setting(problem, solver, math.ceil(iterations))


def _quadratic_only(solver: ALEXR) -> None:
    if not map_is_quadratic(solver.mirror):
        raise ValueError(f"mirror must be Quadratic() for this theorem, got {solver.mirror}")
