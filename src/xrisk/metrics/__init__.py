"""Scores of what the average hides: the worst group, the tail, the top of a ranking, a report on every group.

**Which model to choose.** If a model should be good on its worst group, select it by `worst_group_score` on validation
rows, and select the baselines in the same way. The average favours hyperparameters that neglect the small groups, and a
robust method then looks no better than plain training. For scikit-learn's searches, use `worst_group_scorer`. The worst
of many small groups is noisy: groups of fewer than ``min_group_size`` rows (30) are never the worst, and `group_report`
shows how noisy the others are.
"""

from xrisk.metrics.arguments import METRICS as METRICS
from xrisk.metrics.arguments import MIN_GROUP_SIZE as MIN_GROUP_SIZE
from xrisk.metrics.arguments import Metric as Metric
from xrisk.metrics.groups import group_report as group_report
from xrisk.metrics.intervals import wilson_interval as wilson_interval
from xrisk.metrics.partial_auc import partial_auc_score as partial_auc_score
from xrisk.metrics.partial_auc import partial_auc_scorer as partial_auc_scorer
from xrisk.metrics.report import GroupReport as GroupReport
from xrisk.metrics.report import GroupRow as GroupRow
from xrisk.metrics.resampling import PartialAUCDifference as PartialAUCDifference
from xrisk.metrics.resampling import partial_auc_difference as partial_auc_difference
from xrisk.metrics.resampling import partial_auc_interval as partial_auc_interval
from xrisk.metrics.roc import RocRegion as RocRegion
from xrisk.metrics.roc import roc_region as roc_region
from xrisk.metrics.worst import cvar as cvar
from xrisk.metrics.worst import worst_group_score as worst_group_score
from xrisk.metrics.worst import worst_group_scorer as worst_group_scorer
