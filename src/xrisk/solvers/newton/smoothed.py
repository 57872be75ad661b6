"""A convex problem of linear scores as the full-batch methods see it: every kink smoothed, every domain walled off.

Kinks are smoothed so that slopes are interior dual points, domains get logarithmic barriers, thresholds of risks are
eliminated. At smoothing θ the gap of a stationary point is known, and vanishes with θ.
"""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import canonical
from xrisk.data.rows import row_count
from xrisk.functions.smoothing import Piecewise, smoothable_loss
from xrisk.inner.oracle import inner_count, inner_dim, inner_size
from xrisk.inner.passes import (
    NO_SHARE,
    Scores,
    Slopes,
    adjoint,
    as_linear_groups,
    centred,
    column_sizes,
    from_centred,
    less_target,
    pass_loss,
    pass_rows,
    score_count,
    score_size,
    scores_at,
    scores_only,
    target_centre,
    to_centred,
    walk,
    walk_apart,
    with_loss,
)
from xrisk.inner.visitors import LossValues, SmoothedTerms
from xrisk.problem import Problem, is_risk, penalty_at
from xrisk.solvers.base import check_positive
from xrisk.solvers.newton.algebra import positive_or_one
from xrisk.solvers.newton.barrier import (
    Barrier,
    barrier_count,
    barrier_gradient,
    barrier_of,
    barrier_short,
    fix_points,
    interior_start,
    linear_size,
)
from xrisk.solvers.newton.coupling import (
    coupled_value,
    coupling_conjugate,
    coupling_domain,
    coupling_is_constrained,
    coupling_of,
    coupling_slopes,
)

LARGEST_COLUMN = 1e150  # root mean square of its entries
START = 0.1  # first smoothing, relative to the size of the problem
SAME = 1e-15  # relative: numbers that differ by less are the same, but for rounding
VANISHING = 1e-3  # ridge on scores that nothing else holds, relative to the smoothing


class SmoothedProblem(NamedTuple):
    """What stays the same while the smoothing vanishes."""

    problem: Problem
    inner: Any  # as linear groups where it is that, with a loss that can be smoothed and columns centred
    coupling: Any
    barrier: Barrier
    fixed: np.ndarray  # (d,) coordinates that cannot move
    place: np.ndarray  # (d,) where those are
    n: int
    shape: tuple[int, int]  # of the inner values, constrained ones side by side
    size: float  # of the objective
    loss_size: float  # of a loss
    barrier_size: float  # of a barrier
    ridge: np.ndarray  # (d,) times the smoothing: on coordinates that nothing else holds
    columns: np.ndarray  # (d,) root mean squares
    centre: np.ndarray  # (d,) what the intercept absorbs; zero where nothing does
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients
    prepared: np.ndarray  # (2,) those made to prepare it


class Point(NamedTuple):
    """A point on the way, everything known of it."""

    x: np.ndarray
    z: np.ndarray  # (rows, scores)
    sums: np.ndarray  # (n·m, 4) smoothed values, values, what the slopes prove of them, derivatives along the move
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # weights, of the problem's shape
    curve: np.ndarray  # their curvatures
    theta: float  # smoothing
    along: float  # derivative of the smoothed objective in the direction last tried
    left: np.ndarray = NO_SHARE  # what `inner_gradients` asks for, where it was kept


def smoothed_problem(problem: Problem) -> SmoothedProblem:
    """The problem, prepared; raises one sentence where a full-batch method does not know a part of it."""
    problem = canonical(problem)
    g = as_linear_groups(problem.inner)
    if not walk.implemented(g):
        raise ValueError(f"a full-batch method needs inner functions with full passes, got {type(g).__name__}")
    if not barrier_of.implemented(problem.penalty):
        raise ValueError(f"a full-batch method knows no barriers of the penalty {type(problem.penalty).__name__}")
    n, m, d = inner_count(g), inner_dim(g), inner_size(g)
    barrier, fixed, place = fix_points(barrier_of(problem.penalty, d))
    g, centre, columns = centred_columns(g, barrier)
    shape = (1, n) if is_risk(problem.outer) else (n, m)
    g = with_loss(g, smoothable_loss(pass_loss(g)))
    coupling, zeros = coupling_of(problem.outer, n, m), np.zeros(d)
    passes = np.zeros(2, dtype=np.int64)
    task = SmoothedProblem(
        problem, g, coupling, barrier, fixed, place, n, shape, 1.0, 1.0, 1.0, zeros, columns, centre, passes, passes
    )
    x = _inside(task, np.zeros(d))
    task = _held(*_sized(task, evaluate(task, x, scores_at(task.inner, x), 1e-3)))
    return task._replace(prepared=passes.copy())


