"""nSSD: the sequential dual method for layers with kinks."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_dual_step, prox
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    inner_count,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import CONVEX_COUPLING, LIPSCHITZ_INNER, LIPSCHITZ_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.stacked import add_jvp
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block


class NSSDState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    y: np.ndarray  # (n, m) dual blocks
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the duals
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class NSSD(NamedTuple):
    """Non-smooth stochastic sequential dual method on the stacked map (g₁, …, gₙ) [1]_.

    For all blocks, then for a sample of blocks i::

        g̃ᵢ = g(x_t; 𝓑) + J(x_t; 𝓑) θ (x_t − x_{t−1})
        yᵢ = argmax ⟨y, g̃ᵢ⟩ − f*(y) − (τ/2) ‖y − yᵢ‖²
        x_{t+1} = prox_{s r}( x_t − s · mean Jᵢ(x_t; 𝓑̃)ᵀ yᵢ )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    dual_step : float or schedule
        Dual step size 1/τ of a block.
    theta : float
        Extrapolation θ in [0, 1].
    blocks : int
        Blocks whose gradient is sampled per iteration, S; 1 as published.
    batch : int
        Samples per block and batch, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    `SSD` with its two layers replaced as the paper describes: the quadratic proximal step for an outer function
    with a kink, and subgradients at the iterate itself for inner functions with kinks. The extrapolation and the
    parameters are ours; the rate on the card is the paper's and may not hold for this reconstruction. The paper counts
    n inner values and one gradient; we also count the product with J of all blocks, as a gradient of each component.

    References
    ----------
    .. [1] Zhang and Lan, Optimal algorithms for convex nested stochastic composite optimization, 2020.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 4, 300)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.NSSD(step=0.2), budget=xrisk.Budget(iterations=80), rng=0)
    >>> xrisk.certify(problem, result).gap < 0.05
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.1
    theta: float = 1.0
    blocks: int = 1
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "nSSD",
            "Zhang and Lan 2020, by its description",
            "reconstructed",
            values="nB",
            gradients="nmB + SB",
            rate="convex (1 + σ₀² + σ₁² + δ²)/ε² in the objective",
            theory=(LIPSCHITZ_OUTER, LIPSCHITZ_INNER, CONVEX_COUPLING),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> NSSDState:
        y = first_duals(problem)
        return NSSDState(x.copy(), x.copy(), y, x.copy(), y.copy(), np.arange(inner_count(problem.inner)), 0)


@method(COUPLED, {"nssd": NSSD()})
def nssd_steps(problem, state, solver, n_steps, rng):
    w, w_prev, y, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    value, workspace = np.empty(y.shape[1]), (np.zeros(y.shape[1]), np.empty(w.size))
    ahead, grad = np.empty(w.size), np.empty(w.size)
    batch, batch_grad = new_batch(g, solver.batch), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, tau = rate(solver.step, t), 1.0 / rate(solver.dual_step, t)
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
            ahead[j] = solver.theta * (w[j] - w_prev[j])
        for a in range(order.size):
            i = next_block(order, a, rng) if a < solver.blocks else order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if a < solver.blocks:
                    draw(g, i, rng, batch_grad)
            batch_value(g, i, w, batch, value)
            add_jvp(g, i, w, batch, ahead, workspace, value)
            block_dual_step(f, value, y[i], tau, y[i])
            average_into(y_mean[i], y[i], weight)
            if a < solver.blocks:
                batch_vjp(g, i, w, batch_grad, y[i], 1.0 / solver.blocks, grad)
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return NSSDState(w, w_prev, y, w_mean, y_mean, order, t0 + n_steps)
