"""RASCDRO: ASCDRO in stages, for convex losses."""

from typing import NamedTuple

import numpy as np

from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem
from xrisk.solvers.base import check_state
from xrisk.solvers.card import CONVEX_COUPLING, MethodCard
from xrisk.solvers.coupled.restarted import Restarted, RestartedState
from xrisk.solvers.dro.ascdro import ASCDRO
from xrisk.solvers.dro.rscdro import prepare_stages


class RASCDRO(NamedTuple):
    """Restarted ASCDRO [1]_, Algorithm 3 and Lemma 5. Rule: read, corrected.

    Stage k = 0, 1, … of `ASCDRO` with μx added to z, from a random iterate (x, V, U, s) of the stage before::

        T = ⌊length · growthᵏ⌋,    η and η_λ those of the solver times step_factorᵏ,    β times track_factorᵏ

    Parameters
    ----------
    solver : ASCDRO
        With the settings of the first stage, and μ as its ``strength``.
    length : int
        Longest first stage.
    growth : float
        Ratio of the lengths of two stages.
    step_factor, track_factor : float
        Ratios of the step sizes and of β of two stages.

    Notes
    -----
    Lemma 5 halves the target of every stage: β by ½, η by √½, lengths by 2. It prints η with σ² where its proof needs
    σ, and a length of a stage with a σ² too many; `xrisk.solvers.theory.rascdro_setting` has the constants as the proof
    needs them. Otherwise as `RSCDRO`.

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
    >>> solver = xrisk.solvers.RASCDRO(length=20)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=50), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.07
    True
    """

    solver: ASCDRO = ASCDRO(step=0.1, temperature_step=0.1, track=0.5, strength=1e-4)
    length: int = 1000
    growth: float = 2.0
    step_factor: float = 0.5**0.5
    track_factor: float = 0.5

    def card(self) -> MethodCard:
        return MethodCard(
            "RASCDRO",
            "Qi et al. 2022, Algorithm 3, Lemma 5 and Theorem 4",
            "verified",
            values="2B",
            gradients="2B",
            rate="convex 1/ε²; 1/(με) + 1/(μ^{3/2}√ε) in F + (μ/2)‖x‖²",
            needs=self.solver.card().needs,
            theory=(*self.solver.card().theory, CONVEX_COUPLING),
        )

    def stages(self) -> Restarted:
        """The stages of the solver."""
        return Restarted(self.solver, self.length, self.growth, self.step_factor, self.track_factor, 1.0)

    def prepare(self, problem: Problem) -> tuple[Problem, "RASCDRO"]:
        if type(self.solver) is not ASCDRO:
            raise TypeError(f"solver must be an ASCDRO, got {self.solver!r}")
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


check_state.of(RASCDRO)(lambda solver, state: check_state(solver.stages(), state))
