"""Several runs under one budget of time and one Ctrl-C, such as the rounds and folds of a fit."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from xrisk.annotations import Solver
from xrisk.data.threads import Interrupted, interruptible
from xrisk.problem import Problem
from xrisk.run.budget import Budget, Stop
from xrisk.run.clock import ctrl_c, now
from xrisk.run.driver import Observer, minimize
from xrisk.run.observers import Snapshot, Trace
from xrisk.run.result import Result

LEAST = 1e-3  # seconds that a run gets at the least: its start needs an objective


class Runs:
    """Runs one after another, each with what is left of the time; Ctrl-C ends the present one and the sequence.

    Parameters
    ----------
    seconds : float, optional
        For all of them together; None for no limit.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.run import Runs
    >>> from xrisk.applications import quadratic
    >>> problem = quadratic(np.eye(2), np.ones(2))
    >>> with Runs(60.0) as runs:
    ...     first = runs.minimize(problem, xrisk.solvers.Auto(1e-2), iterations=100)
    ...     second = runs.minimize(problem, xrisk.solvers.Auto(1e-6), first.w, iterations=100)
    >>> runs.over() is None
    True
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._end = np.inf if seconds is None else now() + seconds
        self._stop: Stop | None = None
        self._pressed: list[bool] = []
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Runs":
        self._pressed = self._open.enter_context(ctrl_c())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        self._open.close()

    def seconds_left(self) -> float:
        """Until the time is up."""
        return self._end - now()

    def budget(self, iterations: float | None = None) -> Budget:
        """What the next run may use."""
        return Budget(iterations=iterations, elapsed=None if self._end == np.inf else max(self.seconds_left(), LEAST))

    def minimize(
        self,
        problem: Problem,
        solver: Solver,
        w0: np.ndarray | None = None,
        *,
        iterations: float | None = None,
        rng: int | np.random.Generator | None = None,
        trace: Trace | None = None,
        observers: Iterable[Observer] = (),
        until: Callable[[Snapshot], bool] | None = None,
    ) -> Result:
        """As `xrisk.minimize`, for at most ``iterations`` and in the time that is left."""
        budget = self.budget(iterations)
        result = minimize(problem, solver, w0, budget=budget, rng=rng, trace=trace, observers=observers, until=until)
        if result.stop in (Stop.INTERRUPTED, Stop.UNTIL):
            self._stop = Stop.INTERRUPTED
        return result

    def over(self) -> Stop | None:
        """Why no further run is to begin; None while one may."""
        if self._pressed or self._stop:
            return Stop.INTERRUPTED
        return Stop.SECONDS if self.seconds_left() < 0.0 else None

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within, full passes raise `Interrupted` as those of a run do, and the rest of the block is left out."""
        with contextlib.suppress(Interrupted), interruptible(lambda: self.over() is not None):
            yield
