"""Settings of the methods that track inner values: from the constants of a problem and a target ε to a solver.

The theorems are about a random iterate and, but for the last one, about stationarity of a non-convex F; stop after a
uniformly random number of iterations for theirs. Where a text has O(·) only, the constant is put to one and the
docstring says so.
"""

import math
from typing import Any

import numpy as np

from xrisk.annotations import Solver
from xrisk.functions import block_slope
from xrisk.functions.parameters import positive
from xrisk.inner.oracle import inner_dim
from xrisk.problem import Problem, coupled
from xrisk.solvers.coupled.msvr import MSVR, CorrectedGradient, UnitStep
from xrisk.solvers.coupled.sonex import SONEX
from xrisk.solvers.coupled.sonx import SONX
from xrisk.solvers.coupled.sox import SOX, FreshBatch
from xrisk.solvers.restarted import Restarted
from xrisk.solvers.schedules import LastIterate
from xrisk.solvers.shared.tracking import TheoryCorrection, corrects
from xrisk.solvers.theory.alexr import Setting
from xrisk.solvers.theory.constants import Constants, check_constants, estimate_constants, gradient_noise


def sox_setting(
    problem: Problem,
    eps: float,
    *,
    drop: float,
    constants: Constants | None = None,
    solver: Solver = SOX(),
    **estimates: Any,
) -> Setting:
    """Book, theorem 5.1 (corrected): f and g smooth; E‖∇F‖² ≤ ε² at a random iterate::

        β = ε²/(4σ²),    γ = min{ ε²B/(128 C_g² L_f² σ₀²), n ε √B/(2 S C_g L_f σ₀) }
        s = min{ 1/(2L_F), β/(2√(4L_F² + 2)), S γ/(n √(512 C_g⁴ L_f²)) },    L_F = C_f L_g + C_g² L_f

    T is O(n σ₀²/(S B ε⁴)) in the text; we take the usual 4·drop/(s ε²), at least the 1/β and n/(Sγ) of the filters.

    Parameters
    ----------
    problem : Problem
        Its outer and inner functions are smooth.
    eps : float
        The norm of the gradient to reach.
    drop : float
        A bound on F(x₀) − F*.
    constants : Constants, optional
        Estimated, with the further arguments of `estimate_constants`, if not given.
    solver : SOX
        Its other fields are kept.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import theory
    >>> c = theory.Constants(4, 1.1, 1.0, 1.0, 0.0, 2.0, 0.0, 0.5, 0.125, 1.0, 1.0)
    >>> setting = theory.sox_setting(hard_smooth(4).problem, 0.1, drop=0.1, constants=c)
    >>> round(setting.solver.track * 128, 9)  # ε²B/σ₀²
    0.04
    """
    c, solver = _settle(problem, eps, constants, solver, estimates)
    _smooth(c, outer=True)
    positive("drop", drop)
    share, curve, noise = solver.blocks / c.n, c.lipschitz_g * c.smoothness_f, math.sqrt(c.noise_value / solver.batch)
    total = c.lipschitz_f * c.smoothness_g + c.lipschitz_g * curve  # L_F
    momentum = _fraction(eps**2, 4.0 * gradient_noise(c, solver.blocks, solver.batch), 1.0)
    track = min(_fraction(eps**2, 128.0 * (curve * noise) ** 2, 1.0), _fraction(eps, 2.0 * share * curve * noise, 1.0))
    step = min(
        _fraction(1.0, 2.0 * total, math.inf),
        momentum / (2.0 * math.sqrt(4.0 * total**2 + 2.0)),
        _fraction(share * track, math.sqrt(512.0) * c.lipschitz_g * curve, math.inf),
    )
    iterations = max(4.0 * drop / (step * eps**2), 1.0 / momentum, 1.0 / (share * track))
    solver = solver._replace(step=step, track=track, momentum=momentum, average=LastIterate())
    return Setting(problem, solver, math.ceil(iterations))


