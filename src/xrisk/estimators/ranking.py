"""Linear scores for the top of a list."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from xrisk.annotations import Loss, Matrix, Vector
from xrisk.applications import CLASS_LOSSES, p_norm_push, precision_at_k, top_push
from xrisk.applications.arguments import quoted
from xrisk.estimators.base import FITTED, SOLVING, USER, LinearRobust, LinearRobustClassifier, Training, linear_scores
from xrisk.estimators.columns import few_digits
from xrisk.problem import Problem
from xrisk.run import Result
from xrisk.solvers.base import PROVED_ENDINGS

SHARED = (
    f"""    loss : {{{quoted(CLASS_LOSSES)}}} or loss spec
        ℓ(t), of the margin t by which a pair stands in the right order.
    l1, l2 : float
        Strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖².{{strength}} Without any the certificate may not close.
"""
    + SOLVING
    + """
    Attributes
    ----------
    coef_ : ndarray (1, features)
        The score.
    intercept_ : ndarray (1,)
        Minus the threshold of ``predict``. A ranking has none: after the fit it is put where the mean of the error
        rates of the two classes is least on the training rows, in the widest gap between scores if there are several.
    classes_ : ndarray (2,)
        The classes in sorted order; the second is the positive one, which belongs on top.
"""
    + FITTED
)


@dataclass(eq=False, repr=False, kw_only=True)
class RankingClassifier(LinearRobust):
    """A score without intercept, and a threshold chosen after the fit; scores are no probabilities."""

    loss: Loss = "logistic"
    l1: float = 0.0
    l2: float = 1e-3

    fit_intercept: ClassVar[bool] = False
    _is_for_two_classes: ClassVar[bool] = True
    _without_probabilities: ClassVar[str] = "a ranking has no probabilities, only scores: see decision_function"

    def _training(self, X: Matrix, y: Vector, sample_weight: Vector = None) -> Training:
        training = super()._training(X, y, sample_weight)
        if (message := few_digits(training.X)) is not None:
            warnings.warn(message, UserWarning, stacklevel=USER)
        return training

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        model = super()._model(w, training)
        threshold = balanced_threshold(linear_scores(training.X, model["coef_"])[:, 0], training.target)
        return {**model, "intercept_": np.array([-threshold])}

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        if result.stop in PROVED_ENDINGS and not self.coef_.any():
            warnings.warn(
                "the optimum is a score of zero: no linear model ranks the positives above the negatives that this "
                "objective looks at; PNormPushClassifier(p=1) looks at all of them alike",
                stacklevel=USER + 1,
            )


def balanced_threshold(scores: np.ndarray, target: np.ndarray) -> float:
    """Where the mean of both classes' error rates is least: the middle of a gap between scores, the widest of the best.

    Parameters
    ----------
    scores : ndarray (rows,)
        What is cut.
    target : ndarray (rows,)
        −1 and 1; 1 is predicted above the threshold.

    Returns
    -------
    float
        The score itself if all are equal.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.estimators.ranking import balanced_threshold
    >>> balanced_threshold(np.array([0.0, 1.0, 2.0, 5.0]), np.array([-1, 1, -1, 1]))
    3.5
    """
    order = np.argsort(scores)
    low, positive = scores[order], target[order] > 0
    gaps = np.diff(low)
    # of a cut after each score: positives above it that are right, less negatives above it that are wrong
    saved = np.cumsum(~positive) / (~positive).sum() - np.cumsum(positive) / positive.sum()
    saved = np.where(gaps > 0.0, saved[:-1], -np.inf)
    if not (gaps > 0.0).any():
        return float(low[0])
    best = np.flatnonzero(saved >= saved.max() - 1e-12)
    cut = best[np.argmax(gaps[best])]
    return float(low[cut] + 0.5 * gaps[cut])


@dataclass(eq=False, repr=False, kw_only=True)
class PNormPushClassifier(RankingClassifier, LinearRobustClassifier):
    __doc__ = (
        """Linear ranking with few negatives at its top: min over w of mean_i gᵢ(w)^p + r(w), gᵢ = meanⱼ ℓ(sⱼ − sᵢ).

    i runs over the negatives, j over the positives: a negative above many positives has a large gᵢ, and the power
    makes it count more than its share [1]_.

    Parameters
    ----------
    p : float
        At least 1: 1 is the area under the ROC curve, a large one looks at the highest negatives alone.
    outer : {"negatives", "positives"}
        "positives" exchanges the roles: gᵢ is then the mean loss of a positive asavedst the negatives, and the lowest
        positives are pulled up.
