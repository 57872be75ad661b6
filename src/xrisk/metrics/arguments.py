"""What the arguments of scores mean: words for metrics, rows of one length, weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error

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


def metric_of(metric: str | Metric) -> Metric:
    """The metric that a word stands for; a callable stands for itself."""
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ValueError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
        return METRICS[metric]
    if not callable(metric):
        raise TypeError(f"metric must be one of {', '.join(METRICS)} or a callable, got {metric!r}")
    return metric


def same_length(y_true: Any, y_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Truth and predictions as arrays, at least one row."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    if y_true.ndim == 0 or y_pred.ndim == 0 or len(y_true) != len(y_pred):
        raise ValueError(f"y_true and y_pred must be of one length, got shapes {y_true.shape} and {y_pred.shape}")
    if len(y_true) == 0:
        raise ValueError("y_true must have at least one row, got none")
    return y_true, y_pred


def weights_of(sample_weight: Any, n: int) -> np.ndarray:
    """Weights of n values, the largest of them 1."""
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,) or not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"sample_weight must be finite and non-negative, one for each of the {n} values")
    largest = weight.max()
    if largest == 0.0:
        raise ValueError("sample_weight must be positive somewhere, it is zero everywhere")
    return weight / largest  # a sum of huge weights would overflow
