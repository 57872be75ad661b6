"""Solvers: one file per method, and `exact`, the ground truth."""

from xrisk.solvers import theory
from xrisk.solvers.coupled.alexr import ALEXR
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

METHODS = (ALEXR,)  # what the contract of the tests runs over

__all__ = [
    "ALEXR",
    "METHODS",
    "Conjugate",
    "Decreasing",
    "Entropy",
    "GeometricAverage",
    "LastIterate",
    "Optimum",
    "PolynomialAverage",
    "Quadratic",
    "StageAverage",
    "Stagewise",
    "UniformAverage",
    "exact",
    "theory",
]
