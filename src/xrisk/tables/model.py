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
    if not hasattr(model, "check") or not hasattr(model, "coef_"):
        raise ValueError(f"model must be a fitted linear model, got {model!r}")
    model.check()
    if is_classifier(model) != is_class:
        raise ValueError(f"model must be one of the task of its table, got {model!r}")
    if model.n_features_in_ != features:
        raise ValueError(f"model must be one of the {features} columns of its table, got one of {model.n_features_in_}")
    if not hasattr(model, "groups_"):
        raise ValueError(f"model must be one of groups, got {model!r}")