def first_point(
    task: SmoothedProblem, w: np.ndarray, smoothing: float, apart: bool = False
) -> tuple[np.ndarray, Point]:
    """The user's parameters w moved well inside the barriers, and the point there; ``apart`` as in `evaluate_along`."""
    x = _inside(task, to_centred(task.centre, w) if w.any() else w)  # nothing is known of zero: the centre is as good
    z = scores_at(task.inner, x)
    return from_centred(task.centre, x), evaluate_along(task, x, z, smoothing, np.zeros_like(x), z, None, apart)


def _inside(task: SmoothedProblem, x: np.ndarray) -> np.ndarray:
    scores = np.sqrt(2.0 * linear_size(task.barrier, task.columns**2)) or 1.0  # as large as a linear term makes them
    inside = interior_start(task.barrier, scores / (np.sqrt(x.size) * task.columns), x)
    inside[task.fixed] = task.place[task.fixed]
    return inside


def centred_columns(g: Any, barrier: Barrier) -> tuple[Any, np.ndarray, np.ndarray]:
    """The inner functions centred, their centre, and the sizes of their columns."""
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused
        g, centre = _centred(g, barrier)
        columns = column_sizes(g)
    if not (columns <= LARGEST_COLUMN).all():
        raise ValueError(
            f"columns of X must be at most {LARGEST_COLUMN:g} in size for squares to be finite: scale them"
        )
    return g, centre, positive_or_one(columns)


def _centred(g: Any, barrier: Barrier) -> tuple[Any, np.ndarray]:
    """The inner functions with columns far from zero centred, where a free intercept makes that the same problem."""
    d = barrier.l2.size
    held = barrier.covered == d and (
        barrier.strength > 0.0 or np.isfinite(barrier.radius) or np.isfinite(barrier.total)
    )
    held |= bool(barrier.linear[-1] != 0.0)
    free = barrier.l2[-1] == 0.0 and np.isinf(barrier.low[-1]) and np.isinf(barrier.high[-1]) and not held
    return centred(g) if free else (g, np.zeros(d))


def _sized(task: SmoothedProblem, point: Point) -> tuple[SmoothedProblem, Point]:
    """Measure losses and objective at the start, so that smoothing means the same at every scale of the data."""
    u = point.sums[:, 1]
    if not np.isfinite(u).all():
        raise ValueError("the losses overflow near w = 0, where a full-batch method starts: scale the data down")
    linear = linear_size(task.barrier, task.columns**2)
    loss_size = float(np.abs(u).mean()) or linear or 1.0
    spread = float(np.abs(point.y.reshape(-1) * (u - np.median(u))).mean())
    size = max(float(np.abs(point.y).mean()) * loss_size, spread, linear)
    if not (np.isfinite(size) and size > 0.0):
        size = 1.0
    barrier_size = size / max(1, barrier_count(task.barrier))
    return task._replace(size=size, loss_size=loss_size, barrier_size=barrier_size), point


