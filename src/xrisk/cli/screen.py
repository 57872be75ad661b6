"""What is shown on a terminal: tables, notes, a bar with the time left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from xrisk.metrics import GroupReport, GroupRow
from xrisk.report import Study

SHOWN = 12  # groups in a table on a terminal; the report has them all


def plain(text: str) -> str:
    """Text without control characters, which a terminal would obey."""
    return text if text.isprintable() else repr(text)[1:-1]


def figure(value: float | None, metric: str) -> str:
    """A score for reading: per cent for accuracies, four digits for errors."""
    if value is None:
        return "–"
    return f"{100.0 * value:.1f} %" if metric == "accuracy" else f"{value:.4g}"


def interval(row: GroupRow, metric: str) -> str:
    """The ends of a score's interval."""
    if row.score_low is None or row.score_high is None:
        return ""
    if metric == "accuracy":
        return f"{100.0 * row.score_low:.0f}–{100.0 * row.score_high:.0f}"
    return f"{row.score_low:.3g}–{row.score_high:.3g}"


class TimeLeft(ProgressColumn):
    """Time left, by the share of the work that is done; nothing is known before the first model is fitted."""

    def render(self, task: Any) -> Text:
        if not task.completed or task.finished:
            return Text("")
        at, since = task.fields["at"], time.monotonic()
        passed = at - task.fields["begun"]
        left = passed / task.completed * (task.total - task.completed) - (since - at)
        return Text(f"about {max(left, 1.0):.0f} s left" if left > 0 else "nearly done", style="dim")


@contextmanager
def progress(console: Console, enabled: bool) -> Iterator[Any]:
    """A function to be told what comes next and the share that is done."""
    if not enabled:
        yield lambda name, share: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft())
    with Progress(*columns, console=console, transient=True) as bar:
        begun = time.monotonic()
        task = bar.add_task("fitting", total=1.0, at=begun, begun=begun)

        def tell(name: str, share: float) -> None:
            bar.update(task, description=f"{name:<12}", completed=share, at=time.monotonic())

        yield tell


def study_grid(study: Study) -> Grid:
    """Groups in rows, models in columns; worst groups of the plain model first."""
    metric = study.metric
    words = "accuracy" if metric == "accuracy" else "root mean squared error"
    grid = Grid(title=Text(f"{words} on {study.sizes['validation_rows']:,} validation rows"), title_justify="left")
    grid.add_column("group", overflow="fold")
    grid.add_column("rows", justify="right")
    for arm in study.arms:
        grid.add_column(Text(arm.name), justify="right")
        grid.add_column("", justify="right", style="dim")
    rows = study.arms[0].validation.rows
    for row in rows[:SHOWN]:
        grid.add_row(Text(plain(row.name)), f"{row.n:,}", *_cells(study, row.name))
    if len(rows) > SHOWN:
        grid.add_row(Text(f"… {len(rows) - SHOWN} more"), "")
    grid.add_section()
    worst = [cell for arm in study.arms for cell in (figure(arm.worst.score, metric), "")]
    grid.add_row("worst group", "", *worst, style="bold")
    overall = [
        cell
        for arm in study.arms
        for cell in (figure(arm.validation.overall.score, metric), interval(arm.validation.overall, metric))
    ]
    grid.add_row("all rows", f"{study.sizes['validation_rows']:,}", *overall)
    return grid


def _cells(study: Study, name: str) -> list[str]:
    found = [arm.validation[name] for arm in study.arms]
    return [cell for row in found for cell in (figure(row.score, study.metric), interval(row, study.metric))]


def report_grid(report: GroupReport, title: str) -> Grid:
    """One model's groups, worst first."""
    grid = Grid(title=Text(title), title_justify="left")
    grid.add_column("group", overflow="fold")
    grid.add_column("rows", justify="right")
    grid.add_column(report.metric, justify="right")
    grid.add_column("95 % interval", justify="right", style="dim")
    for row in report.rows:
        grid.add_row(
            Text(plain(row.name)), f"{row.n:,}", figure(row.score, report.metric), interval(row, report.metric)
        )
    grid.add_section()
    whole = report.overall
    grid.add_row("all rows", f"{whole.n:,}", figure(whole.score, report.metric), interval(whole, report.metric))
    return grid
