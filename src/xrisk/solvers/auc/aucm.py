"""AUCM: the margin form of the area under the whole curve as a min-max problem of single rows, solved by PESG."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.parameters import positive
from xrisk.inner.oracle import batch_scores_vjp, inner_count, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, Stagewise, rate
from xrisk.solvers.shared.thresholds import PARTIAL_AUC, STAGES, draw_pairs
from xrisk.solvers.shared.tracking import average_into


class AUCMState(NamedTuple):
    x: np.ndarray  # (d + 2,) w, a, b
    alpha: float  # the dual α
    v: np.ndarray  # (d + 2,) tracks the gradient
    x_bar: np.ndarray  # (d + 2,) mean of the stage before
    x_mean: np.ndarray  # (d + 2,) mean of the stage's iterates
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    first: int  # iterations done when the stage began
    t: int  # iterations done


class AUCM(NamedTuple):
    """AUC margin loss [1]_ by PESG, proximal epoch gradient steps.

    It does not minimise the problem as stated, whose loss and shares it ignores, but a surrogate of the area under the
    whole curve, for scores h = ⟨x, w⟩::

        min over w, a, b  max over α ≥ 0 of  meanᵢ (hᵢ − a)² + meanⱼ (hⱼ − b)²
            + 2α (c + meanⱼ hⱼ − meanᵢ hᵢ) − α² + r(w)

    With x = (w, a, b) and G its gradient on a batch of S positives and B negatives::

        v ← (1 − m) v + m (G + λ (x − x̄)),    x⁺ = prox_{s r}( x − s v )
        α⁺ = max( 0, α + s (2 (c + meanⱼ hⱼ − meanᵢ hᵢ) − 2α) )

    x̄ is the mean of the iterates of the stage before.

    Parameters
    ----------
    step : float or schedule
        Step size s.
    margin : float
        c; 0.5 in the experiments of the STACO paper, for scores in [0, 1].
    strength : float
        λ = 1/γ, the weight of the proximal term; γ is 100 to 1000 there.
    momentum : float or schedule
        Weight m of the new gradient; 1 for none.
    epoch : int or Growing(), optional
        Iterations of a stage; by default enough to sample every positive ten times on average.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives per iteration B, with replacement.

    Notes
    -----
    This is the form without the share of positives; the other form multiplies all terms by it and by its
    complement. The public code has the running b − a in place of the two means of scores, and clips α at 999. Maximised
    over α and minimised over a and b, the objective is Var₊(h) + Var₋(h) + (c + h̄₋ − h̄₊)₊² + r(w), convex for linear
    scores. Stages of the public code end where steps are cut; here they have a length, and a `Stagewise` step may be
    cut anywhere. The method reports the mean of the present stage, and duals of 1. It forms no pairs, so oracle calls
    count rows.

    References
    ----------
    .. [1] Yuan, Yan, Sonka and Yang, Large-scale robust deep AUC maximization: a new surrogate loss and empirical
       studies on medical image classification, 2021, and the authors' library.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5)
    >>> result = xrisk.minimize(problem, xrisk.solvers.AUCM(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.w[0] > 4 * abs(result.w[1:]).max())
    True
    """

    step: float | Decreasing | Stagewise = 0.02
    margin: float = 0.5
    strength: float = 0.002
    momentum: float | Decreasing | Stagewise = 0.9
    epoch: Spec = None
    blocks: int | None = None
    batch: int = 32

    def card(self) -> MethodCard:
        return MethodCard(
            "AUCM",
            "Yuan et al. 2021, authors' library, PESG",
            "as published",
            values="0",
            gradients="S + B",
            rate="unknown here; PESG under its conditions 1/ε, of the AUC margin loss",
            needs=(PARTIAL_AUC,),
        )

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return np.append(w, [0.0, 0.0])

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> AUCMState:
        order = np.arange(inner_count(problem.inner))
        return AUCMState(x.copy(), 0.0, np.zeros(x.size), x.copy(), x.copy(), order, 0, 0)

    def pass_over(self, problem: Problem, state: AUCMState, rng: np.random.Generator) -> AUCMState:
        """The state at the beginning of a stage, whose proximal term is centred at the mean of the stage before."""
        return state._replace(x_bar=state.x_mean.copy(), first=state.t)


@method(STAGES, {"aucm": AUCM()}, margin=positive)
def aucm_steps(problem, state, solver, n_steps, rng):
    x, alpha, v, x_bar, x_mean, order, first, t0 = state
    g, r, d = problem.inner, problem.penalty, x.size - 2
    batch_i, batch_j, grad = new_batch(g, solver.blocks), new_batch(g, solver.batch), np.empty(x.size)
    for t in range(t0, t0 + n_steps):
        step, a, b, mean_i, mean_j = rate(solver.step, t), x[d], x[d + 1], 0.0, 0.0
        draw_pairs(g, x[:d], order, batch_i, batch_j, rng)
        for k in range(solver.blocks):
            batch_i.coefs[k] = 2.0 * (batch_i.scores[k] - a - alpha) / solver.blocks
            mean_i += batch_i.scores[k] / solver.blocks
        for k in range(solver.batch):
            batch_j.coefs[k] = 2.0 * (batch_j.scores[k] - b + alpha) / solver.batch
            mean_j += batch_j.scores[k] / solver.batch
        for j in range(x.size):
            grad[j] = solver.strength * (x[j] - x_bar[j])
        batch_scores_vjp(g, batch_i, grad[:d])
        batch_scores_vjp(g, batch_j, grad[:d])
        grad[d] += 2.0 * (a - mean_i)
        grad[d + 1] += 2.0 * (b - mean_j)
        average_into(v, grad, rate(solver.momentum, t) if t > 0 else 1.0)
        for j in range(x.size):
            x[j] -= step * v[j]
        prox(r, x[:d], step)
        alpha = max(alpha + 2.0 * step * (solver.margin + mean_j - mean_i - alpha), 0.0)
        average_into(x_mean, x, 1.0 / (t + 1 - first))
    return AUCMState(x, float(alpha), v, x_bar, x_mean, order, first, t0 + n_steps)
