"""The one loop: it owns the clock, the budget, the trace and the checkpoints, and knows no solver."""

import contextlib
import functools
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from xrisk.annotations import Solver, State
from xrisk.compile import canonical
from xrisk.data.threads import Interrupted, interruptible, one_thread_each
from xrisk.inner.oracle import Oracles, inner_size
from xrisk.problem import Problem
from xrisk.run.budget import Budget, Progress, Stop
from xrisk.run.checkpoint import Checkpoint, Saved, damaged, leaves, load_run, restored
from xrisk.run.clock import ctrl_c, now
from xrisk.run.fingerprint import fingerprint
from xrisk.run.observers import Snapshot, Trace
from xrisk.run.result import Result
from xrisk.run.start import Start, StartState, first_point, generator
from xrisk.solvers.base import (
    calls_ahead,
    iterations_made,
    known_certificate,
    known_gap,
    known_omega,
    known_phase,
    known_slopes,
    known_stop,
    known_value,
    on_all_rows,
    passes_made,
)

SAME = 1e-12  # relative: objectives that differ by less are the same up to rounding
CHUNK_SECONDS = 0.1  # between two looks at the clock, the observers and Ctrl-C

Observer = Callable[[Snapshot], None]


def minimize(
    problem: Problem,
    solver: Solver,
    w0: np.ndarray | None = None,
    *,
    budget: Budget,
    rng: int | np.random.Generator | None = None,
    trace: Trace | None = None,
    observers: Iterable[Observer] = (),
    until: Callable[[Snapshot], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Run ``solver`` on ``problem`` until the budget is used up.

    Parameters
    ----------
    problem : Problem
        What to minimise.
    solver : solver spec
        For example ``xrisk.solvers.ALEXR()``.
    w0 : ndarray (d,), optional
        Where to start; zero, moved into the domain, by default. It is not written to.
    budget : Budget
        Iterations, oracle calls or time; the first limit reached ends the run.
    rng : int or Generator, optional
        The seed. The same seed gives the same run, whatever else the machine does.
    trace : Trace, optional
        Where the objective is recorded; evaluations do not count as seconds of the solver.
    observers : functions of a Snapshot
        Called a few times a second.
    until : function of a Snapshot → bool, optional
        Called at every point of the trace; true ends the run.
    checkpoint : Checkpoint, optional
        Where to save the run, for `xrisk.resume`.

    Returns
    -------
    Result
        The solver's solution; after Ctrl-C or divergence, the best point of the trace. If time was up or Ctrl-C
        was pressed before the solver could start, this is ``w0``.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 3)), rng.integers(0, 4, 300)
    >>> y = np.where(X[:, 0] > 0, 1, -1)
    >>> problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.5, l2=0.1)
    >>> result = xrisk.minimize(problem, xrisk.solvers.ALEXR(), budget=xrisk.Budget(iterations=2000), rng=0)
    >>> str(result.stop)
    'the budget of iterations is used up'
    >>> result.value < problem.value(np.zeros(3))
    True
    """
    with ctrl_c() as pressed:
        run = _Run(problem, budget, Trace() if trace is None else trace, until, pressed)
        if checkpoint:
            checkpoint.check()
        cut = run.start(solver, w0, generator(rng))
        return run.loop(tuple(observers), None if cut else checkpoint, cut)


def resume(
    problem: Problem,
    solver: Solver,
    path: str | Path,
    *,
    budget: Budget,
    trace: Trace | None = None,
    observers: Iterable[Observer] = (),
    until: Callable[[Snapshot], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Continue the run saved at ``path`` under a budget that counts from its first iteration.

    The result equals that of a run that was never stopped, bit for bit. Problem and solver must be those of the
    saved run; give ``checkpoint`` to keep saving. Preparing the solver a second time does not count; Ctrl-C
    meanwhile raises and does not change the file.
    """
    with ctrl_c() as pressed:
        run = _Run(problem, budget, Trace() if trace is None else trace, until, pressed)
        if checkpoint:
            checkpoint.check()
        run.restore(solver, path)
        return run.loop(tuple(observers), checkpoint)


