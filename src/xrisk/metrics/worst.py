"""Scores of the worst group and of the tail."""

import math
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import make_scorer

from xrisk.annotations import Labels, Vector
from xrisk.data.grouping import encode_groups
from xrisk.functions.parameters import counted
from xrisk.metrics.arguments import (
    MIN_GROUP_SIZE,
    Metric,
    array_of_numbers,
    is_number,
    least_size,
    metric_of,
    metric_on,
    refuse_nan,
    same_length,
    weights_of,
)


def worst_group_score(
    y_true: Vector,
    y_pred: Vector,
    *,
    groups: Labels,
    metric: str | Metric = "accuracy",
    sample_weight: Vector = None,
    greater_is_better: bool = True,
    min_group_size: int = MIN_GROUP_SIZE,
) -> float:
    """The score of the worst group, among those with enough rows to judge.

    Parameters
    ----------
    y_true, y_pred : array (n,)
        The truth, and predictions: labels, numbers, or whatever ``metric`` takes (scores, probabilities (n, classes)).
    groups : array (n,), several columns, or boolean membership
        As `xrisk.data.grouping.encode_groups` takes them; rows with a missing group are a group of their own.
    metric : str or callable
        "accuracy", "balanced_accuracy", "neg_log_loss", "neg_root_mean_squared_error", "neg_mean_squared_error",
        "neg_mean_absolute_error", or ``metric(y_true, y_pred)`` of the rows of one group, with the keyword
        ``sample_weight`` where weights are given.
        A callable must accept the rows of any group, which may all be of one class. ``"neg_log_loss"`` takes
        probabilities of the classes in ``y_true``; ``"balanced_accuracy"`` is over the classes of the group.
    sample_weight : array (n,), optional
        Weights of the rows; a group whose weights are all zero is left out.
    greater_is_better : bool
        False for a callable that is a loss: then the largest is the worst.
    min_group_size : int
        Groups of fewer rows are left out, as the worst of many small groups is the worst by chance. 1 keeps all groups.

    Raises
    ------
    ValueError
        If no group has ``min_group_size`` rows, or if the metric is not a number in one that has.

    Examples
    --------
    >>> from xrisk.metrics import worst_group_score
    >>> y, group = [1, 1, 0, 0], ["a", "a", "b", "b"]
    >>> worst_group_score(y, [1, 1, 0, 1], groups=group, min_group_size=2)
    0.5
    >>> worst = worst_group_score(y, [0.9, 0.8, 0.2, 0.4], groups=group, metric="neg_log_loss", min_group_size=2)
    >>> round(worst, 3)
    -0.367
    """
    metric_of(metric)
    if isinstance(metric, str) and not greater_is_better:
        raise ValueError(f"greater_is_better must be True for metric={metric!r}: more of it is better")
    y_true, y_pred = same_length(y_true, y_pred)
    refuse_nan(metric, y_true=y_true, y_pred=y_pred)
    grouping = encode_groups(groups, len(y_true))
    weight = np.ones(len(y_true)) if sample_weight is None else weights_of(sample_weight, len(y_true))
    sizes = [int(np.count_nonzero(weight[rows])) for rows in grouping.rows()]
    least = least_size(min_group_size)
    if max(sizes) < least:
        raise ValueError(
            f"min_group_size must leave a group to score, got {least}: of {counted(len(sizes), 'group', 'groups')} the "
            f"largest has {counted(max(sizes), 'row', 'rows')}"
        )
    score, scores = metric_on(metric, y_true), []
    for name, rows, size in zip(grouping.names, grouping.rows(), sizes, strict=True):
        if size < least:
            continue
        options = {} if sample_weight is None else {"sample_weight": weight[rows]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # the error below names the group
            scores.append(float(score(y_true[rows], y_pred[rows], **options)))
        if math.isnan(scores[-1]):
            raise ValueError(_no_number(name, y_true[rows]))
    return min(scores) if greater_is_better else max(scores)


def _no_number(name: str, y_true: np.ndarray) -> str:
    many, one = counted(len(y_true), "row", "rows"), y_true.ndim == 1 and bool((y_true == y_true[0]).all())
    why = "; all are of one class, and a ranking needs both: group the rows by an attribute alone" if one else ""
    return f"metric must be a number in every group, it is NaN in group {name!r} of {many}{why}"


def worst_group_scorer(
    metric: str | Metric = "accuracy",
    *,
    response: str | None = None,
    greater_is_better: bool = True,
    min_group_size: int = MIN_GROUP_SIZE,
) -> Any:
    """A scorer for scikit-learn's searches: the worst group's score, with ``groups`` passed by metadata routing.

    Parameters
    ----------
    metric, greater_is_better, min_group_size
        As for `worst_group_score`; the scorer of a loss gives its negative. The rows of a group are those of one fold.
    response : {"predict", "predict_proba", "decision_function"}, optional
        What the metric is computed from; for two classes ``predict_proba`` gives the probability of the second. By
        default ``predict_proba`` for ``"neg_log_loss"``, ``predict`` for anything else.

    Returns
    -------
    scorer
        Made by `sklearn.metrics.make_scorer`; it requests ``groups``. For weights as well, call
        ``set_score_request(groups=True, sample_weight=True)`` on it.

    Notes
    -----
    Metadata routing must be enabled, ``sklearn.set_config(enable_metadata_routing=True)``. Pass ``groups`` as one array
    with a row for each row of X, so that scikit-learn can split it into folds.

    Examples
    --------
    >>> import sklearn
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.metrics import worst_group_scorer
    >>> X, y, groups, *_ = make_spurious(6000, random_state=0)
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     model = make_pipeline(StandardScaler(), LogisticRegression())
    ...     grid = {"logisticregression__C": [0.001, 1.0]}
    ...     search = GridSearchCV(model, grid, scoring=worst_group_scorer(), cv=3).fit(X, y, groups=groups)
    >>> search.best_params_  # by the average it would be 1.0
    {'logisticregression__C': 0.001}
    """
    metric_of(metric)
    function = partial(
        worst_group_score,
        metric=metric,
        greater_is_better=greater_is_better,
        min_group_size=least_size(min_group_size),
    )
    taken = response or ("predict_proba" if metric == "neg_log_loss" else "predict")
    scorer = make_scorer(function, response_method=taken, greater_is_better=greater_is_better)
    return scorer.set_score_request(groups=True)


def cvar(values: Any, alpha: float, sample_weight: Vector = None) -> float:
    """The mean of the largest fraction ``alpha`` of ``values``; the value at the boundary counts partially.

    Parameters
    ----------
    values : array (n,)
        Losses of samples, or risks of groups.
    alpha : float in (0, 1]
        1 gives the mean; 1/n or less gives the maximum.
    sample_weight : array (n,), optional
        Weights of the values; ``alpha`` is a fraction of their sum.

    Examples
    --------
    >>> from xrisk.metrics import cvar
    >>> cvar([1.0, 2.0, 3.0, 4.0], 0.5)
    3.5
    >>> round(cvar([1.0, 2.0, 3.0, 4.0], 0.375), 3)
    3.667
    """
    values = array_of_numbers("values", values)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values must be a list of numbers, at least one, got shape {values.shape}")
    if np.isnan(values).any():
        raise ValueError("values must be numbers, some are NaN")
    if not is_number(alpha, 0.0, 1.0) or alpha == 0:
        raise ValueError(f"alpha must be in (0, 1], got {alpha!r}")
    weight = np.ones(values.size) if sample_weight is None else weights_of(sample_weight, values.size)
    order = np.argsort(-values, kind="stable")
    share = weight[order] / weight.sum()
    taken = np.clip(alpha - (np.cumsum(share) - share), 0.0, share)
    some = taken > 0.0  # 0 times an infinite loss is not a number
    tail = values[order][some]
    if tail[0] == np.inf and tail[-1] == -np.inf:
        raise ValueError("values must not be infinite both ways in the tail: their mean is not a number")
    return float(taken[some] / taken.sum() @ tail)
