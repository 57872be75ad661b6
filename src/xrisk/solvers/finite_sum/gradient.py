"""Batch gradient: proximal gradient steps on all samples, plain or accelerated."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import canonical
from xrisk.functions import penalty_convexity
from xrisk.functions.parameters import positive
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, exact_vjp, inner_samples
from xrisk.problem import Problem, apply_prox, block_slopes, coupled, coupled_start
from xrisk.solvers.base import Stop, one_of, register_full_batch
from xrisk.solvers.card import FULL_PASSES, SMOOTH_INNER, SMOOTH_OUTER, MethodCard, require
from xrisk.solvers.method import register
from xrisk.solvers.schedules import Decreasing, Stagewise, check_step, rate
from xrisk.solvers.shared.reduced import values_at
from xrisk.solvers.shared.tracking import first_duals

ENDINGS = (None, Stop.CONVERGED)


@generic
def extrapolation(acceleration, length):
    """(β, length of the next step): the gradient is taken at x + β (x − x_before)."""


class NoAcceleration(NamedTuple):
    """β = 0: plain gradient steps."""


class Nesterov(NamedTuple):
    """β_k = (λ_k − 1)/λ_{k+1}, λ_{k+1} = (1 + √(1 + 4λ_k²))/2, λ_0 = 1: accelerated steps [1]_.

    References
    ----------
    .. [1] Beck and Teboulle, A fast iterative shrinkage-thresholding algorithm for linear inverse problems, 2009.
    """


@extrapolation.of(NoAcceleration)
def _(acceleration, length):
    return 0.0, 1.0


@extrapolation.of(Nesterov)
def _(acceleration, length):
    longer = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * length * length))
    return (length - 1.0) / longer, longer


class BatchGradientState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    y: np.ndarray  # (n, m) ∇f(gᵢ) where the last gradient was taken
    length: float  # λ of the acceleration
    value: float  # objective; NaN, it is not computed
    gap: float  # a bound on objective − optimum where the penalty is strongly convex; else NaN
    ended: int  # place in ENDINGS
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations done


check_acceleration = one_of(extrapolation, NoAcceleration)


class BatchGradient(NamedTuple):
    """Proximal gradient steps on all samples [1]_: x ← prox_{s r}( x̄ − s (1/n) Σ Jᵢ(x̄)ᵀ∇f(gᵢ(x̄)) ).

    Parameters
    ----------
    step : float or schedule
        Step size s, at most 1/L for an objective with L-Lipschitz gradient.
    acceleration : NoAcceleration() or Nesterov()
        Whether x̄ is the iterate or extrapolated from the last two.
    tol : float
        Where the penalty is μ-strongly convex, the run ends once ‖x̄ − x⁺‖²/(2 μ s²) is at most ``tol``; for s ≤ 1/L
        this bounds the gap.

    References
    ----------
    .. [1] Beck, First-order methods in optimization, 2017, sections 10.2 and 10.7.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> P, reward, features = rng.random((10, 10)), rng.random((10, 10)), rng.random((10, 5))
    >>> P /= P.sum(axis=1, keepdims=True)
    >>> problem = xrisk.applications.bellman(P, reward, features, l2=0.1)
    >>> solver = xrisk.solvers.BatchGradient(0.2, xrisk.solvers.Nesterov())
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=1000))
    >>> result.stop, bool(result.value - xrisk.solvers.exact(problem).value < 1e-9)
    (<Stop.CONVERGED: 'converged: the gap is within the tolerance'>, True)
    """

    step: float | Decreasing | Stagewise = 0.05
    acceleration: Any = NoAcceleration()
    tol: float = 1e-10

    def card(self) -> MethodCard:
        return MethodCard(
            "batch gradient",
            "Beck and Teboulle 2009; Beck 2017",
            "as published",
            values="all",
            gradients="all",
            rate="κ log 1/ε or 1/ε, with momentum √κ log 1/ε (restarted) or 1/√ε",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER,),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "BatchGradient"]:
        positive("tol", self.tol)
        check_acceleration("acceleration", self.acceleration)
        require(problem, self.card())
        solver = canonical(self)
        check_step("step", solver.step)
        return coupled(problem), solver

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return coupled_start(problem, w)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> BatchGradientState:
        return BatchGradientState(x.copy(), x.copy(), first_duals(problem), 1.0, np.nan, np.nan, 0, 0, 0, 0)

    def advance(
        self, problem: Problem, state: BatchGradientState, n_steps: int, rng: np.random.Generator
    ) -> BatchGradientState:
        for _ in range(n_steps):
            if state.ended:
                break
            state = gradient_step(problem, self, state)
        return state

    def solution(self, state: BatchGradientState) -> np.ndarray:
        return state.w

    def dual(self, problem: Problem, state: BatchGradientState) -> np.ndarray:
        return state.y.copy()

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return Oracles(t * inner_samples(problem.inner), t * inner_samples(problem.inner))


def gradient_step(problem: Problem, solver: BatchGradient, state: BatchGradientState) -> BatchGradientState:
    """One step; the state it is given stays as it was."""
    beta, length = extrapolation(solver.acceleration, state.length)
    step, at = rate(solver.step, state.t), state.w + beta * (state.w - state.w_prev)
    y, grad = block_slopes(problem.outer, values_at(problem, at)), np.zeros(at.size)
    exact_vjp(problem.inner, at, y / y.shape[0], grad)
    w, mu = at - step * grad, penalty_convexity(problem.penalty)
    apply_prox(problem.penalty, w, step)
    gap = float((at - w) @ (at - w)) / (2.0 * mu * step**2) if mu > 0.0 else np.nan
    ended, passes = int(gap <= solver.tol), state.t + 1
    return BatchGradientState(w, state.w, y, length, np.nan, gap, ended, passes, passes, passes)


register({"gradient": BatchGradient(), "gradient-nesterov": BatchGradient(acceleration=Nesterov())})
register_full_batch(BatchGradient, ENDINGS, "gradient")
