"""The arguments of scores: names of metrics, arrays of equal lengths, weights, the least size of a group."""

import numbers
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error, root_mean_squared_error

from xrisk.annotations import Vector

Metric = Callable[..., float]
MIN_GROUP_SIZE = 30  # rows; of fewer a score is mostly chance


def _negative(error: Callable[..., float], y_true: Vector, y_pred: Vector, *, sample_weight: Vector = None) -> float:
    return -float(error(y_true, y_pred, sample_weight=sample_weight))


def _balanced_accuracy(y_true: Vector, y_pred: Vector, *, sample_weight: Vector = None) -> float:
    """Mean accuracy over the classes present in the rows."""
    y_true, right = np.asarray(y_true), np.asarray(y_true) == np.asarray(y_pred)
    codes = np.unique(y_true, return_inverse=True)[1]
    weight = np.ones(len(y_true)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    total = np.bincount(codes, weight)
    return float(np.mean(np.bincount(codes, weight * right)[total > 0.0] / total[total > 0.0]))


def _neg_log_loss(y_true: Vector, y_pred: Vector, *, sample_weight: Vector = None, classes: Any = None) -> float:
    """Mean log probability of the true class; ``classes`` because the rows of a group may lack one."""
    classes = np.unique(y_true) if classes is None else classes
    probability = _probabilities(y_pred, len(classes))
    own = probability[np.arange(len(y_true)), np.searchsorted(classes, y_true)]
    # clipped as scikit-learn does: a probability of 0 for the true class has an infinite loss
    return float(np.average(np.log(np.maximum(own, np.finfo(np.float64).eps)), weights=sample_weight))


def _probabilities(y_pred: Vector, n_classes: int) -> np.ndarray:
    try:
        found = np.asarray(y_pred, dtype=np.float64)
    except ValueError as error:
        raise ValueError("y_pred must be probabilities for metric='neg_log_loss', got labels") from error
    if found.ndim == 1:
        found = np.column_stack([1.0 - found, found])
    if n_classes < 2 or found.ndim != 2 or found.shape[1] != n_classes:
        raise ValueError(
            "y_pred must be the probabilities of the classes of y_true, at least two, one column each (of two classes "
            f"also those of the second alone), got rows of shape {np.shape(y_pred)[1:]} for {n_classes} in y_true"
        )
    if not ((found >= 0.0) & (found <= 1.0)).all():
        raise ValueError("y_pred must be probabilities for metric='neg_log_loss', some are not between 0 and 1")
    return found


METRICS: dict[str, Metric] = {  # more is better, as for scikit-learn's names
    "accuracy": accuracy_score,
    "balanced_accuracy": _balanced_accuracy,
    "neg_log_loss": _neg_log_loss,  # of probabilities
    "neg_root_mean_squared_error": partial(_negative, root_mean_squared_error),
    "neg_mean_squared_error": partial(_negative, mean_squared_error),
    "neg_mean_absolute_error": partial(_negative, mean_absolute_error),
}


def metric_of(metric: str | Metric) -> Metric:
    """The metric of a name; a callable is a metric itself."""
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
        return METRICS[metric]
    if not callable(metric):
        raise TypeError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
    return metric


def metric_on(metric: str | Metric, y_true: np.ndarray) -> Metric:
    """The metric for the groups of ``y_true``; one that needs all classes gets them."""
    found = metric_of(metric)
    return partial(found, classes=np.unique(y_true)) if found is _neg_log_loss else found


def is_number(value: Any, low: float, high: float) -> bool:
    """Whether a value is a number from ``low`` to ``high``; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and low <= float(value) <= high


def is_count(value: Any, least: int) -> bool:
    """Whether a value is a whole number from ``least`` on."""
    return is_number(value, least, 2**53) and value == int(value)


def array_of_numbers(name: str, values: Any) -> np.ndarray:
    """An argument as an array of numbers; anything else is refused by its name."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be numbers, got {clipped(repr(values))}") from error


def clipped(text: str, width: int = 60) -> str:
    """The text, its end replaced by "…" where it is long."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def least_size(min_group_size: Any) -> int:
    """A least number of rows, checked."""
    if not is_count(min_group_size, 1):
        raise ValueError(f"min_group_size must be a number of rows, at least 1, got {min_group_size!r}")
    return int(min_group_size)


def same_length(y_true: Vector, y_pred: Vector) -> tuple[np.ndarray, np.ndarray]:
    """Truth and predictions as arrays, at least one row."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.ndim == 0 or y_pred.ndim == 0 or len(y_true) != len(y_pred):
        raise ValueError(f"y_true and y_pred must be of one length, got shapes {y_true.shape} and {y_pred.shape}")
    if len(y_true) == 0:
        raise ValueError("y_true must have at least one row, got none")
    return y_true, y_pred


def refuse_nan(metric: str | Metric, **arrays: np.ndarray) -> None:
    """Refuse NaN in what a named metric is computed from; a callable may treat it as it likes."""
    for name, array in arrays.items():
        if isinstance(metric, str) and array.dtype.kind == "f" and np.isnan(array).any():
            raise ValueError(f"{name} must hold no NaN for metric={metric!r}, got {np.isnan(array).sum()} of them")


def weights_of(sample_weight: Vector, n: int) -> np.ndarray:
    """Weights of n values, the largest of them 1."""
    weight = array_of_numbers("sample_weight", sample_weight)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"sample_weight must be finite and non-negative, one for each of the {n} values")
    largest = weight.max()
    if largest == 0.0:
        raise ValueError("sample_weight must be positive somewhere, it is zero everywhere")
    return weight / largest  # a sum of huge weights would overflow
