"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier as GroupDROClassifier
from xrisk.estimators.groups import GroupDRORegressor as GroupDRORegressor
from xrisk.estimators.partial_auc import PartialAUCClassifier as PartialAUCClassifier
from xrisk.estimators.partial_auc import TwoWayPartialAUCClassifier as TwoWayPartialAUCClassifier
from xrisk.estimators.policy import PolicyEvaluator as PolicyEvaluator
from xrisk.estimators.portfolio import MeanVariancePortfolio as MeanVariancePortfolio
from xrisk.estimators.ranking import PNormPushClassifier as PNormPushClassifier
from xrisk.estimators.ranking import PrecisionAtKClassifier as PrecisionAtKClassifier
from xrisk.estimators.ranking import TopPushClassifier as TopPushClassifier
from xrisk.estimators.robust import RobustLogisticRegression as RobustLogisticRegression
from xrisk.estimators.samples import DROClassifier as DROClassifier
from xrisk.estimators.samples import DRORegressor as DRORegressor
from xrisk.estimators.tasks import MultiTaskGroupDROClassifier as MultiTaskGroupDROClassifier
from xrisk.tables import TableModel as TableModel
