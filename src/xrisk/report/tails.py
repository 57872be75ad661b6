"""The tail of the losses on the page and on a terminal: numbers, sentences, and the sorted losses."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from xrisk.annotations import Estimator
from xrisk.applications import LOSSES
from xrisk.applications.arguments import by_name
from xrisk.metrics import GroupReport
from xrisk.report.figures import Panel, Scale, level_name
from xrisk.report.models import Quantity
from xrisk.report.numbers import THIN, loss_interval, loss_text, percent, rounded
from xrisk.study import Arm

HEIGHT = 300  # of a panel of losses
CUT = 0.01  # share of the rows, the worst, whose losses may lie outside the panel of all rows
POINTS = 150  # of a curve of losses


def quantities(task: str, groups: GroupReport | None) -> tuple[Quantity, ...]:
    """What is shown of a model on some rows."""
    worst = Quantity("worst group", lambda found: _worst_loss(found.groups), on_card=False)
    return (
        Quantity(
            "worst 10 %",
            lambda found: loss_text(found.tail),
            lambda found: loss_interval(found.low, found.high),
            label="worst 10 % of rows, mean loss",
        ),
        Quantity("all rows", lambda found: loss_text(found.mean), label="all rows, mean loss"),
        Quantity(right_name(task), lambda found: _right(found.right, task)),
        *([] if groups is None else [worst]),
    )


def without_worst(aside: float) -> Quantity:
    """The worst tenth after a share of the rows, the worst, is left out; for the page alone."""
    name = f"without the worst {share_text(aside)}"
    return Quantity(name, lambda found: loss_text(found.rest), on_terminal=False, on_card=False)


def right_name(task: str) -> str:
    """The quantity that is shown in addition to losses."""
    return "accuracy" if task == "classification" else "R²"


def _right(value: float, task: str) -> str:
    """The number under `right_name`."""
    if not np.isfinite(value):
        return "–"
    return percent(value) if task == "classification" else f"{value:.3f}"


def _worst_loss(groups: GroupReport | None) -> str:
    """The mean loss of the worst group; a dash where no group has enough rows."""
    found = None if groups is None else groups.worst
    return "–" if found is None or found.risk is None else loss_text(found.risk)


def worst_names(named: Sequence[tuple[str, GroupReport | None]]) -> str:
    """A sentence that names the worst group of each model; nothing where there are no groups."""
    known = [(name, groups.worst, groups.min_group_size) for name, groups in named if groups is not None]
    if not known:
        return ""
    least = known[0][2]
    if all(row is None for _, row, _ in known):
        return f"No group has {least:,} rows: no worst group is named."
    names = ", ".join(f"{name} {'–' if row is None else row.name}".strip() for name, row, _ in known)
    return f"The worst group, by mean loss among those with at least {least:,} rows: {names}."


def share_text(share: float) -> str:
    """The share of the rows that is set aside, in per cent."""
    return percent(share, 0 if round(100.0 * share, 6).is_integer() else 1)


def weight_text(weight: float) -> str:
    """The weight of a row, in per cent."""
    return f"{rounded(100.0 * weight, '.2g')}{THIN}%"


def signed(saved: float) -> str:
    """A loss that is saved."""
    return rounded(saved, "+.3g")


def change(loss: float, first: float) -> str:
    """How much a loss differs from that of the first model."""
    return f"{100.0 * (loss / first - 1.0):+.1f} %" if first > 0.0 else signed(loss - first)


def right_change(task: str, difference: float) -> str:
    """A difference of the numbers under `right_name`."""
    return f"{100.0 * difference:+.1f} points" if task == "classification" else f"{difference:+.3f}"


def loss_formula(model: Estimator) -> str:
    """Which loss a model minimises, with its formula."""
    is_multinomial = is_classifier(model) and model.classes_.size > 2
    spec = by_name("loss", "multinomial" if is_multinomial else model.loss, LOSSES)
    formula = (type(spec).__doc__ or "").splitlines()[:1]
    return f"The loss is {type(spec).__name__}: {''.join(formula)}"


def heavy_line(each: Any) -> dict[str, Any]:
    """A row of the table of heavy rows, as text."""
    target, predicted = (loss_text(v) if isinstance(v, float) else str(v) for v in (each.target, each.predicted))
    return {
        "row": f"{each.row:,}",
        "weight": weight_text(each.weight),
        "target": target,
        "predicted": predicted,
        "probability": "" if each.probability is None else percent(each.probability),
        "loss": loss_text(each.loss),
        "aside": "yes" if each.is_aside else "",
    }


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
    panel = Panel(title, Scale(0.0, share), up, HEIGHT, names, (lambda v: percent(v, 0), level_name))
    lines = [(key, panel.curve((rows + 0.5) / n, each[rows])) for key, each in losses.items()]
    return panel.drawn(lines, region={"width": panel.across.at(tail), "height": HEIGHT})
