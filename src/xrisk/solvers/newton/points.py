"""Points of a smoothed problem: values, gradients, estimates of the gap, line searches and dual points."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner, Solver, State
from xrisk.functions.parameters import positive
from xrisk.functions.smoothing import plain_loss, smoothable_loss
from xrisk.inner.oracle import inner_dim
from xrisk.inner.passes import (
    NO_SHARE,
    Scores,
    Slopes,
    adjoint,
    from_centred,
    pass_loss,
    scores_at,
    to_centred,
    walk,
    walk_apart,
)
from xrisk.inner.visitors import SmoothedTerms
from xrisk.problem import Problem, penalty_at
from xrisk.solvers.base import Stop
from xrisk.solvers.newton.algebra import positive_or_one
from xrisk.solvers.newton.barrier import Barrier, barrier_gradient, barrier_short, gradient_cost, interior_start
from xrisk.solvers.newton.coupling import (
    coupled_value,
    coupling_conjugate,
    coupling_domain,
    coupling_is_constrained,
    coupling_slopes,
)

START = 0.1  # first smoothing, relative to the size of the problem


class SmoothedProblem(NamedTuple):
    """What stays the same while the smoothing vanishes."""

    problem: Problem
    inner: Inner  # as linear groups where it is that, with a loss that can be smoothed and columns centred
    coupling: Any
    barrier: Barrier
    fixed: np.ndarray  # (d,) mask of coordinates that cannot move
    place: np.ndarray  # (d,) where these are
    n: int
    shape: tuple[int, int]  # of the inner values, constrained ones side by side
    size: float  # of the objective
    loss_size: float  # of a loss
    barrier_size: float  # of a barrier
    linear_size: float  # about how much a linear term of the penalty can lower the objective
    ridge: np.ndarray  # (d,) times the smoothing: on coordinates that nothing else holds
    columns: np.ndarray  # (d,) root mean squares
    centre: np.ndarray  # (d,) what the intercept absorbs; zero where nothing does
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients
    prepared: np.ndarray  # (2,) those made to prepare it


class Point(NamedTuple):
    """A point and everything known of it."""

    x: np.ndarray
    z: np.ndarray  # (rows, scores)
    sums: np.ndarray  # (n·m, 4) smoothed values, values, what the slopes prove of them, derivatives along the direction
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # weights, of the problem's shape
    curve: np.ndarray  # their curvatures
    theta: float  # smoothing
    along: float  # derivative of the smoothed objective in the direction last tried
    left: np.ndarray = NO_SHARE  # what `inner_gradients` needs, where it was kept


def point_of(task: SmoothedProblem, state: State, curve: np.ndarray) -> Point:
    """The point that a state was made of; its weights have these curvatures."""
    y = state.y.reshape(task.shape)
    return Point(state.x, state.z, state.sums, state.shift, y, curve, state.theta, 0.0)


def ending_at(task: SmoothedProblem, tol: float, value: float, gap: float) -> Stop | None:
    """Why a method ends at a point, if it does."""
    if gap <= tol * abs(value):
        return Stop.CONVERGED
    return None if value > -1e7 * task.size else Stop.UNBOUNDED


def first_point(
    task: SmoothedProblem, w: np.ndarray, smoothing: float, apart: bool = False
) -> tuple[np.ndarray, Point]:
    """The user's parameters w moved well inside the barriers, and the point there; ``apart`` as in `evaluate_along`."""
    x = inside(task, to_centred(task.centre, w) if w.any() else w)  # the centre is as good a start as zero
    z = scores_at(task.inner, x)
    return from_centred(task.centre, x), evaluate_along(task, x, z, smoothing, np.zeros_like(x), z, None, apart)


def inside(task: SmoothedProblem, x: np.ndarray) -> np.ndarray:
    """The parameters x moved well inside the barriers."""
    scores = np.sqrt(2.0 * task.linear_size) or 1.0  # as large as a linear term makes them
    moved = interior_start(task.barrier, scores / (np.sqrt(x.size) * task.columns), x)
    moved[task.fixed] = task.place[task.fixed]
    return moved


def evaluate(task: SmoothedProblem, x: np.ndarray, z: np.ndarray, theta: float, near: Any = None) -> Point:
    """The point (x, z) at smoothing ``theta``; ``near`` is one whose thresholds are close."""
    return evaluate_along(task, x, z, theta, np.zeros_like(x), z, near)


