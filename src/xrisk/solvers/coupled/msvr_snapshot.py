"""MSVR v3: full passes at snapshots take the noise of finite sums out of the tracked values and gradient."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import block_slope, prox
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem, block_slopes
from xrisk.solvers.base import COUPLED, prepare_coupled
from xrisk.solvers.card import FULL_PASSES, LIPSCHITZ_OUTER, SMOOTH_INNER, MethodCard
from xrisk.solvers.coupled.msvr import SMOOTH
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.epochs import settled_epoch
from xrisk.solvers.shared.tracking import (
    TheoryCorrection,
    assign,
    average_into,
    check_correction,
    correction_weight,
    first_duals,
    next_block,
    update_tracker,
    visit_weight,
)


class SnapshotMSVRState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    u: np.ndarray  # (n, m) u[i] tracks gᵢ(w)
    u_prev: np.ndarray  # (n, m) u[i] from before its last update
    touched: np.ndarray  # (n,) iteration of that update, −2 before the first
    v: np.ndarray  # tracks the gradient
    w_hat: np.ndarray  # the snapshot
    means: np.ndarray  # (n, m) g(w_hat)
    y_hat: np.ndarray  # (n, m) ∇f(uᵢ) at the time of the snapshot
    full: np.ndarray  # (1/n) Σ Jᵢ(w_hat)ᵀ y_hat[i]
    w_mean: np.ndarray  # average of the iterates
    y_mean: np.ndarray  # (n, m) average of the slopes of each block
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class SnapshotMSVR(NamedTuple):
    """Multi-block-single-probe variance reduction, v3, for inner finite sums [1]_.

    At the start of every epoch x̂ = x_t, ŷᵢ = ∇f(uᵢ) and a full pass gives ĝᵢ = gᵢ(x̂), Ĝ = (1/n) Σ Jᵢ(x̂)ᵀ ŷᵢ. Then
    for a sample of blocks i, with one batch 𝓑 of each::

        z = mean Jᵢ(x_t; 𝓑)ᵀ ∇f(uᵢ),    ẑ = mean Jᵢ(x̂; 𝓑)ᵀ ŷᵢ,    z̃ as z one iteration before
        uᵢ ← (1 − γ) uᵢ + γ (g(x_t; 𝓑) − g(x̂; 𝓑) + ĝᵢ) + γ′ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))
        v ← (1 − β)(v + z − z̃) + β (z − ẑ + Ĝ)
        x_{t+1} = prox_{s r}( x_t − s v )

    Parameters
    ----------
    step : float or schedule
        Step size s; S/(n√N) in the theorem, up to a constant, for N samples of each block.
    track : float or schedule
        Weight γ of the new inner value; 1/N in the theorem.
    momentum : float or schedule
        Weight β of the new gradient; S/(nN) in the theorem.
    correction : TheoryCorrection() or float
        γ′. The theorem's grows like n/S.
    epoch : int, Growing() or SingleLoop(), optional
        Iterations from one full pass to the next; by default as many as draw the number of samples that a pass reads.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    The paper has no proximal step; ours replaces ∇r. The first pass initialises all uᵢ. Samples are drawn
    with replacement.

    References
    ----------
    .. [1] Jiang, Li, Wang, Zhang and Yang, Multi-block-single-probe variance reduced estimator for coupled
       compositional optimization, 2022, and its journal version.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> solver = xrisk.solvers.SnapshotMSVR(step=0.5)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=50), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-3)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.1
    momentum: float | Decreasing | Stagewise = 0.1
    correction: float | TheoryCorrection = TheoryCorrection()
    epoch: Spec = None
    blocks: int | None = None
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SnapshotMSVR",
            "Jiang et al. 2022, MSVR v3",
            "as published",
            values="3SB, full passes",
            gradients="3SB, full passes",
            rate="non-convex to ‖∇F‖ ≤ ε: n√N/(Sε²) for N samples of each block",
            needs=(SMOOTH, FULL_PASSES),
            theory=(LIPSCHITZ_OUTER, SMOOTH_INNER),
        )

    def check(self) -> None:
        """Refuse a correction that does not go with the weight of new values."""
        check_correction(self.correction, self.track)

    def prepare(self, problem: Problem) -> tuple[Problem, "SnapshotMSVR"]:
        problem, solver = prepare_coupled(problem, self)
        sampled = solver.blocks * solver.batch * inner_dim(problem.inner)
        return problem, solver._replace(epoch=settled_epoch(self.epoch, problem, sampled))

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> SnapshotMSVRState:
        n, d, y = inner_count(problem.inner), x.size, first_duals(problem)
        blocks = [np.zeros_like(y) for _ in range(4)]
        return SnapshotMSVRState(
            *(x.copy(), x.copy(), blocks[0], blocks[1], np.full(n, -2), np.zeros(d)),
            *(x.copy(), blocks[2], blocks[3], np.zeros(d)),
            *(x.copy(), y, np.arange(n), 0),
        )

    def pass_over(self, problem: Problem, state: SnapshotMSVRState, rng: np.random.Generator) -> SnapshotMSVRState:
        """The state with its snapshot at the iterate; the first one initialises the tracked values."""
        means = np.empty_like(state.means)
        exact_values(problem.inner, state.w, means)
        u = means.copy() if state.t == 0 else state.u
        y_hat, full = block_slopes(problem.outer, u), np.zeros(state.w.size)
        exact_vjp(problem.inner, state.w, y_hat / y_hat.shape[0], full)
        return state._replace(u=u, w_hat=state.w.copy(), means=means, y_hat=y_hat, full=full)


