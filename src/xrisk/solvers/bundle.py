"""A bundle of cuts with the metric of L-BFGS: full-batch, for objectives with kinks that no smoothing is known for."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner
from xrisk.certificate import Certificate, Cut, Cuts, between, cut_at, cut_sizes, has_cuts, is_perfect
from xrisk.certificate.cuts import Sizes, mixture_lower_bound, objective_upper_bound
from xrisk.certificate.mixture import best_mixture
from xrisk.certificate.optimum_box import (
    OptimumBox,
    box_lower_bound,
    box_of,
    kink_size,
    narrowed,
    predicted_bound,
    strongest_mixture,
)
from xrisk.compile import canonical
from xrisk.functions import loss_smoothness, penalty_convexity
from xrisk.functions.parameters import positive, whole_from
from xrisk.inner.oracle import Oracles, inner_count, inner_samples
from xrisk.inner.passes import column_sizes, pass_loss, walks
from xrisk.inner.sorted_pairs import sums_by_order
from xrisk.problem import Problem, penalty_at
from xrisk.solvers.base import Stop, known_certificate
from xrisk.solvers.card import MethodCard, Need, require
from xrisk.solvers.full_batch import full_batch
from xrisk.solvers.shared.bundled import RECENT, with_cut
from xrisk.solvers.shared.metric import Memory, forgotten, inverse_times, no_memory, remembered

ENOUGH = 1e-4  # of the decrease that the model predicts
STEEP = 0.9  # of the slope at the start: a step that ends on a steeper one is made longer
TRIALS = 12  # points of a line search
SHORTER = 3  # shorter steps in a row, after which the cuts found on the way are all that the iteration adds
HALVINGS = 4  # points on the way to the minimiser of the model, each half as far, tried one after another
STUCK = 60  # iterations in a row without progress, after which rounding has ended it
MANY_PAIRS = 100_000  # of more, cuts took at most a fifth of the time of passes over all pairs
FAR = 10.0  # scores of points on either side of a column
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.PERFECT)  # by the number a state keeps


HAS_CUTS = Need("a CVaR of falling losses of pairs", has_cuts, "inner")
RIDGED = Need(
    "an L2 or ElasticNet ridge",
    lambda problem: bool(kink_size.implemented(problem.penalty) and penalty_convexity(problem.penalty) > 0.0),
    "penalty",
)


def needs_cuts(problem: Problem) -> bool:
    """Whether only `Bundle` takes the problem: cuts are known, walks over the samples are not."""
    return not walks(problem.inner) and cut_at.implemented(problem.inner)


def cheaper_by_cuts(problem: Problem) -> bool:
    """Whether cuts cost less than passes over all pairs: these are many, or the ridge is negligible for a column.

    Many pairs take no more than a sorting if the loss allows it. A column with a negligible ridge needs more digits of
    its slope than sums have, unless cuts bound where the optimum can be.
    """
    g, needs = problem.inner, (HAS_CUTS, RIDGED)
    if not all(need.met(problem) for need in needs):
        return False
    if inner_samples(g) > MANY_PAIRS and sums_by_order(pass_loss(g)):
        return True
    return bool(box_of(float(penalty_convexity(problem.penalty)), 0.0, column_sizes(g)).loose.size)


class BundleTask(NamedTuple):
    """The problem, and what its rounding and its first metric are measured by."""

    problem: Problem
    inner: Inner
    sizes: Sizes
    metric: np.ndarray  # (d,) first guess at the diagonal of the Hessian
    ridge: float
    kink: float
    box: OptimumBox  # before anything is known of the optimum
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients
    prepared: np.ndarray  # (2,) those of preparing it


class BundleState(NamedTuple):
    w: np.ndarray  # (d,) the best point
    y: np.ndarray  # (n, 1) weights of the rows i at w
    slope: np.ndarray  # (d,) of the cut at w
    cuts: Cuts
    share: np.ndarray  # (capacity,) of the cuts in the mixture that proves most
    aim: np.ndarray  # (d,) the minimiser of the model
    radius: np.ndarray  # (d,) a bound on |w_j| at the optimum; inf where none is known
    memory: Memory  # of the last steps
    value: float = np.inf  # objective
    primal: float = np.inf  # proved upper bound on it
    dual: float = -np.inf  # proved lower bound on the optimum
    gap: float = np.inf  # value − dual
    best: float = np.inf  # the smallest gap so far
    size: float = 0.0  # the first objective
    since: int = 0  # iterations since the gap was last found smaller
    ended: int = 0  # 0 while running
    values: int = 0  # full passes for values
    gradients: int = 0  # full passes for gradients
    t: int = 0  # iterations


class Bundle(NamedTuple):
    """Cuts, linear lower bounds: their maximum is the model [1]_, L-BFGS its metric [2]_, a mixture the proof.

    Every evaluation adds a cut, a linear function below the objective without its penalty. A step goes towards the
    minimiser of the largest cut in the metric of L-BFGS, and ends with a line search. Where no step is good enough,
    the cuts found on the way and at the minimiser of the model improve the model. The mixture of the cuts that proves
    most is a lower bound on the optimum with rounding allowed for: a run ends when that is within ``tol``, and the
    result has the certificate. At w = 0 all scores tie; the cut there gives all rows the same weight. Where no score
    is better than none, because the hard pairs cannot be separated on average, the solution is w = 0 exactly.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends.
    cuts : int
        Cuts that are kept; when there are more, unused ones are dropped and used ones merged.
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
            needs=(HAS_CUTS, RIDGED),
        )

    def prepare(self, problem: Problem) -> tuple[BundleTask, Any]:
        positive("tol", self.tol)
        whole_from(2 * RECENT)("cuts", self.cuts)
        whole_from(1)("memory", self.memory)
        require(problem, self.card())
        problem = canonical(problem)
        sizes, r = cut_sizes(problem.inner), problem.penalty
        curvature = loss_smoothness(pass_loss(problem.inner))
        metric = float(penalty_convexity(r)) + (curvature if curvature < np.inf else 1.0) * sizes.scale**2
        ridge, kink = float(penalty_convexity(r)), float(kink_size(r))
        box, passes = box_of(ridge, kink, sizes.scale), np.zeros((2, 2), dtype=np.int64)
        return BundleTask(problem, problem.inner, sizes, metric, ridge, kink, box, *passes), self

    def first(self, task: BundleTask, x: np.ndarray) -> BundleState:
        w, blank, d = np.zeros(x.size), np.zeros(self.cuts), x.size
        cuts = Cuts(np.zeros((self.cuts, d)), blank, blank.copy(), blank.copy(), 0)
        y, memory = np.ones((inner_count(task.inner), 1)), no_memory(self.memory, d)
        state = BundleState(w, y, w, cuts, blank.copy(), w, task.box.radius, memory)
        state = _evaluated(task, state, w)  # the solution may be zero: a start must be better
        if x.any():
            state = _evaluated(task, state, x.astype(np.float64))
        for far in _far_points(task):
            state = _with_cut(task, state, _cut(task, far))
        return _proved(task, self, state._replace(size=abs(state.value)))


