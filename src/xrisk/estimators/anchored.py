"""What a bounded surrogate starts from, how its anchor is chosen, and how its scores become log-odds."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from xrisk.applications import group_dro
from xrisk.auto import Auto
from xrisk.data.products import column_squares
from xrisk.data.rows import as_rows
from xrisk.run import Budget, Stop, TracePoint, minimize
from xrisk.run.clock import now
from xrisk.solvers.auc.bounded import Step
from xrisk.solvers.newton.smoothed import LARGEST_COLUMN

SPREAD = 2.0  # standard deviation of the scores that the sigmoid is applied to
ITERATIONS = 100  # of the start; some fifteen are enough but for columns with an entry that dwarfs all others
HURRY = 1e-3  # seconds left of a time that is up


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

    def turned(self, part: float) -> None:
        """Tell how much of the cross-validation is done."""
        for watcher in self._watchers:
            watcher.turned(part)

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

    def budget(self) -> Budget:
        """What a model to start from may take."""
        left = None if self._end == np.inf else max(self._end - now(), HURRY)
        return Budget(iterations=ITERATIONS, elapsed=left)

    def interrupted(self) -> None:
        """Ctrl-C was pressed where only a part of the fit has seen it."""
        self._pressed.append(True)


def start_model(X: Any, target: np.ndarray, start: str, descent: Descent) -> np.ndarray:
    """The logistic model of the rows, or of classes of equal weight, its scores scaled to a deviation of two.

    Where the time was too short for any, the difference of the means of the classes.
    """
    shares = np.where(target > 0, 1.0 / (target > 0).sum(), 1.0 / (target < 0).sum())
    weight = target.size * shares / shares.sum() if start == "balanced" else None
    size = float(np.median(column_scale(X)))
    stated = group_dro(
        X, target, np.zeros(target.size, dtype=np.int8), divergence="max", l2=max(size, 1e-150) ** 2 / target.size,
        sample_weight=weight, fit_intercept=True,
    )  # fmt: skip
    result = minimize(stated, Auto(1e-3), budget=descent.budget())
    if result.stop is Stop.INTERRUPTED:
        descent.interrupted()
    w = result.w[:-1]
    w = w if w.any() else apart(X, target)
    spread = float(np.std(np.asarray(X @ w, dtype=np.float64)))
    return w * (SPREAD / spread) if spread > 0.0 else w


def apart(X: Any, target: np.ndarray) -> np.ndarray:
    """The means of the positives less those of the negatives (d,), each over the mean square of its column."""
    means = [np.asarray(X[side].mean(axis=0), dtype=np.float64).reshape(-1) for side in (target > 0, target < 0)]
    squares = column_squares(as_rows(X))
    return (means[0] - means[1]) / np.where(squares > 0.0, squares, 1.0)


def check_columns(X: Any) -> None:
    """Refuse columns whose squares are not finite."""
    with np.errstate(over="ignore"):
        squares = column_squares(as_rows(X))
    if not (squares <= LARGEST_COLUMN**2).all():
        raise ValueError(
            f"columns of X must be at most {LARGEST_COLUMN:g} in size for squares to be finite: scale them"
        )


def column_scale(X: Any) -> np.ndarray:
    """Root mean square of the columns, positive."""
    squares = column_squares(as_rows(X))
    return np.sqrt(squares[squares > 0.0]) if (squares > 0.0).any() else np.ones(1)


def some_rows(target: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows, all of them or ``most`` of each class, in order."""
    sides = [np.flatnonzero(target > 0), np.flatnonzero(target < 0)]
    kept = [side if side.size <= most else rng.choice(side, most, replace=False) for side in sides]
    return np.sort(np.concatenate(kept))


def prudent(values: np.ndarray) -> int:
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

    The slope is positive: the order stays. Of the rows given, those of one class may be fewer than they are.
    """
    spread, here = float(np.std(scores)), float((target > 0).mean())
    prior = float(np.log(positives / (1.0 - positives)))
    if spread == 0.0:
        return 1.0, prior - float(scores[0])
    model = LogisticRegression(C=1e6, max_iter=1000).fit((scores / spread)[:, None], target > 0)
    slope = max(float(model.coef_[0, 0]), 1e-3) / spread
    return slope, float(model.intercept_[0]) + prior - float(np.log(here / (1.0 - here)))
