"""Newton's method for composite functions: inner functions are expanded to second order, their coupling is not."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.inner.oracle import Oracles, inner_dim, inner_size
from xrisk.inner.passes import (
    Gradients,
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
from xrisk.solvers.base import Stop
from xrisk.solvers.card import FULL_PASSES, MethodCard, Need
from xrisk.solvers.full_batch import full_batch
from xrisk.solvers.newton.algebra import factored
from xrisk.solvers.newton.barrier import add_barrier_hessian, barrier_count, barrier_of, ridge_cost
from xrisk.solvers.newton.coupling import coupled_value, coupling_has_kinks, coupling_slopes
from xrisk.solvers.newton.hessian import add_coupling, rows_that_matter
from xrisk.solvers.newton.points import (
    START,
    Point,
    SmoothedProblem,
    check_smoothing,
    dual_of,
    ending_at,
    evaluate_along,
    first_point,
    has_kinks,
    next_step,
    objective_gradient,
    point_of,
    shortfall,
    stationarity,
    visit_of,
)
from xrisk.solvers.newton.smoothed import smoothed_problem
from xrisk.solvers.newton.solver import MAX_VARIABLES

CUT = 0.3  # by which the smoothing of a model falls from one of its problems to the next
PART = 0.3  # of the tolerance that the smoothing of a model may cost
NEAR = 0.1  # of the smoothing: decrement at which a problem of the model is solved
FINAL = 1e3  # times nearer the last one is solved: a small decrement does not mean that an intercept balances
STEPS = 100  # Newton steps of a model at most
ENOUGH = 0.05  # of the predicted decrease that a step must reach
SHORTER = 0.3  # by which a step that does not is shortened
TRIALS = 25
STUCK = 4  # iterations in a row without progress, after which rounding has ended it
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
    hessian: np.ndarray  # (d, d) Σ yᵢ∇²gᵢ/n
    stale: int  # 1 where that is not of this point: a run that has ended needs none
    theta: float  # smoothing of the last model
    value: float  # objective
    gap: float  # estimate of value − optimum
    best: float  # the smallest gap so far
    since: int  # iterations since it was found
    ended: int  # 0 while running
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


def takes_composite(problem: Problem) -> bool:
    """Whether losses are smooth, the penalty is a ridge, and the gradients of all inner functions can be kept."""
    g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
    if not (has_gradients(g) and add_hessian.implemented(g) and barrier_of.implemented(problem.penalty)):
        return False
    barrier = barrier_of(problem.penalty, d)
    return d <= MAX_VARIABLES and not has_kinks(g) and barrier_count(barrier) == 0 and not np.isfinite(barrier.total)


RIDGED_GROUPS = Need(
    "smooth losses of inner functions that are few beside their samples, and a ridge or no penalty",
    takes_composite,
    "inner",
)


class CompositeNewton(NamedTuple):
    """Newton's method for composite functions: inner functions expanded to second order, their coupling exact.

    With u = g(x), J its Jacobian and H = Σ yᵢ∇²gᵢ(x)/n the Hessian under the weights y of the last iteration, the step
    is the minimiser of a model::

        φ(u + J dx) + ½ dxᵀ H dx + r(x + dx)

    whose weights are the next y. The model has as many values as there are inner functions: it is solved by Newton's
    method along a path of smoothings, without reading the data. So kinks of a risk cost no passes over the data, and
    three to five iterations reach 1e-3. The idea is that of sequential quadratic programs for minimax problems [1]_. A
    run ends when the estimated gap is at most ``tol`` relative to the objective.

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

    def first(self, task: SmoothedProblem, w: np.ndarray) -> CompositeState:
        _, point = first_point(task, w, self.smoothing, apart=True)
        return _state_at(task, self, point, None)


@full_batch({"composite-newton": CompositeNewton()}, CompositeState, ENDINGS, "newton", Oracles(1, 1))
def composite_step(task: SmoothedProblem, solver: CompositeNewton, state: CompositeState) -> CompositeState:
    """A step to the minimiser of the model, shortened where the objective decreases too little."""
    theta = max(PART * solver.tol * abs(state.value) / task.size, LEAST_SMOOTHING)
    model = _model(task, solver, state, theta)
    dx, y = minimiser(model, theta)
    point = _search(task, state, dx, theta, predicted_decrease(model, dx))
    if point is None:
        return state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    return _state_at(task, solver, point._replace(y=y), state)


def _search(task: SmoothedProblem, state: CompositeState, dx: np.ndarray, theta: float, wanted: float) -> Point | None:
    """The first point on the way back from x + dx where the objective decreases enough; None where there is none."""
    dz, near, t = scores_at(task.inner, dx), point_of(task, state, np.zeros(task.shape)), 1.0
    for _ in range(TRIALS):
        point = evaluate_along(task, state.x + t * dx, state.z + t * dz, theta, dx, dz, near, True)
        decrease = state.value - shortfall(task, point)[0]
        if decrease >= ENOUGH * t * wanted or wanted <= 1e-13 * abs(state.value):
            return point
        t *= SHORTER
    return None


