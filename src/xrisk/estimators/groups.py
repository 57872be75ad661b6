"""Linear models of least worst-group loss."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from xrisk.annotations import Labels, Loss, Matrix, Spec, Vector
from xrisk.applications import CLASS_LOSSES, DIVERGENCES, NUMBER_LOSSES, group_dro
from xrisk.applications.arguments import divergences_that_take, quoted
from xrisk.data.grouping import Grouping, encode_groups
from xrisk.estimators.base import (
    FITTED,
    SOLVING,
    USER,
    LinearRobust,
    LinearRobustClassifier,
    LinearRobustRegressor,
    Training,
)
from xrisk.estimators.callbacks import with_callbacks
from xrisk.estimators.routing import warn_of_lost_groups
from xrisk.functions.parameters import counted
from xrisk.inner.oracle import exact_values, inner_count
from xrisk.problem import Problem
from xrisk.run import Result

TINY_GROUP = 10  # rows; a mean over fewer says little

PARAMETERS = """
    Parameters
    ----------
    divergence : {{words}} or risk spec
        Over which mixtures of the groups the worst case is taken:
{meanings}
    alpha : float
        Fraction of the groups, for {alpha}.
    lam : float
        Strength of the cost, for {lam}; a large one is close to equal weights, a small one to "max".
    loss : str or loss spec
        {loss}
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖². Without any the certificate may not close.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised{intercept}.
{solving}
    Attributes
    ----------
    coef_, intercept_ : ndarray
        The model.
    groups_ : tuple of str
        Names of the groups.
    group_risk_ : ndarray (groups,)
        Mean training loss of each group.
    group_weights_ : ndarray (groups,)
        The worst-case distribution over the groups.
{fitted}"""


def _documented(first: str, loss: str, intercept: str, example: str) -> str:
    """The docstring of an estimator of groups."""
    filled = {
        "words": quoted(DIVERGENCES),
        "meanings": "\n".join(f'        "{word}": {each.meaning};' for word, each in DIVERGENCES.items())[:-1] + ".",
        "alpha": quoted(divergences_that_take("alpha")),
        "lam": quoted(divergences_that_take("lam")),
        "loss": loss,
        "intercept": intercept,
        "solving": SOLVING,
        "fitted": FITTED,
    }
    parameters = PARAMETERS
    for name, text in filled.items():
        parameters = parameters.replace("{" + name + "}", text)
    return f"{first}\n{parameters}{example}"


@dataclass(eq=False, repr=False, kw_only=True)
class GroupRobust(LinearRobust):
    """A model whose inner functions are mean losses of groups of rows; ``training.metadata`` is their `Grouping`."""

    loss: Loss = None
    l1: float = 0.0
    l2: float = 1e-3
    fit_intercept: bool = True

    _attributes: ClassVar[tuple[str, ...]] = ("groups_", "group_risk_", "group_weights_")
    _weights: ClassVar[str] = "group_weights_"
    # groups go to fit without being asked for: a robust model that does not see them is another model
    __metadata_request__fit = {"groups": True}  # noqa: RUF012

    @with_callbacks
    def fit(self, X: Matrix, y: Vector, groups: Labels = None, sample_weight: Vector = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Targets.
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
        return self._fitted(training._replace(metadata=self._grouping(groups, training)))

    def _grouping(self, groups: Labels, training: Training) -> Grouping:
        n, target = training.X.shape[0], training.target
        grouping = self._default_groups(target) if groups is None else narrow(encode_groups(groups, n))
        if training.weight is not None:
            refuse_weightless(grouping.names, grouping.rows(), training.weight)
        if groups is None:
            warn_of_lost_groups(self._without_groups, USER)
            return grouping
        if grouping.missing:
            warnings.warn(of_missing(grouping.missing, "group"), stacklevel=USER)
        if len(grouping.names) == 1:
            warnings.warn("there is a single group: the robust model is the ordinary one", stacklevel=USER)
        sizes = grouping.sizes()
        if (sizes < TINY_GROUP).any() and len(sizes) > 1:
            warnings.warn(of_tiny_groups(grouping.names, sizes), stacklevel=USER)
        return grouping

    def _check_shapes(self) -> None:
        super()._check_shapes()
        for name in ("group_risk_", "group_weights_"):
            if np.shape(getattr(self, name)) != (len(self.groups_),):
                raise ValueError(f"{name} must have a number for each of the groups, got {getattr(self, name)!r}")

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        risks = np.empty((inner_count(problem.inner), 1))
        exact_values(problem.inner, result.w, risks)
        self.groups_ = training.metadata.names
        self.group_risk_ = risks[:, 0]
        self.group_weights_ = distribution(result.dual[:, 0])


def group_problem(self: GroupRobust, training: Training) -> Problem:
    """The problem that a divergence over groups states."""
    return group_dro(
        training.X,
        training.target,
        training.metadata.labels,
        divergence=self.divergence,
        alpha=self.alpha,
        lam=self.lam,
        loss=self._row_loss(),
        l1=self.l1,
        l2=self.l2,
        fit_intercept=self.fit_intercept,
        sample_weight=training.weight,
    )


def narrow(grouping: Grouping) -> Grouping:
    """The grouping with codes of four bytes each; membership stays as it is."""
    labels = grouping.labels
    return grouping if labels.ndim == 2 else grouping._replace(labels=labels.astype(np.int32))


def of_missing(number: int, what: str) -> str:
    """The warning that rows have no group or task."""
    return counted(
        number, f"row has no {what}: it is a {what} of its own", f"rows have no {what}: they are a {what} of their own"
    )


def of_tiny_groups(names: Sequence[str], sizes: np.ndarray) -> str:
    """The warning that some groups have few rows."""
    small, least = int((sizes < TINY_GROUP).sum()), int(sizes.argmin())
    return (
        f"{small} of {counted(sizes.size, 'group', 'groups')} {'has' if small == 1 else 'have'} fewer than "
        f"{TINY_GROUP} rows, the smallest, {names[least]!r}, has {sizes[least]}: "
        f"{'its risk is' if small == 1 else 'their risks are'} uncertain"
    )


def refuse_weightless(names: Sequence[str], groups: Sequence[np.ndarray], weight: np.ndarray) -> None:
    """Raise an error if all rows of a group weigh nothing."""
    for name, rows in zip(names, groups, strict=True):
        if not weight[rows].any():
            raise ValueError(f"sample_weight must be positive somewhere in every group, it is zero in all of {name!r}")


def distribution(dual: np.ndarray) -> np.ndarray:
    """Dual weights (n,) as a distribution; equal ones where all are zero."""
    weights = np.maximum(dual, 0.0)
    return weights / weights.sum() if weights.sum() > 0 else np.full(weights.size, 1.0 / weights.size)


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDROClassifier(GroupRobust, LinearRobustClassifier):
    __doc__ = _documented(
        "Linear classifier of least worst-group loss: min over w of ρ(R₁(w), …, Rₙ(w)) + r(w), Rᵢ a group's mean loss.",
        f"{quoted(CLASS_LOSSES)}; of more than two classes the logistic one is multinomial.",
        " (with more than two classes it is, as the coefficients are)",
        """
    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_spurious
    >>> table = make_spurious(n=400, random_state=0)
    >>> clf = xrisk.GroupDROClassifier(divergence="max").fit(table.X, table.y, groups=table.groups)
    >>> clf.certificate_.relative <= 1e-3
    True
    >>> str(clf.stop_)
    'converged: the gap is within the tolerance'
    """,
    )

    divergence: Spec = field(default="cvar", kw_only=False)
    alpha: float = 0.1
    lam: float = 1.0
    loss: Loss = "logistic"

    _problem = group_problem


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDRORegressor(GroupRobust, LinearRobustRegressor):
    __doc__ = _documented(
        "Linear regression of least worst-group loss: min over w of ρ(R₁(w), …, Rₙ(w)) + r(w), Rᵢ a group's mean loss.",
        f"{quoted(NUMBER_LOSSES)}; the squared one is ½(z−y)².",
        "",
        """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((300, 2)), np.arange(300) % 3
    >>> y = X[:, 0] + (groups == 0) * X[:, 1]
    >>> reg = xrisk.GroupDRORegressor(divergence="max").fit(X, y, groups=groups)
    >>> reg.group_risk_.shape
    (3,)
    """,
    )

    divergence: Spec = field(default="cvar", kw_only=False)
    alpha: float = 0.1
    lam: float = 1.0
    loss: Loss = "squared"

    _problem = group_problem
