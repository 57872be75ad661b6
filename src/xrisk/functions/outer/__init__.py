"""Scalar outer functions f(u): value, slope, conjugate, dual step, prox, constants."""

from xrisk.functions.outer.composed import Scaled, Smoothed
from xrisk.functions.outer.curved import Exponential, LogisticOuter, Power, Softplus
from xrisk.functions.outer.generics import (
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_piece,
    outer_is_piecewise_linear,
    outer_is_smooth,
    outer_kink,
    outer_lipschitz,
    outer_piece,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
)
from xrisk.functions.outer.polyhedral import CVaRHinge, HardNonsmooth, Identity
from xrisk.functions.outer.quadratic import ChiSquareA, ChiSquareB, HardSmooth, Square

__all__ = [
    "CVaRHinge",
    "ChiSquareA",
    "ChiSquareB",
    "Exponential",
    "HardNonsmooth",
    "HardSmooth",
    "Identity",
    "LogisticOuter",
    "Power",
    "Scaled",
    "Smoothed",
    "Softplus",
    "Square",
    "outer_conjugate",
    "outer_curvature",
    "outer_domain",
    "outer_dual_step",
    "outer_is_monotone",
    "outer_is_piece",
    "outer_is_piecewise_linear",
    "outer_is_smooth",
    "outer_kink",
    "outer_lipschitz",
    "outer_piece",
    "outer_prox",
    "outer_slope",
    "outer_smoothness",
    "outer_value",
]