def evaluate_along(
    task: SmoothedProblem,
    x: np.ndarray,
    z: np.ndarray,
    theta: float,
    dx: np.ndarray,
    dz: np.ndarray,
    near: Any,
    apart: bool = False,
) -> Point:
    """The point (x, z) at smoothing ``theta``, and the derivative there along (dx, dz).

    ``apart``: keep what `inner_gradients` needs, which is called next.
    """
    visit = _terms(task, theta), _scores(task, z, dz)
    sums, left = walk_apart(task.inner, *visit) if apart else walk(task.inner, *visit, NO_SHARE)
    task.passes[0] += 1
    u = sums[:, 0].reshape(task.shape)
    shift = np.zeros(u.shape[0]) if near is None else near.shift.copy()
    if not np.isfinite(u).all():  # a step too long for exp
        return Point(x, z, sums, shift, np.zeros(task.shape), np.zeros(task.shape), theta, np.inf, left)
    y, curve = _weights(task, u, theta, shift)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = float((y.reshape(-1) * sums[:, 3]).sum() / task.n)
    slope += float((barrier_gradient(task.barrier, x, theta * task.barrier_size) + theta * task.ridge * x) @ dx)
    return Point(x, z, sums, shift, y, curve, theta, slope, left)


def _weights(task: SmoothedProblem, u: np.ndarray, theta: float, shift: np.ndarray) -> np.ndarray:
    """Weights and their curvatures at inner values u; ``shift`` keeps the thresholds."""
    y, curve = found = np.zeros((2, *task.shape))
    coupling_slopes(task.coupling, u, theta * task.size / (u.size / task.n), shift, y, curve)
    return found


def has_kinks(g: Inner) -> bool:
    """Whether the losses of the inner functions have kinks, which smoothing takes away."""
    loss = smoothable_loss(pass_loss(g))
    return plain_loss(loss) is not loss


def at_smoothing(task: SmoothedProblem, point: Point, theta: float) -> Point:
    """The same point at another smoothing; losses without a kink are not evaluated a second time."""
    if has_kinks(task.inner):
        return evaluate(task, point.x, point.z, theta, point)
    shift = point.shift.copy()
    y, curve = _weights(task, point.sums[:, 0].reshape(task.shape), theta, shift)
    return Point(point.x, point.z, point.sums, shift, y, curve, theta, 0.0)


def smoothing_drift(task: SmoothedProblem, point: Point, near: Point) -> np.ndarray:
    """How much the gradient at ``near``, the same point at another smoothing, differs from that at the point."""
    if has_kinks(task.inner):
        return gradient(task, near, row_terms(task, near)) - gradient(task, point, row_terms(task, point))
    mu, mu_near = point.theta * task.barrier_size, near.theta * task.barrier_size
    drift = barrier_gradient(task.barrier, point.x, mu_near) - barrier_gradient(task.barrier, point.x, mu)
    drift += (near.theta - point.theta) * task.ridge * point.x
    task.passes[1] += 1
    share = (near.y - point.y).reshape(-1) / task.n
    drift += adjoint(task.inner, walk(task.inner, *visit_of(task, point), share).coefs)
    drift[task.fixed] = 0.0
    return drift


def _terms(task: SmoothedProblem, theta: float) -> SmoothedTerms:
    return SmoothedTerms(theta * task.loss_size)


def _scores(task: SmoothedProblem, z: np.ndarray, dz: np.ndarray) -> Scores:
    return Scores(z, dz, z[:, 0], z[:, 0], np.ones(task.shape[0] * task.shape[1]))


def row_terms(task: SmoothedProblem, point: Point) -> np.ndarray:
    """Slopes and curvatures of the objective on the rows: (channels, rows)."""
    task.passes[1] += 1
    return walk(task.inner, *visit_of(task, point), point.y.reshape(-1) / task.n).coefs


def visit_of(task: SmoothedProblem, point: Point) -> tuple[SmoothedTerms, Scores]:
    """The visitor and the scores of a pass at the point."""
    return _terms(task, point.theta), _scores(task, point.z, point.z)


def gradient(task: SmoothedProblem, point: Point, coefs: np.ndarray) -> np.ndarray:
    """Gradient (d,) of the smoothed objective, of its `row_terms`."""
    return objective_gradient(task, point.x, point.theta, adjoint(task.inner, coefs))


def objective_gradient(task: SmoothedProblem, x: np.ndarray, theta: float, vjp: np.ndarray) -> np.ndarray:
    """``vjp`` (d,), the gradient of the inner functions, and that of penalty, barriers and ridge at x."""
    grad = barrier_gradient(task.barrier, x, theta * task.barrier_size) + theta * task.ridge * x + vjp
    grad[task.fixed] = 0.0
    return grad


