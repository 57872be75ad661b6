"""Positions in the figures: across in per cent, so that a page may be narrow; down in pixels."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple


class Scale(NamedTuple):
    """An axis from ``low`` to ``high``."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Position in per cent, kept on the axis."""
        return round(100.0 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 3)

    def down(self, value: float, height: int) -> float:
        """Position in pixels below the upper end of an axis that goes up."""
        return round(height * (1.0 - self.at(value) / 100.0), 1)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high."""
    rough = (high - low) / max(about, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def axis_of(values: Sequence[float], most: float) -> Scale:
    """An axis with a margin around the values, within 0 and ``most``."""
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
    return Scale(max(low - margin, 0.0), min(high + margin, most))


def marks_across(scale: Scale, values: Iterable[float], name: Callable[[float], str]) -> list[dict[str, Any]]:
    """The marks of an axis that goes across."""
    return [{"at": scale.at(value), "name": name(value)} for value in values]


def level_name(value: float) -> str:
    """A round number on an axis, where space is short: 2000000 is 2e6."""
    return f"{value:g}".replace("e+0", "e")


class Panel(NamedTuple):
    """A panel of curves, and what its axes are called."""

    title: str
    across: Scale
    up: Scale
    height: int
    names: tuple[str, str]
    levels: tuple[Callable[[float], str], Callable[[float], str]]  # the text of a mark of each axis

    def curve(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[float, float]]:
        """Points of a curve, those that fall together once."""
        points = [(self.across.at(a), self.up.down(b, self.height)) for a, b in zip(x, y, strict=True)]
        return list(dict.fromkeys(points))

    def drawn(
        self,
        lines: Sequence[Any],
        *,
        region: dict[str, float] | None = None,
        area: Sequence[Any] = (),
        chance: Sequence[Any] = (),
        dots: Sequence[Any] = (),
        up_marks: Sequence[float] | None = None,
    ) -> dict[str, Any]:
        """The panel for the page: curves by key, the region that counts, what is filled, and marks other than round."""
        across, up = self.levels
        marks = ticks(*self.up) if up_marks is None else up_marks
        return {
            "title": self.title,
            "height": self.height,
            "names": self.names,
            "lines": lines,
            "region": region,
            "area": area,
            "chance": chance,
            "dots": dots,
            "across": marks_across(self.across, ticks(*self.across), across),
            "up": [{"y": self.up.down(v, self.height), "name": up(v)} for v in marks],
        }
