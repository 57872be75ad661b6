"""Train models for what the average hides: worst groups, rare positives, the tail of the loss, the top of a ranking.

All of it is one problem, min over w of mean_i f(gᵢ(w)) + r(w), where gᵢ is an expectation inside a function f that
is not linear: the mean over a small batch, put into f, gives a biased gradient, and plain SGD solves another problem.
"""

__version__ = "0.1.0"

from xrisk import datasets, functions, inner, metrics, solvers
from xrisk.applications import group_dro
from xrisk.certificate import Certificate, certify
from xrisk.estimators import GroupDROClassifier, GroupDRORegressor
from xrisk.persistence import load, save
from xrisk.problem import Problem
from xrisk.run import Budget, Checkpoint, Result, Stop, Trace, minimize, resume

__all__ = [
    "Budget",
    "Certificate",
    "Checkpoint",
    "GroupDROClassifier",
    "GroupDRORegressor",
    "Problem",
    "Result",
    "Stop",
    "Trace",
    "certify",
    "datasets",
    "functions",
    "group_dro",
    "inner",
    "load",
    "metrics",
    "minimize",
    "resume",
    "save",
    "solvers",
]
