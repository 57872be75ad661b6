"""Newton's method for risks over single rows: a step is made of the rows that have a weight in the worst case."""
# mypy: disable-error-code="empty-body"

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner
from xrisk.certificate.rounding import base_weights
from xrisk.compile import canonical
from xrisk.data.products import sampled_rows
from xrisk.data.rows import frozen
from xrisk.functions.smoothed_worst import worst
from xrisk.functions.smoothing import smoothable_loss
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, inner_size
from xrisk.inner.passes import Slopes, from_centred, pass_loss, score_size, scores_at, to_centred, with_loss
from xrisk.inner.samples import Samples
from xrisk.problem import Problem
from xrisk.solvers.base import PointToProve, Stop, known_slopes
from xrisk.solvers.card import MethodCard, Need, require
from xrisk.solvers.full_batch import full_batch, points_to_prove
from xrisk.solvers.newton.barrier import barrier_count, barrier_of
from xrisk.solvers.newton.points import START, check_smoothing, has_kinks, next_step
from xrisk.solvers.newton.row_point import (
    RowPoint,
    RowTask,
    along,
    at_rows,
    evaluate,
    gradient,
    slope_gap,
    smoothed_at,
    smoothing_gap,
    solve_with,
    value_at,
)
from xrisk.solvers.newton.smoothed import VANISHING, centred_columns

CUT = 0.1  # by which the smoothing falls
NUDGE = 1e-3  # by which it is changed to find the tangent of the path
CENTRED = 1.0  # decrement, relative to the error of the smoothing, up to which a point is near the path
SHARE = 0.3  # of the tolerance that the smoothing may cost
TRIALS = 40
STUCK = 25  # iterations in a row without progress, after which rounding has ended it
PROGRESS = 1e-3  # of the tolerance: a decrease of the objective that counts
LEAST_SMOOTHING = 1e-13
LEAST = 1e-13  # of the size of the losses: a gap that is none, where the fit is perfect
RISE = 1e-10  # relative, of the smoothed objective in a step: rounding
SAME = 1e-12  # relative: an objective lower by less is the same up to rounding
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING)  # by the number a state keeps


@generic
def are_single_rows(g: Inner) -> bool:
    """Whether the inner functions are the losses of single rows of a linear model."""


are_single_rows.otherwise(lambda g: False)
are_single_rows.of(Samples)(lambda g: True)


def takes_rows(problem: Problem) -> bool:
    """Whether the inner functions are single rows, the risk is one over them, and the penalty has no barriers."""
    r = problem.penalty
    if not (worst.implemented(problem.outer) and are_single_rows(problem.inner) and barrier_of.implemented(r)):
        return False
    barrier = barrier_of(r, inner_size(problem.inner))
    norms = barrier.covered if barrier.strength > 0.0 and barrier.size == 1 else 0
    return barrier_count(barrier) == norms and not np.isfinite(barrier.total) and not barrier.linear.any()


ROW_RISK = Need("a risk over single rows, `Samples`, and a penalty of l1 and l2 norms", takes_rows, "inner")


class RowState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    x: np.ndarray  # (d,) the same, what an intercept absorbs taken out of the columns
    z: np.ndarray  # (rows, scores)
    y: np.ndarray  # (rows, 1) dual weights
    near: np.ndarray  # thresholds and multipliers of the worst case
    grad: np.ndarray  # (d,) of the smoothed objective
    theta: float  # smoothing
    mu: float  # smoothing of the losses
    value: float  # objective
    short: float  # what the smoothing costs
    gap: float  # estimate of value − optimum
    least: float  # the smallest objective so far
    best: float  # the smallest gap so far
    since: int  # iterations without progress
    ended: int  # 0 while running
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


