"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier, GroupDRORegressor
from xrisk.estimators.partial_auc import PartialAUCClassifier, TwoWayPartialAUCClassifier
from xrisk.estimators.policy import PolicyEvaluator
from xrisk.estimators.portfolio import MeanVariancePortfolio
from xrisk.estimators.ranking import PNormPushClassifier, PrecisionAtKClassifier, TopPushClassifier
from xrisk.estimators.robust import RobustLogisticRegression
from xrisk.estimators.samples import DROClassifier, DRORegressor
from xrisk.estimators.tasks import MultiTaskGroupDROClassifier
from xrisk.tables import TableModel

__all__ = [
    "DROClassifier",
    "DRORegressor",
    "GroupDROClassifier",
    "GroupDRORegressor",
    "MeanVariancePortfolio",
    "MultiTaskGroupDROClassifier",
    "PNormPushClassifier",
    "PartialAUCClassifier",
    "PolicyEvaluator",
    "PrecisionAtKClassifier",
    "RobustLogisticRegression",
    "TableModel",
    "TopPushClassifier",
    "TwoWayPartialAUCClassifier",
]
