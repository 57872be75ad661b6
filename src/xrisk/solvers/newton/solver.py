"""Newton's method along a path of smoothed problems: the ground truth for convex problems of linear scores."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.inner.oracle import Oracles, inner_size
from xrisk.inner.passes import (
    NO_SHARE,
    Slopes,
    add_hessian,
    add_squares,
    from_centred,
    jacobian,
    score_count,
    score_size,
    scores_at,
)
from xrisk.problem import Problem
from xrisk.solvers.base import Stop
from xrisk.solvers.card import FULL_PASSES, MethodCard
from xrisk.solvers.full_batch import full_batch
from xrisk.solvers.newton.algebra import Solve, factored
from xrisk.solvers.newton.barrier import add_barrier_hessian, longest_step, ridge_cost
from xrisk.solvers.newton.coupling import coupling_is_constrained
from xrisk.solvers.newton.hessian import add_coupling, rows_that_matter
from xrisk.solvers.newton.points import (
    START,
    DualPoint,
    Point,
    SmoothedProblem,
    at_smoothing,
    check_smoothing,
    dual_of,
    evaluate,
    evaluate_along,
    extrapolated_dual,
    first_point,
    gradient,
    line_search,
    row_terms,
    shortfall,
    smoothing_drift,
    visit_of,
)
from xrisk.solvers.newton.smoothed import smoothed_problem

MAX_VARIABLES = 5000  # the Hessian is dense
CUT = 0.1  # by which the smoothing falls from one step along the path to the next
CENTRED = 0.1  # a point is near the path when its Newton decrement is below this part of the smoothing
PATIENCE = 25  # steps towards the path at one smoothing, after which every point counts as near
PART = 0.6  # of the tolerance that smoothing may cost in the end
STILL = 30.0  # times the tolerance that the gradient may cost the dual point before the last step
ENOUGH = 8  # steps at one smoothing, after which rounding keeps the gradient from falling
LEAST_SMOOTHING = 1e-15
STUCK = 200  # steps at one smoothing, after which rounding has ended progress
ENDINGS = (None, Stop.CONVERGED, Stop.FLAT, Stop.UNBOUNDED, Stop.ROUNDING)  # by the number a state keeps


class NewtonState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    x: np.ndarray  # (d,) the same, what an intercept absorbs taken out of the columns
    z: np.ndarray  # (rows, scores)
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # (n, m) dual weights
    slopes: Slopes  # of the losses
    theta: float  # smoothing
    value: float  # objective
    ridge_share: float = 1.0  # of the vanishing ridge that is left
    gap: float = np.inf  # estimate of value − optimum, before the last step
    since: int = 0  # steps since the smoothing was last cut
    ended: int = 0  # 0 while running
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # Newton steps


class Newton(NamedTuple):
    """Newton's method along a path of smoothed problems.

    Every kink is smoothed so that its slope is an interior dual point, every domain gets a logarithmic barrier, and
    Newton's method follows the minimiser as the smoothing vanishes. Thresholds of risks are eliminated. A run ends
    when the estimated gap is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted suboptimality relative to the objective.
    smoothing : float
        First smoothing, relative to the size of the problem; small for a warm start.
    hessian_rows : float
        Rows for each variable that a Hessian is made of, if there are more: those with the largest curvature and an
        even sample of the others, weighted so that the sum is that of all. Gradients are always those of all rows.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = xrisk.Problem(NoisyCoordinates(n=4, nu=0.3), HardSmooth(nu=0.3), L2(0.125))
    >>> result = xrisk.minimize(problem, xrisk.solvers.Newton(), budget=xrisk.Budget(iterations=100))
    >>> round(result.value, 9)
    -0.03
    """

    tol: float = 1e-9
    smoothing: float = START
    hessian_rows: float = np.inf

    def card(self) -> MethodCard:
        return MethodCard(
            "Newton",
            "path following on smoothed problems, as interior-point methods do",
            "ours",
            values="all, twice or more",
            gradients="all, once or twice",
            rate="quadratic near the optimum; about 30 iterations in practice",
            needs=(FULL_PASSES,),
        )

    def prepare(self, problem: Problem) -> tuple[SmoothedProblem, Any]:
        check_smoothing(self)
        d = inner_size(problem.inner)
        if d > MAX_VARIABLES:
            raise ValueError(f"Newton takes at most {MAX_VARIABLES} variables, got {d}: SmoothedLBFGS has no limit")
        task = smoothed_problem(problem)
        if not add_hessian.implemented(task.inner):
            raise ValueError(f"Newton knows no Hessian of {type(task.inner).__name__}: SmoothedLBFGS needs none")
        return task, self

    def first(self, task: SmoothedProblem, w: np.ndarray) -> NewtonState:
        w, point = first_point(task, w, self.smoothing)
        value = shortfall(task, point)[0]
        return NewtonState(w, point.x, point.z, point.shift, *dual_of(task, point), point.theta, value)


@full_batch({"newton": Newton()}, NewtonState, ENDINGS, "newton", Oracles(2, 1))
def newton_step(task: SmoothedProblem, solver: Newton, state: NewtonState) -> NewtonState:
    """A Newton step towards the path; near it, a step along it to less smoothing."""
    plain, tol = task, solver.tol
    task = task._replace(ridge=state.ridge_share * task.ridge)
    point = evaluate(task, state.x, state.z, state.theta, state)
    value, short = shortfall(task, point)
    if not value > -(1e7 if task.ridge.any() else 1e12) * task.size:
        return state._replace(ended=ENDINGS.index(Stop.UNBOUNDED), gap=np.inf)
    coefs = row_terms(task, point)
    grad = gradient(task, point, coefs)
    solve = _factor(task, point, rows_that_matter(task, _curvatures(task, coefs), solver.hessian_rows * grad.size))
    newton = -solve(grad)
    decrement, since = float(-(grad @ newton)), state.since + 1
    gap, goal = max(float(short + decrement), 0.0), tol * max(abs(value), 1e-3 * task.size)
    distance = decrement / (point.theta * task.size) if since <= PATIENCE else 0.0  # from the path
    ridge_share, ended, dual = state.ridge_share, 0, None
    still = ridge_cost(task.barrier, grad) <= STILL * goal or decrement <= 1e-14 * task.size or since > ENOUGH
    if gap <= goal and still and (distance <= CENTRED or short <= 1e-3 * goal):
        if not task.ridge.any() or _decrement_without_ridge(task, point) <= goal:
            at_rest = gap <= tol * abs(value) or _is_at_rest(task, point, newton)
            ended = ENDINGS.index(Stop.CONVERGED if at_rest else Stop.FLAT)
            point, dual = _last_step(task, point, newton)
        else:
            ridge_share *= 1e-3
    elif since <= STUCK and (distance > CENTRED or short <= 1.01 * PART * goal):
        point = _search(task, point._replace(along=-decrement), newton)
    elif since > STUCK or point.theta < LEAST_SMOOTHING:
        point, dual = _last_step(task, point, newton)
        ended = ENDINGS.index(Stop.ROUNDING)
    else:
        theta = point.theta * max(CUT, min(PART * goal / max(short, 1e-300), 0.5))
        drift = smoothing_drift(task, point, at_smoothing(task, point, 0.999 * point.theta))
        point, since = _advance(task, point, newton, solve(drift) / (0.001 * point.theta), theta), 0
    y, slopes = dual or dual_of(plain, point)
    return state._replace(
        w=from_centred(task.centre, point.x), x=point.x, z=point.z, shift=point.shift, y=y, slopes=slopes,
        theta=point.theta, ridge_share=ridge_share, value=shortfall(task, point)[0], gap=gap, since=since, ended=ended,
    )  # fmt: skip


def _curvatures(task: SmoothedProblem, coefs: np.ndarray) -> np.ndarray:
    """The curvatures that a walk has left on the rows, if it leaves any."""
    return coefs[-1] if coefs.shape[0] > score_count(task.inner) else NO_SHARE


def _hessian(task: SmoothedProblem, point: Point, curvatures: np.ndarray) -> np.ndarray:
    d = point.x.size
    H = np.zeros((d, d))
    at = visit_of(task, point)
    share = point.y.reshape(-1) / task.n
    add_hessian(task.inner, *at, share, curvatures, H)
    if point.curve.any():
        _add_coupling(task, point, at, H)
    add_barrier_hessian(task.barrier, point.x, point.theta * task.barrier_size, H)
    H[np.diag_indices(d)] += point.theta * task.ridge
    return H


def _add_coupling(task: SmoothedProblem, point: Point, at: Any, H: np.ndarray) -> None:
    if coupling_is_constrained(task.coupling):
        add_coupling(task, point.curve, jacobian(task.inner, *at), H)
    else:  # without the Jacobian as a matrix where that can be
        add_squares(task.inner, *at, point.curve.reshape(-1) / task.n, H)


def _factor(task: SmoothedProblem, point: Point, curvatures: np.ndarray) -> Solve:
    summed = np.zeros(point.x.size)
    if np.isfinite(task.barrier.total):
        summed[: task.barrier.covered] = 1.0
    return factored(_hessian(task, point, curvatures), task.fixed, summed)


def _decrement_without_ridge(task: SmoothedProblem, point: Point) -> float:
    """The Newton decrement without the ridge on free coordinates."""
    task = task._replace(ridge=np.zeros_like(task.ridge))
    coefs = row_terms(task, point)
    grad = gradient(task, point, coefs)
    return float(grad @ _factor(task, point, _curvatures(task, coefs))(grad))


def _is_at_rest(task: SmoothedProblem, point: Point, dx: np.ndarray) -> bool:
    """Whether the scores have stopped changing; where there is no minimiser they go to infinity."""
    size = max(float(np.abs(point.z).max()), score_size(task.inner))
    return float(np.abs(scores_at(task.inner, dx)).max()) <= 1e-3 * size


def _advance(task: SmoothedProblem, point: Point, newton: np.ndarray, tangent: np.ndarray, theta: float) -> Point:
    """A step along the path to smoothing ``theta``, or to a larger one if the path turns too sharply."""
    while theta < 0.5 * point.theta:
        dx = newton + (theta - point.theta) * tangent
        dz = scores_at(task.inner, dx)
        start = evaluate_along(task, point.x, point.z, theta, dx, dz, point)
        if start.along < 0.0:
            return line_search(task, start, dx, dz, 0.995 * longest_step(task.barrier, start.x, dx))
        theta = np.sqrt(theta * point.theta)
    return evaluate(task, point.x, point.z, 0.5 * point.theta, point)


def _search(task: SmoothedProblem, start: Point, dx: np.ndarray) -> Point:
    return line_search(task, start, dx, scores_at(task.inner, dx), 0.995 * longest_step(task.barrier, start.x, dx))


def _last_step(task: SmoothedProblem, point: Point, dx: np.ndarray) -> tuple[Point, DualPoint]:
    """The point after its last step, its duals extrapolated to first order."""
    dz = scores_at(task.inner, dx)
    start = evaluate_along(task, point.x, point.z, point.theta, dx, dz, point)
    # a threshold computed a second time differs in its last digits from that in the Hessian: no balance to rounding
    start = start._replace(shift=point.shift, y=point.y, curve=point.curve)
    top = 0.995 * longest_step(task.barrier, start.x, dx)
    last = line_search(task, start, dx, dz, top) if start.along < 0.0 else start
    return last, extrapolated_dual(task, start, dz)
