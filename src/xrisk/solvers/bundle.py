"""A bundle of cuts with the metric of L-BFGS: full-batch, for objectives with kinks that no smoothing is known for."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate import Certificate, Cut, Cuts, between, cut_at, cut_sizes, has_cuts, is_perfect, mixture_below
from xrisk.certificate.cuts import Sizes, objective_above
from xrisk.certificate.mixture import best_mixture
from xrisk.certificate.reach import Reach, box_of, boxed_below, kink_size, mixed, narrowed, promised
from xrisk.compile import canonical
from xrisk.data.threads import one_thread_each
from xrisk.functions import loss_smoothness, penalty_convexity
from xrisk.inner.oracle import Oracles, inner_count, inner_samples
from xrisk.inner.passes import column_sizes, pass_loss, walks
from xrisk.inner.sorted_pairs import sums_by_order
from xrisk.problem import Problem, penalty_at
from xrisk.solvers.base import Stop, check_positive, known_certificate, register_full_batch, whole
from xrisk.solvers.card import MethodCard, Need, require
from xrisk.solvers.method import register
from xrisk.solvers.shared.bundled import RECENT, with_cut
from xrisk.solvers.shared.metric import Memory, forgotten, inverse_times, no_memory, remembered

ENOUGH = 1e-4  # of the fall that the model promises
STEEP = 0.9  # of the slope at the start: a step that ends on a steeper one is made longer
TRIALS = 12  # points of a line search
SHORTER = 3  # shorter steps in a row, after which the cuts found on the way are what the iteration brings
TURNS = 4  # points on the way to the minimiser of the model, each half as far, tried in turn
STUCK = 60  # iterations in a row that bring nothing, after which rounding has ended progress
MANY_PAIRS = 100_000  # from here on cuts took a fifth of the time of passes over all pairs, or less
FAR = 10.0  # scores of points on either side of a column
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.PERFECT)  # by the number a state keeps


CUT_FROM_BELOW = Need("a CVaR of falling losses of pairs", has_cuts, "inner")
RIDGED = Need(
    "an L2 or ElasticNet ridge",
    lambda problem: bool(kink_size.implemented(problem.penalty) and penalty_convexity(problem.penalty) > 0.0),
    "penalty",
)


def by_cuts(problem: Problem) -> bool:
    """Whether `Bundle` is to take the problem: where nobody walks over the samples but cuts from below are known."""
    return not walks(problem.inner) and cut_at.implemented(problem.inner)


def cheaper_by_cuts(problem: Problem) -> bool:
    """Whether cuts cost less than passes over all pairs: these are many, or the ridge does not hold a column.

    Many pairs take no more than a sorting if the loss allows it. A column that is not held asks for more digits of its
    slope than sums have, unless cuts bound where the optimum can be.
    """
    g, needs = problem.inner, (CUT_FROM_BELOW, RIDGED)
    if not all(need.met(problem) for need in needs):
        return False
    if inner_samples(g) > MANY_PAIRS and sums_by_order(pass_loss(g)):
        return True
    return bool(box_of(float(penalty_convexity(problem.penalty)), 0.0, column_sizes(g)).loose.size)


class BundleTask(NamedTuple):
    """The problem, and what its rounding and its first metric are measured by."""

    problem: Problem
    inner: Any
    sizes: Sizes
    metric: np.ndarray  # (d,) first guess at the diagonal of the Hessian
    ridge: float
    kink: float
    box: Reach  # before anything is known of the optimum


class BundleState(NamedTuple):
    w: np.ndarray  # (d,) the best point
    y: np.ndarray  # (n, 1) weights of the rows i there
    slope: np.ndarray  # (d,) that of its cut
    cuts: Cuts
    share: np.ndarray  # (room,) of the cuts in the mixture that proves most
    aim: np.ndarray  # (d,) the minimiser of the model
    reach: np.ndarray  # (d,) a bound on |w_j| at the optimum; inf where none is known
    memory: Memory  # of the last steps
    value: float  # objective
    primal: float  # proved upper bound on it
    dual: float  # proved lower bound on the optimum
    gap: float  # value − dual
    best: float  # the smallest gap so far
    size: float  # the first objective
    since: int  # iterations since the gap was last found smaller
    ended: int  # 0 while running
    values: int  # full passes for values
    gradients: int  # full passes for gradients
    t: int  # iterations


class Bundle(NamedTuple):
    """Cuts of the objective from below: their maximum is the model [1]_, L-BFGS its metric [2]_, a mixture the proof.

    Every point that is looked at leaves a cut, a linear function below the objective but for the penalty. A step goes
    along the minimiser of the largest cut in the metric of L-BFGS; a line search ends it, and where no step is good
    enough the cuts found on the way, and at the minimiser of the model, make that better. The mixture of the cuts that
    proves most is a lower bound on the optimum with rounding allowed for: a run ends when that is within ``tol``, and
    the result has the certificate. At w = 0 all scores tie; there the cut is that in which all rows count alike. Where
    no score is better than none, because the hard pairs cannot be separated on average, the solution is w = 0 exactly.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends.
    cuts : int
        Cuts that are kept; beyond, those of no use are dropped, and useful ones merged.
    memory : int
        Steps that the metric remembers.

    References
    ----------
    .. [1] Lemaréchal, An extension of Davidon methods to non differentiable problems, 1975.
    .. [2] Lukšan and Vlček, A bundle-Newton method for nonsmooth unconstrained minimization, 1998; Lewis and Overton,
       Nonsmooth optimization via quasi-Newton methods, 2013, for the line search.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.applications import two_way_partial_auc
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(np.arange(400) % 4 == 0, 1, -1)
    >>> X = rng.standard_normal((400, 3)) + y[:, None] * [1.0, 0.5, 0.0]
    >>> problem = two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.3, l2=0.01)
    >>> result = xrisk.minimize(problem, xrisk.solvers.Bundle(), budget=xrisk.Budget(iterations=200))
    >>> result.certificate.relative <= 1e-3
    True
    """

    tol: float = 1e-3
    cuts: int = 100
    memory: int = 20

    def card(self) -> MethodCard:
        return MethodCard(
            "bundle",
            "Lemaréchal 1975, Lukšan and Vlček 1998",
            "ours",
            values="all, once or more",
            gradients="all, once or more",
            rate="about 15 to 50 iterations to 1e-3 in practice; ends on its certificate",
            needs=(CUT_FROM_BELOW, RIDGED),
        )

    def prepare(self, problem: Problem) -> tuple[BundleTask, Any]:
        check_positive("tol", self.tol)
        for name, least in (("cuts", 2 * RECENT), ("memory", 1)):
            if whole(name, getattr(self, name)) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        require(problem, self.card())
        problem = canonical(problem)
        sizes, r = cut_sizes(problem.inner), problem.penalty
        curvature = loss_smoothness(pass_loss(problem.inner))
        metric = float(penalty_convexity(r)) + (curvature if curvature < np.inf else 1.0) * sizes.scale**2
        ridge, kink = float(penalty_convexity(r)), float(kink_size(r))
        return BundleTask(problem, problem.inner, sizes, metric, ridge, kink, box_of(ridge, kink, sizes.scale)), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: BundleTask, x: np.ndarray, rng: np.random.Generator) -> BundleState:
        w, blank, d = np.zeros(x.size), np.zeros(self.cuts), x.size
        room = Cuts(np.zeros((self.cuts, d)), blank, blank.copy(), blank.copy(), 0)
        y, none = np.ones((inner_count(problem.inner), 1)), no_memory(self.memory, d)
        state = BundleState(
            w, y, w, room, blank.copy(), w, problem.box.reach, none,
            np.inf, np.inf, -np.inf, np.inf, np.inf, 0.0, 0, 0, 0, 0, 0,
        )  # fmt: skip
        state = _looked(problem, state, w)  # where it may collapse to: a start must be better
        if x.any():
            state = _looked(problem, state, x.astype(np.float64))
        for far in _far_points(problem):
            state = _with_cut(problem, state, _cut(problem, far))
        return _proved(problem, self, state._replace(size=abs(state.value)))

    def advance(self, problem: BundleTask, state: BundleState, n_steps: int, rng: Any) -> BundleState:
        with one_thread_each():
            for _ in range(n_steps):
                if state.ended:
                    return state
                state = bundle_step(problem, self, state)
        return state

    def solution(self, state: BundleState) -> np.ndarray:
        return state.w

    def dual(self, problem: BundleTask, state: BundleState) -> np.ndarray:
        return state.y

    def oracles(self, problem: BundleTask, t: int) -> Oracles:
        samples = inner_samples(problem.inner)
        return Oracles(t * samples, t * samples)  # at the least: a line search may look at more points


register({"bundle": Bundle()})
register_full_batch(Bundle, ENDINGS, "bundle")


@known_certificate.of(Bundle)
def _(solver, state):
    return proved(state) if np.isfinite(state.primal) else None


def proved(state: BundleState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


class Touched(NamedTuple):
    """A point and the cut that touches there."""

    w: np.ndarray
    cut: Cut


class Direction(NamedTuple):
    """Where the model leads."""

    move: np.ndarray  # (d,)
    fall: float  # that it promises of the objective, negative
    orthant: np.ndarray  # (d,) signs that coordinates keep; empty where the penalty has no kink


def _cut(task: BundleTask, w: np.ndarray) -> Cut:
    return cut_at(task.inner, task.sizes, task.problem.outer, w)


def _far_points(task: BundleTask) -> Iterator[np.ndarray]:
    """Points on either side of every column that the ridge does not hold: their cuts bound where the optimum can be."""
    for j in task.box.loose.tolist():
        for side in (-FAR, FAR):
            w = np.zeros(task.metric.size)
            w[j] = side / task.sizes.scale[j]
            yield w


def bundle_step(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """One step along the minimiser of the model, and what the cuts on the way prove."""
    way = direction(task, state)
    if not way.fall < 0.0:  # nothing to gain in this metric
        return at_minimiser(
            task, solver, state._replace(memory=forgotten(state.memory), since=state.since + 1, t=state.t + 1)
        )
    state, found = searched(task, state, way)
    if found is not None:
        state = _moved(task, _learned(task, state, found), found)
    state = _proved(task, solver, state._replace(t=state.t + 1))
    return state if state.ended or not state.since else at_minimiser(task, solver, state)


def at_minimiser(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """The state with the cut at the minimiser of the model, or on the way there: cuts from afar say little."""
    way, size = state.aim - state.w, np.sqrt(task.metric)
    reach = 1.0 + float(np.linalg.norm(size * state.w))
    part = 0.5 ** (state.since % TURNS) * min(1.0, reach / max(float(np.linalg.norm(size * way)), 1e-300))
    since, w = state.since, state.w + part * way if part < 1.0 else state.aim
    state = _proved(task, solver, _looked(task, state, w))
    return state._replace(since=min(state.since, since))


def _looked(task: BundleTask, state: BundleState, w: np.ndarray) -> BundleState:
    """The state with the cut at a point, and there if that is better."""
    point = Touched(w, _cut(task, w))
    state = _with_cut(task, state, point.cut)
    return _moved(task, state, point) if _value(task, point) < state.value else state


def direction(task: BundleTask, state: BundleState) -> Direction:
    """The step to the minimiser of the largest cut, in the metric: −H Σ μₖ sₖ."""
    cuts, held = state.cuts, state.cuts.held
    slopes, orthant = cuts.slopes[:held] + task.ridge * state.w, np.zeros(0)
    if task.kink:
        orthant = _orthant(state)
        slopes = np.where(orthant != 0.0, slopes + task.kink * orthant, 0.0)
    here = state.value - penalty_at(task.problem.penalty, state.w)
    errors = np.maximum(here - cuts.offsets[:held] - cuts.slopes[:held] @ state.w, 0.0)
    scaled = inverse_times(state.memory, task.metric, slopes)
    mix = best_mixture(slopes @ scaled.T, errors, np.zeros(held))
    move, adjoint = -(mix @ scaled), mix @ slopes
    move = np.where(orthant != 0.0, move, 0.0) if task.kink else move
    return Direction(move, float(adjoint @ move) - float(mix @ errors), orthant)


def _orthant(state: BundleState) -> np.ndarray:
    """Signs of the coordinates; of zero ones those that the minimiser of the model has."""
    return np.sign(np.where(state.w != 0.0, state.w, state.aim))


def searched(task: BundleTask, state: BundleState, way: Direction) -> tuple[BundleState, Touched | None]:
    """The state with the cuts of a line search, and the point that it has found: weak conditions of Wolfe."""
    low, high, step, found, shorter = 0.0, np.inf, 1.0, None, 0
    for _ in range(TRIALS):
        w = state.w + step * way.move
        w = np.where(w * way.orthant > 0.0, w, 0.0) if task.kink else w
        point = Touched(w, _cut(task, w))
        state = _with_cut(task, state, point.cut)
        if not _value(task, point) <= state.value + ENOUGH * step * way.fall:
            high, shorter = step, shorter + 1
        elif _along(task, point, way) < STEEP * way.fall:
            low, found = step, point
        else:
            return state, point
        if found is None and shorter == SHORTER:
            break
        step = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return state, found


def _value(task: BundleTask, point: Touched) -> float:
    return point.cut.value + penalty_at(task.problem.penalty, point.w)


def _along(task: BundleTask, point: Touched, way: Direction) -> float:
    slope = point.cut.slope + task.ridge * point.w
    return float((slope + task.kink * way.orthant if task.kink else slope) @ way.move)


def _learned(task: BundleTask, state: BundleState, new: Touched) -> BundleState:
    """The state with one more step in its memory."""
    move = new.w - state.w
    turn = new.cut.slope - state.slope + task.ridge * move
    return state._replace(memory=remembered(state.memory, move, turn))


def _moved(task: BundleTask, state: BundleState, new: Touched) -> BundleState:
    """The state at another point."""
    primal, value = objective_above(task.problem, new.cut, new.w), _value(task, new)
    return state._replace(w=new.w, y=new.cut.weights[:, None], slope=new.cut.slope, value=value, primal=primal)


def _with_cut(task: BundleTask, state: BundleState, cut: Cut) -> BundleState:
    """The state with one more cut and pass; those of points too far away are infinite, and left out."""
    state = state._replace(values=state.values + 1, gradients=state.gradients + 1)
    if not np.isfinite(cut.slope.sum() + cut.offset + cut.slack + cut.spread):
        return state
    cuts, share = with_cut(state.cuts, state.share, cut, state.w, task.sizes.scale)
    return state._replace(cuts=cuts, share=share)


def _proved(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """The state with the bound of the best mixture of its cuts, and whether that is good enough."""
    share, aim = strongest(task, state)
    state = _bounded(task, solver, state, share)
    gap = max(state.value - state.dual, 0.0)
    better, known = gap < 0.999 * state.best, proved(state)
    since, ended = 0 if better else state.since + 1, 0
    if known.relative <= solver.tol:
        ended = ENDINGS.index(Stop.CONVERGED)
    elif is_perfect(known, state.size):
        ended = ENDINGS.index(Stop.PERFECT)
    elif since > STUCK:
        ended = ENDINGS.index(Stop.ROUNDING)
    best = min(gap, state.best)
    return state._replace(share=share, aim=aim, gap=gap, best=best, since=since, ended=ended)


def _bounded(task: BundleTask, solver: Bundle, state: BundleState, share: np.ndarray) -> BundleState:
    """The state with the bound of a mixture; where rounding alone is in the way, with how far the optimum can be."""
    dual = max(state.dual, mixture_below(task.problem, state.cuts, share, task.sizes.scale))
    box, held = task.box._replace(reach=state.reach), share[: state.cuts.held]
    if box.loose.size:
        none, enough = np.zeros(state.w.size), solver.tol * abs(state.value)
        dual = max(dual, boxed_below(box, state.cuts, held, none))
        if state.value - dual > enough >= state.value - promised(box, state.cuts, held):
            box = narrowed(box, state.cuts, state.primal)
            dual = max(dual, boxed_below(box, state.cuts, held, none))
    return state._replace(dual=dual, reach=box.reach)


def strongest(task: BundleTask, state: BundleState) -> tuple[np.ndarray, np.ndarray]:
    """The mixture (room,) of largest offset − r*(−slope), and the minimiser (d,) of the model that it belongs to."""
    held = state.cuts.held
    share, aim = mixed(task.box, state.cuts.slopes[:held], state.cuts.offsets[:held], state.share[:held])
    return np.append(share, np.zeros(state.share.size - held)), aim
