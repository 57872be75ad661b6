"""A solver run in stages, each with smaller steps: SOX-boost, stage-wise MSVR, RSCDRO and RASCDRO."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner, Solver
from xrisk.compile import canonical
from xrisk.functions.parameters import check_spec, checks, one_or_more, share, whole_from
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem
from xrisk.solvers.base import check_state, copied
from xrisk.solvers.card import CONVEX_COUPLING, STRONGLY_CONVEX, MethodCard, Need
from xrisk.solvers.coupled.msvr import MSVR
from xrisk.solvers.coupled.sox import SOX
from xrisk.solvers.dro.ascdro import ASCDRO
from xrisk.solvers.dro.scdro import SCDRO
from xrisk.solvers.method import register
from xrisk.solvers.schedules import scaled

SHRINKS = {"step": "step", "temperature_step": "step", "track": "track", "momentum": "momentum"}  # fields, by factors


@generic
def stage_theory(solver):
    """Of a solver in stages: its name, paper and source, the rate, and what the rate needs besides."""


@stage_theory.otherwise
def _(solver: Solver) -> tuple[str, str, str, str, Need]:
    rate = "strongly convex: SOX 1/(μ min(B,S) ε) + nσ₀²/(μ²BSε), MSVR n/(μS√Bε) in the objective"
    paper = "Wang and Yang 2022, SOX-boost; Jiang et al. 2022, journal version, Theorem 7"
    return "Restarted", paper, "reconstructed", rate, STRONGLY_CONVEX


@stage_theory.of(SCDRO)
def _(solver: SCDRO) -> tuple[str, str, str, str, Need]:
    rate = "convex 1/ε³; 1/(μ²ε) in F + (μ/2)‖x‖²"
    return "RSCDRO", "Qi et al. 2022, Algorithm 3, Lemma 4 and Theorem 3", "as published", rate, CONVEX_COUPLING


@stage_theory.of(ASCDRO)
def _(solver: ASCDRO) -> tuple[str, str, str, str, Need]:
    rate = "convex 1/ε²; 1/(με) + 1/(μ^{3/2}√ε) in F + (μ/2)‖x‖²"
    return "RASCDRO", "Qi et al. 2022, Algorithm 3, Lemma 5 and Theorem 4", "as published", rate, CONVEX_COUPLING


class RestartedState(NamedTuple):
    inner: Inner  # of the solver
    stage: int  # k
    left: int  # iterations to the end of the stage


@checks(length=whole_from(1), growth=one_or_more, step_factor=share, track_factor=share, momentum_factor=share)
class Restarted(NamedTuple):
    """A solver in stages k = 0, 1, …, each of which starts at a random iterate of the stage before.

    Stage k::

        T = ⌊length · growthᵏ⌋,    step, track and momentum those of the solver times their factorsᵏ
        (x, u, v) ← the state after r iterations, r uniform on 1, …, T

    Parameters
    ----------
    solver : SOX(), MSVR(), SnapshotMSVR() or any other with a field ``step``
        With the settings of the first stage.
    length : int
        Longest first stage.
    growth : float
        Ratio of the lengths of two stages.
    step_factor, track_factor, momentum_factor : float
        Ratios of the settings of two stages.

    Notes
    -----
    The papers run all T iterations of a stage and continue from a random one. This equals stopping after a
    random number of iterations, which is drawn when the stage starts. Halving the target in each stage gives the
    factors:

    - SOX-boost [1]_: γ, β and s by ½, lengths by 2, as by default;
    - stage-wise MSVR v2 [2]_, Theorem 7: γ and β by ½, s by √½;
    - stage-wise MSVR v3: all settings and lengths stay;
    - RSCDRO [3]_, Algorithm 3 and Lemma 4, ``Restarted(SCDRO(strength=mu))``: β, η and η_λ by ½, lengths by 2;
    - RASCDRO [3]_, Lemma 5, of `ASCDRO`: β by ½, η and η_λ by √½. The lemma prints η with σ² where its proof needs σ,
      and the length of a stage with a superfluous σ².

    The two of [3]_ minimise F + (μ/2)‖(w, λ)‖², whose μx is inside the moving average of the gradient. Here their
    stages make 1, …, T steps, where the paper prints 0, …, T − 1, so that every stage makes a step. The paper's
    experiments cut the step once, by 10. `xrisk.solvers.theory.rscdro_setting` and ``rascdro_setting`` have the
    constants.

    For SOX and MSVR only these ratios are known, not the constants of the first stage, except for SOX-boost with linear
    ∇f, see `xrisk.solvers.theory.sox_boost_setting`. The method reports the solver's own solution. With
    ``average=LastIterate()`` this is the theorems' point whenever a stage ends; the default averages over the stages,
    which is less noisy on convex problems.

    References
    ----------
    .. [1] Wang and Yang, Finite-sum coupled compositional stochastic optimization: theory and applications, 2022.
    .. [2] Jiang, Li, Wang, Zhang and Yang, Multi-block-single-probe variance reduced estimator for coupled
       compositional optimization, 2022, and its journal version.
    .. [3] Qi, Lyu, Chan, Bai and Yang, Stochastic constrained DRO with a complexity independent of sample size, 2022.

    Examples
    --------
    SOX-boost, and the two stage-wise MSVR:

    >>> import numpy as np, xrisk
    >>> from xrisk.solvers import MSVR, SOX, Restarted, SnapshotMSVR
    >>> boost = Restarted(SOX(step=0.3, track=0.5, momentum=0.5), length=50)
    >>> stagewise = Restarted(MSVR(step=0.1, track=0.2, momentum=0.2), length=200, step_factor=0.5**0.5)
    >>> fixed = Restarted(SnapshotMSVR(), 200, growth=1, step_factor=1, track_factor=1, momentum_factor=1)
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, boost, budget=xrisk.Budget(iterations=75), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 0.01)
    True
    """

    solver: Solver = SOX()
    length: int = 1000
    growth: float = 2.0
    step_factor: float = 0.5
    track_factor: float = 0.5
    momentum_factor: float = 0.5

    def card(self) -> MethodCard:
        inner, (name, paper, provenance, rate, more) = self.solver.card(), stage_theory(self.solver)
        return MethodCard(
            name, paper, provenance, inner.values, inner.gradients, rate, inner.needs, (*inner.theory, more)
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "Restarted"]:
        if "step" not in getattr(self.solver, "_fields", ()) or not hasattr(self.solver, "prepare"):
            raise TypeError(f"solver must be a solver with a field step, got {self.solver!r}")
        check_spec(self)
        problem, solver = self.solver.prepare(problem)
        return problem, canonical(self._replace(length=int(self.length)))._replace(solver=solver)

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return self.solver.start(problem, w)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> RestartedState:
        return RestartedState(self.solver.init(problem, x, rng), 0, self.draw_length(0, rng))

    def draw_length(self, stage: int, rng: np.random.Generator) -> int:
        """Iterations of the stage, up to the random one at which the next stage starts."""
        return int(rng.integers(1, int(self.length * self.growth**stage) + 1))

    def of_stage(self, stage: int) -> Any:
        """The solver with the settings of the stage."""
        factors = {name: getattr(self, f"{by}_factor") ** stage for name, by in SHRINKS.items()}
        names = [name for name in factors if name in self.solver._fields]
        return self.solver._replace(**{name: scaled(getattr(self.solver, name), factors[name]) for name in names})

    def advance(
        self, problem: Problem, state: RestartedState, n_steps: int, rng: np.random.Generator
    ) -> RestartedState:
        inner, stage, left = state
        if n_steps > left:  # the next stage may be interrupted, and must not write into the given state
            inner = copied(inner)
        while True:
            steps = min(n_steps, left)
            inner = self.of_stage(stage).advance(problem, inner, steps, rng)
            n_steps, left = n_steps - steps, left - steps
            if left == 0:
                stage += 1
                left = self.draw_length(stage, rng)
            if n_steps == 0:
                return RestartedState(inner, stage, left)

    def solution(self, state: RestartedState) -> np.ndarray:
        return self.solver.solution(state.inner)

    def dual(self, problem: Problem, state: RestartedState) -> np.ndarray:
        return self.solver.dual(problem, state.inner)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return self.solver.oracles(problem, t)


@check_state.of(Restarted)
def _(solver, state):
    most = float(solver.length) * solver.growth**state.stage  # overflows for stages that no run reaches
    if not state.left <= most:
        raise ValueError(f"left must be at most {most:g} in stage {state.stage}, got {state.left}")
    check_state(solver.solver, state.inner)


register(
    {
        "msvr-stagewise": Restarted(MSVR(track=0.5, momentum=0.5), step_factor=0.5**0.5),
        "sox-boost": Restarted(SOX(track=0.5, momentum=0.5)),
        "rscdro": Restarted(SCDRO(step=0.1, temperature_step=0.1, track=0.5, strength=1e-4)),
        "rascdro": Restarted(ASCDRO(step=0.1, temperature_step=0.1, track=0.5, strength=1e-4), step_factor=0.5**0.5),
    }
)
