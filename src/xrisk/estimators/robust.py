"""Logistic regression on rows that are randomly perturbed."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from xrisk.annotations import Spec
from xrisk.applications import averaged_logistic, robust_logistic
from xrisk.applications.arguments import as_number
from xrisk.estimators.base import FITTED, SOLVING, LinearRobustClassifier, Training
from xrisk.functions.parameters import require
from xrisk.inner import Dropout, Gaussian
from xrisk.problem import Problem

NOISES: dict[str, Any] = {"gaussian": (Gaussian, np.inf), "dropout": (Dropout, 1.0)}  # and what the scale is below


@dataclass(eq=False, repr=False, kw_only=True)
class RobustLogisticRegression(LinearRobustClassifier):
    __doc__ = (
        """Linear classifier of perturbed rows: min over w of mean_i log(1 + exp(−yᵢ E[𝒜(xᵢ)ᵀ w])) + r(w), two classes.

    The expectation over the perturbations 𝒜 stands inside the loss. Gaussian noise and (rescaled) dropout leave the
    mean of a row as it is: the objective, and with ``solver="auto"`` the model, are then those of ordinary logistic
    regression, and only a sampled solver sees a difference. A function with another mean, such as crops, masks or
    corruptions, gives another model: the one that is right on average for the rows as they will be seen.

    Parameters
    ----------
    perturbation : {"gaussian", "dropout"}, function (row, rng) → row, or perturbation spec
        "gaussian": x + scale·ξ, ξ standard normal; "dropout": every entry 0 with probability ``scale``, the others
        divided by 1 − ``scale``. A function gets a row (d,) of its own and a NumPy Generator and returns the
        perturbed row; a model with a function cannot be saved by `xrisk.save`.
    scale : float
        Standard deviation of "gaussian", rate of "dropout".
    copies : int
        Of a function, perturbed copies of each row that are drawn, once; their mean stands for the expectation. For a
        solver that samples they are kept, which takes ``copies`` times the memory of the data; "auto" keeps the means.
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖². Without any the certificate may not close.
    fit_intercept : bool
        Whether to fit an intercept, which is neither penalised nor perturbed.
"""
        + SOLVING
        + """
    Attributes
    ----------
    coef_, intercept_ : ndarray
        The model.
    classes_ : ndarray
        The two labels; the second is the positive one.
"""
        + FITTED
        + """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    >>> def lose_the_first(row, rng):
    ...     row[0] *= rng.random() < 0.2  # seen one time in five
    ...     return row
    >>> clf = xrisk.RobustLogisticRegression(lose_the_first, l2=0.1, random_state=0).fit(X, y)
    >>> clf.certificate_.relative <= 1e-3
    True
    >>> bool(clf.coef_[0, 0] < clf.coef_[0, 1])
    True
    """
    )

    loss = "logistic"  # no parameter: there are probabilities
    _is_for_two_classes: ClassVar[bool] = True

    perturbation: Spec = field(default="gaussian", kw_only=False)
    scale: float = 0.1
    copies: int = 10
    l1: float = 0.0
    l2: float = 1e-3
    fit_intercept: bool = True

    def _problem(self, training: Training) -> Problem:
        # "auto" looks at all rows, and has the expectation taken first; a solver of one's own samples
        state = averaged_logistic if isinstance(self.solver, str) else robust_logistic
        return state(
            training.X,
            training.target,
            perturbation=self._noise(),
            copies=self.copies,
            rng=self._generator(),
            l1=self.l1,
            l2=self.l2,
            fit_intercept=self.fit_intercept,
        )

    def _noise(self) -> Any:
        if not isinstance(self.perturbation, str) or self.perturbation not in NOISES:
            return self.perturbation
        noise, end = NOISES[self.perturbation]
        scale = as_number("scale", self.scale)
        require(0.0 <= scale < end, "scale", self.scale, f"at least 0 and below {end} for {self.perturbation!r}")
        return noise(scale)