@method(COUPLED, {"msvr-v3": SnapshotMSVR()})
def snapshotmsvr_steps(problem, state, solver, n_steps, rng):
    w, w_prev, u, u_prev, touched, v, w_hat, means, y_hat, full, w_mean, y_mean, order, t0 = state
    g, f, r = problem
    (n, m), d = u.shape, w.size
    value, value_prev, value_hat, y = np.empty(m), np.empty(m), np.empty(m), np.empty(m)
    z, z_prev, z_hat = np.empty(d), np.empty(d), np.empty(d)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, track, momentum = rate(solver.step, t), rate(solver.track, t), rate(solver.momentum, t) if t > 0 else 1.0
        correction = correction_weight(solver.correction, track, n, solver.blocks)
        weight, part = average_weight(solver.average, t), 1.0 / solver.blocks
        for j in range(d):
            z[j], z_prev[j], z_hat[j] = 0.0, 0.0, 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_values(g, i, w, w_prev, batch, value, value_prev)
            batch_value(g, i, w_hat, batch, value_hat)
            if touched[i] < t - 1:  # block i was not updated in the last iteration: uᵢ has its old value
                assign(u_prev[i], u[i])
            block_slope(f, u_prev[i], y)
            batch_vjp(g, i, w_prev, batch, y, part, z_prev)
            batch_vjp(g, i, w_hat, batch, y_hat[i], part, z_hat)
            block_slope(f, u[i], y)
            batch_vjp(g, i, w, batch, y, part, z)
            average_into(y_mean[i], y, visit_weight(weight, n, solver.blocks))
            assign(u_prev[i], u[i])
            touched[i] = t
            for j in range(m):  # on both values, so that their difference stays
                value[j] += means[i, j] - value_hat[j]
                value_prev[j] += means[i, j] - value_hat[j]
            update_tracker(u[i], value, value_prev, track, correction)
        assign(w_prev, w)
        for j in range(d):
            v[j] = (1.0 - momentum) * (v[j] + z[j] - z_prev[j]) + momentum * (z[j] - z_hat[j] + full[j])
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SnapshotMSVRState(
        w, w_prev, u, u_prev, touched, v, w_hat, means, y_hat, full, w_mean, y_mean, order, t0 + n_steps
    )
