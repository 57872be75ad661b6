"""A table that was read, prepared: training and validation rows for a model, and notes on them."""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xrisk.annotations import Frame
from xrisk.data.grouping import encode_groups
from xrisk.functions.parameters import counted
from xrisk.tables.columns import GroupColumn, column
from xrisk.tables.encoding import TableEncoding, guess_task, learn_encoding, learn_groups, require
from xrisk.tables.rows import Part, split

if TYPE_CHECKING:
    from xrisk.tables.read import Read  # it needs pandas

LEAST_ROWS = 10
MOST_CLASSES = 100
NESTED = (list, tuple, dict, set, np.ndarray)
NUMBER_WITH_COMMA = re.compile(r"[+-]?\d+(,\d+)*(\.\d+)?([eE][+-]?\d+)?")


class TableOptions(NamedTuple):
    """What the columns of a table are for."""

    target: str
    groups: tuple[str, ...] = ()  # without any the classes are the groups
    task: str = "auto"  # or "classification", "regression"
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    bins: int = 4  # of a column of groups that holds many numbers
    groups_as_features: bool = False


class Prepared(NamedTuple):
    """A table ready for a study."""

    encoding: TableEncoding
    train: Part
    validation: Part
    test: Part | None  # rows that choose nothing, where they are needed
    notes: tuple[str, ...]
    numbers: np.ndarray  # of the training rows in the table that was read, from 1 on


class Labelled(NamedTuple):
    """The rows of a table that have a target, with their targets and groups."""

    frame: Frame
    task: str
    y: np.ndarray  # (n,)
    groups: np.ndarray  # (n,) names
    columns: tuple[GroupColumn, ...] = ()  # that make the groups


def _prepared(
    label: Callable[[Any, TableOptions, str, list[str]], Labelled],
    read: "Read",
    options: TableOptions,
    path: str,
    *,
    validation: float,
    test: float | None = None,
    seed: int,
) -> Prepared:
    """Leave out rows without a target, split, learn the encoding from the training rows.

    ``validation`` and ``test`` are shares of all rows.
    """
    notes = list(read.notes)
    rows = label(_checked(read, options, path, notes), options, path, notes)
    positions = _positions(rows, validation, test, seed)
    encoding = _encoding(rows, positions[0], options)
    parts = [Part(encoding.encode(rows.frame.iloc[part]), rows.y[part], rows.groups[part]) for part in positions]
    last = parts[2] if len(parts) > 2 else None
    notes += encoding_notes(encoding)
    return Prepared(encoding, parts[0], parts[1], last, tuple(notes), 1 + np.asarray(rows.frame.index)[positions[0]])


def _positions(rows: Labelled, validation: float, test: float | None, seed: int) -> list[np.ndarray]:
    if test is None:
        return list(split(rows.groups, rows.y, validation=validation, seed=seed))
    if min(validation, test) <= 0.0 or validation + test >= 1.0:
        raise ValueError(
            f"validation and test must be positive and leave rows to train on, got {validation!r} and {test!r}"
        )
    train, rest = split(rows.groups, rows.y, validation=validation + test, seed=seed)
    first, last = split(rows.groups[rest], rows.y[rest], validation=test / (validation + test), seed=seed)
    return [train, rest[first], rest[last]]


def prepare_all(read: "Read", options: TableOptions, path: str) -> tuple[TableEncoding, Part, tuple[str, ...]]:
    """All rows of a table with groups, for training: encoding, rows, notes."""
    notes = list(read.notes)
    rows = _by_groups(_checked(read, options, path, notes), options, path, notes)
    encoding = _encoding(rows, np.arange(rows.y.size), options)
    return encoding, Part(encoding.encode(rows.frame), rows.y, rows.groups), (*notes, *encoding_notes(encoding))


def _encoding(rows: Labelled, train: np.ndarray, options: TableOptions) -> TableEncoding:
    return learn_encoding(
        rows.frame.iloc[train],
        target=options.target,
        groups=rows.columns,
        task=rows.task,
        categorical=options.categorical,
        drop=options.drop,
        groups_as_features=options.groups_as_features,
    )


def _by_groups(frame: Frame, options: TableOptions, path: str, notes: list[str]) -> Labelled:
    """Rows in groups; without any the classes are the groups."""
    target = options.target
    task, y = _targets(frame, options, path)
    if task == "regression" and not options.groups:
        raise ValueError(f"groups must be given, as the target {target!r} is a number and gives no groups by itself")
    if not options.groups:
        notes.append("No groups were given, so the classes are the groups.")
    columns = learn_groups(frame, options.groups or (target,), target=target, bins=options.bins)
    notes += [f"Numbers in {each.name!r} are cut into {len(each.edges) + 1} bins." for each in columns if each.edges]
    grouping = encode_groups([each.labels(frame[each.name]) for each in columns], len(frame))
    if grouping.missing:
        rows = counted(grouping.missing, "row has", "rows have")
        notes.append(f"{rows} no group in at least one column; it is called 'missing' there.")
    groups = np.array(grouping.names, dtype=str)[grouping.labels]
    return Labelled(frame, task, y, groups, columns)


