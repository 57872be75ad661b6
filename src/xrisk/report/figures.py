"""Where the marks of the figures stand: across in per cent, so that a page may be narrow; down in pixels."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.report.phrases import percent, score
from xrisk.study.scores import SHARES

SHOWN = 12  # groups in a figure; the table has all
HEIGHT = 190  # of a panel of the bounds


class Scale(NamedTuple):
    """An axis from ``low`` to ``high``."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Position in per cent, kept on the axis."""
        return round(100.0 * min(max((value - self.low) / (self.high - self.low), 0.0), 1.0), 3)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high.

    Examples
    --------
    >>> from xrisk.report.figures import ticks
    >>> ticks(0.13, 0.98)
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / max(about, 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def axis_of(values: list[float], most: float) -> Scale:
    """An axis with some room around the values, within 0 and ``most``."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.05 * abs(high) or 0.05
    return Scale(max(low - room, 0.0), min(high + room, most))


def placed(across: Scale, up: Scale, height: int, x: Any, y: Any) -> list[tuple[float, float]]:
    """Points of a curve in a panel, across in per cent and down in pixels; those that fall together once."""
    points = [(across.at(a), round(height * (1.0 - up.at(b) / 100.0), 1)) for a, b in zip(x, y, strict=True)]
    return list(dict.fromkeys(points))


def marks_figure(
    found: list[tuple[Any, float, float, float]], texts: list[tuple[str, str]], most: float
) -> dict[str, Any]:
    """One score for every model with its interval: (model, score, low, high), and number and interval as text."""
    scale = axis_of([end for _, *ends in found for end in ends], most)
    lines = [
        {"key": arm.key, "name": arm.name, "words": arm.words, "value": value, "interval": interval}
        | {"at": scale.at(score), "low": scale.at(low), "high": scale.at(high)}
        for (arm, score, low, high), (value, interval) in zip(found, texts, strict=True)
    ]
    levels = ticks(*scale)
    levels = levels if len(levels) > 2 else ticks(*scale, 10)
    return {"lines": lines, "ticks": [{"at": scale.at(v), "name": level_name(v)} for v in levels]}


def level_name(value: float) -> str:
    """A round number beside an axis, where there is little room: 2000000 is 2e6."""
    return f"{value:g}".replace("e+0", "e")


def _axis(values: list[float], metric: str) -> Scale:
    return axis_of(values, 1.0 if metric in SHARES else math.inf)


def _tick_marks(scale: Scale, metric: str, about: int = 5) -> list[dict[str, Any]]:
    def name(value: float) -> str:
        return percent(value, 0) if metric in SHARES else f"{value:.4g}"

    return [{"at": scale.at(value), "name": name(value)} for value in ticks(scale.low, scale.high, about)]


def groups_figure(arms: Any, metric: str) -> dict[str, Any] | None:
    """Every large group's score with its interval, under each of the models."""
    large = arms[0].test.large
    shown = large[:SHOWN]
    if not shown:
        return None
    found = [[arm.test[row.name] for arm in arms] for row in shown]
    ends = [
        end for rows in found for row in rows for end in (row.score, row.score_low, row.score_high) if end is not None
    ]
    scale = _axis(ends, metric)
    lines = [
        {
            "name": row.name,
            "n": row.n,
            "values": [score(each.score, metric) for each in rows],
            "marks": [
                _mark(arm.key, each, scale, 15 + 13 * k)
                for k, (arm, each) in enumerate(zip(arms, rows, strict=True))
                if each.score is not None
            ],
        }
        for row, rows in zip(shown, found, strict=True)
    ]
    return {
        "lines": lines,
        "ticks": _tick_marks(scale, metric),
        "hidden": len(large) - len(shown),
    }


def _mark(key: str, row: Any, scale: Scale, y: int) -> dict[str, Any]:
    low = row.score if row.score_low is None else row.score_low
    high = row.score if row.score_high is None else row.score_high
    return {"key": key, "at": scale.at(row.score), "low": scale.at(low), "high": scale.at(high), "y": y}


def spans_figure(arms: Any, metric: str) -> dict[str, Any] | None:
    """For each model the score of all rows and of the worst group, and what lies between."""
    worst = [arm.test.worst for arm in arms if arm.test.worst is not None]
    if len(worst) < len(arms):
        return None
    pairs = [
        (arm, row.name, arm.test.overall.score or 0.0, row.score or 0.0) for arm, row in zip(arms, worst, strict=True)
    ]
    scale = _axis([value for _, _, *both in pairs for value in both], metric)
    lines = [
        {
            "key": arm.key,
            "name": arm.name,
            "all": scale.at(whole),
            "worst": scale.at(least),
            "all_text": score(whole, metric),
            "worst_text": score(least, metric),
            "worst_name": name,
        }
        for arm, name, whole, least in pairs
    ]
    return {"lines": lines, "ticks": _tick_marks(scale, metric)}


def weights_figure(model: Any, train: Any) -> dict[str, Any]:
    """The groups by their weight in the worst case, beside their share of the training rows."""
    order = np.argsort(-model.group_weights_, kind="stable")
    shown = [int(k) for k in order[:SHOWN] if model.group_weights_[k] > 5e-4] or [int(order[0])]
    share = {row.name: row.share for row in train.rows}
    largest = max([float(model.group_weights_[k]) for k in shown] + [share.get(model.groups_[k], 0.0) for k in shown])
    scale = Scale(0.0, min(1.08 * largest, 1.0))
    lines = [
        {
            "name": model.groups_[k],
            "weight": scale.at(float(model.group_weights_[k])),
            "share": scale.at(share.get(model.groups_[k], 0.0)),
            "weight_text": percent(float(model.group_weights_[k])),
            "share_text": percent(share.get(model.groups_[k], 0.0)),
        }
        for k in shown
    ]
    hidden = len(model.groups_) - len(shown)
    rest = float(sum(model.group_weights_[k] for k in order[len(shown) :]))
    return {"lines": lines, "hidden": hidden, "rest": percent(rest), "ticks": _tick_marks(scale, "accuracy", 4)}


def bounds_figure(points: Any) -> dict[str, Any] | None:
    """Upper and lower bound, and the gap between on a logarithmic axis, against time."""
    known = [point for point in points if np.isfinite(point.value) and np.isfinite(point.bound)]
    if len(known) < 2:
        return None
    seconds = Scale(0.0, 1.02 * max(point.seconds for point in known))
    unit, per = ("ms", 1e3) if seconds.high < 1.0 else ("s", 1.0)
    across = [{"at": seconds.at(t / per), "name": f"{t:g}"} for t in ticks(0.0, seconds.high * per, 5)]
    upper, lower, values = _bound_lines(known, seconds)
    gap, decades = _gap_line(known, seconds)
    return {
        "height": HEIGHT,
        "unit": unit,
        "across": across,
        "upper": upper,
        "lower": lower,
        "values": values,
        "gap": gap,
        "decades": decades,
        "rows": known[:: max(1, len(known) // 12)]
        + ([known[-1]] if (len(known) - 1) % max(1, len(known) // 12) else []),
    }


def _bound_lines(known: list[Any], seconds: Scale) -> tuple[list[Any], list[Any], list[Any]]:
    end = known[-1].value
    spread = max(known[0].value - end, 5.0 * (end - known[-1].bound), 1e-4 * abs(end), 1e-12)
    low = max(min(point.bound for point in known), end - 1.5 * spread)  # a first lower bound may be far off
    high = end + 1.1 * spread
    scale = Scale(low - 0.05 * (high - low), high)

    def place(point: Any, value: float) -> tuple[float, float]:
        return seconds.at(point.seconds), round(HEIGHT * (1.0 - scale.at(value) / 100.0), 2)

    values = [{"y": round(HEIGHT * (1.0 - scale.at(v) / 100.0), 2), "name": f"{v:.6g}"} for v in ticks(*scale, 4)[:6]]
    return [place(p, p.value) for p in known], [place(p, p.bound) for p in known], values


def _gap_line(known: list[Any], seconds: Scale) -> tuple[list[Any], list[Any]]:
    def relative(point: Any) -> float:
        return max((point.value - point.bound) / max(abs(point.value), abs(point.bound), 1e-300), 1e-16)

    logs = [math.log10(relative(point)) for point in known]
    scale = Scale(math.floor(min(logs)) - 0.1, math.ceil(max(logs)) + 0.35)

    def down(log: float) -> float:
        return round(HEIGHT * (1.0 - scale.at(log) / 100.0), 2)

    whole = range(math.ceil(scale.low), math.floor(scale.high) + 1)
    every = max(1, len(whole) // 5)
    decades = [{"y": down(k), "name": f"{10.0**k:g}" if k >= -3 else f"1e{k}"} for k in whole][::every]
    return [(seconds.at(point.seconds), down(log)) for point, log in zip(known, logs, strict=True)], decades
