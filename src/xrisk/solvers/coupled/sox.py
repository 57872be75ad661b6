"""SOX: a moving average of every inner value, and one of the gradient."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    inner_count,
    inner_dim,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import LIPSCHITZ_OUTER, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.pairing import FreshBatch, SameBatch, draws_twice, looks_back
from xrisk.solvers.shared.tracking import assign, average_into, next_block


class SOXState(NamedTuple):
    w: np.ndarray  # iterate
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    seen: np.ndarray  # (n,) whether block i was ever sampled
    v: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SOX(NamedTuple):
    """Stochastic optimisation of X-risks [1]_, Algorithm 1; [2]_, Algorithm 14.

    For a sample of blocks i::

        uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑)
        z = mean Jᵢ(x_t; 𝓑̃)ᵀ ∇f(uᵢ),    v ← (1 − β) v + β z
        x_{t+1} = prox_{s r}( x_t − s v )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    track : float or schedule
        Weight γ of the new inner value.
    momentum : float or schedule
        Weight β of the new gradient; 1 for no momentum.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block and batch, B.
    pairing : FreshBatch(), OldValue() or SameBatch()
        At which uᵢ the slope is taken, and whether the Jacobian has its own batch.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    The paper has no proximal step; ours replaces its ∇r. The first sample of a block initialises uᵢ, the
    first gradient v. With a kink in f the method runs on a subgradient, which its theorem does not cover. The theorem's
    setting is `xrisk.solvers.theory.sox_setting`.

    References
    ----------
    .. [1] Wang and Yang, Finite-sum coupled compositional stochastic optimization: theory and applications, 2022.
    .. [2] Yang, opt4ml, section 5.1.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125))
    >>> solver = xrisk.solvers.SOX(step=0.2, track=0.05, blocks=2)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=200), rng=0)
    >>> bool(abs(result.w + 0.2).max() < 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.1
    momentum: float | Decreasing | Stagewise = 1.0
    blocks: int | None = None
    batch: int = 8
    pairing: Spec = FreshBatch()
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SOX",
            "Wang and Yang 2022, Algorithm 1; book, Algorithm 14",
            "as published",
            values="SB",
            gradients="SB",
            rate="non-convex n/(BSε⁴) to ‖∇F‖ ≤ ε; "
            "convex n/(Sε²) in a weak duality gap; strongly convex n/(Sμε) in (μ/2)‖x − x*‖²",
            theory=(SMOOTH_OUTER, LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SOXState:
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        return SOXState(
            x.copy(), np.zeros((n, m)), np.zeros(n, dtype=bool), np.zeros(x.size), x.copy(), np.arange(n), 0
        )

    def dual(self, problem: Problem, state: SOXState) -> np.ndarray:
        return block_slopes(problem.outer, state.u)


@method(
    COUPLED,
    {
        "sox": SOX(),
        "sox-momentum": SOX(momentum=0.1),
        "sox-same": SOX(pairing=SameBatch()),
    },
    pairing=draws_twice,
)
def sox_steps(problem, state, solver, n_steps, rng):
    w, u, seen, v, w_mean, order, t0 = state
    g, f, r = problem
    m = inner_dim(g)
    value, y, grad = np.empty(m), np.empty(m), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    batch_grad = new_batch(g, solver.batch) if draws_twice(solver.pairing) else batch
    for t in range(t0, t0 + n_steps):
        step, track, momentum = rate(solver.step, t), rate(solver.track, t), rate(solver.momentum, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if draws_twice(solver.pairing):
                    draw(g, i, rng, batch_grad)
            batch_value(g, i, w, batch, value)
            if not seen[i]:
                seen[i] = True
                assign(u[i], value)
            if looks_back(solver.pairing):
                block_slope(f, u[i], y)
            average_into(u[i], value, track)
            if not looks_back(solver.pairing):
                block_slope(f, u[i], y)
            batch_vjp(g, i, w, batch_grad, y, 1.0 / solver.blocks, grad)
        average_into(v, grad, momentum if t > 0 else 1.0)
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return SOXState(w, u, seen, v, w_mean, order, t0 + n_steps)
