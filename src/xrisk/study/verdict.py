"""What the rows can decide between models: bounds on their differences, and a recommendation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.metrics.intervals import middle
from xrisk.study.scores import Score

CONFIDENCE = 0.95
DRAWS = 2000


def resampling(rows: int) -> int:
    """How often rows are drawn for an interval: less often where many rows would take long."""
    return int(np.clip(3e7 / rows, 300, 1000))


class Difference(NamedTuple):
    """By how much one model is better than another on the same rows: in its worst group, partial AUC or tail."""

    key: str
    other: str
    low: float  # bounds of confidence 95 %, in units of the score; above zero the model called key is better
    high: float


class Verdict(NamedTuple):
    """Which model the rows recommend, and which differences are significant."""

    recommended: str | None  # key of the simplest that no other outperforms; None where fewer than two have finished
    differences: tuple[Difference, ...]  # of every pair that finished; none where no rows can decide

    def to_dict(self) -> dict[str, Any]:
        """The verdict as dicts, lists, numbers and strings, ready for JSON."""
        return {"recommended": self.recommended, "differences": [each._asdict() for each in self.differences]}


def decide(
    keys: tuple[str, ...],
    row_scores: np.ndarray,
    groups: np.ndarray,
    *,
    score: Score,
    cells: np.ndarray | None = None,
    min_group_size: int,
) -> Verdict:
    """The verdict on models by their worst groups among those of at least ``min_group_size`` rows.

    ``row_scores`` (n, models) say how well each row is predicted, more is better; ``keys`` are the models, the simplest
    first. Within a group the means over rows of the same ``cells`` (n,) count the same.

    Notes
    -----
    The means of a group, one for each model, are drawn from the normal distribution with their covariance over the
    rows of the group. The covariance includes one more row that is as likely right as wrong (for errors and losses: one
    with the variance over all rows); without it, a group of a few rows that are all right would have no uncertainty.
    The bounds are quantiles over the draws of the difference between two models' worst means.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= min_group_size)
    if len(keys) < 2 or not large.size:
        return Verdict(keys[0] if len(keys) > 1 else None, ())
    rng = np.random.default_rng(0)
    spread = np.full(len(keys), 0.25 if score.is_share else row_scores.var(axis=0).max())
    worst = np.full((DRAWS, len(keys)), np.inf)
    cells = np.zeros(len(row_scores)) if cells is None else cells
    for code in large:
        rows = codes == code
        parts = [_drawn_means(row_scores[rows & (cells == cell)], spread, rng) for cell in np.unique(cells[rows])]
        worst = np.minimum(worst, np.mean(parts, axis=0))
    worst = score.shown(worst) if score.is_share else -score.shown(worst)
    drawn = dict(zip(keys, worst.T, strict=True))
    return pairwise(keys, lambda one, other: middle(drawn[one] - drawn[other], CONFIDENCE), worst.mean(axis=0))


def pairwise(keys: tuple[str, ...], difference: Callable[[str, str], tuple[float, float]], means: Any) -> Verdict:
    """The verdict on models by bounds on the difference of every two; ``means`` are their scores, more is better."""
    if len(keys) < 2:
        return Verdict(None, ())
    differences = tuple(
        Difference(one, other, *difference(one, other)) for k, one in enumerate(keys) for other in keys[:k]
    )
    return Verdict(simplest(keys, differences, means), differences)


def simplest(keys: tuple[str, ...], differences: tuple[Difference, ...], means: Any) -> str:
    """The first model that no other significantly outperforms; if each is beaten, that of the greatest mean."""
    beaten = {each.other for each in differences if each.low > 0.0}
    beaten |= {each.key for each in differences if each.high < 0.0}
    return next((key for key in keys if key not in beaten), keys[int(np.argmax(means))])


def _drawn_means(row_scores: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n, mean = len(row_scores), row_scores.mean(axis=0)
    centred = row_scores - mean
    covariance = (centred.T @ centred + np.diag(spread)) / n**2
    size, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))  # a covariance without rank may round below zero
    return mean + rng.standard_normal((DRAWS, mean.size)) @ root.T
