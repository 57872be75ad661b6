"""Settings of the methods that look at all blocks: the exponents of SCGD and ASC-PG, the condition of SAPD."""

import math
from typing import Any

from xrisk.functions import penalty_convexity
from xrisk.functions.parameters import positive
from xrisk.problem import Problem, coupled
from xrisk.solvers.base import prepare_coupled
from xrisk.solvers.coupled.ascpg import ASCPG
from xrisk.solvers.coupled.sapd import SAPD
from xrisk.solvers.coupled.scgd import SCGD
from xrisk.solvers.schedules import Decreasing, LastIterate
from xrisk.solvers.theory.alexr import Setting
from xrisk.solvers.theory.constants import Constants, check_constants, estimate_constants, gradient_noise


def scgd_strongly_convex(problem: Problem, *, mu: float | None = None, delay: float = 1.0, **options: Any) -> SCGD:
    """SCGD for μ > 0: α_k = 1/(μ k) and β_k = k^{−2/3}, for which E‖x_k − x*‖² = O(k^{−2/3}).

    μ is that of the penalty if it is not given. k counts from ``delay``: 1 in the text, more to begin with smaller
    steps. ``options`` are further fields of the solver.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import theory
    >>> theory.scgd_strongly_convex(hard_smooth(4).problem, delay=10.0).step
    Decreasing(initial=0.8, delay=10.0, power=1.0)
    """
    step, track = _strongly_convex(problem, mu, delay, 2.0 / 3.0)
    return SCGD(step, track, **{"average": LastIterate(), **options})


def ascpg_strongly_convex(problem: Problem, *, mu: float | None = None, delay: float = 1.0, **options: Any) -> ASCPG:
    """ASC-PG for μ > 0: α_k = 1/(μ k) and β_k = k^{−4/5}, for which E‖x_k − x*‖² = O(k^{−4/5}).

    The exponents are recalled, and the constant 1/μ is that of SCGD. Arguments are those of `scgd_strongly_convex`.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import theory
    >>> theory.ascpg_strongly_convex(hard_smooth(4).problem).track
    Decreasing(initial=1.0, delay=1.0, power=0.8)
    """
    step, track = _strongly_convex(problem, mu, delay, 0.8)
    return ASCPG(step, track, **{"average": LastIterate(), **options})


def _strongly_convex(problem: Problem, mu: float | None, delay: float, power: float) -> tuple[Decreasing, Decreasing]:
    positive("delay", delay)
    mu = float(penalty_convexity(coupled(problem).penalty)) if mu is None else mu
    if not 0.0 < mu < math.inf:
        raise ValueError(f"mu must be positive, got {mu}: these exponents are for a strongly convex objective")
    return Decreasing(1.0 / (mu * delay), float(delay), 1.0), Decreasing(1.0, float(delay), power)


def sapd_setting(
    problem: Problem,
    eps: float,
    *,
    constants: Constants | None = None,
    blocks: int = 1,
    batch: int = 8,
    **estimates: Any,
) -> Setting:
    """SAPD for μ > 0, f smooth: s = (1−θ)/(μθ), σ_y = (1−θ)/(μ_y θ), μ_y = 1/(n L_f), for (μ/2) E‖x_T − x*‖² ≤ ε.

    The coupling is linear in y, so the matrix inequality of the method becomes, with A = μ + C_f L_g,

        1/(1−θ) ≥ ( A + √(A² + 4 μ L_yx²/μ_y) ) / (2μ),    L_yx = C_g/√n

    (the ALEXR paper prints C_g/n, which would have n copies of one block solved faster than the block). Of the bounds
    1−θ ≲ με/σ² and ε/(L_f σ₀²) that push the noise below ε only the orders are known: one absolute constant is put for
    each, and for the iterations. Constants that are not given are estimated, see `estimate_constants`.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import theory
    >>> c = theory.Constants(4, 1.1, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.125, 1.0, 1.0)
    >>> setting = theory.sapd_setting(hard_smooth(4).problem, 0.01, constants=c)
    >>> round(1 / (1 - setting.solver.theta), 6) == round((0.125 + (0.125**2 + 0.5) ** 0.5) / 0.25, 6)
    True
    """
    positive("eps", eps)
    _, solver = prepare_coupled(problem, SAPD(blocks=blocks, batch=batch, average=LastIterate()))
    c = estimate_constants(problem, **estimates) if constants is None else constants
    check_constants(c, strongly=True)
    if not math.isfinite(c.smoothness_g):
        raise ValueError("SAPD's theorem needs smooth inner functions, smoothness_g is inf")
    a = c.mu + c.lipschitz_f * c.smoothness_g
    bounds = [0.5, 2.0 * c.mu / (a + math.sqrt(a**2 + 4.0 * c.mu * c.lipschitz_g**2 * c.smoothness_f))]
    noises = ((c.mu * eps, gradient_noise(c, blocks, batch)), (eps * batch, c.smoothness_f * c.noise_value))
    left = min(bounds + [top / noise for top, noise in noises if noise > 0])  # 1 − θ
    theta = 1.0 - left
    start = c.mu / 2.0 * c.distance**2 + c.omega / (c.n * c.smoothness_f)
    solver = solver._replace(step=left / (c.mu * theta), dual_step=c.smoothness_f * left / theta, theta=theta)
    return Setting(problem, solver, math.ceil(math.log(max(3.0 * start / eps, math.e)) / left))
