"""The one loop: it owns the clock, the budget, the trace and the checkpoints, and knows no solver."""

import contextlib
import signal
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xrisk.compile import canonical
from xrisk.data.threads import Interrupted, interruptible
from xrisk.inner.oracle import Oracles, inner_size
from xrisk.inner.passes import Slopes
from xrisk.problem import Problem, apply_prox
from xrisk.run.budget import Budget, Progress, Stop
from xrisk.run.checkpoint import Checkpoint, Saved, fingerprint, leaves, load_run, with_leaves
from xrisk.run.observers import Snapshot, Trace
from xrisk.solvers.base import (
    iterations_made,
    known_certificate,
    known_gap,
    known_phase,
    known_slopes,
    known_stop,
    known_value,
    knows_more,
    passes_made,
)

CHUNK_SECONDS = 0.1  # between two looks at the clock, the observers and Ctrl-C

Observer = Callable[[Snapshot], None]


@dataclass(frozen=True)
class Result:
    """What a run found.

    Attributes
    ----------
    w : ndarray (d,)
        The parameters.
    value : float
        The exact objective there.
    dual : ndarray (n, m)
        The solver's dual weights, for `xrisk.certify`.
    stop : Stop
        Why the run ended; ``str(stop)`` is a sentence.
    trace : Trace
        Iterations, oracle calls, seconds and objective along the run.
    progress : Progress
        Iterations, oracle calls and seconds used.
    x : ndarray
        The solver's variable, of which ``w`` is the head.
    slopes : Slopes, optional
        Slopes of the losses that belong to ``dual``, of a solver that keeps them; for `xrisk.certify`.
    certificate : Certificate, optional
        What the solver has proved of ``w``; `xrisk.certify` proves it of any result.
    gap : float
        The solver's own estimate of how far ``value`` is above the optimum, before its last step; NaN if it has none.
    """

    w: np.ndarray
    value: float
    dual: np.ndarray
    stop: Stop
    trace: Trace
    progress: Progress
    x: np.ndarray
    slopes: Slopes | None = None
    certificate: Any = None
    gap: float = np.nan


