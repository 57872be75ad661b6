"""No step sizes: choose a method by its cost, start on a sample of the rows, finish on all, stop on the certificate."""

from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate import Certificate, between, certify_measured, measured, refuse_unknown
from xrisk.data.products import row_bytes, row_work
from xrisk.data.rows import row_count
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_samples, inner_size
from xrisk.inner.passes import add_hessian, as_linear_groups, pass_rows, sampled, score_count
from xrisk.problem import Problem
from xrisk.solvers.base import (
    Stop,
    check_positive,
    iterations_made,
    known_certificate,
    known_phase,
    known_slopes,
    known_stop,
    known_value,
    knows_more,
    passes_made,
)
from xrisk.solvers.card import CERTIFIABLE, MethodCard
from xrisk.solvers.lbfgs import NO_LBFGS, LBFGSState, SmoothedLBFGS
from xrisk.solvers.newton.smoothed import START, SmoothedProblem, smoothed_problem
from xrisk.solvers.newton.solver import MAX_VARIABLES, NO_NEWTON, Newton, NewtonState

WARM = 1e-2  # first smoothing of a warm start
MORE = 1.5  # times as many iterations as on a sample L-BFGS is expected to take on all rows
SAMPLE_TOL = 0.02  # to which samples of the rows are solved
IN_VAIN = 3  # certificates in a row that leave the bounds as they were, after which a method is given up
HESSIAN_ROWS = 50  # for each variable: a Hessian of so many rows is as good as one of all
ASKED = 0.8  # of the tolerance: an estimate is not a proof
FIRST_TOL = 1e-9  # what a method is asked for first, whatever the tolerance: proofs of less come one by one
LEAST_TOL = 1e-14
ENDINGS = (None, Stop.CONVERGED, Stop.ROUNDING, Stop.FLAT, Stop.UNBOUNDED)


class Stage(NamedTuple):
    """A method on the problem, or on a sample of its rows; prepared when first asked for, which takes passes."""

    task: Any  # () → SmoothedProblem
    solver: Any
    last: int  # 1 on all rows


class Staged(NamedTuple):
    """The problem as `Auto` works on it."""

    problem: Problem
    measured: Any  # for certificates
    stages: tuple[Stage, ...]
    newton_seconds: float  # expected of Newton's method on all rows; inf where it cannot be run
    lbfgs_step_seconds: float  # expected of an iteration of L-BFGS on all rows


class AutoState(NamedTuple):
    w: np.ndarray  # (d,) parameters
    y: np.ndarray  # (n, m) dual weights
    newton: NewtonState  # of a stage that runs Newton's method
    lbfgs: LBFGSState  # of a stage that runs L-BFGS
    stage: int
    tol: float  # what the method is asked for
    value: float  # objective; NaN while only a sample is known
    primal: float  # proved upper bound on the objective at w
    dual: float  # proved lower bound on the optimum
    first: float  # objective at the first point
    tries: int  # certificates in a row that brought nothing
    ended: int  # 0 while running
    values: float  # full passes for values, those over a sample in part
    gradients: float  # full passes for gradients
    t: int  # iterations of all stages


