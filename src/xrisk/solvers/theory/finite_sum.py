"""Settings of the theorems on SVRPDA-I and SPDC, for inner finite sums under a strongly convex penalty.

Constants of inner functions are those of single samples: ‖∇gᵢⱼ‖ ≤ C_g, and ∇gᵢⱼ is L_g-Lipschitz. The corrections of
``docs/decisions/0003-corrected-theorems.md`` are in place.
"""

import math
from typing import Any

from xrisk.functions.parameters import positive, require
from xrisk.inner.oracle import sample_lipschitz, sample_smoothness
from xrisk.problem import Problem, coupled
from xrisk.solvers.base import prepare_coupled
from xrisk.solvers.finite_sum.spdc import SPDC
from xrisk.solvers.finite_sum.svrpda import SVRPDAI
from xrisk.solvers.shared.epochs import LastPoint, RandomPoint, SingleLoop
from xrisk.solvers.theory.alexr import Setting
from xrisk.solvers.theory.constants import Constants, check_constants, estimate_constants


def theorem_4_5(problem: Problem, eps: float, *, constants: Constants | None = None, **estimates: Any) -> Setting:
    """SVRPDA-I, theorem 4.5 (Option I): E‖x − x*‖² + (a multiple of) E‖y − y*‖² falls by ¾ with every epoch.

    With κ = C_g² L_f/μ + (C_f L_g/μ)²::

        s = 1/(μ n (64κ + 1)),    s_y = L_f/(64κ + 1),    M = ⌈78.8 nκ + 1.3 n + 1.3⌉

    Parameters
    ----------
    problem : Problem
        Inner finite sums, a smooth outer function, a strongly convex penalty.
    eps : float
        The factor, below 1, by which the Lyapunov function is to fall.
    constants : Constants, optional
        Those of single samples; by default estimated, see `estimate_constants` for ``estimates``.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import bellman
    >>> from xrisk.functions import Ball
    >>> from xrisk.solvers import theory
    >>> problem = bellman(np.eye(2), [1.0, 2.0], np.eye(2), l2=1.0, domain=Ball(5.0), sampling="uniform")
    >>> c = theory.Constants(2, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0)  # κ = 2
    >>> setting = theory.theorem_4_5(problem, 0.01, constants=c)
    >>> setting.solver.epoch, setting.iterations // setting.solver.epoch
    (320, 17)
    """
    c = _constants(problem, eps, constants, estimates)
    kappa = c.lipschitz_g**2 * c.smoothness_f / c.mu + (c.lipschitz_f * c.smoothness_g / c.mu) ** 2
    size = 64.0 * kappa + 1.0
    epoch = math.ceil(78.8 * c.n * kappa + 1.3 * c.n + 1.3)
    solver = SVRPDAI(1.0 / (c.mu * c.n * size), c.smoothness_f / size, epoch, LastPoint())
    return Setting(problem, solver, epoch * math.ceil(math.log(eps) / math.log(0.75)))


def theorem_4_6(problem: Problem, eps: float, *, constants: Constants | None = None, **estimates: Any) -> Setting:
    """SVRPDA-I, theorem 4.6 (Option II): E‖x − x*‖² + E‖y − y*‖²/(n μ L_f) falls by ⅝ with every epoch.

    ::

        s = 1/(25 C_g² L_f + 10 C_f L_g + 80 C_f² L_g²/μ),    s_y = μ/(40 C_g²),    M = max(10/(s μ), 2n L_f/s_y, 4n)

    Arguments are those of `theorem_4_5`.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import bellman
    >>> from xrisk.functions import Ball
    >>> from xrisk.solvers import theory
    >>> problem = bellman(np.eye(2), [1.0, 2.0], np.eye(2), l2=1.0, domain=Ball(5.0), sampling="uniform")
    >>> c = theory.Constants(2, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
    >>> setting = theory.theorem_4_6(problem, 0.01, constants=c)
    >>> setting.solver.step, setting.solver.dual_step, setting.solver.epoch
    (0.02, 0.025, 500)
    """
    c = _constants(problem, eps, constants, estimates)
    curved = c.lipschitz_f * c.smoothness_g
    step = 1.0 / (25.0 * c.lipschitz_g**2 * c.smoothness_f + 10.0 * curved + 80.0 * curved**2 / c.mu)
    dual_step = c.mu / (40.0 * c.lipschitz_g**2)
    epoch = math.ceil(max(10.0 / (step * c.mu), 2.0 * c.n * c.smoothness_f / dual_step, 4.0 * c.n))
    solver = SVRPDAI(step, dual_step, epoch, RandomPoint())
    return Setting(problem, solver, epoch * math.ceil(math.log(eps) / math.log(0.625)))


