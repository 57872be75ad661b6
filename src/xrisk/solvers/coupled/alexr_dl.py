"""ALEXR-DL: a proximal-point loop around ALEXR, for inner functions that are convex up to a quadratic."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Solver
from xrisk.compile import canonical
from xrisk.functions import Smoothed, outer_value
from xrisk.functions.parameters import check_spec, checks, positive, share, whole_from
from xrisk.functions.proximal import Proximal
from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem, coupled
from xrisk.solvers.base import check_state
from xrisk.solvers.card import LIPSCHITZ_OUTER, MONOTONE_OUTER, MethodCard
from xrisk.solvers.coupled.alexr import ALEXR, ALEXRState, check_bounds
from xrisk.solvers.method import register


class ALEXRDLState(NamedTuple):
    center: np.ndarray  # x_k, around which the present stage works
    v: np.ndarray  # average of the displacements x_k − z_k of the stages
    inner: ALEXRState  # of the present stage
    t: int  # iterations of all stages


# momentum is a number: schedules are for iterations, not stages
@checks(strength=positive, length=whole_from(1), momentum=share, outer_step=positive)
class ALEXRDL(NamedTuple):
    """Double-loop ALEXR [1]_, section 5.4.5; [2]_, theorem 4.5; with momentum ALEXR2 [3]_.

    Stage k solves, by ``length`` iterations of ALEXR from x_k and the duals of the stage before::

        z_k ≈ argmin  (1/n) Σ f(gᵢ(x)) + r(x) + (ρ̄/2) ‖x − x_k‖²
        v ← (1 − β) v + β (x_k − z_k),    x_{k+1} = x_k − η v,    which is z_k for β = η = 1

    gᵢ may be weakly convex: then F is, with ρ_F = √m·C_f·ρ_g, and every stage is convex if ρ̄ > ρ_F. ρ̄ ‖x_k − x̂_k‖, with
    x̂_k the exact minimiser of stage k, measures how far x_k is from being stationary.

    Parameters
    ----------
    solver : ALEXR
        The inner method; its schedules and its average begin anew in each stage.
    strength : float
        ρ̄, more than the weak convexity ρ_F; 2ρ_F is usual.
    length : int
        Iterations per stage.
    smoothing : float, optional
        ν of the Moreau envelope f_ν that replaces f: 0 ≤ f − f_ν ≤ ν C_f²/2. For f with a kink, where an
        approximately stationary point is enough.
    momentum : float
        Weight β of the displacement of the present stage.
    outer_step : float
        η, in units of 1/ρ̄ along the gradient ρ̄ (x_k − z_k) of the envelope.

    Notes
    -----
    The book's display of a stage omits r, and has β = η = 1. Lengths of the stages and accuracies are those of the
    papers it cites, which give orders only: ``length`` is a constant here, see
    `xrisk.solvers.theory.alexr_dl_setting`. The method reports z_k of the present stage. A problem
    does not say how weakly convex its inner functions are: the caller must ensure ρ̄ > ρ_F. On a convex problem any
    ρ̄ > 0 leads to the optimum.

    ALEXR2 is this method with ``smoothing`` and a ``momentum`` below 1. It smooths f by an envelope and the objective
    by another one with parameter 1/ρ̄, whose gradient is ρ̄ (x_k − z_k). It takes momentum steps along this gradient;
    ALEXR computes z_k. This follows the authors' code and a summary; we did not have the algorithm box. They take 5
    iterations per stage, β = 0.1, and begin a stage at x_k, as we do, or where the last one ended. Their inner loop
    tracks gᵢ and takes the slope of the envelope there, which is ALEXR under the mirror map `Conjugate()`. Their
    experiments scale the outer step as Adam does, which we do not offer. v begins at the first displacement.

    References
    ----------
    .. [1] Yang, opt4ml, section 5.4.5.
    .. [2] Zhou, Wang and Yang, Stochastic primal-dual double block-coordinate for two-way partial AUC
       maximization, 2025.
    .. [3] Chen, Wang, Yang, Lin and Yang, Stochastic momentum methods for non-smooth non-convex finite-sum coupled
       compositional optimization, arXiv 2506.02504.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 4, 300)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.ALEXRDL(length=20), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    solver: Solver = ALEXR()
    strength: float = 0.5
    length: int = 1000
    smoothing: float | None = None
    momentum: float = 1.0
    outer_step: float = 1.0

    def card(self) -> MethodCard:
        inner = self.solver.card()
        return MethodCard(
            "ALEXR-DL",
            "book, section 5.4.5; Zhou, Wang and Yang 2025, theorem 4.5; Chen et al. 2025, authors' code",
            "as published",
            values=inner.values,
            gradients=inner.gradients,
            rate="weakly convex g: nearly stationary n/(Sε⁶), f smooth n/(Sε⁴); smoothed, approximately, n/(Sε⁵)",
            theory=(MONOTONE_OUTER, LIPSCHITZ_OUTER),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "ALEXRDL"]:
        if type(self.solver) is not ALEXR:
            raise TypeError(f"solver must be an ALEXR, got {self.solver!r}")
        check_spec(self)
        check_bounds(problem, self.solver.threshold)
        problem = coupled(problem, self.solver.threshold)
        if self.smoothing is not None:
            problem = smoothed(problem, self.smoothing)
        problem, solver = self.solver.prepare(problem)
        return problem, canonical(self._replace(solver=solver, length=int(self.length)))

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return self.solver.start(problem, w)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> ALEXRDLState:
        return ALEXRDLState(x.copy(), np.zeros(x.size), self.solver.init(problem, x, rng), 0)

    def advance(self, problem: Problem, state: ALEXRDLState, n_steps: int, rng: np.random.Generator) -> ALEXRDLState:
        center, v, inner, t = state
        end = t + n_steps
        while True:
            around = problem._replace(penalty=Proximal(problem.penalty, self.strength, center))
            steps = min(end - t, self.length - inner.t)
            inner, t = self.solver.advance(around, inner, steps, rng), t + steps
            if inner.t == self.length:
                z = self.solver.solution(inner)
                momentum = self.momentum if t > self.length else 1.0
                v = (1.0 - momentum) * v + momentum * (center - z)
                center = z + ((center - z) - self.outer_step * v)  # exactly z without momentum
                inner = self._restarted(problem, inner, center, rng)
            if t == end:
                return ALEXRDLState(center, v, inner, t)

    def _restarted(self, problem: Problem, inner: ALEXRState, x: np.ndarray, rng: np.random.Generator) -> ALEXRState:
        """The next stage: from x, with the duals of this one."""
        fresh = self.solver.init(problem, x, rng)
        return fresh._replace(z=inner.z, y_mean=self.solver.dual(problem, inner))

    def solution(self, state: ALEXRDLState) -> np.ndarray:
        return self.solver.solution(state.inner)

    def dual(self, problem: Problem, state: ALEXRDLState) -> np.ndarray:
        return self.solver.dual(problem, state.inner)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return self.solver.oracles(problem, t)


def smoothed(problem: Problem, nu: float) -> Problem:
    """The problem in its coupled form with the Moreau envelope f_ν for f."""
    positive("smoothing", nu)
    if type(problem.outer) not in outer_value.table:
        kind = type(problem.outer).__name__
        raise ValueError(f"smoothing must be None for an outer function of several values, got {nu} for {kind}")
    return problem._replace(outer=Smoothed(problem.outer, float(nu)))


@check_state.of(ALEXRDL)
def _(solver, state):
    if not state.inner.t < solver.length:
        raise ValueError(f"inner.t must be below the length of a stage, {solver.length}, got {state.inner.t}")


register(
    {
        "alexr-dl": ALEXRDL(),
        "alexr-dl-smoothed": ALEXRDL(smoothing=0.05),
        "alexr2": ALEXRDL(length=100, smoothing=0.05, momentum=0.5),
    }
)
