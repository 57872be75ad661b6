"""A bounded surrogate of the partial AUC: what it starts from, how its anchor is chosen, and its descent."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from xrisk.annotations import Matrix, Rows
from xrisk.applications import group_dro
from xrisk.applications.ranking import anchored
from xrisk.auto import Auto
from xrisk.data.products import column_squares, less_offset, row_adjoint, row_scores
from xrisk.data.rows import as_rows, row_numbers
from xrisk.estimators.calibration import some_rows, units_of
from xrisk.estimators.callbacks import Listeners
from xrisk.estimators.parameters import STARTS
from xrisk.inner import Pairs
from xrisk.inner.sigmoid_pairs import SigmoidPairs, between_rates, pairs_in_order
from xrisk.run import Result, Runs, Snapshot, Trace
from xrisk.solvers.descent import Descent

SPREAD = 2.0  # standard deviation of the scores that the sigmoid is applied to
ITERATIONS = 100  # of the start; some fifteen are enough but for columns with an entry that dwarfs all others
ANCHORS = (0.1, 0.01, 0.001)  # tried by cross-validation, after the start itself
FOLDS = 5
CV_ROWS = 40_000  # of each class at the most, in cross-validation
CV_STEPS = 40
COPIED = 5  # times as many rows as cross-validation uses: of so many it uses a copy
STEPS = 100  # of a descent
TOL = 1e-6  # decrease of the objective, which lies between 0 and 1, below which a descent ends
EVERY = 1.001  # ratio of a trace that has every step of a descent


class Rates(NamedTuple):
    """The part of the ROC curve that counts."""

    min_tpr: float
    max_fpr: float


class FoldTable(NamedTuple):
    """What models are fitted to, and folds are cut from."""

    X: Matrix
    rows: Rows  # X less the offsets of its columns
    target: np.ndarray

    def pairs(self, rates: Rates, listed: np.ndarray | None = None) -> SigmoidPairs:
        """The pairs of the rows listed, or of all."""
        listed = np.arange(self.target.size) if listed is None else listed
        n, target = self.target.size, self.target[listed]
        positive, negative = row_numbers(listed[target > 0], n), row_numbers(listed[target < 0], n)
        return between_rates(Pairs(self.rows, positive, negative), *rates)


def table_of(X: Matrix, target: np.ndarray) -> FoldTable:
    """The table of rows X and targets −1 and 1."""
    return FoldTable(X, less_offset(as_rows(X)), target)


class ChosenStart(NamedTuple):
    """What cross-validation found."""

    start: str
    anchor: float  # inf: the start itself
    scores: np.ndarray  # (rows,) of rows held out; NaN of rows that were not used


class Choices(NamedTuple):
    """What cross-validation chooses from, and how."""

    rates: Rates
    start: str | None
    anchor: float | None

    def all(self) -> list[tuple[str, float]]:
        """Starts and anchors, the simplest first; an anchor of inf is the start itself."""
        starts = STARTS if self.start is None else (self.start,)
        anchors = (np.inf, *ANCHORS) if self.anchor is None else (float(self.anchor),)
        return [(start, anchor) for start in starts for anchor in anchors]


class Descended(NamedTuple):
    """The point of a descent with the most pairs in order, its start among them."""

    w: np.ndarray
    score: float  # the partial AUC of the training rows
    start_score: float  # that of the start
    value: float  # objective
    result: Result  # of the run


def descended(
    pairs: SigmoidPairs,
    start: np.ndarray,
    anchor: float,
    runs: Runs,
    steps: int,
    listeners: Listeners,
    begin: np.ndarray | None = None,
) -> Descended:
    """Descend from ``begin``, or the start, with the start as anchor, and keep the best point by the pairs in order."""
    problem, trace, first = anchored(pairs, anchor, start), Trace(ratio=EVERY), pairs_in_order(pairs, start)
    best: list[Any] = [start, first, None]
    if begin is not None and begin is not start and (score := pairs_in_order(pairs, begin)) >= first:
        best = [begin, score, None]

    def keep(present: Snapshot) -> None:
        score = pairs_in_order(pairs, present.w)
        if score >= best[1]:
            best[:] = present.w, score, present.value

    result = runs.minimize(
        problem,
        Descent(TOL),
        start if begin is None else begin,
        iterations=steps,
        trace=trace,
        observers=[keep, listeners.observer(trace)],
        until=listeners.request_stop,
    )
    w, score, value = best
    return Descended(w, score, first, problem.value(w) if value is None else value, result)


def start_model(table: FoldTable, start: str, runs: Runs, learn: np.ndarray | slice = slice(None)) -> np.ndarray:
    """The logistic model of the rows to learn from, or of classes of equal weight, its scores of a deviation of two.

    Where the time was too short for any, the difference of the means of the classes. Other rows weigh nothing: to
    leave them out would copy the rest.
    """
    X, target, weight = table.X, table.target, np.zeros(table.target.size)
    weight[learn] = 1.0
    count = float(weight.sum())
    if start == "balanced":
        for side in (target > 0, target < 0):
            weight[side] /= weight[side].sum()
    w = np.zeros(X.shape[1]) if runs.over() else _logistic(X, target, weight, count, runs)
    w = w if w.any() else apart(X, target, weight)
    spread = float(np.std(scores_of(X, w)[learn]))
    return w * (SPREAD / spread) if spread > 0.0 else w


def _logistic(X: Matrix, target: np.ndarray, weight: np.ndarray, count: float, runs: Runs) -> np.ndarray:
    """Coefficients (d,) of the logistic model of ``count`` rows with weights; zero where the time was too short."""
    squares = column_squares(as_rows(X))
    size = float(np.median(squares[squares > 0.0])) if (squares > 0.0).any() else 1.0
    problem = group_dro(
        X, target, np.zeros(target.size, dtype=np.int8), divergence="max", l2=max(size, 1e-300) / count,
        sample_weight=None if (weight == 1.0).all() else weight * (target.size / weight.sum()), fit_intercept=True,
    )  # fmt: skip
    return runs.minimize(problem, Auto(1e-3), iterations=ITERATIONS).w[:-1]


def scores_of(X: Matrix, w: np.ndarray) -> np.ndarray:
    """X w (rows,) in double precision, without a copy of X."""
    return row_scores(as_rows(X), np.ascontiguousarray(w, dtype=np.float64)[None, :])[:, 0]


def apart(X: Matrix, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The means of the positives by weight less those of the negatives (d,), over the mean square of each column."""
    rows = as_rows(X)
    shares = [np.where(side, weight, 0.0) / weight[side].sum() for side in (target > 0, target < 0)]
    squares = column_squares(rows)
    return row_adjoint(rows, (shares[0] - shares[1])[:, None])[0] / np.where(squares > 0.0, squares, 1.0)


