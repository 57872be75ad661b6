"""The numbers of all models side by side: on the page, on cards, and in a table on a terminal."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xrisk.report.numbers import headed
from xrisk.study import Study
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


def page_rows(study: Study, quantities: Sequence[Quantity], training: Callable[[Any], str]) -> dict[str, Any]:
    """The table of the page, with a last column about the training rows."""
    return {
        "heads": [headed(each.name) for each in quantities],
        "rows": [
            {"name": arm.name, "train": training(arm.train)}
            | {"cells": [(q.text(arm.test), q.interval(arm.test) if q.interval else "") for q in quantities]}
            for arm in study.arms
        ],
    }


def models_table(study: Study, quantities: Sequence[Quantity], title: str, is_wide: bool) -> TextTable:
    """The models in rows, on a terminal; a wide one also shows what each minimises."""
    wide = (TableColumn("minimises", is_number=False, is_dim=True),) if is_wide else ()
    lines = [(arm.name, *cells(arm.test, quantities), *([arm.minimises] if is_wide else [])) for arm in study.arms]
    bold = () if study.recommended is None else (study.recommended.name,)
    return TextTable(title, (*columns(quantities), *wide), (tuple(lines),), bold)


def columns(quantities: Sequence[Quantity]) -> tuple[TableColumn, ...]:
    """The columns of a table of models on a terminal."""
    found = [TableColumn("model", is_number=False)]
    for each in quantities:
        if each.on_terminal:
            found.append(TableColumn(each.name, width=each.width))
            found += [TableColumn("95 % interval", is_dim=True)] if each.interval else []
    return tuple(found)


def cells(judged: Any, quantities: Sequence[Quantity]) -> list[str]:
    """The row of a model, without its name."""
    found = []
    for each in quantities:
        if each.on_terminal:
            found.append(each.text(judged))
            found += [each.interval(judged)] if each.interval else []
    return found
