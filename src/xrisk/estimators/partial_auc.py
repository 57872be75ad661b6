"""Linear scores for rare positives: the corner of the ROC curve that matters."""

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from xrisk.annotations import Matrix, Vector
from xrisk.applications import two_way_partial_auc
from xrisk.applications.arguments import as_number
from xrisk.certificate import NOTHING_PROVED
from xrisk.data.products import row_scores
from xrisk.data.rows import as_rows
from xrisk.estimators.anchored import (
    STEPS,
    Choices,
    Rates,
    choose_start,
    descended,
    scores_of,
    start_model,
    table_of,
)
from xrisk.estimators.base import FITTED, SOLVING, USER, LinearRobust, LinearRobustClassifier, Training
from xrisk.estimators.calibration import kept_curve, log_odds, units_of
from xrisk.estimators.callbacks import StepBar, listening, with_callbacks
from xrisk.estimators.columns import check_columns, few_digits
from xrisk.estimators.proving import stop_of
from xrisk.functions.parameters import require
from xrisk.inner.sigmoid_pairs import pairs_in_order
from xrisk.problem import Problem
from xrisk.run import Result, Runs, Stop
from xrisk.solvers.base import BOUNDED_ENDINGS

COLLAPSE = (
    "the optimum of the convex surrogate is a score of almost zero: the hard pairs cannot be separated on average, and "
    "the model is of no use; surrogate='sigmoid' or a wider range of rates would give one"
)
MAJORITY = (
    "the positive class is {!r}, {:.3g} % of the rows: of two labels the second in sorted order is the positive one, "
    "and y == {!r} in place of y makes it the other one"
)
SHORT = {  # what would help a descent that was cut short
    Stop.INTERRUPTED: "fit again with warm_start=True to go on from here",
    Stop.SECONDS: "a larger max_seconds would go on",
    Stop.ITERATIONS: "a larger max_iter would go on",
}
COMMON = 0.75  # a share of positives that are hardly meant to be rare
COLLAPSED = 0.02  # spread of scores, of which a margin is one, that is none

SHARED = (
    """    surrogate : {"sigmoid", "convex", "squared_hinge", "hinge", "logistic"}
        What stands for the wrong order of a pair. "sigmoid" is bounded: a pair that cannot be put right costs no more
        than one. It is started from a logistic model and anchored there, improves the partial AUC of the training
        rows, and proves nothing. The others are convex, and the fit is certified; "convex" is "squared_hinge". Where
        the hard pairs cannot be separated on average their optimum is a score of zero, and the fit warns.
    anchor : float, optional
        Of "sigmoid", the strength that holds it to its start; by default chosen by cross-validation, the start itself
        among the choices.
    start : {"logistic", "balanced"}, optional
        Of "sigmoid", the model to start from, of the rows or of classes that count the same; by default chosen by
        cross-validation.
    l1, l2 : float
        Of convex surrogates, strengths of the penalty l1‖w‖₁ + (l2/2)‖w‖²; l2 is positive for ``solver="auto"``.
"""
    + SOLVING
    + """
    Attributes
    ----------
    coef_, intercept_ : ndarray
        The score as log-odds: ``surrogate_coef_`` times a positive number, and shifted. ``predict_proba`` is the
        logistic function of it, fitted to scores of rows that were held out in cross-validation where there was one,
        else to those of the training rows, of at most 40,000 of each class. Scores of different folds are compared in
        units of the negatives that each was fitted to.
    surrogate_coef_ : ndarray (features,)
        The weights w that minimise the surrogate, to the last digit: those of ``certificate_`` and ``objective_``.
    threshold_ : float
        Scores above it are predicted positive; 0, a probability of one half, unless `set_threshold` is called.
    anchor_, start_ : float, str
        What "sigmoid" was anchored by, inf for the start itself, and started from.
    start_score_, training_score_ : float
        Partial AUC of the training rows at the start and of the model; NaN at the start of a convex surrogate.
    roc_fpr_, roc_tpr_, roc_thresholds_ : ndarray
        The ROC curve of the rows that were held out, else of the training rows; of many rows at most some 2,000
        points of it, close to each other where either rate is near 0 or 1. Scores above a threshold have these rates
        exactly.
    classes_ : ndarray (2,)
        The classes in sorted order; the second is the positive one.
"""
    + FITTED
)


