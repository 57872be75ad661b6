"""Outer functions of a block of m inner values, the only ones kernels call."""

from xrisk.functions.block.generics import block_conjugate as block_conjugate
from xrisk.functions.block.generics import block_dual_step as block_dual_step
from xrisk.functions.block.generics import block_entropy_step as block_entropy_step
from xrisk.functions.block.generics import block_is_monotone as block_is_monotone
from xrisk.functions.block.generics import block_is_smooth as block_is_smooth
from xrisk.functions.block.generics import block_lipschitz as block_lipschitz
from xrisk.functions.block.generics import block_max_smoothness as block_max_smoothness
from xrisk.functions.block.generics import block_project as block_project
from xrisk.functions.block.generics import block_slope as block_slope
from xrisk.functions.block.generics import block_smoothness as block_smoothness
from xrisk.functions.block.generics import block_start as block_start
from xrisk.functions.block.generics import block_value as block_value
from xrisk.functions.block.joint import LogSumExp as LogSumExp
from xrisk.functions.block.joint import MaxOuter as MaxOuter
from xrisk.functions.block.joint import TopSum as TopSum