def choose_start(
    table: FoldTable, choices: Choices, rng: np.random.Generator, runs: Runs, listeners: Listeners
) -> ChosenStart:
    """Start and anchor by cross-validation; where either class has one row, the first choice."""
    tried, n = choices.all(), table.target.size
    folds = min(FOLDS, int((table.target > 0).sum()), int((table.target < 0).sum()))
    if folds < 2:
        return ChosenStart(*tried[0], np.full(n, np.nan))
    chosen = some_rows(table.target, CV_ROWS, rng)
    labels, places, used = table.target[chosen], chosen, table
    if COPIED * chosen.size <= n:  # few rows in one place are read faster
        used, places = table_of(table.X[chosen], labels), np.arange(chosen.size)
    scores, values = np.full((len(tried), used.target.size), np.nan), np.full((len(tried), folds), np.nan)
    splits = StratifiedKFold(folds, shuffle=True, random_state=int(rng.integers(2**31))).split(labels, labels)
    for fold, (learn, test) in enumerate(splits):
        listeners.folds_done(fold / folds)
        if runs.over():
            break
        with runs.interruptible():
            _try_fold(used, (places[learn], places[test]), choices, scores, values[:, fold], runs)
    best, held_out = simplest_within_error(values), np.full(n, np.nan)
    held_out[chosen] = scores[best, places]
    return ChosenStart(*tried[best], held_out)


def _try_fold(
    table: FoldTable,
    split: tuple[np.ndarray, np.ndarray],
    choices: Choices,
    scores: np.ndarray,
    values: np.ndarray,
    runs: Runs,
) -> None:
    """Scores of the rows held out, in units of the rows learnt from, and their partial AUC, of every choice."""
    learn, test = split
    pairs, test_pairs = (table.pairs(choices.rates, part) for part in split)
    found, known = np.full(values.size, np.nan), ""
    for k, (start, anchor) in enumerate(choices.all()):
        if start != known:
            w0, known = start_model(table, start, runs, learn), start
        w = w0 if anchor == np.inf else descended(pairs, w0, anchor, runs, CV_STEPS, Listeners([])).w
        if runs.over():
            return
        z = row_scores(table.rows, np.ascontiguousarray(w)[None, :])[:, 0]
        scores[k, test] = units_of(z[learn], table.target[learn]).of(z[test])
        found[k] = pairs_in_order(test_pairs, w)
    values[:] = found


def simplest_within_error(values: np.ndarray) -> int:
    """The first choice that the best one, by its mean over the folds, does not beat by half a standard error."""
    values = values[:, np.isfinite(values).all(axis=0)]
    if not values.size:
        return 0
    best = int(np.argmax(values.mean(axis=1)))
    ahead = values[best] - values
    error = ahead.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else np.zeros(len(values))
    return int(np.flatnonzero(ahead.mean(axis=1) <= 0.5 * error + 1e-12)[0])
