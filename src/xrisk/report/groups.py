"""Groups on the page and on a terminal: tables, sentences, and figures of scores, weights and bounds."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xrisk.annotations import Estimator
from xrisk.functions.parameters import counted
from xrisk.metrics import GroupReport, GroupRow
from xrisk.report.figures import Panel, Scale, axis_of, level_name, marks_across, ticks
from xrisk.report.numbers import percent, score_interval, score_text
from xrisk.run import TracePoint
from xrisk.study import Arm
from xrisk.study.objective import TableColumn, TextTable
from xrisk.study.scores import Score

ALL = 10**9  # groups
SHOWN = 12  # groups in a figure; the table has all
LIGHT = 5e-4  # weight below which a group is not drawn
HEIGHT = 190  # of a panel of the bounds


def groups_table(
    title: str,
    columns: Sequence[TableColumn],
    reports: Sequence[GroupReport],
    score: Score,
    *,
    with_intervals: bool = True,
    most: tuple[int, int] = (ALL, ALL),
) -> TextTable:
    """Groups in rows, small ones separately, and all rows; for several models also the worst group of each.

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


def worst_group(report: GroupReport, score: Score) -> str:
    """The worst group of a report, in a sentence."""
    row = report.worst
    if row is None:
        return f"No group has {report.min_group_size:,} rows: no worst group is named."
    interval = f" (95 % interval {score_interval(row, score)})" if row.score_low is not None else ""
    small = counted(len(report.small), "group with", "groups with")
    left_out = f" Left out: {small} fewer than {report.min_group_size} rows." if report.small else ""
    return f"Worst group: {row.name}, {score.name} {score_text(row.score, score)}{interval}.{left_out}"


def trained_and_scored(model: Estimator, score: Score) -> str:
    """What models are trained on, and what they are scored by."""
    by = f"{score.name}, which counts the most likely class" if score.is_share else score.name
    loss = model.loss
    return f"Trained on the {loss if isinstance(loss, str) else type(loss).__name__} loss, scored by {by}."


def _score_axis(values: Sequence[float], score: Score) -> tuple[Scale, list[dict[str, Any]]]:
    scale = axis_of(values, 1.0 if score.is_share else math.inf)
    return scale, marks_across(scale, ticks(*scale), lambda v: percent(v, 0) if score.is_share else f"{v:.4g}")


def groups_figure(arms: Sequence[Arm], score: Score) -> dict[str, Any] | None:
    """Every large group's score with its interval, under each of the models."""
    large = arms[0].test.large
    shown = large[:SHOWN]
    if not shown:
        return None
    found = [[arm.test[row.name] for arm in arms] for row in shown]
    ends = [(row.score, row.score_low, row.score_high) for rows in found for row in rows]
    scale, levels = _score_axis([end for three in ends for end in three if end is not None], score)
    lines = [
        {
            "name": row.name,
            "note": counted(row.n, "row", "rows").replace(" ", "\u00a0"),
            "values": [score_text(each.score, score) for each in rows],
            "marks": [
                _mark(arm.key, each, scale, 15 + 13 * k)
                for k, (arm, each) in enumerate(zip(arms, rows, strict=True))
                if each.score is not None
            ],
        }
        for row, rows in zip(shown, found, strict=True)
    ]
    return {"lines": lines, "ticks": levels, "hidden": len(large) - len(shown)}


def _mark(key: str, row: Any, scale: Scale, y: int) -> dict[str, Any]:
    low = row.score if row.score_low is None else row.score_low
    high = row.score if row.score_high is None else row.score_high
    return {"key": key, "at": scale.at(row.score), "low": scale.at(low), "high": scale.at(high), "y": y}


def spans_figure(arms: Sequence[Arm], score: Score) -> dict[str, Any] | None:
    """For each model the score of all rows and of the worst group, and what lies between."""
    worst = [arm.test.worst for arm in arms if arm.test.worst is not None]
    if len(worst) < len(arms):
        return None
    pairs = [
        (arm, row.name, arm.test.overall.score or 0.0, row.score or 0.0) for arm, row in zip(arms, worst, strict=True)
    ]
    scale, levels = _score_axis([value for _, _, *both in pairs for value in both], score)
    lines = [
        {
            "key": arm.key,
            "name": arm.name,
            "all": scale.at(whole),
            "worst": scale.at(least),
            "all_text": score_text(whole, score),
            "worst_text": score_text(least, score),
            "note": f"worst: {name}",
        }
        for arm, name, whole, least in pairs
    ]
    return {"lines": lines, "ticks": levels}


