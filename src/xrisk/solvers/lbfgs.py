"""L-BFGS on smoothed problems: a full-batch method that needs no matrix, for any number of variables."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from xrisk.functions.parameters import whole_from
from xrisk.inner.oracle import Oracles
from xrisk.inner.passes import (
    Gradients,
    from_centred,
    has_gradients,
    inner_gradients,
    score_count,
    scores_at,
    walk_apart,
)
from xrisk.problem import Problem
from xrisk.solvers.base import Stop
from xrisk.solvers.card import FULL_PASSES, MethodCard
from xrisk.solvers.full_batch import full_batch, iterated
from xrisk.solvers.newton.barrier import barrier_diagonal, longest_step
from xrisk.solvers.newton.coupling import coupling_is_constrained
from xrisk.solvers.newton.points import (
    START,
    Point,
    SmoothedProblem,
    at_smoothing,
    check_smoothing,
    dual_of,
    ending_at,
    evaluate,
    first_point,
    gradient,
    has_kinks,
    line_search,
    objective_gradient,
    point_of,
    row_terms,
    shortfall,
    stationarity,
    visit_of,
)
from xrisk.solvers.newton.smoothed import smoothed_problem
from xrisk.solvers.shared.metric import Memory, inverse_times

CUT = 0.25  # by which the smoothing falls at most at once
BALANCE = 0.5  # the smoothing falls when the gradient costs less than this part of what the smoothing does
PART = 0.5  # of the tolerance that smoothing may cost in the end
LEAST_SMOOTHING = 1e-13
ACTIVE = 64  # inner functions at most of which the Hessian of the coupling is made
NEGLIGIBLE = 1e-3  # curvature of the coupling along an inner function, relative to the losses', that is left out
STUCK = 60  # iterations in a row without progress, after which rounding has ended it
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.UNBOUNDED)  # by the number a state keeps


class LBFGSState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    x: np.ndarray  # (d,) the same, what an intercept absorbs taken out of the columns
    z: np.ndarray  # (rows, scores)
    sums: np.ndarray  # (n·m, 4) of a `Point`; empty where the inner functions are too many
    shift: np.ndarray  # thresholds of the blocks
    y: np.ndarray  # (n, m) dual weights
    curve: np.ndarray  # their curvatures
    grad: np.ndarray  # (d,) of the smoothed objective
    inner: Gradients  # of the inner functions; empty where they are too many
    metric: np.ndarray  # (d,) first guess at the diagonal of its Hessian
    theta: float  # smoothing
    mu: float  # smoothing of the losses
    value: float  # objective
    short: float  # what the smoothing costs
    gap: float  # estimate of value − optimum
    best: float  # the smallest gap so far
    since: int  # iterations since it was found
    ended: int  # 0 while running
    memory: Memory  # of the last steps
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


UNKNOWN = Gradients(np.zeros((0, 0)), np.zeros(0), np.zeros(0))


class SmoothedLBFGS(NamedTuple):
    """L-BFGS on the smoothed problem; the smoothing is reduced whenever the point is stationary enough.

    The smoothed problem is that of `Newton`. An iteration takes two products with the data matrix, and the memory
    holds ``2·memory`` gradients. A run ends when the estimated gap, that of the dual point which the smoothed weights
    and slopes make, is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted gap relative to the objective.
    smoothing : float
        First smoothing, relative to the size of the problem; small for a warm start.
    memory : int
        Steps remembered.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 5, 300)
    >>> y = np.where(X[:, 0] + groups * X[:, 1] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="max", l2=0.01)
    >>> result = xrisk.minimize(problem, xrisk.solvers.SmoothedLBFGS(tol=1e-4), budget=xrisk.Budget(iterations=1000))
    >>> str(result.stop)
    'converged: the gap is within the tolerance'
    """

    tol: float = 1e-4
    smoothing: float = START
    memory: int = 20

    def card(self) -> MethodCard:
        return MethodCard(
            "smoothed L-BFGS",
            "Liu and Nocedal 1989 on smoothed problems",
            "ours",
            values="all, once or more",
            gradients="all, once",
            rate="linear at each smoothing; about 30 to 150 iterations to 1e-3 in practice",
            needs=(FULL_PASSES,),
        )

    def prepare(self, problem: Problem) -> tuple[SmoothedProblem, Any]:
        check_smoothing(self)
        whole_from(1)("memory", self.memory)
        task = smoothed_problem(problem)
        if np.isfinite(task.barrier.total):
            raise ValueError(
                f"SmoothedLBFGS takes no domain with a fixed sum, got {type(problem.penalty).__name__}: Newton does"
            )
        return task, self

    def first(self, task: SmoothedProblem, w: np.ndarray) -> LBFGSState:
        _, point = first_point(task, w, self.smoothing, has_gradients(task.inner))
        blank = Memory(np.zeros((self.memory, w.size)), np.zeros((self.memory, w.size)), 0)
        return _state_at(task, self, point, _gradients(task, point), blank)

    def advance(self, task: SmoothedProblem, state: LBFGSState, n_steps: int, rng: Any) -> LBFGSState:
        if n_steps > 1:  # a pass may be interrupted: the memory of the state before must stay as it is
            memory = state.memory
            state = state._replace(memory=memory._replace(steps=memory.steps.copy(), changes=memory.changes.copy()))
        return iterated(self, task, state, n_steps, lbfgs_step)


@full_batch({"smoothed-lbfgs": SmoothedLBFGS()}, LBFGSState, ENDINGS, "lbfgs", Oracles(1, 1))
def lbfgs_step(task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState) -> LBFGSState:
    """One step; the smoothing is reduced first where the point is stationary enough."""
    state = _less_smoothing(task, solver, state)
    dx = -direction(task, state)
    along = float(state.grad @ dx)
    if not along < 0.0:  # rounding has spoiled the memory
        state = state._replace(memory=state.memory._replace(kept=0))
        dx = -state.grad / state.metric
        along = float(state.grad @ dx)
    if not along < 0.0 or state.since > STUCK:
        return state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    start = point_of(task, state, state.curve)._replace(along=along)
    top = 0.995 * longest_step(task.barrier, state.x, dx)
    point = line_search(task, start, dx, scores_at(task.inner, dx), top, has_gradients(task.inner))
    if point is start:
        return state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    new = _state_at(task, solver, point, _gradients(task, point), state.memory, state.best, state.since)
    return new._replace(memory=_remembered(state.memory, new.x - state.x, _gradient_change(task, state, new)))


def direction(task: SmoothedProblem, state: LBFGSState) -> np.ndarray:
    """(B + AᵀA)⁻¹ times the gradient: B is the metric of the memory, AᵀA what the coupling adds to the Hessian."""
    step, A = remembered_inverse(state, state.grad), coupling_rows(task, state)
    if not A.shape[0]:
        return step
    middle = np.eye(A.shape[0]) + remembered_gram(state, A)
    try:
        share = cho_solve(cho_factor(middle, lower=True, check_finite=False), A @ step, check_finite=False)
    except LinAlgError:  # rounding has made it indefinite
        return step
    return remembered_inverse(state, state.grad - share @ A)


def coupling_rows(task: SmoothedProblem, state: LBFGSState) -> np.ndarray:
    """A (k, d) with AᵀA about the Hessian of the coupling: of the inner functions of largest curvature, k at most."""
    slopes, curve = state.inner.slopes, state.curve.reshape(-1) / task.n
    if not slopes.size:
        return slopes
    stiff = curve * np.einsum("ij,ij,j->i", slopes, slopes, 1.0 / state.metric)
    chosen = np.argsort(-stiff, kind="stable")[:ACTIVE]
    chosen = np.sort(chosen[stiff[chosen] > NEGLIGIBLE * max(1.0, float(stiff.max()))])
    A, share = slopes[chosen], curve[chosen]
    if chosen.size and coupling_is_constrained(task.coupling):  # the weights of a block have a fixed sum
        blocks = chosen // task.shape[1]
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        means = np.add.reduceat(share[:, None] * A, starts) / np.add.reduceat(share, starts)[:, None]
        A -= np.repeat(means, np.diff(starts, append=chosen.size), axis=0)
    return np.sqrt(share)[:, None] * A


def _gradient_change(task: SmoothedProblem, old: LBFGSState, new: LBFGSState) -> np.ndarray:
    """How the gradient has changed, without the change of the weights where the Hessian of the coupling is known."""
    if not new.inner.slopes.size:
        return new.grad - old.grad
    share = new.y.reshape(-1) / task.n
    return new.grad - objective_gradient(task, old.x, new.theta, share @ old.inner.slopes)


def _state_at(
    task: SmoothedProblem, solver: SmoothedLBFGS, point: Point, inner: Gradients, memory: Memory,
    best: float = np.inf, since: int = 0,
) -> LBFGSState:  # fmt: skip
    """The state at a point that has just been evaluated; ``best`` and ``since`` are those of the state before."""
    share, scores, known = point.y.reshape(-1) / task.n, score_count(task.inner), has_gradients(task.inner)
    if known:
        grad = objective_gradient(task, point.x, point.theta, share @ inner.slopes)
        slopes, curvature = float(share @ inner.adjoints), float(share @ inner.curvatures)
    else:
        coefs = row_terms(task, point)
        grad = gradient(task, point, coefs)
        slopes, curvature = float(np.abs(coefs[:scores]).sum()), float(coefs[1:2].sum())
    curvature = curvature if scores == 1 else 0.25
    value, short = shortfall(task, point)
    gap = short + stationarity(task, point, grad, slopes)
    metric = barrier_diagonal(task.barrier, point.x, point.theta * task.barrier_size) + point.theta * task.ridge
    metric += curvature * task.columns**2
    return LBFGSState(
        from_centred(task.centre, point.x), point.x, point.z, point.sums if known else np.zeros((0, 0)), point.shift,
        dual_of(task, point).y, point.curve, grad, inner, np.maximum(metric, 1e-300), point.theta,
        point.theta * task.loss_size, value, short, gap, min(gap, best), 0 if gap < 0.999 * best else since + 1,
        ENDINGS.index(ending_at(task, solver.tol, value, gap)), memory,
    )  # fmt: skip


def _gradients(task: SmoothedProblem, point: Point) -> Gradients:
    """Those of the inner functions, unless they are too many."""
    if not has_gradients(task.inner):
        return UNKNOWN
    left = point.left if point.left.size else walk_apart(task.inner, *visit_of(task, point)).coefs
    task.passes[1] += 1
    found = inner_gradients(task.inner, left)
    # in one piece, as a checkpoint gives them back: products sum in another order
    return Gradients(*map(np.ascontiguousarray, found))


def _less_smoothing(task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState) -> LBFGSState:
    goal = PART * solver.tol * max(abs(state.value), 1e-12 * task.size)
    enough = state.short <= goal or state.theta < LEAST_SMOOTHING
    if enough or state.gap - state.short > BALANCE * state.short:
        return state
    theta, point = state.theta * max(CUT, min(goal / state.short, 1.0)), point_of(task, state, state.curve)
    if state.inner.slopes.size and not has_kinks(task.inner):
        inner, point = state.inner, at_smoothing(task, point, theta)
    else:
        point = evaluate(task, state.x, state.z, theta, point)
        inner = _gradients(task, point)
    return _state_at(task, solver, point, inner, state.memory)


def _remembered(memory: Memory, step: np.ndarray, change: np.ndarray) -> Memory:
    """The memory with one more step, written in place, along which the slope must have grown."""
    if not float(step @ change) > 1e-14 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return memory
    place = memory.kept % memory.steps.shape[0]
    memory.steps[place], memory.changes[place] = step, change
    return memory._replace(kept=memory.kept + 1)


def remembered_inverse(state: LBFGSState, v: np.ndarray) -> np.ndarray:
    """The product of v (d,) with B⁻¹, the inverse of the Hessian as the memory has it."""
    return inverse_times(state.memory, state.metric, v[None, :])[0]


def remembered_gram(state: LBFGSState, A: np.ndarray) -> np.ndarray:
    """A B⁻¹ Aᵀ: of the two loops of L-BFGS one is enough."""
    memory, size = state.memory, state.memory.steps.shape[0]
    recent = [k % size for k in range(memory.kept - 1, max(memory.kept - size, 0) - 1, -1)]
    steps, changes = memory.steps[recent], memory.changes[recent]
    along, cross = A @ steps.T, changes @ steps.T
    shares = np.zeros(along.shape)
    for k in range(len(recent)):
        shares[:, k] = (along[:, k] - shares[:, :k] @ cross[:k, k]) / cross[k, k]
    rest, scale = A - shares @ changes, cross[0, 0] / float(changes[0] @ (changes[0] / state.metric)) if recent else 1.0
    return (rest * (scale / state.metric)) @ rest.T + (shares * np.diag(cross)) @ shares.T
