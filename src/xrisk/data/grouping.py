"""Groups in any form (labels, several columns, overlapping membership) as codes and names."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Labels

MISSING = "missing"  # the name of the group of the rows that have none
BETWEEN = " × "  # between the parts of the name of an intersection


class Grouping(NamedTuple):
    """The groups of n rows; ``labels`` is what `xrisk.group_dro` takes as ``groups``.

    Attributes
    ----------
    labels : int array (n,) or boolean array (n, groups)
        The group of each row, as a position in ``names``; or, where groups may overlap, one column for each group.
    names : tuple of str
        One name for each group, all different; every group holds at least one row.
    missing : int
        Rows with a missing value among their labels, or in no group of a membership matrix.
    empty : tuple of str
        Columns of a membership matrix that were left out because no row is in them.
    """

    labels: np.ndarray
    names: tuple[str, ...]
    missing: int
    empty: tuple[str, ...]

    def rows(self) -> list[np.ndarray]:
        """The positions of the rows of each group, ascending."""
        if self.labels.ndim == 2:
            return [np.flatnonzero(column) for column in self.labels.T]
        ends = np.cumsum(np.bincount(self.labels, minlength=len(self.names)))
        return np.split(stable_order(self.labels, len(self.names)), ends[:-1])

    def sizes(self) -> np.ndarray:
        """Number of rows of each group."""
        if self.labels.ndim == 2:
            return self.labels.sum(axis=0)
        return np.bincount(self.labels, minlength=len(self.names))


def distinct(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct values in their order, and the position of each value among them; whole numbers are not sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.data.grouping import distinct
    >>> distinct(np.array([7, 5, 7]))
    (array([5, 7]), array([1, 0, 1]))
    """
    if values.dtype.kind in "iu" and values.size and values.dtype.itemsize <= 8:
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * values.size and high < 2**62:
            shifted = np.subtract(values, low, dtype=np.int64)
            occurs = np.bincount(shifted, minlength=high - low + 1) > 0
            return (np.flatnonzero(occurs) + low).astype(values.dtype), (np.cumsum(occurs) - 1)[shifted]
    return np.unique(values, return_inverse=True)


def stable_order(codes: np.ndarray, count: int) -> np.ndarray:
    """The positions of codes 0, …, count − 1 in ascending order of the codes; few codes are sorted by their digits."""
    return np.argsort(codes.astype(np.uint16) if count <= 2**16 else codes, kind="stable")


