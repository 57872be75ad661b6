"""The tables and sentences about groups: on the page, and on a terminal."""

from collections.abc import Sequence
from typing import Any

from xrisk.functions.parameters import counted
from xrisk.metrics import GroupReport, GroupRow
from xrisk.report.numbers import score_interval, score_text
from xrisk.study.objective import TableColumn, TextTable
from xrisk.study.scores import Score

ALL = 10**9  # groups


def groups_table(
    title: str,
    columns: Sequence[TableColumn],
    reports: Sequence[GroupReport],
    score: Score,
    *,
    with_intervals: bool = True,
    most: tuple[int, int] = (ALL, ALL),
) -> TextTable:
    """Groups in rows, those of few rows apart, and all rows; of several models also the worst group of each.

    Of more than ``most`` groups (large ones, small ones) the others are counted.
    """
    first = reports[0]

    def line(name: str, rows: Sequence[GroupRow], n: str) -> tuple[str, ...]:
        pairs = [(score_text(row.score, score), score_interval(row, score)) for row in rows]
        return (name, n, *(cell for pair in pairs for cell in (pair if with_intervals else pair[:1])))

    def lines(groups: Sequence[GroupRow], most: int) -> tuple[tuple[str, ...], ...]:
        shown = [line(row.name, [report[row.name] for report in reports], f"{row.n:,}") for row in groups[:most]]
        return (*shown, *([(f"… {len(groups) - most} more",)] if len(groups) > most else []))

    heading = (f"fewer than {first.min_group_size} rows, left out of the verdict:",)
    few = (heading, *lines(first.small, most[1])) if first.small else ()
    last = [line("all rows", [report.overall for report in reports], f"{first.overall.n:,}")]
    if first.worst is not None and len(reports) > 1:
        last.insert(0, line("worst group", [report.worst for report in reports if report.worst], ""))
    return TextTable(title, tuple(columns), (lines(first.large, most[0]), few, tuple(last)), bold=("worst group",))


def group_rows(model: Any, reports: Sequence[GroupReport]) -> list[dict[str, Any]]:
    """Every group with its numbers, the worst of the plain model first."""
    weights = dict(zip(model.groups_, model.group_weights_.tolist(), strict=True))
    return [
        {
            "name": row.name,
            "n": row.n,
            "arms": [report[row.name] for report in reports],
            "is_small": row.n < reports[0].min_group_size,
            "weight": weights.get(row.name),
        }
        for row in reports[0].rows
    ]


def worst_group(report: GroupReport, score: Score) -> str:
    """The worst group of a report, in a sentence."""
    row = report.worst
    if row is None:
        return f"No group has {report.min_group_size:,} rows: no worst group is named."
    interval = f" (95 % interval {score_interval(row, score)})" if row.score_low is not None else ""
    small = counted(len(report.small), "group with", "groups with")
    left_out = f" Left out: {small} fewer than {report.min_group_size} rows." if report.small else ""
    return f"Worst group: {row.name}, {score.name} {score_text(row.score, score)}{interval}.{left_out}"


def trained_and_scored(model: Any, score: Score) -> str:
    """What models are trained on, and what they are scored by."""
    by = f"{score.name}, which counts the most likely class" if score.is_share else score.name
    loss = model.loss
    return f"Trained on the {loss if isinstance(loss, str) else type(loss).__name__} loss, scored by {by}."
