"""The ground truth: Newton's method along a path of smoothed problems, for convex problems with linear models."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from xrisk.compile import canonical
from xrisk.functions import penalty_value
from xrisk.inner.groups import group_form
from xrisk.inner.oracle import inner_count, inner_dim, inner_size
from xrisk.inner.rows import WithIntercept
from xrisk.problem import Problem, is_risk
from xrisk.solvers.algebra import Solve, factored, positive_or_one
from xrisk.solvers.links import join_value, link_conjugate, link_domain, link_is_tied, link_of, link_slopes
from xrisk.solvers.newton import (
    Terms,
    add_bend,
    add_pull,
    add_squares,
    column_sizes,
    empty_terms,
    fill_terms,
    jacobian,
    moved_slopes,
    position_scores,
    row_lengths,
    score_size,
    scores_of,
    smoothed_inner,
)
from xrisk.solvers.walls import (
    Walls,
    add_wall_hessian,
    fix_points,
    interior_start,
    longest_step,
    wall_count,
    wall_gradient,
    wall_short,
    walls_of,
)

__all__ = ["Optimum", "exact", "position_scores"]

THREADED = 1e10  # operations of a Hessian from which on matrix products use all cores
LARGEST = 5000  # variables; the Hessian is dense
START = 0.1  # first smoothing, relative to the size of the problem
CUT = 0.3  # by which the smoothing falls from one step along the path to the next
CENTRED = 0.03  # a point is near the path when its Newton decrement is below this part of the smoothing
SPARE = 1e-2  # part of the ridge by which the Hessian may be off: rows that matter less are left out
HOLD = 1e-3  # ridge on scores, relative to the smoothing
FALLING = "the objective falls without bound"
WITHIN = "the gap is within the tolerance"
FLAT = "the objective is flat to the tolerance but w still moves: the minimum may not be attained"


class Optimum(NamedTuple):
    """The optimum of a problem, and the dual point that shows it."""

    value: float  # objective at w
    w: np.ndarray  # (d,) minimiser
    dual: np.ndarray  # (n, m) weights y of the inner functions; of a risk, n·q
    slopes: Any  # slopes of the losses: (positions,), (positions, classes), or of pairs what gives them
    steps: int  # Newton steps
    gap: float  # estimate of value − optimum
    stop: str  # why it ended


class Task(NamedTuple):
    """What stays the same along the path."""

    problem: Problem
    inner: Any  # with losses that can be smoothed
    link: Any
    walls: Walls
    fixed: np.ndarray  # (d,) coordinates that cannot move
    n: int
    shape: tuple[int, int]  # of the inner values, tied ones side by side
    size: float  # of the objective
    loss_size: float  # of a loss
    wall_size: float  # of a wall
    spare: float  # by how much the Hessian may be off
    lengths: np.ndarray  # (rows,) squared norms of the rows
    hold: np.ndarray  # (d,) ridge, times the smoothing, on coordinates that nothing else holds


Until = Callable[[int, Callable[[], Optimum]], bool]


class Ending(NamedTuple):
    """How the run ended."""

    steps: int
    gap: float
    stop: str


class Point(NamedTuple):
    """A point on the way, everything known of it."""

    w: np.ndarray
    z: np.ndarray  # scores
    terms: Terms
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # weights, of the task's shape
    curve: np.ndarray  # their curvatures
    theta: float  # smoothing
    along: float  # derivative of the smoothed objective in the direction last tried


def exact(
    problem: Problem, *, tol: float = 1e-9, max_steps: int = 400, until: Until = lambda steps, look: False
) -> Optimum:
    """Minimise a convex problem of a linear model to ``tol`` relative to its objective.

    Every kink is smoothed so that its slope is an interior dual point, every domain is walled off by logarithms, and
    Newton's method follows the minimiser as the smoothing vanishes. Thresholds of risks are eliminated.

    Parameters
    ----------
    problem : Problem
        Group means of a linear or softmax model, means over pairs, or noisy coordinates; any of our outer functions,
        risks, penalties.
    tol : float
        Accepted suboptimality relative to the objective.
    max_steps : int
        Newton steps after which it gives up.
    until : function of (steps, look) → bool
        Asked before every Newton step; true ends the search where it is. ``look()`` is the Optimum found so far.

    Returns
    -------
    Optimum
        With ``gap`` an estimate: the duality gap with an inexact stationarity allowed for by the Newton decrement.

    Examples
    --------
    >>> from xrisk import Problem
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> best = exact(Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125)))
    >>> round(best.value, 9)
    -0.03
    """
    task, w = _task(problem)
    point = _evaluate(task, w, scores_of(task.inner, w), START)
    with _threads(point):
        return _follow(task, point, tol, max_steps, until)


def _threads(point: Point) -> Any:
    """One thread for small matrix products: on a busy machine, threads that wait for each other cost far more."""
    if point.z.size * float(point.w.size) ** 2 >= THREADED:
        return contextlib.nullcontext()
    return threadpool_limits(limits=1, user_api="blas")


def _task(problem: Problem) -> tuple[Task, np.ndarray]:
    problem = canonical(problem)
    problem.check()
    g = group_form(problem.inner)
    if type(g) not in scores_of.table or type(problem.penalty) not in walls_of.table:
        raise ValueError(
            "exact needs group means of a linear model or means over pairs, with a penalty of ours, "
            f"got {type(g).__name__} with {type(problem.penalty).__name__}"
        )
    n, m, d = inner_count(g), inner_dim(g), inner_size(g)
    if d > LARGEST:
        raise ValueError(f"exact solves for at most {LARGEST} variables, got {d}")
    walls, fixed, place = fix_points(walls_of(problem.penalty, d))
    columns = positive_or_one(column_sizes(g))
    w = interior_start(walls, 1.0 / (np.sqrt(d) * columns))
    w[fixed] = place[fixed]
    shape = (1, n) if is_risk(problem.outer) else (n, m)
    ridge = _least_ridge(walls, g)
    lengths = row_lengths(g) if ridge > 0.0 else np.zeros(1)
    link = link_of(problem.outer, n, m)
    task = Task(
        problem, smoothed_inner(g), link, walls, fixed, n, shape, 1.0, 1.0, 1.0, SPARE * ridge, lengths, np.zeros(d)
    )
    return _held(_sized(task, w), w, columns), w


def _least_ridge(walls: Walls, g: Any) -> float:
    """The smallest l2 of all coordinates, a free intercept aside: every row counts for that one."""
    has_intercept = isinstance(getattr(getattr(g, "model", None), "rows", None), WithIntercept)
    return float((walls.l2[:-1] if has_intercept and walls.l2[-1] == 0.0 else walls.l2).min())


def _sized(task: Task, w: np.ndarray) -> Task:
    """Measure losses and objective at the start, so that smoothing means the same at every scale of the data."""
    point = _evaluate(task, w, scores_of(task.inner, w), 1e-3)
    u = point.terms.true
    if not np.isfinite(u).all():
        raise ValueError("exact cannot start: the losses overflow where it does, near w = 0; scale the data down")
    loss_size = float(np.abs(u).mean()) or 1.0
    spread = float(np.abs(point.y.reshape(-1) * (u - np.median(u))).mean())
    size = max(float(np.abs(point.y).mean()) * loss_size, spread)
    if not (np.isfinite(size) and size > 0.0):
        size = 1.0
    return task._replace(size=size, loss_size=loss_size, wall_size=size / max(1, wall_count(task.walls)))


def _held(task: Task, w: np.ndarray, columns: np.ndarray) -> Task:
    """Hold free coordinates by a ridge that vanishes with the smoothing: on a smoothed kink nothing rests."""
    start = _evaluate(task, w, scores_of(task.inner, w), START)
    if not _short(task, start)[1] > 1e-13 * task.size:  # nothing is smoothed
        return task
    walls = task.walls
    loose = (walls.l2 == 0.0) & (np.isinf(walls.low) | np.isinf(walls.high))
    loose[: walls.covered] &= walls.strength == 0.0 and np.isinf(walls.radius) and np.isnan(walls.total)
    return task._replace(hold=np.where(loose, HOLD * task.size * (columns / score_size(task.inner)) ** 2, 0.0))


def _evaluate(task: Task, w: np.ndarray, z: np.ndarray, theta: float, near: Any = None) -> Point:
    return _along(task, w, z, theta, np.zeros_like(w), np.zeros_like(z), near)


def _along(task: Task, w: np.ndarray, z: np.ndarray, theta: float, dw: np.ndarray, dz: np.ndarray, near: Any) -> Point:
    """The point (w, z) at smoothing ``theta``, and the derivative there along (dw, dz)."""
    terms = empty_terms(task.inner)
    fill_terms(task.inner, z, dz, theta * task.loss_size, terms)
    u = terms.u.reshape(task.shape)
    shift = np.zeros(u.shape[0]) if near is None else near.shift.copy()
    y, curve = np.zeros(task.shape), np.zeros(task.shape)
    if not np.isfinite(u).all():  # a step too long for exp
        return Point(w, z, terms, shift, y, curve, theta, np.inf)
    link_slopes(task.link, u, theta * task.size / (u.size / task.n), shift, y, curve)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = float((y.reshape(-1) * terms.along).sum() / task.n)
    slope += float((wall_gradient(task.walls, w, theta * task.wall_size) + theta * task.hold * w) @ dw)
    return Point(w, z, terms, shift, y, curve, theta, slope)


def _gradient(task: Task, point: Point) -> np.ndarray:
    grad = wall_gradient(task.walls, point.w, point.theta * task.wall_size) + point.theta * task.hold * point.w
    add_pull(task.inner, point.terms, point.y.reshape(-1) / task.n, grad)
    grad[task.fixed] = 0.0
    return grad


def _hessian(task: Task, point: Point) -> np.ndarray:
    d = point.w.size
    H = np.zeros((d, d))
    add_bend(task.inner, point.terms, point.y.reshape(-1) / task.n, task.lengths, task.spare, H)
    if point.curve.any():
        curve = point.curve
        if link_is_tied(task.link):
            J = jacobian(task.inner, point.terms)
            blocks = J.reshape(*task.shape, d)
            total = positive_or_one(curve.sum(axis=1))[:, None]
            blocks -= np.einsum("ij,ijk->ik", curve / total, blocks)[:, None, :]
            J *= np.sqrt(curve.reshape(-1) / task.n)[:, None]
            H += J.T @ J
        else:
            add_squares(task.inner, point.terms, curve.reshape(-1) / task.n, H)
    add_wall_hessian(task.walls, point.w, point.theta * task.wall_size, H)
    H[np.diag_indices(d)] += point.theta * task.hold
    return H


def _factor(task: Task, point: Point) -> Solve:
    summed = np.zeros(point.w.size)
    if np.isfinite(task.walls.total):
        summed[: task.walls.covered] = 1.0
    return factored(_hessian(task, point), task.fixed, summed)


def _short(task: Task, point: Point) -> tuple[float, float]:
    """Objective at the point, and by how much the dual point falls short of it, were it stationary."""
    value = join_value(task.problem.outer, point.terms.true.reshape(-1, inner_dim(task.inner)))
    proven = float((point.y.reshape(-1) * point.terms.lower).sum())
    proven = (proven - link_conjugate(task.link, point.y)) / task.n
    short = value - proven + wall_short(task.walls, point.w, point.theta * task.wall_size)
    short += point.theta * float(task.hold @ point.w**2)
    return value + float(penalty_value(task.problem.penalty, point.w)), short


def _follow(task: Task, point: Point, tol: float, max_steps: int, until: Until) -> Optimum:
    """Newton steps towards the path; near it, steps along it to less smoothing."""
    gap, since, stay = np.inf, 0, np.zeros_like(point.w)
    for steps in range(max_steps):
        look = functools.partial(_optimum, task, point, stay, Ending(steps, gap, "ended as asked"))
        if until(steps, look):
            return look()
        value, short = _short(task, point)
        if not value > -(1e7 if task.hold.any() else 1e12) * task.size:
            return _optimum(task, point, stay, Ending(steps, np.inf, FALLING))
        grad, solve = _gradient(task, point), _factor(task, point)
        newton = -solve(grad)
        decrement, since = float(-(grad @ newton)), since + 1
        gap, goal = max(short + decrement, 0.0), tol * max(abs(value), 1e-3 * task.size)
        off = decrement / (point.theta * task.size) if since <= 25 else 0.0  # how far from the path; enough is enough
        if gap <= goal and (off <= 0.01 or short <= 1e-3 * goal):
            if not task.hold.any() or _held_back(task, point) <= goal:
                stop = WITHIN if gap <= tol * abs(value) or _rests(task, point, newton) else FLAT
                return _optimum(task, point, newton, Ending(steps + 1, gap, stop))
            task = task._replace(hold=1e-3 * task.hold)
        elif off > CENTRED or short <= 0.3 * goal:
            point = _search(task, point._replace(along=-decrement), newton)
        elif point.theta < 1e-15:
            return _optimum(task, point, newton, Ending(steps + 1, gap, "rounding ended progress"))
        else:
            theta = point.theta * max(CUT, min(0.2 * goal / max(short, 1e-300), 0.5))
            drift = _gradient(task, _evaluate(task, point.w, point.z, 0.999 * point.theta, point)) - grad
            point, since = _advance(task, point, newton, solve(drift) / (0.001 * point.theta), theta), 0
    return _optimum(task, point, stay, Ending(max_steps, gap, f"gave up after {max_steps} Newton steps"))


def _held_back(task: Task, point: Point) -> float:
    """The Newton decrement were free coordinates not held."""
    task = task._replace(hold=np.zeros_like(task.hold))
    grad = _gradient(task, point)
    return float(grad @ _factor(task, point)(grad))


def _rests(task: Task, point: Point, dw: np.ndarray) -> bool:
    """Whether the scores have come to rest; they run off to infinity where there is no minimiser."""
    size = max(float(np.abs(point.z).max()), score_size(task.inner))
    return float(np.abs(scores_of(task.inner, dw)).max()) <= 1e-3 * size


def _advance(task: Task, point: Point, newton: np.ndarray, tangent: np.ndarray, theta: float) -> Point:
    """A step along the path to smoothing ``theta``, or to more if the path turns too sharply for that."""
    while theta < 0.5 * point.theta:
        dw = newton + (theta - point.theta) * tangent
        here = _along(task, point.w, point.z, theta, dw, scores_of(task.inner, dw), point)
        if here.along < 0.0:
            return _search(task, here, dw)
        theta = np.sqrt(theta * point.theta)
    return _evaluate(task, point.w, point.z, 0.5 * point.theta, point)


def _search(task: Task, here: Point, dw: np.ndarray) -> Point:
    """A step along dw that takes most of the slope away; slopes keep digits that differences of values lose."""
    dz = scores_of(task.inner, dw)
    top = 0.995 * longest_step(task.walls, here.w, dw)
    low, high, t, best = (0.0, here.along), None, min(1.0, top), here  # ends by their slopes: points are large
    for _ in range(40):
        trial = _along(task, here.w + t * dw, here.z + t * dz, here.theta, dw, dz, best)
        if abs(trial.along) <= 0.5 * abs(here.along) or (trial.along < 0.0 and t >= top):
            return trial
        if trial.along < 0.0:
            low, best = (t, trial.along), trial
        else:
            high = (t, trial.along)
        t = _next_step(low, high, top)
    return best


def _next_step(low: Any, high: Any, top: float) -> float:
    if high is None:
        return min(4.0 * low[0], top) if low[0] > 0.0 else top
    rise = high[1] - low[1]
    share = -low[1] / rise if np.isfinite(rise) else 0.1
    return low[0] + min(max(share, 0.1), 0.9) * (high[0] - low[0])


def _optimum(task: Task, point: Point, dw: np.ndarray, ending: Ending) -> Optimum:
    """The point after its last step, its duals moved to first order.

    With little smoothing left, the slope of a kink runs from bound to bound within a rounding of w; the slope that
    Newton's step predicts balances the gradient.
    """
    dz = scores_of(task.inner, dw)
    here = _along(task, point.w, point.z, point.theta, dw, dz, point)
    last = _search(task, here, dw) if here.along < 0.0 else here
    y = _moved_weights(task, here)
    share = (here.y / np.where(y == 0.0, 1.0, y)).reshape(-1)  # of y and v the product balances the gradient
    slopes = moved_slopes(task.inner, here.terms, last.terms, dz, share)
    return Optimum(task.problem.value(last.w), last.w, y.reshape(task.n, -1), slopes, *ending)


def _moved_weights(task: Task, here: Point) -> np.ndarray:
    du = here.terms.along.reshape(task.shape)
    if link_is_tied(task.link):
        du = du - (here.curve * du).sum(axis=1, keepdims=True) / positive_or_one(here.curve.sum(axis=1))[:, None]
    dy = here.curve * du
    lo, hi = link_domain(task.link)
    room = np.where(dy > 0.0, hi - here.y, here.y - lo)
    share = min(1.0, 0.99 * float(np.min(room / np.maximum(np.abs(dy), 1e-300))))
    return here.y + share * dy
