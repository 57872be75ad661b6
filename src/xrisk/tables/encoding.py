"""How the columns of a table become those of a linear model: learnt from training rows, applied to any others."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Frame
from xrisk.tables.columns import CategoryColumn, Column, GroupColumn, NumberColumn, as_text, check_fields, column

LEVELS = 100  # of a category that get a column each; the rarer ones share the column of none
BINNED = 20  # a column of groups with more distinct numbers than these is cut into bins
CLASSES = 20  # a target with more distinct numbers is a quantity, not a class


class TableEncoding(NamedTuple):
    """How the columns of a table become numbers; learnt from the training rows, applied alike to any others."""

    target: str
    task: str  # "classification" or "regression"
    columns: tuple[Any, ...]  # NumberColumn and CategoryColumn
    groups: tuple[GroupColumn, ...]
    left_out: tuple[tuple[str, str], ...]  # (column, why)

    def check(self) -> None:
        """Refuse what was not learnt from a table: a file may hold anything."""
        check_fields(self, target=str, task=str, columns=tuple, groups=tuple, left_out=tuple)
        if self.task not in ("classification", "regression"):
            raise ValueError(f"task must be 'classification' or 'regression', got {self.task!r}")
        if not self.columns:
            raise ValueError("columns must hold at least one, got none")
        for each in self.columns:
            _check_kind(each, NumberColumn | CategoryColumn)
        for each in self.groups:
            _check_kind(each, GroupColumn)

    def feature_names(self) -> tuple[str, ...]:
        return tuple(title for each in self.columns for title in each.titles())

    def encode(self, frame: Frame) -> np.ndarray:
        """The columns of a linear model (rows, features)."""
        require(frame, [each.name for each in self.columns])
        parts = [part for each in self.columns for part in each.encode(frame[each.name])]
        return np.ascontiguousarray(np.column_stack(parts))

    def group_labels(self, frame: Frame) -> list[np.ndarray] | None:
        """Columns of labels, as ``groups`` of any estimator; None where there are no columns of groups."""
        require(frame, [each.name for each in self.groups])
        return [each.labels(frame[each.name]) for each in self.groups] or None

    def targets(self, frame: Frame) -> tuple[np.ndarray, np.ndarray]:
        """The targets of the rows that have one, and which these are (n,)."""
        require(frame, [self.target])
        read = column(frame[self.target])
        present = ~read.missing
        if self.task == "regression":
            if not read.is_number and present.any():
                raise ValueError(f"the target {self.target!r} must hold numbers for regression, it holds text")
            return read.values[present].astype(np.float64), present
        return as_text(read)[0][present].astype(str), present


def _check_kind(each: Any, kind: Any) -> None:
    if not isinstance(each, kind):
        raise ValueError(f"columns must be columns of a table, got {each!r}")
    each.check()


def require(frame: Frame, names: Iterable[str]) -> None:
    """Refuse what is no table, and a table that lacks a column or has it twice."""
    if not (isinstance(frame, Mapping) or hasattr(frame, "columns")):
        raise TypeError(f"a table must be a DataFrame or a dict of columns, got a {type(frame).__name__}")
    often, names = Counter(list(frame)), list(names)
    lacking = [name for name in names if name not in frame]
    if lacking:
        names = ", ".join(map(repr, list(frame)[:8])) + (", …" if len(list(frame)) > 8 else "")
        raise ValueError(f"there is no column {lacking[0]!r}, the columns are {names}")
    for name in names:
        if often[name] > 1:
            raise ValueError(f"there are {often[name]} columns named {name!r}: give each a name of its own")


def guess_task(values: Any) -> str:
    """Text and few distinct whole numbers are classes, other numbers quantities."""
    read = column(values)
    known = read.known
    if not read.is_number:
        return "classification"
    return "classification" if np.unique(known).size <= CLASSES and (known == np.round(known)).all() else "regression"


def learn_encoding(
    frame: Frame,
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
    >>> from xrisk.tables.encoding import learn_encoding
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
        why = "".join(f"; {name!r} is left out: {reason}" for name, reason in left_out[:5])
        raise ValueError(f"there is no column left to predict from apart from the target and the groups{why}")
    return TableEncoding(target, task, tuple(kept), groups, tuple(left_out))


def _learn(name: str, read: Column, is_category: bool) -> Any:
    """How to encode a column, or the reason to leave it out."""
    known = read.known
    missing = int(read.missing.sum())
    if known.size == 0:
        return "it has no values"
    if read.is_number and not is_category:
        return _learn_numbers(name, known, missing)
    values, counts = np.unique(as_text(read)[0][~read.missing].astype(str), return_counts=True)
    if values.size == 1 and not missing:
        return "it is the same on every row"
    if values.size > max(20, known.size // 2):
        return "its text differs on most rows"
    frequent = np.sort(np.argsort(-counts, kind="stable")[:LEVELS])
    return CategoryColumn(name, tuple(values[frequent].tolist()), missing, int(values.size - frequent.size))


def _learn_numbers(name: str, known: np.ndarray, missing: int) -> Any:
    if known.min() == known.max() and not missing:
        return "it is the same on every row"
    if not missing and known.size > 20 and (known == np.round(known)).all() and (known[1:] > known[:-1]).all():
        return "it numbers the rows"
    largest = 2.0 ** min(int(np.frexp(np.abs(known).max())[1]), 1023)  # sums of huge numbers would overflow
    median, mean, scale = (float(of(known / largest)) * largest for of in (np.median, np.mean, np.std))
    return NumberColumn(name, median, mean, scale or 1.0, missing)


def learn_groups(frame: Frame, names: Iterable[str], *, target: str, bins: int = 4) -> tuple[GroupColumn, ...]:
    """How columns make groups; numbers of more than BINNED values are cut into ``bins`` of about equal size."""
    names = tuple(names)
    require(frame, names)
    return tuple(_learn_group(name, column(frame[name]), bins, name == target) for name in names)


def _learn_group(name: str, read: Column, bins: int, is_target: bool) -> GroupColumn:
    known = read.known
    if not read.is_number:
        clear = all(len(value) > 2 and value not in ("True", "False") for value in known)
        return GroupColumn(name, says_name=is_target or not clear)
    if np.unique(known).size <= BINNED:
        return GroupColumn(name)
    inner = np.quantile(known, np.arange(1, bins) / bins)
    return GroupColumn(name, tuple(float(edge) for edge in np.unique(inner) if edge < known.max()))
