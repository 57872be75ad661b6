"""How long a run may take, how far it is, and why it ended."""

import math
import numbers
from dataclasses import dataclass
from typing import NamedTuple

from xrisk.inner.oracle import Oracles
from xrisk.solvers.base import Stop


@dataclass
class Progress:
    """What a run has used so far.

    ``seconds`` is the time inside the solver: preparing, starting, iterating. ``elapsed`` is all time since the run was
    called, including evaluations for the trace and observers. Neither clock runs while kernels are compiled.
    """

    iterations: int = 0
    values: int = 0
    gradients: int = 0
    seconds: float = 0.0
    elapsed: float = 0.0

    @property
    def oracle_calls(self) -> int:
        """Sampled values and gradients together."""
        return self.values + self.gradients


class Budget(NamedTuple):
    """What a run may use; the first limit reached ends it.

    Parameters
    ----------
    iterations : float, optional
        Never exceeded.
    oracle_calls : float, optional
        Sampled values and gradients together. Sampled methods never exceed it. A full-batch method begins no iteration
        whose least cost would exceed it; preparations and longer line searches may exceed it, and so
        may the certificates and stage starts of `xrisk.solvers.Auto`.
    seconds : float, optional
        Time inside the solver, to compare methods by; evaluations for the trace and observers do not count.
    elapsed : float, optional
        All time since `xrisk.minimize` was called; ``max_seconds`` of an estimator. Either limit of time interrupts a
        full pass; the objective is then evaluated once if it is not known. Compilation, which a new kind of problem
        needs once per machine, does not count.

    Examples
    --------
    >>> from xrisk import Budget
    >>> Budget(oracle_calls=1e6)
    Budget(iterations=None, oracle_calls=1000000.0, seconds=None, elapsed=None)
    """

    iterations: float | None = None
    oracle_calls: float | None = None
    seconds: float | None = None
    elapsed: float | None = None

    def check(self) -> None:
        """Refuse a budget without a limit, and limits that are not positive."""
        limits = {name: limit for name, limit in zip(self._fields, self, strict=True) if limit is not None}
        if not limits:
            raise ValueError("budget must limit iterations, oracle_calls, seconds or elapsed, got none of them")
        for name, limit in limits.items():
            if isinstance(limit, bool) or not isinstance(limit, numbers.Real):
                raise TypeError(f"{name} must be a number or None, got {limit!r}")
            if not limit >= 0:
                raise ValueError(f"{name} must not be negative, got {limit}")
        if all(math.isinf(limit) for limit in limits.values()):
            raise ValueError("budget must be finite in one of its limits")

    def allows(self, iterations: int, cost: Oracles) -> bool:
        """Whether ``iterations`` with that cost are within the limits."""
        return not (
            (self.iterations is not None and iterations > self.iterations)
            or (self.oracle_calls is not None and cost.values + cost.gradients > self.oracle_calls)
        )

    def exhausted(self, progress: Progress, cost: Oracles) -> Stop | None:
        """The limit that forbids another iteration, with which ``cost`` oracle calls would have been made."""
        if self.iterations is not None and progress.iterations + 1 > self.iterations:
            return Stop.ITERATIONS
        if self.oracle_calls is not None and cost.values + cost.gradients > self.oracle_calls:
            return Stop.ORACLE_CALLS
        return Stop.SECONDS if self.seconds_left(progress) <= 0.0 else None

    def seconds_left(self, progress: Progress) -> float:
        """Until the first limit of time."""
        limits = ((self.seconds, progress.seconds), (self.elapsed, progress.elapsed))
        return min((limit - done for limit, done in limits if limit is not None), default=math.inf)

    def used(self, progress: Progress) -> float:
        """Fraction used, between 0 and 1."""
        parts = (
            (progress.iterations, self.iterations),
            (progress.oracle_calls, self.oracle_calls),
            (progress.seconds, self.seconds),
            (progress.elapsed, self.elapsed),
        )
        return min(1.0, max((done / limit for done, limit in parts if limit), default=1.0))
