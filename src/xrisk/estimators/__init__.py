"""Estimators with scikit-learn's face."""

from xrisk.estimators.groups import GroupDROClassifier, GroupDRORegressor

__all__ = ["GroupDROClassifier", "GroupDRORegressor"]