class _Run:
    task: Any  # the problem as the solver has prepared it
    solver: Solver
    state: State
    rng: np.random.Generator
    best: tuple[float, np.ndarray, np.ndarray]  # value, variable, duals

    def __init__(
        self,
        problem: Problem,
        budget: Budget,
        trace: Trace,
        until: Callable[[Snapshot], bool] | None,
        pressed: list[bool],
    ) -> None:
        self.began, self.before = now(), 0.0  # by the wall clock; seconds that a resumed run had used
        budget.check()
        problem.check()
        self.problem = canonical(problem)
        self.budget, self.trace, self.until, self.pressed = budget, trace, until, pressed
        self.progress = Progress()
        self.present: Snapshot | None = None  # once it has been taken

    def start(self, solver: Solver, w0: np.ndarray | None, rng: np.random.Generator) -> Stop | None:
        """Prepare the solver and evaluate the first point; the reason why it could not be prepared, if so."""
        w, stop = first_point(self.problem, w0), None
        self.rng = rng
        try:
            with self.inside():
                self.prepare(solver, w)
            self.state = self.solver.advance(self.task, self.state, 0, rng)  # kernels are loaded outside the clock
        except Interrupted:
            self.task, self.solver, self.state, stop = self.problem, Start(), StartState(w), self.cut()
        self.count()
        first = self.snapshot()
        if not np.isfinite(first.value):
            raise ValueError(f"w0 must have a finite objective, got {first.value}")
        self.best = (first.value, self.solver.solution(self.state).copy(), first.dual)
        return stop

    def prepare(self, solver: Solver, w: np.ndarray) -> None:
        if isinstance(solver, type) or not hasattr(solver, "prepare"):
            raise TypeError(f"solver must be a solver spec such as ALEXR(), got {solver!r}")
        with one_thread_each():  # a product by two threads has other last bits
            self.task, self.solver = solver.prepare(self.problem)
            self.state = self.solver.init(self.task, self.solver.start(self.problem, w), self.rng)

    def restore(self, solver: Solver, path: str | Path) -> None:
        self.rng = np.random.default_rng(0)
        try:
            with interruptible(lambda: bool(self.pressed)):
                self.prepare(solver, first_point(self.problem, None))
        except Interrupted:
            raise KeyboardInterrupt from None
        saved = load_run(path, self.fingerprint)
        with damaged(path):
            self.state = restored(self.solver, self.task, self.state, saved)
        self.rng, self.progress = saved.rng, saved.progress
        self.trace.points[:], self.best = saved.points, saved.best
        self.began, self.before = now(), saved.progress.elapsed

    @functools.cached_property
    def fingerprint(self) -> str:
        """What identifies the checkpoints of this run; all data are read for it, once."""
        return fingerprint(self.problem, self.solver)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Within, the clock of the solver runs, and full passes stop when time is up or Ctrl-C was pressed."""
        started, left = now(), self.seconds_left()
        try:
            with interruptible(lambda: bool(self.pressed) or now() - started > left):
                yield
        finally:
            self.progress.seconds += now() - started

    def seconds_left(self) -> float:
        self.tick()
        return self.budget.seconds_left(self.progress)

    def tick(self) -> None:
        self.progress.elapsed = self.before + now() - self.began

    def cut(self) -> Stop:
        """Why a full pass was interrupted."""
        return Stop.INTERRUPTED if self.pressed else Stop.SECONDS

    def loop(self, observers: tuple[Observer, ...], checkpoint: Checkpoint | None, stop: Stop | None = None) -> Result:
        """Iterate until there is a reason to stop; the last point is recorded."""
        if self.at_point():
            self.record()
        speed = 0.0
        while True:
            stop = stop or self.reason()
            if stop is None:
                speed, stop = self.advance(speed)
            if checkpoint and (stop or checkpoint.due()):  # before the last point, which a longer run would not record
                self.save(checkpoint)
            if stop is not None:
                self.record()
            for observe in observers:
                observe(self.snapshot())
            if stop is not None:
                return self.result(stop)

    def save(self, checkpoint: Checkpoint) -> None:
        """Save the run; if the disk is full or gone, the run continues without."""
        try:
            checkpoint.save(self.saved(), self.fingerprint)
        except OSError as error:
            why = f"the checkpoint {checkpoint.path} could not be written, and the run goes on without it: {error}"
            warnings.warn(" ".join(why.split()), RuntimeWarning, stacklevel=4)

    def reason(self) -> Stop | None:
        if not self.finite():
            return Stop.DIVERGED
        ended = known_stop(self.solver, self.state)
        if ended is not None:
            return ended
        if self.at_point() and self.until is not None and self.until(self.snapshot()):
            return Stop.UNTIL
        self.tick()
        return Stop.INTERRUPTED if self.pressed else self.budget.exhausted(self.progress, self.cost(1))

    def cost(self, steps: int) -> Oracles:
        """The least number of oracle calls after ``more`` iterations; only counted if the budget limits them."""
        done = self.progress
        if self.budget.oracle_calls is None:
            return Oracles(done.values, done.gradients)
        ahead = calls_ahead(self.solver, self.task, self.state, done.iterations, steps)
        return Oracles(done.values + ahead.values, done.gradients + ahead.gradients)

    def affordable(self, most: int) -> int:
        """How many of the next ``most`` iterations the budget allows; it allows at least one."""
        start = self.progress.iterations

        def beyond(steps: int) -> bool:
            return not self.budget.allows(start + steps, self.cost(steps))

        return bisect_left(range(1, most + 1), True, key=beyond) if beyond(most) else most

    def advance(self, speed: float) -> tuple[float, Stop | None]:
        """Advance by a chunk, at most to the next point of the trace; its speed, and why it was cut short."""
        done, stop = self.progress, None
        steps = self.affordable(self.trace.due(done.iterations) - done.iterations)
        steps = int(max(1, min(steps, speed * min(CHUNK_SECONDS, self.seconds_left()))))
        begun, used, drawn = done.iterations, done.seconds, self.rng.bit_generator.state
        self.present = None
        try:
            # divergence ends the run without a warning, as kernels do not warn either
            with self.inside(), np.errstate(over="ignore", invalid="ignore"):
                self.state = self.solver.advance(self.task, self.state, steps, self.rng)
        except Interrupted:  # in the middle of a full pass: the state is the one before it
            steps, stop, self.rng.bit_generator.state = 0, self.cut(), drawn
        done.iterations = iterations_made(self.solver, self.state, begun + steps)
        self.count()
        if self.at_point() and stop is None and on_all_rows(self.solver, self.state):
            self.record()  # the pass runs to its end; if time is up, it is the last one
        return (done.iterations - begun) / max(done.seconds - used, 1e-9), stop

    def count(self) -> None:
        done = self.progress
        done.values, done.gradients = passes_made(self.solver, self.task, self.state, done.iterations)

    def at_point(self) -> bool:
        done = self.progress.iterations
        return done == 0 or self.trace.due(done - 1) == done

    def finite(self) -> bool:
        if np.isfinite(known_value(self.solver, self.state)):  # a method that knows its objective checks it itself
            return bool(np.isfinite(self.solver.solution(self.state)).all())
        return all(np.isfinite(leaf).all() for leaf in leaves(self.state).values() if leaf.ndim)

    def snapshot(self) -> Snapshot:
        """The present state; while it stays, its objective is evaluated once."""
        if self.present is None:
            self.present = Snapshot(
                self.problem,
                self.progress,
                self.solver.solution(self.state)[: inner_size(self.problem.inner)].copy(),
                lambda: self.solver.dual(self.task, self.state),
                known_value(self.solver, self.state),
                known_certificate(self.solver, self.state),
                known_phase(self.solver, self.state),
                lambda: known_omega(self.solver, self.task, self.state),
            )
        return self.present

    def record(self) -> None:
        """Record the objective and keep the best point."""
        if self.finite() and np.isfinite((present := self.snapshot()).value):
            self.trace.record(present)
            if present.value < self.best[0]:
                self.best = (present.value, self.solver.solution(self.state).copy(), present.dual)

    def was_better(self, value: float) -> bool:
        """Whether a full-batch method, which knows its objective, was at a better point before.

        A method with a certificate keeps its best point itself.
        """
        known, proved = known_value(self.solver, self.state), known_certificate(self.solver, self.state)
        return bool(proved is None and np.isfinite(known) and known - value > SAME * abs(value))

    def saved(self) -> Saved:
        return Saved(leaves(self.state), self.rng, self.progress, self.trace.points, self.best)

    def result(self, stop: Stop) -> Result:
        last, slopes = self.snapshot(), None
        self.present = None  # it refers to the run: what that holds is freed at once
        value, x, dual = self.best
        if stop is not Stop.DIVERGED and not np.isfinite(last.value):
            stop = Stop.DIVERGED
        trusted = on_all_rows(self.solver, self.state)  # a solution of a sample may be worse than the start
        if stop not in (Stop.DIVERGED, Stop.INTERRUPTED) and (trusted or last.value <= value):
            dual, slopes = last.dual, known_slopes(self.solver, self.state)
            if not self.was_better(value):
                value, x = last.value, self.solver.solution(self.state).copy()
        self.tick()
        w, proved = x[: inner_size(self.problem.inner)].copy(), known_certificate(self.solver, self.state)
        gap = known_gap(self.solver, self.state)
        return Result(w, value, dual, stop, self.trace, self.progress, x, slopes, proved, gap)
