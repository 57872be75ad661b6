"""The cells a method is tuned over: every combination of the values given for its fields, and their neighbours."""

import itertools
import math
from typing import Any

from xrisk.annotations import Solver

STEPS = tuple(digit * 10.0**power for power in (-3, -2, -1) for digit in (2, 5, 10))
# the grids of the ALEXR paper, appendix F
PAPER: dict[str, tuple[float, ...]] = {
    "step": STEPS,
    "dual_step": STEPS,
    "theta": (0.1, 1.0),
    "track": (0.1, 0.3, 0.5, 0.7, 0.9),
}

MOST = {"theta": 1.0, "track": 1.0}  # what a field may be at most
FARTHEST = 10.0  # ratio of a value outside the grid to the last one

Setting = dict[str, float]


def cells(solver: Solver, grid: dict[str, tuple[float, ...]]) -> list[Setting]:
    """All combinations of the fields that the solver, or the one it wraps, has; a field at 0 is off and stays so.

    Examples
    --------
    >>> from xrisk.race.grid import cells
    >>> from xrisk.solvers import ALEXR
    >>> cells(ALEXR(theta=0.0), {"step": (0.1, 0.2), "theta": (0.5,), "track": (0.1,)})
    [{'step': 0.1}, {'step': 0.2}]
    """
    if "solver" in solver._fields:
        return cells(solver.solver, grid)
    tuned = [name for name in grid if name in solver._fields and getattr(solver, name) != 0.0]
    return [dict(zip(tuned, cell, strict=True)) for cell in itertools.product(*(grid[name] for name in tuned))]


def neighbours(setting: Setting, grid: dict[str, tuple[float, ...]]) -> list[Setting]:
    """The cells that differ in one field by one place, up or down; beyond the grid its last ratio continues.

    A field with a single value is not tuned.

    Examples
    --------
    >>> from xrisk.race.grid import neighbours
    >>> neighbours({"step": 0.1, "theta": 1.0}, {"step": (0.1, 0.2), "theta": (0.5, 1.0)})
    [{'step': 0.05, 'theta': 1.0}, {'step': 0.2, 'theta': 1.0}, {'step': 0.1, 'theta': 0.5}]
    """
    found = []
    for field, value in setting.items():
        if len(grid[field]) > 1:
            values = _neighbours(value, sorted(grid[field]), MOST.get(field, math.inf))
            found += [{**setting, field: each} for each in values]
    return found


def _neighbours(value: float, values: list[float], most: float) -> list[float]:
    down = max((v for v in values if v < value), default=value / min(values[1] / values[0], FARTHEST))
    up = min((v for v in values if v > value), default=value * min(values[-1] / values[-2], FARTHEST))
    if value < values[0]:
        up = min(value * min(values[1] / values[0], FARTHEST), values[0])
    if value > values[-1]:
        down = max(value / min(values[-1] / values[-2], FARTHEST), values[-1])
    return [float(f"{each:.6g}") for each in (down, min(up, most)) if each != value]


def with_setting(solver: Solver, setting: Setting) -> Any:
    """The solver at a cell; of a schedule the first value is set.

    Examples
    --------
    >>> from xrisk.race.grid import with_setting
    >>> from xrisk.solvers import ALEXR, Decreasing
    >>> with_setting(ALEXR(step=Decreasing(0.1, 50.0)), {"step": 0.5, "theta": 1.0}).step
    Decreasing(initial=0.5, delay=50.0, power=0.5)
    """
    if "solver" in solver._fields:
        return solver._replace(solver=with_setting(solver.solver, setting))
    return solver._replace(**{name: _set(getattr(solver, name), value) for name, value in setting.items()})


def _set(old: Any, value: float) -> Any:
    return old._replace(initial=value) if hasattr(old, "initial") else value