def weights_figure(model: Estimator, train: GroupReport) -> dict[str, Any]:
    """The groups by their weight in the worst case, with their share of the training rows."""
    order = np.argsort(-model.group_weights_, kind="stable")
    shown = [int(k) for k in order[:SHOWN] if model.group_weights_[k] > LIGHT] or [int(order[0])]
    share = {row.name: row.share for row in train.rows}
    pairs = [(model.groups_[k], float(model.group_weights_[k]), share.get(model.groups_[k], 0.0)) for k in shown]
    scale = Scale(0.0, min(1.08 * max(max(both) for _, *both in pairs), 1.0))
    lines = [
        {"name": name, "weight": scale.at(weight), "share": scale.at(part)}
        | {"weight_text": percent(weight), "share_text": percent(part)}
        for name, weight, part in pairs
    ]
    rest = float(sum(model.group_weights_[k] for k in order[len(shown) :]))
    levels = marks_across(scale, ticks(*scale, 4), lambda v: percent(v, 0))
    return {"lines": lines, "hidden": len(model.groups_) - len(shown), "rest": percent(rest), "ticks": levels}


def bounds_figure(points: Sequence[TracePoint]) -> dict[str, Any] | None:
    """Two panels against time: both bounds on the optimum, and the gap between them on a logarithmic axis."""
    known = [point for point in points if np.isfinite(point.value) and np.isfinite(point.bound)]
    if len(known) < 2:
        return None
    last = 1.02 * max(point.seconds for point in known)
    unit, per = ("milliseconds", 1e3) if last < 1.0 else ("seconds", 1.0)
    times, across = [per * point.seconds for point in known], Scale(0.0, per * last)
    every = max(1, len(known) // 12)
    rows = known[::every] + ([known[-1]] if (len(known) - 1) % every else [])
    return {"panels": [_bounds_panel(known, times, across, unit), _gap_panel(known, times, across, unit)], "rows": rows}


def _bounds_panel(known: Sequence[TracePoint], times: Sequence[float], across: Scale, unit: str) -> dict[str, Any]:
    end = known[-1].value
    spread = max(known[0].value - end, 5.0 * (end - known[-1].bound), 1e-4 * abs(end), 1e-12)
    low = max(min(point.bound for point in known), end - 1.5 * spread)  # a first lower bound may be very low
    high = end + 1.1 * spread
    names, levels = (unit, "training objective"), (level_name, lambda v: f"{v:.6g}")
    panel = Panel("Bounds on the optimum", across, Scale(low - 0.05 * (high - low), high), HEIGHT, names, levels)
    upper, lower = (panel.curve(times, values) for values in zip(*((p.value, p.bound) for p in known), strict=True))
    lines = [("upper", upper), ("lower", lower)]
    return panel.drawn(lines, area=[*upper, *reversed(lower)], dots=lines)


def _gap_panel(known: Sequence[TracePoint], times: Sequence[float], across: Scale, unit: str) -> dict[str, Any]:
    gaps = [(p.value - p.bound) / max(abs(p.value), abs(p.bound), 1e-300) for p in known]
    logs = [math.log10(max(gap, 1e-16)) for gap in gaps]
    up = Scale(math.floor(min(logs)) - 0.1, math.ceil(max(logs)) + 0.35)
    whole = range(math.ceil(up.low), math.floor(up.high) + 1)
    names, levels = (unit, "relative gap"), (level_name, lambda k: f"{10.0**k:g}" if k >= -3 else f"1e{k}")
    panel = Panel("The gap between them", across, up, HEIGHT, names, levels)
    lines = [("gap", panel.curve(times, logs))]
    return panel.drawn(lines, dots=lines, up_marks=whole[:: max(1, len(whole) // 5)])