@dataclass(eq=False, repr=False, kw_only=True)
class RegionClassifier(LinearRobust):
    """A score for the pairs between two rates, with probabilities and thresholds."""

    surrogate: str = "sigmoid"
    anchor: float | None = None
    start: str | None = None
    l1: float = 0.0
    l2: float = 1e-3
    tol: float = 1e-2

    loss = "logistic"  # no parameter: there are probabilities
    fit_intercept: ClassVar[bool] = False
    _is_for_two_classes: ClassVar[bool] = True
    _attributes: ClassVar[tuple[str, ...]] = (
        "surrogate_coef_", "roc_fpr_", "roc_tpr_", "roc_thresholds_", "threshold_",
    )  # fmt: skip

    @with_callbacks
    def fit(self, X: Matrix, y: Vector) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array, DataFrame or sparse matrix (rows, features)
            Float32, float64 and memory maps in C order are not copied.
        y : array (rows,)
            Labels of two classes, the second in sorted order the positive one.

        Returns
        -------
        self
        """
        training = self._training(X, y)
        self._check_surrogate()
        check_columns(training.X)
        if (message := few_digits(training.X)) is not None:
            warnings.warn(message, UserWarning, stacklevel=USER - 1)
        share = float((training.target > 0).mean())
        if share > COMMON and self.classes_.dtype.kind not in "biuf":  # of numbers it is clear which
            rare, common = self.classes_.tolist()
            warnings.warn(MAJORITY.format(common, 100.0 * share, rare), UserWarning, stacklevel=USER - 1)
        self.threshold_ = 0.0
        return self._descended(training) if self.surrogate == "sigmoid" else self._fitted(training)

    def _rates(self) -> Rates:
        return Rates(self.min_tpr, getattr(self, "max_fpr", 1.0))

    def _check_surrogate(self) -> None:
        if self.surrogate == "sigmoid" and not isinstance(self.solver, str):
            raise ValueError(f"solver must be 'auto' for surrogate='sigmoid', got {self.solver!r}")
        if self.surrogate != "sigmoid" and isinstance(self.solver, str):
            require(as_number("l2", self.l2) > 0.0, "l2", self.l2, f"positive for surrogate={self.surrogate!r}")

    def _problem(self, training: Training) -> Problem:
        loss = "squared_hinge" if self.surrogate in ("sigmoid", "convex") else self.surrogate
        low, high = self._rates()
        return two_way_partial_auc(
            training.X, training.target, min_tpr=low, max_fpr=high, loss=loss, l1=self.l1, l2=self.l2
        )

    def _descended(self, training: Training) -> Any:
        """Fit the bounded surrogate: choose its start and anchor, descend, and keep the better of start and end."""
        self._problem(training)  # says what is wrong with the rates
        steps, table = min(STEPS, self.max_iter), table_of(training.X, training.target)
        choices = Choices(self._rates(), self.start, self.anchor)
        with listening(self, training, lambda: StepBar(steps)) as listeners, Runs(self.max_seconds) as runs:
            pairs = table.pairs(choices.rates)
            chosen = choose_start(table, choices, self._generator(), runs, listeners)
            w0 = start_model(table, chosen.start, runs)
            anchor, most = (0.0, 0) if chosen.anchor == np.inf or runs.over() else (chosen.anchor, steps)
            found = descended(pairs, w0, anchor, runs, most, listeners, self._begin(training, w0) if most else w0)
            self.start_, self.anchor_, self.start_score_ = chosen.start, float(chosen.anchor), found.start_score
            self.stop_ = self._ending(found.result) if most else runs.over() or Stop.KEPT
            self.certificate_, self.trace_ = NOTHING_PROVED, tuple(found.result.trace.points)
            self.n_iter_, self.objective_ = max(1, found.result.progress.iterations), found.value
            self._finish(found.w, training, chosen.scores, found.score)
            if self.stop_ not in BOUNDED_ENDINGS:
                warnings.warn(f"{self.stop_}; {SHORT[self.stop_]}", ConvergenceWarning, stacklevel=USER)
        return self

    def _ending(self, result: Result) -> Stop:
        """Why a descent ended; its limit of steps is ours, unless that of the user is smaller."""
        stop = stop_of(result)
        return Stop.EARLY if stop is Stop.ITERATIONS and self.max_iter >= STEPS else stop

    def _begin(self, training: Training, w0: np.ndarray) -> np.ndarray:
        """Where the descent begins: at the model of the last fit, if that is asked for and of the right size."""
        if not (self.warm_start and hasattr(self, "coef_") and self.coef_.size == w0.size and self.coef_.any()):
            return w0
        w = self.coef_[0].astype(np.float64)
        spreads = [float(np.std(scores_of(training.X, each))) for each in (w0, w)]
        return w * (spreads[0] / spreads[1]) if min(spreads) > 0.0 else w0

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        self.start_, self.anchor_, self.start_score_ = "none", np.inf, np.nan
        score = pairs_in_order(table_of(training.X, training.target).pairs(self._rates()), result.w)
        self._finish(result.w, training, np.full(training.target.size, np.nan), score)
        if result.stop is Stop.CONVERGED and float(np.std(scores_of(training.X, result.w))) < COLLAPSED:
            warnings.warn(COLLAPSE, UserWarning, stacklevel=USER + 1)

    def _finish(self, w: np.ndarray, training: Training, held_out: np.ndarray, score: float) -> None:
        """Keep the score as log-odds, the curve that thresholds are chosen from, and the partial AUC."""
        own = scores_of(training.X, w)
        units, known = units_of(own, training.target), np.isfinite(held_out)
        scores, target = units.of(own), training.target
        if known.any():
            scores, target = held_out[known], target[known]
        slope, shift = log_odds(scores, target, float((training.target > 0).mean()))
        self.surrogate_coef_ = w.copy()
        self.coef_ = (slope / units.unit * w)[None, :]
        self.intercept_ = np.array([shift - slope * units.zero / units.unit])
        scores = slope * scores + shift if known.any() else self._scores_of(training.X)[:, 0]
        self.roc_fpr_, self.roc_tpr_, self.roc_thresholds_ = kept_curve(target > 0, scores)
        self.training_score_ = score

    def _packed(self) -> np.ndarray:
        return self.surrogate_coef_

    def _model(self, w: np.ndarray, training: Training) -> dict[str, Any]:
        return {"coef_": w.copy()[None, :], "intercept_": np.zeros(1)}

    def set_threshold(self, *, max_fpr: float | None = None, min_tpr: float | None = None) -> Any:
        """Choose the threshold of ``predict`` by a budget, on the ROC curve of the fit.

        Parameters
        ----------
        max_fpr : float, optional
            The most false alarms, as a share of the negatives: of the thresholds within it the one of most hits, and
            the lowest of those while positives are missed. On the rows of the curve the share is never exceeded.
        min_tpr : float, optional
            The least hits, as a share of the positives: of the thresholds that reach it the one of fewest false alarms.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if (max_fpr is None) == (min_tpr is None):
            raise ValueError("set_threshold must be given max_fpr or min_tpr, one of the two")
        name, value = ("max_fpr", max_fpr) if min_tpr is None else ("min_tpr", min_tpr)
        share = as_number(name, value)
        require(0.0 <= share <= 1.0, name, value, "between 0 and 1")
        fpr, tpr = self.roc_fpr_, self.roc_tpr_
        if min_tpr is None:
            within = fpr <= share + 1e-12
            best = np.flatnonzero(within & (tpr == tpr[within].max()))
            place = int(best[0 if tpr[best[0]] == 1.0 else -1])  # the rest of a budget may find more in other rows
        else:
            place = int(np.flatnonzero(tpr >= share - 1e-12)[0])
        self.threshold_ = float(self.roc_thresholds_[place])
        return self

    def _scores_of(self, X: Matrix) -> np.ndarray:
        """Log-odds whose bits do not depend on the rows beside: a threshold of the curve is the score of a row."""
        return row_scores(as_rows(X), self.coef_) + self.intercept_

    def predict(self, X: Matrix) -> np.ndarray:
        """The class of each row: positive where the score is above ``threshold_``."""
        scores = self.decision_function(X)
        return self.classes_[(scores > self.threshold_).astype(int)]

    def _check_shapes(self) -> None:
        super()._check_shapes()
        if self.surrogate_coef_.shape != (self.n_features_in_,):
            raise ValueError(
                f"surrogate_coef_ must have {self.n_features_in_} numbers, got shape {self.surrogate_coef_.shape}"
            )
        shapes = {np.shape(curve) for curve in (self.roc_fpr_, self.roc_tpr_, self.roc_thresholds_)}
        if len(shapes) > 1 or shapes & {(), (0,)} or self.roc_fpr_.ndim != 1:
            raise ValueError(f"roc_fpr_, roc_tpr_ and roc_thresholds_ must be three lists of one length, got {shapes}")
        rates = np.stack([self.roc_fpr_, self.roc_tpr_])
        if (rates < 0.0).any() or (rates > 1.0).any() or self.roc_fpr_.min() > 0.0 or self.roc_tpr_.max() < 1.0:
            raise ValueError("roc_fpr_ and roc_tpr_ must be rates of a ROC curve, from 0 to 1")


