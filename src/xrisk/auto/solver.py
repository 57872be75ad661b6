"""No step sizes: choose a method by its cost, start on a sample of the rows, finish on all, stop on the certificate."""

from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from xrisk.auto.plan import Stage, expected, few_rows, planned
from xrisk.certificate import (
    NOTHING_PROVED,
    Certificate,
    between,
    certify_measured,
    is_perfect,
    measured,
    refuse_unknown,
)
from xrisk.data.threads import Interrupted, give_way, one_thread_each, uninterrupted
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import as_linear_groups
from xrisk.problem import Problem
from xrisk.solvers.base import (
    PointToProve,
    Stop,
    calls_ahead,
    check_code,
    check_positive,
    check_state,
    iterations_made,
    known_certificate,
    known_phase,
    known_slopes,
    known_stop,
    known_value,
    like_state,
    on_all_rows,
    passes_made,
)
from xrisk.solvers.bundle import Bundle, by_cuts, cheaper_by_cuts
from xrisk.solvers.card import CERTIFIABLE, MethodCard
from xrisk.solvers.lbfgs import NO_LBFGS, LBFGSState, SmoothedLBFGS
from xrisk.solvers.newton.barrier import barrier_of, linear_size
from xrisk.solvers.newton.composite import NO_COMPOSITE, CompositeNewton, CompositeState
from xrisk.solvers.newton.rows import RowNewton, takes_rows
from xrisk.solvers.newton.smoothed import START, constant_size
from xrisk.solvers.newton.solver import NO_NEWTON, Newton, NewtonState

WARM = 1e-2  # first smoothing of a warm start
MORE = 1.5  # times as many iterations as on a sample L-BFGS is expected to take on all rows
SAMPLE_TOL = 0.02  # to which samples of the rows are solved
IN_VAIN = 3  # certificates in a row that leave the bounds as they were, after which a method is given up
ASKED = 0.8  # of the tolerance: an estimate is not a proof
FIRST_TOL = 1e-9  # what a method is asked for first, whatever the tolerance: proofs of less come one by one
LEAST_TOL = 1e-14
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.FLAT, Stop.UNBOUNDED, Stop.PERFECT)


class Staged(NamedTuple):
    """The problem as `Auto` works on it."""

    problem: Problem
    measured: Any  # () → Measured, for certificates; when first asked for
    stages: tuple[Stage, ...]
    samples: int  # of all rows
    newton_seconds: float  # expected of Newton's method on all rows; inf where it cannot be run
    lbfgs_step_seconds: float  # expected of an iteration of L-BFGS on all rows


class AutoState(NamedTuple):
    w: np.ndarray  # (d,) the best parameters seen, those of a sample while one is solved
    y: np.ndarray  # (n, m) dual weights
    newton: NewtonState  # of a stage that runs Newton's method
    lbfgs: LBFGSState  # of a stage that runs L-BFGS
    composite: CompositeState  # of a stage that runs Newton's method for composite functions
    stage: int
    tol: float  # what the method is asked for
    value: float  # objective at w; NaN while only a sample is known
    first: float  # objective at the start
    on_sample: float  # objective of the sample, while one is solved
    primal: float  # proved upper bound on the objective at w
    dual: float  # proved lower bound on the optimum
    size: float  # objective of a constant model, or what a linear term can take from it
    tries: int  # certificates in a row that brought nothing
    ended: int  # 0 while running
    values: float  # full passes for values, those over a sample in part
    gradients: float  # full passes for gradients
    t: int  # iterations of all stages


