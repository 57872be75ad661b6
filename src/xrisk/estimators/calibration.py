"""How a score becomes log-odds, and which points of its ROC curve are kept."""

from typing import NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_curve

CALIBRATED = 40_000  # rows of each class at the most, that log-odds are fitted to
CURVE = 2000  # points of the ROC curve that are kept, about


def some_rows(target: np.ndarray, most: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of rows, all of them or ``most`` of each class, in order."""
    sides = [np.flatnonzero(target > 0), np.flatnonzero(target < 0)]
    kept = [side if side.size <= most else rng.choice(side, most, replace=False) for side in sides]
    return np.sort(np.concatenate(kept))


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
    spread, present = float(np.std(scores)), float((target > 0).mean())
    prior = float(np.log(positives / (1.0 - positives)))
    if spread == 0.0:
        return 1.0, prior - float(scores[0])
    model = LogisticRegression(C=1e6, max_iter=1000).fit((scores / spread)[:, None], target > 0)
    slope = max(float(model.coef_[0, 0]), 1e-3) / spread
    return slope, float(model.intercept_[0]) + prior - float(np.log(present / (1.0 - present)))


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
    >>> from xrisk.estimators.calibration import kept_curve
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
