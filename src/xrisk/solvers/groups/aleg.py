"""ALEG: variance-reduced mirror-prox on parameters and weights; every step samples every group."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import kl_project_logs, prox, risk_cap
from xrisk.functions.parameters import below_one
from xrisk.inner.oracle import (
    batch_values,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import AS_STATED, copied, prepare_as_stated, whole
from xrisk.solvers.card import FULL_PASSES, LIPSCHITZ_INNER, SMOOTH_INNER, SUPPORT_RISK, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, LastIterate, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.epochs import settled_epoch
from xrisk.solvers.shared.tracking import average_into
from xrisk.solvers.shared.weights import equal_logs, raised, write_weights


class ALEGMean(NamedTuple):
    w: np.ndarray  # mean of the iterates of an epoch
    q: np.ndarray  # (n,) mean of their weights
    logq: np.ndarray  # (n,) mean of the logarithms of these


class ALEGState(NamedTuple):
    w: np.ndarray  # iterate
    logq: np.ndarray  # (n,) logarithms of the weights
    hat: ALEGMean  # the last epoch, where the last full pass was made
    u: np.ndarray  # (n,) values gᵢ(ŵ)
    full: np.ndarray  # Σ q̂ᵢ∇gᵢ(ŵ)
    ahead: ALEGMean  # the present epoch, up to now
    w_mean: np.ndarray  # average of the middle points
    q_mean: np.ndarray  # (n,) average of their weights
    t: int  # iterations done


class ALEG(NamedTuple):
    """Variance-reduced mirror-prox for empirical group DRO [1]_, by the scheme of [2]_.

    On min over w of max over q in Q of Σ qᵢgᵢ(w) + r(w), Q = {q on the simplex: qᵢ ≤ κ}, every gᵢ a finite sum. An
    epoch of K iterations begins with a full pass at the means ŵ, q̂ over the epoch before, and log q̄ is the mean of the
    logarithms there. The pass gives û = g(ŵ) and Ĝ = Σ q̂ᵢ∇gᵢ(ŵ). Then, with a batch of every group i::

        w̃ = (1 − p) w_t + p ŵ                 log q̃ = (1 − p) log q_t + p log q̄
        w′ = prox_{s r}( w̃ − s Ĝ )            q′ = KL-projection onto Q of q̃ ⊙ exp(η û)
        v  = Ĝ + Σᵢ (q′ᵢ ∇gᵢ(w′; 𝓑ᵢ) − q̂ᵢ ∇gᵢ(ŵ; 𝓑ᵢ))
        hᵢ = ûᵢ + gᵢ(w′; 𝓑ᵢ) − gᵢ(ŵ; 𝓑ᵢ)
        w_{t+1} = prox_{s r}( w̃ − s v )       q_{t+1} = KL-projection onto Q of q̃ ⊙ exp(η h)

    Parameters
    ----------
    step : float or schedule
        Step size s of the parameters.
    dual_step : float or schedule
        Step size η of the weights.
    epoch : int, optional
        Iterations from one full pass to the next, K; by default as many as draw the number of samples that a pass
        reads.
    anchor : float, optional
        Weight p of the means of the last epoch, below 1; by default 1/(K + 1).
    batch : int
        Samples per group B.
    average : UniformAverage(), LastIterate(), PolynomialAverage(), …
        What is reported, of the middle points (w′, q′). The theorem is about an average of all of them; if r is
        strongly convex, the last one is closer in experiments.

    Notes
    -----
    We read only the abstract of [1]_, which names the parts: the snapshot of an epoch and its mirror image are means
    over the iterates, shifted by one index; all groups are sampled and variance-reduced; learning rates may change. How
    the parts fit together is recalled from [2]_: this is its Algorithm 2 with one sample of each group as the random
    index. Our means of an epoch are uniform; those of [1]_ have weights if steps change within an epoch. The paper has
    κ = 1, a domain where we take the proximal step of r, and B = 1. In [2]_ p is 1/K, which removes w_t entirely if
    K = 1. The state has five vectors of the size of w and seven of n numbers.

    References
    ----------
    .. [1] Yu, Cai, Jiang and Zhang, Efficient algorithms for empirical group distributionally robust optimization and
       beyond, 2024.
    .. [2] Alacaoglu and Malitsky, Stochastic variance reduction for variational inequality methods, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), rng.permutation(300) < 30
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) + X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.ALEG(step=0.5), budget=xrisk.Budget(iterations=100), rng=0)
    >>> xrisk.certify(problem, result).relative < 0.05
    True
    """

    step: float | Decreasing | Stagewise = 0.2
    dual_step: float | Decreasing | Stagewise = 1.0
    epoch: int | None = None
    anchor: float | None = None
    batch: int = 8
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "ALEG",
            "Yu et al. 2024; Alacaoglu and Malitsky 2022, Algorithm 2",
            "reconstructed",
            values="2nB, full passes",
            gradients="2nB, full passes",
            rate="convex √(b log n)/ε in the duality gap, for groups of b samples",
            needs=(SUPPORT_RISK, FULL_PASSES),
            theory=(SMOOTH_INNER, LIPSCHITZ_INNER),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "ALEG"]:
        problem, solver = prepare_as_stated(problem, self)
        sampled = inner_count(problem.inner) * solver.batch
        epoch = settled_epoch(None if self.epoch is None else whole("epoch", self.epoch), problem, sampled)
        anchor = 1.0 / (epoch + 1) if solver.anchor is None else solver.anchor
        below_one("anchor", anchor)
        return problem, solver._replace(epoch=epoch, anchor=anchor)

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> ALEGState:
        logq = equal_logs(inner_count(problem.inner))
        snapshot, u, full = ALEGMean(w, np.exp(logq), logq), np.zeros(logq.size), np.zeros(w.size)
        return copied(ALEGState(w, logq, snapshot, u, full, snapshot, w, snapshot.q, 0))

    def pass_over(self, problem: Problem, state: ALEGState, rng: np.random.Generator) -> ALEGState:
        """The state with its snapshot at the means of the epoch that ends here."""
        hat, u, full = copied(state.ahead), np.empty((state.u.size, 1)), np.zeros(state.w.size)
        exact_values(problem.inner, hat.w, u)
        exact_vjp(problem.inner, hat.w, hat.q[:, None], full)
        return state._replace(hat=hat, u=np.ascontiguousarray(u[:, 0]), full=full)


@method(AS_STATED, {"aleg": ALEG(), "aleg-last": ALEG(average=LastIterate())})
def aleg_steps(problem, state, solver, n_steps, rng):
    w, logq, hat, u, full, ahead, w_mean, q_mean, t0 = state
    g, rho, r = problem
    p, cap, one = solver.anchor, risk_cap(rho, u.size), np.ones(1)
    w_half, v, logq_half, q = np.empty(w.size), np.empty(w.size), np.empty(u.size), np.empty(u.size)
    value, value_hat, batch = np.empty(1), np.empty(1), new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, dual_step, share = rate(solver.step, t), rate(solver.dual_step, t), 1.0 / (t % solver.epoch + 1)
        average_into(w, hat.w, p)
        average_into(logq, hat.logq, p)
        for j in range(w.size):
            v[j] = full[j]
            w_half[j] = w[j] - step * full[j]
        prox(r, w_half, step)
        for i in range(u.size):
            logq_half[i] = raised(logq[i], dual_step * u[i])
        kl_project_logs(logq_half, cap)
        write_weights(logq_half, q)
        average_into(w_mean, w_half, average_weight(solver.average, t))
        average_into(q_mean, q, average_weight(solver.average, t))
        for i in range(u.size):
            if i == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_values(g, i, w_half, hat.w, batch, value, value_hat)
            batch_vjp(g, i, w_half, batch, one, q[i], v)
            batch_vjp(g, i, hat.w, batch, one, -hat.q[i], v)
            logq[i] = raised(logq[i], dual_step * (u[i] + value[0] - value_hat[0]))
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step)
        kl_project_logs(logq, cap)
        write_weights(logq, q)
        average_into(ahead.w, w, share)
        average_into(ahead.q, q, share)
        average_into(ahead.logq, logq, share)
    return ALEGState(w, logq, hat, u, full, ahead, w_mean, q_mean, t0 + n_steps)
