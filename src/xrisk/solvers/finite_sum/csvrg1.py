"""Compositional-SVRG-1: SVRG with a snapshot for the inner values as well."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    Oracles,
    batch_vjp,
    draw,
    exact_vjp,
    inner_dim,
    inner_samples,
    new_batch,
    uniform_index,
)
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.card import FULL_PASSES, LIPSCHITZ_INNER, SMOOTH_INNER, SMOOTH_OUTER, STRONGLY_CONVEX, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import (
    EPOCHS,
    NO_DUALS,
    Kept,
    LastPoint,
    epochs_begun,
    first_kept,
    keep_point,
    kept_ahead,
    restart_point,
)
from xrisk.solvers.shared.reduced import reduced_value, values_at
from xrisk.solvers.shared.tracking import first_duals


class CompositionalSVRG1State(NamedTuple):
    w: np.ndarray  # iterate
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    y_hat: np.ndarray  # (n, m) ∇f(gᵢ(x̃))
    full: np.ndarray  # (1/n) Σ Jᵢ(x̃)ᵀ ∇f(gᵢ(x̃))
    kept: Kept  # where the next epoch begins
    t: int  # iterations done


class CompositionalSVRG1(NamedTuple):
    """Compositional SVRG, first form [1]_, Algorithm 2. Rule: read in public code.

    An epoch begins with a full pass at x̃ = x: ḡᵢ = gᵢ(x̃) and g̃ = (1/n) Σ Jᵢ(x̃)ᵀ∇f(ḡᵢ). Then for a random block i
    with a batch 𝓐 of A samples and one more sample j::

        ĝ = gᵢ(x; 𝓐) − gᵢ(x̃; 𝓐) + ḡᵢ
        x ← prox_{s r}( x − s (Jᵢ(x; j)ᵀ∇f(ĝ) − Jᵢ(x̃; j)ᵀ∇f(ḡᵢ) + g̃) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    epoch : int or Growing(), optional
        Iterations K from one full pass to the next; by default as many as sample as much as a pass sees.
    restart : LastPoint(), RandomPoint() or MeanPoint()
        Where an epoch begins: at the last point, as in experiments, or at a random one, as in the theorem.
    batch : int
        Samples A of the inner value.

    Notes
    -----
    The method is stated for one inner map G that all outer functions F_i share. A finite sum of f(gᵢ) is of this kind,
    with G = (g₁, …, gₙ) and F_i a function of gᵢ alone: no other component is computed. The original has no penalty;
    ours is in the prox.

    References
    ----------
    .. [1] Lian, Wang and Liu, Finite-sum composition optimization via variance reduced gradient descent, 2017.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> solver = xrisk.solvers.CompositionalSVRG1(step=0.3)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=150), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-5)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    epoch: Any = None
    restart: Any = LastPoint()
    batch: int = 6

    def card(self) -> MethodCard:
        return MethodCard(
            "Compositional-SVRG-1",
            "Lian et al. 2017, Algorithm 2",
            "verified",
            values="2A, full passes",
            gradients="2, full passes",
            rate="strongly convex: (n + N + κ³) log 1/ε calls",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER, LIPSCHITZ_INNER, STRONGLY_CONVEX),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CompositionalSVRG1State:
        y = first_duals(problem)
        kept = first_kept(self.restart, x)
        return CompositionalSVRG1State(x.copy(), x.copy(), np.zeros_like(y), y, np.zeros(x.size), kept, 0)

    def pass_over(
        self, problem: Problem, state: CompositionalSVRG1State, rng: np.random.Generator
    ) -> CompositionalSVRG1State:
        """The state with its snapshot where the epoch begins."""
        w, _ = restart_point(self.restart, state.kept, state.w, NO_DUALS)
        means, full = values_at(problem, w), np.zeros(w.size)
        y_hat = block_slopes(problem.outer, means)
        exact_vjp(problem.inner, w, y_hat / y_hat.shape[0], full)
        kept = kept_ahead(self, state.kept, state.t, rng)
        return CompositionalSVRG1State(w, w.copy(), means, y_hat, full, kept, state.t)

    def dual(self, problem: Problem, state: CompositionalSVRG1State) -> np.ndarray:
        return state.y_hat.copy()

    def oracles(self, problem: Problem, t: int) -> Oracles:
        sampled = 2 * t * inner_dim(problem.inner)
        passes = epochs_begun(self.epoch, t) * inner_samples(problem.inner)
        return Oracles(self.batch * sampled + passes, sampled + passes)


@method(EPOCHS, {"csvrg-1": CompositionalSVRG1()})
def compositionalsvrg1_steps(problem, state, solver, n_steps, rng):
    w, w_hat, means, y_hat, full, kept, t0 = state
    g, f, r = problem
    (n, m), d = means.shape, w.size
    value, value_hat, y, v = np.empty(m), np.empty(m), np.empty(m), np.empty(d)
    batch, one, no_duals = new_batch(g, solver.batch), new_batch(g, 1), np.zeros((0, 0))
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        reduced_value(g, i, w, w_hat, batch, means, value, value_hat)
        block_slope(f, value, y)
        for j in range(d):
            v[j] = full[j]
        draw(g, i, rng, one)
        batch_vjp(g, i, w, one, y, 1.0, v)
        batch_vjp(g, i, w_hat, one, y_hat[i], -1.0, v)
        for j in range(d):
            w[j] -= step * v[j]
        prox(r, w, step)
        keep_point(solver.restart, kept, w, no_duals, t + 1)
    return CompositionalSVRG1State(w, w_hat, means, y_hat, full, kept, t0 + n_steps)
