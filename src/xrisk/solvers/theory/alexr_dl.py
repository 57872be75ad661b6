"""The setting of ALEXR-DL: theorem 5.7 in every stage, as many stages as the proximal-point method needs."""

import math
from typing import Any

from xrisk.functions.parameters import positive
from xrisk.inner.oracle import inner_dim
from xrisk.problem import Problem, coupled
from xrisk.solvers.coupled.alexr_dl import ALEXRDL, smoothed
from xrisk.solvers.theory.alexr import Setting, theorem_5_7
from xrisk.solvers.theory.constants import Constants, estimate_constants


def alexr_dl_setting(
    problem: Problem,
    eps: float,
    *,
    gap: float,
    weak_convexity: float | None = None,
    constants: Constants | None = None,
    blocks: int | None = None,
    batch: int = 8,
    **estimates: Any,
) -> Setting:
    """ALEXR-DL for a point with ρ̄ ‖x_k − x̂_k‖ ≤ ε in expectation, for one of the stages.

    ρ̄ = 2ρ_F with ρ_F = √m·C_f·ρ_g. A stage is (ρ̄ − ρ_F)-strongly convex and has the parameters of `theorem_5_7` for the
    target ε²; there are 2ρ̄·gap/ε² of them, which is what exact stages need. Where f has a kink it is smoothed with
    ν = ε, and the point is approximately stationary. Only the orders of the target and of the number of stages are in
    the text: one absolute constant is put for each.

    Parameters
    ----------
    problem : Problem
        Inner functions that are convex up to a quadratic, under a non-decreasing outer function.
    eps : float
        The target.
    gap : float
        A bound on F(x₀) − min F.
    weak_convexity : float, optional
        ρ_g, of every component; by default L_g, the smoothness of all m, stands for √m·ρ_g.
    constants : Constants, optional
        Those of the problem; estimated if not given, see `estimate_constants`, which takes ``estimates``.
    blocks, batch : int
        S and B.

    Examples
    --------
    >>> from xrisk.applications import hard_smooth
    >>> from xrisk.solvers import theory
    >>> c = theory.Constants(4, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0)
    >>> setting = theory.alexr_dl_setting(hard_smooth(4).problem, 0.1, gap=0.5, constants=c)
    >>> setting.solver.strength, setting.iterations == 100 * setting.solver.length
    (1.0, True)
    """
    positive("eps", eps)
    positive("gap", gap)
    work = coupled(problem)
    c = estimate_constants(problem, **estimates) if constants is None else constants
    curve = c.smoothness_g if weak_convexity is None else math.sqrt(inner_dim(work.inner)) * weak_convexity
    rho = c.lipschitz_f * curve  # ρ_F
    if not 0.0 < rho < math.inf:
        raise ValueError(f"weak_convexity must make √m·C_f·ρ_g positive and finite, got {curve}")
    smoothing = None
    if math.isinf(c.smoothness_f):
        smoothing, c, work = float(eps), c._replace(smoothness_f=1.0 / eps), smoothed(work, eps)
    stage = theorem_5_7(work, eps**2, constants=c._replace(mu=c.mu + rho), blocks=blocks, batch=batch)
    solver = ALEXRDL(stage.solver, 2.0 * rho, stage.iterations, smoothing)
    return Setting(problem, solver, stage.iterations * math.ceil(4.0 * rho * gap / eps**2))