class Auto(NamedTuple):
    """A solver without step sizes: a Newton method or smoothed L-BFGS, whichever costs less, ended by the certificate.

    The cost of an iteration is known from the shape of the data and from how long products with rows, Gram matrices
    and losses take, which were measured once and are fields; so the same problem is solved in the same way on every
    machine. Where all rows are many, samples of them are solved first, each warm-starting the next. A certificate is
    computed when the method's own estimate of the gap says that it may succeed. Losses in the tail, `xrisk.inner.Tail`,
    are left to `Bundle`; so are many pairs under a CVaR, of a loss whose sums over all pairs take a sorting at most.
    Risks over single rows, `xrisk.inner.Samples`, are left to `RowNewton`, but for a CVaR over few rows of many
    columns. Both prove their own.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends; an objective below 1e-12 of that of a constant model, a perfect
        fit, ends it as well.
    weights : ndarray (n, m), optional
        Dual weights to certify a warm start with.
    shares : tuple of float
        Shares of the rows to start with.
    least_rows : int
        Samples of fewer rows, and of fewer than eight for each variable, are not worth a stage.
    least_gain : float
        An iteration on a sample must cost so many times less than one on all rows.
    newton_steps, composite_steps, lbfgs_steps, blind_steps : float
        Iterations that Newton's method, that for composite functions and L-BFGS are expected to take, where no sample
        has shown them; the last one those of L-BFGS where losses have kinks or the gradients of the inner functions
        are too many to be kept.
    read_rate, product_rate, sample_seconds, call_seconds : float
        Bytes of rows read in a second, floating-point operations of matrix products in a second, seconds for the loss
        of a sample, each on one core, and seconds that an iteration takes however small the data.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_groups
    >>> table = make_groups(5, n=500, random_state=0)
    >>> problem = xrisk.group_dro(table.X, table.y, table.groups, divergence="max", l2=0.01)
    >>> result = xrisk.minimize(problem, xrisk.solvers.Auto(tol=1e-4), budget=xrisk.Budget(iterations=1000))
    >>> result.certificate.relative <= 1e-4
    True
    """

    tol: float = 1e-3
    weights: np.ndarray = np.zeros((0, 0))
    shares: tuple[float, ...] = (0.05,)
    least_rows: int = 2000
    least_gain: float = 6.0
    newton_steps: float = 8.0
    composite_steps: float = 5.0
    lbfgs_steps: float = 18.0
    blind_steps: float = 70.0
    read_rate: float = 1e10
    product_rate: float = 2.5e10
    sample_seconds: float = 1e-8
    call_seconds: float = 1.5e-3

    def card(self) -> MethodCard:
        return MethodCard(
            "auto",
            "Newton or smoothed L-BFGS, by cost, from samples of the rows",
            "ours",
            values="all or a sample",
            gradients="all or a sample",
            rate="that of the method it chooses; ends on the certificate",
            needs=(CERTIFIABLE,),
        )

    def prepare(self, problem: Problem) -> tuple[Any, Any]:
        check_positive("tol", self.tol)
        if by_cuts(problem) or cheaper_by_cuts(problem):
            return Bundle(self.tol).prepare(problem)
        if takes_rows(problem) and not few_rows(problem):
            return RowNewton(self.tol, self.weights).prepare(problem)
        refuse_unknown(problem)
        stages, costs = tuple(planned(self, problem)), expected(self, problem)
        last = stages[-1].task
        known = cache(lambda: measured(problem, last().columns, last().centre))
        samples = inner_samples(as_linear_groups(problem.inner))
        return Staged(problem, known, stages, samples, costs.newton, costs.lbfgs_step), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: Staged, x: np.ndarray, rng: np.random.Generator) -> AutoState:
        with uninterrupted():  # no result is without it
            first = float(problem.problem.value(x))
        warm = bool(x.any())
        size, made = constant_size(problem.problem, np.nan if warm else first)
        size = max(size, linear_part(problem))
        shape = (inner_count(problem.problem.inner), inner_dim(problem.problem.inner))
        known, y = NOTHING_PROVED, np.ones(shape)
        if warm:
            y = self.weights if self.weights.shape == shape else y
            with suppress(Interrupted):
                known = certify_measured(
                    problem.measured(), PointToProve(x, y if self.weights.shape == shape else None)
                )
        ended = ENDINGS.index(self.reached(known, size))
        tol = max(ASKED * self.tol, FIRST_TOL)
        stage = [one.last for one in problem.stages].index(1) if warm else 0
        state = AutoState(
            x, y, NO_NEWTON, NO_LBFGS, NO_COMPOSITE, stage, tol, first, first, np.inf, known.primal,
            known.dual, size, 0, ended, 1.0 + made, 0.0, 0,
        )  # fmt: skip
        return _counted(state, problem.measured().passes) if known.primal < np.inf else state

    def advance(self, problem: Staged, state: AutoState, n_steps: int, rng: Any) -> AutoState:
        with one_thread_each():
            for made in range(n_steps):
                if state.ended:
                    return state
                try:
                    state = auto_step(problem, self, state, rng)
                except Interrupted:
                    if not made:
                        raise
                    return state  # L-BFGS has written into what it remembered before
        return state

    def reached(self, known: Certificate, size: float) -> Stop | None:
        """Whether the gap is small beside the optimum, or the fit perfect; None while neither is."""
        return Stop.CONVERGED if known.relative <= self.tol else Stop.PERFECT if is_perfect(known, size) else None

    def solution(self, state: AutoState) -> np.ndarray:
        return state.w

    def dual(self, problem: Staged, state: AutoState) -> np.ndarray:
        return state.y

    def oracles(self, problem: Staged, t: int) -> Oracles:
        return Oracles(t, t)  # at the least: iterations on samples are cheap, those on all rows are not


