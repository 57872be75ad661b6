"""SAPD: accelerated primal-dual steps on all dual blocks, extrapolated with the stored old values."""

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
from xrisk.solvers.card import CONVEX_COUPLING, LIPSCHITZ_OUTER, SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block


class SAPDState(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n, m) dual blocks
    p: np.ndarray  # (n, m) the sampled inner values of the iteration before
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the duals
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SAPD(NamedTuple):
    """Stochastic accelerated primal-dual method on min_x max_y mean ⟨yᵢ, gᵢ(x)⟩ − f*(yᵢ) + r(x) [1]_.

    For all blocks, then for a sample of blocks i, with the batches 𝓑_t new in every iteration::

        g̃ᵢ = g(x_t; 𝓑_t) + θ ( g(x_t; 𝓑_t) − g(x_{t−1}; 𝓑_{t−1}) )
        yᵢ = argmax ⟨y, g̃ᵢ⟩ − f*(y) − (τ/2) ‖y − yᵢ‖²
        x_{t+1} = prox_{s r}( x_t − s · mean Jᵢ(x_t; 𝓑̃)ᵀ yᵢ )

    Parameters
    ----------
    step : float or schedule
        Primal step size s.
    dual_step : float or schedule
        Dual step size 1/τ of a block; σ_y/n in the paper, whose coupling has the factor 1/n.
    theta : float
        Extrapolation θ in [0, 1].
    blocks : int
        Blocks whose gradient is sampled per iteration, S; 1 as published.
    batch : int
        Samples per block and batch, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported: the last iterate in the strongly convex case, the mean in the convex one.

    Notes
    -----
    The old value is the stored one, on old samples, so the noise of two batches enters g̃; ALEXR takes the
    difference on one batch. The estimators are those of appendix G.2 of the ALEXR paper, which takes one block per
    gradient. The first extrapolation vanishes. In the convex case θ is 1 and for T iterations both step sizes are in
    proportion to 1/√T; the setting for strongly convex penalties is `xrisk.solvers.theory.sapd_setting`.

    References
    ----------
    .. [1] Zhang, Aybat and Gürbüzbalaban, Robust accelerated primal-dual methods for computing saddle points, 2021.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 4, 300)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.SAPD(step=0.2), budget=xrisk.Budget(iterations=80), rng=0)
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
            "SAPD",
            "Zhang, Aybat and Gürbüzbalaban 2021; ALEXR, appendix G.2",
            "recalled",
            values="nB",
            gradients="SB",
            rate="convex 1/ε + (σ₀² + σ₁² + δ²)/ε² in the duality gap; "
            "f smooth and r strongly convex 1/μ + 1/√μ + σ₀²/ε + (σ₁² + δ²)/(με) in (μ/2)‖x − x*‖²",
            theory=(SMOOTH_INNER, LIPSCHITZ_OUTER, CONVEX_COUPLING),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SAPDState:
        y = first_duals(problem)
        return SAPDState(x.copy(), y, np.zeros_like(y), x.copy(), y.copy(), np.arange(inner_count(problem.inner)), 0)


@method(COUPLED, {"sapd": SAPD()})
def sapd_steps(problem, state, solver, n_steps, rng):
    w, y, p, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    value, ahead, grad = np.empty(y.shape[1]), np.empty(y.shape[1]), np.empty(w.size)
    batch, batch_grad = new_batch(g, solver.batch), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, tau = rate(solver.step, t), 1.0 / rate(solver.dual_step, t)
        theta = solver.theta if t > 0 else 0.0
        weight = average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(order.size):
            i = next_block(order, a, rng) if a < solver.blocks else order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
                if a < solver.blocks:
                    draw(g, i, rng, batch_grad)
            batch_value(g, i, w, batch, value)
            for j in range(value.size):
                ahead[j] = value[j] + theta * (value[j] - p[i, j])
                p[i, j] = value[j]
            block_dual_step(f, ahead, y[i], tau, y[i])
            average_into(y_mean[i], y[i], weight)
            if a < solver.blocks:
                batch_vjp(g, i, w, batch_grad, y[i], 1.0 / solver.blocks, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SAPDState(w, y, p, w_mean, y_mean, order, t0 + n_steps)