def _held(task: SmoothedProblem, point: Point) -> SmoothedProblem:
    """Hold free coordinates by a ridge that vanishes with the smoothing: on a smoothed kink nothing rests."""
    start = at_smoothing(task, point, START)
    if not shortfall(task, start)[1] > 1e-13 * task.size:  # nothing is smoothed
        return task
    barrier = task.barrier
    loose = (barrier.l2 == 0.0) & (np.isinf(barrier.low) | np.isinf(barrier.high))
    loose[: barrier.covered] &= barrier.strength == 0.0 and np.isinf(barrier.radius) and np.isnan(barrier.total)
    ridge = VANISHING * task.size * (task.columns / score_size(task.inner)) ** 2
    return task._replace(ridge=np.where(loose, ridge, 0.0))


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

    ``apart``: what the gradients of the inner functions are made of is kept, if they are to be asked for next.
    """
    visit = _terms(task, theta), _scores(task, z, dz)
    sums, left = walk_apart(task.inner, *visit) if apart else walk(task.inner, *visit, NO_SHARE)
    task.passes[0] += 1
    u = sums[:, 0].reshape(task.shape)
    shift = np.zeros(u.shape[0]) if near is None else near.shift.copy()
    y, curve = np.zeros(task.shape), np.zeros(task.shape)
    if not np.isfinite(u).all():  # a step too long for exp
        return Point(x, z, sums, shift, y, curve, theta, np.inf, left)
    coupling_slopes(task.coupling, u, theta * task.size / (u.size / task.n), shift, y, curve)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = float((y.reshape(-1) * sums[:, 3]).sum() / task.n)
    slope += float((barrier_gradient(task.barrier, x, theta * task.barrier_size) + theta * task.ridge * x) @ dx)
    return Point(x, z, sums, shift, y, curve, theta, slope, left)


def constant_size(problem: Problem, at_zero: float = np.nan) -> tuple[float, int]:
    """The objective of the best constant model, beside which a perfect fit leaves next to nothing; passes it took.

    Targets that are all the same are fitted by a constant, and measured by what they are instead. ``at_zero`` is the
    objective at zero, where it is known.
    """
    g = as_linear_groups(problem.inner)
    centre, unknown = float(target_centre(g)), bool(np.isnan(at_zero))
    size = _constant_value(problem, g, 0.0) if unknown else abs(at_zero)
    if not centre or float(np.abs(less_target(g, centre).model.target).max()) <= SAME * abs(centre):
        return size, int(unknown)
    return min(size, _constant_value(problem, g, centre)), 1 + unknown


def _constant_value(problem: Problem, g: Any, score: float) -> float:
    z = np.full((row_count(pass_rows(g)), score_count(g)), score)
    u = walk(g, LossValues(), scores_only(g, z), NO_SHARE).sums[:, 0].reshape(-1, inner_dim(g))
    return abs(coupled_value(problem.outer, u))


def is_curved(g: Any) -> bool:
    """Whether the smoothing changes the losses of the inner functions."""
    return type(smoothable_loss(pass_loss(g))) is Piecewise


def at_smoothing(task: SmoothedProblem, point: Point, theta: float) -> Point:
    """The same point at another smoothing; losses without a kink are not looked at again."""
    if is_curved(task.inner):
        return evaluate(task, point.x, point.z, theta, point)
    u, shift = point.sums[:, 0].reshape(task.shape), point.shift.copy()
    y, curve = np.zeros(task.shape), np.zeros(task.shape)
    coupling_slopes(task.coupling, u, theta * task.size / (u.size / task.n), shift, y, curve)
    return Point(point.x, point.z, point.sums, shift, y, curve, theta, 0.0)


def smoothing_drift(task: SmoothedProblem, point: Point, near: Point) -> np.ndarray:
    """How much the gradient at ``near``, the same point at another smoothing, differs from that at the point."""
    if is_curved(task.inner):
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
    return held_gradient(task, point.x, point.theta, adjoint(task.inner, coefs))


def held_gradient(task: SmoothedProblem, x: np.ndarray, theta: float, vjp: np.ndarray) -> np.ndarray:
    """A ``vjp`` (d,) on the coordinates and that of penalty, barriers and ridge at x."""
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


def stationarity(task: SmoothedProblem, point: Point, grad: np.ndarray, vjp: float) -> float:
    """About how much lower the dual point is than it would be were the gradient zero.

    ``vjp`` is the sum of the absolute slopes on the rows.
    Coordinates with a ridge cost grad²/(2·l2); what an intercept is out of balance, and what exceeds an l1 penalty, is
    taken from the slopes, and the objective falls with them.
    """
    barrier, value = task.barrier, float(point.y.reshape(-1) @ np.abs(point.sums[:, 1])) / task.n
    ridged, cost = barrier.l2 > 0.0, ridge_cost(task, grad)
    bounded = ~ridged & np.isfinite(barrier.high - barrier.low)
    cost += float((np.abs(grad[bounded]) * (barrier.high - barrier.low)[bounded]).sum())
    if np.isfinite(barrier.radius):
        return cost + barrier.radius * float(np.linalg.norm(grad[: barrier.covered]))
    loose = ~ridged & ~bounded & ~task.fixed
    if not loose.any():
        return cost
    vjps = vjp * task.columns
    vjps[: barrier.covered] = np.maximum(barrier.strength, 1e-3 * vjps[: barrier.covered])
    share = float((np.abs(grad) / np.maximum(vjps, 1e-300))[loose].max())
    return cost + min(share, 1.0) * value


def ridge_cost(task: SmoothedProblem, grad: np.ndarray) -> float:
    """½ Σ grad²/l2 over coordinates with a ridge: what is missing to stationarity costs the dual point so much."""
    ridged = task.barrier.l2 > 0.0
    return 0.5 * float((grad[ridged] ** 2 / task.barrier.l2[ridged]).sum())


def check_smoothing(solver: Any) -> None:
    """Refuse a tolerance or a first smoothing that is none."""
    check_positive("tol", solver.tol)
    check_positive("smoothing", solver.smoothing)


def line_search(
    task: SmoothedProblem, here: Point, dx: np.ndarray, dz: np.ndarray, top: float, apart: bool = False
) -> Point:
    """A step along dx that takes most of the slope away; slopes keep digits that differences of values lose."""
    low, high, t, best = (0.0, here.along), None, min(1.0, top), here  # ends by their slopes: points are large
    for _ in range(40):
        trial = evaluate_along(task, here.x + t * dx, here.z + t * dz, here.theta, dx, dz, best, apart)
        if abs(trial.along) <= 0.5 * abs(here.along) or (trial.along < 0.0 and t >= top):
            return trial
        if trial.along < 0.0:
            low, best = (t, trial.along), trial._replace(left=NO_SHARE)
        else:
            high = (t, trial.along)
        del trial  # as large as some columns of the data
        t = next_step(low, high, top)
    return best


def next_step(low: Any, high: Any, top: float) -> float:
    """Where to look for a slope of zero: between the ends (place, slope) low and high, or beyond low."""
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


def moved_dual(task: SmoothedProblem, here: Point, dz: np.ndarray) -> DualPoint:
    """Weights and slopes moved to first order along dz from ``here``, which was evaluated along it.

    With little smoothing left, the slope of a kink runs from bound to bound within a rounding of w; the slope that
    Newton's step predicts balances the gradient. So it does for columns of any scale, where a step leaves some of it.
    """
    y = _moved_weights(task, here)
    factor = (here.y / np.where(y == 0.0, 1.0, y)).reshape(-1)  # of y and v the product balances the gradient
    return DualPoint(y.reshape(task.n, -1), Slopes(here.z, dz, factor, here.theta * task.loss_size))


def _moved_weights(task: SmoothedProblem, here: Point) -> np.ndarray:
    du = here.sums[:, 3].reshape(task.shape)
    if coupling_is_constrained(task.coupling):
        du = du - (here.curve * du).sum(axis=1, keepdims=True) / positive_or_one(here.curve.sum(axis=1))[:, None]
    dy = here.curve * du
    lo, hi = coupling_domain(task.coupling)
    room = np.where(dy > 0.0, hi - here.y, here.y - lo)
    share = min(1.0, 0.99 * float(np.min(room / np.maximum(np.abs(dy), 1e-300))))
    return here.y + share * dy
