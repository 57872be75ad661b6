"""Linear scores for rare positives: the corner of the ROC curve that matters."""

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from xrisk.applications import two_way_partial_auc
from xrisk.applications.arguments import as_number
from xrisk.certificate import NOTHING_PROVED, Certificate, certifiable, certify
from xrisk.data.products import less_offset, row_scores
from xrisk.data.rows import as_rows, row_numbers
from xrisk.data.threads import Interrupted, interruptible
from xrisk.estimators.anchored import (
    ChosenStart,
    Descent,
    FoldTable,
    check_columns,
    few_digits,
    kept_curve,
    log_odds,
    scores_of,
    simplest_within_error,
    some_rows,
    start_model,
    units_of,
)
from xrisk.estimators.base import FITTED, SOLVING, USER, Training, TwoClassRobust, check_finite
from xrisk.estimators.callbacks import StepBar, with_callbacks
from xrisk.functions.parameters import require
from xrisk.inner import Pairs
from xrisk.problem import Problem
from xrisk.run import Result, Stop
from xrisk.run.clock import ctrl_c
from xrisk.solvers.auc.bounded import Ranking, pairs_in_order, ranking_of
from xrisk.solvers.base import BOUNDED_ENDINGS

CONVEX = ("squared_hinge", "hinge", "logistic")
SURROGATES = ("sigmoid", "convex", *CONVEX)
STARTS = ("logistic", "balanced")
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
ANCHORS = (0.1, 0.01, 0.001)  # tried by cross-validation, after the start itself
FOLDS = 5
CV_ROWS = 40_000  # of each class at the most, in cross-validation
CV_STEPS = 40
COPIED = 5  # times as many rows as cross-validation uses: of so many it uses a copy
STEPS = 100  # of a descent
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