class Auto(NamedTuple):
    """A solver without step sizes: Newton's method or smoothed L-BFGS, whichever costs less, ended by the certificate.

    The cost of an iteration is known from the shape of the data and from how long products with rows, Gram matrices
    and losses take, which were measured once and are fields; so the same problem is solved in the same way on every
    machine. Where all rows are many, samples of them are solved first, each warm-starting the next. A certificate is
    computed when the method's own estimate of the gap says that it may succeed.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends; an objective below 1e-12 of that of the first point is good enough
        as well.
    weights : ndarray (n, m), optional
        Dual weights to certify a warm start with.
    shares : tuple of float
        Shares of the rows to start with.
    least_rows : int
        Samples of fewer rows, and of fewer than eight for each variable, are not worth a stage.
    least_gain : float
        An iteration on a sample must cost so many times less than one on all rows.
    newton_steps, lbfgs_steps : float
        Iterations that either method is expected to take; those of L-BFGS where no sample has shown them.
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
    shares: tuple[float, ...] = (0.01, 0.1)
    least_rows: int = 2000
    least_gain: float = 6.0
    newton_steps: float = 8.0
    lbfgs_steps: float = 70.0
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

    def prepare(self, problem: Problem) -> tuple[Staged, Any]:
        check_positive("tol", self.tol)
        refuse_unknown(problem)
        stages, (newton, lbfgs) = tuple(self.stages(problem)), self.costs(problem)
        known = measured(problem, stages[-1].task().columns)
        return Staged(problem, known, stages, newton, lbfgs), self

    def stages(self, problem: Problem) -> list[Stage]:
        """The methods to run, one after another; samples are solved by L-BFGS, which tells how well it does."""
        g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
        stages, (newton, lbfgs) = [], self.costs(problem)
        for share in self.shares:
            rows = share * inner_samples(g)
            worth = lbfgs > self.least_gain * (share * (lbfgs - self.call_seconds) + self.call_seconds)
            if worth and rows >= max(self.least_rows, 8 * d) and sampled.implemented(g):
                stages.append(Stage(cache(partial(sample_task, problem, share)), SmoothedLBFGS(), 0))
        task = cache(partial(smoothed_problem, problem))
        if stages or newton > self.lbfgs_steps * lbfgs:
            stages.append(Stage(task, SmoothedLBFGS(), 1))
        if np.isfinite(newton):  # where L-BFGS costs more, or ends short of the certificate
            stages.append(Stage(task, Newton(hessian_rows=HESSIAN_ROWS), 1))
        return stages

    def costs(self, problem: Problem) -> tuple[float, float]:
        """Expected seconds of Newton's method and of an iteration of L-BFGS; inf where there is no such method."""
        g, d = as_linear_groups(problem.inner), inner_size(problem.inner)
        once = self.pass_seconds(problem)
        lbfgs = 3.0 * once + 400.0 * d / self.read_rate + self.call_seconds
        if d > MAX_VARIABLES or not add_hessian.implemented(g):
            return np.inf, lbfgs
        rows = row_count(pass_rows(g))
        gram = row_work(pass_rows(g)) * score_count(g) ** 2 * min(1.0, HESSIAN_ROWS * d / rows) + d**3 / 3.0
        step = gram / self.product_rate + 5.0 * once + 2.0 * self.call_seconds
        return self.newton_steps * step, lbfgs

    def pass_seconds(self, problem: Problem) -> float:
        """Seconds of reading all rows once and of a walk over all samples."""
        g = as_linear_groups(problem.inner)
        return row_bytes(pass_rows(g)) / self.read_rate + inner_samples(g) * self.sample_seconds

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: Staged, x: np.ndarray, rng: np.random.Generator) -> AutoState:
        first, warm = float(problem.problem.value(x)), bool(x.any())
        shape = (inner_count(problem.problem.inner), inner_dim(problem.problem.inner))
        known, y = Certificate(np.inf, -np.inf, np.inf, np.inf), np.ones(shape)
        if warm:
            y = self.weights if self.weights.shape == shape else y
            known = certify_measured(problem.measured, Known(x, y if self.weights.shape == shape else None))
        ended = ENDINGS.index(Stop.CONVERGED) if self.reached(known, first) else 0
        tol = max(ASKED * self.tol, FIRST_TOL)
        state = AutoState(
            x, y, NO_NEWTON, NO_LBFGS, 0, tol, first, known.primal, known.dual, first, 0, ended, 1.0, 0.0, 0
        )  # fmt: skip
        stage = [one.last for one in problem.stages].index(1) if warm else 0
        return state if ended else _begin(problem, state, stage, WARM if warm else START)

    def advance(self, problem: Staged, state: AutoState, n_steps: int, rng: Any) -> AutoState:
        for _ in range(n_steps):
            if state.ended:
                return state
            state = auto_step(problem, self, state, rng)
        return state

    def reached(self, known: Certificate, first: float) -> bool:
        """Whether the gap is small beside the optimum; an optimum of zero, a perfect fit, has no digits to compare."""
        return known.relative <= self.tol or max(known.gap, known.primal) <= 1e-12 * first

    def solution(self, state: AutoState) -> np.ndarray:
        return state.w

    def dual(self, problem: Staged, state: AutoState) -> np.ndarray:
        return state.y

    def oracles(self, problem: Staged, t: int) -> Oracles:
        return Oracles(t, t)  # at the least: iterations on samples are cheap, those on all rows are not


class Known(NamedTuple):
    """What `certify_measured` looks at."""

    w: np.ndarray
    dual: np.ndarray | None
    slopes: Any = None


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


@with_running.of(Newton)
def _(solver, state, run):
    return state._replace(newton=run)


@with_running.of(SmoothedLBFGS)
def _(solver, state, run):
    return state._replace(lbfgs=run)


