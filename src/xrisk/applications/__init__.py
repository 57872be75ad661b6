"""Applications: problems built from arrays."""

from xrisk.applications.arguments import AMBIGUITIES, CLASS_LOSSES, DIVERGENCES, LOSSES, NUMBER_LOSSES
from xrisk.applications.groups import group_dro, group_index
from xrisk.applications.hard import HardInstance, hard_gradient, hard_nonsmooth, hard_smooth
from xrisk.applications.policy import averaged_bellman, bellman
from xrisk.applications.portfolio import mean_variance, mean_variance_of_moments
from xrisk.applications.quadratic import quadratic
from xrisk.applications.ranking import (
    p_norm_push,
    partial_auc,
    precision_at_k,
    sigmoid_partial_auc,
    top_push,
    two_way_partial_auc,
)
from xrisk.applications.robust import averaged_logistic, robust_logistic
from xrisk.applications.samples import sample_dro
from xrisk.applications.tasks import multi_task

__all__ = [
    "AMBIGUITIES",
    "CLASS_LOSSES",
    "DIVERGENCES",
    "LOSSES",
    "NUMBER_LOSSES",
    "HardInstance",
    "averaged_bellman",
    "averaged_logistic",
    "bellman",
    "group_dro",
    "group_index",
    "hard_gradient",
    "hard_nonsmooth",
    "hard_smooth",
    "mean_variance",
    "mean_variance_of_moments",
    "multi_task",
    "p_norm_push",
    "partial_auc",
    "precision_at_k",
    "quadratic",
    "robust_logistic",
    "sample_dro",
    "sigmoid_partial_auc",
    "top_push",
    "two_way_partial_auc",
]