@dataclass(eq=False, repr=False, kw_only=True)
class TwoWayPartialAUCClassifier(RegionClassifier, LinearRobustClassifier):
    __doc__ = (
        """Linear score for rare positives: the pairs of the lowest positives and the highest negatives in order.

    Of the positives the share 1 − min_tpr of lowest score counts, of the negatives the share max_fpr of highest: the
    part of the ROC curve where the true positive rate is at least min_tpr and the false positive rate at most max_fpr.

    Parameters
    ----------
    min_tpr : float
        In [0, 1): true positive rates below it do not count.
    max_fpr : float
        In (0, 1]: false positive rates above it do not count.
"""
        + SHARED
        + """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 4))
    >>> y = X[:, 0] + X[:, 1] + rng.standard_normal(500) > 2.0
    >>> clf = xrisk.TwoWayPartialAUCClassifier(min_tpr=0.5, max_fpr=0.3, random_state=0).fit(X, y)
    >>> clf.training_score_ >= clf.start_score_
    True
    >>> flagged = clf.set_threshold(max_fpr=0.05).predict(X)
    """
    )

    min_tpr: float = field(default=0.5, kw_only=False)
    max_fpr: float = field(default=0.5, kw_only=False)


@dataclass(eq=False, repr=False, kw_only=True)
class PartialAUCClassifier(RegionClassifier, LinearRobustClassifier):
    __doc__ = (
        """Linear score for rare positives: the lowest positives above the negatives.

    The share 1 − min_tpr of lowest score of the positives counts, against all negatives: the part of the ROC curve
    where the true positive rate is at least min_tpr.

    Parameters
    ----------
    min_tpr : float
        In [0, 1): true positive rates below it do not count.
"""
        + SHARED
        + """
    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 4))
    >>> y = X[:, 0] + X[:, 1] + rng.standard_normal(500) > 2.0
    >>> clf = xrisk.PartialAUCClassifier(min_tpr=0.5, surrogate="convex").fit(X, y)
    >>> clf.certificate_.relative <= 1e-2
    True
    """
    )

    min_tpr: float = field(default=0.5, kw_only=False)
