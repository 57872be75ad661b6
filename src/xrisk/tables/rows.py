"""Rows of a table to train on, and rows to validate on."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Labels, Matrix, Vector
from xrisk.data.grouping import encode_groups
from xrisk.functions.parameters import counted


class Part(NamedTuple):
    """Rows of a table."""

    X: Matrix  # (n, d)
    y: np.ndarray  # (n,)
    groups: np.ndarray  # (n,) names


def parts(X: Matrix, y: Vector, groups: Labels, *, validation: float = 0.25, seed: int | None = 0) -> tuple[Part, Part]:
    """Split a table into training and validation rows, in each group and class by the same share.

    Parameters
    ----------
    X : array or sparse matrix (n, d)
        The rows.
    y, groups : array (n,)
        Targets, and groups as `xrisk.data.grouping.encode_groups` takes them (they must not overlap).
    validation : float in (0, 1)
        The share of the validation rows.
    seed : int, optional
        Of the draw.

    Examples
    --------
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.tables import parts
    >>> table = make_spurious(400, random_state=0)
    >>> [part.y.size for part in parts(table.X, table.y, table.groups)]
    [300, 100]
    """
    y = np.asarray(y)
    names = group_names(groups, y.size)
    train, held_out = split(names, y, validation=validation, seed=seed)
    return Part(X[train], y[train], names[train]), Part(X[held_out], y[held_out], names[held_out])


def group_names(groups: Labels, n: int) -> np.ndarray:
    """The name of the group of each row (n,)."""
    grouping = encode_groups(groups, n)
    if grouping.labels.ndim == 2:
        raise ValueError("groups must not overlap here: give labels, or columns of labels, not membership")
    return np.array(grouping.names, dtype=str)[grouping.labels]


def split(
    names: np.ndarray, y: np.ndarray, *, validation: float, seed: int | None = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the training and of the validation rows, ascending; a group or class of one row is trained on."""
    if not 0.0 < validation < 1.0:
        raise ValueError(f"validation must be between 0 and 1, got {validation!r}")
    rng = np.random.default_rng(seed)
    few = y.dtype.kind not in "f" or np.unique(y).size <= 2
    cells = np.unique(names, return_inverse=True)[1]
    if few:
        classes, codes = np.unique(y, return_inverse=True)
        cells = np.unique(cells * classes.size + codes, return_inverse=True)[1]
    held_out = np.zeros(y.size, dtype=bool)
    for rows in np.split(np.argsort(cells, kind="stable"), np.cumsum(np.bincount(cells))[:-1]):
        taken = min(round(validation * rows.size), rows.size - 1)
        held_out[rng.permutation(rows)[:taken]] = True
    if not held_out.any():
        many = counted(y.size, "row", "rows")
        raise ValueError(f"validation must leave rows to validate on, {validation:g} of {many} in small groups is none")
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
