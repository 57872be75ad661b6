"""No step sizes: choose a method by its cost, start on a sample of the rows, finish on all, stop on the certificate."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.auto.choice import CHEAPER_BY_CUTS, ONLY_BY_CUTS, Staged, choose, planned
from xrisk.auto.staging import ENDINGS, AutoState, NotBegun, auto_step, bounds, start_state
from xrisk.certificate import refuse_unknown
from xrisk.data.threads import Interrupted, one_thread_each
from xrisk.functions.parameters import positive
from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem
from xrisk.solvers.base import (
    calls_ahead,
    check_code,
    check_state,
    iterations_made,
    known_certificate,
    known_gap,
    known_phase,
    known_slopes,
    known_stop,
    known_value,
    like_state,
    on_all_rows,
    passes_made,
)
from xrisk.solvers.card import CERTIFIABLE, MethodCard
from xrisk.solvers.full_batch import METHOD_OF


class Auto(NamedTuple):
    """A solver without step sizes: a Newton method or smoothed L-BFGS, whichever costs less, ended by the certificate.

    The cost of an iteration follows from the shape of the data and from how long products with rows, Gram matrices
    and losses take, which were measured once and are fields; so the same problem is solved in the same way on every
    machine. Where there are many rows, samples of them are solved first, each warm-starting the next. A certificate is
    computed when the method's own estimate of the gap says that it may succeed.

    Some problems have a method of their own. `RowNewton` takes risks over single rows, `xrisk.inner.Samples`, except a
    CVaR over few rows of many columns; `Faces` takes quadratics on a domain such as a simplex. Losses in the tail,
    `xrisk.inner.Tail`, and many pairs under a CVaR, of a loss whose sums over all pairs take a sorting at most, are
    left to `Bundle`, which has its own certificate.

    Parameters
    ----------
    tol : float
        Certified relative gap at which a run ends; so does an objective below 1e-12 of that of a constant model, a
        perfect fit.
    weights : ndarray (n, m), optional
        Dual weights to certify a warm start with.
    shares : tuple of float
        Shares of the rows to start with.
    least_rows : int
        Samples of fewer rows, and of fewer than eight for each variable, get no stage.
    least_speedup : float
        By which factor an iteration on a sample must be faster than one on all rows.
    newton_steps, composite_steps, lbfgs_steps, blind_steps : float
        Iterations that Newton's method, that for composite functions and L-BFGS are expected to take, if no sample has
        shown them; the last one is for L-BFGS where losses have kinks or the gradients of the inner functions are too
        many to be kept.
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
    least_speedup: float = 6.0
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
        positive("tol", self.tol)
        chosen = choose(problem, self, (ONLY_BY_CUTS, CHEAPER_BY_CUTS))
        if chosen is not self:
            return chosen.prepare(problem)
        refuse_unknown(problem)
        return planned(problem, self), self

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        return w

    def init(self, problem: Staged, x: np.ndarray, rng: np.random.Generator) -> AutoState:
        return start_state(problem, self, x)

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
                    return state  # L-BFGS has written into its memory before
        return state

    def solution(self, state: AutoState) -> np.ndarray:
        return state.w

    def dual(self, problem: Staged, state: AutoState) -> np.ndarray:
        return state.y

    def oracles(self, problem: Staged, t: int) -> Oracles:
        return Oracles(t, t)  # at the least: iterations on samples are cheap, those on all rows are not


@like_state.of(Auto)
def _(solver, problem, blank, found):
    check_code("stage", found.stage, problem.stages)
    if not found.begun:
        return blank
    stage = problem.stages[found.stage]
    return blank._replace(run=stage.solver.init(stage.task(), blank.w, np.random.default_rng(0)))


@check_state.of(Auto)
def _(solver, state):
    check_code("ended", state.ended, ENDINGS)
    if type(state.run) is not NotBegun:
        check_state(METHOD_OF[type(state.run)], state.run)


known_stop.of(Auto)(lambda solver, state: ENDINGS[state.ended])
known_certificate.of(Auto)(lambda solver, state: bounds(state) if np.isfinite(state.primal) else None)
known_value.of(Auto)(lambda solver, state: state.value)
known_gap.of(Auto)(lambda solver, state: state.run.gap if state.begun and np.isfinite(state.value) else np.nan)
on_all_rows.of(Auto)(lambda solver, state: bool(np.isfinite(state.value)))
iterations_made.of(Auto)(lambda solver, state, requested: state.t)


@known_slopes.of(Auto)
def _(solver, state):
    if np.isnan(state.value) or not np.array_equal(getattr(state.run, "y", None), state.y):
        return None  # those of a sample, or of other weights than those that have proved most
    return known_slopes(METHOD_OF[type(state.run)], state.run)


@known_phase.of(Auto)
def _(solver, state):
    return known_phase(METHOD_OF[type(state.run)], state.run) if state.t else "start"


@passes_made.of(Auto)
def _(solver, problem, state, t):
    return Oracles(round(state.values * problem.samples), round(state.gradients * problem.samples))


@calls_ahead.of(Auto)
def _(solver, problem, state, t, steps):
    stage = problem.stages[state.stage]
    return stage.solver.oracles(stage.task(), steps) if state.begun else Oracles(0, 0)
