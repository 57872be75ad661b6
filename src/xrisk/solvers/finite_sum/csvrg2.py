"""Compositional-SVRG-2: snapshots for inner values and Jacobians."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    Oracles,
    batch_vjp,
    draw,
    inner_dim,
    inner_is_affine,
    inner_samples,
    new_batch,
    uniform_index,
)
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.base import check_count, whole
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
    prepare_epochs,
    restart_point,
)
from xrisk.solvers.shared.reduced import add_jacobian, jacobians_at, mean_vjp, reduced_value, values_at
from xrisk.solvers.shared.tracking import first_duals


class CompositionalSVRG2State(NamedTuple):
    w: np.ndarray  # iterate
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    y_hat: np.ndarray  # (n, m) ∇f(gᵢ(x̃))
    jacobians: np.ndarray  # (n, m, d) Jᵢ(x̃)
    full: np.ndarray  # (1/n) Σ Jᵢ(x̃)ᵀ ∇f(gᵢ(x̃))
    kept: Kept  # where the next epoch begins
    t: int  # iterations done


class CompositionalSVRG2(NamedTuple):
    """Compositional SVRG, second form [1]_, Algorithm 3. Rule: read in public code.

    An epoch begins with a full pass at x̃ = x: ḡᵢ = gᵢ(x̃), J̄ᵢ = Jᵢ(x̃) and g̃ = (1/n) Σ J̄ᵢᵀ∇f(ḡᵢ). Then for a random
    block i with a batch 𝓐 of A samples and a batch 𝓑 of B others::

        ĝ = gᵢ(x; 𝓐) − gᵢ(x̃; 𝓐) + ḡᵢ,    Ĵ = Jᵢ(x; 𝓑) − Jᵢ(x̃; 𝓑) + J̄ᵢ
        x ← prox_{s r}( x − s (Ĵᵀ∇f(ĝ) − J̄ᵢᵀ∇f(ḡᵢ) + g̃) )

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
    jacobian_batch : int
        Samples B of the Jacobian.

    Notes
    -----
    As in `CompositionalSVRG1` the shared inner map of the paper is G = (g₁, …, gₙ), and the penalty is in the prox.
    Jacobians are kept for all blocks: n·m·d numbers. Of affine gᵢ Ĵ is J̄ᵢ, and 𝓑 is not drawn.

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
    >>> solver = xrisk.solvers.CompositionalSVRG2(step=0.3)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=150), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-5)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    epoch: Any = None
    restart: Any = LastPoint()
    batch: int = 3
    jacobian_batch: int = 3

    def card(self) -> MethodCard:
        return MethodCard(
            "Compositional-SVRG-2",
            "Lian et al. 2017, Algorithm 3",
            "verified",
            values="2A, full passes",
            gradients="2B (none if g is affine), full passes",
            rate="strongly convex: (n + N + κ⁴) log 1/ε calls",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER, LIPSCHITZ_INNER, STRONGLY_CONVEX),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "CompositionalSVRG2"]:
        jacobian_batch = whole("jacobian_batch", self.jacobian_batch)
        check_count("jacobian_batch", jacobian_batch)
        return prepare_epochs(problem, self._replace(jacobian_batch=jacobian_batch))

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CompositionalSVRG2State:
        y, kept = first_duals(problem), first_kept(self.restart, x)
        jacobians, full = np.zeros((*y.shape, x.size)), np.zeros(x.size)
        return CompositionalSVRG2State(x.copy(), x.copy(), np.zeros_like(y), y, jacobians, full, kept, 0)

    def pass_over(
        self, problem: Problem, state: CompositionalSVRG2State, rng: np.random.Generator
    ) -> CompositionalSVRG2State:
        """The state with its snapshot where the epoch begins."""
        w, _ = restart_point(self.restart, state.kept, state.w, NO_DUALS)
        means, jacobians = values_at(problem, w), jacobians_at(problem, w)
        y_hat = block_slopes(problem.outer, means)
        kept = kept_ahead(self, state.kept, state.t, rng)
        full = mean_vjp(jacobians, y_hat)
        return CompositionalSVRG2State(w, w.copy(), means, y_hat, jacobians, full, kept, state.t)

    def dual(self, problem: Problem, state: CompositionalSVRG2State) -> np.ndarray:
        return state.y_hat.copy()

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return snapshot_oracles(problem, self, t)


def snapshot_oracles(problem: Problem, solver: Any, t: int) -> Oracles:
    """Calls of t iterations that take 2A values, and 2B gradients unless gᵢ is affine, beside full passes."""
    sampled = 2 * t * inner_dim(problem.inner)
    passes = epochs_begun(solver.epoch, t) * inner_samples(problem.inner)
    gradients = 0 if inner_is_affine(problem.inner) else solver.jacobian_batch * sampled
    return Oracles(solver.batch * sampled + passes, gradients + passes)


@register_jitable(forceinline=True)
def add_reduced(g, i, w, w_hat, batch, jacobian, y, y_hat, rng, v):
    """Add (Jᵢ(w; 𝓑) − Jᵢ(ŵ; 𝓑) + J̄ᵢ)ᵀy − J̄ᵢᵀŷ to ``v`` (d), with a new batch 𝓑 in the room of ``batch``."""
    if not inner_is_affine(g):  # else what is added here is what is subtracted
        draw(g, i, rng, batch)
        batch_vjp(g, i, w, batch, y, 1.0, v)
        batch_vjp(g, i, w_hat, batch, y, -1.0, v)
    add_jacobian(jacobian, y, 1.0, v)
    add_jacobian(jacobian, y_hat, -1.0, v)


@method(EPOCHS, {"csvrg-2": CompositionalSVRG2()})
def compositionalsvrg2_steps(problem, state, solver, n_steps, rng):
    w, w_hat, means, y_hat, jacobians, full, kept, t0 = state
    g, f, r = problem
    (n, m), d = means.shape, w.size
    value, value_hat, y, v = np.empty(m), np.empty(m), np.empty(m), np.empty(d)
    batch, other, no_duals = new_batch(g, solver.batch), new_batch(g, solver.jacobian_batch), np.zeros((0, 0))
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        reduced_value(g, i, w, w_hat, batch, means, value, value_hat)
        block_slope(f, value, y)
        for j in range(d):
            v[j] = full[j]
        add_reduced(g, i, w, w_hat, other, jacobians[i], y, y_hat[i], rng, v)
        for j in range(d):
            w[j] -= step * v[j]
        prox(r, w, step)
        keep_point(solver.restart, kept, w, no_duals, t + 1)
    return CompositionalSVRG2State(w, w_hat, means, y_hat, jacobians, full, kept, t0 + n_steps)