class RegionClassifier(TwoClassRobust):
    """A score for the pairs between two rates, with probabilities and thresholds."""

    loss = "logistic"  # no parameter: there are probabilities

    @with_callbacks
    def fit(self, X: Any, y: Any) -> Any:
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
        check_columns(training.X)
        if (told := few_digits(training.X)) is not None:
            warnings.warn(told, UserWarning, stacklevel=USER - 1)
        share = float((training.target > 0).mean())
        if share > COMMON and self.classes_.dtype.kind not in "biuf":  # of numbers it is clear which
            rare, common = self.classes_.tolist()
            warnings.warn(MAJORITY.format(common, 100.0 * share, rare), UserWarning, stacklevel=USER - 1)
        self.threshold_ = 0.0
        return self._bounded(training) if self.surrogate == "sigmoid" else self._fitted(training)

    def _rates(self) -> tuple[float, float]:
        """(min_tpr, max_fpr)."""
        return self.min_tpr, getattr(self, "max_fpr", 1.0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.surrogate, str) or self.surrogate not in SURROGATES:
            raise ValueError(f"surrogate must be one of {', '.join(SURROGATES)}, got {self.surrogate!r}")
        if self.anchor is not None:
            require(as_number("anchor", self.anchor) > 0.0, "anchor", self.anchor, "positive or None")
        if self.start is not None and not (isinstance(self.start, str) and self.start in STARTS):
            raise ValueError(f"start must be one of {', '.join(STARTS)} or None, got {self.start!r}")
        if self.surrogate == "sigmoid" and not isinstance(self.solver, str):
            raise ValueError(f"solver must be 'auto' for surrogate='sigmoid', got {self.solver!r}")
        if self.surrogate != "sigmoid" and isinstance(self.solver, str):
            require(as_number("l2", self.l2) > 0.0, "l2", self.l2, f"positive for surrogate={self.surrogate!r}")

    def _has_intercept(self) -> bool:
        return False

    def _problem(self, training: Training) -> Problem:
        low, high = self._rates()
        loss = "squared_hinge" if self.surrogate in ("sigmoid", "convex") else self.surrogate
        return two_way_partial_auc(
            training.X, training.target, min_tpr=low, max_fpr=high, loss=loss, l1=self.l1, l2=self.l2
        )

    def _bounded(self, training: Training) -> Any:
        """Fit the bounded surrogate: choose its anchor, descend from its start, and keep the best point."""
        self._problem(training)  # says what is wrong with the rates
        watchers = self._watchers(training)
        try:
            with ctrl_c() as pressed:
                self._descend(training, Descent(self.max_seconds, pressed, watchers))
            if self.stop_ not in BOUNDED_ENDINGS:
                warnings.warn(f"{self.stop_}; {SHORT[self.stop_]}", ConvergenceWarning, stacklevel=USER)
        finally:
            for watcher in watchers:
                watcher.close()
        for watcher in watchers:
            watcher.end()
        return self

    def _descend(self, training: Training, descent: Descent) -> None:
        ranking = self._ranking(less_offset(as_rows(training.X)), training.target)
        chosen, steps = self._chosen(training, descent), min(STEPS, self.max_iter)
        w0 = start_model(training.X, training.target, chosen.start, descent)
        first = best = ranking.step_at(w0)
        if chosen.anchor < np.inf and not descent.over():
            with suppress(Interrupted), interruptible(descent.asked):
                best = ranking.descended(w0, chosen.anchor, steps, descent.seen, self._last(training, w0))
        stop = self._ending(descent, chosen.anchor)
        self.start_, self.anchor_, self.start_score_ = chosen.start, float(chosen.anchor), first.score
        self.certificate_, self.stop_, self.n_iter_ = NOTHING_PROVED, stop, max(1, len(descent.points))
        self.trace_, self.objective_ = tuple(descent.points), float(best.value)
        self._finish(best.w, training, chosen.scores, best.score)

    def _ending(self, descent: Descent, anchor: float) -> Stop:
        """Why the descent ended; the limit of steps is ours, unless that of the user is smaller."""
        stop = descent.stop(min(STEPS, self.max_iter))
        if stop is Stop.LOCAL and anchor == np.inf:
            return Stop.KEPT
        return Stop.EARLY if stop is Stop.ITERATIONS and self.max_iter >= STEPS else stop

    def _last(self, training: Training, w0: np.ndarray) -> np.ndarray:
        """Where the descent begins: at the model of the last fit, if that is asked for and of the right size."""
        if not (self.warm_start and hasattr(self, "coef_") and self.coef_.size == w0.size and self.coef_.any()):
            return w0
        w = self.coef_[0].astype(np.float64)
        spreads = [float(np.std(scores_of(training.X, each))) for each in (w0, w)]
        return w * (spreads[0] / spreads[1]) if min(spreads) > 0.0 else w0

    def _bar(self) -> Any:
        return StepBar(min(STEPS, self.max_iter)) if self.surrogate == "sigmoid" else super()._bar()

    def _chosen(self, training: Training, descent: Descent) -> ChosenStart:
        """Start and anchor by cross-validation on the positives there are; few of them hold on to the start."""
        nothing = np.full(training.target.size, np.nan)
        starts = STARTS if self.start is None else (self.start,)
        anchors = (np.inf, *ANCHORS) if self.anchor is None else (float(self.anchor),)
        folds = min(FOLDS, int((training.target > 0).sum()), int((training.target < 0).sum()))
        if folds < 2:
            return ChosenStart(starts[0], anchors[0], nothing)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        chosen = some_rows(training.target, CV_ROWS, rng)
        target, places = training.target[chosen], chosen
        X = training.X
        if COPIED * chosen.size <= training.target.size:  # few rows in one place are read faster
            X, places = X[chosen], np.arange(chosen.size)
        table = FoldTable(X, less_offset(as_rows(X)), training.target if X is training.X else target)
        tried = [(start, anchor) for start in starts for anchor in anchors]
        scores, values = np.full((len(tried), table.target.size), np.nan), np.full((len(tried), folds), np.nan)
        splits = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31))).split(target, target)
        for fold, split in enumerate(splits):
            descent.folds_done(fold / folds)
            if descent.over():
                break
            learn, test = (places[part] for part in split)
            with suppress(Interrupted), interruptible(descent.asked):
                self._try_fold(table, (learn, test), tried, scores, values[:, fold], descent)
        best = simplest_within_error(values)
        nothing[chosen] = scores[best, places]
        return ChosenStart(*tried[best], nothing)

    def _try_fold(
        self,
        table: FoldTable,
        split: Any,
        tried: list[Any],
        scores: np.ndarray,
        values: np.ndarray,
        descent: Descent,
    ) -> None:
        """Scores of the rows held out, in units of the rows learnt from, and their partial AUC, of every choice."""
        learn, test = split
        ranking, held = (self._ranking(table.rows, table.target, part) for part in split)
        found = np.full(values.size, np.nan)
        for k, (start, anchor) in enumerate(tried):
            if k == 0 or tried[k - 1][0] != start:
                w0 = start_model(table.X, table.target, start, descent, learn)
                w = w0
            if anchor < np.inf:
                w = ranking.descended(w0, anchor, CV_STEPS, lambda step: descent.over()).w
            if descent.over():
                return
            scores[k, test] = units_of(ranking.scores(w)[learn], table.target[learn]).of(held.scores(w)[test])
            found[k] = held.step_at(w).score
        values[:] = found

    def _bounds(self, problem: Problem, result: Result, enough: float) -> Certificate:
        return super()._bounds(problem, result, enough) if certifiable(problem) else certify(problem, result)

    def _keep(self, problem: Problem, result: Result, training: Training) -> None:
        super()._keep(problem, result, training)
        self.start_, self.anchor_, self.start_score_ = "none", np.inf, np.nan
        ranking = self._ranking(less_offset(as_rows(training.X)), training.target)
        score = pairs_in_order(ranking, ranking.scores(result.w))
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

    def _ranking(self, rows: Any, target: np.ndarray, listed: np.ndarray | None = None) -> Ranking:
        """The pairs of the rows listed, or of all."""
        listed = np.arange(target.size) if listed is None else listed
        positive, negative = (
            row_numbers(listed[side], target.size) for side in (target[listed] > 0, target[listed] < 0)
        )
        return ranking_of(Pairs(rows, positive, negative), *self._rates())

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

    def _scores_of(self, X: Any) -> np.ndarray:
        """Log-odds whose bits do not depend on the rows beside: a threshold of the curve is the score of a row."""
        return row_scores(as_rows(X), self.coef_) + self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row: positive where the score is above ``threshold_``."""
        scores = self.decision_function(X)
        return self.classes_[(scores > self.threshold_).astype(int)]

    def _check_fitted(self) -> None:
        super()._check_fitted()
        for name in ("surrogate_coef_", "roc_fpr_", "roc_tpr_", "roc_thresholds_"):
            check_finite(name, getattr(self, name, None))
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
        if not isinstance(getattr(self, "threshold_", None), float) or not np.isfinite(self.threshold_):
            raise ValueError(f"threshold_ must be a finite number, got {getattr(self, 'threshold_', None)!r}")


class TwoWayPartialAUCClassifier(RegionClassifier):
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

    def __init__(
        self,
        min_tpr: float = 0.5,
        max_fpr: float = 0.5,
        *,
        surrogate: str = "sigmoid",
        anchor: float | None = None,
        start: str | None = None,
        l1: float = 0.0,
        l2: float = 1e-3,
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int = 1_000_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.min_tpr = min_tpr
        self.max_fpr = max_fpr
        self.surrogate = surrogate
        self.anchor = anchor
        self.start = start
        self.l1 = l1
        self.l2 = l2
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose


class PartialAUCClassifier(RegionClassifier):
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

    def __init__(
        self,
        min_tpr: float = 0.5,
        *,
        surrogate: str = "sigmoid",
        anchor: float | None = None,
        start: str | None = None,
        l1: float = 0.0,
        l2: float = 1e-3,
        solver: Any = "auto",
        tol: float = 1e-2,
        max_iter: int = 1_000_000,
        max_seconds: float | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.min_tpr = min_tpr
        self.surrogate = surrogate
        self.anchor = anchor
        self.start = start
        self.l1 = l1
        self.l2 = l2
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_seconds = max_seconds
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose
