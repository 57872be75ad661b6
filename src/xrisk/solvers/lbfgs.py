"""L-BFGS on smoothed problems: a full-batch method that needs no matrix, for any number of variables."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from xrisk.data.threads import one_thread_each
from xrisk.inner.oracle import Oracles, inner_samples
from xrisk.inner.passes import (
    Gradients,
    Slopes,
    from_centred,
    has_gradients,
    inner_gradients,
    score_count,
    scores_at,
    walk_apart,
)
from xrisk.problem import Problem
from xrisk.solvers.base import (
    Stop,
    known_slopes,
    register_full_batch,
    whole,
)
from xrisk.solvers.card import FULL_PASSES, MethodCard
from xrisk.solvers.method import register
from xrisk.solvers.newton.barrier import barrier_diagonal, longest_step
from xrisk.solvers.newton.coupling import coupling_is_constrained
from xrisk.solvers.newton.smoothed import (
    START,
    Point,
    SmoothedProblem,
    at_smoothing,
    check_smoothing,
    dual_of,
    evaluate,
    first_point,
    gradient,
    held_gradient,
    is_curved,
    line_search,
    row_terms,
    shortfall,
    smoothed_problem,
    stationarity,
    visit_of,
)

CUT = 0.25  # by which the smoothing falls at most at once
BALANCE = 0.5  # the smoothing falls when what is missing to stationarity is below this part of what it costs
PART = 0.5  # of the tolerance that smoothing may cost in the end
LEAST_SMOOTHING = 1e-13
ACTIVE = 64  # inner functions at most of which the Hessian of the coupling is made
NEGLIGIBLE = 1e-3  # curvature of the coupling along an inner function, beside that of the losses, that is left out
STUCK = 60  # iterations in a row that bring nothing, after which rounding has ended progress


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
    moves: np.ndarray  # (memory, d) the last steps
    turns: np.ndarray  # (memory, d) how the gradient changed along them
    theta: float  # smoothing
    mu: float  # smoothing of the losses
    value: float  # objective
    short: float  # what the smoothing costs
    gap: float  # estimate of value − optimum
    best: float  # the smallest gap so far
    since: int  # iterations since it was found
    kept: int  # steps remembered
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations


_NOTHING, _NONE = np.zeros((0, 0)), np.zeros(0)
UNKNOWN = Gradients(_NOTHING, _NONE, _NONE)
NO_LBFGS = LBFGSState(
    _NONE, _NONE, _NOTHING, _NOTHING, _NONE, _NOTHING, _NOTHING, _NONE, UNKNOWN, _NONE, _NOTHING, _NOTHING,
    0.0, 0.0, 0.0, 0.0, np.inf, np.inf, 0, 0, 0, 0, 0, 0,
)  # fmt: skip
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.UNBOUNDED)  # by the number a state keeps


class SmoothedLBFGS(NamedTuple):
    """L-BFGS on the problem smoothed, the smoothing cut whenever the point is stationary enough for it.

    The smoothed problem is that of `Newton`; an iteration takes two products with the data matrix and as many numbers
    as ``2·memory`` gradients beside it. A run ends by itself when the estimated gap, that of the dual point which the
    smoothed weights and slopes make, is at most ``tol`` relative to the objective.

    Parameters
    ----------
    tol : float
        Accepted gap relative to the objective.
    smoothing : float
        First smoothing, relative to the size of the problem; a warm start wants little.
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
        if whole("memory", self.memory) < 1:
            raise ValueError(f"memory must be at least 1, got {self.memory}")
        task = smoothed_problem(problem)
        if np.isfinite(task.barrier.total):
            raise ValueError(
                f"SmoothedLBFGS takes no domain with a fixed sum, got {type(problem.penalty).__name__}: Newton does"
            )
        return task, self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: SmoothedProblem, x: np.ndarray, rng: np.random.Generator) -> LBFGSState:
        before, empty = problem.passes.copy(), np.zeros((self.memory, x.size))
        _, point = first_point(problem, x, self.smoothing, has_gradients(problem.inner))
        blank = NO_LBFGS._replace(moves=empty, turns=empty.copy())
        state = _at(problem, self, blank, point)
        values, gradients = (problem.passes - before + problem.prepared).tolist()
        return state._replace(values=values, gradients=gradients)

    def advance(self, problem: SmoothedProblem, state: LBFGSState, n_steps: int, rng: Any) -> LBFGSState:
        if n_steps > 1:  # a pass may be interrupted: what is remembered of steps before stays with the state before
            state = state._replace(moves=state.moves.copy(), turns=state.turns.copy())
        with one_thread_each():
            for _ in range(n_steps):
                if state.ended:
                    return state
                state = lbfgs_step(problem, self, state)
        return state

    def solution(self, state: LBFGSState) -> np.ndarray:
        return state.w

    def dual(self, problem: SmoothedProblem, state: LBFGSState) -> np.ndarray:
        return state.y

    def oracles(self, problem: SmoothedProblem, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(t * samples, t * samples)  # at the least: a line search may take more values


register({"smoothed-lbfgs": SmoothedLBFGS()})
register_full_batch(SmoothedLBFGS, ENDINGS, "lbfgs")


@known_slopes.of(SmoothedLBFGS)
def _(solver, state):
    return Slopes(state.z, state.z, np.zeros(state.y.size), state.mu)


def lbfgs_step(task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState) -> LBFGSState:
    """One step; the smoothing is cut first where the point is stationary enough."""
    before = task.passes.copy()
    state = _step(task, solver, state)
    values, gradients = (task.passes - before).tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients, t=state.t + 1)


def _step(task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState) -> LBFGSState:
    state = _less_smoothing(task, solver, state)
    dx = -direction(task, state)
    along = float(state.grad @ dx)
    if not along < 0.0:  # rounding has spoiled what is remembered
        state = state._replace(kept=0)
        dx = -state.grad / state.metric
        along = float(state.grad @ dx)
    if not along < 0.0 or state.since > STUCK:
        return state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    dz = scores_at(task.inner, dx)
    here = _point(task, state)._replace(along=along)
    top = 0.995 * longest_step(task.barrier, state.x, dx)
    point = line_search(task, here, dx, dz, top, has_gradients(task.inner))
    if point is here:
        return state._replace(ended=ENDINGS.index(Stop.ROUNDING))
    new = _at(task, solver, state, point)
    return remembered(new, new.x - state.x, _turn(task, state, new))


def _point(task: SmoothedProblem, state: LBFGSState) -> Point:
    """The point of a state."""
    y, curve = state.y.reshape(task.shape), state.curve
    return Point(state.x, state.z, state.sums, state.shift, y, curve, state.theta, 0.0)


def direction(task: SmoothedProblem, state: LBFGSState) -> np.ndarray:
    """(B + AᵀA)⁻¹ times the gradient, B being what is remembered and AᵀA what the coupling adds to the Hessian."""
    step, A = two_loops(state, state.grad), coupling_rows(task, state)
    if not A.shape[0]:
        return step
    middle = np.eye(A.shape[0]) + remembered_gram(state, A)
    try:
        share = cho_solve(cho_factor(middle, lower=True, check_finite=False), A @ step, check_finite=False)
    except LinAlgError:  # rounding has made it indefinite
        return step
    return two_loops(state, state.grad - share @ A)


def coupling_rows(task: SmoothedProblem, state: LBFGSState) -> np.ndarray:
    """A (k, d) with AᵀA about the Hessian of the coupling: of the inner functions that it bends most, k at most."""
    slopes, curve = state.inner.slopes, state.curve.reshape(-1) / task.n
    if not slopes.size:
        return slopes
    stiff = curve * np.einsum("ij,ij,j->i", slopes, slopes, 1.0 / state.metric)
    chosen = np.argsort(-stiff, kind="stable")[:ACTIVE]
    chosen = np.sort(chosen[stiff[chosen] > NEGLIGIBLE * max(1.0, float(stiff.max()))])
    A, share = slopes[chosen], curve[chosen]
    if chosen.size and coupling_is_constrained(task.coupling):  # what one gains in weight the others lose
        blocks = chosen // task.shape[1]
        starts = np.flatnonzero(np.diff(blocks, prepend=-1))
        means = np.add.reduceat(share[:, None] * A, starts) / np.add.reduceat(share, starts)[:, None]
        A -= np.repeat(means, np.diff(starts, append=chosen.size), axis=0)
    return np.sqrt(share)[:, None] * A


def _turn(task: SmoothedProblem, old: LBFGSState, new: LBFGSState) -> np.ndarray:
    """How the gradient has changed, but for the change of the weights where the Hessian of the coupling is known."""
    if not new.inner.slopes.size:
        return new.grad - old.grad
    share = new.y.reshape(-1) / task.n
    return new.grad - held_gradient(task, old.x, new.theta, share @ old.inner.slopes)


def _at(
    task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState, point: Point, known: bool = False
) -> LBFGSState:
    """The state at a point that has just been evaluated."""
    share, scores = point.y.reshape(-1) / task.n, score_count(task.inner)
    if has_gradients(task.inner):
        inner = state.inner if known else _gradients(task, point)
        task.passes[1] += not known
        grad = held_gradient(task, point.x, point.theta, share @ inner.slopes)
        adjoint, curvature = float(share @ inner.adjoints), float(share @ inner.curvatures)
    else:
        inner, coefs = UNKNOWN, row_terms(task, point)
        grad = gradient(task, point, coefs)
        adjoint, curvature = float(np.abs(coefs[:scores]).sum()), float(coefs[1:2].sum())
    curvature = curvature if scores == 1 else 0.25
    value, short = shortfall(task, point)
    gap = short + stationarity(task, point, grad, adjoint)
    metric = barrier_diagonal(task.barrier, point.x, point.theta * task.barrier_size) + point.theta * task.ridge
    metric += curvature * task.columns**2
    ended = 0
    if gap <= solver.tol * abs(value):
        ended = ENDINGS.index(Stop.CONVERGED)
    elif not value > -1e7 * task.size:
        ended = ENDINGS.index(Stop.UNBOUNDED)
    better = gap < 0.999 * state.best
    return state._replace(
        w=from_centred(task.centre, point.x),
        x=point.x,
        z=point.z,
        sums=point.sums if has_gradients(task.inner) else _NOTHING,
        shift=point.shift,
        y=dual_of(task, point).y,
        curve=point.curve,
        grad=grad,
        inner=inner,
        metric=np.maximum(metric, 1e-300),
        theta=point.theta,
        mu=point.theta * task.loss_size,
        value=value,
        short=short,
        gap=gap,
        best=min(gap, state.best),
        since=0 if better else state.since + 1,
        ended=ended,
    )


def _gradients(task: SmoothedProblem, point: Point) -> Gradients:
    left = point.left if point.left.size else walk_apart(task.inner, *visit_of(task, point)).coefs
    found = inner_gradients(task.inner, left)
    return Gradients(
        *map(np.ascontiguousarray, found)
    )  # as a checkpoint gives them back: products sum in another order


def _less_smoothing(task: SmoothedProblem, solver: SmoothedLBFGS, state: LBFGSState) -> LBFGSState:
    goal = PART * solver.tol * max(abs(state.value), 1e-12 * task.size)
    enough = state.short <= goal or state.theta < LEAST_SMOOTHING
    if enough or state.gap - state.short > BALANCE * state.short:
        return state
    theta = state.theta * max(CUT, min(goal / state.short, 1.0))
    known = state.sums.size > 0 and not is_curved(task.inner)
    point = _point(task, state)
    point = at_smoothing(task, point, theta) if known else evaluate(task, state.x, state.z, theta, point)
    return _at(task, solver, state._replace(best=np.inf), point, known)


def remembered(state: LBFGSState, move: np.ndarray, turn: np.ndarray) -> LBFGSState:
    """The state with one more step in its memory, which must have turned the gradient the right way."""
    if not float(move @ turn) > 1e-14 * float(np.linalg.norm(move) * np.linalg.norm(turn)):
        return state
    place = state.kept % state.moves.shape[0]
    state.moves[place], state.turns[place] = move, turn
    return state._replace(kept=state.kept + 1)


def _recent(state: LBFGSState) -> tuple[list[int], float]:
    """The places of the steps in memory, the latest first, and what the metric is to be divided by."""
    memory, kept = state.moves.shape[0], state.kept
    recent = [k % memory for k in range(kept - 1, max(kept - memory, 0) - 1, -1)]
    if not recent:
        return recent, 1.0
    move, turn = state.moves[recent[0]], state.turns[recent[0]]
    return recent, float(move @ turn) / float(turn @ (turn / state.metric))


def two_loops(state: LBFGSState, v: np.ndarray) -> np.ndarray:
    """The product of v (d,) with the remembered guess at the inverse of the Hessian, B⁻¹."""
    recent, scale = _recent(state)
    v, shares = v.copy(), {}
    turned = {k: float(state.moves[k] @ state.turns[k]) for k in recent}
    for k in recent:
        shares[k] = float(state.moves[k] @ v) / turned[k]
        v -= shares[k] * state.turns[k]
    v *= scale / state.metric
    for k in reversed(recent):
        v += (shares[k] - float(state.turns[k] @ v) / turned[k]) * state.moves[k]
    return v


def remembered_gram(state: LBFGSState, A: np.ndarray) -> np.ndarray:
    """A B⁻¹ Aᵀ: what the first of the two loops leaves of A, squared, and what it has taken away."""
    recent, scale = _recent(state)
    moves, turns = state.moves[recent], state.turns[recent]
    along, cross = A @ moves.T, turns @ moves.T
    shares = np.zeros(along.shape)
    for k in range(len(recent)):
        shares[:, k] = (along[:, k] - shares[:, :k] @ cross[:k, k]) / cross[k, k]
    left = A - shares @ turns
    return (left * (scale / state.metric)) @ left.T + (shares * np.diag(cross)) @ shares.T