"""
        + SHARED.replace("{strength}", "")
        + """
    References
    ----------
    .. [1] Rudin, The p-norm push: a simple convex ranking algorithm that concentrates at the top of the list,
       JMLR 2009.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = np.where(X[:, 0] + rng.standard_normal(200) > 1.5, "rare", "common")
    >>> clf = xrisk.PNormPushClassifier(p=4).fit(X, y == "rare")
    >>> clf.certificate_.relative <= 1e-3
    True
    """
    )

    p: float = field(default=4.0, kw_only=False)
    outer: str = "negatives"
    loss: Loss = "exponential"

    def _problem(self, training: Training) -> Problem:
        return p_norm_push(
            training.X, training.target, p=self.p, outer=self.outer, loss=self._loss(), l1=self.l1, l2=self.l2
        )


@dataclass(eq=False, repr=False, kw_only=True)
class PrecisionAtKClassifier(RankingClassifier, LinearRobustClassifier):
    __doc__ = (
        """Linear ranking with the positives among its first k: min over w of mean_i log(1 + exp(rankᵢ(w) − k)) + r(w).

    i runs over the positives; rankᵢ = Σⱼ ℓ(sᵢ − sⱼ), over all rows, stands for the place of i in the list. Precision
    and recall at k have this one surrogate [1]_, section 2.3. As ℓ is convex, ranks are overestimated: where they are
    far beyond k the objective is the area under the ROC curve, and `PNormPushClassifier` has the better top.

    Parameters
    ----------
    k : int
        Length of the top of the list, at most the number of training rows.
"""
        + SHARED.replace("{strength}", " A rank is a number of rows: so is the right size of l2.")
        + """
    References
    ----------
    .. [1] Wang and Yang, ALEXR: an optimal single-loop algorithm for convex finite-sum coupled compositional
       stochastic optimization.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X[:, 0] + rng.standard_normal(200) > 1.5
    >>> clf = xrisk.PrecisionAtKClassifier(k=10).fit(X, y)
    >>> first = np.argsort(-clf.decision_function(X))[:10]
    >>> bool(y[first].mean() > y.mean())
    True
    """
    )

    k: int = field(default=10, kw_only=False)
    l2: float = 1.0

    def _problem(self, training: Training) -> Problem:
        return precision_at_k(training.X, training.target, k=self.k, loss=self._loss(), l1=self.l1, l2=self.l2)


@dataclass(eq=False, repr=False, kw_only=True)
class TopPushClassifier(RankingClassifier, LinearRobustClassifier):
    __doc__ = (
        """Linear ranking with positives above all negatives: min over w of mean_i ℓ(sᵢ − maxⱼ sⱼ) + r(w).

    i runs over the positives, maxⱼ sⱼ is the score of the highest negative [1]_. One negative that no
    score can put below the positives decides alone, and the optimum may be w = 0, certified but useless: if there are
    such, `PNormPushClassifier` with a moderate p is the better choice. A warm start saves little here: which negatives
    weigh is not known from the coefficients.

    Parameters
    ----------
"""
        + SHARED.replace("{strength}", "")
        + """
    References
    ----------
    .. [1] Li, Jin and Zhou, Top rank optimization in linear time, NIPS 2014.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> y = X[:, 0] + 0.3 * rng.standard_normal(200) > 1.5
    >>> clf = xrisk.TopPushClassifier().fit(X, y)
    >>> clf.certificate_.relative <= 1e-3
    True
    """
    )

    loss: Loss = "squared_hinge"

    def _problem(self, training: Training) -> Problem:
        return top_push(training.X, training.target, loss=self._loss(), l1=self.l1, l2=self.l2)
