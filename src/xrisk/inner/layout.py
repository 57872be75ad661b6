"""How the rows of groups are laid out, and what each of them weighs."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.generic import generic


@generic
def row_at(index, p):
    """Row at position p, positions counted group after group."""


@generic
def weight_at(weight, p):
    """Weight of position p; weights average to one in every group."""


@generic
def check_index(index, groups, rows):
    """Refuse an index that does not go with the group (positions,) of every position and the number of rows."""


@generic
def check_weight(weight, index, positions):
    """Refuse weights that do not go with an index of so many positions."""


@generic
def pooled_index(index):
    """The index of all rows as one group."""


class InOrder(NamedTuple):
    """The rows of a group stand together, groups one after another."""


class Indexed(NamedTuple):
    """The rows of a group are listed, so a row may stand in several groups and X is left as it is."""

    rows: np.ndarray = np.zeros(0, dtype=np.int64)


class Partitioned(NamedTuple):
    """The rows of a group are listed, every row once; X is left as it is."""

    rows: np.ndarray = np.zeros(0, dtype=np.int32)  # (rows,) group after group
    codes: np.ndarray = np.zeros(0, dtype=np.int32)  # (rows,) the group of every row


class Equal(NamedTuple):
    """Every row weighs one."""


class Weighted(NamedTuple):
    """Weights by position, and again by row where every row stands in one group."""

    weights: np.ndarray = np.zeros(0)
    by_row: np.ndarray = np.zeros(0)


@check_index.of(InOrder)
def _(index: InOrder, groups: np.ndarray, rows: int) -> None:
    if groups.size != rows:
        raise ValueError(f"offsets must end at the number of rows, {rows}, got {groups.size}")


@check_index.of(Indexed)
def _(index: Indexed, groups: np.ndarray, rows: int) -> None:
    if index.rows.size != groups.size or index.rows.min() < 0 or index.rows.max() >= rows:
        raise ValueError(f"index must list {groups.size} rows between 0 and {rows - 1}")


@check_index.of(Partitioned)
def _(index: Partitioned, groups: np.ndarray, rows: int) -> None:
    check_index(Indexed(index.rows), groups, rows)
    if not (groups.size == index.codes.size == rows and np.array_equal(index.codes[index.rows], groups)):
        raise ValueError("index must list every row once, and codes must name the groups of the rows")


@check_weight.of(Equal)
def _(weight: Equal, index: Any, positions: int) -> None:
    pass


@check_weight.of(Weighted)
def _(weight: Weighted, index: Any, positions: int) -> None:
    weights = weight.weights
    if weights.shape != (positions,) or not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("weights must be finite and non-negative, one for each position")
    check_weight_by_row(index, weight)


@generic
def check_weight_by_row(index, weight):
    """Refuse weights by row that are not those by position."""


check_weight_by_row.otherwise(lambda index, weight: None)


@check_weight_by_row.of(Partitioned)
def _(index: Partitioned, weight: Weighted) -> None:
    if not (weight.by_row.size == index.codes.size and np.array_equal(weight.by_row[index.rows], weight.weights)):
        raise ValueError("weights must be the same by row as by position")


row_at.of(InOrder)(lambda index, p: p)


@row_at.of(Partitioned)
@row_at.of(Indexed)
def _(index, p):
    return index.rows[p]


weight_at.of(Equal)(lambda weight, p: 1.0)
weight_at.of(Weighted)(lambda weight, p: weight.weights[p])
pooled_index.otherwise(lambda index: index)


@pooled_index.of(Partitioned)
def _(index):
    return Partitioned(index.rows, np.zeros_like(index.codes))
