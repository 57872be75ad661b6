"""NASA: the iterate, the tracked gradient and the tracked inner values share one time scale."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
from xrisk.functions.parameters import positive
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
from xrisk.solvers.base import COUPLED, prepare_coupled
from xrisk.solvers.card import LIPSCHITZ_OUTER, SMOOTH_INNER, SMOOTH_OUTER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, first_duals, next_block


class NASAState(NamedTuple):
    w: np.ndarray  # iterate
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    v: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of f
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class NASA(NamedTuple):
    """Nested averaged stochastic approximation on the stacked map (g₁, …, gₙ) [1]_, (2.5)–(2.8).

    For all blocks, then for a sample of blocks i, with the step τ_t in (0, 1]::

        z = mean Jᵢ(x_t; 𝓑)ᵀ ∇f(uᵢ),    v ← (1 − a τ_{t−1}) v + a τ_{t−1} z
        uᵢ ← (1 − c τ_{t−1}) uᵢ + c τ_{t−1} g(x_t; 𝓑)
        x_{t+1} = x_t + τ_t ( prox_{r/b}( x_t − v/b ) − x_t )

    Parameters
    ----------
    step : float or schedule
        Step τ, at most 1/max(1, a, c); 1/√K for a run of K iterations, or in proportion to k^{−1/2}.
    curvature : float
        Weight b of the quadratic in the inner step, ``b/2·‖w − x‖²``.
    gradient_factor : float
        Constant a of the tracked gradient.
    value_factor : float
        Constant c of the tracked inner values.
    blocks : int
        Blocks whose gradient is sampled per iteration, S; 1 as published.
    batch : int
        Samples per block, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    We took the update from a public implementation of the paper's equations, not from the paper. The paper
    projects onto a domain where we have the proximal step of r. The slopes are taken at the old tracked values, so one
    batch serves the values and the Jacobians. The paper takes one sample of one block per gradient; larger S and B are
    ours. The first values initialise u and v. With b = τ/s, a = β/τ, c = γ/τ, r = 0 and all blocks sampled it is SOX
    with the slopes at the old values; SOX updates the sampled uᵢ only. With a kink in f the method runs on a
    subgradient, which its theorem does not cover.

    References
    ----------
    .. [1] Ghadimi, Ruszczyński and Wang, A single timescale stochastic approximation method for nested stochastic
       optimization, SIAM Journal on Optimization, 2020.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> problem = xrisk.group_dro(X, np.where(X[:, 0] > 0, 1, -1), groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.NASA(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> result.value - xrisk.solvers.exact(problem).value < 0.02
    True
    """

    step: float | Decreasing | Stagewise = Decreasing(0.5, 100.0, 0.5)
    curvature: float = 2.0
    gradient_factor: float = 1.0
    value_factor: float = 1.0
    blocks: int = 1
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "NASA",
            "Ghadimi, Ruszczyński and Wang 2020, (2.5)–(2.8)",
            "recalled",
            values="nB",
            gradients="SB",
            rate="non-convex 1/ε² in the squared measure of stationarity",
            theory=(SMOOTH_OUTER, LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "NASA"]:
        problem, solver = prepare_coupled(problem, self)
        largest = 1.0 / max(1.0, solver.gradient_factor, solver.value_factor)
        if rate(solver.step, 0) > largest:
            raise ValueError(
                f"step must be at most 1/max(1, gradient_factor, value_factor), {largest}, got {self.step!r}"
            )
        return problem, solver

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> NASAState:
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        return NASAState(x.copy(), np.zeros((n, m)), np.zeros(x.size), x.copy(), first_duals(problem), np.arange(n), 0)


@method(COUPLED, {"nasa": NASA()}, **dict.fromkeys(("curvature", "gradient_factor", "value_factor"), positive))
def nasa_steps(problem, state, solver, n_steps, rng):
    w, u, v, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    value, y = np.empty(u.shape[1]), np.empty(u.shape[1])
    grad, goal, batch = np.empty(w.size), np.empty(w.size), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        before, weight = rate(solver.step, t - 1) if t > 0 else 1.0, average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(order.size):
            i = next_block(order, a, rng) if a < solver.blocks else order[a]
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_value(g, i, w, batch, value)
            if t == 0:
                average_into(u[i], value, 1.0)
            block_slope(f, u[i], y)
            average_into(y_mean[i], y, weight)
            if a < solver.blocks:
                batch_vjp(g, i, w, batch, y, 1.0 / solver.blocks, grad)
            average_into(u[i], value, solver.value_factor * before)
        average_into(v, grad, solver.gradient_factor * before if t > 0 else 1.0)
        for j in range(w.size):
            goal[j] = w[j] - v[j] / solver.curvature
        prox(r, goal, 1.0 / solver.curvature)
        average_into(w, goal, rate(solver.step, t))
        average_into(w_mean, w, weight)
    return NASAState(w, u, v, w_mean, y_mean, order, t0 + n_steps)
