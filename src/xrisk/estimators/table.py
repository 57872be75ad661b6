"""Tables as people have them — numbers, categories, gaps — as the columns of a linear model, and kept with it."""

import itertools
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from xrisk.registry import savable

LEVELS = 100  # of a category that get a column each; the rarer ones share the column of none
BANDED = 20  # a column of groups with more distinct numbers than these is cut into bands
CLASSES = 20  # a target with more distinct numbers is a quantity, not a class


class Column(NamedTuple):
    """What a column holds: numbers (float64, NaN where missing) or text (objects, None where missing)."""

    values: np.ndarray
    missing: np.ndarray  # (n,) mask
    is_number: bool


def column(values: Any) -> Column:
    """Read a column of any type; truth values, dates and numbers among text are text.

    Examples
    --------
    >>> from xrisk.estimators.table import column
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
    held = entries[~missing]
    if held.size and all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in held):
        numbers = np.full(entries.size, np.nan)
        numbers[~missing] = held.astype(np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        return Column(numbers, np.isnan(numbers), True)
    text = np.full(entries.size, None, dtype=object)
    text[~missing] = [label(value) for value in held]
    return Column(text, missing, False)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True


def label(value: Any) -> str:
    """A value as text; 2.0 is 2, as a column of whole numbers with a gap is one of floats in pandas."""
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value)


@savable
class NumberColumn(NamedTuple):
    """A column of numbers, standardised; where the training rows had gaps, another column says which are filled."""

    name: str
    fill: float  # for a missing value: the median
    mean: float
    scale: float  # standard deviation
    missing: int  # among the training rows

    def titles(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} is missing") if self.missing else (self.name,)

    def encode(self, values: Any) -> list[np.ndarray]:
        seen = column(values)
        if not seen.is_number and not seen.missing.all():
            odd = seen.values[~seen.missing][0] if _number(seen.values[~seen.missing][0]) is None else "text"
            raise ValueError(f"column {self.name!r} must hold numbers, it holds {odd!r}")
        numbers = np.where(seen.missing, self.fill, seen.values).astype(np.float64)
        scaled = numbers / self.scale - self.mean / self.scale
        return [scaled, seen.missing.astype(np.float64)] if self.missing else [scaled]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@savable
class CategoryColumn(NamedTuple):
    """A column of categories, one indicator for each; a value never seen has none."""

    name: str
    values: tuple[str, ...]
    missing: int  # among the training rows
    other: int  # values that were too rare to get an indicator

    def titles(self) -> tuple[str, ...]:
        more = (f"{self.name} is missing",) if self.missing else ()
        return (*(f"{self.name}={value}" for value in self.values), *more)

    def encode(self, values: Any) -> list[np.ndarray]:
        text, missing = _text(column(values))
        more = [missing.astype(np.float64)] if self.missing else []
        return [*((text == value).astype(np.float64) for value in self.values), *more]


def _text(seen: Column) -> tuple[np.ndarray, np.ndarray]:
    if not seen.is_number:
        return seen.values, seen.missing
    text = np.full(seen.values.size, None, dtype=object)
    text[~seen.missing] = [label(value) for value in seen.values[~seen.missing]]
    return text, seen.missing


@savable
class GroupColumn(NamedTuple):
    """A column whose values make groups; numbers of many values are cut into bands at ``edges``."""

    name: str
    edges: tuple[float, ...] = ()
    says_name: bool = True  # whether "sex=1" is a group's name, or "female"

    def labels(self, values: Any) -> np.ndarray:
        """What each row is called (n,), None where it is missing."""
        seen = column(values)
        if self.edges and not seen.is_number and not seen.missing.all():
            raise ValueError(f"column {self.name!r} must hold numbers, as it is cut into bands")
        if self.edges:
            bands = np.searchsorted(self.edges, np.where(seen.missing, 0.0, seen.values).astype(np.float64))
            names = np.array(self._bands(), dtype=object)[bands]
            names[seen.missing] = None
            return names
        text, missing = _text(seen)
        out = np.full(text.size, None, dtype=object)
        out[~missing] = [f"{self.name}={value}" for value in text[~missing]] if self.says_name else text[~missing]
        return out

    def _bands(self) -> list[str]:
        ends = [f"{edge:.4g}" for edge in self.edges]
        middle = [f"{self.name} {low} to {high}" for low, high in itertools.pairwise(ends)]
        return [f"{self.name} up to {ends[0]}", *middle, f"{self.name} above {ends[-1]}"]


@savable
class TableEncoding(NamedTuple):
    """How the columns of a table become numbers; learnt from the training rows, applied alike to any others."""

    target: str
    task: str  # "classification" or "regression"
    columns: tuple[Any, ...]  # NumberColumn and CategoryColumn
    groups: tuple[GroupColumn, ...]
    left_out: tuple[tuple[str, str], ...]  # (column, why)

    def feature_names(self) -> tuple[str, ...]:
        return tuple(title for each in self.columns for title in each.titles())

    def encode(self, frame: Any) -> np.ndarray:
        """The columns of a linear model (rows, features)."""
        require(frame, [each.name for each in self.columns])
        parts = [part for each in self.columns for part in each.encode(frame[each.name])]
        return np.ascontiguousarray(np.column_stack(parts))

    def group_labels(self, frame: Any) -> list[np.ndarray] | None:
        """Columns of labels, as ``groups`` of any estimator; None where there are no columns of groups."""
        require(frame, [each.name for each in self.groups])
        return [each.labels(frame[each.name]) for each in self.groups] or None

    def targets(self, frame: Any) -> tuple[np.ndarray, np.ndarray]:
        """The targets of the rows that have one, and which these are (n,)."""
        require(frame, [self.target])
        seen = column(frame[self.target])
        held = ~seen.missing
        if self.task == "regression":
            if not seen.is_number and held.any():
                raise ValueError(f"the target {self.target!r} must hold numbers for regression, it holds text")
            return seen.values[held].astype(np.float64), held
        return _text(seen)[0][held].astype(str), held


def require(frame: Any, names: Iterable[str]) -> None:
    """Refuse a table that lacks a column."""
    lacking = [name for name in names if name not in frame]
    if lacking:
        held = ", ".join(map(repr, list(frame)[:8])) + (", …" if len(list(frame)) > 8 else "")
        raise ValueError(f"there is no column {lacking[0]!r}, the columns are {held}")


def guess_task(values: Any) -> str:
    """Text and few distinct whole numbers are classes, other numbers quantities."""
    seen = column(values)
    held = seen.values[~seen.missing]
    if not seen.is_number:
        return "classification"
    return "classification" if np.unique(held).size <= CLASSES and (held == np.round(held)).all() else "regression"


def learn_encoding(
    frame: Any,
    *,
    target: str,
    groups: tuple[GroupColumn, ...] = (),
    task: str = "classification",
    categorical: tuple[str, ...] = (),
    drop: tuple[str, ...] = (),
    groups_as_features: bool = False,
) -> TableEncoding:
    """Learn from the training rows how to encode a table.

    Numbers are standardised, gaps filled with the median and marked; categories get an indicator for each value.
    Columns that hold one value only, row numbers, and text that differs on most rows are left out.

    Parameters
    ----------
    frame : DataFrame or mapping of names to columns
        The training rows.
    target : str
        The column of the target.
    groups : tuple of GroupColumn
        The columns of the groups, from `learn_groups`.
    task : {"classification", "regression"}
        What the target is.
    categorical : tuple of str
        Columns of numbers that are codes of categories.
    drop : tuple of str
        Columns not to use.
    groups_as_features : bool
        Whether the columns of groups are features too.

    Examples
    --------
    >>> from xrisk.estimators.table import learn_encoding
    >>> table = {"age": [20, 30, None], "job": ["clerk", "cook", "cook"], "y": [0, 1, 1]}
    >>> encoding = learn_encoding(table, target="y")
    >>> encoding.feature_names()
    ('age', 'age is missing', 'job=clerk', 'job=cook')
    >>> encoding.encode({"age": [30.0, None], "job": ["cook", "pilot"]})
    array([[1., 0., 0., 1.],
           [0., 1., 0., 0.]])
    """
    of_groups = [each.name for each in groups]
    require(frame, [target, *of_groups, *categorical, *drop])
    unused = {target, *drop} | (set() if groups_as_features else set(of_groups))
    kept, left_out = [], []
    for name in frame:
        if name in unused:
            continue
        learnt = _learn(str(name), column(frame[name]), name in categorical)
        if isinstance(learnt, str):
            left_out.append((str(name), learnt))
        else:
            kept.append(learnt)
    if not kept:
        raise ValueError("there is no column left to predict from, beside the target and the groups")
    return TableEncoding(target, task, tuple(kept), groups, tuple(left_out))


def _learn(name: str, seen: Column, is_category: bool) -> Any:
    """How to encode a column, or the reason to leave it out."""
    held = seen.values[~seen.missing]
    missing = int(seen.missing.sum())
    if held.size == 0:
        return "it has no values"
    if seen.is_number and not is_category:
        return _learn_numbers(name, held, missing)
    values, counts = np.unique(_text(seen)[0][~seen.missing].astype(str), return_counts=True)
    if values.size == 1 and not missing:
        return "it is the same on every row"
    if values.size > max(20, held.size // 2):
        return "its text differs on most rows"
    frequent = np.sort(np.argsort(-counts, kind="stable")[:LEVELS])
    return CategoryColumn(name, tuple(values[frequent].tolist()), missing, int(values.size - frequent.size))


def _learn_numbers(name: str, held: np.ndarray, missing: int) -> Any:
    if held.min() == held.max() and not missing:
        return "it is the same on every row"
    if not missing and held.size > 20 and (held == np.round(held)).all() and (np.diff(held) > 0).all():
        return "it numbers the rows"
    largest = 2.0 ** min(int(np.frexp(np.abs(held).max())[1]), 1023)  # squares of huge numbers would overflow
    scale = float((held / largest).std()) * largest
    mean = float((held / largest).mean()) * largest
    return NumberColumn(name, float(np.median(held)), mean, scale or 1.0, missing)


def learn_groups(frame: Any, names: Iterable[str], *, target: str, bands: int = 4) -> tuple[GroupColumn, ...]:
    """How columns make groups; numbers of more than BANDED values are cut into ``bands`` of about equal size."""
    names = tuple(names)
    require(frame, names)
    return tuple(_learn_group(name, column(frame[name]), bands, name == target) for name in names)


def _learn_group(name: str, seen: Column, bands: int, is_target: bool) -> GroupColumn:
    held = seen.values[~seen.missing]
    if not seen.is_number:
        clear = all(len(value) > 2 and value not in ("True", "False") for value in held)
        return GroupColumn(name, says_name=is_target or not clear)
    if np.unique(held).size <= BANDED:
        return GroupColumn(name)
    inner = np.quantile(held, np.arange(1, bands) / bands)
    return GroupColumn(name, tuple(float(edge) for edge in np.unique(inner) if edge < held.max()))


@savable
class TableModel(BaseEstimator):
    """A fitted model with the encoding of its table: predicts from tables as they were read.

    Parameters
    ----------
    encoding : TableEncoding
        How the columns become numbers.
    model : estimator
        Fitted on the encoded columns.
    """

    def __init__(self, encoding: Any = None, model: Any = None) -> None:
        self.encoding = encoding
        self.model = model

    def __sklearn_is_fitted__(self) -> bool:
        return self.model is not None

    def predict(self, frame: Any) -> np.ndarray:
        """Predictions for the rows of a table."""
        return self.model.predict(self.encoding.encode(frame))

    def predict_proba(self, frame: Any) -> np.ndarray:
        """Probabilities of the classes for the rows of a table."""
        return self.model.predict_proba(self.encoding.encode(frame))

    def decision_function(self, frame: Any) -> np.ndarray:
        """Scores for the rows of a table."""
        return self.model.decision_function(self.encoding.encode(frame))
