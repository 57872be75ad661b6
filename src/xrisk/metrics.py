"""Scores of what the average hides: the worst group, the tail, a report on every group.

**Which model to choose.** A model that is to be good on its worst group has to be chosen by its worst group too, on
rows it was not trained on: by `worst_group_score` on validation rows, the baselines by the same rule. Chosen by the
average, the hyperparameters that win are those that give up the small groups, and a robust method looks no better
than plain training; a baseline chosen by the average and a robust method by the worst group is no comparison either.
With scikit-learn's searches, `worst_group_scorer` is that rule. The worst of many small groups is a noisy number:
`group_report` says how noisy.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import accuracy_score, make_scorer, mean_absolute_error, mean_squared_error

from xrisk.grouping import encode_groups

Metric = Callable[..., float]


def _neg_mean_squared_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    return -float(mean_squared_error(y_true, y_pred, sample_weight=sample_weight))


def _neg_mean_absolute_error(y_true: Any, y_pred: Any, *, sample_weight: Any = None) -> float:
    return -float(mean_absolute_error(y_true, y_pred, sample_weight=sample_weight))


METRICS: dict[str, Metric] = {  # of all of them more is better, as of scikit-learn's words
    "accuracy": accuracy_score,
    "neg_mean_squared_error": _neg_mean_squared_error,
    "neg_mean_absolute_error": _neg_mean_absolute_error,
}


def worst_group_score(
    y_true: Any,
    y_pred: Any,
    *,
    groups: Any,
    metric: str | Metric = "accuracy",
    sample_weight: Any = None,
    greater_is_better: bool = True,
) -> float:
    """The score of the group that fares worst.

    Parameters
    ----------
    y_true, y_pred : array (n,)
        The truth, and predictions: labels, numbers, or what else ``metric`` takes (scores, probabilities (n, classes)).
    groups : array (n,), several columns, or boolean membership
        As `xrisk.grouping.encode_groups` takes them; rows with a missing group are a group of their own.
    metric : {"accuracy", "neg_mean_squared_error", "neg_mean_absolute_error"} or callable
        ``metric(y_true, y_pred)`` of the rows of one group, with the keyword ``sample_weight`` where weights are given.
        A callable must do with what one group holds: one class only, for example.
    sample_weight : array (n,), optional
        Weights of the rows; a group whose weights are all zero is left out.
    greater_is_better : bool
        False for a callable that is a loss: the worst is then the largest.

    Returns
    -------
    float

    Examples
    --------
    >>> from xrisk.metrics import worst_group_score
    >>> worst_group_score([1, 1, 0, 0], [1, 1, 0, 1], groups=["a", "a", "b", "b"])
    0.5

    The log loss, told all classes because a group may lack one:

    >>> from functools import partial
    >>> from sklearn.metrics import log_loss
    >>> loss = partial(log_loss, labels=[0, 1])
    >>> p = [0.9, 0.8, 0.2, 0.4]
    >>> worst = worst_group_score([1, 1, 0, 0], p, groups=["a", "a", "b", "b"], metric=loss, greater_is_better=False)
    >>> round(worst, 3)
    0.367
    """
    score = _metric(metric)
    if isinstance(metric, str) and not greater_is_better:
        raise ValueError(f"greater_is_better must be True for metric={metric!r}: more of it is better")
    y_true, y_pred = _same_length(y_true, y_pred)
    grouping = encode_groups(groups, len(y_true))
    weight = None if sample_weight is None else _weights(sample_weight, len(y_true))
    scores = []
    for name, rows in zip(grouping.names, grouping.rows(), strict=True):
        options = {} if weight is None else {"sample_weight": weight[rows]}
        if weight is not None and not weight[rows].any():
            continue
        scores.append(float(score(y_true[rows], y_pred[rows], **options)))
        if math.isnan(scores[-1]):
            raise ValueError(f"metric must be a number in every group, it is NaN in group {name!r} of {rows.size} rows")
    return min(scores) if greater_is_better else max(scores)


def worst_group_scorer(
    metric: str | Metric = "accuracy", *, response: str = "predict", greater_is_better: bool = True
) -> Any:
    """A scorer for scikit-learn's searches: the worst group's score, ``groups`` coming in by metadata routing.

    Parameters
    ----------
    metric, greater_is_better
        As for `worst_group_score`; the scorer of a loss gives its negative.
    response : {"predict", "predict_proba", "decision_function"}
        What the metric is computed of; of two classes ``predict_proba`` gives the second one's probability.

    Returns
    -------
    scorer
        Made by `sklearn.metrics.make_scorer`; it asks for ``groups``. For weights as well, call
        ``set_score_request(groups=True, sample_weight=True)`` on it.

    Notes
    -----
    Metadata routing must be on, ``sklearn.set_config(enable_metadata_routing=True)``. Pass ``groups`` as one array
    with a row for each row of X, so that scikit-learn can cut it into folds.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.metrics import worst_group_scorer
    >>> X, y, groups, *_ = make_spurious(1000, random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     model = make_pipeline(StandardScaler(), LogisticRegression())
    ...     grid = {"logisticregression__C": [0.001, 1.0]}
    ...     search = GridSearchCV(model, grid, scoring=worst_group_scorer(), cv=3).fit(X, y, groups=groups)
    >>> search.best_params_  # by the average it would be 1.0
    {'logisticregression__C': 0.001}
    """
    _metric(metric)
    function = partial(worst_group_score, metric=metric, greater_is_better=greater_is_better)
    scorer = make_scorer(function, response_method=response, greater_is_better=greater_is_better)
    return scorer.set_score_request(groups=True)


def cvar(values: Any, alpha: float, sample_weight: Any = None) -> float:
    """The mean of the largest fraction ``alpha`` of ``values``; the value at the boundary counts in part.

    Parameters
    ----------
    values : array (n,)
        Losses of samples, or risks of groups.
    alpha : float in (0, 1]
        1 gives the mean; 1/n and less give the maximum.
    sample_weight : array (n,), optional
        Weights of the values; the fraction is one of their sum.

    Returns
    -------
    float

    Examples
    --------
    >>> from xrisk.metrics import cvar
    >>> cvar([1.0, 2.0, 3.0, 4.0], 0.5)
    3.5
    >>> round(cvar([1.0, 2.0, 3.0, 4.0], 0.375), 3)
    3.667
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values must be a list of numbers, at least one, got shape {values.shape}")
    if np.isnan(values).any():
        raise ValueError("values must be numbers, some are NaN")
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
    weight = np.ones(values.size) if sample_weight is None else _weights(sample_weight, values.size)
    order = np.argsort(-values, kind="stable")
    share = weight[order] / weight.sum()
    taken = np.clip(alpha - (np.cumsum(share) - share), 0.0, share)
    some = taken > 0.0  # 0 times an infinite loss is not a number
    return float(taken[some] / taken.sum() @ values[order][some])


class GroupRow(NamedTuple):
    """One group of a report; what was not asked for, or cannot be said, is None."""

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


class GroupReport:
    """What `group_report` returns: rows, the worst first; prints as a table.

    Attributes
    ----------
    rows : tuple of GroupRow
        The groups, worst first.
    overall : GroupRow
        All rows together.
    metric : str
        Name of the score.
    confidence : float
        Of the intervals.
    missing : int
        Rows without a group; they form the group "missing".
    """

    def __init__(
        self, rows: tuple[GroupRow, ...], overall: GroupRow, *, metric: str, confidence: float, missing: int
    ) -> None:
        self.rows, self.overall = rows, overall
        self.metric, self.confidence, self.missing = metric, confidence, missing

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
            ("group", [_clipped(row.name) for row in rows]),
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
            notes.append(f"In brackets: intervals of confidence {100.0 * self.confidence:g}%, each group for itself.")
        if self.missing:
            notes.append(f"Rows without a group: {self.missing}.")
        return notes

    def to_dict(self) -> dict[str, Any]:
        """The report as dicts, lists, numbers, strings and None, ready for JSON."""
        return {
            "metric": self.metric,
            "confidence": self.confidence,
            "missing": self.missing,
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


def group_report(
    y_true: Any,
    y_pred: Any,
    *,
    groups: Any,
    metric: str | Metric = "accuracy",
    losses: Any = None,
    weights: Any = None,
    greater_is_better: bool = True,
    confidence: float = 0.95,
    bootstrap: int = 0,
    random_state: int | np.random.Generator | None = None,
) -> GroupReport:
    """How every group fares, worst first, and how sure that is.

    Parameters
    ----------
    y_true, y_pred : array (n,)
        The truth and the predictions.
    groups : array (n,), several columns, or boolean membership
        As `xrisk.grouping.encode_groups` takes them.
    metric : str or callable
        As for `worst_group_score`. The accuracy gets Wilson's interval, any other score a bootstrap one.
    losses : array (n,), optional
        The loss of each row; the report then has risks, their means, and is sorted by them.
    weights : mapping of names to numbers, or array (groups,), optional
        Weights of the groups in the worst case; an array is in the order of `xrisk.grouping.encode_groups`.
    greater_is_better : bool
        False for a callable ``metric`` that is a loss.
    confidence : float in (0, 1)
        Of the intervals, which are for each group by itself: the worst of many groups looks worse than it is.
    bootstrap : int
        Resamples of each group for the intervals of risks and of scores other than accuracy; 0 for none. A group of
        one row gets none: resampled it is always the same.
    random_state : int or Generator, optional
        Seed of the resampling.

    Returns
    -------
    GroupReport

    Examples
    --------
    >>> from xrisk.metrics import group_report
    >>> y, guess, group = [1, 1, 0, 0, 1, 0], [1, 1, 0, 0, 0, 0], ["a", "a", "a", "a", "b", "b"]
    >>> print(group_report(y, guess, groups=group, losses=[0.1, 0.2, 0.3, 0.2, 2.0, 0.4]))
    group  n   share  accuracy                   risk
    b      2   33.3%    0.5000  [0.0945, 0.9055]  1.2000
    a      4   66.7%    1.0000  [0.5101, 1.0000]  0.2000
    all    6  100.0%    0.8333  [0.4365, 0.9699]  0.5333
    In brackets: intervals of confidence 95%, each group for itself.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    if bootstrap != int(bootstrap) or bootstrap < 0:
        raise ValueError(f"bootstrap must be a number of resamples, 0 for none, got {bootstrap!r}")
    y_true, y_pred = _same_length(y_true, y_pred)
    grouping = encode_groups(groups, len(y_true))
    measure = _Measure(
        _metric(metric),
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
    overall = _group_row(measure, "all", np.arange(len(y_true)), None)
    return GroupReport(
        tuple(sorted(rows, key=partial(_badness, better=1.0 if greater_is_better else -1.0))),
        overall,
        metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "score"),
        confidence=float(confidence),
        missing=grouping.missing,
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


Interval = tuple[float | None, float | None]


def _bootstrap(measure: _Measure, rows: np.ndarray) -> tuple[Interval, Interval]:
    """Percentile intervals of the score and of the risk."""
    nothing: Interval = (None, None)
    own_interval = measure.metric is accuracy_score
    if measure.bootstrap == 0 or rows.size < 2 or (own_interval and measure.losses is None):
        return nothing, nothing
    scores, risks = [], []
    for _ in range(measure.bootstrap):
        again = rows[measure.rng.integers(0, rows.size, rows.size)]
        if not own_interval:
            scores.append(float(measure.metric(measure.y_true[again], measure.y_pred[again])))
        if measure.losses is not None:
            risks.append(float(measure.losses[again].mean()))
    return _percentiles(scores, measure.confidence), _percentiles(risks, measure.confidence)


def _percentiles(sample: list[float], confidence: float) -> Interval:
    if not sample or not np.isfinite(sample).all():
        return None, None
    low, high = np.quantile(sample, [0.5 - confidence / 2.0, 0.5 + confidence / 2.0])
    return float(low), float(high)


def wilson_interval(share: float, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for a probability seen as ``share`` of ``n`` trials; of use down to n = 1.

    Examples
    --------
    >>> from xrisk.metrics import wilson_interval
    >>> [round(end, 3) for end in wilson_interval(1.0, 10)]
    [0.722, 1.0]
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2.0)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low = 0.0 if share == 0.0 else max(0.0, middle - half)
    high = 1.0 if share == 1.0 else min(1.0, middle + half)
    return low, high


def _badness(row: GroupRow, better: float) -> tuple[bool, float]:
    """Sorts the worst first; a group without a number comes last."""
    key = -row.risk if row.risk is not None else None if row.score is None else better * row.score
    return (key is None, 0.0 if key is None else key)


def _metric(metric: str | Metric) -> Metric:
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
        return METRICS[metric]
    if not callable(metric):
        raise TypeError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
    return metric


def _same_length(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.ndim == 0 or y_pred.ndim == 0 or len(y_true) != len(y_pred):
        raise ValueError(f"y_true and y_pred must be of one length, got shapes {y_true.shape} and {y_pred.shape}")
    if len(y_true) == 0:
        raise ValueError("y_true must have at least one row, got none")
    return y_true, y_pred


def _weights(sample_weight: Any, n: int) -> np.ndarray:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"sample_weight must be finite and non-negative, one for each of the {n} values")
    largest = weight.max()
    if largest == 0.0:
        raise ValueError("sample_weight must be positive somewhere, it is zero everywhere")
    return weight / largest  # a sum of huge weights would overflow


def _losses(losses: Any, n: int) -> np.ndarray:
    losses = np.asarray(losses, dtype=np.float64)
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
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(names),):
        raise ValueError(f"weights must have one number for each of the {len(names)} groups, got shape {weights.shape}")
    return dict(zip(names, weights.tolist(), strict=True))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if abs(value) < 1e4 else f"{value:.4g}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"


def _clipped(name: str, width: int = 60) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _aligned(columns: list[tuple[str, list[str]]]) -> list[str]:
    """Lines of a table, the first column to the left, the others to the right."""
    widths = [max(map(len, [title, *cells])) for title, cells in columns]
    lines = zip(*([title, *cells] for title, cells in columns), strict=True)
    return [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