def auto_step(problem: Staged, solver: Auto, state: AutoState, rng: Any) -> AutoState:
    """One iteration of the method of the stage; where it ends, the certificate, or the next stage."""
    stage = problem.stages[state.stage]
    method, before = stage.solver._replace(tol=_asked(stage, state)), running(stage.solver, state)
    run = method.advance(stage.task(), before, 1, rng)
    share = inner_samples(stage.task().inner) / inner_samples(problem.stages[-1].task().inner)
    state = with_running(stage.solver, state, run)._replace(
        values=state.values + share * (run.values - before.values),
        gradients=state.gradients + share * (run.gradients - before.gradients),
        t=state.t + 1,
    )
    stop = known_stop(method, run)
    if not stage.last:
        return (
            state
            if stop is None
            else _begin(problem, state._replace(w=run.w), _after(problem, state, run), 2.0 * run.theta)
        )
    if stop is None:
        return state if run.value > state.value else state._replace(w=run.w, y=run.y, value=run.value)
    state, brought = _certified(problem, solver, state, run, known_slopes(method, run))
    if solver.reached(bounds(state), state.first):
        return state._replace(ended=ENDINGS.index(Stop.CONVERGED))
    tries = 0 if brought else state.tries + 1
    if stop in (Stop.CONVERGED, Stop.FLAT) and tries < IN_VAIN and state.tol > LEAST_TOL:  # it was too hopeful
        run = run._replace(ended=0)
        return with_running(stage.solver, state, run)._replace(tol=0.2 * state.tol, tries=tries)
    if state.stage + 1 < len(problem.stages):
        return _begin(problem, state._replace(tol=max(ASKED * solver.tol, FIRST_TOL), tries=0), state.stage + 1, WARM)
    return state._replace(ended=ENDINGS.index(stop if stop in (Stop.FLAT, Stop.UNBOUNDED) else Stop.ROUNDING))


def _after(problem: Staged, state: AutoState, run: Any) -> int:
    """The stage after one on a sample; on all rows, the method that costs less by what the sample has taken."""
    following = state.stage + 1
    there = problem.stages[following]
    if there.last and problem.newton_seconds < (MORE * run.t + 5.0) * problem.lbfgs_step_seconds:
        return len(problem.stages) - 1
    return following


def _asked(stage: Stage, state: AutoState) -> float:
    return state.tol if stage.last else max(SAMPLE_TOL, state.tol)


def sample_task(problem: Problem, share: float) -> SmoothedProblem:
    """The problem on a sample of its rows, prepared."""
    g = sampled(as_linear_groups(problem.inner), share, np.random.default_rng(0))
    return smoothed_problem(problem._replace(inner=g))


def _begin(problem: Staged, state: AutoState, stage: int, smoothing: float) -> AutoState:
    """The state at the beginning of a stage, at the parameters found so far."""
    there = problem.stages[stage]
    for other in problem.stages:
        if not other.last and other is not there:
            other.task.cache_clear()  # its rows are a copy
    method = there.solver._replace(smoothing=min(smoothing, START))
    run = method.init(there.task(), state.w, np.random.default_rng(0))
    blank = state._replace(newton=NO_NEWTON, lbfgs=NO_LBFGS, stage=stage)
    return with_running(there.solver, blank, run)._replace(value=run.value if there.last else np.nan)


def _certified(problem: Staged, solver: Auto, state: AutoState, run: Any, slopes: Any) -> tuple[AutoState, bool]:
    """The state with the better of either bound and the point it is of, and whether the bounds have changed much."""
    new, old = certify_measured(problem.measured, Known(run.w, run.y, slopes), solver.tol), bounds(state)
    better = between(min(old.primal, new.primal), max(old.dual, new.dual))
    state = state._replace(primal=better.primal, dual=better.dual)
    if new.primal <= old.primal:
        state = state._replace(w=run.w, y=run.y, value=run.value)
    return state, not better.relative > 0.9 * old.relative


def bounds(state: AutoState) -> Certificate:
    """What is proved so far."""
    return between(state.primal, state.dual)


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
    if np.array_equal(state.newton.w, state.w):  # not where an earlier point was better
        return state.newton.slopes
    return known_slopes(SmoothedLBFGS(), state.lbfgs) if np.array_equal(state.lbfgs.w, state.w) else None


@knows_more.of(Auto)
def _(solver, state):
    return bool(np.isfinite(state.value))


@known_phase.of(Auto)
def _(solver, state):
    if not state.t:
        return "start"
    return "newton" if state.newton.w.size else "lbfgs"


@iterations_made.of(Auto)
def _(solver, state, asked):
    return state.t


@passes_made.of(Auto)
def _(solver, problem, state, t):
    samples = inner_samples(problem.stages[-1].task().inner)
    return Oracles(int(state.values * samples), int(state.gradients * samples))
