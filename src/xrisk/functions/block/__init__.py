"""Outer functions of a block of m inner values, the only ones kernels call."""

from xrisk.functions.block.generics import (
    block_conjugate,
    block_dual_step,
    block_entropy_step,
    block_is_monotone,
    block_is_smooth,
    block_lipschitz,
    block_max_smoothness,
    block_project,
    block_slope,
    block_smoothness,
    block_start,
    block_value,
)
from xrisk.functions.block.joint import LogSumExp, MaxOuter, TopSum

__all__ = [
    "LogSumExp",
    "MaxOuter",
    "TopSum",
    "block_conjugate",
    "block_dual_step",
    "block_entropy_step",
    "block_is_monotone",
    "block_is_smooth",
    "block_lipschitz",
    "block_max_smoothness",
    "block_project",
    "block_slope",
    "block_smoothness",
    "block_start",
    "block_value",
]