def linear_part(problem: Staged) -> float:
    """About how much a linear term of the penalty can lower the objective; at the first point it may be nothing."""
    penalty, d = problem.problem.penalty, inner_size(problem.problem.inner)
    if not (barrier_of.implemented(penalty) and barrier_of(penalty, d).linear.any()):
        return 0.0
    task = problem.stages[-1].task()
    return linear_size(task.barrier, task.columns**2)


@generic
def running(solver, state):
    """The state of the method of a stage."""


@generic
def with_running(solver, state, run):
    """The state with that of the method of a stage."""


@running.of(Newton)
def _(solver, state):
    return state.newton


@running.of(SmoothedLBFGS)
def _(solver, state):
    return state.lbfgs


@running.of(CompositeNewton)
def _(solver, state):
    return state.composite


@with_running.of(Newton)
def _(solver, state, run):
    return state._replace(newton=run)


@with_running.of(SmoothedLBFGS)
def _(solver, state, run):
    return state._replace(lbfgs=run)


@with_running.of(CompositeNewton)
def _(solver, state, run):
    return state._replace(composite=run)


def auto_step(problem: Staged, solver: Auto, state: AutoState, rng: Any) -> AutoState:
    """One iteration of the method of the stage; where it ends, the certificate, or the next stage.

    If these are interrupted, the iteration stays, and the next step begins with them.
    """
    if not _run(problem, state).w.size:
        state = _begin(problem, state, state.stage, WARM if state.w.any() else START)
    state = _iterated(problem, state, rng)
    if known_stop(problem.stages[state.stage].solver, _run(problem, state)) is None:
        return _kept(problem, state)
    try:
        return _followed(problem, solver, state)
    except Interrupted:
        return _kept(problem, state)


def _run(problem: Staged, state: AutoState) -> Any:
    return running(problem.stages[state.stage].solver, state)


def _iterated(problem: Staged, state: AutoState, rng: Any) -> AutoState:
    stage, before = problem.stages[state.stage], _run(problem, state)
    task = stage.task()
    made = task.passes.copy()
    run = stage.solver._replace(tol=_asked(stage, state)).advance(task, before, 1, rng)
    waited = before.ended and before.t  # the certificate was interrupted
    state = with_running(stage.solver, state, run)._replace(t=state.t if waited else state.t + 1)
    return _counted(state, task.passes - made, inner_samples(task.inner) / problem.samples)


def _counted(state: AutoState, passes: np.ndarray, share: float = 1.0) -> AutoState:
    values, gradients = (share * passes).tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients)


def _kept(problem: Staged, state: AutoState) -> AutoState:
    """The state at the point of its method, if that is better."""
    run = _run(problem, state)
    if not problem.stages[state.stage].last:
        return state if run.value > state.on_sample else state._replace(w=run.w, on_sample=run.value)
    return state._replace(w=run.w, y=run.y, value=run.value) if run.value <= state.value else state


def _followed(problem: Staged, solver: Auto, state: AutoState) -> AutoState:
    """What follows where the method of a stage has ended."""
    stage, run = problem.stages[state.stage], _run(problem, state)
    if not stage.last:
        return _begin(problem, state._replace(w=run.w), _after(problem, state), 2.0 * run.theta)
    state, brought = _certified(problem, solver, _kept(problem, state), run, known_slopes(stage.solver, run))
    reached, stop = solver.reached(bounds(state), state.size), known_stop(stage.solver, run)
    more = state.tries + 1 < IN_VAIN and stop is Stop.CONVERGED and state.tol > LEAST_TOL
    is_start = run.value > state.value >= state.first  # it may be as good as the tolerance, but it is no model
    if reached and not (is_start and more):
        return state._replace(ended=ENDINGS.index(reached))
    give_way()  # a certificate that was cut short is not one in vain
    tries = 0 if brought and not reached else state.tries + 1
    if stop in (Stop.CONVERGED, Stop.FLAT) and tries < IN_VAIN and state.tol > LEAST_TOL:  # it was too hopeful
        run = run._replace(ended=0)
        return with_running(stage.solver, state, run)._replace(tol=0.2 * state.tol, tries=tries)
    if state.stage + 1 < len(problem.stages):
        return _begin(problem, state._replace(tries=0), state.stage + 1, WARM)
    return state._replace(ended=ENDINGS.index(stop if stop in (Stop.FLAT, Stop.UNBOUNDED) else Stop.ROUNDING))


def _after(problem: Staged, state: AutoState) -> int:
    """The stage after one on a sample; on all rows, the method that costs less by what L-BFGS has taken there."""
    following = state.stage + 1
    there = problem.stages[following]
    seconds = (MORE * state.lbfgs.t + 5.0) * problem.lbfgs_step_seconds
    if there.last and state.lbfgs.t and problem.newton_seconds < seconds:
        return following + 1
    return following


def _asked(stage: Stage, state: AutoState) -> float:
    return state.tol if stage.last else max(SAMPLE_TOL, state.tol)


