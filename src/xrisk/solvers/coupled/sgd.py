"""SGD on the mean loss of all rows, or with equal weights of all groups."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.functions import Identity, prox
from xrisk.inner.oracle import (
    Oracles,
    batch_vjp,
    draw,
    inner_count,
    inner_dim,
    inner_pooled,
    inner_shares,
    new_batch,
    shares_batch,
)
from xrisk.problem import Problem
from xrisk.solvers.base import Form, parameters_alone, prepare_as_stated
from xrisk.solvers.card import POOLED, MethodCard
from xrisk.solvers.method import method
from xrisk.solvers.schedules import Decreasing, PolynomialAverage, Stagewise, average_weight, rate
from xrisk.solvers.shared.tracking import average_into, next_block


class SGDState(NamedTuple):
    w: np.ndarray  # iterate
    w_mean: np.ndarray  # average of the iterates
    t: int  # iterations done


class UpweightedSGDState(NamedTuple):
    w: np.ndarray  # iterate
    w_mean: np.ndarray  # average of the iterates
    order: np.ndarray  # (n,) a permutation of the blocks; its head is the present sample
    t: int  # iterations done


def prepare_mean(problem: Problem, solver: Solver) -> tuple[Problem, Any]:
    """`prepare_as_stated` for methods of the mean of the inner functions, without its outer function or risk."""
    problem, solver = prepare_as_stated(problem, solver)
    return problem._replace(outer=Identity()), solver


def shares_as_duals(problem: Problem, w: np.ndarray) -> np.ndarray:
    """n times the shares of the groups in the pool of all rows."""
    return inner_count(problem.inner) * inner_shares(problem.inner)


def unit_duals(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Ones: all inner functions have the same weight."""
    return np.ones((inner_count(problem.inner), inner_dim(problem.inner)))


MEAN_OF_ROWS = Form(prepare_mean, parameters_alone, shares_as_duals)
MEAN_OF_GROUPS = Form(prepare_mean, parameters_alone, unit_duals)


class SGD(NamedTuple):
    """Stochastic gradient descent on the mean loss of all rows, as in [1]_, section 9.

    For a batch 𝓑 of rows of the pool::

        w_{t+1} = prox_{s r}( w_t − s ∇ℓ(w_t; 𝓑) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    batch : int
        Rows per iteration; S·B of them cost what a method of S blocks and B samples of each does.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    It does not minimise the problem as stated, whose outer function or risk it ignores, but Σᵢ (nᵢ/N) gᵢ(w) + r(w), nᵢ
    of the N places being in group i. Where groups overlap, a row has a place in each of its groups and counts as
    often. Weights of rows are relative to their group, so they do not change its share nᵢ/N. Each component of gᵢ
    counts as a group. Rows are drawn with replacement. The reported duals are those shares.
    For rankings the pool has all pairs of rows, and the objective is the surrogate of the area under the ROC curve.

    References
    ----------
    .. [1] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), rng.permutation(300) < 30
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.SGD(), budget=xrisk.Budget(iterations=100), rng=0)
    >>> result.value > problem.value(np.zeros(2))  # the large group wins
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    batch: int = 64
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SGD",
            "Robbins and Monro 1951; ALEXR, section 9.1",
            "as published",
            values="0",
            gradients="B",
            rate="convex 1/ε², strongly convex 1/(με), both for the mean over all rows",
            needs=(POOLED,),
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> SGDState:
        return SGDState(w.copy(), w.copy(), 0)

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return Oracles(values=0, gradients=t * self.batch)


class UpweightedSGD(NamedTuple):
    """SGD with up-weighting ("SGD-UW" in [1]_, section 9): every group has the same weight.

    For a sample of blocks i, with a batch 𝓑 of each::

        x_{t+1} = prox_{s r}( x_t − s · mean ∇gᵢ(x_t; 𝓑) )

    Parameters
    ----------
    step : float or schedule
        Step size s.
    blocks : int, optional
        Blocks per iteration S; by default 8, or all of them if there are fewer.
    batch : int
        Samples per block B.
    average : LastIterate(), UniformAverage(), PolynomialAverage(), …
        What is reported.

    Notes
    -----
    With the two classes as groups and ``blocks=2``, ``group_dro(X, y, y)``, it is cross-entropy with over-sampling: as
    many positives as negatives in every batch, the baseline of partial AUC in the paper.

    It does not minimise the problem as stated, whose outer function or risk it ignores, but mean gᵢ(w) + r(w), the sum
    of the components where gᵢ has several; for group means that is up-weighting the rows by 1/nᵢ. The paper gives no
    formula; ours follows its description of the sampling of groups. The reported duals are 1.

    References
    ----------
    .. [1] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), rng.permutation(300) < 30
    >>> y = np.where(X[:, 0] * np.where(groups, -1.0, 1.0) > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, alpha=0.5, l2=0.1)
    >>> pooled, equal = (
    ...     xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=100), rng=0).value
    ...     for solver in (xrisk.solvers.SGD(), xrisk.solvers.UpweightedSGD())
    ... )
    >>> equal < pooled
    True
    """

    step: float | Decreasing | Stagewise = 0.05
    blocks: int | None = None
    batch: int = 8
    average: Spec = PolynomialAverage()

    def card(self) -> MethodCard:
        return MethodCard(
            "SGD-UW",
            "ALEXR, section 9.1",
            "recalled",
            values="0",
            gradients="SB",
            rate="convex 1/ε², strongly convex 1/(με), both for the mean of the inner functions",
        )

    def init(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> UpweightedSGDState:
        return UpweightedSGDState(w.copy(), w.copy(), np.arange(inner_count(problem.inner)), 0)


@method(MEAN_OF_ROWS, {"sgd": SGD()})
def sgd_steps(problem, state, solver, n_steps, rng):
    w, w_mean, t0 = state
    g, r = inner_pooled(problem.inner), problem.penalty
    one, grad = np.ones(1), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, weight = rate(solver.step, t), average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        draw(g, 0, rng, batch)
        batch_vjp(g, 0, w, batch, one, 1.0, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return SGDState(w, w_mean, t0 + n_steps)


@method(MEAN_OF_GROUPS, {"sgd-uw": UpweightedSGD()})
def upweightedsgd_steps(problem, state, solver, n_steps, rng):
    w, w_mean, order, t0 = state
    g, r = problem.inner, problem.penalty
    one, grad = np.ones(inner_dim(g)), np.empty(w.size)
    batch = new_batch(g, solver.batch)
    for t in range(t0, t0 + n_steps):
        step, weight = rate(solver.step, t), average_weight(solver.average, t)
        for j in range(w.size):
            grad[j] = 0.0
        for a in range(solver.blocks):
            i = next_block(order, a, rng)
            if a == 0 or not shares_batch(g):
                draw(g, i, rng, batch)
            batch_vjp(g, i, w, batch, one, 1.0 / solver.blocks, grad)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(r, w, step)
        average_into(w_mean, w, weight)
    return UpweightedSGDState(w, w_mean, order, t0 + n_steps)
