"""Scores by which groups are judged, and the score of every group, worst first."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from xrisk.annotations import Estimator, Labels, Matrix
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, group_report

RESAMPLES = 200  # of a group, at the most


class Score(NamedTuple):
    """A metric of a study: the mean over the rows of a group of how well each is predicted."""

    word: str  # of `xrisk.metrics`
    name: str  # in words
    task: str  # "classification" or "regression"
    row_scores: Callable[[Any, Any, np.ndarray], np.ndarray]  # model, rows, targets to (n,); more is better
    is_share: bool = False  # in per cent, more is better; for all other scores less is better
    by_class: bool = False  # every class of a group counts the same
    is_root: bool = False  # of the mean

    def cells(self, y: np.ndarray) -> np.ndarray:
        """Codes (n,) of the rows whose means count the same within a group."""
        return np.unique(y, return_inverse=True)[1] if self.by_class else np.zeros(y.size, dtype=np.intp)

    def shown(self, mean: Any) -> Any:
        """The score of a mean of row scores, or of an array of these."""
        return mean if self.is_share else np.sqrt(np.maximum(-mean, 0.0)) if self.is_root else -mean

    def total(self, cells: np.ndarray, row_scores: np.ndarray) -> float:
        """The score of the rows of a group."""
        sizes = np.bincount(cells)
        means = np.bincount(cells, row_scores)[sizes > 0] / sizes[sizes > 0]
        return float(self.shown(means.mean()))


def _right(model: Estimator, X: Matrix, y: np.ndarray) -> np.ndarray:
    return np.asarray(model.predict(X) == y, dtype=np.float64)


def _log_probability(model: Estimator, X: Matrix, y: np.ndarray) -> np.ndarray:
    """Of the true class; clipped as scikit-learn does: a class that the model does not know has a finite loss."""
    classes = model.classes_
    codes = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    own = np.where(classes[codes] == y, model.predict_proba(X)[np.arange(y.size), codes], 0.0)
    return np.log(np.maximum(own, np.finfo(np.float64).eps))


def _less_squared_error(model: Estimator, X: Matrix, y: np.ndarray) -> np.ndarray:
    return -((y - model.predict(X)) ** 2)


def _less_absolute_error(model: Estimator, X: Matrix, y: np.ndarray) -> np.ndarray:
    return -np.abs(y - model.predict(X))


_ALL = (  # the first of each task is its default
    Score("accuracy", "accuracy", "classification", _right, is_share=True),
    Score("balanced_accuracy", "balanced accuracy", "classification", _right, is_share=True, by_class=True),
    Score("neg_log_loss", "log loss", "classification", _log_probability),
    Score("neg_root_mean_squared_error", "root mean squared error", "regression", _less_squared_error, is_root=True),
    Score("neg_mean_squared_error", "mean squared error", "regression", _less_squared_error),
    Score("neg_mean_absolute_error", "mean absolute error", "regression", _less_absolute_error),
)
SCORES = {score.word: score for score in _ALL}


def score_for(model: Estimator, metric: str | None) -> Score:
    """What a model is judged by: the metric of this name, if it fits the model, or the default of its task."""
    task = "classification" if is_classifier(model) else "regression"
    fitting = {word: score for word, score in SCORES.items() if score.task == task}
    if metric is None:
        return next(iter(fitting.values()))
    if metric not in fitting:
        raise ValueError(f"metric must be one of {', '.join(fitting)} for {task}, got {metric!r}")
    if metric == "neg_log_loss" and not hasattr(model, "predict_proba"):
        raise ValueError(f"metric must be one without probabilities for loss={model.loss!r}, got {metric!r}")
    return fitting[metric]


def judge(
    model: Estimator, X: Matrix, y: np.ndarray, groups: Labels, *, score: Score, min_group_size: int = MIN_GROUP_SIZE
) -> GroupReport:
    """The score of every group, worst first."""
    row_scores = score.row_scores(model, X, y)
    if score.word == "accuracy":
        return group_report(np.ones(y.size), row_scores, groups=groups, min_group_size=min_group_size)
    report = group_report(
        score.cells(y),
        row_scores,
        groups=groups,
        metric=score.total,
        greater_is_better=score.is_share,
        bootstrap=bootstrap_size(y.size),
        random_state=0,
        min_group_size=min_group_size,
    )
    report.metric = score.name
    return report


def bootstrap_size(rows: int) -> int:
    """How often the rows of a group are drawn for the interval of a score other than accuracy."""
    return int(np.clip(2e7 / max(rows, 1), 20, RESAMPLES))
