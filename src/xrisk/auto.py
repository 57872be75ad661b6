"""No step sizes: race a few, continue the winner, finish with Newton's method, stop on the certificate."""

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate import Certificate, between, certify
from xrisk.inner.groups import group_form
from xrisk.inner.oracle import inner_count, inner_dim, inner_lipschitz, inner_size, inner_smoothness
from xrisk.persistence import savable
from xrisk.problem import Problem
from xrisk.run.budget import Stop
from xrisk.run.driver import ctrl_c, first_point
from xrisk.solvers import ALEXR, Optimum, UniformAverage, exact
from xrisk.solvers.exact import LARGEST
from xrisk.solvers.newton import ROUGHNESS, row_lengths, step_work

NEWTON_STEPS = 30  # a full-batch solve takes about so many
NEWTON_MOST = 400  # after so many it gives up
IN_VAIN = 3  # solves in a row that leave the bounds as they were, after which it gives up
NEWTON_AT_ONCE = 3e11  # floating-point operations of such a solve below which nothing is gained by sampling first
SHARE = 0.25  # of the work of a full-batch solve that is spent on sampling before it
STEPS = (0.03, 0.3, 3.0, 30.0)  # primal steps of the race, over the curvature of the inner functions
DUAL_STEPS = (0.01, 0.1, 1.0)
NOTHING = 1e-12  # an objective this small beside that of the first point is zero
LAP = 200  # iterations of the first lap; each lap halves the field and doubles its length


@savable
class AutoPoint(NamedTuple):
    """What was known at one moment: the optimum lies between ``dual`` and ``primal``."""

    seconds: float
    iterations: int
    primal: float
    dual: float
    phase: str


class Solution(NamedTuple):
    """What `auto` found, and what is proved of it."""

    w: np.ndarray  # (d,)
    value: float
    dual: np.ndarray  # (n, m)
    certificate: Certificate
    stop: Stop
    iterations: int  # of the stochastic method, and Newton steps
    trace: tuple[AutoPoint, ...]


def auto(
    problem: Problem,
    w0: np.ndarray | None = None,
    dual: np.ndarray | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 1_000_000,
    max_seconds: float = np.inf,
    rng: int | np.random.Generator | None = None,
    watch: Callable[[AutoPoint, np.ndarray], None] | None = None,
    until: Callable[[], bool] = lambda: False,
) -> Solution:
    """Minimise a convex problem of a linear model until its certified relative gap is at most ``tol``.

    Where a full-batch Newton solve is cheap it is all there is. Otherwise a few step sizes of ALEXR are raced,
    the winner goes on in stages of halved steps and doubled length whose averages are certified, and Newton's method
    finishes where the number of variables allows it.

    Parameters
    ----------
    problem : Problem
        Group or pair means of a linear model with a penalty or domain of ours.
    w0 : ndarray (d,), optional
        Certified first, which may be all there is to do; the stochastic phase starts there.
    dual : ndarray (n, m), optional
        Dual weights to certify ``w0`` with.
    tol : float
        Certified relative gap to reach; an objective below 1e-12 of that of the first point is good enough as well.
    max_iter : int
        Iterations of ALEXR plus Newton steps.
    max_seconds : float
        Wall-clock limit; what is returned then may depend on the machine.
    rng : int or Generator
        The seed.
    watch : function of an AutoPoint and the best w (d,), optional
        Called whenever the bounds are known anew.
    until : function → bool
        Asked between chunks of work and between Newton steps; true ends the search.

    Returns
    -------
    Solution
        ``stop`` is ``Stop.REACHED``, or says which limit ran out; the certificate holds in any case.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.auto import auto
    >>> from xrisk.datasets import make_groups
    >>> table = make_groups(5, n=500, random_state=0)
    >>> problem = xrisk.group_dro(table.X, table.y, table.groups, divergence="max", l2=0.01)
    >>> solution = auto(problem, tol=1e-4, rng=0)
    >>> solution.certificate.relative <= 1e-4
    True
    """
    if not 0.0 < tol < np.inf:
        raise ValueError(f"tol must be positive, got {tol}")
    if max_iter < 1 or not max_seconds > 0:
        raise ValueError(f"max_iter must be at least 1 and max_seconds positive, got {max_iter} and {max_seconds}")
    problem.check()
    with ctrl_c() as pressed:
        limits = _Limits(tol, max_iter, max_seconds, lambda: bool(pressed) or until())
        search = _Search(problem, first_point(problem, w0), limits, watch)
        if w0 is not None:
            search.learn(_Point(search.w, dual), "start")
        work = newton_work(problem)
        if work > NEWTON_AT_ONCE and search.reason() is None:
            share = SHARE * work / stochastic_work(problem) if np.isfinite(work) else np.inf
            search.sample(np.random.default_rng(rng), share)
        if np.isfinite(work) and search.reason() is None:
            search.finish()
    return search.solution()