def theorem_f_1(problem: Problem, eps: float, *, constants: Constants | None = None, **estimates: Any) -> Setting:
    """SVRPDA-I, theorem F.1: one loop without end, for affine gᵢ of one sample each.

    With κ = C_g² L_f/μ::

        s = 1/(16 C_g² L_f + 4 n μ),    s_y = (L_f/2) (3n + κ + 1)/(n + κ + 1)

    and Δ = (1/(2s) + μ) E‖x − x*‖² + (1/(2s_y) + 1/L_f) E‖y − y*‖² falls by 1 − 1/(1 + 8κ + 2n) with every iteration;
    2κ is printed there, which does not hold. Arguments are those of `theorem_4_5`.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import bellman
    >>> from xrisk.functions import Ball
    >>> from xrisk.solvers import theory
    >>> problem = bellman(np.eye(2), [1.0, 2.0], np.eye(2), l2=1.0, domain=Ball(5.0), sampling="exact")
    >>> c = theory.Constants(2, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
    >>> setting = theory.theorem_f_1(problem, 0.01, constants=c)
    >>> setting.solver.step, setting.solver.dual_step, setting.iterations
    (0.025, 1.8, 95)
    """
    prepare_coupled(problem, SPDC(blocks=1))  # the same problems
    c = _constants(problem, eps, constants, estimates)
    kappa = c.lipschitz_g**2 * c.smoothness_f / c.mu
    step = 1.0 / (16.0 * c.lipschitz_g**2 * c.smoothness_f + 4.0 * c.n * c.mu)
    dual_step = 0.5 * c.smoothness_f * (3.0 * c.n + kappa + 1.0) / (c.n + kappa + 1.0)
    left = 1.0 / (1.0 + 8.0 * kappa + 2.0 * c.n)
    return Setting(problem, SVRPDAI(step, dual_step, SingleLoop()), math.ceil(math.log(eps) / math.log1p(-left)))


def spdc_setting(
    problem: Problem, eps: float, *, blocks: int = 1, constants: Constants | None = None, **estimates: Any
) -> Setting:
    """SPDC's theorem 1: E‖x − x*‖² falls like θ^t, for affine gᵢ of one sample each and ‖aᵢ‖ ≤ R = C_g.

    ::

        s = √(S/(n μ L_f))/(2R),    s_y = √(n μ L_f/S)/(2R),    θ = 1 − 1/(n/S + R √(n L_f/(S μ)))

    Arguments are those of `theorem_4_5`; S is ``blocks``.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import bellman
    >>> from xrisk.functions import Ball
    >>> from xrisk.solvers import theory
    >>> problem = bellman(np.eye(2), [1.0, 2.0], np.eye(2), l2=1.0, domain=Ball(5.0), sampling="exact")
    >>> c = theory.Constants(2, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0)
    >>> theory.spdc_setting(problem, 0.01, constants=c).solver
    SPDC(step=0.25, dual_step=1.0, theta=0.75, blocks=1)
    """
    _, solver = prepare_coupled(problem, SPDC(blocks=blocks))
    c = _constants(problem, eps, constants, estimates)
    visits = c.n / blocks
    ratio = math.sqrt(visits * c.mu * c.smoothness_f)
    theta = 1.0 - 1.0 / (visits + c.lipschitz_g * math.sqrt(visits * c.smoothness_f / c.mu))
    solver = solver._replace(
        step=1.0 / (2.0 * c.lipschitz_g * ratio), dual_step=ratio / (2.0 * c.lipschitz_g), theta=theta
    )
    return Setting(problem, solver, math.ceil(math.log(eps) / math.log(theta)))


def _constants(problem: Problem, eps: float, constants: Constants | None, estimates: dict[str, Any]) -> Constants:
    positive("eps", eps)
    require(eps < 1.0, "eps", eps, "below 1: the factor by which the distance is to fall")
    if constants is None:
        inner = coupled(problem).inner
        c = estimate_constants(problem, **estimates)
        c = c._replace(lipschitz_g=float(sample_lipschitz(inner)), smoothness_g=float(sample_smoothness(inner)))
    else:
        c = constants
    check_constants(c, strongly=True)
    if not math.isfinite(c.smoothness_g):
        raise ValueError("the theorems on SVRPDA need smooth inner functions, smoothness_g is inf")
    return c
