"""What is shown on a terminal: tables, notes, a bar with the time left."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from xrisk.phrases import counted
from xrisk.report.phrases import THIN
from xrisk.study.objective import Sheet
from xrisk.tables.prepare import Prepared, column_rows

COLUMNS_SHOWN = 40  # of the columns that were read
WIDE = 100  # columns of a terminal that has room for intervals
FRAME: dict[str, Any] = {"title_justify": "left", "box": SIMPLE_HEAD, "pad_edge": False}


def plain(text: str) -> str:
    """Text without control characters, which a terminal would obey; narrow spaces are none."""
    return "".join(letter if letter.isprintable() or letter == THIN else repr(letter)[1:-1] for letter in text)


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


def is_wide(out: Console) -> bool:
    """Whether a terminal has room for intervals."""
    return out.width >= WIDE


def say(out: Console, sentences: Iterable[str], style: str = "") -> None:
    """Sentences, a line each, whatever names are in them."""
    for sentence in sentences:
        out.print(Text(plain(sentence), style=style))


def grid(sheet: Sheet) -> Grid:
    """A table as the terminal shows it."""
    shown = Grid(title=Text(plain(sheet.title)), **FRAME)
    for column in sheet.columns:
        style: dict[str, Any] = {"style": "dim"} if column.is_dim else {}
        number: dict[str, Any] = {"justify": "right", "no_wrap": column.width is None} if column.is_number else {}
        overflow: Any = "fold" if column.width or not column.is_number else "ellipsis"
        shown.add_column(Text(plain(column.name)), max_width=column.width, overflow=overflow, **number, **style)
    for part in sheet.parts:
        if not part:
            continue
        if shown.rows:
            shown.add_section()
        for row in part:
            alone = "dim" if len(row) == 1 else ""
            shown.add_row(*(Text(plain(cell)) for cell in row), style="bold" if row[0] in sheet.bold else alone)
    return shown
