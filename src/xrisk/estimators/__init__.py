"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier, GroupDRORegressor
from xrisk.estimators.portfolio import MeanVariancePortfolio
from xrisk.estimators.ranking import PNormPushClassifier, PrecisionAtKClassifier, TopPushClassifier
from xrisk.estimators.robust import RobustLogisticRegression
from xrisk.estimators.tasks import MultiTaskGroupDROClassifier
from xrisk.tables import TableModel

__all__ = [
    "GroupDROClassifier",
    "GroupDRORegressor",
    "MeanVariancePortfolio",
    "MultiTaskGroupDROClassifier",
    "PNormPushClassifier",
    "PrecisionAtKClassifier",
    "RobustLogisticRegression",
    "TableModel",
    "TopPushClassifier",
]
