"""A model and the encoding of its table, kept together."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from xrisk.registry import savable


@savable
class TableModel(BaseEstimator):
    """A fitted model with the encoding of its table: predicts from tables as they were read.

    Parameters
    ----------
    encoding : TableEncoding
        How the columns become numbers.
    model : estimator
        Fitted on the encoded columns.
    """

    def __init__(self, encoding: Any = None, model: Any = None) -> None:
        self.encoding = encoding
        self.model = model

    def __sklearn_is_fitted__(self) -> bool:
        return self.model is not None

    def predict(self, frame: Any) -> np.ndarray:
        """Predictions for the rows of a table."""
        return self.model.predict(self.encoding.encode(frame))

    def predict_proba(self, frame: Any) -> np.ndarray:
        """Probabilities of the classes for the rows of a table."""
        return self.model.predict_proba(self.encoding.encode(frame))

    def decision_function(self, frame: Any) -> np.ndarray:
        """Scores for the rows of a table."""
        return self.model.decision_function(self.encoding.encode(frame))