def sonx_setting(
    problem: Problem, eps: float, *, constants: Constants | None = None, solver: Solver = SONX(), **estimates: Any
) -> Setting:
    """Hu, Zhu and Yang 2023: F weakly convex, nearly ε-stationary at a random iterate, p = 2 if f is smooth, else 4::

        γ = εᵖ B/σ₀²,    s = (S/n) γ ε^{p/2} for v1, (S/n) √γ ε^{p/2} for v2,    T = 1/(s ε²)

    which is T = n σ₀²/(S B ε⁸) for v1 and n σ₀/(S √B ε⁶) for v2, with smooth f ε⁵ and ε⁴. Only these orders are
    known, all constants are put to one; γ is at most 1, in v2 at most ½. The correction of v2 becomes the theory's.

    Examples
    --------
    >>> from xrisk.applications import hard_nonsmooth
    >>> from xrisk.solvers import SONX, theory
    >>> c = theory.Constants(4, 1.0, float("inf"), 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0)
    >>> solver = SONX(correction=0.0, blocks=2, batch=1)
    >>> theory.sonx_setting(hard_nonsmooth(4).problem, 0.5, constants=c, solver=solver).iterations == 4 / 2 / 0.5**8
    True
    """
    c, solver = _settle(problem, eps, constants, solver, estimates)
    power = 2.0 if math.isfinite(c.smoothness_f) else 4.0
    v2 = corrects(solver.correction)
    track = _fraction(eps**power * solver.batch, c.noise_value, 0.5 if v2 else 1.0)
    step = solver.blocks / c.n * (math.sqrt(track) if v2 else track) * eps ** (power / 2.0)
    solver = _with_theory(solver._replace(step=step, track=track))
    return Setting(problem, solver, math.ceil(1.0 / (step * eps**2)))


def sonex_setting(
    problem: Problem, eps: float, *, constants: Constants | None = None, solver: Solver = SONEX(), **estimates: Any
) -> Setting:
    """Book, theorems on SONEX: g smooth, approximately ε-stationary at a random iterate::

        ν = ε,    β = ε²/σ²,    γ = ε⁴B/σ₀²,    T = 1/(s ε²)
        s = min{ ε, βε, S ε γ/n } for v1, min{ ε, βε, S ε √γ/n } for v2

    Only these orders are known, all constants are put to one; β is at most 1, γ too, in v2 at most ½. For v2 the text
    has γ = O(ε²/σ₀²), which fits neither its T = O(n σ₀/(S ε⁵)) nor its initial error O(ε³/σ₀) nor the accuracy ε ν
    that ∇f_ν asks of uᵢ; ε⁴, as in v1, fits all three. The correction of v2 becomes the theory's.

    Examples
    --------
    >>> from xrisk.applications import hard_nonsmooth
    >>> from xrisk.solvers import SONEX, theory
    >>> c = theory.Constants(4, 1.0, float("inf"), 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    >>> solver = SONEX(correction=0.0, blocks=2, batch=1)
    >>> theory.sonex_setting(hard_nonsmooth(4).problem, 0.5, constants=c, solver=solver).iterations == 4 / 2 / 0.5**7
    True
    """
    c, solver = _settle(problem, eps, constants, solver, estimates)
    _smooth(c, outer=False)
    v2 = corrects(solver.correction)
    momentum = _fraction(eps**2, gradient_noise(c, solver.blocks, solver.batch), 1.0)
    track = _fraction(eps**4 * solver.batch, c.noise_value, 0.5 if v2 else 1.0)
    step = eps * min(momentum, solver.blocks / c.n * (math.sqrt(track) if v2 else track))
    solver = _with_theory(solver._replace(step=step, track=track, momentum=momentum, nu=float(eps)))
    return Setting(problem, solver, math.ceil(1.0 / (step * eps**2)))


def msvr_setting(
    problem: Problem, eps: float, *, constants: Constants | None = None, solver: Solver = MSVR(), **estimates: Any
) -> Setting:
    """Jiang et al. 2022, MSVR v2 with unit steps: f and g smooth; E‖∇F‖ = O(ε) at a random iterate::

        γ = (n/(S T))^{2/3},    β = n^{2/3} S^{1/3}/T^{2/3},    s = S^{1/3}/(n^{1/3} T^{2/3}),    T = n σ₀/(S √B ε³)

    Only these orders are known, for B = 1; all constants are put to one. γ is at most ½, β at most 1, T at least
    n/(S ε²).

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import MSVR, theory
    >>> c = theory.Constants(4, 1.1, 1.0, 1.0, 0.0, 1.0, 0.0, 0.5, 0.125, 1.0, 1.0)
    >>> theory.msvr_setting(hard_smooth(4).problem, 0.1, constants=c, solver=MSVR(blocks=2, batch=1)).iterations
    2000
    """
    c, solver = _settle(problem, eps, constants, solver, estimates)
    _smooth(c, outer=True)
    n, S = float(c.n), float(solver.blocks)
    iterations = math.ceil(n / (S * eps**2) * max(math.sqrt(c.noise_value / solver.batch) / eps, 1.0) - 1e-9)
    slow = iterations ** (2.0 / 3.0)
    solver = solver._replace(
        step=(S / n) ** (1.0 / 3.0) / slow,
        track=min((n / S) ** (2.0 / 3.0) / slow, 0.5),
        momentum=min(n ** (2.0 / 3.0) * S ** (1.0 / 3.0) / slow, 1.0),
        gradient=CorrectedGradient(),
        scaling=UnitStep(),
    )
    return Setting(problem, _with_theory(solver), iterations)


