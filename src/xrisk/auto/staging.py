"""Stages of full-batch methods, on samples of the rows and on all of them, ended by the certificate."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec
from xrisk.auto.choice import Stage, Staged
from xrisk.certificate import NOTHING_PROVED, Certificate, between, certify_measured, is_perfect
from xrisk.data.threads import Interrupted, give_way, uninterrupted
from xrisk.inner.oracle import inner_count, inner_dim, inner_samples
from xrisk.run.start import first_point
from xrisk.solvers.base import PointToProve, Stop, known_stop
from xrisk.solvers.full_batch import points_to_prove
from xrisk.solvers.newton.points import START
from xrisk.solvers.newton.smoothed import constant_size

WARM = 1e-2  # first smoothing of a warm start
MORE = 1.5  # times as many iterations as on a sample L-BFGS is expected to take on all rows
TRIES = 3  # certificates in a row that leave the bounds as they were, after which a method is given up
MARGIN = 0.8  # of the tolerance that a method gets: an estimate is not a proof
FIRST_TOL = 1e-9  # the least that it gets first: proofs of less come one by one
LEAST_TOL = 1e-14
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.FLAT, Stop.UNBOUNDED, Stop.PERFECT)


class NotBegun(NamedTuple):
    """The state of a method before its stage begins."""


class AutoState(NamedTuple):
    w: np.ndarray  # (d,) the best parameters so far, those of a sample while one is solved
    y: np.ndarray  # (n, m) dual weights
    run: Any  # state of the method of the stage, `NotBegun` before it has one
    begun: int  # 1 once it has one
    stage: int
    tol: float  # of the method
    value: float  # objective at w; NaN while only a sample is known
    first: float  # objective at the start
    on_sample: float  # objective of the sample, while one is solved
    primal: float  # proved upper bound on the objective at w
    dual: float  # proved lower bound on the optimum
    size: float  # objective of a constant model, or by how much a linear term can lower it
    tries: int  # certificates in a row without progress
    ended: int  # 0 while running
    values: float  # full passes for values, those over a sample in part
    gradients: float  # full passes for gradients
    t: int  # iterations of all stages


def bounds(state: AutoState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


def reached(tol: float, known: Certificate, size: float) -> Stop | None:
    """Whether the gap is within the tolerance, or the fit perfect; None while neither is."""
    return Stop.CONVERGED if known.relative <= tol else Stop.PERFECT if is_perfect(known, size) else None


def start_state(problem: Staged, solver: Solver, x: np.ndarray) -> AutoState:
    """The state at a start, which is certified unless it is that of a run that was given none."""
    with uninterrupted():  # there is no result without it
        first = float(problem.problem.value(x))
    warm = bool(x.any())
    size, made = constant_size(problem.problem, np.nan if warm else first)
    if problem.is_linear_in_part:
        size = max(size, problem.stages[-1].task().linear_size)
    shape = (inner_count(problem.problem.inner), inner_dim(problem.problem.inner))
    known, has_weights = NOTHING_PROVED, solver.weights.shape == shape
    if warm and not np.array_equal(x, first_point(problem.problem, None)):
        with suppress(Interrupted):
            known = certify_measured(problem.measured(), PointToProve(x, solver.weights if has_weights else None))
    y = solver.weights if warm and has_weights else np.ones(shape)
    stage = [one.on_all_rows for one in problem.stages].index(True) if warm else 0
    ended = ENDINGS.index(reached(solver.tol, known, size))
    state = AutoState(
        x, y, NotBegun(), 0, stage, max(MARGIN * solver.tol, FIRST_TOL), first, first, np.inf, known.primal,
        known.dual, size, 0, ended, 1.0 + made, 0.0, 0,
    )  # fmt: skip
    return _counted(state, problem.measured().passes) if known.primal < np.inf else state


def auto_step(problem: Staged, solver: Solver, state: AutoState, rng: Any) -> AutoState:
    """One iteration of the method of the stage; where it ends, the certificate, or the next stage.

    If these are interrupted, the iteration stays, and the next step begins with them.
    """
    if not state.begun:
        state = _begin(problem, state, state.stage, WARM if state.w.any() else START)
    stage = problem.stages[state.stage]
    state = _iterated(problem, stage, state, rng)
    if known_stop(stage.solver, state.run) is None:
        return _with_best(stage, state)
    try:
        return _followed(problem, solver, state)
    except Interrupted:
        return _with_best(stage, state)


def _iterated(problem: Staged, stage: Stage, state: AutoState, rng: Any) -> AutoState:
    task, before = stage.task(), state.run
    run = stage.solver._replace(tol=_tolerance(stage, state)).advance(task, before, 1, rng)
    waited = before.ended and before.t  # the certificate was interrupted
    passes = np.array([run.values - before.values, run.gradients - before.gradients])
    state = state._replace(run=run, t=state.t if waited else state.t + 1)
    return _counted(state, passes, inner_samples(task.inner) / problem.samples)


def _tolerance(stage: Stage, state: AutoState) -> float:
    return min(max(state.tol, stage.least_tol), stage.most_tol)


def _counted(state: AutoState, passes: np.ndarray, share: float = 1.0) -> AutoState:
    values, gradients = (share * passes).tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients)


def _with_best(stage: Stage, state: AutoState) -> AutoState:
    """The state at the point of its method, if that is better."""
    run = state.run
    if not stage.on_all_rows:
        return state if run.value > state.on_sample else state._replace(w=run.w, on_sample=run.value)
    if run.value > state.value:
        return state
    return state._replace(w=run.w, y=stage.solver.dual(stage.task(), run), value=run.value)


def _followed(problem: Staged, solver: Solver, state: AutoState) -> AutoState:
    """What follows where the method of a stage has ended."""
    stage, run = problem.stages[state.stage], state.run
    if not stage.on_all_rows:
        return _begin(problem, state._replace(w=run.w), _after(problem, state), 2.0 * run.theta)
    state, progress = _certified(problem, solver, _with_best(stage, state))
    enough, stop = reached(solver.tol, bounds(state), state.size), known_stop(stage.solver, run)
    finer = _tolerance(stage, state) > max(LEAST_TOL, stage.least_tol)
    more = finer and stop is Stop.CONVERGED and state.tries + 1 < TRIES
    is_start = run.value > state.value >= state.first  # which may be within the tolerance, but is no model
    if enough and not (is_start and more):
        return state._replace(ended=ENDINGS.index(enough))
    give_way()  # a certificate that was cut short does not count
    tries = 0 if progress and not enough else state.tries + 1
    if finer and stop in (Stop.CONVERGED, Stop.FLAT) and tries < TRIES:  # its estimate was too low
        return state._replace(run=run._replace(ended=0), tol=0.2 * state.tol, tries=tries)
    if state.stage + 1 < len(problem.stages):
        return _begin(problem, state._replace(tries=0), state.stage + 1, WARM)
    return state._replace(ended=ENDINGS.index(stop if stop in (Stop.FLAT, Stop.UNBOUNDED) else Stop.ROUNDING))


def _after(problem: Staged, state: AutoState) -> int:
    """The stage after one on a sample: the one after next if it costs less by the iterations taken on the sample."""
    stage, following = problem.stages[state.stage], state.stage + 1
    seconds = (MORE * state.run.t + 5.0) * stage.step_seconds
    skips = problem.stages[following].on_all_rows and state.run.t and stage.other_seconds < seconds
    return following + 1 if skips else following


def _begin(problem: Staged, state: AutoState, number: int, smoothing: float) -> AutoState:
    """The state at the beginning of a stage, at the parameters found so far."""
    stage = problem.stages[number]
    for other in problem.stages:
        if not other.on_all_rows and other is not stage:
            other.task.cache_clear()  # its rows are a copy
    is_prepared = state.begun and stage.task is problem.stages[state.stage].task
    task = stage.task()
    made = task.passes.copy()
    run, state = _first_run(stage, task, state, smoothing)
    state = state._replace(run=run, begun=1, stage=number)
    state = _with_best(stage, state) if stage.on_all_rows else state._replace(value=np.nan, on_sample=run.value)
    passes = task.passes - made if is_prepared else task.passes - made + task.prepared
    return _counted(state, passes, inner_samples(task.inner) / problem.samples)


def _first_run(stage: Stage, task: Spec, state: AutoState, smoothing: float) -> tuple[Any, AutoState]:
    """The method of a stage at the parameters found so far, or at the start where a sample has found none better."""
    rng, zero = np.random.default_rng(0), state.w * 0.0
    run = _method(stage, state, min(smoothing, START)).init(task, state.w, rng)
    if not (stage.on_all_rows and np.isnan(state.value)):
        return run, state
    state = state._replace(w=zero, value=state.first, on_sample=np.inf)
    return (_method(stage, state, START).init(task, zero, rng) if run.value > state.first else run), state


def _method(stage: Stage, state: AutoState, smoothing: float) -> Any:
    """The method of a stage with its tolerance and, if it has one, its first smoothing."""
    method = stage.solver._replace(tol=_tolerance(stage, state))
    return method._replace(smoothing=smoothing) if "smoothing" in method._fields else method


def _certified(problem: Staged, solver: Solver, state: AutoState) -> tuple[AutoState, bool]:
    """The state at the point of which most is proved, with the better bounds, and whether they have changed much.

    The objective may be small beside the cost of a risk: where an earlier point seems better, it is certified too.
    """
    stage, run, known, old = problem.stages[state.stage], state.run, problem.measured(), bounds(state)
    task, before = stage.task(), known.passes.copy()
    own = task.passes.copy()
    primal, dual = np.inf, -np.inf
    for point in points_to_prove(stage.solver, task, run):
        new = certify_measured(known, point, solver.tol)
        primal, dual = min(primal, new.primal), max(dual, new.dual)
        if reached(solver.tol, between(primal, max(dual, old.dual)), state.size):
            break
    best = primal
    if state.value < run.value:
        best = certify_measured(known, point._replace(w=state.w), np.inf).primal
    better = between(min(primal, best), max(dual, old.dual))
    if primal <= best:
        state = state._replace(w=run.w, value=run.value)
    if dual >= old.dual:
        state = state._replace(y=stage.solver.dual(task, run))
    passes = known.passes - before + task.passes - own
    state = _counted(state._replace(primal=better.primal, dual=better.dual), passes)
    return state, not better.gap > 0.9 * old.gap  # the relative gap is 1 for every bound far below zero
