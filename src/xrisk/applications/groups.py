"""Worst groups: linear models under a risk over the mean losses of groups."""

from typing import Any

import numpy as np

from xrisk.annotations import Labels, Loss, Matrix, Rows, Spec, Vector
from xrisk.applications.arguments import (
    LOSSES,
    by_name,
    checked_problem,
    penalty_of,
    risk_of,
    row_numbers_of,
    row_weights,
)
from xrisk.data.grouping import distinct, stable_order
from xrisk.data.rows import frozen, row_count, row_numbers
from xrisk.functions import Multinomial
from xrisk.inner import (
    Equal,
    Groups,
    Indexed,
    InOrder,
    LinearModel,
    Partitioned,
    SoftmaxModel,
    Weighted,
    WithIntercept,
    as_rows,
)
from xrisk.problem import Problem


def group_dro(
    X: Matrix,
    y: Vector,
    groups: Labels,
    *,
    divergence: Spec = "cvar",
    alpha: float = 0.1,
    lam: float = 1.0,
    loss: Loss = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    fit_intercept: bool = False,
    sample_weight: Vector = None,
) -> Problem:
    """A linear model of least worst-group loss: ρ(R₁(w), …, Rₙ(w)) + l1‖w‖₁ + (l2/2)‖w‖².

    Parameters
    ----------
    X : array or sparse matrix (rows, d)
        Float32, float64 and memory maps in C order are not copied.
    y : array (rows,)
        −1 and 1 for classification losses, classes 0, …, K−1 for ``"multinomial"``, numbers for regression losses.
    groups : array (rows,) or boolean array (rows, groups)
        A label for each row, or a column of membership for each group; groups may overlap.
    divergence : str or risk spec
        The risk ρ over the groups' mean losses: a word of `xrisk.applications.DIVERGENCES`, which says what each means
        and whether it takes ``alpha`` or ``lam``, or the spec itself.
    alpha : float
        Fraction of the groups.
    lam : float
        Strength of the cost; a large one is close to equal weights, a small one to the maximum.
    loss : str or loss spec
        A word of `xrisk.applications.LOSSES`, or the spec itself.
    l1, l2 : float
        Strengths of the penalty.
    fit_intercept : bool
        Whether the scores get an intercept. It stands last in w and is not penalised; for the multinomial loss it
        stands last among the parameters of each class and is penalised as they are.
    sample_weight : array (rows,), optional
        Weights of the rows within their groups.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> X = np.array([[1.0, 0.0], [-1.0, 0.5], [1.0, 1.0], [-1.0, 2.0]])
    >>> problem = xrisk.group_dro(X, [1, -1, 1, -1], ["a", "a", "b", "b"], divergence="max", l2=0.1)
    >>> round(problem.value(np.zeros(2)), 6)
    0.693147
    """
    rows = as_rows(X)
    spec = by_name("loss", loss, LOSSES)
    risk = risk_of(divergence, alpha=alpha, lam=lam)
    n = row_count(rows)
    offsets, index = group_index(groups, n)
    weight = position_weights(sample_weight, offsets, index, n)
    model_rows: Any = WithIntercept(rows) if fit_intercept else rows
    model = model_of(model_rows, y, spec, n)
    return checked_problem(Groups(model, offsets, index, weight), risk, penalty_of(l1, l2, fit_intercept, spec))


Index = InOrder | Partitioned | Indexed


def group_index(groups: Labels, n: int, name: str = "groups") -> tuple[np.ndarray, Index]:
    """Offsets and positions of groups given as labels (n,) or as boolean membership (n, groups).

    ``name`` is what errors call them.
    """
    if isinstance(groups, np.ma.MaskedArray):
        raise ValueError(f"{name} must not be masked: give the rows that have none a label of their own")
    groups = np.asarray(groups)
    if groups.ndim == 2 and groups.dtype == bool:
        return _membership(groups, n, name)
    if groups.shape != (n,):
        raise ValueError(
            f"{name} must be a label for each of the {n} rows of X, or a boolean matrix, got shape {groups.shape}"
        )
    if groups.dtype.kind not in "iub" and (
        (groups != groups).any() or (groups.dtype == object and any(label is None for label in groups))
    ):
        raise ValueError(f"{name} must not hold NaN or None: give the rows that have none a label of their own")
    try:
        codes = distinct(groups)[1]
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in groups}))
        raise TypeError(f"{name} must hold labels of one kind, got {kinds}") from error
    offsets = frozen(np.concatenate(([0], np.cumsum(np.bincount(codes)))))
    codes = codes.astype(np.int32)
    if (codes[1:] >= codes[:-1]).all():
        return offsets, InOrder()
    return offsets, Partitioned(row_numbers(stable_order(codes, offsets.size - 1), n), frozen(codes))


def _membership(member: np.ndarray, n: int, name: str) -> tuple[np.ndarray, Indexed]:
    if member.shape[0] != n:
        raise ValueError(f"{name} must have one row for each of the {n} rows of X, got shape {member.shape}")
    if not member.any(axis=1).all():
        row = int(np.argmin(member.any(axis=1)))
        raise ValueError(f"every row must belong to a {name[:-1]}, row {row} belongs to none")
    sizes = member.sum(axis=0)
    if (sizes == 0).any():
        one = name[:-1]
        raise ValueError(f"every {one} must hold at least one row, {one} {int(np.argmin(sizes))} is empty")
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return frozen(offsets.astype(np.int64)), Indexed(frozen(np.nonzero(member.T)[1]))


def position_weights(sample_weight: Vector, offsets: np.ndarray, index: Index, n: int) -> Equal | Weighted:
    """Weights of the rows, None for equal ones, as weights by position that average to one in every group."""
    if sample_weight is None:
        return Equal()
    weights = row_weights(sample_weight, n)
    weights = weights if isinstance(index, InOrder) else weights[index.rows]
    largest = np.maximum.reduceat(weights, offsets[:-1])
    if (largest == 0).any():
        raise ValueError(
            f"sample_weight must be positive somewhere in every group, not in group {int(np.argmin(largest))}"
        )
    sizes = np.diff(offsets)
    weights = weights / np.repeat(largest, sizes)  # sums of huge weights would overflow
    weights = weights * np.repeat(sizes / np.add.reduceat(weights, offsets[:-1]), sizes)
    by_row = np.zeros(0)
    if isinstance(index, Partitioned):  # every row stands in one group
        by_row = np.empty(weights.size)
        by_row[index.rows] = weights
    return Weighted(frozen(weights), frozen(by_row))


def model_of(rows: Rows, y: Vector, loss: Loss, n: int) -> LinearModel | SoftmaxModel:
    """The model of n rows with targets y (n,), which are checked."""
    y = row_numbers_of("y", y, n)
    if not np.isfinite(y).all():
        raise ValueError("y must be finite, it holds NaN or infinity")
    if isinstance(loss, Multinomial):
        classes = np.unique(y)
        if not np.array_equal(classes, np.arange(classes.size)) or classes.size < 2:
            raise ValueError(f"y must hold the classes 0, …, K−1, at least two, got {classes[:5]}")
        return SoftmaxModel(rows, frozen(y.astype(np.int64)), int(classes.size), loss)
    return LinearModel(rows, frozen(y.astype(np.float64)), loss)
