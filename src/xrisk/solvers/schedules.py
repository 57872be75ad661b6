"""Step sizes and averages as functions of the iteration t = 0, 1, 2, …"""

import numbers
from typing import NamedTuple

import numpy as np

from xrisk.generic import generic


@generic
def rate(schedule, t):
    """Step size of iteration t; a plain float is a constant one."""


@generic
def scaled(schedule, factor):
    """The schedule with every step times ``factor``."""


@generic
def stage_start(schedule, t):
    """First iteration of the stage that t belongs to."""


@generic
def average_weight(average, t):
    """ω_t in x̄ ← x̄ + ω_t (x_{t+1} − x̄)."""


@generic
def average_kept(average, a, b):
    """Product of 1 − ω_t over a ≤ t < b: what is left of x̄ after those iterations."""


class Decreasing(NamedTuple):
    """s_t = initial / (1 + t/delay)^power."""

    initial: float = 0.1
    delay: float = 100.0
    power: float = 0.5

    def check(self) -> None:
        """Refuse steps that are not positive."""
        _positive("initial", self.initial)
        _positive("delay", self.delay)
        if not (isinstance(self.power, numbers.Real) and 0.0 <= self.power <= 1.0):
            raise ValueError(f"power must lie between 0 and 1, got {self.power}")


class Stagewise(NamedTuple):
    """s_t = initial·factorᵏ in stage k, which lasts length·growthᵏ iterations."""

    initial: float = 0.1
    factor: float = 0.5
    length: int = 1000
    growth: float = 2.0

    def check(self) -> None:
        """Refuse steps that are not positive and stages that shrink."""
        _positive("initial", self.initial)
        _positive("factor", self.factor)
        if not (isinstance(self.length, numbers.Integral) and self.length >= 1):
            raise ValueError(f"length must be a whole number of at least 1, got {self.length}")
        if not (isinstance(self.growth, numbers.Real) and 1.0 <= self.growth < np.inf):
            raise ValueError(f"growth must be at least 1, got {self.growth}")


class LastIterate(NamedTuple):
    """No average: ω_t = 1."""


class UniformAverage(NamedTuple):
    """The mean of x_1, …, x_T: ω_t = 1/(t+1)."""


class PolynomialAverage(NamedTuple):
    """Weights that grow like t^power, so that late iterates count most: ω_t = (power+1)/(t+power+1)."""

    power: int = 3

    def check(self) -> None:
        """Refuse a power that is negative or not whole."""
        if not (isinstance(self.power, numbers.Integral) and self.power >= 0):
            raise ValueError(f"power must be a non-negative whole number, got {self.power}")


class GeometricAverage(NamedTuple):
    """Σ θ^{−t} x_{t+1} / Σ θ^{−t}: ω_t = (1−θ)/(1−θ^{t+1}) (ALEXR, theorem 18)."""

    theta: float = 0.99

    def check(self) -> None:
        """Refuse θ outside (0, 1)."""
        if not (isinstance(self.theta, numbers.Real) and 0.0 < self.theta < 1.0):
            raise ValueError(f"theta must lie strictly between 0 and 1, got {self.theta}")


class StageAverage(NamedTuple):
    """The mean over the present stage of a stagewise schedule."""

    stages: Stagewise = Stagewise()

    def check(self) -> None:
        """Refuse what has no stages."""
        if not stage_start.implemented(self.stages):
            raise ValueError(f"stages must be a stagewise schedule, got {self.stages!r}")
        self.stages.check()


@rate.of(float)
def _(schedule, t):
    return schedule


@scaled.of(float)
def _(schedule, factor):
    return schedule * factor


@scaled.of(Decreasing)
@scaled.of(Stagewise)
def _(schedule, factor):
    return schedule._replace(initial=schedule.initial * factor)


@rate.of(Decreasing)
def _(schedule, t):
    return schedule.initial / (1.0 + t / schedule.delay) ** schedule.power


@rate.of(Stagewise)
def _(schedule, t):
    step, length, end = schedule.initial, schedule.length * 1.0, schedule.length * 1.0
    while t >= end:
        step *= schedule.factor
        length *= schedule.growth
        end += np.floor(length)
    return step


@stage_start.of(Stagewise)
def _(schedule, t):
    start, length, end = 0, schedule.length * 1.0, schedule.length * 1.0
    while t >= end:
        start = int(end)
        length *= schedule.growth
        end += np.floor(length)
    return start


@average_weight.of(LastIterate)
def _(average, t):
    return 1.0


@average_kept.of(LastIterate)
def _(average, a, b):
    return 1.0 if a == b else 0.0


@average_weight.of(UniformAverage)
def _(average, t):
    return 1.0 / (t + 1)


@average_kept.of(UniformAverage)
def _(average, a, b):
    return 1.0 if a == b else a / b


@average_weight.of(PolynomialAverage)
def _(average, t):
    return (average.power + 1) / (t + average.power + 1)


@average_kept.of(PolynomialAverage)
def _(average, a, b):
    kept = 1.0
    if a < b:
        for j in range(average.power + 1):
            kept *= (a + j) / (b + j)
    return kept


@average_weight.of(GeometricAverage)
def _(average, t):
    # expm1 and log1p keep 1 − θ^{t+1} exact when θ is within rounding of one
    return (1.0 - average.theta) / -np.expm1((t + 1) * np.log(average.theta))


@average_kept.of(GeometricAverage)
def _(average, a, b):
    if a == b:
        return 1.0
    log = np.log(average.theta)
    return np.exp((b - a) * log) * np.expm1(a * log) / np.expm1(b * log)


@average_weight.of(StageAverage)
def _(average, t):
    return 1.0 / (t + 1 - stage_start(average.stages, t))


@average_kept.of(StageAverage)
def _(average, a, b):
    if a == b:
        return 1.0
    start = stage_start(average.stages, b - 1)
    return 0.0 if a <= start else (a - start) / (b - start)


def check_step(name: str, schedule: float | Decreasing | Stagewise) -> None:
    """Refuse a step size that is neither a positive number nor a schedule."""
    if not rate.implemented(schedule):
        raise ValueError(f"{name} must be a positive number or a schedule, got {schedule!r}")
    if isinstance(schedule, float):
        _positive(name, schedule)
    else:
        schedule.check()


def check_fraction(name: str, schedule: float | Decreasing | Stagewise) -> None:
    """Refuse a weight of an average that is neither in (0, 1] nor a schedule that starts there."""
    check_step(name, schedule)
    if rate(schedule, 0) > 1.0:
        raise ValueError(f"{name} must lie in (0, 1], got {schedule!r}")


def _positive(name: str, value: float) -> None:
    if not (isinstance(value, numbers.Real) and 0.0 < value < np.inf):
        raise ValueError(f"{name} must be positive, got {value}")
