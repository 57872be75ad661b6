"""A model and the encoding of its table, kept together."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from xrisk.registry import savable
from xrisk.tables.encoding import TableEncoding


@savable
class TableModel(BaseEstimator):
    """A fitted model with the encoding of its table: predicts from tables as they were read.

    Parameters
    ----------
    encoding : TableEncoding
        How the columns become numbers.
    model : estimator
        Fitted on the encoded columns.
    groups : tuple of str
        Names of the groups of the training rows; plain models were fitted without them.
    """

    def __init__(self, encoding: Any = None, model: Any = None, groups: tuple[str, ...] = ()) -> None:
        self.encoding = encoding
        self.model = model
        self.groups = groups

    def __sklearn_is_fitted__(self) -> bool:
        return self.model is not None

    def check(self) -> None:
        """Refuse what no fit leaves behind: a file may hold anything."""
        if not isinstance(self.encoding, TableEncoding):
            raise ValueError(f"encoding must be that of a table, got {self.encoding!r}")
        self.encoding.check()
        if not isinstance(self.groups, tuple) or not all(isinstance(name, str) for name in self.groups):
            raise ValueError(f"groups must be names of groups, got {self.groups!r}")
        _check_linear(self.model, len(self.encoding.feature_names()), self.encoding.task == "classification")

    def predict(self, frame: Any) -> np.ndarray:
        """Predictions for the rows of a table."""
        return self.model.predict(self.encoding.encode(frame))

    def predict_proba(self, frame: Any) -> np.ndarray:
        """Probabilities of the classes for the rows of a table."""
        return self.model.predict_proba(self.encoding.encode(frame))

    def decision_function(self, frame: Any) -> np.ndarray:
        """Scores for the rows of a table."""
        return self.model.decision_function(self.encoding.encode(frame))


def _check_linear(model: Any, features: int, is_class: bool) -> None:
    """Refuse what is not a fitted linear model of this many features and of groups."""
    if not hasattr(model, "predict") or not hasattr(model, "coef_") or not hasattr(model, "intercept_"):
        raise ValueError(f"model must be a fitted linear model, got {model!r}")
    if is_classifier(model) != is_class:
        raise ValueError(f"model must be one of the task of its table, got {model!r}")
    for name in ("coef_", "intercept_"):
        value = getattr(model, name)
        if not isinstance(value, np.ndarray | np.floating) or value.dtype.kind != "f":
            raise ValueError(f"{name} must be an array of numbers, got {value!r}")
    coef = np.atleast_2d(model.coef_)
    scores = _n_scores(model) if is_class else 1
    if coef.shape != (scores, features) or np.size(model.intercept_) != scores:
        raise ValueError(f"coef_ must have {features} numbers for each of {scores} scores, got shape {coef.shape}")
    groups = getattr(model, "groups_", None)
    if not isinstance(groups, tuple) or not all(isinstance(name, str) for name in groups):
        raise ValueError(f"groups_ must be the names of groups, got {groups!r}")


def _n_scores(model: Any) -> int:
    classes = getattr(model, "classes_", None)
    if not isinstance(classes, np.ndarray) or classes.ndim != 1 or classes.size < 2:
        raise ValueError(f"classes_ must be an array of at least two classes, got {classes!r}")
    return 1 if classes.size == 2 else int(classes.size)
