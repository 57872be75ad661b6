"""Train models for what the average hides: worst groups, rare positives, the tail of the loss, the top of a ranking.

All of it is one problem, min over w of mean_i f(gᵢ(w)) + r(w), where gᵢ is an expectation inside a function f that
is not linear: the mean over a small batch, put into f, gives a biased gradient, and plain SGD solves another problem.
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xrisk import functions, inner, solvers
from xrisk.applications import group_dro
from xrisk.certificate import Certificate, certify
from xrisk.functions.worst_case import WorstCase, worst_case
from xrisk.problem import Problem
from xrisk.run import Budget, Checkpoint, Result, Stop, Trace, minimize, resume

if TYPE_CHECKING:
    from xrisk import datasets, metrics, race
    from xrisk.estimators import (
        DROClassifier,
        DRORegressor,
        GroupDROClassifier,
        GroupDRORegressor,
        MeanVariancePortfolio,
        MultiTaskGroupDROClassifier,
        PartialAUCClassifier,
        PNormPushClassifier,
        PolicyEvaluator,
        PrecisionAtKClassifier,
        RobustLogisticRegression,
        TopPushClassifier,
        TwoWayPartialAUCClassifier,
    )
    from xrisk.persistence import load, save

# what stands on scikit-learn is imported when it is first asked for: scikit-learn imports pandas where that is there
ON_DEMAND = {
    "load": "persistence",
    "save": "persistence",
    "datasets": "datasets",
    "metrics": "metrics",
    "race": "race",
}

__all__ = [
    "Budget",
    "Certificate",
    "Checkpoint",
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
    "Problem",
    "Result",
    "RobustLogisticRegression",
    "Stop",
    "TopPushClassifier",
    "Trace",
    "TwoWayPartialAUCClassifier",
    "WorstCase",
    "certify",
    "datasets",
    "functions",
    "group_dro",
    "inner",
    "load",
    "metrics",
    "minimize",
    "race",
    "resume",
    "save",
    "solvers",
    "worst_case",
]


def __getattr__(name: str) -> Any:
    home = ON_DEMAND.get(name, "estimators" if name[:1].isupper() else "")
    module = import_module(f"xrisk.{home}") if home else None
    if name != home and not hasattr(module, name):
        raise AttributeError(f"module 'xrisk' has no attribute {name!r}")
    return module if name == home else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
