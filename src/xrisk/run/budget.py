"""How long a run may take, how far it is, and why it ended."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from xrisk.inner.oracle import Oracles
from xrisk.solvers.base import Stop


@dataclass
class Progress:
    """What a run has used so far; seconds are those inside the solver alone."""

    iterations: int = 0
    values: int = 0
    gradients: int = 0
    seconds: float = 0.0

    @property
    def oracle_calls(self) -> int:
        """Sampled values and gradients together."""
        return self.values + self.gradients


class Budget(NamedTuple):
    """What a run may use; the first limit reached ends it.

    Examples
    --------
    >>> from xrisk import Budget
    >>> Budget(oracle_calls=1e6)
    Budget(iterations=None, oracle_calls=1000000.0, seconds=None)
    """

    iterations: float | None = None
    oracle_calls: float | None = None
    seconds: float | None = None

    def check(self) -> None:
        """Refuse a budget without a limit, and limits that are not positive."""
        limits = {name: limit for name, limit in zip(self._fields, self, strict=True) if limit is not None}
        if not limits:
            raise ValueError("budget must limit iterations, oracle_calls or seconds, got none of them")
        for name, limit in limits.items():
            if not limit >= 0:
                raise ValueError(f"{name} must not be negative, got {limit}")
        if all(math.isinf(limit) for limit in limits.values()):
            raise ValueError("budget must be finite in one of its limits")

    def allows(self, iterations: int, cost: Oracles) -> bool:
        """Whether so many iterations at that cost are within the limits."""
        return not (
            (self.iterations is not None and iterations > self.iterations)
            or (self.oracle_calls is not None and cost.values + cost.gradients > self.oracle_calls)
        )

    def exhausted(self, progress: Progress, cost: Oracles) -> Stop | None:
        """The limit that does not allow another iteration, after which ``cost`` would be the oracle calls made."""
        if self.iterations is not None and progress.iterations + 1 > self.iterations:
            return Stop.ITERATIONS
        if self.oracle_calls is not None and cost.values + cost.gradients > self.oracle_calls:
            return Stop.ORACLE_CALLS
        if self.seconds is not None and progress.seconds >= self.seconds:
            return Stop.SECONDS
        return None

    def used(self, progress: Progress) -> float:
        """Fraction used, between 0 and 1."""
        parts = (
            (progress.iterations, self.iterations),
            (progress.oracle_calls, self.oracle_calls),
            (progress.seconds, self.seconds),
        )
        return min(1.0, max((done / limit for done, limit in parts if limit), default=1.0))
