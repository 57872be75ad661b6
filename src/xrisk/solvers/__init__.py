"""Solvers: one file per method, `exact`, the ground truth, and `catalogue`, which finds the methods.

The catalogue also lists what users see: the methods, and the specs that their fields may hold. ``__init__.pyi`` names
them for type checkers and editors; `xrisk.solvers.catalogue.stub` writes it, and a test compares the two.
"""

from typing import Any

from xrisk.problem import ThresholdBounds
from xrisk.solvers import theory
from xrisk.solvers.card import MethodCard, Need
from xrisk.solvers.catalogue import METHODS, shown

globals().update({cls.__name__: cls for cls in shown()})
__all__ = [
    "METHODS",
    "Auto",
    "MethodCard",
    "Need",
    "ThresholdBounds",
    "exact",
    "theory",
    *(cls.__name__ for cls in shown()),
]


def __getattr__(name: str) -> Any:
    if name == "exact":  # it imports the driver, which comes after the solvers in the order of imports
        from xrisk.auto.exact import exact

        return exact
    if name == "Auto":
        from xrisk.auto import Auto

        return Auto
    raise AttributeError(f"module 'xrisk.solvers' has no attribute {name!r}")
