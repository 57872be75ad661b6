"""What the parameters of a spec may be; the errors say what would be right."""

import math
from typing import Any

import numpy as np

MOST_STRENGTH = 1e150  # of a norm: methods square it


def require(condition: bool, name: str, value: object, wanted: str) -> None:
    """Raise ``ValueError`` naming the parameter, its value and what would be right.

    Examples
    --------
    >>> require(0.5 > 0, "tau", 0.5, "positive")
    """
    if not condition:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def positive(name: str, value: float) -> None:
    """Refuse what is not a finite number above zero."""
    require(math.isfinite(value) and value > 0, name, value, "positive" if math.isfinite(value) else "finite")


def non_negative(name: str, value: float) -> None:
    """Refuse what is not a finite number from zero on."""
    require(math.isfinite(value) and value >= 0, name, value, "non-negative" if math.isfinite(value) else "finite")


def norm_strength(name: str, value: float) -> None:
    """Refuse what is not a number from zero on whose square is a number too."""
    non_negative(name, value)
    require(value <= MOST_STRENGTH, name, value, f"at most {MOST_STRENGTH:g}")


def finite(name: str, value: float) -> None:
    """Refuse NaN and infinities."""
    require(math.isfinite(value), name, value, "finite")


def flag(name: str, value: Any) -> bool:
    """The value as a bool; refuse what is neither True nor False: text such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def count(name: str, value: int, least: int) -> None:
    """Refuse what is not an integer from ``least`` on."""
    whole = math.isfinite(value) and int(value) == value
    require(whole and value >= least, name, value, f"an integer of at least {least}")


def counted(number: int, one: str, many: str) -> str:
    """A number and what it counts, in the singular or plural.

    Examples
    --------
    >>> from xrisk.functions.parameters import counted
    >>> counted(1, "row has no group", "rows have no group")
    '1 row has no group'
    >>> counted(1200, "row", "rows")
    '1,200 rows'
    """
    return f"{number:,} {one if number == 1 else many}"