def _by_classes(frame: Frame, options: TableOptions, path: str, notes: list[str]) -> Labelled:
    """Rows of two classes to be ranked, which are their groups."""
    y = TableEncoding(options.target, "classification", (), (), ()).targets(frame)[0]
    classes = np.unique(y)
    if classes.size != 2:
        number = f"{str(classes[0])!r} alone" if classes.size == 1 else f"{classes.size:,}"
        raise ValueError(f"{path}: the target {options.target!r} must hold two classes to be ranked, it holds {number}")
    return Labelled(frame, "classification", y, y)


def _by_rows(frame: Frame, options: TableOptions, path: str, notes: list[str]) -> Labelled:
    """Rows for the tail of the loss; groups may be given, without any all rows are one."""
    if options.groups:
        return _by_groups(frame, options, path, notes)
    task, y = _targets(frame, options, path)
    return Labelled(frame, task, y, np.full(y.size, "all rows"))


prepare, prepare_classes, prepare_rows = (partial(_prepared, label) for label in (_by_groups, _by_classes, _by_rows))


def _targets(frame: Frame, options: TableOptions, path: str) -> tuple[str, np.ndarray]:
    """The task, guessed if need be, and the targets (n,)."""
    task = guess_task(frame[options.target]) if options.task == "auto" else options.task
    y = TableEncoding(options.target, task, (), (), ()).targets(frame)[0]
    if task == "classification":
        _check_classes(y, options.target, path)
    elif y.min() == y.max():
        raise ValueError(f"{path}: the target {options.target!r} is {y[0]:g} on every row")
    return task, y


def _checked(read: "Read", options: TableOptions, path: str, notes: list[str]) -> Any:
    """The rows that have a target, of a table that has the columns that are named."""
    require(read.frame, [options.target, *options.groups, *options.categorical, *options.drop])
    _refuse_nested(read.frame, options.drop)
    _refuse_decimal_commas(read.frame, {*options.categorical, *options.drop})
    return _with_target(read.frame, options.target, path, notes)


def _with_target(frame: Frame, target: str, path: str, notes: list[str]) -> Any:
    missing = column(frame[target]).missing
    if missing.all():
        raise ValueError(f"{path}: the target {target!r} has no values")
    if missing.any():
        notes.append(without_target(int(missing.sum())))
        frame = frame[~missing]
    if len(frame) < LEAST_ROWS:
        rows = counted(len(frame), "row", "rows")
        raise ValueError(f"{path} has {rows} with a target, at least {LEAST_ROWS} are needed")
    return frame


def without_target(number: int) -> str:
    """The note that rows are left out."""
    return f"{counted(number, 'row', 'rows')} without a target {'is' if number == 1 else 'are'} left out."


def _refuse_nested(frame: Frame, dropped: tuple[str, ...]) -> None:
    for name in frame:
        if name in dropped or frame[name].dtype.kind != "O":
            continue
        odd = next((value for value in frame[name] if isinstance(value, NESTED)), None)
        if odd is not None:
            raise ValueError(
                f"column {name!r} must hold one value in each row, it holds a {type(odd).__name__}: drop it, or write "
                "its parts into columns of their own"
            )


def _refuse_decimal_commas(frame: Frame, taken_as_they_are: set[str]) -> None:
    for name in frame:
        read = column(frame[name])
        texts = read.known
        if name in taken_as_they_are or read.is_number or not texts.size or not NUMBER_WITH_COMMA.fullmatch(texts[0]):
            continue
        if all(NUMBER_WITH_COMMA.fullmatch(value) for value in texts) and any("," in value for value in texts):
            odd = next(value for value in texts if "," in value)
            raise ValueError(
                f"column {name!r} holds numbers with commas, such as {odd!r}: write decimals with a point and "
                "thousands without a comma, or name the column as categorical"
            )


def _check_classes(y: np.ndarray, target: str, path: str) -> None:
    classes = np.unique(y)
    if classes.size == 1:
        raise ValueError(f"{path}: the target {target!r} holds one class only, {str(classes[0])!r}")
    if classes.size > MOST_CLASSES:
        raise ValueError(
            f"{path}: the target {target!r} holds {classes.size} classes, at most {MOST_CLASSES} are taken; "
            "for a quantity say that the task is regression"
        )


def encoding_notes(encoding: TableEncoding) -> list[str]:
    """What was done to the columns, in sentences."""
    notes = []
    if any(each.described()[0] == "number" for each in encoding.columns):
        notes.append("Numbers are standardised with the mean and standard deviation of the training rows.")
    gaps = [each.name for each in encoding.columns if each.missing]
    if gaps:
        some = ", ".join(map(repr, gaps[:5])) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")
        notes.append(f"Missing values in {some} are marked by an extra column; missing numbers get the median.")
    notes += [f"{name!r} is left out: {why}." for name, why in encoding.left_out]
    return notes


def column_rows(encoding: TableEncoding) -> list[tuple[str, str, str]]:
    """Name, kind and detail of every column, as guessed."""
    rows = [(encoding.target, f"target, {encoding.task}", "")]
    rows += [
        (each.name, "group", f"{len(each.edges) + 1} bins" if each.edges else "")
        for each in encoding.groups
        if each.name != encoding.target
    ]
    for each in encoding.columns:
        missing = f", {each.missing:,} missing" if each.missing else ""
        kind, detail = each.described()
        rows.append((each.name, kind, f"{detail}{missing}"))
    return rows + [(name, "left out", why) for name, why in encoding.left_out]
