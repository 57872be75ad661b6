"""Many tasks, each with its own groups: linear models of least mean worst-group loss over the tasks."""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Labels, Loss, Matrix, Outer, Vector
from xrisk.applications.arguments import LOSSES, as_number, by_name, checked_problem, penalty_of
from xrisk.applications.groups import group_index, model_of, position_weights
from xrisk.data.rows import frozen, row_count
from xrisk.functions import LogSumExp, MaxOuter
from xrisk.inner import Groups, Indexed, WithIntercept, as_rows
from xrisk.problem import Problem

MOST_SLOTS = 128  # groups of a task, repeated ones counted, up to which log-sum-exp is checked_problem


class TaskCells(NamedTuple):
    """The groups of every task that hold a row, task after task."""

    task: np.ndarray  # (cells,) the task
    group: np.ndarray  # (cells,) the group within all groups
    offsets: np.ndarray  # (cells + 1,) the rows of cell c are rows[offsets[c]:offsets[c + 1]]
    rows: np.ndarray


def multi_task(
    X: Matrix,
    y: Vector,
    tasks: Labels,
    groups: Labels,
    *,
    outer: Outer = "max",
    beta: float = 10.0,
    loss: Loss = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
    sample_weight: Vector = None,
) -> Problem:
    """A linear model for many tasks: mean_i max_j R_ij(w) + l1‖w‖₁ + (l2/2)‖w‖², R_ij the loss in group j of task i.

    Parameters
    ----------
    X, y, loss, l1, l2, fit_intercept, sample_weight
        As for `xrisk.group_dro`.
    tasks, groups : array (rows,) or boolean array (rows, tasks or groups)
        A label for each row, or a column of membership for each task or group. The groups of a task are those that
        hold one of its rows.
    outer : {"max", "log-sum-exp"}
        How the risks of the groups of a task are joined: their maximum, or (1/β) log Σ_j exp(β R_ij), which is at
        most (log m)/β above that of m groups.
    beta : float
        β, for "log-sum-exp".

    Returns
    -------
    Problem
        The m components of block i are the groups of task i.

    Notes
    -----
    All blocks have equally many components. Under the maximum, a task with fewer groups repeats its smallest one,
    which does not change the maximum. Under log-sum-exp repeated groups count, so every group of a task is repeated
    equally often: with M the least common multiple of the numbers of groups, a task of m groups has each of them M/m
    times. This only adds the constant log(M/m)/β to the term of the task. If M is above 128, the problem is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import multi_task
    >>> X = np.array([[1.0], [2.0], [-1.0], [3.0]])
    >>> problem = multi_task(X, [1, 1, -1, -1], ["s", "s", "s", "t"], ["a", "b", "b", "a"], loss="hinge")
    >>> problem.value(np.array([0.5]))  # (max(½, ¼) + 2.5)/2
    1.5
    """
    rows = as_rows(X)
    n = row_count(rows)
    spec = by_name("loss", loss, LOSSES)
    joins = {"max": MaxOuter(), "log-sum-exp": LogSumExp(as_number("beta", beta))}
    join = by_name("outer", outer, joins)
    cells = task_cells(tasks, groups, n)
    slots = task_slots(cells, join)
    offsets, index = _positions(cells, slots)
    weight = position_weights(sample_weight, offsets, index, n)
    model_rows: Any = WithIntercept(rows) if fit_intercept else rows
    inner = Groups(model_of(model_rows, y, spec, n), offsets, index, weight, slots.shape[1])
    return checked_problem(inner, join, penalty_of(l1, l2, fit_intercept, spec))


def task_cells(tasks: Labels, groups: Labels, n: int) -> TaskCells:
    """The rows of every task in every group, given as `multi_task` takes them."""
    task_rows, task_codes = _entries(*group_index(tasks, n, "tasks"))
    group_rows, group_codes = _entries(*group_index(groups, n))
    counts = np.bincount(group_rows, minlength=n)  # groups of each row
    first = np.concatenate(([0], np.cumsum(counts)[:-1]))
    times = counts[task_rows]
    rows = np.repeat(task_rows, times)
    turn = np.arange(rows.size) - np.repeat(np.cumsum(times) - times, times)
    count = int(group_codes.max()) + 1
    codes = np.repeat(task_codes, times) * count + group_codes[first[rows] + turn]
    cells, sizes = np.unique(codes, return_counts=True)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return TaskCells(cells // count, cells % count, offsets, rows[np.argsort(codes, kind="stable")])


def _entries(offsets: np.ndarray, index: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows in ascending order, a row as often as it belongs to a group, and the groups."""
    codes = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    rows = getattr(index, "rows", np.arange(codes.size))
    order = np.argsort(rows, kind="stable")
    return rows[order], codes[order]


def task_slots(cells: TaskCells, join: Any) -> np.ndarray:
    """The cells that make the blocks (tasks, m), some of them repeated."""
    sizes = np.diff(cells.offsets)
    own = np.split(np.arange(cells.task.size), np.flatnonzero(np.diff(cells.task)) + 1)
    counts = [len(each) for each in own]
    if isinstance(join, MaxOuter) or len(set(counts)) == 1:
        spare = [np.full(max(counts) - len(each), each[sizes[each].argmin()]) for each in own]
        return np.array([np.concatenate(both) for both in zip(own, spare, strict=True)])
    most, numbers = math.lcm(*counts), ", ".join(str(count) for count in sorted(set(counts)))
    if not isinstance(join, LogSumExp):
        raise ValueError(f"outer must be 'max' or 'log-sum-exp' for tasks of {numbers} groups, got {join!r}")
    if most > MOST_SLOTS:
        raise ValueError(
            f"outer must be 'max' for tasks of {numbers} groups: 'log-sum-exp' would have them repeated until "
            f"every task has {most}, more than {MOST_SLOTS}"
        )
    return np.array([np.repeat(each, most // len(each)) for each in own])


def _positions(cells: TaskCells, slots: np.ndarray) -> tuple[np.ndarray, Indexed]:
    places = slots.reshape(-1)
    offsets = np.concatenate(([0], np.cumsum(np.diff(cells.offsets)[places])))
    rows = np.concatenate([cells.rows[cells.offsets[c] : cells.offsets[c + 1]] for c in places])
    return frozen(offsets), Indexed(frozen(rows))
