"""STACO2: stages of STACO1, each with a proximal term around its start."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.parameters import positive
from xrisk.functions.special import clip
from xrisk.generic import generic
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


class GradientScaling(NamedTuple):
    """The weight of the proximal term is λ, as in the gradient of the stage's problem (8)."""


class PrintedScaling(NamedTuple):
    """The weight of the proximal term is λ/θ₀, as in (10) and (11) as printed."""


@generic
def anchor_slope(scaling, strength, theta0):
    """The factor of the distance to the anchor in a gradient."""


anchor_slope.of(GradientScaling)(lambda scaling, strength, theta0: strength)
anchor_slope.of(PrintedScaling)(lambda scaling, strength, theta0: strength / theta0)


class STACO2State(NamedTuple):
    w: np.ndarray  # iterate
    y: np.ndarray  # (n,) duals in [0, 1]
    s: np.ndarray  # (n,) thresholds of the positives' tails
    level: float  # s′, the threshold of the risk
    w_bar: np.ndarray  # where the stage began
    s_bar: np.ndarray  # (n,) thresholds there
    w_mean: np.ndarray  # mean of the stage's iterates
    s_sum: np.ndarray  # (n,) sum of the stage's thresholds up to iteration touched[i]
    level_mean: float  # mean of the stage's s′
    touched: np.ndarray  # (n,) iteration at which sᵢ moved last, or the stage began
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    first: int  # iterations done when the stage began
    t: int  # iterations done


class STACO2(NamedTuple):
    """Double block-coordinate primal-dual method in stages, for weakly convex losses [1]_, Algorithm 2.

    A stage begins with w̄ = w, s̄ = s and all yᵢ = 1. Its iterations are those of `STACO1` with proximal terms around
    the anchors::

        yᵢ ← clip( yᵢ + (α/θ₀) (gᵢ(w, sᵢ; 𝓑) − s′), 0, 1 )
        w⁺ = prox_{η r}( w − η [ mean yᵢ ∂gᵢ(w, sᵢ; 𝓑̃)/∂w / θ₀ + λ (w − w̄) ] )
        sᵢ ← sᵢ − β [ yᵢ ∂gᵢ(w, sᵢ; 𝓑̃)/∂s / θ₀ + λ (sᵢ − s̄ᵢ) ]
        s′ ← s′ − β′ (1 − mean yᵢ/θ₀)

    The next stage begins at the means of the iterates w, s and s′.

    Parameters
    ----------
    step, dual_step, tail_step, threshold_step : float or schedule
        Step sizes η, α, β and β′ of the parameters, the duals, the positives' thresholds and that of the risk.
    strength : float
        λ = 1/γ; γ is 300 to 1000 in the paper's experiments.
    epoch : int or Growing(), optional
        Iterations of a stage; by default enough to sample every positive ten times on average.
    scaling : GradientScaling() or PrintedScaling()
        Whether the weight of the proximal terms is λ or λ/θ₀.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives of each of the two batches B, with replacement.
    first : FixedThresholds() or ExactThresholds()
        Where thresholds start.

    Notes
    -----
    The printed (10) and (11) divide the proximal terms by θ₀ as well, which is the method for γθ₀ instead of γ; the
    gradient of (8), the problem of the stage, does not. Thresholds of positives that are not sampled do not move, and
    their means are updated when they move and when the stage ends: an iteration costs O(S), the end of a stage O(n₊).
    A stage reports the mean of its iterates so far. The paper has no penalty, starts at s = s′ = 1 (ours
    at 0) and has a margin of 0.5 for a pair (ours is 1), see `STACO1`; it does not say how long stages are. As in the
    paper, s′ has no proximal term.

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
    >>> result = xrisk.minimize(problem, xrisk.solvers.STACO2(), budget=xrisk.Budget(iterations=50), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    dual_step: float | Decreasing | Stagewise = 0.5
    tail_step: float | Decreasing | Stagewise = 0.05
    threshold_step: float | Decreasing | Stagewise = 0.05
    strength: float = 0.002
    epoch: Spec = None
    scaling: Spec = GradientScaling()
    blocks: int | None = None
    batch: int = 32
    first: Any = FixedThresholds()

    def card(self) -> MethodCard:
        return MethodCard(
            "STACO2",
            "Zhou, Wang, Thai and Yang 2025, Algorithm 2, (8)–(12)",
            "as published",
            values="SB",
            gradients="SB",
            rate="weakly convex, nearly stationary: nσ₀²/(BSε⁶) + n(C_g²C_f² + C_f²σ₂²/B)/(Sε⁴)",
            needs=(PARTIAL_AUC,),
            theory=(LIPSCHITZ_INNER,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> STACO2State:
        n = inner_count(problem.inner)
        s, level = first_thresholds(self.first, problem, w)
        anchors = w.copy(), s.copy(), w.copy(), np.zeros(n), level, np.zeros(n, dtype=np.int64)
        return STACO2State(w.copy(), np.ones(n), s, level, *anchors, np.arange(n), 0, 0)

    def pass_over(self, problem: Problem, state: STACO2State, rng: np.random.Generator) -> STACO2State:
        """The state at the beginning of a stage: at the means of the one before."""
        n, t = state.s.size, state.t
        w, level = state.w_mean, state.level_mean
        s = lazy_mean(state.s, state.s_sum, state.touched, state.first, t)
        anchors = w.copy(), s.copy(), w.copy(), np.zeros(n), level, np.full(n, t)
        return STACO2State(w.copy(), np.ones(n), s, level, *anchors, state.order, t, t)

    def dual(self, problem: Problem, state: STACO2State) -> np.ndarray:
        return state.y[:, None] / problem.outer.alpha


@method(STAGES, {"staco2": STACO2()}, scaling=anchor_slope, first=first_thresholds, strength=positive)
def staco2_steps(problem, state, solver, n_steps, rng):
    w, y, s, level, w_bar, s_bar, w_mean, s_sum, level_mean, touched, order, first, t0 = state
    g, rho, r = problem
    theta0, theta1 = rho.alpha, tail_share(g)
    coef = anchor_slope(solver.scaling, solver.strength, theta0)
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
            s_sum[i] += (t - touched[i]) * s[i]  # it stood still since it was touched
            touched[i] = t
            s[i] -= beta * (y[i] / theta0 * (1.0 - hits / theta1) + coef * (s[i] - s_bar[i]))
            mean_y += y[i] / solver.blocks
        for j in range(w.size):
            grad[j] = coef * (w[j] - w_bar[j])
        batch_scores_vjp(g, batch_i, grad)
        batch_scores_vjp(g, batch_j2, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        level -= rate(solver.threshold_step, t) * (1.0 - mean_y / theta0)
        weight = 1.0 / (t + 1 - first)
        average_into(w_mean, w, weight)
        level_mean += weight * (level - level_mean)
    means = w_bar, s_bar, w_mean, s_sum, float(level_mean), touched
    return STACO2State(w, y, s, float(level), *means, order, first, t0 + n_steps)
