"""RSCDRO: SCDRO in stages, for convex losses."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import canonical
from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem
from xrisk.solvers.base import check_state
from xrisk.solvers.card import CONVEX_COUPLING, MethodCard
from xrisk.solvers.coupled.restarted import Restarted, RestartedState
from xrisk.solvers.dro.scdro import SCDRO


class RSCDRO(NamedTuple):
    """Restarted SCDRO [1]_, Algorithm 3 and Lemma 4. Rule: read.

    Stage k = 0, 1, … of `SCDRO` on F(w, λ) + (μ/2)‖(w, λ)‖², from a random iterate (x, V, U, s) of the stage before::

        T = ⌊length · growthᵏ⌋,    β, η and η_λ those of the solver times factorᵏ

    Parameters
    ----------
    solver : SCDRO
        With the settings of the first stage, and μ as its ``strength``.
    length : int
        Longest first stage.
    growth : float
        Ratio of the lengths of two stages.
    factor : float
        Ratio of β, η and η_λ of two stages.

    Notes
    -----
    Lemma 4 halves the target of every stage: β and η by ½, lengths by 2. `xrisk.solvers.theory.rscdro_setting` has its
    constants. μx stands inside the moving average of the gradient, as in the paper. Stopping a stage after a random
    number of iterations has the law of going on from a random iterate of it: here one of 1, …, T moves, where 0, …,
    T − 1 are printed, so that no stage stands still. The experiments of the paper cut the step
    once, by 10. What is reported is the average of all iterates, or that of ``solver.average``.

    References
    ----------
    .. [1] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.functions import L2, KLBallRisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1.0, -1.0)
    >>> problem = xrisk.Problem(Samples(LinearModel(as_rows(X), y)), KLBallRisk(0.3), L2(0.1))
    >>> solver = xrisk.solvers.RSCDRO(length=30)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=60), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.06
    True
    """

    solver: SCDRO = SCDRO(step=0.1, temperature_step=0.1, track=0.5, strength=1e-4)
    length: int = 1000
    growth: float = 2.0
    factor: float = 0.5

    def card(self) -> MethodCard:
        return MethodCard(
            "RSCDRO",
            "Qi et al. 2022, Algorithm 3, Lemma 4 and Theorem 3",
            "verified",
            values="B",
            gradients="B",
            rate="convex 1/ε³; 1/(μ²ε) in F + (μ/2)‖x‖²",
            needs=self.solver.card().needs,
            theory=(*self.solver.card().theory, CONVEX_COUPLING),
        )

    def stages(self) -> Restarted:
        """The stages of the solver."""
        return Restarted(self.solver, self.length, self.growth, self.factor, self.factor, self.factor)

    def prepare(self, problem: Problem) -> tuple[Problem, "RSCDRO"]:
        if type(self.solver) is not SCDRO:
            raise TypeError(f"solver must be an SCDRO, got {self.solver!r}")
        return prepare_stages(problem, self)

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return self.solver.start(problem, w)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> RestartedState:
        return self.stages().init(problem, x, rng)

    def advance(
        self, problem: Problem, state: RestartedState, n_steps: int, rng: np.random.Generator
    ) -> RestartedState:
        return self.stages().advance(problem, state, n_steps, rng)

    def solution(self, state: RestartedState) -> np.ndarray:
        return self.solver.solution(state.inner)

    def dual(self, problem: Problem, state: RestartedState) -> np.ndarray:
        return self.solver.dual(problem, state.inner)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return self.solver.oracles(problem, t)


def prepare_stages(problem: Problem, staged: Any) -> tuple[Problem, Any]:
    """The problem, and the solver in stages with its fields checked and its open choices settled."""
    factors = [name for name in staged._fields if name.endswith("factor")]
    for name in factors:
        if not 0.0 < getattr(staged, name) <= 1.0:
            raise ValueError(f"{name} must lie in (0, 1], got {getattr(staged, name)!r}")
    problem, ready = staged.stages().prepare(problem)
    return problem, canonical(staged._replace(solver=ready.solver, length=ready.length, growth=ready.growth))


check_state.of(RSCDRO)(lambda solver, state: check_state(solver.stages(), state))
