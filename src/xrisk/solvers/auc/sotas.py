"""SOTA-s: the soft form of two-way partial AUC, exponential weights on both sides."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.inner.oracle import add_soft_slopes, batch_scores_vjp, inner_count, new_batch, soft_value
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, check_fraction, rate
from xrisk.solvers.shared.temperature import log_average, log_mean_exp
from xrisk.solvers.shared.thresholds import PARTIAL_AUC, TWO_WAY, draw_pairs
from xrisk.solvers.shared.tracking import average_into


class SOTAsState(NamedTuple):
    w: np.ndarray  # iterate
    log_u: np.ndarray  # (n,) log uᵢ, uᵢ tracks mean exp(ℓᵢⱼ/λ)
    seen: np.ndarray  # (n,) whether positive i was ever sampled
    log_v: float  # log v, v tracks mean uᵢ^{λ/λ′}
    m: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    t: int  # iterations done


class SOTAs(NamedTuple):
    """Soft two-way partial AUC [1]_, SOTA-s, in logarithms.

    It does not minimise the problem as stated but λ′ log meanᵢ (meanⱼ exp(ℓᵢⱼ(w)/λ))^{λ/λ′} + r(w): tails in the sense
    of the Kullback–Leibler divergence, without the shares k₁/n₊ and k₂/n₋. For a sample of S positives i and a
    batch 𝓑 of negatives that all of them share::

        uᵢ ← (1 − γ₀) uᵢ + γ₀ mean over 𝓑 of exp(ℓᵢⱼ/λ)
        v ← (1 − γ₁) v + γ₁ mean uᵢ^{λ/λ′}
        m ← (1 − γ₂) m + γ₂ mean of exp(ℓᵢⱼ/λ) uᵢ^{λ/λ′−1}/v · ∇ℓᵢⱼ
        w⁺ = prox_{s r}( w − s m )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    lam, outer_lam : float
        Temperatures λ of the negatives and λ′ of the positives: the smaller, the more the hardest count.
    track, outer_track : float or schedule
        Weights γ₀ and γ₁ of the new values.
    momentum : float or schedule
        Weight γ₂ of the new gradient; 1 for no momentum.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives per iteration B, with replacement.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    The state has log uᵢ and log v, which never overflow. The paper's box averages ℓᵢⱼ instead of exp(ℓᵢⱼ/λ), a misprint
    by its own text, and uses the old uᵢ, which start at 0, where the power is infinite for λ < λ′. Here the first
    sample initialises uᵢ, and v and the weights use the new one. The paper has no penalty; ours enters by its
    prox. The reported duals are 1.

    References
    ----------
    .. [1] Zhu, Li, Wang, Wu and Yang, When AUC meets DRO: optimizing partial AUC for deep learning with non-convex
       convergence guarantee, 2022.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, l2=0.1)
    >>> solver = xrisk.solvers.SOTAs(blocks=16, batch=16)
    >>> result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=30), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    lam: float = 1.0
    outer_lam: float = 1.0
    track: float | Decreasing | Stagewise = 0.9
    outer_track: float | Decreasing | Stagewise = 0.9
    momentum: float | Decreasing | Stagewise = 0.1
    blocks: int | None = None
    batch: int = 32
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SOTA-s",
            "Zhu et al. 2022, SOTA-s",
            "as published",
            values="SB",
            gradients="SB",
            rate="smooth ℓ, stationary points of the soft form: 1/ε⁴",
            needs=(PARTIAL_AUC,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SOTAsState:
        n = inner_count(problem.inner)
        seen = np.zeros(n, dtype=bool)
        return SOTAsState(w.copy(), np.zeros(n), seen, 0.0, np.zeros(w.size), w.copy(), np.arange(n), 0)


@method(TWO_WAY, {"sota-s": SOTAs()}, outer_track=check_fraction)
def sotas_steps(problem, state, solver, n_steps, rng):
    w, log_u, seen, log_v, m, w_mean, order, t0 = state
    g, r = problem.inner, problem.penalty
    power, log_s, ones = solver.lam / solver.outer_lam, math.log(solver.blocks), np.ones(solver.blocks)
    batch_i, batch_j, grad = new_batch(g, solver.blocks), new_batch(g, solver.batch), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step, track, outer_track = rate(solver.step, t), rate(solver.track, t), rate(solver.outer_track, t)
        draw_pairs(g, w, order, batch_i, batch_j, rng)
        for a in range(solver.blocks):
            i = order[a]
            value = soft_value(g, batch_i.scores[a], batch_j, solver.lam)
            log_u[i] = log_average(log_u[i], value, track) if seen[i] else value
            seen[i] = True
            batch_i.work[a] = power * log_u[i]
        log_v = log_average(log_v, log_mean_exp(batch_i.work, ones, 1.0), outer_track if t > 0 else 1.0)
        for a in range(solver.blocks):
            add_soft_slopes(g, batch_i, a, batch_j, solver.lam, log_u[order[a]], (batch_i.work[a] - log_v) - log_s)
        for j in range(w.size):
            grad[j] = 0.0
        batch_scores_vjp(g, batch_i, grad)
        batch_scores_vjp(g, batch_j, grad)
        average_into(m, grad, rate(solver.momentum, t) if t > 0 else 1.0)
        for j in range(w.size):
            w[j] -= step * m[j]
        prox(r, w, step)
        average_into(w_mean, w, average_weight(solver.average, t))
    return SOTAsState(w, log_u, seen, float(log_v), m, w_mean, order, t0 + n_steps)
