"""Solvers: one file per method, and `exact`, the ground truth."""

from xrisk.solvers import theory
from xrisk.solvers.card import MethodCard, Need
from xrisk.solvers.coupled.alexr import ALEXR
from xrisk.solvers.coupled.sox import SOX, FreshBatch, OldValue, SameBatch
from xrisk.solvers.exact import Optimum, exact
from xrisk.solvers.mirror import Conjugate, Entropy, Quadratic
from xrisk.solvers.schedules import (
    Decreasing,
    GeometricAverage,
    LastIterate,
    PolynomialAverage,
    StageAverage,
    Stagewise,
    UniformAverage,
)

METHODS = (ALEXR, SOX)  # what the contract of the tests runs over

__all__ = [
    "ALEXR",
    "METHODS",
    "SOX",
    "Conjugate",
    "Decreasing",
    "Entropy",
    "FreshBatch",
    "GeometricAverage",
    "LastIterate",
    "MethodCard",
    "Need",
    "OldValue",
    "Optimum",
    "PolynomialAverage",
    "Quadratic",
    "SameBatch",
    "StageAverage",
    "Stagewise",
    "UniformAverage",
    "exact",
    "theory",
]
