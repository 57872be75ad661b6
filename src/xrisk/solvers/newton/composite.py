"""Newton's method for composite functions: inner functions are expanded, their coupling is kept as it is."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.data.threads import one_thread_each
from xrisk.inner.oracle import Oracles, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import (
    Gradients,
    Slopes,
    add_hessian,
    as_linear_groups,
    from_centred,
    has_gradients,
    inner_gradients,
    scores_at,
    shared_out,
    walk_apart,
)
from xrisk.problem import Problem
from xrisk.solvers.base import (
    Stop,
    known_slopes,
    like_state,
    register_full_batch,
)
from xrisk.solvers.card import FULL_PASSES, MethodCard, Need
from xrisk.solvers.method import register
from xrisk.solvers.newton.algebra import factored
from xrisk.solvers.newton.barrier import add_barrier_hessian, barrier_count, barrier_of
from xrisk.solvers.newton.coupling import coupled_value, coupling_has_kinks, coupling_slopes
from xrisk.solvers.newton.hessian import add_coupling, that_matter
from xrisk.solvers.newton.smoothed import (
    START,
    Point,
    SmoothedProblem,
    check_smoothing,
    dual_of,
    evaluate_along,
    first_point,
    held_gradient,
    is_curved,
    next_step,
    ridge_cost,
    shortfall,
    smoothed_problem,
    stationarity,
    visit_of,
)
from xrisk.solvers.newton.solver import MAX_VARIABLES

CUT = 0.3  # by which the smoothing of a model falls from one of its problems to the next
PART = 0.3  # of the tolerance that the smoothing of a model may cost
NEAR = 0.1  # of the smoothing: decrement at which a problem of the model is solved
FINAL = 1e3  # times nearer the last one is solved: what an intercept is out of balance is not small by its decrement
STEPS = 100  # Newton steps of a model at most
ENOUGH = 0.05  # of what the model promises that a step must bring
SHORTER = 0.3  # by which a step that does not is shortened
TRIALS = 25
STUCK = 4  # iterations in a row that bring nothing, after which rounding has ended progress
LEAST_SMOOTHING = 1e-13
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.UNBOUNDED)  # by the number a state keeps


class CompositeState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    x: np.ndarray  # (d,) the same, what an intercept absorbs taken out of the columns
    z: np.ndarray  # (rows, scores)
    sums: np.ndarray  # (n·m, 4) of a `Point`
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # (n, m) dual weights
    inner: Gradients  # of the inner functions
    hessian: np.ndarray  # (d, d) Σ yᵢ∇²gᵢ/n; empty where the run has ended
    theta: float  # smoothing of the last model
    value: float  # objective
    gap: float  # estimate of value − optimum
    best: float  # the smallest gap so far
    since: int  # iterations since it was found
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations


_NOTHING, _NONE = np.zeros((0, 0)), np.zeros(0)
NO_COMPOSITE = CompositeState(
    _NONE, _NONE, _NOTHING, _NOTHING, _NONE, _NOTHING, Gradients(_NOTHING, _NONE, _NONE), _NOTHING,
    0.0, 0.0, np.inf, np.inf, 0, 0, 0, 0, 0,
)  # fmt: skip


def takes_composite(problem: Problem) -> bool:
    """Whether losses are smooth, the penalty is a ridge, and the gradients of all inner functions can be kept."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    if not (has_gradients(g) and add_hessian.implemented(g) and barrier_of.implemented(problem.penalty)):
        return False
    barrier = barrier_of(problem.penalty, d)
    return d <= MAX_VARIABLES and not is_curved(g) and barrier_count(barrier) == 0 and not np.isfinite(barrier.total)


RIDGED_GROUPS = Need(
    "smooth losses of inner functions that are few beside their samples, and a ridge or no penalty",
    takes_composite,
    "inner",
)


