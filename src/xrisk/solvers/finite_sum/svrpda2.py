"""SVRPDA-II: as SVRPDA-I, without the Jacobians of all blocks."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.functions import prox
from xrisk.inner.oracle import (
    Oracles,
    batch_vjp,
    draw,
    exact_vjp,
    inner_dim,
    inner_is_affine,
    inner_samples,
    new_batch,
    uniform_index,
)
from xrisk.problem import Problem
from xrisk.solvers.card import FULL_PASSES, SADDLE_THEORY, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import (
    EPOCHS,
    Kept,
    LastPoint,
    epochs_begun,
    first_kept,
    keep_point,
    kept_ahead,
    restart_point,
)
from xrisk.solvers.shared.reduced import move_dual, reduced_value, values_at
from xrisk.solvers.shared.tracking import first_duals


class SVRPDAIIState(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n, m) duals
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    full: np.ndarray  # U, an unbiased estimate of (1/n) Σ Jᵢ(x̃)ᵀ yᵢ at the present duals
    kept: Kept  # where the next epoch begins
    t: int  # iterations done


class SVRPDAII(NamedTuple):
    """Stochastic variance reduced primal-dual method II for inner finite sums [1]_, its supplement's Algorithm 1.

    Rule: read. As `SVRPDAI`, but J̄ᵢ is not kept. With 𝓑″ a batch of block i that is independent of 𝓑::

        U ← U + Jᵢ(x̃; 𝓑″)ᵀ(yᵢ⁺ − yᵢ)/n

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size s_y of the duals.
    epoch : int or Growing(), optional
        Iterations M from one full pass to the next; by default as many as sample as much as a pass sees. Noise gathers
        in U from pass to pass: shorter epochs than those of `SVRPDAI` do better.
    restart : LastPoint() or RandomPoint()
        Where an epoch begins: Option I, at the last point, or Option II, at a random one of the epoch before.
    batch : int
        Samples B of a block; 1 in the paper.

    Notes
    -----
    Memory beside the data is O(n m + d). The Jacobian in U is at the snapshot, on samples of its own, as the text of
    the supplement's section B says; its equation (7), at the iterate on the samples of the dual step, would make U
    biased. No rate is proved.

    References
    ----------
    .. [1] Devraj and Chen, Stochastic variance reduced primal dual algorithms for empirical composition optimization,
       2019.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> P, reward, features = rng.random((10, 10)), rng.random((10, 10)), rng.random((10, 5))
    >>> P /= P.sum(axis=1, keepdims=True)
    >>> problem = xrisk.applications.bellman(P, reward, features, sampling="uniform")
    >>> solver = xrisk.solvers.SVRPDAII(step=0.5, dual_step=1.25, epoch=15)  # the paper's, for ten states
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=1200), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-8)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    epoch: Any = None
    restart: Any = LastPoint()
    batch: int = 1

    def card(self) -> MethodCard:
        return MethodCard(
            "SVRPDA-II",
            "Devraj and Chen 2019, supplement, Algorithm 1",
            "verified",
            values="2B, full passes",
            gradients="3B (B if g is affine), full passes",
            rate="none proved; linear where it was seen",
            needs=(FULL_PASSES,),
            theory=SADDLE_THEORY,
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SVRPDAIIState:
        y = first_duals(problem)
        kept = first_kept(self.restart, x, y)
        return SVRPDAIIState(x.copy(), y, x.copy(), np.zeros_like(y), np.zeros(x.size), kept, 0)

    def pass_over(self, problem: Problem, state: SVRPDAIIState, rng: np.random.Generator) -> SVRPDAIIState:
        """The state with its snapshot where the epoch begins."""
        w, y = restart_point(self.restart, state.kept, state.w, state.y)
        means, full = values_at(problem, w), np.zeros(w.size)
        exact_vjp(problem.inner, w, y / y.shape[0], full)
        return SVRPDAIIState(w, y, w.copy(), means, full, kept_ahead(self, state.kept, state.t, rng), state.t)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        sampled = t * self.batch * inner_dim(problem.inner)
        passes = epochs_begun(self.epoch, t) * inner_samples(problem.inner)
        return Oracles(2 * sampled + passes, passes + (1 if inner_is_affine(problem.inner) else 3) * sampled)


@method(EPOCHS, {"svrpda-ii": SVRPDAII()})
def svrpdaii_steps(problem, state, solver, n_steps, rng):
    w, y, w_hat, means, full, kept, t0 = state
    g, f, r = problem
    (n, m), d = y.shape, w.size
    value, value_hat, change, v = np.empty(m), np.empty(m), np.empty(m), np.empty(d)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, tau = rate(solver.step, t), 1.0 / rate(solver.dual_step, t)
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        reduced_value(g, i, w, w_hat, batch, means, value, value_hat)
        move_dual(f, value, y[i], tau, change)
        draw(g, i, rng, batch)
        batch_vjp(g, i, w_hat, batch, change, 1.0 / n, full)
        if not inner_is_affine(g):  # else what is added here is what is subtracted
            i = uniform_index(rng, 0, n)
            draw(g, i, rng, batch)
            for j in range(d):
                v[j] = 0.0
            batch_vjp(g, i, w, batch, y[i], 1.0, v)
            batch_vjp(g, i, w_hat, batch, y[i], -1.0, v)
            for j in range(d):
                w[j] -= step * v[j]
        for j in range(d):
            w[j] -= step * full[j]
        prox(r, w, step)
        keep_point(solver.restart, kept, w, y, t + 1)
    return SVRPDAIIState(w, y, w_hat, means, full, kept, t0 + n_steps)
