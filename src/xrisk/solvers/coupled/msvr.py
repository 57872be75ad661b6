"""MSVR: inner values and the gradient tracked with variance reduction; an iteration probes a sample of blocks once."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
from xrisk.generic import generic
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    inner_count,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import LIPSCHITZ_OUTER, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import (
    TheoryCorrection,
    assign,
    average_into,
    check_correction,
    correction_weight,
    corrects,
    first_duals,
    first_value,
    next_block,
    update_tracker,
    visit_weight,
)

SMOOTH = SMOOTH_OUTER._replace(words="a smooth outer function (SONX and SONEX run without one)")


@generic
def compares(gradient):
    """Whether the estimator samples the gradient at the iterate before, too."""


@generic
def update_gradient(gradient, v, z, z_prev, momentum):
    """Move v by the sampled gradients z at x_t and, if the estimator compares, z_prev at x_{t−1}."""


@generic
def step_along(scaling, step, v):
    """Factor of v in x_{t+1} = prox( x_t − factor · v )."""


class AveragedGradient(NamedTuple):
    """v ← (1 − β) v + β z: MSVR v1."""


class CorrectedGradient(NamedTuple):
    """v ← z + (1 − β)(v − z_prev), the estimator STORM: MSVR v2."""


class PlainStep(NamedTuple):
    """x_t − s v."""


class UnitStep(NamedTuple):
    """x_t − s v/‖v‖: the adaptive variant, every step has length s."""


compares.of(AveragedGradient)(lambda gradient: False)
compares.of(CorrectedGradient)(lambda gradient: True)


@update_gradient.of(AveragedGradient)
def _(gradient, v, z, z_prev, momentum):
    average_into(v, z, momentum)


@update_gradient.of(CorrectedGradient)
def _(gradient, v, z, z_prev, momentum):
    for j in range(v.size):
        v[j] = z[j] + (1.0 - momentum) * (v[j] - z_prev[j])


step_along.of(PlainStep)(lambda scaling, step, v: step)


@step_along.of(UnitStep)
def _(scaling, step, v):
    total = 0.0
    for j in range(v.size):
        total += v[j] * v[j]
    return step / np.sqrt(total) if total > 0.0 else step


class MSVRState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    u_prev: np.ndarray  # (n, m) u[i] from before its last update
    touched: np.ndarray  # (n,) iteration of that update, −2 before the first
    v: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of each block
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class MSVR(NamedTuple):
    """Multi-block-single-probe variance reduction, v1 and v2 [1]_; [2]_, Algorithm 15.

    For a sample of blocks i, with one batch 𝓑 of each::

        z = mean Jᵢ(x_t; 𝓑)ᵀ ∇f(uᵢ),    z̃ = mean Jᵢ(x_{t−1}; 𝓑)ᵀ ∇f(uᵢ of one iteration before)
        uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑) + γ′ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))
        v ← (1 − β) v + β z             (v1)
        v ← z + (1 − β)(v − z̃)          (v2)
        x_{t+1} = prox_{s r}( x_t − s v )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    track : float or schedule
        Weight γ of the new inner value, below 1 with the correction of the theory, whose theorem has at most ½.
    momentum : float or schedule
        Weight β of the new gradient.
    correction : TheoryCorrection() or float
        γ′. The theorem's grows like n/S; ``TheoryCorrection(cap=1.0)`` does better in practice.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block, B.
    gradient : CorrectedGradient() or AveragedGradient()
        How v follows the gradient: v2 or v1.
    scaling : PlainStep() or UnitStep()
        Whether v is scaled to length one.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    This is the paper's version: z uses the old uᵢ of the sampled blocks. The book draws a second sample of blocks and
    uses the new uᵢ. The papers have no proximal step; ours replaces ∇r. A
    block's first sample sets uᵢ, the first gradient v. The dual is an average of the slopes ∇f(uᵢ). `SnapshotMSVR` is
    v3, `Restarted` the stage-wise method, `xrisk.solvers.theory.msvr_setting` has the orders of the theorem.

    References
    ----------
    .. [1] Jiang, Li, Wang, Zhang and Yang, Multi-block-single-probe variance reduced estimator for coupled
       compositional optimization, 2022, and its journal version.
    .. [2] Yang, opt4ml, chapter 5.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125))
    >>> solver = xrisk.solvers.MSVR(step=0.1, track=0.05, momentum=0.1, blocks=2)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=200), rng=0)
    >>> bool(abs(result.w + 0.2).max() < 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    track: float | Decreasing | Stagewise = 0.1
    momentum: float | Decreasing | Stagewise = 0.1
    correction: float | TheoryCorrection = TheoryCorrection()
    blocks: int | None = None
    batch: int = 8
    gradient: Any = CorrectedGradient()
    scaling: Spec = PlainStep()
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "MSVR",
            "Jiang et al. 2022, v1 and v2; book, Algorithm 15",
            "as published",
            values="SB" if self.correction == 0.0 else "2SB",
            gradients="2SB" if compares(self.gradient) else "SB",
            rate="non-convex to ‖∇F‖ ≤ ε: v1 n/(Sε⁴), v2 n/(S√Bε³); "
            "strongly convex, in stages, n/(μS√Bε) in the objective",
            needs=(SMOOTH,),
            theory=(LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def check(self) -> None:
        """Refuse a correction that does not go with the weight of new values."""
        check_correction(self.correction, self.track)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> MSVRState:
        n, y = inner_count(problem.inner), first_duals(problem)
        u, u_prev, touched = np.zeros_like(y), np.zeros_like(y), np.full(n, -2)
        return MSVRState(x.copy(), x.copy(), u, u_prev, touched, np.zeros(x.size), x.copy(), y, np.arange(n), 0)


@method(
    COUPLED, {"msvr-v1": MSVR(gradient=AveragedGradient()), "msvr-v2": MSVR()}, gradient=compares, scaling=step_along
)
def msvr_steps(problem, state, solver, n_steps, rng):
    w, w_prev, u, u_prev, touched, v, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    n, m = u.shape
    value, value_prev, y, z, z_prev = np.empty(m), np.empty(m), np.empty(m), np.empty(w.size), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        track, weight = rate(solver.track, t), average_weight(solver.average, t)
        correction = correction_weight(solver.correction, track, n, solver.blocks)
        for j in range(w.size):
            z[j], z_prev[j] = 0.0, 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            if corrects(solver.correction):
                batch_values(g, i, w, w_prev, batch, value, value_prev)
            else:
                batch_value(g, i, w, batch, value)
            if touched[i] < 0:
                first_value(u[i], value, value_prev)
            if touched[i] < t - 1:  # block i was not updated in the last iteration: uᵢ has its old value
                assign(u_prev[i], u[i])
            if compares(solver.gradient):
                block_slope(f, u_prev[i], y)
                batch_vjp(g, i, w_prev, batch, y, 1.0 / solver.blocks, z_prev)
            block_slope(f, u[i], y)
            batch_vjp(g, i, w, batch, y, 1.0 / solver.blocks, z)
            average_into(y_mean[i], y, visit_weight(weight, n, solver.blocks))
            assign(u_prev[i], u[i])
            touched[i] = t
            update_tracker(u[i], value, value_prev, track, correction)
        update_gradient(solver.gradient, v, z, z_prev, rate(solver.momentum, t) if t > 0 else 1.0)
        step = step_along(solver.scaling, rate(solver.step, t), v)
        assign(w_prev, w)
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return MSVRState(w, w_prev, u, u_prev, touched, v, w_mean, y_mean, order, t0 + n_steps)
