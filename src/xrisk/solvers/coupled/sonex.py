"""SONEX: an outer function with kinks is smoothed, then inner values and the gradient are tracked."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_dual_step, prox
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
from xrisk.solvers.card import LIPSCHITZ_OUTER, MONOTONE_OUTER, SMOOTH_INNER, MethodCard
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


class SONEXState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    seen: np.ndarray  # (n,) whether block i was ever sampled
    v: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of each block
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SONEX(NamedTuple):
    """Smoothed outer functions, v1 and v2 [1]_, Algorithms 17 and 25.

    For a sample of blocks i, with two independent batches 𝓑, 𝓑̃ of each::

        uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑) + γ′ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))
        yᵢ = ∇f_ν(uᵢ) = argmax ⟨y, uᵢ⟩ − f*(y) − (ν/2)‖y‖²
        z = mean Jᵢ(x_t; 𝓑̃)ᵀ yᵢ,    v ← (1 − β) v + β z
        x_{t+1} = prox_{s r}( x_t − s v )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    track : float or schedule
        Weight γ of the new inner value.
    momentum : float or schedule
        Weight β of the new gradient; 1 for no momentum.
    nu : float
        Smoothing ν of f: f_ν is 1/ν-smooth and below f by at most ν C_f²/2.
    correction : float or TheoryCorrection()
        γ′: 0 is v1 and saves the evaluation at the previous iterate, any other number is v2; ``TheoryCorrection()``
        is the theorem's.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block and batch, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    The book has no proximal step; ours replaces its ∇r. The first sample of a block initialises uᵢ, the
    first gradient v. The book's version for groups tracks the risks alone and computes the threshold exactly; ours
    solves the coupled form like any other problem, and uᵢ tracks the risk minus the threshold. The dual is an average
    of the yᵢ. Settings in the orders of the theorems: `xrisk.solvers.theory.sonex_setting`.

    References
    ----------
    .. [1] Yang, opt4ml, chapter 5.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.SONEX(step=0.2, track=0.2, momentum=0.5, nu=0.01)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 0.01)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.1
    momentum: float | Decreasing | Stagewise = 0.5
    nu: float = 0.05
    correction: float | TheoryCorrection = 0.5
    blocks: int | None = None
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SONEX",
            "book, Algorithms 17 and 25",
            "as published",
            values="SB" if self.correction == 0.0 else "2SB",
            gradients="SB",
            rate="non-convex, approximately stationary: v1 n/(SBε⁷), v2 1/ε³ + 1/ε⁵ + n/(S√Bε⁵)",
            theory=(MONOTONE_OUTER, LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def check(self) -> None:
        """Refuse a correction that does not go with the weight of new values."""
        check_correction(self.correction, self.track)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SONEXState:
        n, y = inner_count(problem.inner), first_duals(problem)
        seen, v = np.zeros(n, dtype=bool), np.zeros(x.size)
        return SONEXState(x.copy(), x.copy(), np.zeros_like(y), seen, v, x.copy(), y, np.arange(n), 0)


@method(COUPLED, {"sonex-v1": SONEX(correction=0.0), "sonex-v2": SONEX()})
def sonex_steps(problem, state, solver, n_steps, rng):
    w, w_prev, u, seen, v, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    n, m = u.shape
    value, value_prev, zero, y, grad = np.empty(m), np.empty(m), np.zeros(m), np.empty(m), np.empty(w.size)
    batch, batch_grad = new_batch(g, solver.batch), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, track, momentum = rate(solver.step, t), rate(solver.track, t), rate(solver.momentum, t)
        correction = correction_weight(solver.correction, track, n, solver.blocks)
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                draw(g, i, rng, batch_grad)
            if corrects(solver.correction):
                batch_values(g, i, w, w_prev, batch, value, value_prev)
            else:
                batch_value(g, i, w, batch, value)
            if not seen[i]:
                seen[i] = True
                first_value(u[i], value, value_prev)
            update_tracker(u[i], value, value_prev, track, correction)
            block_dual_step(f, u[i], zero, solver.nu, y)
            batch_vjp(g, i, w, batch_grad, y, 1.0 / solver.blocks, grad)
            average_into(y_mean[i], y, visit_weight(weight, n, solver.blocks))
        average_into(v, grad, momentum if t > 0 else 1.0)
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SONEXState(w, w_prev, u, seen, v, w_mean, y_mean, order, t0 + n_steps)
