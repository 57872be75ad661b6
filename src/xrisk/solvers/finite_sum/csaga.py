"""C-SAGA: the samples of all inner functions, each at the point where it was last drawn."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    batch_values,
    batch_vjp,
    draw_part,
    inner_count,
    inner_is_affine,
    new_batch,
    shared_count,
    uniform_index,
)
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import FULL_PASSES, SHARED_SAMPLES, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import SingleLoop
from xrisk.solvers.shared.reduced import add_jacobian, jacobians_at, values_at
from xrisk.solvers.shared.tracking import assign


class CSAGAState(NamedTuple):
    w: np.ndarray  # iterate
    anchors: np.ndarray  # (N, d) aⱼ, where sample j was last seen
    means: np.ndarray  # (n, 1) Ḡ, mean over j of Gⱼ(aⱼ)
    jacobians: np.ndarray  # (n, 1, d) mean over j of ∂Gⱼ(aⱼ)
    t: int  # iterations done


class CSAGA(NamedTuple):
    """Composite SAGA for one inner map G = (1/N) Σ Gⱼ under an outer function [1]_.

    Gⱼ = (g₁ⱼ, …, gₙⱼ) has the j-th sample of every inner function, and F(z) = (1/n) Σ f(zᵢ). For a sample 𝓢 of numbers
    j, drawn with replacement::

        u = Ḡ + mean_𝓢( Gⱼ(x) − Gⱼ(aⱼ) ),    Z = ∂Ḡ + mean_𝓢( ∂Gⱼ(x) − ∂Gⱼ(aⱼ) )
        x⁺ = prox_{s r}( x − s Zᵀ∇F(u) )
        for the distinct j ∈ 𝓢: Ḡ += (Gⱼ(x) − Gⱼ(aⱼ))/N, ∂Ḡ likewise, aⱼ ← x

    Parameters
    ----------
    step : float or schedule
        Step size s.
    batch : int
        Numbers j per iteration; N^(2/3) has the best rate.

    Notes
    -----
    All inner functions must have equally many samples, as with a shared inner map: transitions to any of N states,
    pairs with any of N negatives. An iteration computes all n components of Gⱼ. The state keeps the points aⱼ and the
    means, N·d + n·d numbers. The paper stores values and Jacobians at aⱼ (N·n·d numbers); we compute them a second
    time, which doubles the calls. For affine gᵢ the Jacobians cancel and are left out.

    References
    ----------
    .. [1] Zhang and Xiao, A composite randomized incremental gradient method, 2019.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> P, reward, features = rng.random((10, 10)), rng.random((10, 10)), rng.random((10, 5))
    >>> P /= P.sum(axis=1, keepdims=True)
    >>> problem = xrisk.applications.bellman(P, reward, features, sampling="uniform")
    >>> solver = xrisk.solvers.CSAGA(step=0.1)  # the paper's, for ten states
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=800), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-5)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    batch: int = 1

    @property
    def epoch(self) -> SingleLoop:
        """There is one full pass: the tables are filled once."""
        return SingleLoop()

    def card(self) -> MethodCard:
        return MethodCard(
            "C-SAGA",
            "Zhang and Xiao 2019, Algorithm 1",
            "recalled",
            values="2nB, a full pass",
            gradients="2nB (none if g is affine), a full pass",
            rate="strongly convex: (N + κ N^(2/3)) log 1/ε calls of G",
            needs=(FULL_PASSES, SHARED_SAMPLES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER,),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CSAGAState:
        n, count = inner_count(problem.inner), shared_count(problem.inner)
        return CSAGAState(x.copy(), np.tile(x, (count, 1)), np.zeros((n, 1)), np.zeros((n, 1, x.size)), 0)

    def pass_over(self, problem: Problem, state: CSAGAState, rng: np.random.Generator) -> CSAGAState:
        """The state with the means of the first tables."""
        return state._replace(means=values_at(problem, state.w), jacobians=jacobians_at(problem, state.w))

    def dual(self, problem: Problem, state: CSAGAState) -> np.ndarray:
        return block_slopes(problem.outer, state.means)


@method(COUPLED, {"c-saga": CSAGA()})
def csaga_steps(problem, state, solver, n_steps, rng):
    w, anchors, means, jacobians, t0 = state
    g, f, r = problem
    (n, _), d, count, part = means.shape, w.size, anchors.shape[0], 1.0 / solver.batch
    u, change, slopes, v = np.empty(means.shape), np.empty(means.shape), np.empty(means.shape), np.empty(d)
    value, value_old, chosen, batch = np.empty(1), np.empty(1), np.empty(solver.batch, np.int64), new_batch(g, 1)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        for i in range(n):
            u[i, 0], change[i, 0] = means[i, 0], 0.0
        for b in range(solver.batch):
            chosen[b] = uniform_index(rng, 0, count)
            first = is_new(chosen, b)
            for i in range(n):
                draw_part(g, i, chosen[b], batch)
                batch_values(g, i, w, anchors[chosen[b]], batch, value, value_old)
                u[i, 0] += part * (value[0] - value_old[0])
                change[i, 0] += (value[0] - value_old[0]) / count if first else 0.0
        for j in range(d):
            v[j] = 0.0
        for i in range(n):
            block_slope(f, u[i], slopes[i])
            means[i, 0] += change[i, 0]
            add_jacobian(jacobians[i], slopes[i], 1.0 / n, v)
        if not inner_is_affine(g):  # else they do not change
            for b in range(solver.batch):
                reduce_jacobians(g, w, anchors, chosen, b, slopes, jacobians, batch, part, v)
        for b in range(solver.batch):
            assign(anchors[chosen[b]], w)
        for j in range(d):
            w[j] -= step * v[j]
        prox(r, w, step)
    return CSAGAState(w, anchors, means, jacobians, t0 + n_steps)


@register_jitable
def is_new(chosen, b):
    """Whether number b is not among those before it."""
    found = False
    for other in range(b):
        found = found or chosen[other] == chosen[b]
    return not found


@register_jitable
def reduce_jacobians(g, w, anchors, chosen, b, slopes, jacobians, batch, part, v):
    """Add what sample b changes in Zᵀ∇F(u) to ``v``, and in the table to ``jacobians`` if it is a new one."""
    n, one, difference = slopes.shape[0], np.ones(1), np.empty(v.size)
    share = 1.0 / anchors.shape[0] if is_new(chosen, b) else 0.0
    for i in range(n):
        for j in range(v.size):
            difference[j] = 0.0
        draw_part(g, i, chosen[b], batch)
        batch_vjp(g, i, w, batch, one, 1.0, difference)
        batch_vjp(g, i, anchors[chosen[b]], batch, one, -1.0, difference)
        for j in range(v.size):
            v[j] += part * slopes[i, 0] / n * difference[j]
            jacobians[i, 0, j] += share * difference[j]
