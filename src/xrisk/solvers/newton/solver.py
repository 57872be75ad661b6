"""Newton's method along a path of smoothed problems: the ground truth for convex problems of linear scores."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.data.threads import one_thread_each
from xrisk.inner.oracle import Oracles, inner_samples, inner_size
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
from xrisk.solvers.base import (
    Stop,
    known_slopes,
    register_full_batch,
)
from xrisk.solvers.card import FULL_PASSES, MethodCard
from xrisk.solvers.method import register
from xrisk.solvers.newton.algebra import Solve, factored
from xrisk.solvers.newton.barrier import add_barrier_hessian, longest_step
from xrisk.solvers.newton.coupling import coupling_is_constrained
from xrisk.solvers.newton.hessian import add_coupling, that_matter
from xrisk.solvers.newton.smoothed import (
    START,
    DualPoint,
    Point,
    SmoothedProblem,
    at_smoothing,
    check_smoothing,
    dual_of,
    evaluate,
    evaluate_along,
    first_point,
    gradient,
    line_search,
    moved_dual,
    ridge_cost,
    row_terms,
    shortfall,
    smoothed_problem,
    smoothing_drift,
    visit_of,
)

MAX_VARIABLES = 5000  # the Hessian is dense
CUT = 0.1  # by which the smoothing falls from one step along the path to the next
CENTRED = 0.1  # a point is near the path when its Newton decrement is below this part of the smoothing
PATIENCE = 25  # steps towards the path at one smoothing, after which near enough is near enough
PART = 0.6  # of the tolerance that smoothing may cost in the end
STILL = 30.0  # times the tolerance that the gradient may cost the dual point before the last step
ENOUGH = 8  # steps at one smoothing, after which rounding keeps the gradient from falling
LEAST_SMOOTHING = 1e-15
STUCK = 200  # steps at one smoothing, after which rounding has ended progress
RUNNING = 0
ENDINGS = (None, Stop.CONVERGED, Stop.FLAT, Stop.UNBOUNDED, Stop.ROUNDING)  # by the number a state keeps


class NewtonState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    x: np.ndarray  # (d,) the same, what an intercept absorbs taken out of the columns
    z: np.ndarray  # (rows, scores)
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # (n, m) dual weights
    slopes: Slopes  # of the losses
    theta: float  # smoothing
    hold: float  # part of the vanishing ridge that is left
    value: float  # objective
    gap: float  # estimate of value − optimum, before the last step
    since: int  # steps since the smoothing was last cut
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # Newton steps


_NOTHING, _NONE = np.zeros((0, 0)), np.zeros(0)
NO_NEWTON = NewtonState(
    _NONE, _NONE, _NOTHING, _NONE, _NOTHING,
    Slopes(_NOTHING, _NOTHING, _NONE, 0.0), 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0,
)  # fmt: skip


class Newton(NamedTuple):
    """Newton's method along a path of smoothed problems.

    Every kink is smoothed so that its slope is an interior dual point, every domain is walled off by logarithms, and
    Newton's method follows the minimiser as the smoothing vanishes. Thresholds of risks are eliminated. A run ends by
    itself when the estimated gap is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted suboptimality relative to the objective.
    smoothing : float
        First smoothing, relative to the size of the problem; a warm start wants little.
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

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: SmoothedProblem, x: np.ndarray, rng: np.random.Generator) -> NewtonState:
        before = problem.passes.copy()
        w, point = first_point(problem, x, self.smoothing)
        dual = dual_of(problem, point)
        values, gradients = (problem.passes - before + problem.prepared).tolist()
        value = shortfall(problem, point)[0]
        return NewtonState(
            w,
            point.x,
            point.z,
            point.shift,
            dual.y,
            dual.slopes,
            point.theta,
            1.0,
            value,
            np.inf,
            0,
            RUNNING,
            values,
            gradients,
            0,
        )

    def advance(self, problem: SmoothedProblem, state: NewtonState, n_steps: int, rng: Any) -> NewtonState:
        with one_thread_each():
            for _ in range(n_steps):
                if state.ended != RUNNING:
                    return state
                state = newton_step(problem, state, self)
        return state

    def solution(self, state: NewtonState) -> np.ndarray:
        return state.w

    def dual(self, problem: SmoothedProblem, state: NewtonState) -> np.ndarray:
        return state.y

    def oracles(self, problem: SmoothedProblem, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(2 * t * samples, t * samples)  # at the least: a line search may take more


register({"newton": Newton()})
register_full_batch(Newton, ENDINGS, "newton")


@known_slopes.of(Newton)
def _(solver, state):
    return state.slopes


def newton_step(task: SmoothedProblem, state: NewtonState, solver: Newton) -> NewtonState:
    """A Newton step towards the path; near it, a step along it to less smoothing."""
    before, plain, tol = task.passes.copy(), task, solver.tol
    task = task._replace(ridge=state.hold * task.ridge)
    point = evaluate(task, state.x, state.z, state.theta, state)
    value, short = shortfall(task, point)
    if not value > -(1e7 if task.ridge.any() else 1e12) * task.size:
        return state._replace(ended=ENDINGS.index(Stop.UNBOUNDED), gap=np.inf)
    coefs = row_terms(task, point)
    grad = gradient(task, point, coefs)
    solve = _factor(task, point, that_matter(task, _curvatures(task, coefs), solver.hessian_rows * grad.size))
    newton = -solve(grad)
    decrement, since = float(-(grad @ newton)), state.since + 1
    gap, goal = max(float(short + decrement), 0.0), tol * max(abs(value), 1e-3 * task.size)
    off = decrement / (point.theta * task.size) if since <= PATIENCE else 0.0  # how far from the path
    hold, ended, dual = state.hold, RUNNING, None
    still = ridge_cost(task, grad) <= STILL * goal or decrement <= 1e-14 * task.size or since > ENOUGH
    if gap <= goal and still and (off <= CENTRED or short <= 1e-3 * goal):
        if not task.ridge.any() or _held_back(task, point) <= goal:
            rests = gap <= tol * abs(value) or _rests(task, point, newton)
            ended = ENDINGS.index(Stop.CONVERGED if rests else Stop.FLAT)
            point, dual = _last_step(task, point, newton)
        else:
            hold *= 1e-3
    elif since <= STUCK and (off > CENTRED or short <= 1.01 * PART * goal):
        point = _search(task, point._replace(along=-decrement), newton)
    elif since > STUCK or point.theta < LEAST_SMOOTHING:
        point, dual = _last_step(task, point, newton)
        ended = ENDINGS.index(Stop.ROUNDING)
    else:
        theta = point.theta * max(CUT, min(PART * goal / max(short, 1e-300), 0.5))
        drift = smoothing_drift(task, point, at_smoothing(task, point, 0.999 * point.theta))
        point, since = _advance(task, point, newton, solve(drift) / (0.001 * point.theta), theta), 0
    y, slopes = dual or dual_of(plain, point)
    value = shortfall(task, point)[0]
    values, gradients = (task.passes - before).tolist()
    return NewtonState(
        from_centred(task.centre, point.x), point.x, point.z, point.shift, y, slopes, point.theta, hold, value, gap,
        since, ended, state.values + values, state.gradients + gradients, state.t + 1,
    )  # fmt: skip


def _curvatures(task: SmoothedProblem, coefs: np.ndarray) -> np.ndarray:
    """What a walk has left of curvatures on the rows; nothing where it leaves none."""
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


def _held_back(task: SmoothedProblem, point: Point) -> float:
    """The Newton decrement were free coordinates not held."""
    task = task._replace(ridge=np.zeros_like(task.ridge))
    coefs = row_terms(task, point)
    grad = gradient(task, point, coefs)
    return float(grad @ _factor(task, point, _curvatures(task, coefs))(grad))


def _rests(task: SmoothedProblem, point: Point, dx: np.ndarray) -> bool:
    """Whether the scores have come to rest; they run off to infinity where there is no minimiser."""
    size = max(float(np.abs(point.z).max()), score_size(task.inner))
    return float(np.abs(scores_at(task.inner, dx)).max()) <= 1e-3 * size


def _advance(task: SmoothedProblem, point: Point, newton: np.ndarray, tangent: np.ndarray, theta: float) -> Point:
    """A step along the path to smoothing ``theta``, or to more if the path turns too sharply for that."""
    while theta < 0.5 * point.theta:
        dx = newton + (theta - point.theta) * tangent
        dz = scores_at(task.inner, dx)
        here = evaluate_along(task, point.x, point.z, theta, dx, dz, point)
        if here.along < 0.0:
            return line_search(task, here, dx, dz, 0.995 * longest_step(task.barrier, here.x, dx))
        theta = np.sqrt(theta * point.theta)
    return evaluate(task, point.x, point.z, 0.5 * point.theta, point)


def _search(task: SmoothedProblem, here: Point, dx: np.ndarray) -> Point:
    return line_search(task, here, dx, scores_at(task.inner, dx), 0.995 * longest_step(task.barrier, here.x, dx))


def _last_step(task: SmoothedProblem, point: Point, dx: np.ndarray) -> tuple[Point, DualPoint]:
    """The point after its last step, its duals moved to first order."""
    dz = scores_at(task.inner, dx)
    here = evaluate_along(task, point.x, point.z, point.theta, dx, dz, point)
    # a threshold solved again has other last digits than the one in the Hessian, and the moves would not balance
    here = here._replace(shift=point.shift, y=point.y, curve=point.curve)
    top = 0.995 * longest_step(task.barrier, here.x, dx)
    last = line_search(task, here, dx, dz, top) if here.along < 0.0 else here
    return last, moved_dual(task, here, dz)
