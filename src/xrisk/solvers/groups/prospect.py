"""Prospect: tables of the last loss, slope and weight of every sample remove bias and noise from a step."""

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Risk, Spec
from xrisk.compile import canonical
from xrisk.functions import MaxRisk, prox, risk_project, risk_weights
from xrisk.functions.parameters import positive
from xrisk.inner.oracle import (
    inner_count,
    inner_samples,
    sample_range,
    sample_share,
    sample_slopes,
    sample_vjp,
    uniform_index,
)
from xrisk.inner.passes import score_count
from xrisk.problem import Problem, is_risk
from xrisk.solvers.base import AS_STATED, prepare_as_stated
from xrisk.solvers.card import SMOOTH_INNER, SMOOTH_OUTER, STRONGLY_CONVEX, SUPPORT_RISK, MethodCard, Need
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, LastIterate, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, next_block

RISK = Need("a joint risk of the inner values", lambda problem: is_risk(problem.outer))
ROWS = Need("mean losses of groups of rows", lambda problem: sample_slopes.implemented(problem.inner), "inner")


class ShiftCost(NamedTuple):
    """max over q in the dual set of ρ of ⟨q, u⟩ − (ν n/2) ‖q − 1/n‖², for a ρ without a price on q."""

    rho: Risk = MaxRisk()
    nu: float = 1.0


@risk_weights.of(ShiftCost)
def _(rho, u, q):
    top = u.max()  # a constant does not move the projection; u/ν itself may overflow
    for i in range(u.size):
        q[i] = max((u[i] - top) / (u.size * rho.nu), -1e290) + 1.0 / u.size
    risk_project(rho.rho, q)


class ProspectState(NamedTuple):
    w: np.ndarray  # iterate
    losses: np.ndarray  # (N,) of every sample, when it was last seen
    slopes: np.ndarray  # (N, scores) then
    weights: np.ndarray  # (N,) that its group had then
    means: np.ndarray  # (n,) of the table of losses in each group
    full: np.ndarray  # (d,) gradient of the tables
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the groups; its head is the present sample
    t: int  # iterations done


class Prospect(NamedTuple):
    """Bias and variance reduction for spectral risks [1]_, section 3.

    Tables hold the loss l_k, gradient g_k and weight ρ_k of every sample k of group i when it was last drawn.
    In an iteration, with a_k the share of a sample in its group::

        q = weights of the risk at the group means Σ a_k l_k of the table
        v = mean (n Nᵢ a_k) (qᵢ ∇ℓ_k(w_t) − ρ_k g_k) + Σ a_k ρ_k g_k,    over B samples k of each of S groups i
        l_k, g_k, ρ_k ← ℓ_k(w_t), ∇ℓ_k(w_t), qᵢ,    for these k
        w_{t+1} = prox_{s r}( w_t − s v )

    Parameters
    ----------
    step : float or schedule
        Step size s, the only number to tune.
    smoothing : float, optional
        ν of the cost (ν n/2) ‖q − 1/n‖² of unequal weights, half of ν times their χ²-divergence from equal ones. For
        the maximum and CVaR, which it changes by at most ν(κn − 1)/2, with κ the largest weight of a group.
    blocks : int, optional
        Groups per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per group, B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The paper's risk is over single rows, which here are groups of one row, with B = S = 1. A risk of group
    means is also a risk of rows, in which row k has the weight a_k qᵢ. Our tables are by row, so a batch leaves no
    error in the means and the gap falls linearly for groups of any size; a table of batches by group would keep their
    noise.

    The tables take 2N numbers and one more per sample and score: 3N for N rows of a linear model, never N×d gradients.
    The first iteration fills them by a pass; each iteration takes O(n log n + d) operations besides its samples. Inner
    functions without numbered samples (pairs, simulations) are refused.

    The theorem draws a second row for the table of losses. The authors' experiments and code use the same row, as we
    do, and keep the weight used in the step. Without ``smoothing`` the weights of a maximum or a CVaR jump,
    and the method need not converge unless the values at the optimum differ. The penalty is in the prox, as one of the
    authors' options has it.

    References
    ----------
    .. [1] Mehta, Roulet, Pillutla and Harchaoui, Distributionally robust optimization with bias and variance
       reduction, ICLR 2024, arXiv 2310.13863, and the authors' code.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="chi2", lam=1.0, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.Prospect(step=0.5), budget=xrisk.Budget(iterations=60), rng=0)
    >>> bool(result.value - xrisk.solvers.exact(problem).value < 1e-5)
    True
    """

    step: float | Decreasing | Stagewise = 0.1
    smoothing: float | None = None
    blocks: int | None = None
    batch: int = 8
    average: Spec = LastIterate()

    def card(self) -> MethodCard:
        return MethodCard(
            "Prospect",
            "Mehta et al. 2024, section 3, and the authors' code",
            "as published",
            values="SB, a full pass",
            gradients="SB, a full pass",
            rate="linear; for rows under a high price on q, (n + κ n max q) log(1/ε) in ‖w − w*‖² for conditioning κ",
            needs=(ROWS, RISK if self.smoothing is None else SUPPORT_RISK),
            theory=(SMOOTH_INNER, STRONGLY_CONVEX) + ((SMOOTH_OUTER,) if self.smoothing is None else ()),
        )

    def prepare(self, problem: Problem) -> tuple[Problem, "Prospect"]:
        problem, solver = prepare_as_stated(problem, self)
        if self.smoothing is None:
            return problem, solver
        positive("smoothing", self.smoothing)
        return canonical(problem._replace(outer=ShiftCost(problem.outer, float(self.smoothing)))), solver

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> ProspectState:
        n, samples = inner_count(problem.inner), inner_samples(problem.inner)
        table = np.zeros(samples), np.zeros((samples, score_count(problem.inner))), np.zeros(samples)
        return ProspectState(w.copy(), *table, np.zeros(n), np.zeros(w.size), w.copy(), np.arange(n), 0)

    def dual(self, problem: Problem, state: ProspectState) -> np.ndarray:
        q = np.empty_like(state.means)
        risk_weights(problem.outer, state.means, q)
        return q.size * q[:, None]