class CompositeNewton(NamedTuple):
    """Newton's method for composite functions: every inner function to second order, their coupling as it is.

    With u = g(x), J its Jacobian and H = Σ yᵢ∇²gᵢ(x)/n the Hessian under the weights y of the last iteration, the step
    is the minimiser of a model::

        φ(u + J dx) + ½ dxᵀ H dx + r(x + dx)

    whose weights are the next y. The model has as many values as there are inner functions: it is solved by Newton's
    method along a path of smoothings, without a look at the data. So kinks of a risk cost no passes over the data, and
    three to five iterations reach 1e-3. The idea is that of sequential quadratic programs for minimax problems [1]_. A
    run ends by itself when the estimated gap is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted gap relative to the objective.
    smoothing : float
        Smoothing of the first weights, relative to the size of the problem.
    hessian_rows : float
        Rows for each variable that H is made of, if there are more, as in `Newton`.

    References
    ----------
    .. [1] Womersley and Fletcher, An algorithm for composite nonsmooth optimization problems, 1986.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 5, 300)
    >>> y = np.where(X[:, 0] + groups * X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max", l2=0.01)
    >>> result = xrisk.minimize(problem, xrisk.solvers.CompositeNewton(tol=1e-4), budget=xrisk.Budget(iterations=100))
    >>> str(result.stop)
    'converged: the gap is within the tolerance'
    """

    tol: float = 1e-4
    smoothing: float = START
    hessian_rows: float = np.inf

    def card(self) -> MethodCard:
        return MethodCard(
            "composite Newton",
            "Womersley and Fletcher 1986, the model solved along a path",
            "ours",
            values="all, once or more",
            gradients="all, once",
            rate="quadratic near the optimum; 3 to 6 iterations to 1e-3 in practice",
            needs=(FULL_PASSES, RIDGED_GROUPS),
        )

    def prepare(self, problem: Problem) -> tuple[SmoothedProblem, Any]:
        check_smoothing(self)
        if not takes_composite(problem):
            raise ValueError(f"CompositeNewton needs {RIDGED_GROUPS.words}: SmoothedLBFGS and Newton take more")
        return smoothed_problem(problem), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: SmoothedProblem, x: np.ndarray, rng: np.random.Generator) -> CompositeState:
        before = problem.passes.copy()
        _, point = first_point(problem, x, self.smoothing, apart=True)
        state = _at(problem, self, NO_COMPOSITE, point)
        values, gradients = (problem.passes - before + problem.prepared).tolist()
        return state._replace(values=values, gradients=gradients)

    def advance(self, problem: SmoothedProblem, state: CompositeState, n_steps: int, rng: Any) -> CompositeState:
        with one_thread_each():
            for _ in range(n_steps):
                if state.ended:
                    return state
                state = composite_step(problem, self, state)
        return state

    def solution(self, state: CompositeState) -> np.ndarray:
        return state.w

    def dual(self, problem: SmoothedProblem, state: CompositeState) -> np.ndarray:
        return state.y

    def oracles(self, problem: SmoothedProblem, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(t * samples, t * samples)  # at the least: a step that is shortened takes more values


@like_state.of(CompositeNewton)
def _(solver, problem, blank, found):
    return blank if found.hessian.size else blank._replace(hessian=_NOTHING)


register({"composite-newton": CompositeNewton()})
register_full_batch(CompositeNewton, ENDINGS, "newton")


@known_slopes.of(CompositeNewton)
def _(solver, state):
    return Slopes(state.z, state.z, np.zeros(state.y.size), 0.0)


def composite_step(task: SmoothedProblem, solver: CompositeNewton, state: CompositeState) -> CompositeState:
    """The minimiser of the model, nearer by where that brings too little."""
    before = task.passes.copy()
    theta = max(PART * solver.tol * abs(state.value) / task.size, LEAST_SMOOTHING)
    model = _model(task, solver, state, theta)
    dx, y = minimiser(model, theta)
    point = _tried(task, state, dx, theta, promise(model, dx))
    if point is None:
        state = state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    else:
        state = _at(task, solver, state, point._replace(y=y))
    values, gradients = (task.passes - before).tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients, t=state.t + 1)


def _tried(task: SmoothedProblem, state: CompositeState, dx: np.ndarray, theta: float, promised: float) -> Point | None:
    """The first point on the way back from x + dx that keeps enough of the promise; None where there is none."""
    dz, near, t = scores_at(task.inner, dx), _point(task, state), 1.0
    for _ in range(TRIALS):
        point = evaluate_along(task, state.x + t * dx, state.z + t * dz, theta, dx, dz, near, True)
        brought = state.value - shortfall(task, point)[0]
        if brought >= ENOUGH * t * promised or promised <= 1e-13 * abs(state.value):
            return point
        t *= SHORTER
    return None


def _point(task: SmoothedProblem, state: CompositeState) -> Point:
    y = state.y.reshape(task.shape)
    return Point(state.x, state.z, state.sums, state.shift, y, np.zeros(task.shape), state.theta, 0.0)


def _at(task: SmoothedProblem, solver: CompositeNewton, state: CompositeState, point: Point) -> CompositeState:
    """The state at a point that has just been evaluated, under the weights that stand there."""
    inner, share = inner_gradients(task.inner, point.left), point.y.reshape(-1) / task.n
    task.passes[1] += 1
    value, short = shortfall(task, point)
    grad = held_gradient(task, point.x, point.theta, share @ inner.slopes)
    gap, ended = short + stationarity(task, point, grad, float(share @ inner.adjoints)), 0
    since = 0 if gap < 0.9 * state.best else state.since + 1
    if gap <= solver.tol * abs(value):
        ended = ENDINGS.index(Stop.CONVERGED)
    elif not value > -1e7 * task.size:
        ended = ENDINGS.index(Stop.UNBOUNDED)
    elif since > STUCK:
        ended = ENDINGS.index(Stop.ROUNDING)
    H = _NOTHING if ended else hessian(task, solver, point)
    return state._replace(
        w=from_centred(task.centre, point.x), x=point.x, z=point.z, sums=point.sums, shift=point.shift,
        y=dual_of(task, point).y, inner=inner, hessian=H, theta=point.theta, value=value, gap=gap,
        best=min(gap, state.best), since=since, ended=ended,
    )  # fmt: skip


