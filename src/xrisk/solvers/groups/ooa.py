"""OOA: online group DRO: the weights of all groups follow from the losses of a few."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import kl_project_logs, prox, risk_cap
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    draw,
    inner_count,
    new_batch,
    shares_batch,
    uniform_index,
)
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED
from xrisk.solvers.card import SUPPORT_RISK, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.weights import equal_logs, raised


class OOAState(NamedTuple):
    w: np.ndarray  # iterate
    logq: np.ndarray  # (n,) logarithms of the weights
    w_mean: np.ndarray  # average of the iterates
    q_mean: np.ndarray  # (n,) average of the weights
    order: np.ndarray  # (n,) a permutation of the groups; its head is the present sample
    t: int  # iterations done


class OOA(NamedTuple):
    """Online optimisation of the worst groups [1]_, Algorithm 1; capped as in [2]_, section 7.

    On min over w of max over q in Q of Σ qᵢgᵢ(w) + r(w), Q = {q on the simplex: qᵢ ≤ κ}, for a sample of S groups i::

        ĥᵢ = (n/S) gᵢ(w_t; 𝓑ᵢ), 0 for groups that are not sampled
        q_{t+1} = KL-projection onto Q of q_t ⊙ exp(η ĥ)
        w_{t+1} = prox_{s r}( w_t − s (n/S) Σᵢ q_{t+1,i} ∇gᵢ(w_t; 𝓑ᵢ) )

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size η of the weights.
    blocks : int, optional
        Groups per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per group B.
    average : UniformAverage(), PolynomialAverage(), LastIterate(), …
        What is reported, of the parameters and of the weights; the theorem is about the uniform average.

    Notes
    -----
    κ is 1 for the maximum, 1/(αn) for CVaR; the projection is exact, O(n log n) per iteration. Where αn is not whole,
    the last group counts fractionally, as in the objective. The gradient uses the new weights, which depend on the same
    batch, so it is biased by O(η), unlike that of `SMD`. The authors' code leaves the factors n/S to the step sizes.
    Risks with a price on q (χ², KL) are refused: their dual step differs. The paper has no r and no B; its step
    sizes are in `xrisk.solvers.theory.ooa_setting`.

    References
    ----------
    .. [1] Sagawa, Koh, Hashimoto and Liang, Distributionally robust neural networks for group shifts, 2020.
    .. [2] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), rng.integers(0, 4, 300)
    >>> y = np.where(X[:, 0] * np.where(groups > 0, 1.0, -1.0) + X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.OOA(step=0.1, dual_step=0.05, blocks=2)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=300), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.05
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.02
    blocks: int | None = None
    batch: int = 8
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "OOA",
            "Sagawa et al. 2020, Algorithm 1; ALEXR, section 7",
            "as published",
            values="SB",
            gradients="SB",
            rate="convex n²(log n)/ε² in the duality gap, for bounded losses",
            needs=(SUPPORT_RISK,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> OOAState:
        logq = equal_logs(inner_count(problem.inner))
        return OOAState(w.copy(), logq, w.copy(), np.exp(logq), np.arange(logq.size), 0)


@method(AS_STATED, {"ooa": OOA()})
def ooa_steps(problem, state, solver, n_steps, rng):
    w, logq, w_mean, q_mean, order, t0 = state
    g, rho, r = problem
    cap, scale = risk_cap(rho, logq.size), logq.size / solver.blocks
    value, one, grad = np.empty(1), np.ones(1), np.empty(w.size)
    batches = [new_batch(g, solver.batch) for _ in range(solver.blocks)]
    for t in range(t0, t0 + n_steps):
        step, dual_step, weight = rate(solver.step, t), rate(solver.dual_step, t), average_weight(solver.average, t)
        for a in range(solver.blocks):
            b = uniform_index(rng, a, order.size)
            order[a], order[b] = order[b], order[a]
            i = order[a]
            if a > 0 and shares_batch(g):
                batches[a] = batches[0]
            else:
                draw(g, i, rng, batches[a])
            batch_value(g, i, w, batches[a], value)
            logq[i] = raised(logq[i], dual_step * scale * value[0])
        kl_project_logs(logq, cap)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            batch_vjp(g, order[a], w, batches[a], one, scale * math.exp(logq[order[a]]), grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        for j in range(w.size):
            w_mean[j] += weight * (w[j] - w_mean[j])
        for i in range(logq.size):
            q_mean[i] += weight * (math.exp(logq[i]) - q_mean[i])
    return OOAState(w, logq, w_mean, q_mean, order, t0 + n_steps)
