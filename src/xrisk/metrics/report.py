"""A report on groups: its rows, and how it prints."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from xrisk.functions.parameters import counted
from xrisk.metrics.arguments import clipped


class GroupRow(NamedTuple):
    """One group of a report; values that were not requested or are unknown are None."""

    name: str
    n: int
    share: float  # of all rows; of overlapping groups the shares add up to more than one
    score: float | None
    score_low: float | None
    score_high: float | None
    risk: float | None  # mean loss
    risk_low: float | None
    risk_high: float | None
    weight: float | None  # of the group in the worst case


@dataclass(eq=False, repr=False)
class GroupReport:
    """What `group_report` returns: rows, the worst first; prints as a table.

    Attributes
    ----------
    rows : tuple of GroupRow
        The groups, worst first; those of fewer than ``min_group_size`` rows after all others.
    overall : GroupRow
        All rows together.
    metric : str
        Name of the score.
    confidence : float
        Of the intervals.
    missing : int
        Rows without a group; they form the group "missing".
    min_group_size : int
        Groups of fewer rows are never the worst.
    """

    rows: tuple[GroupRow, ...]
    overall: GroupRow
    metric: str
    confidence: float
    missing: int
    min_group_size: int

    @property
    def large(self) -> tuple[GroupRow, ...]:
        """The groups of at least ``min_group_size`` rows, worst first."""
        return tuple(row for row in self.rows if row.n >= self.min_group_size)

    @property
    def small(self) -> tuple[GroupRow, ...]:
        """The groups of fewer rows, too few for a verdict."""
        return tuple(row for row in self.rows if row.n < self.min_group_size)

    @property
    def worst(self) -> GroupRow | None:
        """The worst of the large groups; None where no group is large, or none has a number."""
        first = self.rows[0]
        return first if first.n >= self.min_group_size and (first.score, first.risk) != (None, None) else None

    def __iter__(self) -> Iterator[GroupRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> GroupRow:
        """The row of the group called ``name``."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = (*self.rows, self.overall)
        cells = [
            ("group", [clipped(row.name) for row in rows]),
            ("n", [str(row.n) for row in rows]),
            ("share", [f"{100.0 * row.share:.1f}%" for row in rows]),
            (self.metric, [_number(row.score) for row in rows]),
            ("", [_interval(row.score_low, row.score_high) for row in rows]),
            ("risk", [_number(row.risk) for row in rows]),
            ("", [_interval(row.risk_low, row.risk_high) for row in rows]),
            ("weight", [_number(row.weight) for row in rows]),
        ]
        shown = [(title, column) for title, column in cells if any(cell.strip() for cell in column)]
        return "\n".join([*_aligned(shown), *self._notes()])

    def _notes(self) -> list[str]:
        notes = []
        if any(row.score_low is not None or row.risk_low is not None for row in self.rows):
            notes.append(
                f"In brackets: {100.0 * self.confidence:g}% confidence intervals, each for one group by itself."
            )
        if self.small:
            few = counted(len(self.small), "group has", "groups have")
            notes.append(f"{few} fewer than {self.min_group_size} rows: listed last, never the worst.")
        undefined = [clipped(row.name) for row in self.rows if row.score is None]
        if undefined:
            notes.append(f"No number for {self.metric} in {', '.join(undefined[:5])}{', …' * (len(undefined) > 5)}.")
        if self.missing:
            notes.append(f"Rows without a group: {self.missing}.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, numbers, strings and None, ready for JSON."""
        return {
            "metric": self.metric,
            "confidence": self.confidence,
            "missing": self.missing,
            "min_group_size": self.min_group_size,
            "worst": None if self.worst is None else self.worst._asdict(),
            "overall": self.overall._asdict(),
            "groups": [row._asdict() for row in self.rows],
        }

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, one line for each group, worst first."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        frame = pd.DataFrame(list(self.rows), columns=list(GroupRow._fields))
        return frame.astype(dict.fromkeys(GroupRow._fields[2:], float))  # None becomes NaN


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if abs(value) < 1e4 else f"{value:.4g}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"


def _aligned(columns: list[tuple[str, list[str]]]) -> list[str]:
    """Lines of a table; the first column is left-aligned, the others are right-aligned."""
    widths = [max(map(len, [title, *cells])) for title, cells in columns]
    lines = zip(*([title, *cells] for title, cells in columns), strict=True)
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
