"""SONX: subgradients at tracked inner values, for outer functions with kinks."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
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
from xrisk.solvers.card import LIPSCHITZ_OUTER, MONOTONE_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import (
    TheoryCorrection,
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


class SONXState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    seen: np.ndarray  # (n,) whether block i was ever sampled
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of each block
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SONX(NamedTuple):
    """Non-smooth weakly convex coupled compositions, v1 and v2 [1]_; [2]_, Algorithm 16.

    For a sample of blocks i, with one batch 𝓑 of each::

        z = mean Jᵢ(x_t; 𝓑)ᵀ ∂f(uᵢ)                    (uᵢ from before its update)
        uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑) + γ′ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))
        x_{t+1} = prox_{s r}( x_t − s z )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    track : float or schedule
        Weight γ of the new inner value.
    correction : float or TheoryCorrection()
        γ′: 0 is v1 and saves the evaluation at the previous iterate, any other number is v2, which is tuned below 1
        in practice; ``TheoryCorrection()`` is the theorem's.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    The paper has no proximal step; ours replaces its ∂r. The first sample of a block initialises uᵢ. The
    book has a second form, with new uᵢ in independently drawn blocks; ours is the paper's form. The dual is an average
    of the slopes ∂f(uᵢ). Settings in the orders of the theorems: `xrisk.solvers.theory.sonx_setting`.

    References
    ----------
    .. [1] Hu, Zhu and Yang, Non-smooth weakly-convex finite-sum coupled compositional optimization, 2023.
    .. [2] Yang, opt4ml, chapter 5.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.SONX(step=0.2, track=0.2, correction=0.5)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.1
    correction: float | TheoryCorrection = 0.5
    blocks: int | None = None
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SONX",
            "Hu, Zhu and Yang 2023, SONX v1 and v2; book, Algorithm 16",
            "as published",
            values="SB" if self.correction == 0.0 else "2SB",
            gradients="SB",
            rate="weakly convex, nearly stationary: v1 n/(SBε⁸), v2 n/(S√Bε⁶); with f smooth n/(SBε⁵), n/(S√Bε⁴)",
            theory=(MONOTONE_OUTER, LIPSCHITZ_OUTER),
        )

    def check(self) -> None:
        """Refuse a correction that does not go with the weight of new values."""
        check_correction(self.correction, self.track)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SONXState:
        n, y = inner_count(problem.inner), first_duals(problem)
        seen = np.zeros(n, dtype=bool)
        return SONXState(x.copy(), x.copy(), np.zeros_like(y), seen, x.copy(), y, np.arange(n), 0)


@method(COUPLED, {"sonx-v1": SONX(correction=0.0), "sonx-v2": SONX()})
def sonx_steps(problem, state, solver, n_steps, rng):
    w, w_prev, u, seen, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    n, m = u.shape
    value, value_prev, y, grad = np.empty(m), np.empty(m), np.empty(m), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, track, weight = rate(solver.step, t), rate(solver.track, t), average_weight(solver.average, t)
        correction = correction_weight(solver.correction, track, n, solver.blocks)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            if corrects(solver.correction):
                batch_values(g, i, w, w_prev, batch, value, value_prev)
            else:
                batch_value(g, i, w, batch, value)
            if not seen[i]:
                seen[i] = True
                first_value(u[i], value, value_prev)
            block_slope(f, u[i], y)
            update_tracker(u[i], value, value_prev, track, correction)
            batch_vjp(g, i, w, batch, y, 1.0 / solver.blocks, grad)
            average_into(y_mean[i], y, visit_weight(weight, n, solver.blocks))
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SONXState(w, w_prev, u, seen, w_mean, y_mean, order, t0 + n_steps)
