"""A model and the encoding of its table, kept together."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

from xrisk.annotations import Estimator, Frame
from xrisk.tables.columns import check_fields
from xrisk.tables.encoding import TableEncoding


class RankedClasses(NamedTuple):
    """Two classes to be ranked, and the part of the ROC curve that counts."""

    negative: str
    positive: str
    min_tpr: float  # true positive rates below it do not count
    max_fpr: float  # false positive rates above it do not count

    def check(self) -> None:
        check_fields(self, negative=str, positive=str, min_tpr=float, max_fpr=float)
        if not (0.0 <= self.min_tpr < 1.0 and 0.0 < self.max_fpr <= 1.0):
            raise ValueError(f"min_tpr and max_fpr must leave a region, got {self.min_tpr!r} and {self.max_fpr!r}")

    def region(self) -> dict[str, Any]:
        """The part of the curve, as options of `xrisk.metrics.partial_auc_score`."""
        return {"min_tpr": self.min_tpr, "max_fpr": self.max_fpr}

    def names(self, positive: np.ndarray) -> np.ndarray:
        """The class of each row (n,), of those that are positive."""
        return np.where(positive, self.positive, self.negative)


class TableModel(BaseEstimator):
    """A fitted model with the encoding of its table: predicts directly from tables.

    Parameters
    ----------
    encoding : TableEncoding
        How the columns become numbers.
    model : estimator
        Fitted on the encoded columns.
    groups : tuple of str
        Names of the groups of the training rows, also of models that were fitted without them.
    ranked : RankedClasses, optional
        The classes of a ranking. The model was fitted on whether a row is positive.
    tail : float, optional
        For a model of the worst case over rows: the fraction of the rows whose mean loss judges it.
    objective : str
        What it was fitted for, as `xrisk fit` calls it.
    """

    def __init__(
        self,
        encoding: Any = None,
        model: Estimator = None,
        groups: tuple[str, ...] = (),
        ranked: RankedClasses | None = None,
        tail: float | None = None,
        objective: str = "group-dro",
    ) -> None:
        self.encoding = encoding
        self.model = model
        self.groups = groups
        self.ranked = ranked
        self.tail = tail
        self.objective = objective

    def __sklearn_is_fitted__(self) -> bool:
        return self.model is not None

    def check(self) -> None:
        """Refuse what no fit leaves behind: a file may hold anything."""
        if not isinstance(self.encoding, TableEncoding):
            raise ValueError(f"encoding must be that of a table, got {self.encoding!r}")
        self.encoding.check()
        if not isinstance(self.groups, tuple) or not all(isinstance(name, str) for name in self.groups):
            raise ValueError(f"groups must be names of groups, got {self.groups!r}")
        if not isinstance(self.objective, str):
            raise ValueError(f"objective must be the name of one, got {self.objective!r}")
        _check_linear(self.model, len(self.encoding.feature_names()), self.encoding.task == "classification")
        if self.ranked is not None:
            _check_ranked(self.ranked, self.model)
        elif self.tail is not None:
            _check_tail(self.tail, self.model)
        else:
            _check_groups(self.model)

    def predict(self, frame: Frame) -> np.ndarray:
        """Predictions for the rows of a table."""
        found = self.model.predict(self.encoding.encode(frame))
        return found if self.ranked is None else self.ranked.names(found)

    def predict_proba(self, frame: Frame) -> np.ndarray:
        """Probabilities of the classes for the rows of a table; of ranked ones the positive class is the second."""
        return self.model.predict_proba(self.encoding.encode(frame))

    def decision_function(self, frame: Frame) -> np.ndarray:
        """Scores for the rows of a table."""
        return self.model.decision_function(self.encoding.encode(frame))


def _check_linear(model: Estimator, features: int, is_class: bool) -> None:
    """Refuse what is not a fitted linear model of this many features."""
    if not hasattr(model, "check") or not hasattr(model, "coef_"):
        raise ValueError(f"model must be a fitted linear model, got {model!r}")
    model.check()
    if is_classifier(model) != is_class:
        raise ValueError(f"model must be one of the task of its table, got {model!r}")
    if model.n_features_in_ != features:
        raise ValueError(f"model must be one of the {features} columns of its table, got one of {model.n_features_in_}")


def _check_groups(model: Estimator) -> None:
    if not hasattr(model, "groups_"):
        raise ValueError(f"model must be one of groups, got {model!r}")


def _check_tail(tail: Any, model: Estimator) -> None:
    if not isinstance(tail, float) or not 0.0 < tail <= 1.0:
        raise ValueError(f"tail must be a fraction of the rows, in (0, 1], got {tail!r}")
    if not hasattr(model, "sample_weights_"):
        raise ValueError(f"model must be one of the worst case over rows, got {model!r}")


def _check_ranked(ranked: Any, model: Estimator) -> None:
    if not isinstance(ranked, RankedClasses):
        raise ValueError(f"ranked must be two classes and a region, got {ranked!r}")
    ranked.check()
    if not is_classifier(model) or model.classes_.tolist() != [False, True]:
        raise ValueError(f"model must be one that tells positive rows from others, got {model!r}")
