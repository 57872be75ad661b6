"""The solver without step sizes."""

from xrisk.auto.choice import planned as planned
from xrisk.auto.costs import pass_seconds as pass_seconds
from xrisk.auto.solver import Auto as Auto
from xrisk.auto.trimming import minimize_trimmed as minimize_trimmed
