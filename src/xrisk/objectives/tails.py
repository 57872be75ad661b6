"""The tail of a model's losses: the worst tenth of the rows, its numbers in words, and the sorted losses."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from xrisk.applications import LOSSES
from xrisk.applications.arguments import by_name
from xrisk.functions import loss_value
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, cvar, group_report
from xrisk.metrics.intervals import middle
from xrisk.metrics.tail import resampled_cvar
from xrisk.report.figures import Panel, Scale, level_name
from xrisk.report.models import Quantity
from xrisk.report.numbers import THIN, loss_interval, loss_text, percent, rounded
from xrisk.study import Arm, Verdict
from xrisk.study.scores import bootstrap_size, score_for
from xrisk.study.study import finite
from xrisk.study.verdict import CONFIDENCE, pairwise, resampling
from xrisk.tables import Part

TAIL = 0.1  # fraction of the rows whose mean loss decides
HEIGHT = 300  # of a panel of losses
CUT = 0.01  # share of the rows, the worst, whose losses may lie outside the panel of all rows
POINTS = 150  # of a curve of losses


class TailScore(NamedTuple):
    """How a model does on some rows."""

    tail: float  # mean loss of the worst tenth of the rows
    low: float  # bounds of confidence 95 %
    high: float
    rest: float  # the same after the worst rows were set aside, as many as the third model sets aside
    mean: float  # loss of all rows
    right: float  # accuracy of a classifier, R² of a regression
    rows: int
    losses: np.ndarray  # (n,) of the rows, in their order
    groups: GroupReport | None  # by mean loss; None where there are no groups

    def to_dict(self) -> dict[str, Any]:
        """The numbers."""
        return {name: finite(value) for name, value in self._asdict().items() if name not in ("losses", "groups")}


def row_losses(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """The loss (n,) of each row that the model was trained on; classes must be ones it knows.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.objectives.tails import row_losses
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 2.0, 3.0, 4.0, 7.0])
    >>> model = xrisk.DRORegressor().fit(X, y)
    >>> np.allclose(row_losses(model, X, y), 0.5 * (model.predict(X) - y) ** 2)
    True
    """
    codes = np.searchsorted(model.classes_, y) if is_classifier(model) else None
    if codes is not None and hasattr(model, "predict_log_proba"):
        return -model.predict_log_proba(X)[np.arange(y.size), codes]
    scores = model.predict(X) if codes is None else model.decision_function(X)
    targets, loss = y if codes is None else 2.0 * codes - 1.0, by_name("loss", model.loss, LOSSES)
    return np.array([loss_value(loss, z, t) for z, t in zip(scores.tolist(), targets.tolist(), strict=True)])


def judge_tail(
    model: Any,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    aside: float = 0.0,
    min_group_size: int = MIN_GROUP_SIZE,
) -> TailScore:
    """How a model does on some rows; ``aside`` is the share of the rows of largest loss that ``rest`` leaves out.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.objectives.tails import judge_tail
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> found = judge_tail(xrisk.DRORegressor().fit(X, y), X, y, aside=0.05)
    >>> found.mean < found.rest < found.tail, found.low < found.tail < found.high
    (True, True)
    """
    losses, predicted = row_losses(model, X, y), model.predict(X)
    sample = resampled_cvar(losses[:, None], TAIL, n_resamples=resampling(y.size), random_state=0)[:, 0]
    left = np.sort(losses)[: y.size - int(aside * y.size)]
    right = accuracy_score if is_classifier(model) else r2_score
    by_group: dict[str, Any] = {"metric": score_for(model, None).word, "losses": losses, "groups": groups}
    by_group |= {"bootstrap": bootstrap_size(y.size), "random_state": 0, "min_group_size": min_group_size}
    return TailScore(
        cvar(losses, TAIL),
        *middle(sample, CONFIDENCE),
        cvar(left, TAIL),
        float(losses.mean()),
        float(right(y, predicted)) if y.size > 1 else float("nan"),
        int(y.size),
        losses,
        None if groups is None else group_report(y, predicted, **by_group),
    )


def tail_verdict(losses: dict[str, np.ndarray]) -> Verdict:
    """Which model the rows recommend, by bounds on the differences of their tails.

    ``losses`` are those (n,) of the same rows under each model, the simplest first.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.objectives.tails import tail_verdict
    >>> losses = np.random.default_rng(0).exponential(size=300)
    >>> tail_verdict({"plain": losses, "robust": 0.5 * losses}).recommended
    'robust'
    """
    if len(losses) < 2:
        return Verdict(None, ())
    table = np.column_stack(list(losses.values()))
    drawn = resampled_cvar(table, TAIL, n_resamples=resampling(len(table)), random_state=0)
    sample = dict(zip(losses, drawn.T, strict=True))
    return pairwise(
        tuple(losses), lambda one, other: middle(sample[other] - sample[one], CONFIDENCE), -drawn.mean(axis=0)
    )


class HeavyRow(NamedTuple):
    """A training row that has weight in the worst case of the robust model."""

    row: int  # its number
    weight: float
    target: Any
    predicted: Any
    probability: float | None  # of its own class; None where the model has none
    loss: float
    is_aside: bool  # whether the third model sets it aside


class RowsFound(NamedTuple):
    """The training rows that decide what the robust model looks like."""

    heavy: tuple[HeavyRow, ...]  # those of largest weight
    half: float  # the least share of the training rows that has half of the weight


def heavy_rows(model: Any, aside: np.ndarray, train: Part, numbers: np.ndarray, most: int) -> tuple[HeavyRow, ...]:
    """The training rows of largest weight; ``aside`` are those that another model sets aside."""
    rows, weights = model.heaviest_rows(most)
    X, y = train.X[rows], train.y[rows]
    losses, predicted = row_losses(model, X, y), model.predict(X)
    likely = np.exp(-losses) if hasattr(model, "predict_proba") else np.full(rows.size, None)
    cells = (numbers[rows], weights, y, predicted, likely, losses, np.isin(rows, aside))
    return tuple(HeavyRow(*row) for row in zip(*(column.tolist() for column in cells), strict=True))


def half_of(weights: np.ndarray) -> float:
    """The least share of the rows that has half of the weight.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.objectives.tails import half_of
    >>> half_of(np.array([0.1, 0.5, 0.2, 0.2]))
    0.25
    """
    reached = np.cumsum(np.sort(weights)[::-1]) >= 0.5 - 1e-12
    return float(np.argmax(reached) + 1) / weights.size


def quantities(task: str, groups: GroupReport | None) -> tuple[Quantity, ...]:
    """What is shown of a model on some rows."""
    worst = Quantity("worst group", lambda found: worst_loss(found.groups), on_card=False)
    return (
        Quantity(
            "worst 10 %",
            lambda found: loss_text(found.tail),
            lambda found: loss_interval(found.low, found.high),
            label="worst 10 % of rows, mean loss",
        ),
        Quantity("all rows", lambda found: loss_text(found.mean), label="all rows, mean loss"),
        Quantity(right_name(task), lambda found: right(found, task)),
        *([] if groups is None else [worst]),
    )


def without_worst(aside: float) -> Quantity:
    """The worst tenth after a share of the rows, the worst, is left out; for the page alone."""
    name = f"without the worst {share_text(aside)}"
    return Quantity(name, lambda found: loss_text(found.rest), on_terminal=False, on_card=False)


def right_name(task: str) -> str:
    """The quantity that is shown in addition to losses."""
    return "accuracy" if task == "classification" else "R²"


def right(score: TailScore, task: str) -> str:
    """The number under `right_name`."""
    if not np.isfinite(score.right):
        return "–"
    return percent(score.right) if task == "classification" else f"{score.right:.3f}"


def worst_loss(groups: GroupReport | None) -> str:
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


def heavy_line(each: HeavyRow) -> dict[str, Any]:
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
