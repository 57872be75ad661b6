"""Linear models for many tasks, each judged by its worst group."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from xrisk.annotations import Labels, Loss, Matrix, Outer, Vector
from xrisk.applications import CLASS_LOSSES, multi_task
from xrisk.applications.arguments import quoted
from xrisk.applications.tasks import TaskCells, task_cells, task_slots
from xrisk.data.grouping import BETWEEN, Grouping, encode_groups
from xrisk.estimators.base import FITTED, SOLVING, USER, LinearRobustClassifier, Training
from xrisk.estimators.callbacks import with_callbacks
from xrisk.estimators.groups import (
    TINY_GROUP,
    distribution,
    of_missing,
    of_tiny_groups,
    refuse_weightless,
)
from xrisk.estimators.routing import warn_of_lost_groups
from xrisk.functions import MaxOuter, block_value
from xrisk.inner.oracle import exact_values, inner_count, inner_dim
from xrisk.problem import Problem
from xrisk.run import Result


class TaskTable(NamedTuple):
    """The tasks and groups of the rows, and the groups of each task."""

    tasks: Grouping
    groups: Grouping
    cells: TaskCells

    def names(self) -> list[str]:
        """What the groups of the tasks are called."""
        pairs = zip(self.cells.task, self.cells.group, strict=True)
        return [f"{self.tasks.names[i]}{BETWEEN}{self.groups.names[j]}" for i, j in pairs]

    def rows(self) -> list[np.ndarray]:
        """The rows of each of them."""
        return np.split(self.cells.rows, self.cells.offsets[1:-1])


@dataclass(eq=False, repr=False, kw_only=True)
class MultiTaskGroupDROClassifier(LinearRobustClassifier):
    __doc__ = (
        """One linear classifier for many tasks: min over w of mean_i max_j R_ij(w) + r(w), R_ij the loss of a group.

    R_ij(w) is the mean loss in group j of task i. Every task counts the same, however many rows it has, and is as good
    as its worst group.

    Parameters
    ----------
    outer : {"max", "log-sum-exp"} or outer function spec
        How the risks of the groups of a task are joined: the worst of them, or (1/β) log Σ_j exp(β R_ij), which is
        smooth and at most (log m)/β above the worst of m groups.
    beta : float
        β, for "log-sum-exp".
    loss : str or loss spec
"""
        f"        {quoted(CLASS_LOSSES)}; of more than two classes the logistic one is multinomial."
        """
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖². Without any the certificate may not close.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised (with more than two classes it is, as the coefficients
        are).
"""
        + SOLVING
        + """
    Attributes
    ----------
    coef_, intercept_ : ndarray
        The model.
    tasks_, groups_ : tuples of str
        Names of the tasks and of the groups.
    task_risk_ : ndarray (tasks,)
        The risk of each task: its groups' mean training losses, joined.
    group_risk_ : ndarray (tasks, groups)
        Mean training loss of each group in each task; NaN where the task has no such group.
    group_weights_ : ndarray (tasks, groups)
        The worst-case distribution over the groups of each task.
