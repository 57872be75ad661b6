"""SSD: dual steps for the inner layer, then for the outer layer, each in the geometry of its own conjugate."""

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
from xrisk.problem import Problem
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import CONVEX_COUPLING, LIPSCHITZ_OUTER, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import (
    Decreasing,
    PolynomialAverage,
    Stagewise,
    average_weight,
    check_fraction,
    rate,
)
from xrisk.solvers.shared.stacked import add_jvp
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block


class SSDState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    p: np.ndarray  # the point at which the inner functions are linearised
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of f
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SSD(NamedTuple):
    """Stochastic sequential dual method on the stacked map (g₁, …, gₙ) [1]_.

    For all blocks, then for a sample of blocks i::

        x̃ = x_t + θ (x_t − x_{t−1})
        p ← (1 − λ) p + λ x̃
        uᵢ ← (1 − γ) uᵢ + γ ( g(p; 𝓑) + J(p; 𝓑) (x̃ − p) )
        x_{t+1} = prox_{s r}( x_t − s · mean Jᵢ(p; 𝓑̃)ᵀ ∇f(uᵢ) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    track : float or schedule
        Weight γ = 1/(1 + τ₁) of the new inner values, the dual step of the outer layer.
    track_point : float or schedule
        Weight λ = 1/(1 + τ₂) of x̃ in p, the dual step of the inner layer.
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
    Only the structure of the paper is certain: dual steps for the inner and then for the outer layer with their
    conjugates as mirror maps, then a proximal step. The extrapolation and all sequences of parameters are ours; the
    rate on the card is the paper's and may not hold for this reconstruction. The map of the outer layer is
    f*, so f must be smooth: with a kink use `NSSD`. The paper counts n inner values and one gradient; we
    also count the product J(x̃ − p) of all blocks, as a gradient of each component. The first values initialise u.

    References
    ----------
    .. [1] Zhang and Lan, Optimal algorithms for convex nested stochastic composite optimization, 2020.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.SSD(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> result.value - xrisk.solvers.exact(problem).value < 0.02
    True
    """

    step: float | Decreasing | Stagewise = Decreasing(0.1, 1000.0, 0.5)
    track: float | Decreasing | Stagewise = Decreasing(1.0, 100.0, 0.5)
    track_point: float | Decreasing | Stagewise = 0.5
    theta: float = 1.0
    blocks: int = 1
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SSD",
            "Zhang and Lan 2020, Algorithm 1, by its description",
            "reconstructed",
            values="nB",
            gradients="nmB + SB",
            rate="convex 1/√ε + (σ₀² + σ₁² + δ²)/ε² in the objective; "
            "strongly convex 1/√ε + σ₀²/ε + (σ₁² + δ²)/(με) in (μ/2)‖x − x*‖²",
            needs=(SMOOTH_OUTER._replace(words="a smooth outer function (NSSD runs without one)"),),
            theory=(SMOOTH_INNER, LIPSCHITZ_OUTER, CONVEX_COUPLING),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SSDState:
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        y = first_duals(problem)
        return SSDState(x.copy(), x.copy(), x.copy(), np.zeros((n, m)), x.copy(), y, np.arange(n), 0)


@method(COUPLED, {"ssd": SSD()}, track_point=check_fraction)
def ssd_steps(problem, state, solver, n_steps, rng):
    w, w_prev, p, u, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    value, y, workspace = np.empty(u.shape[1]), np.empty(u.shape[1]), (np.zeros(u.shape[1]), np.empty(w.size))
    ahead, grad = np.empty(w.size), np.empty(w.size)
    batch, batch_grad = new_batch(g, solver.batch), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, track = rate(solver.step, t), rate(solver.track, t) if t > 0 else 1.0
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
            ahead[j] = w[j] + solver.theta * (w[j] - w_prev[j])
        average_into(p, ahead, rate(solver.track_point, t))
        for j in range(w.size):
            ahead[j] -= p[j]
        for a in range(order.size):
            i = next_block(order, a, rng) if a < solver.blocks else order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if a < solver.blocks:
                    draw(g, i, rng, batch_grad)
            batch_value(g, i, p, batch, value)
            add_jvp(g, i, p, batch, ahead, workspace, value)
            average_into(u[i], value, track)
            block_slope(f, u[i], y)
            average_into(y_mean[i], y, weight)
            if a < solver.blocks:
                batch_vjp(g, i, p, batch_grad, y, 1.0 / solver.blocks, grad)
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SSDState(w, w_prev, p, u, w_mean, y_mean, order, t0 + n_steps)