def newton_work(problem: Problem) -> float:
    """Floating-point operations of a full-batch solve; inf where there are too many variables for one."""
    g, d = group_form(problem.inner), inner_size(problem.inner)
    if not step_work.implemented(g) or d > LARGEST:
        return np.inf
    return NEWTON_STEPS * (step_work(g) + d**3 / 3.0)


def stochastic_work(problem: Problem) -> float:
    """Floating-point operations of one iteration of the raced solver, by the time they take."""
    solver = ALEXR().prepare(problem)[1]
    return 10.0 * (solver.blocks or 1) * solver.batch * inner_size(problem.inner) * ROUGHNESS


def _curvature(problem: Problem) -> float:
    """About how much the inner functions bend; where no bound is known, as the squares of the rows are long."""
    g = problem.inner
    bounds = (inner_smoothness(g), inner_lipschitz(g) ** 2, row_lengths(group_form(g)).mean())
    return next((float(bound) for bound in bounds if np.isfinite(bound) and bound > 0.0), 1.0)


class _Limits(NamedTuple):
    tol: float
    max_iter: int
    max_seconds: float
    interrupted: Callable[[], bool]


class _Runner(NamedTuple):
    solver: ALEXR
    state: Any
    value: float


class _Search:
    """The best point, the best bounds, and what has been used."""

    def __init__(self, problem: Problem, w: np.ndarray, limits: _Limits, watch: Any) -> None:
        self.problem, self.limits, self.watch = problem, limits, watch
        self.started, self.iterations, self.halted = time.perf_counter(), 0, False
        self.w, self.dual_weights = w, np.ones((inner_count(problem.inner), inner_dim(problem.inner)))
        self.certificate: Certificate | None = None
        self.trace: list[AutoPoint] = []
        self.first = problem.value(w)

    def reason(self) -> Stop | None:
        if self.certificate is not None and self.reached(self.certificate):
            return Stop.REACHED
        if self.limits.interrupted():
            return Stop.INTERRUPTED
        if self.iterations >= self.limits.max_iter:
            return Stop.ITERATIONS
        if time.perf_counter() - self.started >= self.limits.max_seconds:
            return Stop.SECONDS
        return None

    def reached(self, known: Certificate) -> bool:
        """Whether the gap is small beside the optimum; an optimum of zero, a perfect fit, has no digits to compare."""
        return known.relative <= self.limits.tol or max(known.gap, known.primal) <= NOTHING * self.first

    def learn(self, point: Any, phase: str, steps: int = 0) -> None:
        """Certify a point, ``steps`` after the last that were counted; keep the better of either bound."""
        new = certify(self.problem, point)
        if not np.isfinite(new.primal):
            return
        old = self.certificate
        if old is None or new.primal <= old.primal:
            self.w = np.array(point.w)
        if point.dual is not None and (old is None or new.dual >= old.dual):
            self.dual_weights = np.array(point.dual)
        if old is not None:
            new = between(min(old.primal, new.primal), max(old.dual, new.dual))
        self.certificate = new
        seen = AutoPoint(time.perf_counter() - self.started, self.iterations + steps, new.primal, new.dual, phase)
        self.trace.append(seen)
        if self.watch is not None:
            self.watch(seen, self.w)

    def finish(self) -> None:
        """Newton's method, to a gap that leaves room for the allowances of the certificate; more exactly if need be."""
        before, tol, in_vain = self.iterations, 0.5 * self.limits.tol, 0
        while self.reason() is None and tol > 1e-14 and in_vain < IN_VAIN:
            known = np.inf if self.certificate is None else self.certificate.relative
            steps = min(NEWTON_MOST, self.limits.max_iter - self.iterations)
            best = exact(self.problem, tol=tol, max_steps=steps, until=self.between_steps)
            self.iterations += best.steps
            self.learn(best, "newton")
            left = np.inf if self.certificate is None else self.certificate.relative
            in_vain = in_vain + 1 if left > 0.9 * known and known < np.inf else 0
            tol *= 0.1  # in small steps: with columns of 10⁶ the best bounds come well before the smallest tolerance
        self.halted = self.reason() is None and self.iterations > before

    def between_steps(self, steps: int, look: Callable[[], Optimum]) -> bool:
        """Certify after 2, 4, 8, … Newton steps: a certificate costs about as much as a step."""
        if steps >= 2 and steps & (steps - 1) == 0:
            self.learn(look(), "newton", steps)
        return self.stopped() or self.reason() is Stop.REACHED

    def stopped(self) -> bool:
        return self.reason() in (Stop.INTERRUPTED, Stop.SECONDS)

    def sample(self, rng: np.random.Generator, most: float) -> None:
        """Race, then stages of the winner, for at most so many iterations."""
        end = int(min(self.limits.max_iter, max(most, 4 * LAP * len(STEPS) * len(DUAL_STEPS))))
        work, _ = ALEXR().prepare(self.problem)
        if self.certificate is None:
            self.learn(_Point(self.w, None), "start")
        winner = self.race(work, rng)
        length = 4 * LAP * 2
        while self.reason() is None and self.iterations < end:
            winner = self.stage(work, winner, min(length, end - self.iterations), rng)
            length *= 2

    def race(self, work: Problem, rng: np.random.Generator) -> _Runner:
        field = [self.entrant(work, step, dual_step, rng) for step, dual_step in self.grid()]
        lap = LAP
        while len(field) > 1 and self.reason() is None:
            lap = min(lap, (self.limits.max_iter - self.iterations) // len(field))
            if lap == 0:
                self.iterations = self.limits.max_iter  # what is left is not enough for all
                break
            field = sorted((self.run(work, runner, lap, rng) for runner in field), key=lambda runner: runner.value)
            field, lap = field[: max(1, len(field) // 2)], 2 * lap
        self.learn(self.point(work, field[0]), "race")
        return field[0]

    def grid(self) -> list[tuple[float, float]]:
        scale = 1.0 / max(_curvature(self.problem), 1e-300)
        return [(step * scale, dual_step) for step, dual_step in itertools.product(STEPS, DUAL_STEPS)]

    def entrant(self, work: Problem, step: float, dual_step: float, rng: np.random.Generator) -> _Runner:
        solver = ALEXR(step, dual_step, average=UniformAverage()).prepare(self.problem)[1]
        return _Runner(solver, solver.init(work, solver.start(self.problem, self.w), rng), np.inf)

    def run(self, work: Problem, runner: _Runner, steps: int, rng: np.random.Generator) -> _Runner:
        state = runner.solver.advance(work, runner.state, steps, rng)
        self.iterations += steps
        x = runner.solver.solution(state)
        value = self.problem.value(x[: inner_size(self.problem.inner)]) if np.isfinite(x).all() else np.inf
        return _Runner(runner.solver, state, value if np.isfinite(value) else np.inf)

    def stage(self, work: Problem, winner: _Runner, length: int, rng: np.random.Generator) -> _Runner:
        """Half the steps, from the average of the stage before, the duals kept; what got worse is undone."""
        old = winner.solver
        solver = old._replace(step=0.5 * old.step, dual_step=0.5 * old.dual_step)  # type: ignore[operator]
        state = solver.init(work, old.solution(winner.state), rng)
        state = state._replace(z=winner.state.z.copy(), y_mean=winner.state.z.copy())
        runner, done = _Runner(solver, state, np.inf), 0
        while done < length and not self.stopped():
            steps = min(length - done, 5000)
            runner, done = self.run(work, runner, steps, rng), done + steps
        self.learn(self.point(work, runner), "stage")
        return runner if runner.value <= winner.value else _Runner(solver, winner.state, winner.value)

    def point(self, work: Problem, runner: _Runner) -> Any:
        w = runner.solver.solution(runner.state)[: inner_size(self.problem.inner)]
        return _Point(w if np.isfinite(w).all() else self.w, runner.solver.dual(work, runner.state))

    def solution(self) -> Solution:
        if self.certificate is None:
            self.learn(_Point(self.w, self.dual_weights), "start")
        known = self.certificate or between(np.inf, -np.inf)
        stop = self.reason() or (Stop.ROUNDING if self.halted else Stop.ITERATIONS)
        value = self.problem.value(self.w)
        return Solution(self.w, value, self.dual_weights, known, stop, self.iterations, tuple(self.trace))


class _Point(NamedTuple):
    w: np.ndarray
    dual: np.ndarray | None
