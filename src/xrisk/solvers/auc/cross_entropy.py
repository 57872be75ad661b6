"""Cross-entropy, the usual loss of classifiers, of all rows or with equal weights of both classes."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions import prox
from xrisk.functions.special import sigmoid
from xrisk.generic import generic
from xrisk.inner.oracle import batch_scores_vjp, inner_count, inner_samples, new_batch
from xrisk.problem import Problem
from xrisk.solvers.card import MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.thresholds import PARTIAL_AUC, TWO_WAY, draw_pairs
from xrisk.solvers.shared.tracking import average_into


class EqualRows(NamedTuple):
    """Every row has the same weight: the mean logistic loss."""


class EqualClasses(NamedTuple):
    """Both classes have the same weight, as if positives were over-sampled."""


@generic
def positive_weight(weights, positives, negatives):
    """The weight of all positives together."""


positive_weight.of(EqualRows)(lambda weights, positives, negatives: positives / (positives + negatives))
positive_weight.of(EqualClasses)(lambda weights, positives, negatives: 0.5)


class CrossEntropyState(NamedTuple):
    x: np.ndarray  # (d + 1,) w and the intercept
    x_mean: np.ndarray  # (d + 1,) average of the iterates
    order: np.ndarray  # (n,) a permutation of the positives; its head is the present sample
    t: int  # iterations done


class CrossEntropy(NamedTuple):
    """Logistic regression on the rows of a ranking by stochastic gradient steps, a baseline.

    It does not minimise the problem as stated, whose loss and shares it ignores, but for p = n₊/n, or p = ½ with
    over-sampling::

        p meanᵢ log(1 + exp(−⟨xᵢ, w⟩ − c)) + (1 − p) meanⱼ log(1 + exp(⟨xⱼ, w⟩ + c)) + r(w)

    A step goes along its gradient on a sample of S positives and B negatives.

    Parameters
    ----------
    step : float or schedule
        Step size.
    weights : EqualRows() or EqualClasses()
        Whether rows or classes have equal weights.
    blocks : int, optional
        Positives per iteration S, without replacement; by default 32, or all of them if there are fewer.
    batch : int
        Negatives per iteration B, with replacement.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    Every batch has rows of both classes, weighted so that the gradient is unbiased; batches of all rows would hold few
    positives where these are rare. The intercept is not part of ``result.w`` and has no penalty. The reported duals
    are 1. The method forms no pairs, so oracle calls count rows.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(300) > 0.5, 1, -1)
    >>> problem = xrisk.applications.two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5)
    >>> result = xrisk.minimize(problem, xrisk.solvers.CrossEntropy(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> bool(result.w[0] > 4 * abs(result.w[1:]).max())
    True
    """

    step: float | Decreasing | Stagewise = 0.1
    weights: Any = EqualRows()
    blocks: int | None = None
    batch: int = 32
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "CE",
            "logistic regression; STACO, section 5",
            "recalled",
            values="0",
            gradients="S + B",
            rate="convex 1/ε², strongly convex 1/(με), both for the logistic loss of rows",
            needs=(PARTIAL_AUC,),
        )

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return np.append(w, 0.0)

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> CrossEntropyState:
        return CrossEntropyState(x.copy(), x.copy(), np.arange(inner_count(problem.inner)), 0)


@method(TWO_WAY, {"ce": CrossEntropy(), "ce-balanced": CrossEntropy(weights=EqualClasses())}, weights=positive_weight)
def crossentropy_steps(problem, state, solver, n_steps, rng):
    x, x_mean, order, t0 = state
    g, r, d = problem.inner, problem.penalty, x.size - 1
    p = positive_weight(solver.weights, order.size, inner_samples(g) // order.size)
    batch_i, batch_j, grad = new_batch(g, solver.blocks), new_batch(g, solver.batch), np.empty(x.size)
    for t in range(t0, t0 + n_steps):
        step = rate(solver.step, t)
        draw_pairs(g, x[:d], order, batch_i, batch_j, rng)
        for j in range(x.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            batch_i.coefs[a] = -p * sigmoid(-batch_i.scores[a] - x[d]) / solver.blocks
            grad[d] += batch_i.coefs[a]
        for b in range(solver.batch):
            batch_j.coefs[b] = (1.0 - p) * sigmoid(batch_j.scores[b] + x[d]) / solver.batch
            grad[d] += batch_j.coefs[b]
        batch_scores_vjp(g, batch_i, grad[:d])
        batch_scores_vjp(g, batch_j, grad[:d])
        for j in range(x.size):
            x[j] -= step * grad[j]
        prox(r, x[:d], step)
        average_into(x_mean, x, average_weight(solver.average, t))
    return CrossEntropyState(x, x_mean, order, t0 + n_steps)