def hessian(task: SmoothedProblem, solver: CompositeNewton, point: Point) -> np.ndarray:
    """Σ yᵢ∇²gᵢ/n (d, d) of the rows that matter."""
    d, share, visit = point.x.size, point.y.reshape(-1) / task.n, visit_of(task, point)
    left = point.left if point.left.size else walk_apart(task.inner, *visit).coefs
    H = np.zeros((d, d))
    curvatures = shared_out(task.inner, left[-1:], share)[0]
    add_hessian(task.inner, *visit, share, that_matter(task, curvatures, solver.hessian_rows * d), H)
    return H


class Model(NamedTuple):
    """φ(u + J dx) + ½ dxᵀ H dx + ⟨adjoint, dx⟩."""

    task: SmoothedProblem
    u: np.ndarray  # of the shape of the problem
    J: np.ndarray  # (n·m, d)
    H: np.ndarray  # (d, d) with that of the penalty
    adjoint: np.ndarray  # (d,) gradient of the penalty
    shift: np.ndarray  # thresholds of the blocks, moved along


def _model(task: SmoothedProblem, solver: CompositeNewton, state: CompositeState, theta: float) -> Model:
    H = state.hessian.copy() if state.hessian.size else hessian(task, solver, _point(task, state))
    add_barrier_hessian(task.barrier, state.x, theta * task.barrier_size, H)
    H[np.diag_indices(state.x.size)] += theta * task.ridge
    adjoint = held_gradient(task, state.x, theta, np.zeros(state.x.size))
    return Model(task, state.sums[:, 0].reshape(task.shape), state.inner.slopes, H, adjoint, state.shift.copy())


def promise(model: Model, dx: np.ndarray) -> float:
    """By how much the model, its coupling not smoothed, is lower at dx than where it was made."""
    outer, m = model.task.problem.outer, inner_dim(model.task.inner)
    fall = coupled_value(outer, model.u.reshape(-1, m)) - coupled_value(outer, _values(model, dx).reshape(-1, m))
    return float(fall - model.adjoint @ dx - 0.5 * dx @ model.H @ dx)


def _values(model: Model, dx: np.ndarray) -> np.ndarray:
    return model.u + (model.J @ dx).reshape(model.u.shape)


class Weighed(NamedTuple):
    """A point of the model."""

    dx: np.ndarray
    y: np.ndarray  # weights
    curve: np.ndarray  # their curvatures
    grad: np.ndarray  # (d,)


def _weighed(model: Model, dx: np.ndarray, theta: float) -> Weighed:
    task, (y, curve) = model.task, np.empty((2, *model.u.shape))
    mu = theta * task.size / (model.u.size / task.n)
    coupling_slopes(task.coupling, _values(model, dx), mu, model.shift, y, curve)
    return Weighed(dx, y, curve, model.adjoint + model.H @ dx + (y.reshape(-1) @ model.J) / task.n)


def minimiser(model: Model, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """The minimiser of the model at smoothing ``theta``, along a path of larger ones, and its weights."""
    task = model.task
    now = max(theta, START) if coupling_has_kinks(task.coupling) else theta
    at = _weighed(model, np.zeros(model.adjoint.size), now)
    for _ in range(STEPS):
        H = model.H.copy()
        add_coupling(task, at.curve, model.J.copy(), H)
        move = -factored(H, task.fixed, np.zeros(at.dx.size))(at.grad)
        decrement = -float(at.grad @ move)
        missing = max(FINAL * decrement, ridge_cost(task, at.grad)) if now == theta else decrement
        if missing > NEAR * now * task.size and decrement > 1e-15 * task.size:
            at = _search(model, at, move, now)
        elif now > theta:
            now = max(theta, CUT * now)
            at = _weighed(model, at.dx, now)
        else:
            break
    return at.dx, at.y


def _search(model: Model, at: Weighed, move: np.ndarray, theta: float) -> Weighed:
    """A step along the move that takes half of the slope away."""
    first = float(at.grad @ move)
    low, high, t, best = (0.0, first), None, 1.0, at
    for _ in range(TRIALS):
        best = _weighed(model, at.dx + t * move, theta)
        along = float(best.grad @ move)
        if abs(along) <= 0.5 * abs(first):
            break
        low, high = ((t, along), high) if along < 0.0 else (low, (t, along))
        t = next_step(low, high, np.inf)
    return best