def minimize(
    problem: Problem,
    solver: Any,
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
        Iterations, oracle calls or seconds; the first limit reached ends the run.
    rng : int or Generator, optional
        The seed. The same seed gives the same run, whatever the machine is doing.
    trace : Trace, optional
        Where the objective is recorded; evaluations stand outside the clock.
    observers : functions of a Snapshot
        Called a few times a second.
    until : function of a Snapshot → bool, optional
        Asked at every point of the trace; true ends the run.
    checkpoint : Checkpoint, optional
        Where to save the run, for `xrisk.resume`.

    Returns
    -------
    Result
        The solver's solution; after Ctrl-C or divergence, the best point of the trace.

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
    run = _Run(problem, solver, budget, Trace() if trace is None else trace, until)
    run.start(w0, np.random.default_rng(rng))
    return run.loop(tuple(observers), checkpoint)


def resume(
    problem: Problem,
    solver: Any,
    path: str | Path,
    *,
    budget: Budget,
    trace: Trace | None = None,
    observers: Iterable[Observer] = (),
    until: Callable[[Snapshot], bool] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Result:
    """Continue the run saved at ``path`` under a budget that counts from its very beginning.

    The result equals that of a run that was never stopped, bit for bit. Problem and solver must be those of the
    saved run; give ``checkpoint`` to go on saving.
    """
    run = _Run(problem, solver, budget, Trace() if trace is None else trace, until)
    run.restore(path)
    return run.loop(tuple(observers), checkpoint)


class _Run:
    def __init__(self, problem: Problem, solver: Any, budget: Budget, trace: Trace, until: Any) -> None:
        budget.check()
        problem.check()
        self.stated = canonical(problem)
        self.problem, self.solver = solver.prepare(self.stated)
        self.budget, self.trace, self.until = budget, trace, until
        self.progress = Progress()

    def start(self, w0: np.ndarray | None, rng: np.random.Generator) -> None:
        w = first_point(self.stated, w0)
        self.rng = rng
        self.state = self.solver.init(self.problem, self.solver.start(self.stated, w), rng)
        seen = self.snapshot()
        if not np.isfinite(seen.value):
            raise ValueError(f"w0 must have a finite objective, got {seen.value}")
        self.best = (seen.value, self.solver.solution(self.state).copy(), seen.dual)

    def restore(self, path: str | Path) -> None:
        saved = load_run(path, fingerprint(self.stated, self.solver))
        w = first_point(self.stated, None)
        blank = self.solver.init(self.problem, self.solver.start(self.stated, w), np.random.default_rng(0))
        self.state, self.rng, self.progress = with_leaves(blank, saved.state), saved.rng, saved.progress
        self.trace.points[:], self.best = saved.points, saved.best

    def loop(self, observers: tuple[Observer, ...], checkpoint: Checkpoint | None) -> Result:
        self.state = self.solver.advance(self.problem, self.state, 0, self.rng)  # compiles before the clock starts
        self.look()
        speed, stop = 0.0, None
        with ctrl_c() as interrupted:
            while stop is None:
                stop = self.reason(interrupted)
                if stop is None:
                    speed, stop = self.advance(speed, interrupted)
                if stop is not None:
                    self.look()
                seen = self.snapshot()
                for observe in observers:
                    observe(seen)
                if checkpoint and (stop or checkpoint.due()):
                    checkpoint.save(self.saved(), fingerprint(self.stated, self.solver))
        return self.result(stop)

    def reason(self, interrupted: list[bool]) -> Stop | None:
        if not self.finite():
            return Stop.DIVERGED
        ended = known_stop(self.solver, self.state)
        if ended is not None:
            return ended
        if self.at_point() and self.until is not None and self.until(self.snapshot()):
            return Stop.UNTIL
        if interrupted:
            return Stop.INTERRUPTED
        return self.budget.exhausted(self.progress, self.cost(self.progress.iterations + 1))

    def cost(self, iterations: int) -> Oracles:
        return self.solver.oracles(self.problem, iterations)

    def affordable(self, start: int, end: int) -> int:
        """The last of the iterations start + 1, …, end that the budget allows; start + 1 it does."""
        if self.budget.allows(end, self.cost(end)):
            return end
        return start + bisect_left(range(start + 1, end), True, key=lambda t: not self.budget.allows(t, self.cost(t)))

    def advance(self, speed: float, interrupted: list[bool]) -> tuple[float, Stop | None]:
        """One chunk, at most up to the next point of the trace: the iterations per second seen, and why it was cut."""
        done, stop = self.progress, None
        steps = self.affordable(done.iterations, self.trace.due(done.iterations)) - done.iterations
        left = np.inf if self.budget.seconds is None else self.budget.seconds - done.seconds
        steps = int(max(1, min(steps, speed * min(CHUNK_SECONDS, left))))
        started = time.perf_counter()
        late = started + left
        try:
            with interruptible(lambda: bool(interrupted) or time.perf_counter() > late):
                self.state = self.solver.advance(self.problem, self.state, steps, self.rng)
        except Interrupted:  # in the middle of a full pass: the state is that of before
            steps, stop = 0, Stop.INTERRUPTED if interrupted else Stop.SECONDS
        seconds = time.perf_counter() - started
        done.iterations = iterations_made(self.solver, self.state, done.iterations + steps)
        done.values, done.gradients = passes_made(self.solver, self.problem, self.state, done.iterations)
        done.seconds += seconds
        if self.at_point() and stop is None and knows_more(self.solver, self.state):
            self.look()
        return steps / max(seconds, 1e-9), stop

    def at_point(self) -> bool:
        done = self.progress.iterations
        return done == 0 or self.trace.due(done - 1) == done

    def finite(self) -> bool:
        if np.isfinite(known_value(self.solver, self.state)):  # a method that knows its objective looks at it itself
            return bool(np.isfinite(self.solver.solution(self.state)).all())
        return all(np.isfinite(leaf).all() for leaf in leaves(self.state).values() if leaf.ndim)

    def snapshot(self) -> Snapshot:
        w = self.solver.solution(self.state)[: inner_size(self.stated.inner)].copy()
        return Snapshot(
            self.stated,
            self.progress,
            w,
            lambda: self.solver.dual(self.problem, self.state),
            known_value(self.solver, self.state),
            known_certificate(self.solver, self.state),
            known_phase(self.solver, self.state),
        )

    def look(self) -> None:
        """Record the objective and keep the best point."""
        if self.finite():
            seen = self.snapshot()
            if np.isfinite(seen.value):
                self.trace.record(seen)
                if seen.value < self.best[0]:
                    self.best = (seen.value, self.solver.solution(self.state).copy(), seen.dual)

    def saved(self) -> Saved:
        return Saved(leaves(self.state), self.rng, self.progress, self.trace.points, self.best)

    def result(self, stop: Stop) -> Result:
        self.look()
        seen = self.snapshot()
        value, x, dual = self.best
        if stop is not Stop.DIVERGED and not np.isfinite(seen.value):
            stop = Stop.DIVERGED
        slopes = None
        if stop not in (Stop.DIVERGED, Stop.INTERRUPTED):
            value, x, dual = seen.value, self.solver.solution(self.state).copy(), seen.dual
            slopes = known_slopes(self.solver, self.state)
        w, proved = x[: inner_size(self.stated.inner)].copy(), known_certificate(self.solver, self.state)
        gap = known_gap(self.solver, self.state)
        return Result(w, value, dual, stop, self.trace, self.progress, x, slopes, proved, gap)


def first_point(problem: Problem, w0: np.ndarray | None) -> np.ndarray:
    d = inner_size(problem.inner)
    if w0 is None:
        w = np.zeros(d)
        apply_prox(problem.penalty, w, 1.0)
        return w
    w = np.array(w0, dtype=np.float64)
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w0 must be finite and of shape ({d},), got shape {w.shape}")
    return w


@contextlib.contextmanager
def ctrl_c() -> Iterator[list[bool]]:
    """A list that is no longer empty after Ctrl-C, so that a chunk is never cut in two; the second one raises."""
    pressed: list[bool] = []

    def note(number: int, frame: Any) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
