"""SPDC: extrapolated primal and dual steps for linear inner functions that are known exactly."""

from typing import NamedTuple

import numpy as np

from xrisk.functions import prox
from xrisk.inner.oracle import batch_value, batch_vjp, draw, exact_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.base import COUPLED
from xrisk.solvers.card import FULL_PASSES, LIPSCHITZ_INNER, SINGLE_SAMPLES, SMOOTH_OUTER, STRONGLY_CONVEX, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import SingleLoop
from xrisk.solvers.shared.reduced import move_dual
from xrisk.solvers.shared.tracking import first_duals, next_block


class SPDCState(NamedTuple):
    w: np.ndarray  # iterate
    w_bar: np.ndarray  # extrapolated point
    y: np.ndarray  # (n, 1) duals
    full: np.ndarray  # U = (1/n) Σ yᵢ aᵢ
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SPDC(NamedTuple):
    """Stochastic primal-dual coordinate method [1]_, Algorithm 1 with mini-batches.

    For gᵢ(x) = ⟨aᵢ, x⟩ − bᵢ and a sample of S blocks i::

        yᵢ⁺ = argmax y gᵢ(x̄) − f*(y) − (y − yᵢ)²/(2 s_y),    δ = Σ (yᵢ⁺ − yᵢ) aᵢ
        x⁺ = prox_{s r}( x − s (U + δ/S) ),    U ← U + δ/n,    x̄ = x⁺ + θ (x⁺ − x)

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size s_y of the duals.
    theta : float
        Extrapolation θ of the point.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.

    Notes
    -----
    `xrisk.solvers.theory.spdc_setting` has the step sizes of the theorem. Policy evaluation and mean–variance problems
    are of this kind with ``sampling="exact"``.

    References
    ----------
    .. [1] Zhang and Xiao, Stochastic primal-dual coordinate method for regularized empirical risk minimization, 2015.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> P, reward, features = rng.random((10, 10)), rng.random((10, 10)), rng.random((10, 5))
    >>> P /= P.sum(axis=1, keepdims=True)
    >>> problem = xrisk.applications.bellman(P, reward, features, l2=0.01, sampling="exact")
    >>> solver = xrisk.solvers.SPDC(step=0.3, dual_step=1.0, theta=0.9, blocks=5)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=500), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-8)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    theta: float = 0.9
    blocks: int | None = None

    @property
    def epoch(self) -> SingleLoop:
        """There is one full pass: U is computed once."""
        return SingleLoop()

    def card(self) -> MethodCard:
        return MethodCard(
            "SPDC",
            "Zhang and Xiao 2015, Algorithm 1",
            "recalled",
            values="S",
            gradients="S, a full pass",
            rate="strongly convex: (n/S + √(nκ/S)) log 1/ε, κ = R²L_f/μ",
            needs=(FULL_PASSES, SINGLE_SAMPLES),
            theory=(SMOOTH_OUTER, LIPSCHITZ_INNER, STRONGLY_CONVEX),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SPDCState:
        order = np.arange(inner_count(problem.inner))
        return SPDCState(x.copy(), x.copy(), first_duals(problem), np.zeros(x.size), order, 0)

    def pass_over(self, problem: Problem, state: SPDCState, rng: np.random.Generator) -> SPDCState:
        """The state with U of the first duals."""
        full = np.zeros(state.w.size)
        exact_vjp(problem.inner, state.w, state.y / state.y.size, full)
        return state._replace(full=full)


@method(COUPLED, {"spdc": SPDC()})
def spdc_steps(problem, state, solver, n_steps, rng):
    w, w_bar, y, full, order, t0 = state
    g, f, r = problem
    n, d, S = y.shape[0], w.size, solver.blocks
    value, change, delta, w_old, batch = np.empty(1), np.empty(1), np.empty(d), np.empty(d), new_batch(g, 1)
    for t in range(t0, t0 + n_steps):
        step, tau = rate(solver.step, t), 1.0 / rate(solver.dual_step, t)
        for j in range(d):
            delta[j], w_old[j] = 0.0, w[j]
        for a in range(S):
            i = next_block(order, a, rng)
            draw(g, i, rng, batch)
            batch_value(g, i, w_bar, batch, value)
            move_dual(f, value, y[i], tau, change)
            batch_vjp(g, i, w_bar, batch, change, 1.0, delta)
        for j in range(d):
            w[j] -= step * (full[j] + delta[j] / S)
            full[j] += delta[j] / n
        prox(r, w, step)
        for j in range(d):
            w_bar[j] = w[j] + solver.theta * (w[j] - w_old[j])
    return SPDCState(w, w_bar, y, full, order, t0 + n_steps)