class RowNewton(NamedTuple):
    """Newton's method on the worst case over single rows, along vanishing smoothings.

    The objective ρ(ℓ₁(w), …, ℓₙ(w)) + r(w) has the gradient Σ qᵢ∇ℓᵢ + ∇r, q the worst-case weights. Their dependence on
    the losses is known: the Hessian of ρ is a diagonal minus one or two products of vectors, so that a step takes one
    weighted Gram matrix, of the rows with a weight [1]_, or products with them where columns are many. A CVaR is
    smoothed by a χ² cost on the weights, which vanishes; KL and χ² risks of little strength begin with more of it. A
    run ends when the estimated gap is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted gap relative to the objective.
    smoothing : float
        First smoothing, relative to the size of the losses; small for a warm start.

    References
    ----------
    .. [1] Wu, Cui and Pang, A semismooth Newton based augmented Lagrangian method for superquantile problems,
       arXiv 2405.07965, 2024, for systems of tail rows only.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(500) > 0, 1, -1)
    >>> problem = xrisk.applications.sample_dro(X, y, ambiguity="kl", radius=0.5, l2=0.01)
    >>> result = xrisk.minimize(problem, xrisk.solvers.RowNewton(), budget=xrisk.Budget(iterations=100))
    >>> xrisk.certify(problem, result).relative <= 1e-3
    True
    """

    tol: float = 1e-3
    smoothing: float = START

    def card(self) -> MethodCard:
        return MethodCard(
            "row Newton",
            "Newton's method; Wu, Cui and Pang 2024 for the tail",
            "ours",
            values="0",
            gradients="all, twice or more",
            rate="quadratic near the optimum; 5 to 15 iterations to 1e-3 in practice",
            needs=(ROW_RISK,),
        )

    def prepare(self, problem: Problem) -> tuple[RowTask, Any]:
        check_smoothing(self)
        require(problem, self.card())
        return row_task(problem), self

    def first(self, task: RowTask, w: np.ndarray) -> RowState:
        x = to_centred(task.centre, w) if w.any() else w  # the centre is as good a start as zero
        return _state_at(task, self, evaluate(task, x, scores_at(task.inner, x), self.smoothing, ()))


def row_task(problem: Problem) -> RowTask:
    """The problem, prepared."""
    problem = canonical(problem)
    barrier = barrier_of(problem.penalty, inner_size(problem.inner))
    g, centre, columns = centred_columns(problem.inner, barrier)
    g = with_loss(g, smoothable_loss(pass_loss(g)))
    zero, passes = np.zeros(columns.size), np.zeros(2, dtype=np.int64)
    task = RowTask(problem, g, barrier, columns, centre, 1.0, zero, passes, passes)
    losses = evaluate(task, zero, scores_at(g, zero), 0.0, ()).losses
    if not np.isfinite(losses).all():
        raise ValueError("the losses overflow near w = 0, where a full-batch method starts: scale the data down")
    size = float(base_weights(problem.outer, losses.size) @ np.abs(losses)) or 1.0
    loose = (barrier.l2 == 0.0) & (barrier.strength == 0.0) & has_kinks(g)  # on a smoothed kink nothing rests
    ridge = np.where(loose, VANISHING * size * (columns / score_size(g)) ** 2, 0.0)
    return task._replace(size=size, ridge=ridge, prepared=passes.copy())


def row_sample(problem: Problem, share: float) -> RowTask:
    """The problem on a share of the rows, prepared."""
    model = problem.inner.model
    n = model.target.size
    chosen = np.sort(np.random.default_rng(0).choice(n, int(share * n), replace=False))
    model = model._replace(rows=sampled_rows(model.rows, chosen), target=frozen(model.target[chosen]))
    return row_task(problem._replace(inner=Samples(model), outer=at_rows(problem.outer, chosen)))


@full_batch({"row-newton": RowNewton()}, RowState, ENDINGS, "newton", Oracles(0, 2))
def row_step(task: RowTask, solver: RowNewton, state: RowState) -> RowState:
    """A Newton step, or one along the path to less smoothing."""
    direction = direction_at(task, solver, state)
    point = _along_path(task, state, direction) if direction.tangent.size else _searched(task, state, direction)
    return _state_at(task, solver, point, state)


def _state_at(task: RowTask, solver: RowNewton, point: RowPoint, before: RowState | None = None) -> RowState:
    """The state at a point that has just been evaluated."""
    value, grad = value_at(task, point), gradient(task, point)
    short = smoothing_gap(task, point, value)
    gap, ended = short + slope_gap(task, point, grad), None
    least, best, since = (before.least, before.best, before.since) if before else (np.inf, np.inf, 0)
    progress = gap < 0.9 * best or least - value > max(PROGRESS * solver.tol, SAME) * abs(least)
    since = 0 if progress or (before and point.theta < before.theta) else since + 1
    if gap <= max(solver.tol * abs(value), LEAST * task.size):
        ended = Stop.CONVERGED
    elif since > STUCK:
        ended = Stop.ROUNDING
    return RowState(
        from_centred(task.centre, point.x), point.x, point.z, (point.case.weights.size * point.case.weights)[:, None],
        np.array(point.case.near), grad, point.theta, point.theta * task.size, value, short, gap, min(value, least),
        min(gap, best), since, ENDINGS.index(ended),
    )  # fmt: skip


