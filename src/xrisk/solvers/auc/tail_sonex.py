"""SONEX for two-way partial AUC: the outer kink is smoothed, and each positive has its own threshold."""

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
from xrisk.solvers.card import LIPSCHITZ_INNER, SMOOTH_INNER, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.thresholds import (
    PARTIAL_AUC,
    TWO_WAY,
    FixedThresholds,
    Tails,
    draw_pairs,
    first_tails,
    first_thresholds,
    move_tail,
    past_value,
    same_rows,
    track_tail,
)
from xrisk.solvers.shared.tracking import (
    TheoryCorrection,
    average_into,
    check_correction,
    correction_weight,
    corrects,
)


class TailSONEXState(NamedTuple):
    w: np.ndarray  # iterate
    w_prev: np.ndarray  # the iterate before
    tails: Tails  # tracked values and thresholds of the positives
    level: float  # s′, the threshold of the risk
    v: np.ndarray  # tracks the gradient
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    t: int  # iterations done


class TailSONEX(NamedTuple):
    """SONEX with a threshold for each positive, after [1]_, Algorithms 17 and 25.

    With gᵢ(w, s; 𝓑) = s + mean over 𝓑 of (ℓᵢⱼ(w) − s)₊/θ₁, for a sample of S positives i and two independent batches
    𝓑, 𝓑̃ of negatives that all of them share::

        uᵢ ← (1 − γ) uᵢ + γ gᵢ(w_t, sᵢ_t; 𝓑) + γ′ (gᵢ(w_t, sᵢ_t; 𝓑) − gᵢ(w_{t−1}, sᵢ_{t−1}; 𝓑))
        dᵢ = clip( (uᵢ − s′)/ν, 0, 1/θ₀ )
        sᵢ ← sᵢ − β dᵢ ∂gᵢ(w_t, sᵢ_t; 𝓑̃)/∂s,    s′ ← s′ − β′ (1 − mean dᵢ)
        v ← (1 − m) v + m · mean dᵢ ∂gᵢ(w_t, sᵢ_t; 𝓑̃)/∂w
        w_{t+1} = prox_{s r}( w_t − s v )

    Parameters
    ----------
    step, tail_step, threshold_step : float or schedule
        Step sizes s, β and β′ of the parameters, the positives' thresholds and that of the risk.
    track : float or schedule
        Weight γ of the new inner value.
    momentum : float or schedule
        Weight m of the new gradient; 1 for no momentum.
    nu : float
        Smoothing ν of f(u) = (u)₊/θ₀, which is then at most ν/(2θ₀²) below f. The book has ε y²/2 for y in
        [0, 1], that is ν = εθ₀.
    correction : float or TheoryCorrection()
        γ′; 0 is v1 and saves the values at the previous iterate.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives of each of the two batches B, with replacement.
    first : FixedThresholds() or ExactThresholds()
        Where thresholds start.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported; the theorem is about a random iterate.

    Notes
    -----
    We combined the book's algorithms with a threshold for each positive. The theorem needs smooth inner functions;
    (ℓ − s)₊ keeps its kink, so for tails the method is a heuristic. Only the gradient of w has momentum: a threshold is
    sampled too rarely. The first sample of a positive initialises uᵢ, the first gradient v. `SONEX` is the method for
    means. The reported duals are the last dᵢ.

    References
    ----------
    .. [1] Yang, opt4ml, chapter 5.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.TailSONEX(), budget=xrisk.Budget(iterations=40), rng=0)
    >>> bool(result.value < problem.value(np.zeros(3)) - 0.1)
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    tail_step: float | Decreasing | Stagewise = 0.05
    threshold_step: float | Decreasing | Stagewise = 0.05
    track: float | Decreasing | Stagewise = 0.9
    momentum: float | Decreasing | Stagewise = 0.5
    nu: float = 0.05
    correction: float | TheoryCorrection = 0.1
    blocks: int | None = None
    batch: int = 32
    first: Any = FixedThresholds()
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SONEX for tails",
            "after book, Algorithms 17 and 25",
            "reconstructed",
            values="SB" if self.correction == 0.0 else "2SB",
            gradients="SB",
            rate="unknown for tails; smooth g: approximately stationary, v1 n/(SBε⁷), v2 n/(S√Bε⁵)",
            needs=(PARTIAL_AUC,),
            theory=(LIPSCHITZ_INNER, SMOOTH_INNER),
        )

    def check(self) -> None:
        """Refuse a correction that does not go with the weight of new values."""
        check_correction(self.correction, self.track)

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> TailSONEXState:
        s, level = first_thresholds(self.first, problem, w)
        order = np.arange(inner_count(problem.inner))
        return TailSONEXState(w.copy(), w.copy(), first_tails(s), level, np.zeros(w.size), w.copy(), order, 0)

    def dual(self, problem: Problem, state: TailSONEXState) -> np.ndarray:
        return np.clip((state.tails.u - state.level) / self.nu, 0.0, 1.0 / problem.outer.alpha)[:, None]


@method(TWO_WAY, {"tail-sonex": TailSONEX()})
def tailsonex_steps(problem, state, solver, n_steps, rng):
    w, w_prev, tails, level, v, w_mean, order, t0 = state
    g, rho, r = problem
    theta0, theta1 = rho.alpha, tail_share(g)
    batch_i, batch_j, batch_j2 = new_batch(g, solver.blocks), new_batch(g, solver.batch), new_batch(g, solver.batch)
    batch_i_prev, batch_j_prev, grad = same_rows(batch_i), same_rows(batch_j), np.empty(w.size)
    for t in range(t0, t0 + n_steps):
        step, beta, track = rate(solver.step, t), rate(solver.tail_step, t), rate(solver.track, t)
        correction = correction_weight(solver.correction, track, order.size, solver.blocks)
        draw_pairs(g, w, order, batch_i, batch_j, rng)
        draw(g, order[0], rng, batch_j2)
        batch_scores(g, w, batch_j2)
        if corrects(solver.correction):
            batch_scores(g, w_prev, batch_i_prev)
            batch_scores(g, w_prev, batch_j_prev)
        mean_d = 0.0
        for a in range(solver.blocks):
            i = order[a]
            value = tail_value(g, batch_i.scores[a], batch_j, tails.s[i])
            value_prev = past_value(g, solver.correction, tails, i, t, batch_i_prev.scores[a], batch_j_prev)
            track_tail(tails, i, value, value_prev, track, correction)
            d = clip((tails.u[i] - level) / solver.nu, 0.0, 1.0 / theta0)
            hits = add_tail_slopes(g, batch_i, a, batch_j2, tails.s[i], d / solver.blocks)
            move_tail(tails, i, t, beta * d * (1.0 - hits / theta1))
            mean_d += d / solver.blocks
        for j in range(w.size):
            grad[j] = 0.0
        batch_scores_vjp(g, batch_i, grad)
        batch_scores_vjp(g, batch_j2, grad)
        average_into(v, grad, rate(solver.momentum, t) if t > 0 else 1.0)
        for j in range(w.size):
            w_prev[j] = w[j]
            w[j] -= step * v[j]
        prox(r, w, step)
        level -= rate(solver.threshold_step, t) * (1.0 - mean_d)
        average_into(w_mean, w, average_weight(solver.average, t))
    return TailSONEXState(w, w_prev, tails, float(level), v, w_mean, order, t0 + n_steps)
