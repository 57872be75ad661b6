"""Intervals of a partial AUC and of the difference of two: a bootstrap of positives and negatives separately."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Vector
from xrisk.metrics.arguments import is_count, is_number
from xrisk.metrics.intervals import middle
from xrisk.metrics.partial_auc import method_of
from xrisk.metrics.roc import RankedRows, block_weights, blocks_of, ranked_rows, region_of


class PartialAUCDifference(NamedTuple):
    """The partial AUC of some scores less that of others, and the interval of the difference."""

    difference: float
    low: float
    high: float


def partial_auc_interval(
    y_true: Vector,
    y_score: Vector,
    *,
    min_tpr: float = 0.0,
    max_fpr: float = 1.0,
    method: str = "area",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = None,
    sample_weight: Vector = None,
    pos_label: Any = None,
) -> tuple[float, float]:
    """Percentiles (1 ± confidence)/2 of the partial AUC when the rows of each class are resampled.

    Parameters
    ----------
    y_true, y_score, min_tpr, max_fpr, method, sample_weight, pos_label
        As for `partial_auc_score`. Resampled rows keep their weights; rows of weight zero are not drawn.
    confidence : float in (0, 1)
        Of the interval.
    n_resamples : int
        How often rows are drawn. Each time takes O(n), because scores are sorted once.
    random_state : int or Generator, optional
        Seed of the resampling.

    Returns
    -------
    low, high : float

    Notes
    -----
    The interval is for rows drawn at random with the numbers of both classes fixed. It is too short if few rows
    decide: with fewer than about ten positives or negatives in the region, or with a score near 1, which no resample
    can exceed by much. For a perfect ranking it is (1, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.metrics import partial_auc_interval
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> low, high = partial_auc_interval(y, y + rng.standard_normal(400), min_tpr=0.5, max_fpr=0.5, random_state=0)
    >>> round(low, 2), round(high, 2)
    (0.22, 0.43)
    """
    region = region_of(min_tpr, max_fpr)
    score = method_of(method, region[0], sample_weight)
    rows = _resamplable(ranked_rows(y_true, y_score, sample_weight, pos_label))
    _check_resampling(confidence, n_resamples)
    found = _resampled([rows], score, region, int(n_resamples), np.random.default_rng(random_state))
    return middle(found[:, 0], confidence)


def partial_auc_difference(
    y_true: Vector,
    y_score: Vector,
    other_score: Any,
    *,
    min_tpr: float = 0.0,
    max_fpr: float = 1.0,
    method: str = "area",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: int | np.random.Generator | None = None,
    sample_weight: Vector = None,
    pos_label: Any = None,
) -> PartialAUCDifference:
    """partial AUC(y_score) − partial AUC(other_score), with an interval from resamples that both scores share.

    The intervals of two scores may overlap although the difference is significant: a hard sample is hard for both.

    Parameters
    ----------
    y_true : array (n,)
        Labels of two classes.
    y_score, other_score : array (n,)
        Two scores of the same rows.
    min_tpr, max_fpr, method, confidence, n_resamples, random_state, sample_weight, pos_label
        As for `partial_auc_interval`.

    Returns
    -------
    PartialAUCDifference
        ``difference``, ``low``, ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.metrics import partial_auc_difference
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 2
    >>> good = y + rng.standard_normal(400)
    >>> found = partial_auc_difference(y, good, good + rng.standard_normal(400), max_fpr=0.5, random_state=0)
    >>> [round(number, 2) for number in found]
    [0.11, 0.05, 0.17]
    """
    region = region_of(min_tpr, max_fpr)
    score = method_of(method, region[0], sample_weight)
    first = _resamplable(ranked_rows(y_true, y_score, sample_weight, pos_label))
    both = [first, ranked_rows(y_true, other_score, sample_weight, pos_label, name="other_score")]
    _check_resampling(confidence, n_resamples)
    found = _resampled(both, score, region, int(n_resamples), np.random.default_rng(random_state))
    ours, theirs = (score(*block_weights(rows), *region) for rows in both)
    return PartialAUCDifference(ours - theirs, *middle(found[:, 0] - found[:, 1], confidence))


def _resampled(
    rankings: list[RankedRows],
    score: Callable[..., float],
    region: tuple[float, float],
    n_resamples: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Scores (n_resamples, rankings) of the same resampled rows; rows are counted in blocks that are sorted once."""
    blocks, weight = [blocks_of(rows.scores) for rows in rankings], rankings[0].weight
    strata = [_Stratum([(block[k], count) for block, count in blocks], k, weight) for k in _classes(rankings[0])]
    found = np.empty((n_resamples, len(rankings)))
    for b in range(n_resamples):
        pos, neg = (_drawn(stratum, rng) for stratum in strata)
        found[b] = [score(p, q, *region) for p, q in zip(pos, neg, strict=True)]
    return found


class _Stratum(NamedTuple):
    """The rows of one class."""

    blocks: list[tuple[np.ndarray, int]]  # of each ranking: the block of each row of the class, how many blocks it has
    rows: np.ndarray  # which rows of all
    weight: np.ndarray | None  # (n,) of all rows


def _drawn(stratum: _Stratum, rng: np.random.Generator) -> list[np.ndarray]:
    """The weights of as many rows, drawn with replacement, in the blocks of each ranking."""
    size = len(stratum.rows)
    chosen = rng.integers(0, size, size)
    weight = None if stratum.weight is None else stratum.weight[stratum.rows[chosen]]
    return [np.bincount(block[chosen], weight, count) for block, count in stratum.blocks]


def _classes(rows: RankedRows) -> tuple[np.ndarray, np.ndarray]:
    return np.flatnonzero(rows.positive), np.flatnonzero(~rows.positive)


def _resamplable(rows: RankedRows) -> RankedRows:
    pos, neg = (len(some) for some in _classes(rows))
    if min(pos, neg) < 2:
        raise ValueError(
            "y_true must have at least two rows of each class to draw from, those of weight zero left out, "
            f"got {pos} and {neg}"
        )
    return rows


def _check_resampling(confidence: Any, n_resamples: Any) -> None:
    if not is_number(confidence, 0.0, 1.0) or confidence in (0, 1):
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    if not is_count(n_resamples, 1):
        raise ValueError(f"n_resamples must be a number of resamples, at least 1, got {n_resamples!r}")