def _state_at(
    task: SmoothedProblem, solver: CompositeNewton, point: Point, before: CompositeState | None
) -> CompositeState:
    """The state at a point that has just been evaluated, under the weights given there."""
    inner, share = inner_gradients(task.inner, point.left), point.y.reshape(-1) / task.n
    task.passes[1] += 1
    value, short = shortfall(task, point)
    grad = objective_gradient(task, point.x, point.theta, share @ inner.slopes)
    gap = short + stationarity(task, point, grad, float(share @ inner.adjoints))
    best, since, H = (before.best, before.since, before.hessian) if before else (np.inf, 0, np.zeros((grad.size,) * 2))
    since = 0 if gap < 0.9 * best else since + 1
    ended = ending_at(task, solver.tol, value, gap) or (Stop.ROUNDING if since > STUCK else None)
    H = H if ended else hessian(task, solver, point)
    return CompositeState(
        from_centred(task.centre, point.x), point.x, point.z, point.sums, point.shift, dual_of(task, point).y,
        inner, H, int(ended is not None), point.theta, value, gap, min(gap, best), since, ENDINGS.index(ended),
    )  # fmt: skip


def hessian(task: SmoothedProblem, solver: CompositeNewton, point: Point) -> np.ndarray:
    """Σ yᵢ∇²gᵢ/n (d, d) of the rows that matter."""
    d, share, visit = point.x.size, point.y.reshape(-1) / task.n, visit_of(task, point)
    left = point.left if point.left.size else walk_apart(task.inner, *visit).coefs
    H = np.zeros((d, d))
    curvatures = shared_out(task.inner, left[-1:], share)[0]
    add_hessian(task.inner, *visit, share, rows_that_matter(task, curvatures, solver.hessian_rows * d), H)
    return H


class Model(NamedTuple):
    """φ(u + J dx) + ½ dxᵀ H dx + ⟨slope, dx⟩."""

    task: SmoothedProblem
    u: np.ndarray  # of the shape of the problem
    J: np.ndarray  # (n·m, d)
    H: np.ndarray  # (d, d) with that of the penalty
    slope: np.ndarray  # (d,) gradient of the penalty
    shift: np.ndarray  # thresholds of the blocks, updated in place


def _model(task: SmoothedProblem, solver: CompositeNewton, state: CompositeState, theta: float) -> Model:
    H = hessian(task, solver, point_of(task, state, np.zeros(task.shape))) if state.stale else state.hessian.copy()
    add_barrier_hessian(task.barrier, state.x, theta * task.barrier_size, H)
    H[np.diag_indices(state.x.size)] += theta * task.ridge
    slope = objective_gradient(task, state.x, theta, np.zeros(state.x.size))
    return Model(task, state.sums[:, 0].reshape(task.shape), state.inner.slopes, H, slope, state.shift.copy())


def predicted_decrease(model: Model, dx: np.ndarray) -> float:
    """By how much the model, its coupling not smoothed, is lower at dx than at zero."""
    outer, m = model.task.problem.outer, inner_dim(model.task.inner)
    decrease = coupled_value(outer, model.u.reshape(-1, m)) - coupled_value(outer, _values(model, dx).reshape(-1, m))
    return float(decrease - model.slope @ dx - 0.5 * dx @ model.H @ dx)


def _values(model: Model, dx: np.ndarray) -> np.ndarray:
    return model.u + (model.J @ dx).reshape(model.u.shape)


class ModelPoint(NamedTuple):
    """A point of the model."""

    dx: np.ndarray
    y: np.ndarray  # weights
    curve: np.ndarray  # their curvatures
    grad: np.ndarray  # (d,)


def _model_point(model: Model, dx: np.ndarray, theta: float) -> ModelPoint:
    task, (y, curve) = model.task, np.empty((2, *model.u.shape))
    mu = theta * task.size / (model.u.size / task.n)
    coupling_slopes(task.coupling, _values(model, dx), mu, model.shift, y, curve)
    return ModelPoint(dx, y, curve, model.slope + model.H @ dx + (y.reshape(-1) @ model.J) / task.n)


def minimiser(model: Model, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """The minimiser of the model at smoothing ``theta``, along a path of larger ones, and its weights."""
    task = model.task
    now = max(theta, START) if coupling_has_kinks(task.coupling) else theta
    at = _model_point(model, np.zeros(model.slope.size), now)
    for _ in range(STEPS):
        H = model.H.copy()
        add_coupling(task, at.curve, model.J.copy(), H)
        step = -factored(H, task.fixed, np.zeros(at.dx.size))(at.grad)
        decrement = -float(at.grad @ step)
        missing = max(FINAL * decrement, ridge_cost(task.barrier, at.grad)) if now == theta else decrement
        if missing > NEAR * now * task.size and decrement > 1e-15 * task.size:
            at = _search_model(model, at, step, now)
        elif now > theta:
            now = max(theta, CUT * now)
            at = _model_point(model, at.dx, now)
        else:
            break
    return at.dx, at.y


def _search_model(model: Model, at: ModelPoint, step: np.ndarray, theta: float) -> ModelPoint:
    """A part or a multiple of the step at which the slope along it is reduced to a half."""
    first = float(at.grad @ step)
    low, high, t, best = (0.0, first), None, 1.0, at
    for _ in range(TRIALS):
        best = _model_point(model, at.dx + t * step, theta)
        along = float(best.grad @ step)
        if abs(along) <= 0.5 * abs(first):
            break
        low, high = ((t, along), high) if along < 0.0 else (low, (t, along))
        t = next_step(low, high, np.inf)
    return best