def encode_groups(groups: Labels, n: int) -> Grouping:
    """Turn ``groups`` of ``n`` rows into integer codes, or boolean membership, and names.

    Parameters
    ----------
    groups : array, Series, DataFrame, pyarrow Table or list
        One label for each row (numbers, strings, categories, dates); or several columns — a matrix (n, columns), a
        DataFrame, a list of columns — whose intersections are the groups; or two or more boolean
        columns, which are membership: groups may overlap. A square list of lists is a list of columns.
    n : int
        How many rows there are.

    Returns
    -------
    Grouping
        Groups in ascending order of their labels. A missing label (None, NaN, NA, NaT, masked) is a separate
        label, named "missing", and comes last.

    Examples
    --------
    >>> from xrisk.data.grouping import encode_groups
    >>> encode_groups(["b", "a", None, "b"], 4)
    Grouping(labels=array([1, 0, 2, 1]), names=('a', 'b', 'missing'), missing=1, empty=())
    >>> encode_groups([["f", "m", "m"], [30, 30, 60]], 3).names
    ('f × 30', 'm × 30', 'm × 60')
    """
    columns, titles = _columns(groups, n)
    if len(columns) > 1 and all(column.dtype == bool for column in columns):
        return _membership(np.column_stack(columns), titles)
    codes, names, missing = _encode(columns[0])
    for column in columns[1:]:
        more_codes, more_names, more_missing = _encode(column)
        cells, codes = np.unique(codes * len(more_names) + more_codes, return_inverse=True)
        names = _distinct([(names[c // len(more_names)], more_names[c % len(more_names)]) for c in cells])
        missing = missing | more_missing
    return Grouping(codes, tuple(names), int(missing.sum()), ())


def _columns(groups: Labels, n: int) -> tuple[list[np.ndarray], list[str]]:
    """Columns of n labels each, and what they are called."""
    if hasattr(groups, "columns"):
        known = getattr(groups, "column_names", groups.columns)  # the columns of a pyarrow Table are not their names
        titles, columns = [str(title) for title in known], [_labels(groups[title]) for title in known]
    elif isinstance(groups, list | tuple) and _is_columns(groups, n):
        columns, titles = [_labels(column) for column in groups], []
    else:
        array = _labels(groups)
        columns, titles = ([array] if array.ndim < 2 else list(array.T)), []
    if any(column.ndim == 0 for column in columns):
        raise ValueError(f"groups must be labels, one for each of the {n} rows, got a {type(groups).__name__}")
    if not columns:
        raise ValueError("groups must have at least one column, got none")
    for column in columns:
        if column.shape != (n,):
            raise ValueError(f"groups must have one label for each of the {n} rows, got shape {column.shape}")
    if n == 0:
        raise ValueError("groups must have at least one row, got none")
    return columns, titles or [str(j) for j in range(len(columns))]


def _is_columns(groups: Sequence[Any], n: int) -> bool:
    return len(groups) > 0 and all(not isinstance(part, str | bytes) and _length(part) == n for part in groups)


def _length(part: Any) -> int:
    try:
        return len(part)
    except TypeError:
        return -1


def _labels(values: Any) -> np.ndarray:
    """An array of labels; a list is not left to NumPy, which would turn [1, None, "a"] and ["a", NaN] into text."""
    if isinstance(values, np.ma.MaskedArray):
        labels = np.asarray(values.data).astype(object)
        labels[np.ma.getmaskarray(values)] = None
        return labels
    if isinstance(values, list | tuple):
        try:
            array = np.array(values, dtype=object)
        except ValueError as error:
            raise ValueError("groups must hold one label for each row, got parts of unequal lengths") from error
        kinds = {type(value) for value in array.flat}
        return np.asarray(values) if len(kinds) == 1 and kinds <= {str, int, float, bool} else array
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "T" else array


def _encode(column: np.ndarray) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Codes (n,), the names they stand for, and which rows are missing."""
    missing = _missing(column)
    present = column[~missing]
    values, found = _factorise(present) if column.dtype.kind == "O" else distinct(present)
    codes = np.full(column.size, len(values), dtype=np.int64)
    codes[~missing] = found
    names: list[Any] = [(_name(value), repr(value)) for value in _plain(values)]
    return codes, _distinct_names(names + [(MISSING, MISSING)] * bool(missing.any())), missing


def _missing(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind == "O":
        return np.fromiter((_is_missing(value) for value in column), dtype=bool, count=column.size)
    if column.dtype.kind in "fcmM":
        return column != column  # only NaN and NaT differ from themselves
    return np.zeros(column.size, dtype=bool)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError as error:  # nor has an array, which is not a label
        odd = type(value).__name__
        raise ValueError(f"groups must hold numbers, strings or dates as labels, got a {odd} as a label") from error


def _factorise(values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Distinct values in order, and the position of each entry among them."""
    try:
        distinct = list(dict.fromkeys(values.tolist()))
    except TypeError as error:
        odd = next((type(value).__name__ for value in values if type(value).__hash__ is None), "tuple")
        raise ValueError(f"groups must hold numbers, strings or dates as labels, got a {odd} as a label") from error
    try:
        distinct.sort()
    except TypeError:  # numbers and strings have no common order
        distinct.sort(key=lambda value: (type(value).__name__, str(value)))
    position = {value: code for code, value in enumerate(distinct)}
    return distinct, np.fromiter((position[value] for value in values), dtype=np.int64, count=values.size)


def _plain(values: Any) -> Iterable[Any]:
    if not isinstance(values, np.ndarray):
        return values
    if values.dtype.kind == "M" and (values.astype("M8[D]") == values).all():
        values = values.astype("M8[D]")  # dates, not the midnights they begin with
    return (values.astype(str) if values.dtype.kind in "mM" else values).tolist()


def _name(value: Any) -> str:
    """The name of a label; text that a table would not show (blanks, line breaks) is quoted."""
    if isinstance(value, str):
        return str(value) if value and value.isprintable() and value == value.strip() else repr(str(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # a column of integers with a missing one is a column of floats in pandas
    return repr(value) if isinstance(value, bytes) else str(value)


def _distinct(cells: list[tuple[str, str]]) -> list[str]:
    return _distinct_names([(BETWEEN.join(cell), BETWEEN.join(map(repr, cell))) for cell in cells])


def _distinct_names(names: list[tuple[str, str]]) -> list[str]:
    """The first of each pair; where two are equal the second, numbered if necessary."""
    counts: dict[str, int] = {}
    for short, _ in names:
        counts[short] = counts.get(short, 0) + 1
    taken: set[str] = set()
    chosen = []
    for short, exact in names:
        name = plain = short if counts[short] == 1 else exact
        number = 1
        while name in taken:
            number += 1
            name = f"{plain} ({number})"
        taken.add(name)
        chosen.append(name)
    return chosen


def _membership(member: np.ndarray, titles: list[str]) -> Grouping:
    names = _distinct_names([(title, repr(title)) for title in titles])
    occupied: np.ndarray = np.any(member, axis=0)
    none: np.ndarray = ~np.any(member, axis=1)
    kept = [name for name, any_row in zip(names, occupied, strict=True) if any_row]
    empty = tuple(name for name, any_row in zip(names, occupied, strict=True) if not any_row)
    member = np.ascontiguousarray(member[:, occupied])
    if none.any():
        member = np.column_stack([member, none])
        kept = _distinct_names([(name, repr(name)) for name in kept] + [(MISSING, MISSING)])
    return Grouping(member, tuple(kept), int(none.sum()), empty)
