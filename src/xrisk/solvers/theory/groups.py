"""Step sizes of the theorems on SMD, OOA and NOL: from the constants of a problem and a target ε to a solver.

The constants are recalled; those of SMD and OOA agree with the general theorem on mirror descent for saddle points
(Nemirovski, Juditsky, Lan and Shapiro 2009). Losses are in [0, M], M = ``scale``, sampled gradients of norm at most
G = ``gradient``, and ½‖w₀ − w*‖² ≤ D² = radius²/2. The theorems have a domain where we take the proximal step of r.
"""

import math
from typing import Any

import numpy as np

from xrisk.annotations import Solver
from xrisk.inner.oracle import inner_count
from xrisk.problem import Problem
from xrisk.solvers.groups.nol import NOL
from xrisk.solvers.groups.ooa import OOA
from xrisk.solvers.groups.smd import SMD
from xrisk.solvers.schedules import UniformAverage
from xrisk.solvers.theory.alexr import Setting


def smd_setting(
    problem: Problem, eps: float, *, radius: float, gradient: float, scale: float = 1.0, solver: SMD = SMD()
) -> Setting:
    """Zhang et al. 2023, theorem 1: the averages have an expected duality gap of 2K√(10/T), K² = D²G² + M² log n.

    s = D²·c and η = log n·c with c = √(8/(5T))/K. CVaR has the same setting as the maximum.

    Parameters
    ----------
    problem : Problem
        The maximum or a CVaR of the inner values.
    eps : float
        The expected duality gap to reach.
    radius : float
        A bound on ‖w₀ − w*‖.
    gradient : float
        A bound on the norm of a sampled gradient.
    scale : float
        A bound on sampled losses, which must not be negative.
    solver : SMD
        Its other fields are kept.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> X, groups = np.eye(4), [0, 0, 1, 1]
    >>> problem = xrisk.group_dro(X, [1, -1, 1, -1], groups, divergence="max", l2=0.1)
    >>> xrisk.solvers.theory.smd_setting(problem, 0.1, radius=2.0, gradient=1.0, scale=3.0).iterations
    32954
    """
    n, solver = _settle(problem, solver, eps, (radius, gradient, scale))
    return _mirror_descent(problem, solver, eps, (radius, gradient, scale), n)


def ooa_setting(
    problem: Problem, eps: float, *, radius: float, gradient: float, scale: float = 1.0, solver: OOA = OOA()
) -> Setting:
    """Sagawa et al. 2020, proposition 2: as `smd_setting` with losses and gradients n/S times as large.

    T is of order n²(log n)/ε². The proposition has S = 1; n/S for other S is put by analogy. It takes the gradient for
    unbiased, which it is up to O(η) only, because of the new weights.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> problem = xrisk.group_dro(np.eye(4), [1, -1, 1, -1], [0, 0, 1, 1], divergence="max", l2=0.1)
    >>> known = {"radius": 2.0, "gradient": 1.0, "scale": 3.0}
    >>> xrisk.solvers.theory.ooa_setting(problem, 0.1, **known, solver=xrisk.solvers.OOA(blocks=1)).iterations
    131814
    """
    n, solver = _settle(problem, solver, eps, (radius, gradient, scale))
    factor = n / solver.blocks  # type: ignore[operator]
    return _mirror_descent(problem, solver, eps, (radius, factor * gradient, factor * scale), n)


def nol_setting(
    problem: Problem, eps: float, *, radius: float, gradient: float, scale: float = 1.0, solver: NOL = NOL()
) -> Setting:
    """Zhang et al. 2023, on their Algorithm 2: s = 2D/(G√(5T)) and η = √(log n/(nT)).

    T is where the leading terms of the two regrets, 2√5·DG/√T and 2M√(n log n/T), sum to ε; those that make the bound
    hold with high probability are left out.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> problem = xrisk.group_dro(np.eye(4), [1, -1, 1, -1], [0, 0, 1, 1], divergence="max", l2=0.1)
    >>> xrisk.solvers.theory.nol_setting(problem, 0.1, radius=2.0, gradient=1.0, scale=3.0).iterations
    17927
    """
    n, solver = _settle(problem, solver, eps, (radius, gradient, scale))
    log, distance = math.log(max(n, 2)), radius / math.sqrt(2.0)
    root = 2.0 * (math.sqrt(5.0) * distance * gradient + scale * math.sqrt(n * log)) / eps  # √T
    solver = solver._replace(
        step=2.0 * distance / (gradient * math.sqrt(5.0) * root),
        dual_step=math.sqrt(log / n) / root,
        scale=float(scale),
        average=UniformAverage(),
    )
    return Setting(problem, solver, math.ceil(root**2))


def _mirror_descent(
    problem: Problem, solver: Solver, eps: float, constants: tuple[float, float, float], n: int
) -> Setting:
    radius, gradient, scale = constants
    log, distance2 = math.log(max(n, 2)), radius**2 / 2.0  # with one group there is no weight to move
    k2 = distance2 * gradient**2 + scale**2 * log
    iterations = math.ceil(40.0 * k2 / eps**2)
    c = math.sqrt(8.0 / (5.0 * iterations * k2))
    solver = solver._replace(step=distance2 * c, dual_step=log * c, average=UniformAverage())
    return Setting(problem, solver, iterations)


def _settle(problem: Problem, solver: Solver, eps: float, constants: tuple[float, ...]) -> tuple[int, Any]:
    for name, value in zip(("eps", "radius", "gradient", "scale"), (eps, *constants), strict=True):
        if not 0.0 < value < np.inf:
            raise ValueError(f"{name} must be positive, got {value}")
    problem, solver = solver.prepare(problem)
    return inner_count(problem.inner), solver
