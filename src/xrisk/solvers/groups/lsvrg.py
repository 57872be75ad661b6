"""LSVRG: variance-reduced steps under the weights of the risk at the last full pass."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox, risk_weights
from xrisk.inner.oracle import (
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED, prepare_as_stated
from xrisk.solvers.card import FULL_PASSES, RISK, SMOOTH_OUTER, STRONGLY_CONVEX, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, LastIterate, Stagewise, average_weight, rate
from xrisk.solvers.shared.epochs import settled_epoch
from xrisk.solvers.shared.tracking import average_into, next_block


class LSVRGState(NamedTuple):
    w: np.ndarray  # iterate
    w_hat: np.ndarray  # where the last full pass was made
    q: np.ndarray  # (n,) weights of the risk there
    full: np.ndarray  # Σ qᵢ∇gᵢ(ŵ)
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


class LSVRG(NamedTuple):
    """SVRG for spectral risks [1]_.

    At the start of every epoch ŵ = w_t, a full pass gives the weights q of ρ at g(ŵ), and Ĝ = Σ qᵢ∇gᵢ(ŵ). Then for a
    sample of blocks i, with a batch 𝓑 of each::

        w_{t+1} = prox_{s r}( w_t − s · (mean n qᵢ (∇gᵢ(w_t; 𝓑) − ∇gᵢ(ŵ; 𝓑)) + Ĝ) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    epoch : int, Growing() or SingleLoop(), optional
        Iterations from one full pass to the next; by default as many as draw the number of samples that a pass reads.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The paper's blocks are single rows, B = S = 1, and its penalty is part of the gradient. Our blocks may be sampled
    means over groups, and the penalty enters by its prox. Weights are fixed within an epoch; under a risk with a kink
    (the maximum, CVaR) they may jump between epochs, and the method need not converge.

    References
    ----------
    .. [1] Mehta, Roulet, Pillutla, Liu and Harchaoui, Stochastic optimization for spectral risk measures, 2023.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.LSVRG(step=0.5), budget=xrisk.Budget(iterations=40), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-3)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    epoch: Spec = None
    blocks: int | None = None
    batch: int = 8
    average: Spec = LastIterate()

    def card(self) -> MethodCard:
        return MethodCard(
            "LSVRG",
            "Mehta et al. 2023",
            "recalled",
            values="0, full passes",
            gradients="2SB, full passes",
            rate="linear, for a risk smoothed enough",
            needs=(RISK, FULL_PASSES),
            theory=(SMOOTH_OUTER, STRONGLY_CONVEX),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "LSVRG"]:
        problem, solver = prepare_as_stated(problem, self)
        return problem, solver._replace(epoch=settled_epoch(self.epoch, problem, solver.blocks * solver.batch))

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> LSVRGState:
        n = inner_count(problem.inner)
        return LSVRGState(w.copy(), w.copy(), np.full(n, 1.0 / n), np.zeros(w.size), w.copy(), np.arange(n), 0)

    def pass_over(self, problem: Problem, state: LSVRGState, rng: np.random.Generator) -> LSVRGState:
        """The state with its snapshot here."""
        u, q, full = np.empty((state.q.size, 1)), np.empty_like(state.q), np.zeros(state.w.size)
        exact_values(problem.inner, state.w, u)
        risk_weights(problem.outer, np.ascontiguousarray(u[:, 0]), q)
        exact_vjp(problem.inner, state.w, q[:, None], full)
        return state._replace(w_hat=state.w.copy(), q=q, full=full)


@method(AS_STATED, {"lsvrg": LSVRG()})
def lsvrg_steps(problem, state, solver, n_steps, rng):
    w, w_hat, q, full, w_mean, order, t0 = state
    g, r = problem.inner, problem.penalty
    one, v = np.ones(1), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        for j in range(w.size):
            v[j] = full[j]
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            weight = q.size * q[i] / solver.blocks
            batch_vjp(g, i, w, batch, one, weight, v)
            batch_vjp(g, i, w_hat, batch, one, -weight, v)
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return LSVRGState(w, w_hat, q, full, w_mean, order, t0 + n_steps)
