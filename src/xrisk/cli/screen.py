"""What is shown on a terminal: tables, notes, a bar with the time left."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text

from xrisk.functions.parameters import counted
from xrisk.report.numbers import THIN
from xrisk.study import Study
from xrisk.study.objective import TableColumn, TextTable
from xrisk.tables.prepare import Prepared, column_rows

COLUMNS_SHOWN = 40  # of the columns that were read
WIDE = 100  # columns of a terminal that is wide enough for intervals
FRAME: dict[str, Any] = {"title_justify": "left", "box": SIMPLE_HEAD, "pad_edge": False}


def plain(text: str) -> str:
    """Text without control characters, which a terminal would obey; narrow spaces are none."""
    return "".join(letter if letter.isprintable() or letter == THIN else repr(letter)[1:-1] for letter in text)


class TimeLeft(ProgressColumn):
    """The time left, by the share of the work that is done; unknown before the first model is fitted."""

    def render(self, task: Any) -> Text:
        if not task.completed or task.finished:
            return Text("")
        at, since = task.fields["at"], time.monotonic()
        passed = at - task.fields["begun"]
        left = passed / task.completed * (task.total - task.completed) - (since - at)
        return Text(f"about {max(left, 1.0):.0f} s left" if left > 0 else "nearly done", style="dim")


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Any]:
    """A function to call with the name of the next step and the share of the work that is done."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield lambda name, share: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeLeft())
    with Progress(*columns, console=console, transient=True) as bar:
        begun = time.monotonic()
        task = bar.add_task("fitting", total=1.0, at=begun, begun=begun)

        def notify(name: str, share: float) -> None:
            bar.update(task, description=f"{name:<12}", completed=share, at=time.monotonic())

        yield notify


def column_grid(prepared: Prepared, data: str) -> Grid:
    """The columns and what they are taken as."""
    kinds = (prepared.train, prepared.validation, prepared.test)
    rows = counted(sum(part.y.size for part in kinds if part is not None), "row", "rows")
    found = column_rows(prepared.encoding)
    more = [(f"… {len(found) - COLUMNS_SHOWN:,} more", "", "--json lists all")] if len(found) > COLUMNS_SHOWN else []
    names = (TableColumn("column", False), TableColumn("taken as", False), TableColumn("", False, is_dim=True))
    return grid(TextTable(f"{data}: {rows}; columns as guessed", names, ((*found[:COLUMNS_SHOWN], *more),)))


def say(out: Console, sentences: Iterable[str], style: str = "") -> None:
    """Sentences, one on a line, whatever names are in them; empty ones are left out."""
    for sentence in filter(None, sentences):
        out.print(Text(plain(sentence), style=style))


def show_study(out: Console, study: Study) -> None:
    """The finding of a study."""
    out.print(grid(study.objective.table(study, is_wide=out.width >= WIDE)))
    say(out, [study.caution], "bold")
    say(out, study.objective.sentences(study))


def chosen_columns(
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    shown: Sequence[str],
    *,
    whole: Sequence[str],
    numbers: Sequence[str] = (),
) -> Grid:
    """Some columns of a table, those in ``whole`` never wrapped."""
    columns = tuple(TableColumn(name, name in numbers, is_whole=name in whole) for name in shown)
    cells = [dict(zip(names, row, strict=True)) for row in rows]
    return grid(TextTable(title, columns, (tuple(tuple(row[name] for name in shown) for row in cells),)))


def grid(table: TextTable) -> Grid:
    """A table as the terminal shows it."""
    shown = Grid(title=Text(plain(table.title)), **FRAME)
    for column in table.columns:
        shown.add_column(
            Text(plain(column.name)),
            style="dim" if column.is_dim else "",
            justify="right" if column.is_number else "left",
            max_width=column.width,
            no_wrap=column.is_whole,
            overflow="ellipsis" if column.is_number else "fold",  # half a number would be another one
        )
    for part in table.parts:
        if part and shown.rows:
            shown.add_section()
        for row in part:
            style = "bold" if row[0] in table.bold else "dim" if len(row) == 1 else ""
            shown.add_row(*(Text(plain(cell)) for cell in row), style=style)
    return shown