@known_certificate.of(Bundle)
def _(solver, state):
    return proved(state) if np.isfinite(state.primal) else None


def proved(state: BundleState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


class CutPoint(NamedTuple):
    """A point and the cut that touches there."""

    w: np.ndarray
    cut: Cut


class Direction(NamedTuple):
    """From the best point to the minimiser of the model."""

    step: np.ndarray  # (d,)
    decrease: float  # that the model predicts of the objective
    orthant: np.ndarray  # (d,) signs that coordinates keep; empty where the penalty has no kink


def _cut(task: BundleTask, w: np.ndarray) -> Cut:
    return cut_at(task.inner, task.sizes, task.problem.outer, w)


def _far_points(task: BundleTask) -> Iterator[np.ndarray]:
    """Points on either side of every column with a negligible ridge: their cuts bound where the optimum can be."""
    for j in task.box.loose.tolist():
        for side in (-FAR, FAR):
            w = np.zeros(task.metric.size)
            w[j] = side / task.sizes.scale[j]
            yield w


@full_batch({"bundle": Bundle()}, BundleState, ENDINGS, "bundle", Oracles(1, 1))
def bundle_step(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """One step towards the minimiser of the model, and what the cuts on the way prove."""
    direction = direction_of(task, state)
    if not direction.decrease > 0.0:  # the model predicts none in this metric
        return at_minimiser(task, solver, state._replace(memory=forgotten(state.memory), since=state.since + 1))
    state, found = searched(task, state, direction)
    if found is not None:
        state = _at(task, _with_step(task, state, found), found)
    state = _proved(task, solver, state)
    return state if state.ended or not state.since else at_minimiser(task, solver, state)


def at_minimiser(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """The state with the cut at the minimiser of the model, or nearer: cuts from far away say little."""
    step, size = state.aim - state.w, np.sqrt(task.metric)
    longest = 1.0 + float(np.linalg.norm(size * state.w))
    part = 0.5 ** (state.since % HALVINGS) * min(1.0, longest / max(float(np.linalg.norm(size * step)), 1e-300))
    since, w = state.since, state.w + part * step if part < 1.0 else state.aim
    state = _proved(task, solver, _evaluated(task, state, w))
    return state._replace(since=min(state.since, since))


def _evaluated(task: BundleTask, state: BundleState, w: np.ndarray) -> BundleState:
    """The state with the cut at a point, and at that point if it is better."""
    point = CutPoint(w, _cut(task, w))
    state = _with_cut(task, state, point.cut)
    return _at(task, state, point) if _value(task, point) < state.value else state


def direction_of(task: BundleTask, state: BundleState) -> Direction:
    """The step to the minimiser of the largest cut, in the metric: −H Σ μₖ sₖ."""
    cuts, filled = state.cuts, state.cuts.filled
    slopes, orthant = cuts.slopes[:filled] + task.ridge * state.w, np.zeros(0)
    if task.kink:
        orthant = np.sign(np.where(state.w != 0.0, state.w, state.aim))  # of zeros the model's
        slopes = np.where(orthant != 0.0, slopes + task.kink * orthant, 0.0)
    losses = state.value - penalty_at(task.problem.penalty, state.w)
    errors = np.maximum(losses - cuts.offsets[:filled] - cuts.slopes[:filled] @ state.w, 0.0)
    scaled = inverse_times(state.memory, task.metric, slopes)
    mix = best_mixture(slopes @ scaled.T, errors, np.zeros(filled))
    step, slope = -(mix @ scaled), mix @ slopes
    step = np.where(orthant != 0.0, step, 0.0) if task.kink else step
    return Direction(step, float(mix @ errors) - float(slope @ step), orthant)


def searched(task: BundleTask, state: BundleState, direction: Direction) -> tuple[BundleState, CutPoint | None]:
    """The state with the cuts of a line search, and the point that it has found: weak conditions of Wolfe."""
    low, high, t, found, shorter = 0.0, np.inf, 1.0, None, 0
    for _ in range(TRIALS):
        w = state.w + t * direction.step
        w = np.where(w * direction.orthant > 0.0, w, 0.0) if task.kink else w
        point = CutPoint(w, _cut(task, w))
        state = _with_cut(task, state, point.cut)
        if not _value(task, point) <= state.value - ENOUGH * t * direction.decrease:
            high, shorter = t, shorter + 1
        elif _along(task, point, direction) < -STEEP * direction.decrease:
            low, found = t, point
        else:
            return state, point
        if found is None and shorter == SHORTER:
            break
        t = 2.0 * low if high == np.inf else 0.5 * (low + high)
    return state, found


def _value(task: BundleTask, point: CutPoint) -> float:
    return point.cut.value + penalty_at(task.problem.penalty, point.w)


def _along(task: BundleTask, point: CutPoint, direction: Direction) -> float:
    slope = point.cut.slope + task.ridge * point.w
    return float((slope + task.kink * direction.orthant if task.kink else slope) @ direction.step)


def _with_step(task: BundleTask, state: BundleState, new: CutPoint) -> BundleState:
    """The state with the step to a point in its memory."""
    step = new.w - state.w
    change = new.cut.slope - state.slope + task.ridge * step
    return state._replace(memory=remembered(state.memory, step, change))


def _at(task: BundleTask, state: BundleState, new: CutPoint) -> BundleState:
    """The state at another point."""
    primal, value = objective_upper_bound(task.problem, new.cut, new.w), _value(task, new)
    return state._replace(w=new.w, y=new.cut.weights[:, None], slope=new.cut.slope, value=value, primal=primal)


def _with_cut(task: BundleTask, state: BundleState, cut: Cut) -> BundleState:
    """The state with one more cut; those of points too far away are infinite, and left out."""
    task.passes[:] += 1
    if not np.isfinite(cut.slope.sum() + cut.offset + cut.slack + cut.spread):
        return state
    cuts, share = with_cut(state.cuts, state.share, cut, state.w, task.sizes.scale)
    return state._replace(cuts=cuts, share=share)


def _proved(task: BundleTask, solver: Bundle, state: BundleState) -> BundleState:
    """The state with the bound of the best mixture of its cuts, and whether that is good enough."""
    share, aim = strongest(task, state)
    state = _bounded(task, solver, state, share)
    gap = max(state.value - state.dual, 0.0)
    since, known = 0 if gap < 0.999 * state.best else state.since + 1, proved(state)
    ended = None
    if known.relative <= solver.tol:
        ended = Stop.CONVERGED
    elif is_perfect(known, state.size):
        ended = Stop.PERFECT
    elif since > STUCK:
        ended = Stop.ROUNDING
    best = min(gap, state.best)
    return state._replace(share=share, aim=aim, gap=gap, best=best, since=since, ended=ENDINGS.index(ended))


def _bounded(task: BundleTask, solver: Bundle, state: BundleState, share: np.ndarray) -> BundleState:
    """The state with the bound of a mixture; where rounding alone prevents a proof, also with a box for the optimum."""
    dual = max(state.dual, mixture_lower_bound(task.problem, state.cuts, share, task.sizes.scale))
    box, mix = task.box._replace(radius=state.radius), share[: state.cuts.filled]
    if box.loose.size:
        no_tilt, enough = np.zeros(state.w.size), solver.tol * abs(state.value)
        dual = max(dual, box_lower_bound(box, state.cuts, mix, no_tilt))
        if state.value - dual > enough >= state.value - predicted_bound(box, state.cuts, mix):
            box = narrowed(box, state.cuts, state.primal)
            dual = max(dual, box_lower_bound(box, state.cuts, mix, no_tilt))
    return state._replace(dual=dual, radius=box.radius)


def strongest(task: BundleTask, state: BundleState) -> tuple[np.ndarray, np.ndarray]:
    """The mixture (capacity,) of largest offset − r*(−slope), and the minimiser (d,) of the model."""
    filled = state.cuts.filled
    share, aim = strongest_mixture(
        task.box, state.cuts.slopes[:filled], state.cuts.offsets[:filled], state.share[:filled]
    )
    return np.append(share, np.zeros(state.share.size - filled)), aim
