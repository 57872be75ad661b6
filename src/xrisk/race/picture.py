"""A race as a picture: the gap against oracle calls and against seconds; needs matplotlib."""

from pathlib import Path
from typing import Any

import numpy as np

from xrisk.files import written_whole
from xrisk.race.phrases import least_gap, shown_gap
from xrisk.race.run import Entry, Race

COLOURS = ("#0b6e99", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#1c2833")
GREY = "#c3cad1"
SHOWN = 3000  # of a race the last part is drawn, from this fraction of its length on


def draw_race(race: Race, path: str | Path, shown: tuple[str, ...] = ()) -> None:
    """Draw the median over the seeds of each method, with the range in a pale shade, and write the picture.

    In colour are the methods called ``shown``, six at most, or the six best; the others are grey, for comparison.

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
    figure = blank_figure(path)
    names = [entry.name for entry in race.entries]
    unknown = [name for name in shown if name not in names]
    if unknown or len(shown) > len(COLOURS):
        raise ValueError(
            f"shown must name at most {len(COLOURS)} methods of the race, got {', '.join(unknown or shown)}"
        )
    colours = dict(zip([name for name in names if not shown or name in shown], COLOURS, strict=False))
    by_calls, by_seconds = figure.subplots(1, 2, sharey=True)
    for entry in sorted(race.entries, key=lambda entry: entry.name in colours):  # grey lines lie below
        label = f"{entry.name}  {shown_gap(race, float(np.median(race.gaps(entry))))}"
        for axes, across in ((by_calls, "oracle_calls"), (by_seconds, "seconds")):
            _draw(axes, race, entry, across, colours.get(entry.name), label)
    if len(names) > len(colours):
        by_calls.plot([], [], color=GREY, label=f"{len(names) - len(colours)} others")
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
    with written_whole(path) as file:
        figure.savefig(file, dpi=150, format=_kind(path))


def blank_figure(path: str | Path) -> Any:
    """A figure to draw on; refuses a name that no picture can have, and says so where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a picture needs matplotlib: pip install xrisk[plot]") from error
    figure = Figure(figsize=(12.5, 5.2), layout="constrained")
    if _kind(path) not in figure.canvas.get_supported_filetypes():
        raise ValueError(f"the name of a picture must end in .png, .svg or .pdf, got {path}")
    return figure


def _kind(path: str | Path) -> str:
    return Path(path).suffix.lower().lstrip(".")


def _draw(axes: Any, race: Race, entry: Entry, across: str, colour: str | None, label: str) -> None:
    shared = min(len(trial.points) for trial in entry.trials)  # a trial that diverged ends early
    points = [
        trial.points[1:shared] for trial in entry.trials
    ]  # the first costs nothing and has no place on a log axis
    if shared < 2:
        return
    x = np.median([[getattr(point, across) for point in trial] for trial in points], axis=0)
    gaps = np.array([[point.value for point in trial] for trial in points]) - race.goal.value
    gaps = np.maximum(gaps, least_gap(race))
    if colour is None:
        axes.plot(x, np.median(gaps, axis=0), linewidth=0.8, color=GREY, label="_")
        return
    axes.plot(x, np.median(gaps, axis=0), linewidth=1.9, color=colour, label=label)
    axes.fill_between(x, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