"""
        + FITTED
        + """
    Notes
    -----
    With "log-sum-exp" and tasks that have unequal numbers of groups, ``objective_`` and the certificate hold a constant
    more than the mean of ``task_risk_`` and the penalty; see `xrisk.applications.multi_task`.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, tasks, groups = rng.standard_normal((400, 3)), np.arange(400) % 2, np.arange(400) % 5
    >>> y = X[:, 0] + np.where(tasks == 0, X[:, 1], X[:, 2]) > 0
    >>> clf = xrisk.MultiTaskGroupDROClassifier().fit(X, y, tasks=tasks, groups=groups)
    >>> clf.task_risk_.shape, clf.group_risk_.shape
    ((2,), (2, 5))
    """
    )

    # tasks and groups go to fit without being asked for: a model that does not see them is another model
    __metadata_request__fit = {"tasks": True, "groups": True}  # noqa: RUF012

    outer: Outer = field(default="max", kw_only=False)
    beta: float = 10.0
    loss: Loss = "logistic"
    l1: float = 0.0
    l2: float = 1e-3
    fit_intercept: bool = True

    _attributes: ClassVar[tuple[str, ...]] = ("tasks_", "groups_")

    @with_callbacks
    def fit(
        self, X: Matrix, y: Vector, tasks: Labels = None, groups: Labels = None, sample_weight: Vector = None
    ) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Targets.
        tasks : array, DataFrame, list of columns or boolean matrix, optional
            The task of each row, in any form that ``groups`` has; without it there is one task.
        groups : array, DataFrame, list of columns or boolean matrix, optional
            The group of each row; of several columns, their intersections; of boolean columns, membership, in which
            groups may overlap. A missing value is a group of its own. Without groups the classes are the groups.
        sample_weight : array (rows,), optional
            Weights of the rows within their groups.

        Returns
        -------
        self
        """
        training = self._training(X, y, sample_weight)
        return self._fitted(training._replace(metadata=self._table(tasks, groups, training)))

    def _table(self, tasks: Labels, groups: Labels, training: Training) -> TaskTable:
        n = training.X.shape[0]
        tasking = _one_task(n) if tasks is None else _encode_tasks(tasks, n)
        grouping = self._default_groups(training.target) if groups is None else encode_groups(groups, n)
        table = TaskTable(tasking, grouping, task_cells(tasking.labels, grouping.labels, n))
        if training.weight is not None:
            refuse_weightless(table.names(), table.rows(), training.weight)
        if tasks is None and groups is None:
            warn_of_lost_groups("there is one task and the classes are its groups", USER)
        for what, known in (("task", tasking), ("group", grouping)):
            if known.missing:
                warnings.warn(of_missing(known.missing, what), stacklevel=USER)
        sizes = np.diff(table.cells.offsets)
        if groups is not None and (sizes < TINY_GROUP).any():
            warnings.warn(of_tiny_groups(table.names(), sizes), stacklevel=USER)
        return table

    def _problem(self, training: Training) -> Problem:
        return multi_task(
            training.X,
            training.target,
            training.metadata.tasks.labels,
            training.metadata.groups.labels,
            outer=self.outer,
            beta=self.beta,
            loss=self._row_loss(),
            l1=self.l1,
            l2=self.l2,
            fit_intercept=self.fit_intercept,
            sample_weight=training.weight,
        )

    def _warm_dual(self, problem: Problem) -> np.ndarray | None:
        """The weights of the last fit, by task; shared by the copies of a group that is repeated."""
        n, m = inner_count(problem.inner), inner_dim(problem.inner)
        if self.group_risk_.shape[0] != n:
            return None
        y = np.zeros((n, m))
        for row, risks, weights in zip(y, self.group_risk_, self.group_weights_, strict=True):
            own = weights[~np.isnan(risks)][:m]
            times = 1 if isinstance(problem.outer, MaxOuter) else m // own.size
            row[: times * own.size] = np.repeat(own / times, times)
        return y

    def _check_shapes(self) -> None:
        super()._check_shapes()
        shape = (len(self.tasks_), len(self.groups_))
        for name in ("group_risk_", "group_weights_"):  # risks are NaN where a task lacks a group
            value = getattr(self, name, None)
            if not isinstance(value, np.ndarray) or value.dtype.kind != "f" or value.shape != shape:
                raise ValueError(f"{name} must be numbers of shape {shape}, got {value!r}")

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        table = training.metadata
        slots = task_slots(table.cells, problem.outer)
        shape = (len(table.tasks.names), len(table.groups.names))
        where = table.cells.task[slots], table.cells.group[slots]
        risks, weights = np.empty(slots.shape), np.zeros(shape)
        exact_values(problem.inner, result.w, risks)
        np.add.at(weights, where, np.array([distribution(row) for row in result.dual]))
        self.tasks_, self.groups_ = table.tasks.names, table.groups.names
        self.group_risk_ = np.full(shape, np.nan)
        self.group_risk_[where] = risks
        self.group_weights_ = weights
        self.task_risk_ = np.array([block_value(problem.outer, row[~np.isnan(row)]) for row in self.group_risk_])


def _one_task(n: int) -> Grouping:
    return Grouping(np.zeros(n, dtype=np.int64), ("all",), 0, ())


def _encode_tasks(tasks: Labels, n: int) -> Grouping:
    try:
        return encode_groups(tasks, n)
    except ValueError as error:
        raise ValueError(str(error).replace("groups", "tasks", 1)) from error
