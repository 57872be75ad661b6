"""SMD: mirror descent on the parameters, mirror ascent on the weights; every step samples every group."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import kl_project_logs, prox, risk_cap
from xrisk.generic import generic
from xrisk.inner.oracle import batch_value, batch_vjp, draw, inner_count, new_batch, shares_batch
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED
from xrisk.solvers.card import SUPPORT_RISK, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.weights import equal_logs, pick, raised, write_weights


@generic
def gradient_shares(gradient, q, rng, share):
    """Write the weights of the groups' gradients in an iteration; their expectation is q."""


@generic
def gradient_is_single(gradient):
    """Whether an iteration takes the gradient of one group only."""


class EveryGroup(NamedTuple):
    """Σ qᵢ∇ℓ(w; zᵢ): a gradient of every group."""


class DrawnGroup(NamedTuple):
    """∇ℓ(w; zᵢ) of one group i ~ q."""


gradient_is_single.of(EveryGroup)(lambda gradient: False)
gradient_is_single.of(DrawnGroup)(lambda gradient: True)


@gradient_shares.of(EveryGroup)
def _(gradient, q, rng, share):
    for i in range(q.size):
        share[i] = q[i]


@gradient_shares.of(DrawnGroup)
def _(gradient, q, rng, share):
    chosen = pick(q, rng)
    for i in range(q.size):
        share[i] = 1.0 if i == chosen else 0.0


class SMDState(NamedTuple):
    w: np.ndarray  # iterate
    logq: np.ndarray  # (n,) logarithms of the weights
    w_mean: np.ndarray  # average of the iterates
    q_mean: np.ndarray  # (n,) average of the weights
    t: int  # iterations done


class SMD(NamedTuple):
    """Stochastic mirror descent for group DRO [1]_, as described in [2]_, section 7.

    On min over w of max over q in Q of Σ qᵢgᵢ(w) + r(w), Q = {q on the simplex: qᵢ ≤ κ}, with a batch of every
    group i::

        ĥᵢ = gᵢ(w_t; 𝓑ᵢ)
        w_{t+1} = prox_{s r}( w_t − s Σᵢ q_{t,i} ∇gᵢ(w_t; 𝓑ᵢ) )
        q_{t+1} = KL-projection onto Q of q_t ⊙ exp(η ĥ)

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size η of the weights.
    batch : int
        Samples per group B.
    gradient : EveryGroup() or DrawnGroup()
        All gradients, or that of one group drawn by its weight.
    average : UniformAverage(), PolynomialAverage(), LastIterate(), …
        What is reported, of the parameters and of the weights; the theorem is about the uniform average.

    Notes
    -----
    κ is 1 for the maximum, 1/(αn) for CVaR; the projection is exact, O(n log n). Risks with a price on q (χ², KL) are
    refused: their dual step differs. The paper projects on a domain, where we take the proximal step of r, and
    has B = 1. Averages are over (w_1, q_1), …, (w_T, q_T); the theorem's begin at the start and end one earlier. Its
    step sizes are in `xrisk.solvers.theory.smd_setting`.

    References
    ----------
    .. [1] Zhang, Zhao, Zhuang, Jin, Zhou and Yang, Stochastic approximation approaches to group distributionally
       robust optimization, 2023, Algorithm 1.
    .. [2] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), rng.permutation(300) < 30
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) + X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> solver = xrisk.solvers.SMD(step=0.2, dual_step=0.2)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=250), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.03
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.05
    batch: int = 8
    gradient: Any = EveryGroup()
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SMD",
            "Zhang et al. 2023, Algorithm 1; ALEXR, section 7",
            "recalled",
            values="nB",
            gradients="B" if gradient_is_single(self.gradient) else "nB",
            rate="convex (log n)/ε² in the duality gap, for bounded losses",
            needs=(SUPPORT_RISK,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SMDState:
        logq = equal_logs(inner_count(problem.inner))
        return SMDState(w.copy(), logq, w.copy(), np.exp(logq), 0)


@method(AS_STATED, {"smd": SMD(), "smd-drawn": SMD(gradient=DrawnGroup())}, gradient=gradient_shares)
def smd_steps(problem, state, solver, n_steps, rng):
    w, logq, w_mean, q_mean, t0 = state
    g, rho, r = problem
    cap = risk_cap(rho, logq.size)
    q, share, value, one, grad = np.empty(logq.size), np.empty(logq.size), np.empty(1), np.ones(1), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    write_weights(logq, q)
    for t in range(t0, t0 + n_steps):
        step, dual_step, weight = rate(solver.step, t), rate(solver.dual_step, t), average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        gradient_shares(solver.gradient, q, rng, share)
        for i in range(q.size):
            if i == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_value(g, i, w, batch, value)
            logq[i] = raised(logq[i], dual_step * value[0])
            if share[i] > 0.0:
                batch_vjp(g, i, w, batch, one, share[i], grad)
        kl_project_logs(logq, cap)
        write_weights(logq, q)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        for j in range(w.size):
            w_mean[j] += weight * (w[j] - w_mean[j])
        for i in range(q.size):
            q_mean[i] += weight * (q[i] - q_mean[i])
    return SMDState(w, logq, w_mean, q_mean, t0 + n_steps)
