"""Solvers: one file per method."""

from xrisk.solvers.coupled.alexr import ALEXR
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

__all__ = ["ALEXR"]
