"""Solvers: one file per method, and `exact`, the ground truth."""

from xrisk.solvers import theory
from xrisk.solvers.card import MethodCard, Need
from xrisk.solvers.coupled.alexr import ALEXR
from xrisk.solvers.coupled.bsgd import BSGD
from xrisk.solvers.coupled.sonex import SONEX
from xrisk.solvers.coupled.sonx import SONX
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
from xrisk.solvers.tracking import TheoryCorrection

METHODS = (ALEXR, BSGD, SONEX, SONX, SOX)  # what the contract of the tests runs over

__all__ = [
    "ALEXR",
    "BSGD",
    "METHODS",
    "SONEX",
    "SONX",
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
    "TheoryCorrection",
    "UniformAverage",
    "exact",
    "theory",
]
