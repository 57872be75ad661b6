"""What the rows can decide between models: bounds on the differences of their worst groups."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.run import Stop
from xrisk.solvers.base import BOUNDED_ENDINGS, PROVED_ENDINGS
from xrisk.study.scores import Score

CONFIDENCE = 0.95
DRAWS = 2000
CUT_SHORT = (Stop.ITERATIONS, Stop.ORACLE_CALLS, Stop.SECONDS, Stop.INTERRUPTED, Stop.DIVERGED, Stop.UNBOUNDED)
DONE = (*PROVED_ENDINGS, *BOUNDED_ENDINGS)


def is_cut_short(model: Any) -> bool:
    """Whether a fit ended before its end, by a limit or Ctrl-C: its model may be where it started."""
    return model.stop_ in CUT_SHORT


def is_done(arms: Any) -> bool:
    """Whether every fit reached its tolerance, or its end where nothing can be proved."""
    return all(arm.model.stop_ in DONE for arm in arms)


def finished(arms: Any) -> list[int]:
    """Places of the models that can be compared: those whose fits were not cut short."""
    return [place for place, arm in enumerate(arms) if not is_cut_short(arm.model)]


def arm_name(name: str, model: Any) -> str:
    """What a model is called; where its fit was cut short the name says so."""
    return f"{name} (not finished)" if is_cut_short(model) else name


class Difference(NamedTuple):
    """By how much one model is better than another, on the same rows: its worst group, its partial AUC, its tail."""

    key: str
    other: str
    low: float  # bounds of confidence 95 %, in units of the score; above zero the model called key is better
    high: float


class Verdict(NamedTuple):
    """Which model the rows recommend, and what of it is sure."""

    recommended: str | None  # key of the simplest that no other outperforms; None where fewer than two have finished
    differences: tuple[Difference, ...]  # of every pair that finished; none where no rows can decide

    def to_dict(self) -> dict[str, Any]:
        """The verdict as dicts, lists, numbers and strings, ready for JSON."""
        return {"recommended": self.recommended, "differences": [each._asdict() for each in self.differences]}


def decide(
    keys: tuple[str, ...],
    gains: np.ndarray,
    groups: np.ndarray,
    *,
    score: Score,
    cells: np.ndarray | None = None,
    min_group_size: int,
) -> Verdict:
    """The verdict on models by the gains of each row.

    Parameters
    ----------
    keys : tuple of str
        The models, the simplest first.
    gains : array (n, models)
        How well a row is predicted, more is better: 1 or 0 for right or wrong, the negative of an error.
    groups : array (n,)
        Names of the groups of the rows.
    score : Score
        What is compared of the worst groups.
    cells : array (n,), optional
        Codes of the rows whose means count the same within a group: their classes, for a balanced accuracy.
    min_group_size : int
        Groups of fewer rows are left out.

    Notes
    -----
    The means of a group, one for each model, are drawn from the normal distribution with their covariance over its
    rows, which are the same for all models. To it one row is added that may as well be right as wrong (of an error or
    a loss: with the variance over all rows), without which a group of a few rows that are all right would be sure.
    The bounds are quantiles over the draws of the difference between two models' least means.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.study.scores import SCORES
    >>> from xrisk.study.verdict import decide
    >>> right = np.column_stack([np.arange(200) % 2, np.arange(200) % 10 > 0])
    >>> groups = np.repeat(["u", "v"], 100)
    >>> decide(("a", "b"), right, groups, score=SCORES["accuracy"], min_group_size=30).recommended
    'b'
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    large = np.flatnonzero(sizes >= min_group_size)
    if len(keys) < 2 or not large.size:
        return Verdict(keys[0] if len(keys) > 1 else None, ())
    rng = np.random.default_rng(0)
    spread = np.full(len(keys), 0.25 if score.is_share else gains.var(axis=0).max())
    worst = np.full((DRAWS, len(keys)), np.inf)
    cells = np.zeros(len(gains)) if cells is None else cells
    for code in large:
        rows = codes == code
        parts = [_drawn_means(gains[rows & (cells == cell)], spread, rng) for cell in np.unique(cells[rows])]
        worst = np.minimum(worst, np.mean(parts, axis=0))
    worst = score.shown(worst) if score.is_share else -score.shown(worst)
    differences = tuple(
        Difference(keys[k], keys[j], *_bounds(worst[:, k] - worst[:, j])) for k in range(len(keys)) for j in range(k)
    )
    recommended = simplest(keys, differences, worst.mean(axis=0))
    return Verdict(recommended, differences)


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
    beaten = {each.other for each in differences if each.low > 0.0} | {
        each.key for each in differences if each.high < 0.0
    }
    return next((key for key in keys if key not in beaten), keys[int(np.argmax(means))])


def _drawn_means(gains: np.ndarray, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    n, mean = len(gains), gains.mean(axis=0)
    apart = gains - mean
    covariance = (apart.T @ apart + np.diag(spread)) / n**2
    size, axes = np.linalg.eigh(covariance)
    root = axes * np.sqrt(np.maximum(size, 0.0))  # a covariance without rank may round below zero
    return mean + rng.standard_normal((DRAWS, mean.size)) @ root.T


def _bounds(sample: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(sample, [0.5 - CONFIDENCE / 2.0, 0.5 + CONFIDENCE / 2.0])
    return float(low), float(high)
