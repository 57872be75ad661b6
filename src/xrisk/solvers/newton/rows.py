"""Newton's method for risks over single rows: a step is made of the rows that have a weight in the worst case."""

from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate import Certificate, between, certify_measured, is_perfect, measured, refuse_unknown
from xrisk.certificate.bounds import PERFECT
from xrisk.certificate.rounding import base_weights
from xrisk.compile import canonical
from xrisk.data.products import sampled_rows
from xrisk.data.rows import frozen
from xrisk.data.threads import Interrupted, one_thread_each
from xrisk.functions.smoothing import smoothable_loss
from xrisk.functions.worst import worst
from xrisk.inner.oracle import Oracles, inner_samples, inner_size
from xrisk.inner.passes import Slopes, from_centred, pass_loss, score_size, scores_at, to_centred, with_loss
from xrisk.inner.samples import Samples
from xrisk.problem import Problem
from xrisk.solvers.base import PointToProve, Stop, check_positive, known_certificate, known_slopes, register_full_batch
from xrisk.solvers.card import CERTIFIABLE, MethodCard, Need, require
from xrisk.solvers.method import register
from xrisk.solvers.newton.barrier import barrier_count, barrier_of
from xrisk.solvers.newton.row_point import (
    RowPoint,
    RowTask,
    along,
    at_rows,
    gradient,
    look,
    slope_gap,
    smoothed_at,
    smoothing_gap,
    solve_with,
    value_at,
)
from xrisk.solvers.newton.smoothed import START, VANISHING, centred_columns, constant_size, is_curved, next_step

SAMPLE = 0.05  # share of the rows to start with
SAMPLE_TOL = 0.02  # to which these are solved
LEAST_SAMPLE = 2000  # rows, and eight for each variable
WARM = 1e-2  # first smoothing where the start is good
CUT = 0.1  # by which the smoothing falls
NUDGE = 1e-3  # by which it is changed to see where the path goes
CENTRED = 1.0  # decrement, beside the error of the smoothing, up to which a point is near the path
FINE = 1e-6  # relative gap from which on proofs are made on the way
ROUNDS = 50  # on a sample, at most
SHARE = 0.3  # of the tolerance that the smoothing may cost
ASKED = 0.8  # of the tolerance: an estimate is not a proof
TRIALS = 40
STUCK = 25  # iterations in a row that bring nothing, after which rounding has ended progress
PROGRESS = 1e-3  # of what is asked for: a fall of the objective that is something
IN_VAIN = 3  # certificates in a row that bring nothing
LEAST_SMOOTHING = 1e-13
RISE = 1e-10  # relative, of the smoothed objective in a step: rounding
BETTER = 1e-12  # relative: an objective lower by less is the same, but for rounding
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.PERFECT)  # by the number a state keeps


def takes_rows(problem: Problem) -> bool:
    """Whether the inner functions are single rows, the risk is one over them, and the penalty has no barriers."""
    r, known = problem.penalty, worst.implemented(problem.outer)
    if not (known and type(problem.inner) is Samples and barrier_of.implemented(r)):
        return False
    barrier = barrier_of(r, inner_size(problem.inner))
    norms = barrier.covered if barrier.strength > 0.0 and barrier.size == 1 else 0
    return barrier_count(barrier) == norms and not np.isfinite(barrier.total) and not barrier.linear.any()


ROW_RISK = Need("a risk over single rows, `Samples`, and a penalty of l1 and l2 norms", takes_rows, "inner")


class RowState(NamedTuple):
    w: np.ndarray  # (d,) the best parameters seen
    x: np.ndarray  # (d,) where the method is, what an intercept absorbs taken out
    z: np.ndarray  # (rows, scores) there
    y: np.ndarray  # (rows, 1) dual weights there
    near: np.ndarray  # thresholds and multipliers of the worst case
    theta: float  # smoothing
    tol: float  # what the estimate is asked for
    value: float  # objective at w
    here: float  # objective at x
    constant: float  # objective at the centre, if the method began there
    gap: float  # estimate of here − optimum
    best: float  # the smallest so far
    primal: float  # proved upper bound on the objective at w
    dual: float  # proved lower bound on the optimum
    size: float  # objective of a constant model
    since: int  # iterations since the gap was last found smaller
    tries: int  # certificates in a row that brought nothing
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations


class RowNewton(NamedTuple):
    """Newton's method on the worst case over single rows, along vanishing smoothings, ended by its certificate.

    The objective ρ(ℓ₁(w), …, ℓₙ(w)) + r(w) has the gradient Σ qᵢ∇ℓᵢ + ∇r, q the worst-case weights. Their dependence on
    the losses is known: the Hessian of ρ is a diagonal less one or two products of vectors, so that a step takes one
    weighted Gram matrix, of the rows with a weight [1]_, or products with them where columns are many. A CVaR is
    smoothed by a χ² cost on the weights, which vanishes; KL and χ² risks of little strength begin with more of it.
    Where rows are many, a sample of them is solved first. When the estimated gap is small enough, weights and slopes
    are certified; the run ends when that is within ``tol``.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends.
    weights : ndarray (rows, 1), optional
        Dual weights to certify a warm start with.

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
    >>> result.certificate.relative <= 1e-3
    True
    """

    tol: float = 1e-3
    weights: np.ndarray = np.zeros((0, 0))

    def card(self) -> MethodCard:
        return MethodCard(
            "row Newton",
            "Newton's method; Wu, Cui and Pang 2024 for the tail",
            "ours",
            values="0",
            gradients="all, twice or more",
            rate="quadratic near the optimum; 5 to 15 iterations to 1e-3 in practice; ends on its certificate",
            needs=(ROW_RISK, CERTIFIABLE),
        )

    def prepare(self, problem: Problem) -> tuple[RowTask, Any]:
        check_positive("tol", self.tol)
        require(problem, self.card())
        refuse_unknown(problem)
        return row_task(problem), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: RowTask, x: np.ndarray, rng: np.random.Generator) -> RowState:
        (size, made), tol = constant_size(problem.problem), ASKED * self.tol
        problem.passes[0] += made
        if not x.any():
            return _first_state(problem, tol, size)
        state = state_at(problem, to_centred(problem.centre, x), WARM, tol, size)
        with suppress(Interrupted):  # a warm start may be all there is to do
            state = _proved_at_start(problem, self, state)
        return state

    def advance(self, problem: RowTask, state: RowState, n_steps: int, rng: Any) -> RowState:
        with one_thread_each():
            for _ in range(n_steps):
                if state.ended:
                    return state
                state = row_step(problem, self, state)
        return state

    def solution(self, state: RowState) -> np.ndarray:
        return state.w

    def dual(self, problem: RowTask, state: RowState) -> np.ndarray:
        return state.y

    def oracles(self, problem: RowTask, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(0, 2 * t * samples)  # at the least: a line search may look at more points


register({"row-newton": RowNewton()})
register_full_batch(RowNewton, ENDINGS, "newton")


@known_certificate.of(RowNewton)
def _(solver, state):
    return proved(state) if np.isfinite(state.primal) else None


@known_slopes.of(RowNewton)
def _(solver, state):
    return Slopes(state.z, state.z, np.zeros(state.z.shape[0]), 0.0)


def proved(state: RowState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


def row_task(problem: Problem) -> RowTask:
    """The problem, prepared."""
    problem = canonical(problem)
    barrier = barrier_of(problem.penalty, inner_size(problem.inner))
    g, centre, columns = centred_columns(problem.inner, barrier)
    g = with_loss(g, smoothable_loss(pass_loss(g)))
    passes = np.zeros(2, dtype=np.int64)
    known = cache(lambda: measured(problem, columns, centre))
    task = RowTask(problem, g, barrier, columns, centre, 1.0, np.zeros(columns.size), passes, known)
    zero = np.zeros(columns.size)
    losses = look(task, zero, scores_at(g, zero), 0.0, ()).losses
    if not np.isfinite(losses).all():
        raise ValueError("the losses overflow near w = 0, where a full-batch method starts: scale the data down")
    size = float(base_weights(problem.outer, losses.size) @ np.abs(losses)) or 1.0
    loose = (
        (barrier.l2 == 0.0) & (barrier.strength == 0.0) & is_curved(problem.inner)
    )  # on a smoothed kink nothing rests
    ridge = np.where(loose, VANISHING * size * (columns / score_size(g)) ** 2, 0.0)
    return task._replace(size=size, ridge=ridge)


def sample_solution(task: RowTask) -> np.ndarray:
    """The parameters that solve a sample of the rows, roughly; zero where all rows are few."""
    n, d = task.problem.inner.model.target.size, task.columns.size
    if SAMPLE * n < max(LEAST_SAMPLE, 8 * d):
        return np.zeros(d)
    chosen = np.sort(np.random.default_rng(0).choice(n, int(SAMPLE * n), replace=False))
    model = task.problem.inner.model
    model = model._replace(rows=sampled_rows(model.rows, chosen), target=frozen(model.target[chosen]))
    part = row_task(task.problem._replace(inner=Samples(model), outer=at_rows(task.problem.outer, chosen)))
    rough = RowNewton(np.inf)  # whatever is proved ends it
    state = state_at(part, np.zeros(d), START, SAMPLE_TOL, 0.0)
    while state.t < ROUNDS and not state.ended:
        state = row_step(part, rough, state)
    return state.w


def _first_state(task: RowTask, tol: float, size: float) -> RowState:
    """The state at the centre, or at the solution of a sample if that is better: it knows nothing of rows far off."""
    state, w = state_at(task, np.zeros(task.columns.size), START, tol, size), sample_solution(task)
    sampled = state_at(task, to_centred(task.centre, w), WARM, tol, size) if w.any() else state
    return sampled if sampled.here < state.here else state


def state_at(task: RowTask, x: np.ndarray, theta: float, tol: float, size: float) -> RowState:
    """The state at a first point."""
    z = scores_at(task.inner, x)
    point = look(task, x, z, theta, ())
    value, y = value_at(task, point), _dual(point)
    constant = np.inf if x.any() else value
    return RowState(
        from_centred(task.centre, x), x, z, y, np.array(point.case.near), theta, tol, value, value, constant,
        np.inf, np.inf, np.inf, -np.inf, size, 0, 0, 0, int(task.passes[0]), int(task.passes[1]), 0,
    )  # fmt: skip


def _dual(point: RowPoint) -> np.ndarray:
    return (point.case.weights.size * point.case.weights)[:, None]


class SearchDirection(NamedTuple):
    """Where a step goes; nothing of the rows, which are many."""

    dx: np.ndarray  # (d,) Newton's direction
    slope: float  # of the smoothed objective along it
    level: float  # the smoothed objective
    tangent: np.ndarray  # (d,) of the path of smoothings; empty far from it
    theta: float  # the next smoothing


def row_step(task: RowTask, solver: RowNewton, state: RowState) -> RowState:
    """The certificate, where the estimated gap is small enough; else a Newton step."""
    before = task.passes.copy()
    state, grad, short = measure(task, state)
    if state.gap <= state.tol * abs(state.here) or state.since > STUCK or _worth_a_proof(state):
        with suppress(Interrupted):
            state = _certified(task, solver, state)
    if not state.ended:
        state = newton_step(task, state, direction_at(task, state, grad, short))
    values, gradients = (task.passes - before).tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients)


def measure(task: RowTask, state: RowState) -> tuple[RowState, np.ndarray, float]:
    """The state with its gap, the gradient there, and what of the gap is due to the smoothing."""
    point = look(task, state.x, state.z, state.theta, tuple(state.near))
    grad = gradient(task, point)
    short = smoothing_gap(task, point, state.here)
    gap = short + slope_gap(task, point, grad)
    since = 0 if gap < 0.9 * state.best else state.since + 1
    return state._replace(gap=gap, best=min(gap, state.best), since=since, t=state.t + 1), grad, short


def direction_at(task: RowTask, state: RowState, grad: np.ndarray, short: float) -> SearchDirection:
    """Newton's direction; near the path of smoothings, whose error is ``short``, its tangent and where to go on it."""
    point = look(task, state.x, state.z, state.theta, tuple(state.near))
    solve, theta, goal = solve_with(task, point), point.theta, state.tol * abs(state.here)
    dx, level = -solve(grad), smoothed_at(task, point)
    slope = float(grad @ dx)
    if not slope < 0.0:  # rounding, or a Hessian that is none
        dx = -grad / (task.barrier.l2 + task.columns**2)
        slope = float(grad @ dx)
    if short <= SHARE * goal or -slope > CENTRED * short or theta <= LEAST_SMOOTHING:
        return SearchDirection(dx, slope, level, np.zeros(0), theta)
    close = look(task, state.x, state.z, (1.0 - NUDGE) * theta, point.case.near)
    tangent = solve(gradient(task, close) - grad) / (NUDGE * theta)
    return SearchDirection(dx, slope, level, tangent, max(theta * max(CUT, SHARE * goal / short), LEAST_SMOOTHING))


def newton_step(task: RowTask, state: RowState, direction: SearchDirection) -> RowState:
    """The state after a step."""
    point = _along_path(task, state, direction) if direction.tangent.size else _searched(task, state, direction)
    here, w, value = value_at(task, point), state.w, state.value
    fall = value - here  # below all before: rounding rises and falls
    fell = fall > max(PROGRESS * state.tol, BETTER) * abs(value)  # a fall that is not kept would be one forever
    if fall > BETTER * abs(value):
        w, value = from_centred(task.centre, point.x), here
    return state._replace(
        w=w, x=point.x, z=point.z, near=np.array(point.case.near), theta=point.theta, value=value, here=here,
        since=0 if fell or direction.tangent.size else state.since, y=_dual(point),
    )  # fmt: skip


def _along_path(task: RowTask, state: RowState, direction: SearchDirection) -> RowPoint:
    """A step to less smoothing by the tangent of the path, or to more if the path turns too sharply for that."""
    theta, near = direction.theta, tuple(state.near)
    while theta < 0.7 * state.theta:
        dx = direction.dx + (theta - state.theta) * direction.tangent
        start = look(task, state.x, state.z, theta, near)
        slope, level = along(task, start, dx, scores_at(task.inner, dx)), smoothed_at(task, start)
        if slope < 0.0:
            return _searched(task, state, direction._replace(dx=dx, slope=slope, level=level, theta=theta))
        theta = np.sqrt(theta * state.theta)
    return look(task, state.x, state.z, 0.5 * state.theta, near)


def _searched(task: RowTask, state: RowState, direction: SearchDirection) -> RowPoint:
    """A step that takes most of the slope away, and does not rise; slopes keep digits that values lose."""
    dz, near = scores_at(task.inner, direction.dx), tuple(state.near)
    low, high, t = (0.0, direction.slope), None, 1.0
    for _ in range(TRIALS):
        trial = look(task, state.x + t * direction.dx, state.z + t * dz, direction.theta, near)
        there = along(task, trial, direction.dx, dz)
        rises = not smoothed_at(task, trial) <= direction.level + RISE * abs(direction.level)
        if abs(there) <= 0.5 * abs(direction.slope) and not rises:
            return trial
        low, high = ((t, there), high) if there < 0.0 else (low, (t, np.inf if rises else there))
        near = trial.case.near
        del trial  # as large as some columns of the data
        t = next_step(low, high, np.inf)
    return look(task, state.x + low[0] * direction.dx, state.z + low[0] * dz, direction.theta, near)


def _worth_a_proof(state: RowState) -> bool:
    """Whether a proof on the way is worth its passes: of a fit that seems perfect, or one asked for many digits.

    Rounding may end what is left of either.
    """
    if state.here <= PERFECT * state.size < state.primal:
        return True
    return state.gap <= FINE * abs(state.here) and state.gap < 0.1 * (state.primal - state.dual)


def _proved_at_start(task: RowTask, solver: RowNewton, state: RowState) -> RowState:
    """The state of a warm start with what the weights given, or the worst case at it, prove."""
    y = _dual(look(task, state.x, state.z, LEAST_SMOOTHING, ()))
    y = solver.weights if solver.weights.shape == y.shape else y
    proven = _certified(task, solver, state._replace(y=y, theta=LEAST_SMOOTHING))
    if ENDINGS[proven.ended] in (Stop.CONVERGED, Stop.PERFECT):
        return proven
    return state._replace(primal=proven.primal, dual=proven.dual)


def _certified(task: RowTask, solver: RowNewton, state: RowState) -> RowState:
    """The state with what its weights and slopes prove; asked for more where that is not enough."""
    slopes = Slopes(state.z, state.z, np.zeros(state.z.shape[0]), state.theta * task.size)
    before = state.primal - state.dual
    state = _with_proof(task, solver, state, PointToProve(state.w, state.y, slopes))
    if not _reached(solver, state) and state.gap <= state.tol * abs(state.here):
        state = _with_proof(task, solver, state, _moved_dual(task, state))
    reached = _reached(solver, state)
    if reached and (state.here <= state.value or state.value < state.constant or state.tries >= IN_VAIN):
        return state._replace(ended=ENDINGS.index(reached))
    if reached:  # a constant is as good as the tolerance: a model is worth a few steps more
        return state._replace(tol=0.2 * state.tol, tries=state.tries + 1)
    if state.gap > state.tol * abs(state.here) and state.since <= STUCK:
        return state
    tries = 0 if state.primal - state.dual < 0.9 * before else state.tries + 1
    if tries >= IN_VAIN or state.since > STUCK:
        return _at_best(task, state)._replace(ended=ENDINGS.index(Stop.ROUNDING))
    return state._replace(tol=0.2 * state.tol, tries=tries)


def _at_best(task: RowTask, state: RowState) -> RowState:
    """The state where the objective was lowest."""
    if state.here - state.value <= BETTER * abs(state.value):
        return state
    there = state_at(task, to_centred(task.centre, state.w), state.theta, state.tol, state.size)
    return state._replace(x=there.x, z=there.z, y=there.y, near=there.near, here=there.here)


def _with_proof(task: RowTask, solver: RowNewton, state: RowState, point: PointToProve) -> RowState:
    known = task.measured()
    made = known.passes.copy()
    found = certify_measured(known, point, solver.tol)
    task.passes[:] += known.passes - made
    return state._replace(primal=found.primal, dual=max(found.dual, state.dual))


def _reached(solver: RowNewton, state: RowState) -> Stop | None:
    """Whether the gap is small beside the optimum, or the fit perfect; None while neither is."""
    found = proved(state)
    return Stop.CONVERGED if found.relative <= solver.tol else Stop.PERFECT if is_perfect(found, state.size) else None


def _moved_dual(task: RowTask, state: RowState) -> PointToProve:
    """Weights and slopes moved to first order along Newton's step, which balances the gradient.

    Columns of unlike scales need it: no w in floating point is as nearly stationary as these are.
    """
    point = look(task, state.x, state.z, state.theta, tuple(state.near))
    case, dx = point.case, -solve_with(task, point)(gradient(task, point))
    dz = scores_at(task.inner, dx)
    du = (point.slopes * dz.T).sum(axis=0)
    moved = case.weights + case.curvature * du
    for scale, vector in zip(case.scales, case.vectors, strict=True):
        moved -= scale * float(vector @ du) * vector
    moved = np.maximum(moved, 0.5 * case.weights)
    factor = np.divide(case.weights, moved, out=np.zeros(moved.size), where=moved > 0.0)
    slopes = Slopes(state.z, dz, factor, state.theta * task.size)
    return PointToProve(state.w, (moved.size * moved)[:, None], slopes)
