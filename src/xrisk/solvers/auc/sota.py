"""SOTA: proximal stages of primal and dual gradient steps, all taken at the same point."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.parameters import positive
from xrisk.functions.special import clip
from xrisk.generic import generic
from xrisk.inner.oracle import add_tail_slopes, batch_scores_vjp, inner_count, new_batch, tail_share, tail_value
from xrisk.problem import Problem
from xrisk.solvers.card import LIPSCHITZ_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.thresholds import (
    PARTIAL_AUC,
    STAGES,
    FixedThresholds,
    draw_pairs,
    first_thresholds,
    lazy_mean,
)
from xrisk.solvers.shared.tracking import average_into


class SampledThresholds(NamedTuple):
    """Only thresholds of sampled positives move, as in the printed update."""


class AllThresholds(NamedTuple):
    """All thresholds move, those not sampled towards their anchors. An iteration costs O(n₊)."""


@generic
def thresholds_moved(coordinates, blocks, n):
    """How many thresholds an iteration moves."""


thresholds_moved.of(SampledThresholds)(lambda coordinates, blocks, n: blocks)
thresholds_moved.of(AllThresholds)(lambda coordinates, blocks, n: n)


class SOTAState(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n,) duals in [0, 1]
    s: np.ndarray  # (n,) thresholds of the positives' tails
    level: float  # s′, the threshold of the risk
    w_bar: np.ndarray  # where the stage began
    s_bar: np.ndarray  # (n,) thresholds there
    level_bar: float  # s′ there
    w_mean: np.ndarray  # mean of the stage's iterates
    y_sum: np.ndarray  # (n,) sum of the stage's duals up to iteration touched[i]
    s_sum: np.ndarray  # (n,) sum of the stage's thresholds up to iteration touched[i]
    level_mean: float  # mean of the stage's s′
    touched: np.ndarray  # (n,) iteration at which sᵢ and yᵢ moved last, or the stage began
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    first: int  # iterations done when the stage began
    t: int  # iterations done


class SOTA(NamedTuple):
    """Stochastic min-max method for two-way partial AUC [1]_, Algorithm 4 of the supplement.

    With gᵢ(w, s; 𝓑) = s + mean over 𝓑 of (ℓᵢⱼ(w) − s)₊/θ₁, for a sample of S positives i and a batch 𝓑 of negatives
    that all of them share, everything on the right from before the iteration::

        w⁺ = prox_{r/(1/η + λ)}( (w/η + λ w̄ − mean yᵢ ∂gᵢ(w, sᵢ; 𝓑)/∂w / θ₀) / (1/η + λ) )
        sᵢ⁺ = (sᵢ + λ n₊β s̄ᵢ − β yᵢ ∂gᵢ(w, sᵢ; 𝓑)/∂s / θ₀) / (1 + λ n₊β)
        s′⁺ = (s′/β′ + λ s̄′ − (1 − mean yᵢ/θ₀)) / (1/β′ + λ)
        yᵢ⁺ = clip( yᵢ + (α/θ₀) (gᵢ(w, sᵢ; 𝓑) − s′), 0, 1 )

    The next stage begins at the means of the iterates w, s, s′ and y, which become its anchors.

    Parameters
    ----------
    step : float or schedule
        Step size η of the parameters.
    dual_step : float or schedule
        Step size α of the duals; the paper has η/S.
    tail_step : float or schedule
        Step size β of the positives' thresholds sᵢ; the paper has η₂/n₊ with η₂ = ηn₊/S.
    threshold_step : float or schedule
        Step size β′ of the risk's threshold s′; the paper has η.
    strength : float
        λ = 1/γ, the weight of the proximal term around the start of the stage.
    epoch : int or Growing(), optional
        Iterations of a stage; by default enough to sample every positive ten times on average.
    coordinates : SampledThresholds() or AllThresholds()
        Whether thresholds that are not sampled move towards their anchors, too.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives per iteration B, with replacement.
    first : FixedThresholds() or ExactThresholds()
        Where thresholds start; 0 in the paper.

    Notes
    -----
    The published update restricts s to sampled positives; the text and later papers update all of them.
    Both are here. The proximal term λ‖s − s̄‖²/2 stands next to a mean over n₊ positives, hence the factor n₊ for sᵢ.
    Steps in the paper fall as 1/k with the stage k, whose length grows as k²; here they are schedules. The paper has no
    penalty; ours enters by its prox. The reported duals are the last yᵢ/θ₀.

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
    >>> result = xrisk.minimize(problem, xrisk.solvers.SOTA(), budget=xrisk.Budget(iterations=50), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    tail_step: float | Decreasing | Stagewise = 0.05
    threshold_step: float | Decreasing | Stagewise = 0.05
    strength: float = 0.002
    epoch: Spec = None
    coordinates: Any = SampledThresholds()
    blocks: int | None = None
    batch: int = 32
    first: Any = FixedThresholds()

    def card(self) -> MethodCard:
        return MethodCard(
            "SOTA",
            "Zhu et al. 2022, supplement, Algorithm 4",
            "as published",
            values="SB",
            gradients="SB",
            rate="weakly convex, nearly stationary: 1/ε⁶, n among the constants",
            needs=(PARTIAL_AUC,),
            theory=(LIPSCHITZ_INNER,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SOTAState:
        n = inner_count(problem.inner)
        s, level = first_thresholds(self.first, problem, w)
        return sota_stage(w.copy(), np.ones(n), s, level, np.arange(n), 0)

    def pass_over(self, problem: Problem, state: SOTAState, rng: np.random.Generator) -> SOTAState:
        """The state at the beginning of a stage: at the means of the one before."""
        y = lazy_mean(state.y, state.y_sum, state.touched, state.first, state.t)
        s = lazy_mean(state.s, state.s_sum, state.touched, state.first, state.t)
        return sota_stage(state.w_mean.copy(), y, s, state.level_mean, state.order, state.t)

    def dual(self, problem: Problem, state: SOTAState) -> np.ndarray:
        return state.y[:, None] / problem.outer.alpha


def sota_stage(w: np.ndarray, y: np.ndarray, s: np.ndarray, level: float, order: np.ndarray, t: int) -> SOTAState:
    """The state when a stage begins after t iterations."""
    sums = np.zeros(s.size), np.zeros(s.size), level, np.full(s.size, t)
    return SOTAState(w, y, s, level, w.copy(), s.copy(), level, w.copy(), *sums, order, t, t)


@method(
    STAGES,
    {"sota": SOTA(), "sota-all": SOTA(coordinates=AllThresholds())},
    coordinates=thresholds_moved,
    first=first_thresholds,
    strength=positive,
)
def sota_steps(problem, state, solver, n_steps, rng):
    w, y, s, level, w_bar, s_bar, level_bar, w_mean, y_sum, s_sum, level_mean, touched, order, first, t0 = state
    g, rho, r = problem
    n, theta0, theta1, coef = y.size, rho.alpha, tail_share(g), solver.strength
    batch_i, batch_j, grad = new_batch(g, solver.blocks), new_batch(g, solver.batch), np.empty(w.size)
    moved = thresholds_moved(solver.coordinates, solver.blocks, n)
    for t in range(t0, t0 + n_steps):
        step, alpha, beta = rate(solver.step, t), rate(solver.dual_step, t), rate(solver.tail_step, t)
        draw_pairs(g, w, order, batch_i, batch_j, rng)
        mean_y = 0.0
        for a in range(moved):
            i, slope = order[a], 0.0
            s_sum[i] += (t - touched[i]) * s[i]  # they have not moved since they were touched
            y_sum[i] += (t - touched[i]) * y[i]
            touched[i] = t
            if a < solver.blocks:
                value = tail_value(g, batch_i.scores[a], batch_j, s[i])
                hits = add_tail_slopes(g, batch_i, a, batch_j, s[i], y[i] / (theta0 * solver.blocks))
                slope = y[i] / theta0 * (1.0 - hits / theta1)
                mean_y += y[i] / solver.blocks
                y[i] = clip(y[i] + alpha / theta0 * (value - level), 0.0, 1.0)
            s[i] = (s[i] + coef * n * beta * s_bar[i] - beta * slope) / (1.0 + coef * n * beta)
        for j in range(w.size):
            grad[j] = -coef * w_bar[j]
        batch_scores_vjp(g, batch_i, grad)
        batch_scores_vjp(g, batch_j, grad)
        for j in range(w.size):
            w[j] = (w[j] - step * grad[j]) / (1.0 + step * coef)
        prox(r, w, step / (1.0 + step * coef))
        beta = rate(solver.threshold_step, t)
        level = (level + beta * (coef * level_bar - 1.0 + mean_y / theta0)) / (1.0 + beta * coef)
        weight = 1.0 / (t + 1 - first)
        average_into(w_mean, w, weight)
        level_mean += weight * (level - level_mean)
    means = w_mean, y_sum, s_sum, float(level_mean), touched
    return SOTAState(w, y, s, float(level), w_bar, s_bar, level_bar, *means, order, first, t0 + n_steps)
