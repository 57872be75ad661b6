"""L-BFGS on a smooth objective, convex or not: a local optimum near the start."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner, Outer, Penalty
from xrisk.functions import penalty_slope, shrink
from xrisk.functions.parameters import positive, whole_from
from xrisk.inner.oracle import Oracles, exact_values, exact_vjp, inner_count, inner_dim
from xrisk.inner.passes import column_sizes
from xrisk.problem import Problem, block_slopes, is_outer, mean_block_value, penalty_at
from xrisk.solvers.base import Stop, prepare_as_stated
from xrisk.solvers.card import FULL_PASSES, SMOOTH_OUTER, MethodCard, Need
from xrisk.solvers.full_batch import full_batch
from xrisk.solvers.shared.metric import Memory, inverse_times, no_memory, remembered

ARMIJO = 1e-4  # part of the decrease along the slope that a step must make
HALVINGS = 40  # of a step at most
DOUBLINGS = 30  # of the first step at most, whose length is not known
FLAT = 1e-5  # slope in each coordinate, in units of the columns, that counts as none
ENDINGS = (None, Stop.LOCAL)

SMOOTH_PENALTY = Need(
    "a differentiable penalty",
    lambda problem: penalty_slope.implemented(problem.penalty) and not _has_kinks(problem.penalty),
    "penalty",
)
NO_RISK = Need("an outer function of each block", lambda problem: is_outer(problem.outer))
COLUMNS = Need("rows with columns", lambda problem: column_sizes.implemented(problem.inner), "inner")


def _has_kinks(penalty: Penalty) -> bool:
    """Whether the part of the penalty that is not differentiable moves a point."""
    w = np.ones(1)
    shrink(penalty, w, 1.0)
    return bool(w[0] != 1.0)


class DescentTask(NamedTuple):
    """A problem, with the full passes made over it."""

    inner: Inner
    outer: Outer
    penalty: Penalty
    sizes: np.ndarray  # (d,) of the columns, in units of which steps are taken
    passes: np.ndarray  # (2,) for values and gradients
    prepared: np.ndarray  # (2,) of them by preparing


class DescentState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    y: np.ndarray  # (n, m) slopes of the outer function
    grad: np.ndarray  # (d,) of the objective
    memory: Memory  # of the last steps
    value: float  # objective
    gap: float = np.nan  # nothing is known of the optimum
    ended: int = 0
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


class Descent(NamedTuple):
    """L-BFGS with backtracking on F(w) = mean_i f(gᵢ(w)) + r(w), for smooth f, gᵢ and r, none of which need be convex.

    Parameters
    ----------
    tol : float
        A run ends when a step lowers the objective by at most ``tol`` relative to its size, or where that is below
        one, by at most ``tol``.
    memory : int
        Steps remembered.

    Notes
    -----
    The first metric is the squares of the columns, so that the descent does not depend on their units. Where the slope
    does not grow along a step, as on a concave part, the step is made and not remembered.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.applications import sigmoid_partial_auc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = np.where(X[:, 0] + X[:, 1] ** 2 + rng.standard_normal(200) > 1.5, 1, -1)
    >>> start = np.array([1.0, 0.0, 0.0])
    >>> problem = sigmoid_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, anchor=0.01, center=start)
    >>> result = xrisk.minimize(problem, xrisk.solvers.Descent(), start, budget=xrisk.Budget(iterations=100))
    >>> result.value < problem.value(start)
    True
    """

    tol: float = 1e-10
    memory: int = 10

    def card(self) -> MethodCard:
        return MethodCard(
            "L-BFGS",
            "Liu and Nocedal 1989",
            "ours",
            values="all, once or more",
            gradients="all, once",
            rate="to a local optimum; no rate",
            needs=(NO_RISK, FULL_PASSES, COLUMNS, SMOOTH_OUTER, SMOOTH_PENALTY),
        )

    def prepare(self, problem: Problem) -> tuple[DescentTask, Any]:
        positive("tol", self.tol)
        whole_from(1)("memory", self.memory)
        problem, solver = prepare_as_stated(problem, self)
        sizes = column_sizes(problem.inner)
        none = np.zeros((2, 2), dtype=np.int64)
        return DescentTask(*problem, np.where(sizes > 0.0, sizes, 1.0), *none), solver

    def first(self, task: DescentTask, w: np.ndarray) -> DescentState:
        u = _inner_values(task, w)
        y, grad = _gradient(task, w, u)
        return DescentState(w.copy(), y, grad, no_memory(self.memory, w.size), _value(task, w, u))


@full_batch({"descent": Descent()}, DescentState, ENDINGS, "descent", Oracles(1, 1))
def descent_step(task: DescentTask, solver: Descent, state: DescentState) -> DescentState:
    """One step along −H∇F(w), H the inverse Hessian as the memory has it."""
    if (np.abs(state.grad) <= FLAT * task.sizes).all():
        return state._replace(ended=ENDINGS.index(Stop.LOCAL))
    direction = -inverse_times(state.memory, task.sizes**2, state.grad[None, :])[0]
    w, u, value = _searched(task, state, direction)
    if not value < state.value:
        return state._replace(ended=ENDINGS.index(Stop.LOCAL))
    y, grad = _gradient(task, w, u)
    memory = remembered(state.memory, w - state.w, grad - state.grad)
    is_last = state.value - value <= solver.tol * max(abs(state.value), abs(value), 1.0)
    return state._replace(w=w, y=y, grad=grad, memory=memory, value=value, ended=int(is_last))


def _searched(task: DescentTask, state: DescentState, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """A point along the direction with enough of a decrease, its inner values and objective; or the last one tried."""
    slope, step = float(state.grad @ direction), 1.0
    if not state.memory.kept:
        step = min(1.0, 1.0 / float(np.linalg.norm(task.sizes * direction)))
    found = _trial(task, state, direction, step)
    if not state.memory.kept and _is_enough(state, found, step, slope):
        for _ in range(DOUBLINGS):
            further = _trial(task, state, direction, 2.0 * step)
            if not further[2] < found[2]:
                break
            found, step = further, 2.0 * step
        return found
    for _ in range(HALVINGS):
        if _is_enough(state, found, step, slope):
            break
        step *= _shorter(state.value, found[2], slope * step)
        found = _trial(task, state, direction, step)
    return found


def _is_enough(state: DescentState, found: tuple[np.ndarray, np.ndarray, float], step: float, slope: float) -> bool:
    return found[2] <= state.value + ARMIJO * step * slope


def _shorter(value: float, trial: float, along: float) -> float:
    """By which factor to shorten a step: to the minimum of the parabola through what is known, within limits."""
    curvature = 2.0 * (trial - value - along)
    return min(max(-along / curvature, 0.1), 0.5) if np.isfinite(curvature) and curvature > 0.0 else 0.1


def _trial(
    task: DescentTask, state: DescentState, direction: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray, float]:
    w = state.w + step * direction
    u = _inner_values(task, w)
    return w, u, _value(task, w, u)


def _inner_values(task: DescentTask, w: np.ndarray) -> np.ndarray:
    task.passes[0] += 1
    u = np.empty((inner_count(task.inner), inner_dim(task.inner)))
    exact_values(task.inner, w, u)
    return u


def _value(task: DescentTask, w: np.ndarray, u: np.ndarray) -> float:
    return mean_block_value(task.outer, u) + penalty_at(task.penalty, w)


def _gradient(task: DescentTask, w: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slopes of the outer function (n, m) and the gradient of the objective (d,)."""
    y, grad = block_slopes(task.outer, u), np.zeros(w.size)
    penalty_slope(task.penalty, w, grad)
    task.passes[1] += 1
    exact_vjp(task.inner, w, y / y.shape[0], grad)
    return y, grad
