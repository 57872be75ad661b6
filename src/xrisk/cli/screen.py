"""What is shown on a terminal: tables, notes, a bar with the time left."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from xrisk.metrics import GroupReport, GroupRow
from xrisk.phrases import counted
from xrisk.report.phrases import interval, score
from xrisk.study import Study
from xrisk.tables.prepare import Prepared, column_rows, without_target

SHOWN = 12  # groups in a table on a terminal; the report has them all
FOLDED = 3  # groups of few rows in a table on a terminal
COLUMNS_SHOWN = 40  # of the columns that were read
WIDE = 100  # columns of a terminal that has room for intervals
FRAME: dict[str, Any] = {"title_justify": "left", "box": SIMPLE_HEAD, "pad_edge": False}


def plain(text: str) -> str:
    """Text without control characters, which a terminal would obey."""
    return text if text.isprintable() else repr(text)[1:-1]


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


def column_dicts(prepared: Prepared) -> list[dict[str, str]]:
    """The columns as guessed, for JSON."""
    return [{"name": name, "kind": kind, "detail": detail} for name, kind, detail in column_rows(prepared.encoding)]


def column_grid(prepared: Prepared, data: str) -> Grid:
    """The columns as guessed."""
    kinds = (prepared.train, prepared.validation, prepared.test)
    rows = counted(sum(part.y.size for part in kinds if part is not None), "row", "rows")
    grid = Grid(title=Text(f"{plain(data)}: {rows}; columns as guessed"), **FRAME)
    for title in ("column", "taken as", ""):
        grid.add_column(title, overflow="fold")
    told = column_rows(prepared.encoding)
    for name, kind, detail in told[:COLUMNS_SHOWN]:
        grid.add_row(Text(plain(name)), kind, Text(detail, style="dim"))
    if len(told) > COLUMNS_SHOWN:
        grid.add_row(Text(f"… {len(told) - COLUMNS_SHOWN:,} more"), "", Text("--json tells all", style="dim"))
    return grid


def tell_left_out(out: Console, without: int, strange: list[str]) -> None:
    """The notes of a model's scores: rows without a target, and of classes it does not know."""
    if without:
        out.print(Text(without_target(without), style="dim"))
    if strange:
        named = ", ".join(map(plain, strange))
        out.print(Text(f"Classes without training rows, their rows are left out: {named}.", style="dim"))


def study_grid(study: Study, width: int) -> Grid:
    """Groups in rows, models in columns, worst groups of the plain model first; with intervals where there is room."""
    is_wide = width >= WIDE
    many = counted(study.judged_rows, f"{study.judged_on} row", f"{study.judged_on} rows")
    grid = Grid(title=Text(f"{study.metric} on {many}"), **FRAME)
    grid.add_column("group", overflow="fold")
    grid.add_column("rows", justify="right", no_wrap=True)
    for arm in study.arms:
        grid.add_column(Text(arm.name), justify="right", no_wrap=True)
        if is_wide:
            grid.add_column("", justify="right", style="dim", no_wrap=True)
    first = study.arms[0].test
    _add_groups(grid, study, first.large, SHOWN, is_wide)
    if first.small:
        grid.add_section()
        grid.add_row(Text(f"fewer than {first.min_group_size} rows, left out of the verdict:", style="dim"))
        _add_groups(grid, study, first.small, FOLDED, is_wide)
    grid.add_section()
    whole = [arm.test.overall for arm in study.arms]
    worst = [arm.worst for arm in study.arms if arm.worst is not None]
    if worst:
        grid.add_row("worst group", "", *_cells(worst, study.metric, is_wide), style="bold")
    grid.add_row("all rows", f"{study.judged_rows:,}", *_cells(whole, study.metric, is_wide))
    return grid


def _add_groups(grid: Grid, study: Study, rows: tuple[GroupRow, ...], most: int, is_wide: bool) -> None:
    for row in rows[:most]:
        found = [arm.test[row.name] for arm in study.arms]
        grid.add_row(Text(plain(row.name)), f"{row.n:,}", *_cells(found, study.metric, is_wide))
    if len(rows) > most:
        grid.add_row(Text(f"… {len(rows) - most} more"), "")


def _cells(rows: list[GroupRow], metric: str, is_wide: bool) -> list[str]:
    pairs = [(score(row.score, metric), interval(row, metric)) for row in rows]
    return [cell for pair in pairs for cell in (pair if is_wide else pair[:1])]


def report_grid(report: GroupReport, title: str) -> Grid:
    """One model's groups, worst first."""
    grid = Grid(title=Text(title), **FRAME)
    grid.add_column("group", overflow="fold")
    grid.add_column("rows", justify="right")
    grid.add_column(report.metric, justify="right")
    grid.add_column("95 % interval", justify="right", style="dim")
    _add_rows(grid, report.large, report.metric)
    if report.small:
        grid.add_section()
        grid.add_row(Text(f"fewer than {report.min_group_size} rows, left out of the verdict:", style="dim"))
        _add_rows(grid, report.small, report.metric)
    grid.add_section()
    _add_rows(grid, (report.overall._replace(name="all rows"),), report.metric)
    return grid


def _add_rows(grid: Grid, rows: tuple[GroupRow, ...], metric: str) -> None:
    for row in rows:
        grid.add_row(Text(plain(row.name)), f"{row.n:,}", score(row.score, metric), interval(row, metric))
