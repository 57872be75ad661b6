"""Scores of every group, worst first, by the rule of all studies."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, group_report

RESAMPLES = 200  # of a group, for intervals of errors of regression


def root_mean_squared_error(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """√(mean (y − ŷ)²), without scikit-learn's checks, which a bootstrap would pay for each time."""
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def gains(model: Any, guess: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How well each row is predicted (n,), more is better: right or wrong, or the negative of the squared error."""
    return np.asarray(guess == y, dtype=np.float64) if is_classifier(model) else -((y - guess) ** 2)


def judge(
    model: Any, guess: np.ndarray, y: np.ndarray, groups: Any, min_group_size: int = MIN_GROUP_SIZE
) -> GroupReport:
    """The score of every group, worst first: the accuracy of a classifier, the error of a regression."""
    if is_classifier(model):
        return group_report(y, guess, groups=groups, min_group_size=min_group_size)
    resamples = int(np.clip(2e7 / max(y.size, 1), 20, RESAMPLES))
    report = group_report(
        y,
        guess,
        groups=groups,
        metric=root_mean_squared_error,
        greater_is_better=False,
        bootstrap=resamples,
        random_state=0,
        min_group_size=min_group_size,
    )
    report.metric = "root mean squared error"
    return report
