"""The numbers of all models side by side: on the page, on cards, and in a table on a terminal."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xrisk.report.figures import axis_of, level_name, marks_across, ticks
from xrisk.report.numbers import headed
from xrisk.study import Arm, Study
from xrisk.study.objective import TableColumn, TextTable


class Quantity(NamedTuple):
    """A number that is shown of every model."""

    name: str
    text: Callable[[Any], str]  # of what `Objective.judge` returned
    interval: Callable[[Any], str] | None = None
    label: str = ""  # on a card, where that is not its name
    width: int | None = None  # at which its name is wrapped on a terminal
    on_terminal: bool = True
    on_card: bool = True

    def columns(self) -> list[TableColumn]:
        """Its columns on a terminal."""
        interval = [TableColumn("95 % interval", is_dim=True)] if self.interval else []
        return [TableColumn(self.name, width=self.width), *interval]

    def cells(self, judged: Any) -> list[str]:
        """The text of these columns."""
        return [self.text(judged), *([self.interval(judged)] if self.interval else [])]


class Card(NamedTuple):
    """One of the large numbers on top of the page, or one for each model."""

    label: str
    values: tuple[tuple[str, str], ...]  # what it is of, and the number


def cards(study: Study, quantities: Sequence[Quantity]) -> list[Card]:
    """The numbers one would remember."""
    return [
        Card(headed(each.label or each.name), tuple((arm.name, each.text(arm.test)) for arm in study.arms))
        for each in quantities
        if each.on_card
    ]


def marks_figure(arms: Sequence[Arm], quantity: Quantity, field: str, most: float) -> dict[str, Any]:
    """A quantity of every model with its interval; ``field`` is its name in what `Objective.judge` returned."""
    found = [(arm, getattr(arm.test, field), arm.test.low, arm.test.high) for arm in arms]
    scale = axis_of([end for _, *ends in found for end in ends], most)
    lines = [
        {"key": arm.key, "name": arm.name}
        | dict(zip(("value", "interval"), quantity.cells(arm.test), strict=True))
        | {"at": scale.at(score), "low": scale.at(low), "high": scale.at(high)}
        for arm, score, low, high in found
    ]
    levels = ticks(*scale)
    return {"lines": lines, "ticks": marks_across(scale, levels if len(levels) > 2 else ticks(*scale, 10), level_name)}


def models_table(study: Study, quantities: Sequence[Quantity], title: str, is_wide: bool) -> TextTable:
    """The models in rows, on a terminal; a wide one also shows what each minimises."""
    table = judged_table(title, [(arm.name, arm.test) for arm in study.arms], quantities)
    bold = () if study.recommended is None else (study.recommended.name,)
    if not is_wide:
        return table._replace(bold=bold)
    lines = tuple((*line, arm.minimises) for line, arm in zip(table.parts[0], study.arms, strict=True))
    wide = TableColumn("minimises", is_number=False, is_dim=True)
    return TextTable(title, (*table.columns, wide), (lines,), bold)


def judged_table(title: str, judged: Sequence[tuple[str, Any]], quantities: Sequence[Quantity]) -> TextTable:
    """Models in rows, on a terminal: of each its name and what `Objective.judge` returned."""
    shown = [each for each in quantities if each.on_terminal]
    columns = [column for each in shown for column in each.columns()]
    lines = [(name, *(cell for each in shown for cell in each.cells(found))) for name, found in judged]
    return TextTable(title, (TableColumn("model", is_number=False), *columns), (tuple(lines),))
