"""SVRPDA-I and -II: snapshots take the noise of inner finite sums out of a primal and dual step."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.functions import prox
from xrisk.inner.oracle import batch_vjp, draw, inner_is_affine, new_batch, uniform_index
from xrisk.problem import Problem
from xrisk.solvers.card import FULL_PASSES, SADDLE_THEORY, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import EPOCHS, Kept, LastPoint, first_kept, keep_point, kept_ahead, restart_point
from xrisk.solvers.shared.reduced import (
    KeptJacobians,
    SampledJacobians,
    add_vjp,
    mean_vjp_at,
    move_dual,
    no_jacobians,
    reduced_value,
    values_at,
)
from xrisk.solvers.shared.tracking import first_duals


class SVRPDAState(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n, m) duals
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    jacobians: KeptJacobians | SampledJacobians  # at x̃
    full: np.ndarray  # U: (1/n) Σ Jᵢ(x̃)ᵀ yᵢ at the present duals, or an unbiased estimate of it
    kept: Kept  # where the next epoch begins
    t: int  # iterations done


def first_state(problem: Problem, restart: Spec, x: np.ndarray, jacobians: Any) -> SVRPDAState:
    """Before the first full pass."""
    y = first_duals(problem)
    kept = first_kept(restart, x, y)
    return SVRPDAState(x.copy(), y, x.copy(), np.zeros_like(y), jacobians, np.zeros(x.size), kept, 0)


def with_snapshot(solver: Solver, problem: Problem, state: SVRPDAState, rng: np.random.Generator) -> SVRPDAState:
    """The state with its snapshot where the epoch begins."""
    w, y = restart_point(solver.restart, state.kept, state.w, state.y)
    means, (jacobians, full) = values_at(problem, w), mean_vjp_at(state.jacobians, problem, w, y)
    return SVRPDAState(w, y, w.copy(), means, jacobians, full, kept_ahead(solver, state.kept, state.t, rng), state.t)


class SVRPDAI(NamedTuple):
    """Stochastic variance reduced primal-dual method I for inner finite sums [1]_, Algorithm 1.

    An epoch begins with a full pass at x̃ = x: ḡᵢ = gᵢ(x̃), J̄ᵢ = Jᵢ(x̃), U = (1/n) Σ J̄ᵢᵀ yᵢ. Then for a random block i
    with a batch 𝓑, and another one i′ with a batch 𝓑′::

        h = gᵢ(x; 𝓑) − gᵢ(x̃; 𝓑) + ḡᵢ
        yᵢ⁺ = argmax ⟨y, h⟩ − f*(y) − ‖y − yᵢ‖²/(2 s_y)
        U ← U + J̄ᵢᵀ(yᵢ⁺ − yᵢ)/n
        x ← prox_{s r}( x − s (J_i′(x; 𝓑′)ᵀ y_i′ − J_i′(x̃; 𝓑′)ᵀ y_i′ + U) )

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size s_y of the duals.
    epoch : int, Growing() or SingleLoop(), optional
        Iterations M from one full pass to the next; by default as many as draw the number of samples that a pass reads.
        ``SingleLoop()`` makes only the first pass: for affine gᵢ of one sample each (theorem F.1).
    restart : LastPoint() or RandomPoint()
        Where an epoch begins: Option I, at the last point, or Option II, at a random one of the epoch before.
    batch : int
        Samples B of a block; 1 in the paper.

    Notes
    -----
    The state keeps the Jacobians of all blocks, n·m·d numbers; `SVRPDAII` does not. For affine gᵢ the two terms with i′
    cancel: that block is not drawn, and an iteration takes no gradient. Option II as printed pairs random parameters
    with the last duals; its proof needs both from the same random iteration, which is what we do.
    `xrisk.solvers.theory` has the step sizes of the theorems.

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
    >>> solver = xrisk.solvers.SVRPDAI(step=0.1, dual_step=0.25, epoch=150)  # the paper's, for ten states
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=2000), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-8)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    epoch: Spec = None
    restart: Spec = LastPoint()
    batch: int = 1

    def card(self) -> MethodCard:
        return MethodCard(
            "SVRPDA-I",
            "Devraj and Chen 2019, Algorithm 1",
            "as published",
            values="2B, full passes",
            gradients="2B (none if g is affine), full passes",
            rate="strongly convex: (N + nκ + n) log 1/ε calls for N samples in all, κ = C_g²L_f/μ + (C_f L_g/μ)²",
            needs=(FULL_PASSES,),
            theory=SADDLE_THEORY,
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SVRPDAState:
        return first_state(problem, self.restart, x, no_jacobians(problem))

    def pass_over(self, problem: Problem, state: SVRPDAState, rng: np.random.Generator) -> SVRPDAState:
        return with_snapshot(self, problem, state, rng)


class SVRPDAII(NamedTuple):
    """Stochastic variance reduced primal-dual method II for inner finite sums [1]_, its supplement's Algorithm 1.

    As `SVRPDAI`, but without keeping J̄ᵢ. With 𝓑″ a batch of block i that is independent of 𝓑::

        U ← U + Jᵢ(x̃; 𝓑″)ᵀ(yᵢ⁺ − yᵢ)/n

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size s_y of the duals.
    epoch : int or Growing(), optional
        Iterations M from one full pass to the next; by default as many as draw the number of samples that a pass reads.
        Noise accumulates in U between passes: epochs should be shorter than those of `SVRPDAI`.
    restart : LastPoint() or RandomPoint()
        Where an epoch begins: Option I, at the last point, or Option II, at a random one of the epoch before.
    batch : int
        Samples B of a block; 1 in the paper.

    Notes
    -----
    The state takes O(n m + d) numbers. The Jacobian in U is evaluated at the snapshot, on its own samples, as the text
    of the supplement's section B says. Equation (7) there evaluates it at the iterate, on the samples of the dual step,
    which would make U biased. No rate is proved.

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
    epoch: Spec = None
    restart: Spec = LastPoint()
    batch: int = 1

    def card(self) -> MethodCard:
        return MethodCard(
            "SVRPDA-II",
            "Devraj and Chen 2019, supplement, Algorithm 1",
            "as published",
            values="2B, full passes",
            gradients="3B (B if g is affine), full passes",
            rate="none proved; linear where it was seen",
            needs=(FULL_PASSES,),
            theory=SADDLE_THEORY,
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SVRPDAState:
        return first_state(problem, self.restart, x, SampledJacobians())

    def pass_over(self, problem: Problem, state: SVRPDAState, rng: np.random.Generator) -> SVRPDAState:
        return with_snapshot(self, problem, state, rng)


@method(EPOCHS, {"svrpda-i": SVRPDAI(), "svrpda-ii": SVRPDAII()})
def svrpda_steps(problem, state, solver, n_steps, rng):
    w, y, w_hat, means, jacobians, full, kept, t0 = state
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
        add_vjp(jacobians, g, i, w_hat, batch, change, 1.0 / n, rng, full)
        if not inner_is_affine(g):  # else the two terms cancel
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
    return SVRPDAState(w, y, w_hat, means, jacobians, full, kept, t0 + n_steps)
