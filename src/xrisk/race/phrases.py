"""A race as a table and as JSON."""

import math
from typing import Any

import numpy as np

from xrisk.race.run import Entry, Race, Trial
from xrisk.study.study import finite, trace_dicts

COLUMNS = ("method", "setting", "median gap", "lowest", "highest", "slope", "iterations", "calls", "seconds")


def rows(race: Race) -> list[tuple[str, ...]]:
    """A row for each method, the best first, in the order of COLUMNS."""
    return [_row(race, entry) for entry in race.entries]


def _row(race: Race, entry: Entry) -> tuple[str, ...]:
    gaps, exponent = race.gaps(entry), slope(race, entry)
    setting = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in entry.setting.items())
    last = [trial.points[-1] for trial in entry.trials]
    seconds = float(np.median([point.seconds for point in last]))
    marks = [shown_gap(race, gap) for gap in (float(np.median(gaps)), gaps.min(), gaps.max())]
    return (
        entry.name,
        setting or "–",
        *marks,
        "–" if math.isnan(exponent) else f"{exponent:.2f}",
        f"{last[0].iterations:,}",
        f"{last[0].oracle_calls:,}",
        f"{seconds:.3g}",
    )


def slope(race: Race, entry: Entry) -> float:
    """The exponent p of gap ∝ callsᵖ over the last factor of ten in oracle calls, the median over the seeds.

    NaN where a run diverged, has too few points for it, or reached the optimum.
    """
    if not np.isfinite(race.gaps(entry)).all():
        return math.nan
    return float(np.median([_slope(race, trial) for trial in entry.trials]))


def _slope(race: Race, trial: Trial) -> float:
    late = [point for point in trial.points if 10 * point.oracle_calls >= trial.points[-1].oracle_calls > 0]
    gaps = np.array([point.value - race.goal.value for point in late])
    if len(late) < 3 or gaps.min() <= least_gap(race):
        return math.nan
    return float(np.polyfit(np.log([point.oracle_calls for point in late]), np.log(gaps), 1)[0])


def least_gap(race: Race) -> float:
    """The smallest gap that the certificate of the optimum resolves."""
    return max(race.goal.value - race.goal.dual, 1e-12 * abs(race.goal.value), 1e-300)


def shown_gap(race: Race, gap: float) -> str:
    """A gap; an upper bound where the certificate of the optimum resolves no more."""
    if math.isinf(gap):
        return "diverged"
    least = least_gap(race)
    return f"{gap:.2e}" if gap > least else f"< {least:.0e}"


def as_markdown(race: Race) -> str:
    """The table in Markdown."""
    lines = [" | ".join(COLUMNS), " | ".join(["---"] * len(COLUMNS)), *(" | ".join(row) for row in rows(race))]
    return "\n".join(f"| {line} |" for line in lines)


def as_dict(race: Race) -> dict[str, Any]:
    """Everything of a race in numbers and text, for JSON."""
    return {
        "problem": race.problem,
        "blocks": race.size[0],
        "variables": race.size[1],
        "optimum": {"value": race.goal.value, "at_least": race.goal.dual},
        "budget": race.budget._asdict(),
        "grid": {name: list(values) for name, values in race.grid.items()},
        "methods": [_entry(race, entry) for entry in race.entries],
        "refused": race.refused,
    }


def _entry(race: Race, entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "solver": repr(entry.solver),
        "setting": entry.setting,
        "cells_tried": entry.tried,
        "final_gaps": [finite(gap) for gap in race.gaps(entry).tolist()],
        "runs": [
            {"seed": trial.seed, "stop": trial.stop, "points": trace_dicts(trial.points)} for trial in entry.trials
        ],
    }
