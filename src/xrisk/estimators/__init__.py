"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier, GroupDRORegressor
from xrisk.estimators.ranking import PNormPushClassifier, TopPushClassifier
from xrisk.estimators.robust import RobustLogisticRegression
from xrisk.estimators.table import TableModel
from xrisk.estimators.tasks import MultiTaskGroupDROClassifier

__all__ = [
    "GroupDROClassifier",
    "GroupDRORegressor",
    "MultiTaskGroupDROClassifier",
    "PNormPushClassifier",
    "RobustLogisticRegression",
    "TableModel",
    "TopPushClassifier",
]
