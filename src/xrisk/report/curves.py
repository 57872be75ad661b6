"""The figures of curves: ROC curves, and losses from the largest to the smallest."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xrisk.metrics.roc import inside
from xrisk.report.figures import Panel, Scale, level_name, ticks
from xrisk.report.numbers import percent
from xrisk.study import Arm
from xrisk.tables import RankedClasses

ROC_HEIGHT, LOSS_HEIGHT = 340, 300  # of a panel
CUT = 0.01  # share of the rows, the worst, whose losses may lie outside the panel of all rows
POINTS = 150  # of a curve of losses


def roc_panels(arms: Sequence[Arm], shaded: Arm, ranked: RankedClasses) -> list[dict[str, Any]]:
    """The ROC curves, whole, and the region alone; the part of the region under one of them is filled."""
    whole = _roc_panel(arms, shaded, ranked, "ROC curves, the region in grey", Scale(0.0, 1.0), Scale(0.0, 1.0))
    if ranked.min_tpr == 0.0 and ranked.max_fpr == 1.0:
        return [whole]
    across, up = Scale(0.0, ranked.max_fpr), Scale(ranked.min_tpr, 1.0)
    return [whole, _roc_panel(arms, shaded, ranked, "The region alone", across, up)]


def _roc_panel(
    arms: Sequence[Arm], shaded: Arm, ranked: RankedClasses, title: str, across: Scale, up: Scale
) -> dict[str, Any]:
    names = ("false positive rate", "true positive rate")
    panel = Panel(title, across, up, ROC_HEIGHT, names, (_percents(across), _percents(up)))
    curves = [(arm.key, arm.test.curve) for arm in arms]
    top, bottom = panel.curve([0.0, ranked.max_fpr], [1.0, ranked.min_tpr])
    diagonal = np.array([0.0, 1.0])
    return panel.drawn(
        [(key, panel.curve(*inside(curve.fpr, curve.tpr, up.low, across.high))) for key, curve in curves],
        {"width": bottom[0], "height": bottom[1] - top[1]},
        area=panel.curve(*shaded.test.curve.polygon.T),
        chance=panel.curve(*inside(diagonal, diagonal, up.low, across.high)),
    )


def _percents(scale: Scale) -> Any:
    """Writes the marks of an axis in per cent with the decimals that tell them apart."""
    values = ticks(*scale)
    exact = (k for k in range(4) if all(abs(100.0 * v - round(100.0 * v, k)) < 1e-9 for v in values))
    digits = next(exact, 4)
    return lambda value: percent(value, digits)


def loss_panels(arms: Sequence[Arm], tail: float) -> list[dict[str, Any]]:
    """The losses of each model, largest first: of all rows, and of the worst ones alone."""
    return [
        _loss_panel(arms, tail, "All rows, the worst tenth in grey", 1.0),
        _loss_panel(arms, tail, "The worst tenth alone", tail),
    ]


def _loss_panel(arms: Sequence[Arm], tail: float, title: str, share: float) -> dict[str, Any]:
    losses = {arm.key: np.sort(arm.test.losses)[::-1] for arm in arms}
    n = arms[0].test.rows
    last = max(int(np.ceil(share * n)), 2)
    rows = np.unique(np.linspace(0, min(last, n) - 1, POINTS).astype(int))
    first = 0 if share < 1.0 else int(CUT * n)  # a few of all rows have far larger losses than the others
    up = Scale(0.0, 1.04 * max(float(each[first]) for each in losses.values()) or 1.0)
    names = ("share of the rows, largest losses first", "loss")
    panel = Panel(title, Scale(0.0, share), up, LOSS_HEIGHT, names, (lambda v: percent(v, 0), level_name))
    lines = [(key, panel.curve((rows + 0.5) / n, each[rows])) for key, each in losses.items()]
    return panel.drawn(lines, {"width": panel.across.at(tail), "height": LOSS_HEIGHT})
