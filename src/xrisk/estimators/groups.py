"""Linear models of least worst-group loss."""

from typing import Any

import numpy as np

from xrisk.applications import group_dro
from xrisk.estimators.base import LinearRobustClassifier, LinearRobustRegressor
from xrisk.grouping import Grouping
from xrisk.persistence import savable
from xrisk.problem import Problem

PARAMETERS = """
    Parameters
    ----------
    divergence : {"cvar", "chi2", "chi2-b", "kl", "max"} or risk spec
        Over which mixtures of the groups the worst case is taken. "cvar": any group may weigh up to 1/(alpha·groups),
        the mean of the worst fraction ``alpha`` of the groups; "max": the worst group alone; "chi2", "kl": all
        mixtures, those far from equal weights at a cost of strength ``lam``.
    alpha : float
        Fraction of the groups, for "cvar".
    lam : float
        Strength of the cost, for "chi2" and "kl"; a large one is close to equal weights, a small one to "max".
    loss : str or loss spec
        {loss}
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖². Without any the certificate may not close.
    fit_intercept : bool
        Whether to fit an intercept, which is not penalised{intercept}.
    solver : "auto" or solver spec
        "auto" needs no step size and stops on the certificate; a spec such as ``ALEXR()`` runs for ``max_iter``.
    tol : float
        Certified relative gap at which "auto" stops.
    max_iter : int
        Limit on iterations.
    max_seconds : float, optional
        Limit on the time of the fit.
    warm_start : bool
        Whether to start from the last fit.
    random_state : int, RandomState or None
        The seed.
    verbose : int
        1 for a progress bar (needs tqdm).

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
    certificate_ : Certificate
        The optimum of the training objective lies between ``dual`` and ``primal``.
    objective_ : float
        The training objective.
    trace_ : tuple of AutoPoint
        The bounds against time.
    stop_ : Stop
        Why the fit ended; ``str(stop_)`` is a sentence.
    n_iter_ : int
        Iterations done.
"""


@savable
class GroupDROClassifier(LinearRobustClassifier):
    __doc__ = (
        """Linear classifier of least worst-group loss: min over w of ρ(R₁(w), …, Rₙ(w)) + r(w), Rᵢ a group's mean loss.
"""
        + PARAMETERS.replace(
            "{loss}",
            '"logistic" (multinomial for more than two classes), "hinge", "squared_hinge", "smoothed_hinge" or '
            '"exponential".',
        ).replace("{intercept}", " (with more than two classes it is, as the coefficients are)")
        + """
    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_spurious
    >>> table = make_spurious(n=400, random_state=0)
    >>> clf = xrisk.GroupDROClassifier(divergence="max").fit(table.X, table.y, groups=table.groups)
    >>> clf.certificate_.relative <= 1e-3
    True
    >>> str(clf.stop_)
    'what the run was to reach is reached'
    """
    )

    def __init__(
        self,
        divergence: Any = "cvar",
        *,
        alpha: float = 0.1,
        lam: float = 1.0,
        loss: Any = "logistic",
        l1: float = 0.0,
        l2: float = 1e-3,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1_000_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.divergence = divergence
        self.alpha = alpha
        self.lam = lam
        self.loss = loss
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, X: Any, target: np.ndarray, grouping: Grouping, weight: np.ndarray | None) -> Problem:
        return _group_problem(self, X, target, self._class_loss(), grouping, weight)


@savable
class GroupDRORegressor(LinearRobustRegressor):
    __doc__ = (
        """Linear regression of least worst-group loss: min over w of ρ(R₁(w), …, Rₙ(w)) + r(w), Rᵢ a group's mean loss.
"""
        + PARAMETERS.replace("{loss}", '"squared" (½(z−y)²), "huber", "absolute", "pinball".').replace(
            "{intercept}", ""
        )
        + """
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
    """
    )

    def __init__(
        self,
        divergence: Any = "cvar",
        *,
        alpha: float = 0.1,
        lam: float = 1.0,
        loss: Any = "squared",
        l1: float = 0.0,
        l2: float = 1e-3,
        fit_intercept: bool = True,
        solver: Any = "auto",
        tol: float = 1e-3,
        max_iter: int = 1_000_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.divergence = divergence
        self.alpha = alpha
        self.lam = lam
        self.loss = loss
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _problem(self, X: Any, target: np.ndarray, grouping: Grouping, weight: np.ndarray | None) -> Problem:
        return _group_problem(self, X, target, self._loss(), grouping, weight)


def _group_problem(
    estimator: Any, X: Any, target: np.ndarray, loss: Any, grouping: Grouping, weight: np.ndarray | None
) -> Problem:
    return group_dro(
        X,
        target,
        grouping.labels,
        divergence=estimator.divergence,
        alpha=estimator.alpha,
        lam=estimator.lam,
        loss=loss,
        l1=estimator.l1,
        l2=estimator.l2,
        fit_intercept=estimator.fit_intercept,
        sample_weight=weight,
    )
