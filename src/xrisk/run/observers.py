"""Observers follow a run and cannot stop it."""

import logging
import numbers
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from xrisk.problem import Problem
from xrisk.run.budget import Budget, Progress


class TracePoint(NamedTuple):
    """The exact objective at one point of a run, and what was known of the optimum."""

    iterations: int
    oracle_calls: int
    seconds: float
    value: float
    bound: float = -np.inf  # a proved lower bound on the optimum
    phase: str = "run"  # what the method was doing
    omega: float = np.inf  # Σᵢ D_ψ(yᵢ, yᵢ₀) of ALEXR: distance of its dual blocks from their start; inf: not known


class Snapshot:
    """The state of a run, for observers; the objective and the duals are computed on first use."""

    def __init__(
        self,
        problem: Problem,
        progress: Progress,
        w: np.ndarray,
        dual: Callable[[], np.ndarray],
        known: float = np.nan,
        certificate: Any = None,
        phase: str = "run",
        omega: Callable[[], float] = lambda: np.inf,
    ) -> None:
        self.problem, self.progress, self.w = problem, replace(progress), w
        self.certificate, self.phase = certificate, phase
        self._dual, self._known, self._omega = dual, known, omega

    @cached_property
    def value(self) -> float:
        """The exact objective at ``w``."""
        return self.problem.value(self.w) if np.isnan(self._known) else self._known

    @property
    def bound(self) -> float:
        """A proved lower bound on the optimum."""
        return -np.inf if self.certificate is None else self.certificate.dual

    @cached_property
    def dual(self) -> np.ndarray:
        """The solver's dual weights (n, m)."""
        return self._dual()

    @property
    def omega(self) -> float:
        """The distance of ALEXR's dual blocks from their start; inf where it is not known."""
        return self._omega()


@dataclass
class Trace:
    """The objective at iterations 0, 1, 2, … whose distance grows by ``ratio``, and at the end of the run.

    Examples
    --------
    >>> from xrisk.run import Trace
    >>> Trace(ratio=2.0).due(5)
    8
    """

    ratio: float = 1.3
    points: list[TracePoint] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not (isinstance(self.ratio, numbers.Real) and self.ratio > 1.0):
            raise ValueError(f"ratio must be greater than 1, got {self.ratio!r}")

    def due(self, iterations: int) -> int:
        """The first iteration after ``iterations`` to be recorded."""
        at = 1
        while at <= iterations:
            at = max(at + 1, int(at * self.ratio))
        return at

    def record(self, at: Snapshot) -> None:
        """Add a point, once for each iteration count."""
        done = at.progress
        if not self.points or self.points[-1].iterations < done.iterations:
            known = (done.iterations, done.oracle_calls, done.seconds, at.value, at.bound, at.phase, at.omega)
            self.points.append(TracePoint(*known))

    def __getattr__(self, name: str) -> np.ndarray:
        if name in TracePoint._fields:
            return np.array([getattr(point, name) for point in self.points])
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.points)


class ProgressBar:
    """A bar with the time left; needs tqdm (``pip install xrisk[progress]``)."""

    def __init__(self, budget: Budget, **options: Any) -> None:
        try:
            from tqdm import tqdm
        except ImportError as error:
            raise ImportError("a progress bar needs tqdm: pip install xrisk[progress]") from error
        self._budget = budget
        self._bar = tqdm(total=100, unit="%", bar_format="{l_bar}{bar}| {elapsed}<{remaining}{postfix}", **options)

    def __call__(self, at: Snapshot) -> None:
        used = 100.0 * self._budget.used(at.progress)
        self._bar.update(used - self._bar.n)
        self._bar.set_postfix(iterations=at.progress.iterations)
        if used >= 100.0:
            self._bar.close()


class LogProgress:
    """Writes lines to a logger, at most one in ``every`` seconds."""

    def __init__(self, logger: logging.Logger | None = None, *, every: float = 1.0) -> None:
        self._logger = logger or logging.getLogger("xrisk")
        self._every, self._last = every, -np.inf

    def __call__(self, at: Snapshot) -> None:
        if time.monotonic() - self._last >= self._every:
            done = at.progress
            line = "%d iterations, %d oracle calls, %.2f s: %.6g"
            self._logger.info(line, done.iterations, done.oracle_calls, done.seconds, at.value)
            self._last = time.monotonic()
