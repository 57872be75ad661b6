"""What a bounded surrogate starts from, how its anchor is chosen, and how its scores become log-odds."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

from xrisk.applications import group_dro
from xrisk.auto import Auto
from xrisk.data.products import Centred, column_squares, less_offset, row_adjoint, row_scores
from xrisk.data.rows import as_rows
from xrisk.run import Budget, Stop, TracePoint, minimize
from xrisk.run.clock import now
from xrisk.solvers.auc.bounded import Step
from xrisk.solvers.newton.smoothed import LARGEST_COLUMN

SPREAD = 2.0  # standard deviation of the scores that the sigmoid is applied to
ITERATIONS = 100  # of the start; some fifteen are enough but for columns with an entry that dwarfs all others
CALIBRATED = 40_000  # rows of each class at the most, that log-odds are fitted to
CURVE = 2000  # points of the ROC curve that are kept, about
FEW_DIGITS = 64.0  # spacings of stored numbers
HURRY = 1e-3  # seconds left of a time that is up


class ChosenStart(NamedTuple):
    """What cross-validation found."""

    start: str
    anchor: float  # inf: the start itself
    scores: np.ndarray  # (rows,) of rows held out; NaN of rows that were not used


class FoldTable(NamedTuple):
    """What folds are cut from."""

    X: Any
    rows: Any  # X less the offsets of its columns
    target: np.ndarray


class Descent:
    """A fit as those outside see it: its trace, the time it has left, whether it is to end."""

    def __init__(self, seconds: float | None, pressed: list[bool], watchers: list[Any]) -> None:
        self.points: list[TracePoint] = []
        self._began, self._pressed, self._watchers = now(), pressed, watchers
        self._end = np.inf if seconds is None else self._began + seconds

    def seen(self, step: Step) -> bool:
        """Tell of a step; whether it is to be the last."""
        point = TracePoint(len(self.points) + 1, 0, now() - self._began, step.value, phase="sigmoid")
        self.points.append(point)
        for watcher in self._watchers:
            watcher.seen(point, step.w)
        return self.over()

    def folds_done(self, part: float) -> None:
        """Tell how much of the cross-validation is done."""
        for watcher in self._watchers:
            watcher.folds_done(part)

    def over(self) -> bool:
        """Whether the fit is to end."""
        return self.stop(len(self.points) + 1) is not Stop.LOCAL

    def stop(self, limit: int) -> Stop:
        """Why it ends, if ``limit`` is the number of steps that it was allowed."""
        if self._pressed or any([watcher.asked_to_stop() for watcher in self._watchers]):
            return Stop.INTERRUPTED
        if now() > self._end:
            return Stop.SECONDS
        return Stop.ITERATIONS if len(self.points) >= limit else Stop.LOCAL

    def asked(self) -> bool:
        """Whether passes over the data are to stop; any thread may ask."""
        return bool(self._pressed) or now() > self._end

    def budget(self) -> Budget:
        """What a model to start from may take."""
        left = None if self._end == np.inf else max(self._end - now(), HURRY)
        return Budget(iterations=ITERATIONS, elapsed=left)

    def interrupted(self) -> None:
        """Ctrl-C was pressed where only a part of the fit has seen it."""
        self._pressed.append(True)


def start_model(
    X: Any, target: np.ndarray, start: str, descent: Descent, learn: np.ndarray | slice = slice(None)
) -> np.ndarray:
    """The logistic model of the rows to learn from, or of classes of equal weight, its scores of a deviation of two.

    Where the time was too short for any, the difference of the means of the classes. Other rows weigh nothing: to
    leave them out would copy the rest.
    """
    weight = np.zeros(target.size)
    weight[learn] = 1.0
    count = float(weight.sum())
    if start == "balanced":
        for side in (target > 0, target < 0):
            weight[side] /= weight[side].sum()
    w = np.zeros(X.shape[1]) if descent.over() else _logistic(X, target, weight, count, descent)
    w = w if w.any() else apart(X, target, weight)
    spread = float(np.std(scores_of(X, w)[learn]))
    return w * (SPREAD / spread) if spread > 0.0 else w


def _logistic(X: Any, target: np.ndarray, weight: np.ndarray, count: float, descent: Descent) -> np.ndarray:
    """Coefficients (d,) of the logistic model of ``count`` rows with weights; zero where the time was too short."""
    size = float(np.median(column_scale(X)))
    stated = group_dro(
        X, target, np.zeros(target.size, dtype=np.int8), divergence="max", l2=max(size, 1e-150) ** 2 / count,
        sample_weight=None if (weight == 1.0).all() else weight * (target.size / weight.sum()), fit_intercept=True,
    )  # fmt: skip
    result = minimize(stated, Auto(1e-3), budget=descent.budget())
    if result.stop is Stop.INTERRUPTED:
        descent.interrupted()
    return result.w[:-1]


def scores_of(X: Any, w: np.ndarray) -> np.ndarray:
    """X w (rows,) in double precision, without a copy of X."""
    return row_scores(as_rows(X), np.ascontiguousarray(w, dtype=np.float64)[None, :])[:, 0]


def apart(X: Any, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The means of the positives by weight less those of the negatives (d,), over the mean square of each column."""
    rows = as_rows(X)
    shares = [np.where(side, weight, 0.0) / weight[side].sum() for side in (target > 0, target < 0)]
    squares = column_squares(rows)
    return row_adjoint(rows, (shares[0] - shares[1])[:, None])[0] / np.where(squares > 0.0, squares, 1.0)


