"""Scores of what the average hides: the worst group, the tail, the top of a ranking, a report on every group.

**Which model to choose.** If a model should be good on its worst group, select it by `worst_group_score` on validation
rows, and select the baselines in the same way. The average favours hyperparameters that neglect the small groups, and a
robust method then looks no better than plain training. For scikit-learn's searches, use `worst_group_scorer`. The worst
of many small groups is noisy: groups of fewer than ``min_group_size`` rows (30) are never the worst, and `group_report`
shows how noisy the others are.
"""

from xrisk.metrics.arguments import METRICS, MIN_GROUP_SIZE, Metric
from xrisk.metrics.groups import group_report
from xrisk.metrics.intervals import wilson_interval
from xrisk.metrics.partial_auc import partial_auc_score, partial_auc_scorer
from xrisk.metrics.report import GroupReport, GroupRow
from xrisk.metrics.resampling import PartialAUCDifference, partial_auc_difference, partial_auc_interval
from xrisk.metrics.roc import RocRegion, roc_region
from xrisk.metrics.worst import cvar, worst_group_score, worst_group_scorer

__all__ = [
    "METRICS",
    "MIN_GROUP_SIZE",
    "GroupReport",
    "GroupRow",
    "Metric",
    "PartialAUCDifference",
    "RocRegion",
    "cvar",
    "group_report",
    "partial_auc_difference",
    "partial_auc_interval",
    "partial_auc_score",
    "partial_auc_scorer",
    "roc_region",
    "wilson_interval",
    "worst_group_score",
    "worst_group_scorer",
]