class SearchDirection(NamedTuple):
    """Where a step goes; nothing of the rows, which are many."""

    dx: np.ndarray  # (d,) Newton's direction
    slope: float  # of the smoothed objective along it
    level: float  # the smoothed objective
    tangent: np.ndarray  # (d,) of the path of smoothings; empty far from it
    theta: float  # the next smoothing


def direction_at(task: RowTask, solver: RowNewton, state: RowState) -> SearchDirection:
    """Newton's direction; near the path of smoothings its tangent too, and the next smoothing."""
    point = evaluate(task, state.x, state.z, state.theta, tuple(state.near))
    grad, short, solve, theta = state.grad, state.short, solve_with(task, point), state.theta
    dx, level, goal = -solve(grad), smoothed_at(task, point), solver.tol * abs(state.value)
    slope = float(grad @ dx)
    if not slope < 0.0:  # rounding, or a Hessian that is not positive
        dx = -grad / (task.barrier.l2 + task.columns**2)
        slope = float(grad @ dx)
    if short <= SHARE * goal or -slope > CENTRED * short or theta <= LEAST_SMOOTHING:
        return SearchDirection(dx, slope, level, np.zeros(0), theta)
    close = evaluate(task, state.x, state.z, (1.0 - NUDGE) * theta, point.case.near)
    tangent = solve(gradient(task, close) - grad) / (NUDGE * theta)
    return SearchDirection(dx, slope, level, tangent, max(theta * max(CUT, SHARE * goal / short), LEAST_SMOOTHING))


def _along_path(task: RowTask, state: RowState, direction: SearchDirection) -> RowPoint:
    """A step along the tangent of the path to the next smoothing, or a larger one if the path turns too sharply."""
    theta, near = direction.theta, tuple(state.near)
    while theta < 0.7 * state.theta:
        dx = direction.dx + (theta - state.theta) * direction.tangent
        start = evaluate(task, state.x, state.z, theta, near)
        slope, level = along(task, start, dx, scores_at(task.inner, dx)), smoothed_at(task, start)
        if slope < 0.0:
            return _searched(task, state, direction._replace(dx=dx, slope=slope, level=level, theta=theta))
        theta = np.sqrt(theta * state.theta)
    return evaluate(task, state.x, state.z, 0.5 * state.theta, near)


def _searched(task: RowTask, state: RowState, direction: SearchDirection) -> RowPoint:
    """A step that reduces the slope to a half and does not rise; slopes keep digits that values lose."""
    dz, near = scores_at(task.inner, direction.dx), tuple(state.near)
    low, high, t = (0.0, direction.slope), None, 1.0
    for _ in range(TRIALS):
        trial = evaluate(task, state.x + t * direction.dx, state.z + t * dz, direction.theta, near)
        slope = along(task, trial, direction.dx, dz)
        rises = not smoothed_at(task, trial) <= direction.level + RISE * abs(direction.level)
        if abs(slope) <= 0.5 * abs(direction.slope) and not rises:
            return trial
        low, high = ((t, slope), high) if slope < 0.0 else (low, (t, np.inf if rises else slope))
        near = trial.case.near
        del trial  # as large as some columns of the data
        t = next_step(low, high, np.inf)
    return evaluate(task, state.x + low[0] * direction.dx, state.z + low[0] * dz, direction.theta, near)


@points_to_prove.of(RowNewton)
def _(solver, task, state):
    yield PointToProve(state.w, state.y, known_slopes(solver, state))
    if ENDINGS[state.ended] is Stop.CONVERGED:
        yield _extrapolated_dual(task, state)


def _extrapolated_dual(task: RowTask, state: RowState) -> PointToProve:
    """Weights and slopes extrapolated to first order along Newton's step, which balances the gradient.

    Columns of unlike scales need it: no w in floating point is as nearly stationary as these are.
    """
    point = evaluate(task, state.x, state.z, state.theta, tuple(state.near))
    case, dx = point.case, -solve_with(task, point)(state.grad)
    dz = scores_at(task.inner, dx)
    du = (point.slopes * dz.T).sum(axis=0)
    weights = case.weights + case.curvature * du
    for scale, vector in zip(case.scales, case.vectors, strict=True):
        weights -= scale * float(vector @ du) * vector
    weights = np.maximum(weights, 0.5 * case.weights)
    factor = np.divide(case.weights, weights, out=np.zeros(weights.size), where=weights > 0.0)
    return PointToProve(state.w, (weights.size * weights)[:, None], Slopes(state.z, dz, factor, state.mu))
