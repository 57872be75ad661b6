"""From a table that was read to training and validation rows that a model can use."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.cli.read import Read, Refused
from xrisk.cli.screen import plain
from xrisk.estimators.table import (
    NumberColumn,
    TableEncoding,
    column,
    guess_task,
    learn_encoding,
    learn_groups,
    require,
)
from xrisk.grouping import encode_groups
from xrisk.report import Part
from xrisk.report.study import split

LEAST_ROWS = 10
MOST_CLASSES = 100


class Wish(NamedTuple):
    """What was asked of a table."""

    target: str
    groups: tuple[str, ...]
    task: str  # "auto" for a guess
    categorical: tuple[str, ...]
    drop: tuple[str, ...]
    bands: int
    groups_as_features: bool
    validation: float
    seed: int


class Prepared(NamedTuple):
    """A table ready for `xrisk.report.compare`."""

    encoding: TableEncoding
    train: Part
    validation: Part
    notes: tuple[str, ...]


def prepare(read: Read, wish: Wish, path: str) -> Prepared:
    """Leave out rows without a target, split, learn the encoding from the training rows."""
    frame, notes = read.frame, list(read.notes)
    require(frame, [wish.target, *wish.groups, *wish.categorical, *wish.drop])
    frame = _with_target(frame, wish.target, path, notes)
    task = guess_task(frame[wish.target]) if wish.task == "auto" else wish.task
    y = TableEncoding(wish.target, task, (), (), ()).targets(frame)[0]
    if task == "classification":
        _check_classes(y, wish.target, path)
    elif not wish.groups:
        raise Refused(f"--groups is needed, as the target {wish.target!r} is a number and gives no groups by itself")
    if not wish.groups:
        notes.append("No --groups were given: the classes are the groups.")
    groups = learn_groups(frame, wish.groups or (wish.target,), target=wish.target, bands=wish.bands)
    notes += [f"Numbers in {each.name!r} are cut into {len(each.edges) + 1} bands." for each in groups if each.edges]
    grouping = encode_groups([each.labels(frame[each.name]) for each in groups], len(frame))
    if grouping.missing:
        notes.append(f"{grouping.missing:,} rows have no group in at least one column: there it is called 'missing'.")
    names = np.array(grouping.names, dtype=str)[grouping.labels]
    rows, held_out = _split(names, y, wish)
    encoding = learn_encoding(
        frame.iloc[rows],
        target=wish.target,
        groups=groups,
        task=task,
        categorical=wish.categorical,
        drop=wish.drop,
        groups_as_features=wish.groups_as_features,
    )
    notes += encoding_notes(encoding)
    train, validation = (Part(encoding.encode(frame.iloc[part]), y[part], names[part]) for part in (rows, held_out))
    return Prepared(encoding, train, validation, tuple(notes))


def _split(names: np.ndarray, y: np.ndarray, wish: Wish) -> tuple[np.ndarray, np.ndarray]:
    """Positions of training and validation rows; all are for training where no share is asked for."""
    if wish.validation == 0.0:
        return np.arange(y.size), np.arange(0)
    return split(names, y, validation=wish.validation, seed=wish.seed)


def _with_target(frame: Any, target: str, path: str, notes: list[str]) -> Any:
    missing = column(frame[target]).missing
    if missing.all():
        raise Refused(f"{path}: the target {target!r} has no values")
    if missing.any():
        notes.append(f"{int(missing.sum()):,} rows without a target are left out.")
        frame = frame[~missing].reset_index(drop=True)
    if len(frame) < LEAST_ROWS:
        rows = "1 row" if len(frame) == 1 else f"{len(frame)} rows"
        raise Refused(f"{path} has {rows} with a target, at least {LEAST_ROWS} are needed")
    return frame


def _check_classes(y: np.ndarray, target: str, path: str) -> None:
    classes = np.unique(y)
    if classes.size == 1:
        raise Refused(f"{path}: the target {target!r} holds one class only, {plain(str(classes[0]))!r}")
    if classes.size > MOST_CLASSES:
        raise Refused(
            f"{path}: the target {target!r} holds {classes.size} classes, at most {MOST_CLASSES} are taken; "
            "for a quantity say --task regression"
        )


def encoding_notes(encoding: TableEncoding) -> list[str]:
    """What was done to the columns, in sentences."""
    notes = []
    if any(isinstance(each, NumberColumn) for each in encoding.columns):
        notes.append("Numbers are standardised by their mean and deviation over the training rows.")
    gaps = [each.name for each in encoding.columns if each.missing]
    if gaps:
        some = ", ".join(map(repr, gaps[:5])) + (f" and {len(gaps) - 5} more" if len(gaps) > 5 else "")
        notes.append(f"Missing values in {some} are filled (numbers: the median) and marked by a column of their own.")
    notes += [f"{name!r} is left out: {why}." for name, why in encoding.left_out]
    return notes


def column_rows(encoding: TableEncoding) -> list[tuple[str, str, str]]:
    """Name, kind and detail of every column, as guessed."""
    rows = [(encoding.target, f"target, {encoding.task}", "")]
    rows += [
        (each.name, "group", f"{len(each.edges) + 1} bands" if each.edges else "")
        for each in encoding.groups
        if each.name != encoding.target
    ]
    for each in encoding.columns:
        missing = f", {each.missing:,} missing" if each.missing else ""
        if isinstance(each, NumberColumn):
            rows.append((each.name, "number", f"mean {each.mean:.4g}, deviation {each.scale:.4g}{missing}"))
        else:
            other = f", {each.other} rare ones together" if each.other else ""
            rows.append((each.name, "category", f"{len(each.values)} values{other}{missing}"))
    return rows + [(name, "left out", why) for name, why in encoding.left_out]
