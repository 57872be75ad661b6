"""A race as a picture: the gap against oracle calls and against seconds; needs matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np

from xrisk.race.phrases import least_gap, shown_gap
from xrisk.race.run import Entry, Race

COLOURS = ("#0b6e99", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#5d6d7e", "#a04000", "#16a085", "#c2185b", "#7d6608")
SHOWN = 3000  # of a race the last part is drawn, from this fraction of its length on
DASHES = ("-", (0, (5, 2)), (0, (1, 1.4)))


def draw_race(race: Race, path: str | Path) -> None:
    """Draw medians over the seeds, from the lowest to the highest in pale, and write the picture to ``path``.

    Examples
    --------
    >>> import os, tempfile
    >>> import xrisk
    >>> from xrisk.race import PROBLEMS, draw_race, race
    >>> problem = PROBLEMS["hard-smooth"].build()
    >>> found = race(problem, {"sox": xrisk.solvers.SOX()}, budget=xrisk.Budget(iterations=50), seeds=[0, 1])
    >>> path = os.path.join(tempfile.mkdtemp(), "race.svg")
    >>> draw_race(found, path)
    >>> os.path.getsize(path) > 1000
    True
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install xrisk[plot]") from error
    height = max(4.8, 1.2 + 0.24 * len(race.entries))
    figure = Figure(figsize=(12.5, height), layout="constrained")
    by_calls, by_seconds = figure.subplots(1, 2, sharey=True)
    for k, entry in enumerate(race.entries):
        style: dict[str, Any] = {"color": COLOURS[k % len(COLOURS)], "linestyle": DASHES[k // len(COLOURS) % 3]}
        label = f"{entry.name}  {shown_gap(race, float(np.median(race.gaps(entry))))}"
        for axes, across in ((by_calls, "oracle_calls"), (by_seconds, "seconds")):
            _draw(axes, race, entry, across, style, label)
    for axes, title in ((by_calls, "sampled values and gradients"), (by_seconds, "seconds inside the method")):
        axes.set(xscale="log", yscale="log", xlabel=title)
        axes.set_xlim(left=axes.dataLim.x1 / SHOWN)
        axes.grid(True, which="major", color="#d9dee3", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    by_calls.set_ylabel("suboptimality")
    figure.suptitle(race.problem, x=0.01, ha="left", fontsize=12)
    lines, labels = by_calls.get_legend_handles_labels()
    figure.legend(
        lines,
        labels,
        loc="outside right center",
        frameon=False,
        fontsize=9,
        title="median gap at the end",
        alignment="left",
    )
    figure.savefig(path, dpi=150)


def _draw(axes: Any, race: Race, entry: Entry, across: str, style: dict[str, Any], label: str) -> None:
    shared = min(len(heat.points) for heat in entry.heats)  # a heat that diverged ends early
    points = [heat.points[1:shared] for heat in entry.heats]  # the first costs nothing and has no place on a log axis
    if shared < 2:
        return
    x = np.median([[getattr(point, across) for point in heat] for heat in points], axis=0)
    gaps = np.array([[point.value for point in heat] for heat in points]) - race.goal.value
    gaps = np.maximum(gaps, least_gap(race))
    axes.plot(x, np.median(gaps, axis=0), linewidth=1.6, label=label, **style)
    axes.fill_between(x, gaps.min(axis=0), gaps.max(axis=0), color=style["color"], alpha=0.12, linewidth=0)