@method(AS_STATED, {"prospect": Prospect(), "prospect-smoothed": Prospect(smoothing=0.002)})
def prospect_steps(problem, state, solver, n_steps, rng):
    w, losses, slopes, weights, means, full, w_mean, order, t0 = state
    g, rho, r = problem
    n, drawn = means.size, solver.blocks * solver.batch
    group, sample, loss = np.empty(drawn, np.int64), np.empty(drawn, np.int64), np.empty(drawn)
    seen, change = np.empty((drawn, slopes.shape[1])), np.empty(slopes.shape[1])
    q, v = np.empty(n), np.empty(w.size)
    if t0 == 0 and n_steps > 0:
        fill_tables(g, rho, w, losses, slopes, weights, means, full)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        risk_weights(rho, means, q)
        v[:] = full
        for b in range(drawn):
            i = next_block(order, b // solver.batch, rng) if b % solver.batch == 0 else group[b - 1]
            low, high = sample_range(g, i)
            p = uniform_index(rng, low, high)
            group[b], sample[b], loss[b] = i, p, sample_slopes(g, p, w, seen[b])
            weigh_change(q[i], seen[b], weights[p], slopes[p], change)
            sample_vjp(g, p, change, n * (high - low) * sample_share(g, i, p) / drawn, v)
        for b in range(drawn):  # of a sample drawn twice the second change is none
            i, p = group[b], sample[b]
            share = sample_share(g, i, p)
            weigh_change(q[i], seen[b], weights[p], slopes[p], change)
            sample_vjp(g, p, change, share, full)
            means[i] += share * (loss[b] - losses[p])
            losses[p], weights[p], slopes[p] = loss[b], q[i], seen[b]
        for j in range(w.size):
            w[j] -= step * v[j]
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return ProspectState(w, losses, slopes, weights, means, full, w_mean, order, t0 + n_steps)


@register_jitable
def weigh_change(q, seen, q_old, slopes, change):
    """q·(slopes seen now) − q_old·(slopes of the table)."""
    for c in range(change.size):
        change[c] = q * seen[c] - q_old * slopes[c]


@register_jitable
def fill_tables(g, rho, w, losses, slopes, weights, means, full):
    """The tables at w, with the means and the gradient that they lead to."""
    q = np.empty(means.size)
    for i in range(means.size):
        low, high = sample_range(g, i)
        for p in range(low, high):
            losses[p] = sample_slopes(g, p, w, slopes[p])
            means[i] += sample_share(g, i, p) * losses[p]
    risk_weights(rho, means, q)
    for i in range(means.size):
        low, high = sample_range(g, i)
        for p in range(low, high):
            weights[p] = q[i]
            sample_vjp(g, p, slopes[p], sample_share(g, i, p) * q[i], full)