def shortfall(task: SmoothedProblem, point: Point) -> tuple[float, float]:
    """Objective at the point, and by how much the dual point falls short of it, were it stationary."""
    value = coupled_value(task.problem.outer, point.sums[:, 1].reshape(-1, inner_dim(task.inner)))
    proven = float((point.y.reshape(-1) * point.sums[:, 2]).sum())
    proven = (proven - coupling_conjugate(task.coupling, point.y)) / task.n
    short = value - proven + barrier_short(task.barrier, point.x, point.theta * task.barrier_size)
    short += point.theta * float(task.ridge @ point.x**2)
    return value + penalty_at(task.problem.penalty, point.x), short


def stationarity(task: SmoothedProblem, point: Point, grad: np.ndarray, slopes: float) -> float:
    """About how much lower the dual point is than it would be were the gradient zero.

    ``slopes`` is the sum of the absolute slopes on the rows.
    """
    value = float(point.y.reshape(-1) @ np.abs(point.sums[:, 1])) / task.n
    return gradient_cost(task.barrier, grad, slopes * task.columns, value)


def check_smoothing(solver: Solver) -> None:
    """Refuse a tolerance or a first smoothing that is not positive."""
    positive("tol", solver.tol)
    positive("smoothing", solver.smoothing)


def line_search(
    task: SmoothedProblem, start: Point, dx: np.ndarray, dz: np.ndarray, top: float, apart: bool = False
) -> Point:
    """A step along dx that reduces the slope to a half; slopes keep digits that differences of values lose."""
    low, high, t, best = (0.0, start.along), None, min(1.0, top), start  # ends by their slopes: points are large
    for _ in range(40):
        trial = evaluate_along(task, start.x + t * dx, start.z + t * dz, start.theta, dx, dz, best, apart)
        if abs(trial.along) <= 0.5 * abs(start.along) or (trial.along < 0.0 and t >= top):
            return trial
        if trial.along < 0.0:
            low, best = (t, trial.along), trial._replace(left=NO_SHARE)
        else:
            high = (t, trial.along)
        del trial  # as large as some columns of the data
        t = next_step(low, high, top)
    return best


def next_step(low: Any, high: Any, top: float) -> float:
    """Where to expect a slope of zero: between the ends (place, slope) low and high, or beyond low."""
    if high is None:
        return min(4.0 * low[0], top) if low[0] > 0.0 else top
    rise = high[1] - low[1]
    share = -low[1] / rise if np.isfinite(rise) else 0.1
    return low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])


class DualPoint(NamedTuple):
    """The dual point that belongs to a point: weights of the inner functions and slopes of the losses."""

    y: np.ndarray  # (n, m)
    slopes: Slopes


def dual_of(task: SmoothedProblem, point: Point) -> DualPoint:
    """Weights and slopes at the point."""
    slopes = Slopes(point.z, point.z, np.zeros(point.sums.shape[0]), point.theta * task.loss_size)
    return DualPoint(point.y.reshape(task.n, -1), slopes)


def extrapolated_dual(task: SmoothedProblem, start: Point, dz: np.ndarray) -> DualPoint:
    """Weights and slopes extrapolated to first order along dz from ``start``, which was evaluated along it.

    With little smoothing left, the slope of a kink runs from bound to bound within a rounding of w; the slope that
    Newton's step predicts balances the gradient. So it does for columns of any scale, where a step leaves some of it.
    """
    y = _extrapolated_weights(task, start)
    factor = (start.y / np.where(y == 0.0, 1.0, y)).reshape(-1)  # of y and v the product balances the gradient
    return DualPoint(y.reshape(task.n, -1), Slopes(start.z, dz, factor, start.theta * task.loss_size))


def _extrapolated_weights(task: SmoothedProblem, start: Point) -> np.ndarray:
    du = start.sums[:, 3].reshape(task.shape)
    if coupling_is_constrained(task.coupling):
        du = du - (start.curve * du).sum(axis=1, keepdims=True) / positive_or_one(start.curve.sum(axis=1))[:, None]
    dy = start.curve * du
    lo, hi = coupling_domain(task.coupling)
    slack = np.where(dy > 0.0, hi - start.y, start.y - lo)
    share = min(1.0, 0.99 * float(np.min(slack / np.maximum(np.abs(dy), 1e-300))))
    return start.y + share * dy
