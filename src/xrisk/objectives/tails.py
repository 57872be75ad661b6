"""How long the tail of a model's losses is: the mean loss of the worst tenth of the rows with its interval."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from xrisk.annotations import Estimator, Matrix
from xrisk.applications import LOSSES
from xrisk.applications.arguments import by_name
from xrisk.functions import loss_value
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, cvar, group_report
from xrisk.metrics.intervals import middle
from xrisk.metrics.tail import resampled_cvar
from xrisk.study import Verdict
from xrisk.study.scores import bootstrap_size, score_for
from xrisk.study.study import finite
from xrisk.study.verdict import CONFIDENCE, pairwise, resampling
from xrisk.tables import Part

TAIL = 0.1  # fraction of the rows whose mean loss decides
FEW = 10  # rows in the tail, below which intervals are too short


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


def row_losses(model: Estimator, X: Matrix, y: np.ndarray) -> np.ndarray:
    """The loss (n,) of each row that the model was trained on; classes must be ones it knows."""
    codes = np.searchsorted(model.classes_, y) if is_classifier(model) else None
    if codes is not None and hasattr(model, "predict_log_proba"):
        return -model.predict_log_proba(X)[np.arange(y.size), codes]
    scores = model.predict(X) if codes is None else model.decision_function(X)
    targets, loss = y if codes is None else 2.0 * codes - 1.0, by_name("loss", model.loss, LOSSES)
    return np.array([loss_value(loss, z, t) for z, t in zip(scores.tolist(), targets.tolist(), strict=True)])


def judge_tail(
    model: Estimator,
    X: Matrix,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    aside: float = 0.0,
    min_group_size: int = MIN_GROUP_SIZE,
) -> TailScore:
    """How a model does on some rows; ``aside`` is the share of the rows of largest loss that ``rest`` leaves out."""
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
    """
    if len(losses) < 2:
        return Verdict(None, ())
    table = np.column_stack(list(losses.values()))
    drawn = resampled_cvar(table, TAIL, n_resamples=resampling(len(table)), random_state=0)
    sample = dict(zip(losses, drawn.T, strict=True))
    return pairwise(
        tuple(losses), lambda one, other: middle(sample[other] - sample[one], CONFIDENCE), -drawn.mean(axis=0)
    )


def few_rows(rows: int, judged_on: str) -> str:
    """A warning where few rows decide, else nothing."""
    if TAIL * rows >= FEW:
        return ""
    return (
        f"Few rows decide: the worst tenth of {rows:,} {judged_on} rows is about {max(TAIL * rows, 1.0):.0f}, fewer "
        f"than {FEW}. The intervals are too short, and other rows could change the verdict."
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


def heavy_rows(
    model: Estimator, aside: np.ndarray, train: Part, numbers: np.ndarray, most: int
) -> tuple[HeavyRow, ...]:
    """The training rows of largest weight; ``aside`` are those that another model sets aside."""
    rows, weights = model.heaviest_rows(most)
    X, y = train.X[rows], train.y[rows]
    losses, predicted = row_losses(model, X, y), model.predict(X)
    likely = np.exp(-losses) if hasattr(model, "predict_proba") else np.full(rows.size, None)
    cells = (numbers[rows], weights, y, predicted, likely, losses, np.isin(rows, aside))
    return tuple(HeavyRow(*row) for row in zip(*(column.tolist() for column in cells), strict=True))


def half_of(weights: np.ndarray) -> float:
    """The least share of the rows that has half of the weight."""
    reached = np.cumsum(np.sort(weights)[::-1]) >= 0.5 - 1e-12
    return float(np.argmax(reached) + 1) / weights.size