def sox_boost_setting(
    problem: Problem,
    eps: float,
    *,
    drop: float,
    constants: Constants | None = None,
    solver: Solver = SOX(),
    **estimates: Any,
) -> Setting:
    """Jiang et al. 2022, journal version: ∇f linear, F smooth and μ-PL; E[F − F*] ≤ ε after K stages of SOX, γ = 1::

        V = 2 (C_f² + L_f² C_g²) σ² + C_f² C_g²,    ε_k = drop/2ᵏ,    K = ⌈log₂(drop/ε)⌉
        β_k = S μ ε_k/(8V),    s_k = β_k/(4 √(L_F² + 4 L_f² C_g⁴)),    T_k = 8 max{ 1/β_k, 1/(μ s_k) }

    with explicit constants; σ² is the larger of σ₀²/B and σ₁²/B, and a linear ∇f makes the gradient unbiased, for which
    the Jacobian has a batch of its own. μ is that of the penalty unless ``constants`` has more of F.

    Parameters are those of `sox_setting`. The iterations are those of K stages of full length; `Restarted` stops its
    stages after a random part of theirs, so more than K stages fit in.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, Square
    >>> from xrisk.solvers import theory
    >>> problem = xrisk.Problem(xrisk.inner.NoisyCoordinates(4, nu=0.1), Square(), L2(0.5))
    >>> c = theory.Constants(4, 4.0, 2.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.5, 2.0, 1.0)
    >>> setting = theory.sox_boost_setting(problem, 0.25, drop=1.0, constants=c)
    >>> setting.solver.solver.track, setting.solver.growth
    (1.0, 2.0)
    """
    c, solver = _settle(problem, eps, constants, solver, estimates)
    check_constants(c, strongly=True)
    _smooth(c, outer=True)
    _linear_slope(coupled(problem))
    positive("drop", drop)
    stages, first = max(math.ceil(math.log2(drop / eps)), 1), drop / 2.0
    noise, curvature = max(c.noise_value, c.noise_gradient) / solver.batch, c.smoothness_f * c.lipschitz_g
    spread = 2.0 * (c.lipschitz_f**2 + curvature**2) * noise + (c.lipschitz_f * c.lipschitz_g) ** 2
    momentum = min(solver.blocks * c.mu * first / (8.0 * spread), 1.0)
    total = c.lipschitz_f * c.smoothness_g + c.lipschitz_g * curvature  # L_F
    step = _fraction(momentum, 4.0 * math.hypot(total, 2.0 * c.lipschitz_g * curvature), 1.0 / c.mu)
    length = math.ceil(8.0 * max(1.0 / momentum, 1.0 / (c.mu * step)))
    solver = solver._replace(step=step, track=1.0, momentum=momentum, pairing=FreshBatch(), average=LastIterate())
    return Setting(problem, Restarted(solver, length, track_factor=1.0), length * (2**stages - 1))


def _settle(
    problem: Problem, eps: float, constants: Constants | None, solver: Solver, estimates: dict[str, Any]
) -> tuple[Constants, Any]:
    positive("eps", eps)
    _, solver = solver.prepare(problem)
    c = estimate_constants(problem, **estimates) if constants is None else constants
    check_constants(c, strongly=False)
    return c, solver


def _smooth(c: Constants, *, outer: bool) -> None:
    if outer and not math.isfinite(c.smoothness_f):
        raise ValueError("this theorem needs a smooth outer function, smoothness_f is inf: use sonx_setting")
    if not math.isfinite(c.smoothness_g):
        raise ValueError("this theorem needs smooth inner functions, smoothness_g is inf: use sonx_setting")


def _linear_slope(problem: Problem) -> None:
    """Refuse f unless ∇f is linear, seen at a few points."""
    m = inner_dim(problem.inner)
    slopes: list[np.ndarray] = []
    for u in (-100.0, -1.0, 0.0, 1.0, 100.0):
        y = np.empty(m)
        block_slope(problem.outer, np.full(m, u), y)
        slopes.append(y - slopes[0] if slopes else y)
    expected = np.outer([99.0, 100.0, 101.0, 200.0], slopes[2] / 100.0)
    if not np.allclose(slopes[1:], expected, rtol=1e-9, atol=0.0):
        raise ValueError(f"this theorem needs an outer function of linear slope, got {type(problem.outer).__name__}")


def _fraction(top: float, noise: float, most: float) -> float:
    """top/noise, at most ``most``; without noise there is nothing to average."""
    return min(top / noise, most) if noise > 0 else most


def _with_theory(solver: Solver) -> Any:
    correction = TheoryCorrection() if corrects(solver.correction) else 0.0
    return solver._replace(correction=correction, average=LastIterate())
