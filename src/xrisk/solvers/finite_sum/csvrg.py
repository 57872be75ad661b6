"""Compositional-SVRG-1 and -2: SVRG with a snapshot for the inner values as well, and for the Jacobians."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.functions import block_slope, prox
from xrisk.generic import generic
from xrisk.inner.oracle import draw, new_batch, uniform_index
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.card import FULL_PASSES, LIPSCHITZ_INNER, SMOOTH_INNER, SMOOTH_OUTER, STRONGLY_CONVEX, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.epochs import (
    EPOCHS,
    NO_DUALS,
    Kept,
    LastPoint,
    first_kept,
    keep_point,
    kept_ahead,
    restart_point,
)
from xrisk.solvers.shared.reduced import (
    KeptJacobians,
    SampledJacobians,
    add_reduced_vjp,
    mean_vjp_at,
    no_jacobians,
    reduced_value,
    values_at,
)
from xrisk.solvers.shared.tracking import first_duals


class CompositionalSVRGState(NamedTuple):
    w: np.ndarray  # iterate
    w_hat: np.ndarray  # the snapshot x̃
    means: np.ndarray  # (n, m) g(x̃)
    y_hat: np.ndarray  # (n, m) ∇f(gᵢ(x̃))
    jacobians: KeptJacobians | SampledJacobians  # at x̃
    full: np.ndarray  # (1/n) Σ Jᵢ(x̃)ᵀ ∇f(gᵢ(x̃))
    kept: Kept  # where the next epoch begins
    t: int  # iterations done


@generic
def jacobian_samples(solver):
    """Samples of a Jacobian in an iteration."""


def first_state(problem: Problem, restart: Spec, x: np.ndarray, jacobians: Any) -> CompositionalSVRGState:
    """Before the first full pass."""
    y, kept = first_duals(problem), first_kept(restart, x)
    return CompositionalSVRGState(x.copy(), x.copy(), np.zeros_like(y), y, jacobians, np.zeros(x.size), kept, 0)


def with_snapshot(
    solver: Solver, problem: Problem, state: CompositionalSVRGState, rng: np.random.Generator
) -> CompositionalSVRGState:
    """The state with its snapshot where the epoch begins."""
    w, _ = restart_point(solver.restart, state.kept, state.w, NO_DUALS)
    means = values_at(problem, w)
    y_hat = block_slopes(problem.outer, means)
    jacobians, full = mean_vjp_at(state.jacobians, problem, w, y_hat)
    kept = kept_ahead(solver, state.kept, state.t, rng)
    return CompositionalSVRGState(w, w.copy(), means, y_hat, jacobians, full, kept, state.t)


class CompositionalSVRG1(NamedTuple):
    """Compositional SVRG, first form [1]_, Algorithm 2. The update is that of public code.

    An epoch begins with a full pass at x̃ = x: ḡᵢ = gᵢ(x̃) and g̃ = (1/n) Σ Jᵢ(x̃)ᵀ∇f(ḡᵢ). Then for a random block i
    with a batch 𝓐 of A samples and one more sample j::

        ĝ = gᵢ(x; 𝓐) − gᵢ(x̃; 𝓐) + ḡᵢ
        x ← prox_{s r}( x − s (Jᵢ(x; j)ᵀ∇f(ĝ) − Jᵢ(x̃; j)ᵀ∇f(ḡᵢ) + g̃) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    epoch : int or Growing(), optional
        Iterations K from one full pass to the next; by default as many as draw the number of samples that a pass reads.
    restart : LastPoint(), RandomPoint() or MeanPoint()
        Where an epoch begins: at the last point, as in experiments, or at a random one, as in the theorem.
    batch : int
        Samples A of the inner value.

    Notes
    -----
    The paper states the method for one inner map G that all outer functions F_i share. A finite sum of f(gᵢ) has this
    form, with G = (g₁, …, gₙ) and F_i a function of gᵢ alone, so no other component is computed. The paper has no
    penalty; ours enters by its prox.

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
    epoch: Spec = None
    restart: Spec = LastPoint()
    batch: int = 6

    def card(self) -> MethodCard:
        return MethodCard(
            "Compositional-SVRG-1",
            "Lian et al. 2017, Algorithm 2",
            "as published",
            values="2A, full passes",
            gradients="2, full passes",
            rate="strongly convex: (n + N + κ³) log 1/ε calls",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER, LIPSCHITZ_INNER, STRONGLY_CONVEX),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CompositionalSVRGState:
        return first_state(problem, self.restart, x, SampledJacobians())

    def pass_over(
        self, problem: Problem, state: CompositionalSVRGState, rng: np.random.Generator
    ) -> CompositionalSVRGState:
        return with_snapshot(self, problem, state, rng)


class CompositionalSVRG2(NamedTuple):
    """Compositional SVRG, second form [1]_, Algorithm 3. The update is that of public code.

    An epoch begins with a full pass at x̃ = x: ḡᵢ = gᵢ(x̃), J̄ᵢ = Jᵢ(x̃) and g̃ = (1/n) Σ J̄ᵢᵀ∇f(ḡᵢ). Then for a random
    block i with a batch 𝓐 of A samples and a batch 𝓑 of B others::

        ĝ = gᵢ(x; 𝓐) − gᵢ(x̃; 𝓐) + ḡᵢ,    Ĵ = Jᵢ(x; 𝓑) − Jᵢ(x̃; 𝓑) + J̄ᵢ
        x ← prox_{s r}( x − s (Ĵᵀ∇f(ĝ) − J̄ᵢᵀ∇f(ḡᵢ) + g̃) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    epoch : int or Growing(), optional
        Iterations K from one full pass to the next; by default as many as draw the number of samples that a pass reads.
    restart : LastPoint(), RandomPoint() or MeanPoint()
        Where an epoch begins: at the last point, as in experiments, or at a random one, as in the theorem.
    batch : int
        Samples A of the inner value.
    jacobian_batch : int
        Samples B of the Jacobian.

    Notes
    -----
    As in `CompositionalSVRG1`, the shared inner map of the paper is G = (g₁, …, gₙ), and the penalty enters
    by its prox. The state keeps the Jacobians of all blocks, n·m·d numbers. For affine gᵢ, Ĵ = J̄ᵢ and 𝓑 is not drawn.

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
    epoch: Spec = None
    restart: Spec = LastPoint()
    batch: int = 3
    jacobian_batch: int = 3

    def card(self) -> MethodCard:
        return MethodCard(
            "Compositional-SVRG-2",
            "Lian et al. 2017, Algorithm 3",
            "as published",
            values="2A, full passes",
            gradients="2B (none if g is affine), full passes",
            rate="strongly convex: (n + N + κ⁴) log 1/ε calls",
            needs=(FULL_PASSES, SMOOTH_OUTER),
            theory=(SMOOTH_INNER, LIPSCHITZ_INNER, STRONGLY_CONVEX),
        )

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CompositionalSVRGState:
        return first_state(problem, self.restart, x, no_jacobians(problem))

    def pass_over(
        self, problem: Problem, state: CompositionalSVRGState, rng: np.random.Generator
    ) -> CompositionalSVRGState:
        return with_snapshot(self, problem, state, rng)


jacobian_samples.of(CompositionalSVRG1)(lambda solver: 1)
jacobian_samples.of(CompositionalSVRG2)(lambda solver: solver.jacobian_batch)


@method(EPOCHS, {"csvrg-1": CompositionalSVRG1(), "csvrg-2": CompositionalSVRG2()})
def compositionalsvrg_steps(problem, state, solver, n_steps, rng):
    w, w_hat, means, y_hat, jacobians, full, kept, t0 = state
    g, f, r = problem
    (n, m), d = means.shape, w.size
    value, value_hat, y, v = np.empty(m), np.empty(m), np.empty(m), np.empty(d)
    batch, other, no_duals = new_batch(g, solver.batch), new_batch(g, jacobian_samples(solver)), np.zeros((0, 0))
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        reduced_value(g, i, w, w_hat, batch, means, value, value_hat)
        block_slope(f, value, y)
        for j in range(d):
            v[j] = full[j]
        add_reduced_vjp(jacobians, g, i, w, w_hat, other, y, y_hat[i], rng, v)
        for j in range(d):
            w[j] -= step * v[j]
        prox(r, w, step)
        keep_point(solver.restart, kept, w, no_duals, t + 1)
    return CompositionalSVRGState(w, w_hat, means, y_hat, jacobians, full, kept, t0 + n_steps)