def check_columns(X: Any) -> None:
    """Refuse columns whose squares are not finite."""
    with np.errstate(over="ignore"):
        squares = column_squares(as_rows(X))
    if not (squares <= LARGEST_COLUMN**2).all():
        raise ValueError(
            f"columns of X must be at most {LARGEST_COLUMN:g} in size for squares to be finite: scale them"
        )


def few_digits(X: Any) -> str | None:
    """A sentence on a column that varies by hardly more than its storage can tell apart; None where there is none."""
    rows = less_offset(as_rows(X))
    if not isinstance(rows, Centred):
        return None
    spread, sizes = np.sqrt(column_squares(rows)), np.abs(rows.centre)
    for j in rows.far[spread[rows.far] <= FEW_DIGITS * np.finfo(X.dtype).eps * sizes[rows.far]].tolist():
        column = X[:, [j]]
        if column.max() > column.min():
            return (
                f"column {j} of X is about {rows.centre[j]:.3g} and varies by {spread[j]:.2g}, of which {X.dtype} "
                "keeps too few digits: subtract its mean before it is stored so, or leave the column out"
            )
    return None


def column_scale(X: Any) -> np.ndarray:
    """Root mean square of the columns, positive."""
    squares = column_squares(as_rows(X))
    return np.sqrt(squares[squares > 0.0]) if (squares > 0.0).any() else np.ones(1)


def some_rows(target: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows, all of them or ``most`` of each class, in order."""
    sides = [np.flatnonzero(target > 0), np.flatnonzero(target < 0)]
    kept = [side if side.size <= most else rng.choice(side, most, replace=False) for side in sides]
    return np.sort(np.concatenate(kept))


def simplest_within_error(values: np.ndarray) -> int:
    """The first choice that the best one, by its mean over the folds, does not beat by half a standard error."""
    values = values[:, np.isfinite(values).all(axis=0)]
    if not values.size:
        return 0
    best = int(np.argmax(values.mean(axis=1)))
    ahead = values[best] - values
    error = ahead.std(axis=1, ddof=1) / np.sqrt(values.shape[1]) if values.shape[1] > 1 else np.zeros(len(values))
    return int(np.flatnonzero(ahead.mean(axis=1) <= 0.5 * error + 1e-12)[0])


class Units(NamedTuple):
    """Zero and unit of a score: mean and deviation of the negatives that it was fitted to.

    Models of different folds agree in order, not in size; in these units their scores are of one kind. They do not
    depend on how many rows of either class were used.
    """

    zero: float
    unit: float

    def of(self, scores: np.ndarray) -> np.ndarray:
        """The scores in these units."""
        return (scores - self.zero) / self.unit


def units_of(scores: np.ndarray, target: np.ndarray) -> Units:
    """The units of the scores (rows,) of a model on the rows it was fitted to."""
    negative = scores[target < 0]
    return Units(float(negative.mean()), float(negative.std()) or 1.0)


def log_odds(scores: np.ndarray, target: np.ndarray, positives: float) -> tuple[float, float]:
    """Slope and shift that make scores log-odds where ``positives`` is the share of positive rows.

    The slope is positive: the order stays. Of the rows given, those of one class may be fewer than they are; of many
    rows some are used.
    """
    some = some_rows(target, CALIBRATED, np.random.default_rng(0))
    if some.size < target.size:
        scores, target = scores[some], target[some]
    spread, here = float(np.std(scores)), float((target > 0).mean())
    prior = float(np.log(positives / (1.0 - positives)))
    if spread == 0.0:
        return 1.0, prior - float(scores[0])
    model = LogisticRegression(C=1e6, max_iter=1000).fit((scores / spread)[:, None], target > 0)
    slope = max(float(model.coef_[0, 0]), 1e-3) / spread
    return slope, float(model.intercept_[0]) + prior - float(np.log(here / (1.0 - here)))


def kept_curve(positive: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """False and true positive rates of the scores above each threshold, of some 2,000 thresholds if there are more.

    Parameters
    ----------
    positive : ndarray of bool (rows,)
    scores : ndarray (rows,)

    Returns
    -------
    fpr, tpr, thresholds : ndarray
        From none above to all above. A threshold lies between two scores.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.estimators.anchored import kept_curve
    >>> kept_curve(np.array([True, False]), np.array([2.0, 1.0]))[2].round(6).tolist()
    [2.0, 1.5, 1.0]
    """
    fpr, tpr, scores = roc_curve(positive, scores, drop_intermediate=False)
    lower = np.append(scores[1:], np.nextafter(scores[-1], -np.inf))
    middle = lower + 0.5 * (np.where(np.isfinite(scores), scores, lower) - lower)
    middle = np.where(middle < scores, middle, lower)  # numbers next to each other have none between them
    if fpr.size <= CURVE:
        return fpr, tpr, middle
    few = np.geomspace(1.0 / fpr.size, 0.5, CURVE // 4)
    shares = np.concatenate([[0.0], few, 1.0 - few, [1.0]])
    within, reached = np.searchsorted(fpr, shares, "right") - 1, np.searchsorted(tpr, shares, "left")
    kept = np.unique(np.concatenate([within, reached]))
    return fpr[kept], tpr[kept], middle[kept]