def _begin(problem: Staged, state: AutoState, stage: int, smoothing: float) -> AutoState:
    """The state at the beginning of a stage, at the parameters found so far."""
    there = problem.stages[stage]
    for other in problem.stages:
        if not other.last and other is not there:
            other.task.cache_clear()  # its rows are a copy
    known = _run(problem, state).w.size and there.task is problem.stages[state.stage].task
    task = there.task()
    made = task.passes.copy()
    run, begun = _first_run(there, task, state, smoothing)
    state = with_running(
        there.solver, begun._replace(newton=NO_NEWTON, lbfgs=NO_LBFGS, composite=NO_COMPOSITE, stage=stage), run
    )
    state = _kept(problem, state) if there.last else state._replace(value=np.nan, on_sample=run.value)
    passes = task.passes - made if known else task.passes - made + task.prepared
    return _counted(state, passes, inner_samples(task.inner) / problem.samples)


def _first_run(there: Stage, task: Any, state: AutoState, smoothing: float) -> tuple[Any, AutoState]:
    """The method of a stage at the parameters found so far, or at the start where a sample has found none better."""
    method, rng, zero = there.solver._replace(smoothing=min(smoothing, START)), np.random.default_rng(0), state.w * 0.0
    run = method.init(task, state.w, rng)
    if not (there.last and np.isnan(state.value)):
        return run, state
    state = state._replace(w=zero, value=state.first, on_sample=np.inf)
    return (method._replace(smoothing=START).init(task, zero, rng) if run.value > state.first else run), state


def _certified(problem: Staged, solver: Auto, state: AutoState, run: Any, slopes: Any) -> tuple[AutoState, bool]:
    """The state at the point of which most is proved, with the better bounds, and whether they have changed much.

    An objective may drown in the cost of a risk: where an earlier point seems better, that too is proved.
    """
    known = problem.measured()
    made, old = known.passes.copy(), bounds(state)
    new = certify_measured(known, PointToProve(run.w, run.y, slopes), solver.tol)
    primal, dual = new.primal, max(old.dual, new.dual)
    if state.value < run.value:
        primal = certify_measured(known, PointToProve(state.w, run.y, slopes), np.inf).primal
    better = between(min(primal, new.primal), dual)
    if new.primal <= primal:
        state = state._replace(w=run.w, value=run.value)
    if new.dual >= old.dual:
        state = state._replace(y=run.y)
    state = _counted(state._replace(primal=better.primal, dual=better.dual), known.passes - made)
    return state, not better.gap > 0.9 * old.gap  # the relative gap is 1 for any bound far below zero


def bounds(state: AutoState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


@like_state.of(Auto)
def _(solver, problem, blank, found):
    check_code("stage", found.stage, problem.stages)
    there = problem.stages[found.stage]
    if not running(there.solver, found).w.size:
        return blank
    run = there.solver.init(there.task(), blank.w, np.random.default_rng(0))
    return with_running(there.solver, blank, like_state(there.solver, there.task(), run, running(there.solver, found)))


@check_state.of(Auto)
def _(solver, state):
    check_code("ended", state.ended, ENDINGS)
    check_state(Newton(), state.newton)
    check_state(SmoothedLBFGS(), state.lbfgs)
    check_state(CompositeNewton(), state.composite)


@known_stop.of(Auto)
def _(solver, state):
    return ENDINGS[state.ended]


@known_certificate.of(Auto)
def _(solver, state):
    return bounds(state) if np.isfinite(state.primal) else None


@known_value.of(Auto)
def _(solver, state):
    return state.value


@known_slopes.of(Auto)
def _(solver, state):
    if np.isnan(state.value):  # of a sample
        return None
    if np.array_equal(state.newton.y, state.y):  # not where other weights proved more
        return state.newton.slopes
    if np.array_equal(state.composite.y, state.y):
        return known_slopes(CompositeNewton(), state.composite)
    return known_slopes(SmoothedLBFGS(), state.lbfgs) if np.array_equal(state.lbfgs.y, state.y) else None


@on_all_rows.of(Auto)
def _(solver, state):
    return bool(np.isfinite(state.value))


@known_phase.of(Auto)
def _(solver, state):
    if not state.t:
        return "start"
    return "lbfgs" if state.lbfgs.w.size else "newton"


@iterations_made.of(Auto)
def _(solver, state, asked):
    return state.t


@passes_made.of(Auto)
def _(solver, problem, state, t):
    return Oracles(round(state.values * problem.samples), round(state.gradients * problem.samples))


@calls_ahead.of(Auto)
def _(solver, problem, state, t, steps):
    stage = problem.stages[state.stage]
    return stage.solver.oracles(stage.task(), steps) if _run(problem, state).w.size else Oracles(0, 0)
