"""Columns of a table: numbers, categories and gaps, and how each is encoded."""

import itertools
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.functions.parameters import counted

NUMBERS = (int, float, Decimal, np.number)


class Column(NamedTuple):
    """What a column holds: numbers (float64, NaN where missing) or text (objects, None where missing)."""

    values: np.ndarray
    missing: np.ndarray  # (n,) mask
    is_number: bool

    @property
    def known(self) -> np.ndarray:
        """The values that are not missing."""
        return self.values[~self.missing]


def column(values: Any) -> Column:
    """Read a column of any type; truth values, dates and numbers among text are text.

    Examples
    --------
    >>> from xrisk.tables.columns import column
    >>> column([1, None, 2.5]).values
    array([1. , nan, 2.5])
    >>> column([True, "a", None]).values.tolist()
    ['True', 'a', None]
    """
    array = np.asarray(values)
    if array.dtype.kind in "iuf":
        numbers = array.astype(np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        return Column(numbers, np.isnan(numbers), True)
    entries = array.astype(object)
    missing = np.fromiter((_is_missing(value) for value in entries), dtype=bool, count=entries.size)
    known = entries[~missing]
    if known.size and all(isinstance(value, NUMBERS) and not isinstance(value, bool) for value in known):
        numbers = np.full(entries.size, np.nan)
        numbers[~missing] = [_float(value) for value in known]
        numbers[~np.isfinite(numbers)] = np.nan
        return Column(numbers, np.isnan(numbers), True)
    text = np.full(entries.size, None, dtype=object)
    text[~missing] = [label(value) for value in known]
    return Column(text, missing, False)


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        return np.inf


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array has several
        return False


def label(value: Any) -> str:
    """A value as text; 2.0 is 2, as a column of whole numbers with a gap is one of floats in pandas."""
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value)


def check_fields(spec: Spec, **kinds: Any) -> None:
    """Refuse fields that are not of their kinds: a file may hold anything."""
    for name, kind in kinds.items():
        value = getattr(spec, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} of {type(spec).__name__} must be {kind.__name__}, got {value!r}")


class NumberColumn(NamedTuple):
    """A column of numbers, standardised; where the training rows had gaps, another column says which are filled."""

    name: str
    fill: float  # for a missing value: the median
    mean: float
    scale: float  # standard deviation
    missing: int  # among the training rows

    def check(self) -> None:
        check_fields(self, name=str, fill=float, mean=float, scale=float, missing=int)
        if not np.isfinite([self.fill, self.mean, self.scale]).all() or self.scale == 0.0:
            raise ValueError(f"numbers of {self.name!r} must be scaled by finite numbers, got {self.scale!r}")

    def described(self) -> tuple[str, str]:
        """Kind and details."""
        return "number", f"mean {self.mean:.4g}, std {self.scale:.4g}"

    def titles(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing") if self.missing else (self.name,)

    def encode(self, values: Any) -> list[np.ndarray]:
        read = column(values)
        if not read.is_number and not read.missing.all():
            odd = read.known[0] if _number(read.known[0]) is None else "text"
            raise ValueError(f"column {self.name!r} must hold numbers, it holds {odd!r}")
        numbers = np.where(read.missing, self.fill, read.values).astype(np.float64)
        scaled = numbers / self.scale - self.mean / self.scale
        return [scaled, read.missing.astype(np.float64)] if self.missing else [scaled]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class CategoryColumn(NamedTuple):
    """A column of categories, one indicator for each; a new value has none."""

    name: str
    values: tuple[str, ...]
    missing: int  # among the training rows
    other: int  # values that were too rare to get an indicator

    def check(self) -> None:
        check_fields(self, name=str, values=tuple, missing=int, other=int)

    def described(self) -> tuple[str, str]:
        """Kind and details."""
        other = f", {self.other} rare ones together" if self.other else ""
        return "category", f"{counted(len(self.values), 'value', 'values')}{other}"

    def titles(self) -> tuple[str, ...]:
        more = (f"{self.name} is missing",) if self.missing else ()
        return (*(f"{self.name}={value}" for value in self.values), *more)

    def encode(self, values: Any) -> list[np.ndarray]:
        text, missing = as_text(column(values))
        more = [missing.astype(np.float64)] if self.missing else []
        return [*((text == value).astype(np.float64) for value in self.values), *more]


def as_text(read: Column) -> tuple[np.ndarray, np.ndarray]:
    """The values as text (objects, None where missing), and which are missing."""
    if not read.is_number:
        return read.values, read.missing
    text = np.full(read.values.size, None, dtype=object)
    text[~read.missing] = [label(value) for value in read.known]
    return text, read.missing


class GroupColumn(NamedTuple):
    """A column whose values make groups; numbers of many values are cut into bins at ``edges``."""

    name: str
    edges: tuple[float, ...] = ()
    says_name: bool = True  # whether "sex=1" is a group's name, or "female"

    def check(self) -> None:
        check_fields(self, name=str, edges=tuple, says_name=bool)
        if not all(isinstance(edge, float) for edge in self.edges) or list(self.edges) != sorted(self.edges):
            raise ValueError(f"edges of {self.name!r} must be ascending numbers, got {self.edges!r}")

    def labels(self, values: Any) -> np.ndarray:
        """The name of the group of each row (n,), None where it is missing."""
        read = column(values)
        if self.edges and not read.is_number and not read.missing.all():
            raise ValueError(f"column {self.name!r} must hold numbers, as it is cut into bins")
        if self.edges:
            bins = np.searchsorted(self.edges, np.where(read.missing, 0.0, read.values).astype(np.float64))
            names = np.array(self._bins(), dtype=object)[bins]
            names[read.missing] = None
            return names
        text, missing = as_text(read)
        out = np.full(text.size, None, dtype=object)
        out[~missing] = [f"{self.name}={value}" for value in text[~missing]] if self.says_name else text[~missing]
        return out

    def _bins(self) -> list[str]:
        ends = [f"{edge:.4g}" for edge in self.edges]
        middle = [f"{self.name} {low} to {high}" for low, high in itertools.pairwise(ends)]
        return [f"{self.name} up to {ends[0]}", *middle, f"{self.name} above {ends[-1]}"]
