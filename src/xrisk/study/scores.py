"""What the models of a study may be judged by, and the score of every group, worst first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, group_report

RESAMPLES = 200  # of a group, for intervals of scores other than accuracy


class Score(NamedTuple):
    """A metric of a study: the mean over the rows of a group of how well each is predicted."""

    name: str  # as people read it
    task: str  # "classification" or "regression"
    gains: Callable[[Any, Any, np.ndarray], np.ndarray]  # model, rows, targets to (n,); more is better
    is_share: bool = False  # in per cent, more is better; of any other score less is better
    by_class: bool = False  # every class of a group counts the same
    is_root: bool = False  # of the mean

    def cells(self, y: np.ndarray) -> np.ndarray:
        """Codes (n,) of the rows whose means count the same within a group."""
        return np.unique(y, return_inverse=True)[1] if self.by_class else np.zeros(y.size, dtype=np.intp)

    def shown(self, mean: Any) -> Any:
        """The score of a mean gain, or of an array of these."""
        return mean if self.is_share else np.sqrt(np.maximum(-mean, 0.0)) if self.is_root else -mean

    def total(self, cells: np.ndarray, gains: np.ndarray) -> float:
        """The score of the rows of a group."""
        sizes = np.bincount(cells)
        means = np.bincount(cells, gains)[sizes > 0] / sizes[sizes > 0]
        return float(self.shown(means.mean()))


def _right(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(X) == y, dtype=np.float64)


def _log_probability(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """Of the true class; clipped as scikit-learn does, so that a class the model does not know has a finite loss."""
    classes = model.classes_
    codes = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    own = np.where(classes[codes] == y, model.predict_proba(X)[np.arange(y.size), codes], 0.0)
    return np.log(np.maximum(own, np.finfo(np.float64).eps))


def _less_squared_error(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    return -((y - model.predict(X)) ** 2)


def _less_absolute_error(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    return -np.abs(y - model.predict(X))


SCORES = {  # by the words of `xrisk.metrics`; the first of each task is its default
    "accuracy": Score("accuracy", "classification", _right, is_share=True),
    "balanced_accuracy": Score("balanced accuracy", "classification", _right, is_share=True, by_class=True),
    "neg_log_loss": Score("log loss", "classification", _log_probability),
    "neg_root_mean_squared_error": Score("root mean squared error", "regression", _less_squared_error, is_root=True),
    "neg_mean_squared_error": Score("mean squared error", "regression", _less_squared_error),
    "neg_mean_absolute_error": Score("mean absolute error", "regression", _less_absolute_error),
}
SHARES = frozenset(score.name for score in SCORES.values() if score.is_share)


def metric_for(model: Any, metric: str | None) -> str:
    """The word for what a model is judged by: the one given, if it fits the model, or the default of its task."""
    task = "classification" if is_classifier(model) else "regression"
    fitting = [word for word, score in SCORES.items() if score.task == task]
    if metric is None:
        return fitting[0]
    if metric not in fitting:
        raise ValueError(f"metric must be one of {', '.join(fitting)} for a {task}, got {metric!r}")
    if metric == "neg_log_loss" and not hasattr(model, "predict_proba"):
        raise ValueError(f"metric must be one without probabilities for loss={model.loss!r}, got {metric!r}")
    return metric


def judge(
    model: Any,
    X: Any,
    y: np.ndarray,
    groups: Any,
    *,
    metric: str | None = None,
    min_group_size: int = MIN_GROUP_SIZE,
) -> GroupReport:
    """The score of every group, worst first; by default the accuracy of a classifier, the error of a regression."""
    score = SCORES[metric_for(model, metric)]
    gains = score.gains(model, X, y)
    if score.name == "accuracy":
        return group_report(np.ones(y.size), gains, groups=groups, min_group_size=min_group_size)
    report = group_report(
        score.cells(y),
        gains,
        groups=groups,
        metric=score.total,
        greater_is_better=score.is_share,
        bootstrap=int(np.clip(2e7 / max(y.size, 1), 20, RESAMPLES)),
        random_state=0,
        min_group_size=min_group_size,
    )
    report.metric = score.name
    return report
