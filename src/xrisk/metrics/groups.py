"""The score and the risk of every group, with intervals."""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score

from xrisk.annotations import Labels, Vector
from xrisk.data.grouping import encode_groups
from xrisk.metrics.arguments import (
    MIN_GROUP_SIZE,
    Metric,
    array_of_numbers,
    is_count,
    is_number,
    least_size,
    metric_on,
    refuse_nan,
    same_length,
)
from xrisk.metrics.intervals import Interval, percentiles, wilson_interval
from xrisk.metrics.report import GroupReport, GroupRow


def group_report(
    y_true: Vector,
    y_pred: Vector,
    *,
    groups: Labels,
    metric: str | Metric = "accuracy",
    losses: Any = None,
    weights: Any = None,
    greater_is_better: bool = True,
    confidence: float = 0.95,
    bootstrap: int = 0,
    random_state: int | np.random.Generator | None = None,
    min_group_size: int = MIN_GROUP_SIZE,
) -> GroupReport:
    """The score and the risk of every group, worst first, with intervals.

    Parameters
    ----------
    y_true, y_pred : array (n,)
        The truth and the predictions.
    groups : array (n,), several columns, or boolean membership
        As `xrisk.data.grouping.encode_groups` takes them.
    metric : str or callable
        As for `worst_group_score`. The accuracy gets Wilson's interval, any other score a bootstrap one.
    losses : array (n,), optional
        The loss of each row; the report then has risks, their means, and is sorted by them.
    weights : mapping of names to numbers, or array (groups,), optional
        Weights of the groups in the worst case; an array is in the order of `xrisk.data.grouping.encode_groups`.
    greater_is_better : bool
        False for a callable ``metric`` that is a loss.
    confidence : float in (0, 1)
        Of the intervals. Each interval is for one group: the worst of many groups looks worse than it is.
    bootstrap : int
        Resamples of each group for the intervals of risks and of scores other than accuracy; 0 for none. A group of
        one row has no interval: its resamples are all the same.
    random_state : int or Generator, optional
        Seed of the resampling.
    min_group_size : int
        Groups of fewer rows come last and are never the worst: a single row could decide.

    Examples
    --------
    >>> from xrisk.metrics import group_report
    >>> y, guess, group = [1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 0, 0], ["a", "a", "a", "a", "b", "b"]
    >>> losses = [0.1, 0.2, 0.3, 0.2, 2.0, 0.4]
    >>> print(group_report(y, guess, groups=group, losses=losses, min_group_size=3))
    group  n   share  accuracy                   risk
    a      4   66.7%    1.0000  [0.5101, 1.0000]  0.2000
    b      2   33.3%    0.5000  [0.0945, 0.9055]  1.2000
    all    6  100.0%    0.8333  [0.4365, 0.9699]  0.5333
    In brackets: 95% confidence intervals, each for one group by itself.
    1 group has fewer than 3 rows: listed last, never the worst.
    """
    if not is_number(confidence, 0.0, 1.0) or confidence in (0, 1):
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    if not is_count(bootstrap, 0):
        raise ValueError(f"bootstrap must be a number of resamples, 0 for none, got {bootstrap!r}")
    y_true, y_pred = same_length(y_true, y_pred)
    refuse_nan(metric, y_true=y_true, y_pred=y_pred)
    grouping = encode_groups(groups, len(y_true))
    measure = _Measure(
        metric_on(metric, y_true),
        y_true,
        y_pred,
        None if losses is None else _losses(losses, len(y_true)),
        confidence,
        int(bootstrap),
        np.random.default_rng(random_state),
    )
    weight_of = _group_weights(weights, grouping.names)
    rows = [
        _group_row(measure, name, rows, weight_of.get(name))
        for name, rows in zip(grouping.names, grouping.rows(), strict=True)
    ]
    least = least_size(min_group_size)
    overall = _group_row(measure, "all", np.arange(len(y_true)), None)
    return GroupReport(
        tuple(sorted(rows, key=partial(_badness, better=1.0 if greater_is_better else -1.0, least=least))),
        overall,
        metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "score"),
        confidence=float(confidence),
        missing=grouping.missing,
        min_group_size=least,
    )


class _Measure(NamedTuple):
    """What is measured on the rows of a group."""

    metric: Metric
    y_true: np.ndarray
    y_pred: np.ndarray
    losses: np.ndarray | None
    confidence: float
    bootstrap: int
    rng: np.random.Generator


def _group_row(measure: _Measure, name: str, rows: np.ndarray, weight: float | None) -> GroupRow:
    score, risk = _values(measure, rows)
    score_interval, risk_interval = _bootstrap(measure, rows)
    if measure.metric is accuracy_score and score is not None:
        score_interval = wilson_interval(score, rows.size, measure.confidence)
    share = rows.size / len(measure.y_true)
    return GroupRow(name, int(rows.size), share, score, *score_interval, risk, *risk_interval, weight)


def _values(measure: _Measure, rows: np.ndarray) -> tuple[float | None, float | None]:
    score = float(measure.metric(measure.y_true[rows], measure.y_pred[rows]))
    risk = None if measure.losses is None else float(measure.losses[rows].mean())
    return (score if math.isfinite(score) else None), risk


def _bootstrap(measure: _Measure, rows: np.ndarray) -> tuple[Interval, Interval]:
    """Percentile intervals of the score and of the risk."""
    nothing: Interval = (None, None)
    own_interval = measure.metric is accuracy_score
    if measure.bootstrap == 0 or rows.size < 2 or (own_interval and measure.losses is None):
        return nothing, nothing
    scores, risks = [], []
    for _ in range(measure.bootstrap):
        drawn = rows[measure.rng.integers(0, rows.size, rows.size)]
        if not own_interval:
            scores.append(float(measure.metric(measure.y_true[drawn], measure.y_pred[drawn])))
        if measure.losses is not None:
            risks.append(float(measure.losses[drawn].mean()))
    return percentiles(scores, measure.confidence), percentiles(risks, measure.confidence)


def _badness(row: GroupRow, better: float, least: int) -> tuple[bool, bool, float]:
    """Sort key: the worst first, small groups last, and in both parts groups without a number last."""
    key = -row.risk if row.risk is not None else None if row.score is None else better * row.score
    return (row.n < least, key is None, 0.0 if key is None else key)


def _losses(losses: Any, n: int) -> np.ndarray:
    losses = array_of_numbers("losses", losses)
    if losses.shape != (n,):
        raise ValueError(f"losses must have one number for each of the {n} rows, got shape {losses.shape}")
    if not np.isfinite(losses).all():
        raise ValueError("losses must be finite, some are NaN or infinite")
    return losses


def _group_weights(weights: Any, names: tuple[str, ...]) -> dict[str, float]:
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        return {str(name): float(weight) for name, weight in weights.items()}
    weights = array_of_numbers("weights", weights)
    if weights.shape != (len(names),):
        raise ValueError(f"weights must have one number for each of the {len(names)} groups, got shape {weights.shape}")
    return dict(zip(names, weights.tolist(), strict=True))
