"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier, GroupDRORegressor
from xrisk.estimators.table import TableModel

__all__ = ["GroupDROClassifier", "GroupDRORegressor", "TableModel"]
