"""Checks of the parameters of specs; the errors say what would be right."""

import math
import numbers
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from xrisk.annotations import Spec

MOST_STRENGTH = 1e150  # of a norm: methods square it
Check = Callable[[str, Any], None]  # of a name and its value: raises one sentence
Decorated = TypeVar("Decorated", bound=type)


def require(condition: bool, name: str, value: object, wanted: str) -> None:
    """Raise ``ValueError`` naming the parameter, its value and what would be right.

    Examples
    --------
    >>> require(0.5 > 0, "tau", 0.5, "positive")
    """
    if not condition:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def number(words: str, holds: Callable[[float], bool]) -> Check:
    """A check that a value is a number for which ``holds`` is true; ``words`` complete "must …".

    Examples
    --------
    >>> number("be above 1", lambda x: x > 1.0)("p", 2.0)
    """

    def check(name: str, value: Any) -> None:
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not (is_number and holds(float(value))):
            raise ValueError(f"{name} must {words}, got {value!r}")

    return check


def finite_number(words: str, holds: Callable[[float], bool]) -> Check:
    """The `number` check of a range without an upper end: infinity and NaN are refused as not finite."""
    check = number(words, holds)

    def check_finite(name: str, value: Any) -> None:
        if isinstance(value, numbers.Real):
            finite(name, value)
        check(name, value)

    return check_finite


finite = number("be finite", math.isfinite)
positive = finite_number("be positive", lambda x: x > 0.0)
non_negative = number("be finite and not negative", lambda x: 0.0 <= x < math.inf)
one_or_more = finite_number("be at least 1", lambda x: x >= 1.0)
share = number("lie in (0, 1]", lambda x: 0.0 < x <= 1.0)
below_one = number("lie in [0, 1)", lambda x: 0.0 <= x < 1.0)
from_zero_to_one = number("lie between 0 and 1", lambda x: 0.0 <= x <= 1.0)
inside_zero_to_one = number("lie strictly between 0 and 1", lambda x: 0.0 < x < 1.0)


def norm_strength(name: str, value: Any) -> None:
    """Refuse all but non-negative numbers whose squares do not overflow."""
    non_negative(name, value)
    require(value <= MOST_STRENGTH, name, value, f"at most {MOST_STRENGTH:g}")


def whole(name: str, value: Any) -> int:
    """The value as an int; refuse what is not a whole number."""
    integral = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    require(integral, name, value, "a whole number")
    return int(value)  # one of NumPy would compile a kernel once more


def whole_from(least: int) -> Check:
    """A check that a value is a whole number from ``least`` on."""

    def check(name: str, value: Any) -> None:
        require(whole(name, value) >= least, name, value, f"at least {least}")

    return check


def checks(**fields: Check) -> Callable[[Decorated], Decorated]:
    """A decorator that gives a spec the method ``check``, which checks its fields by name.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> @checks(tau=positive)
    ... class Tempered(NamedTuple):
    ...     tau: float = 1.0
    >>> Tempered(-1.0).check()
    Traceback (most recent call last):
    ValueError: tau must be positive, got -1.0
    """

    def attach(cls: Decorated) -> Decorated:
        cls.check = lambda self: check_fields(self, fields)  # type: ignore[attr-defined]
        return cls

    return attach


def check_fields(spec: Spec, fields: dict[str, Check]) -> None:
    """Check the named fields of a spec."""
    for name, check in fields.items():
        check(name, getattr(spec, name))


def check_spec(spec: Spec) -> None:
    """Check a spec, if it has a method ``check``."""
    getattr(spec, "check", lambda: None)()


def flag(name: str, value: Any) -> bool:
    """The value as a bool; refuse all but True and False, as text such as "no" would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


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
