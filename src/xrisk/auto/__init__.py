"""The solver without step sizes."""

from xrisk.auto.plan import pass_seconds as pass_seconds
from xrisk.auto.plan import planned as planned
from xrisk.auto.solver import Auto as Auto
