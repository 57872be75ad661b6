"""STACO1: primal and dual steps on sampled positives, each with its own threshold."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.special import clip
from xrisk.inner.oracle import (
    add_tail_slopes,
    batch_scores,
    batch_scores_vjp,
    draw,
    inner_count,
    new_batch,
    tail_share,
    tail_value,
)
from xrisk.problem import Problem
from xrisk.solvers.card import LIPSCHITZ_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, UniformAverage, average_weight, rate
from xrisk.solvers.shared.thresholds import (
    PARTIAL_AUC,
    TWO_WAY,
    FixedThresholds,
    draw_pairs,
    first_thresholds,
)
from xrisk.solvers.shared.tracking import average_into


class STACO1State(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n,) duals in [0, 1]
    s: np.ndarray  # (n,) thresholds of the positives' tails
    level: float  # s′, the threshold of the risk
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    t: int  # iterations done


class STACO1(NamedTuple):
    """Double block-coordinate primal-dual method for two-way partial AUC [1]_, Algorithm 1.

    With gᵢ(w, s; 𝓑) = s + mean over 𝓑 of (ℓᵢⱼ(w) − s)₊/θ₁, for a sample of S positives i and two independent batches
    𝓑, 𝓑̃ of negatives that all of them share::

        yᵢ ← clip( yᵢ + (α/θ₀) (gᵢ(w, sᵢ; 𝓑) − s′), 0, 1 )
        w⁺ = prox_{η r}( w − (η/θ₀) mean yᵢ ∂gᵢ(w, sᵢ; 𝓑̃)/∂w )
        sᵢ ← sᵢ − (β/θ₀) yᵢ ∂gᵢ(w, sᵢ; 𝓑̃)/∂s
        s′ ← s′ − β′ (1 − mean yᵢ/θ₀)

    Thresholds and duals of other positives are not touched.

    Parameters
    ----------
    step : float or schedule
        Step size η of the parameters.
    dual_step : float or schedule
        Step size α of the duals.
    tail_step : float or schedule
        Step size β of the positives' thresholds sᵢ.
    threshold_step : float or schedule
        Step size β′ of the risk's threshold s′.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives of each of the two batches B, with replacement.
    first : FixedThresholds() or ExactThresholds()
        Where thresholds start: at a number, 0 by default and 1 in the paper, or at their optima for the first w.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about the uniform average.

    Notes
    -----
    θ₀ = k₁/n₊ and θ₁ = k₂/n₋ are those of the problem, the loss of the k₁ lowest positives against the k₂ highest
    negatives. The paper has no penalty; ours enters by its prox. Deviations: thresholds start at 0, where
    s = s′ = 1 is printed (with a loss below 1 at w = 0 nothing would move until they have come down, each in one of
    n₊/S iterations), and the margin of a pair is fixed at 1 (0.5 in the paper). Gradients grow as 1/(θ₀θ₁): the default
    steps are for shares of a half or so, and for small ones they should shrink as θ₀θ₁ does. The
    declared oracle calls do not include the pass of `ExactThresholds`, as other methods do not count that of a first
    threshold. The reported
    duals are the last yᵢ/θ₀.

    References
    ----------
    .. [1] Zhou, Wang, Thai and Yang, Stochastic primal-dual double block-coordinate for two-way partial AUC
       maximization, 2025.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.STACO1(), budget=xrisk.Budget(iterations=50), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    tail_step: float | Decreasing | Stagewise = 0.05
    threshold_step: float | Decreasing | Stagewise = 0.05
    blocks: int | None = None
    batch: int = 32
    first: Any = FixedThresholds()
    average: Spec = UniformAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "STACO1",
            "Zhou, Wang, Thai and Yang 2025, Algorithm 1, (4)–(7)",
            "as published",
            values="SB",
            gradients="SB",
            rate="convex nσ₀²/(BSε²) + nC_g²C_f²/(Sε²) + nC_f²σ₂²/(BSε²) + C_f²σ₁²/(Bε²) + δ²/(Sε²)",
            needs=(PARTIAL_AUC,),
            theory=(LIPSCHITZ_INNER,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> STACO1State:
        n = inner_count(problem.inner)
        s, level = first_thresholds(self.first, problem, w)
        return STACO1State(w.copy(), np.ones(n), s, level, w.copy(), np.arange(n), 0)

    def dual(self, problem: Problem, state: STACO1State) -> np.ndarray:
        return state.y[:, None] / problem.outer.alpha


@method(TWO_WAY, {"staco1": STACO1()}, first=first_thresholds)
def staco1_steps(problem, state, solver, n_steps, rng):
    w, y, s, level, w_mean, order, t0 = state
    g, rho, r = problem
    theta0, theta1 = rho.alpha, tail_share(g)
    batch_i, batch_j, batch_j2 = new_batch(g, solver.blocks), new_batch(g, solver.batch), new_batch(g, solver.batch)
    grad = np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step, alpha, beta = rate(solver.step, t), rate(solver.dual_step, t), rate(solver.tail_step, t)
        draw_pairs(g, w, order, batch_i, batch_j, rng)
        draw(g, order[0], rng, batch_j2)
        batch_scores(g, w, batch_j2)
        mean_y = 0.0
        for a in range(solver.blocks):
            i = order[a]
            value = tail_value(g, batch_i.scores[a], batch_j, s[i])
            y[i] = clip(y[i] + alpha / theta0 * (value - level), 0.0, 1.0)
            hits = add_tail_slopes(g, batch_i, a, batch_j2, s[i], y[i] / (theta0 * solver.blocks))
            s[i] -= beta / theta0 * y[i] * (1.0 - hits / theta1)
            mean_y += y[i] / solver.blocks
        for j in range(w.size):
            grad[j] = 0.0
        batch_scores_vjp(g, batch_i, grad)
        batch_scores_vjp(g, batch_j2, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        level -= rate(solver.threshold_step, t) * (1.0 - mean_y / theta0)
        average_into(w_mean, w, average_weight(solver.average, t))
    return STACO1State(w, y, s, float(level), w_mean, order, t0 + n_steps)
