"""Estimators with scikit-learn's interface.

An estimator in a new file of this folder is shown with the others, as `xrisk.NewClassifier` too; the imports below name
those that are there for type checkers and editors.
"""

from importlib import import_module
from pkgutil import iter_modules

from xrisk.estimators.base import LinearRobust as _LinearRobust
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


def _leaves(cls: type) -> set[type]:
    """The estimators that a class is a base of: those without a class below them."""
    return set().union(*map(_leaves, cls.__subclasses__())) or {cls}


for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")
globals().update({cls.__name__: cls for cls in _leaves(_LinearRobust) if cls.__module__.startswith(__name__)})
