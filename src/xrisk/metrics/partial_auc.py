"""Partial AUC, one-way and two-way: exact, with ties and weights, and as a scorer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from xrisk.metrics.roc import (
    area_inside,
    area_share,
    block_weights,
    ranked_rows,
    region_of,
    roc_curve_of,
    share_of,
)


def partial_auc_score(
    y_true: Any,
    y_score: Any,
    *,
    min_tpr: float = 0.0,
    max_fpr: float = 1.0,
    method: str = "area",
    sample_weight: Any = None,
    pos_label: Any = None,
) -> float:
    """∫₀^max_fpr [TPR(f) − min_tpr]₊ df / ((1 − min_tpr) max_fpr): the share of the region under the ROC curve.

    Parameters
    ----------
    y_true : array (n,)
        Labels of two classes, of any kind.
    y_score : array (n,)
        Scores, high for positives. Only their order counts: they may be infinite, not NaN.
    min_tpr : float in [0, 1)
        The region is above this true positive rate; 0 for a region bounded by ``max_fpr`` alone.
    max_fpr : float in (0, 1]
        The region is left of this false positive rate; 1 for a region bounded by ``min_tpr`` alone.
    method : {"area", "counts", "mcclish"}
        ``"area"`` is the formula above, 1 for a perfect ranking, 0 where the curve misses the region.
        ``"counts"`` is the AUC of the lowest ⌊n₊(1 − min_tpr)⌋ of the n₊ positives and the highest ⌊n₋ max_fpr⌋ of the
        n₋ negatives, ties counting one half: what the papers on partial AUC print. It takes no weights.
        ``"mcclish"`` is ½(1 + (A − max_fpr²/2)/(max_fpr − max_fpr²/2)), A the area, so that chance has ½; it is
        what scikit-learn's ``roc_auc_score(max_fpr=…)`` gives, and has no ``min_tpr``.
    sample_weight : array (n,), optional
        Weights of the rows; one of zero is as good as no row.
    pos_label : label, optional
        The positive class; by default the greater of the two, as in scikit-learn.

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    TPR(f) joins the points of all thresholds by straight lines. Rows of one score are one such line: inside the region
    it gives every tied pair one half, and a border cuts it where it meets it, as if the decision on tied rows were
    drawn by lot. So the area is continuous in both borders. Where n₊(1 − min_tpr) and n₋ max_fpr are whole numbers and
    no positive is tied with a negative across a border, ``"area"`` and ``"counts"`` are equal; across a border
    ``"counts"`` gives one half to each tied pair among the rows it has chosen, whatever else is tied with them.

    Papers name the region (1 − min_tpr, max_fpr) or (min_tpr, max_fpr): a two-way partial AUC at (0.75, 0.75) may be
    either.

    Examples
    --------
    >>> from xrisk.metrics import partial_auc_score
    >>> y, score = [1, 0, 1, 1, 0, 0], [0.9, 0.8, 0.7, 0.6, 0.3, 0.2]
    >>> round(partial_auc_score(y, score), 6)  # the whole AUC
    0.777778
    >>> round(partial_auc_score(y, score, min_tpr=0.5, max_fpr=0.5), 6)
    0.333333
    >>> partial_auc_score(y, score, min_tpr=0.5, max_fpr=0.7, method="counts")
    0.5
    """
    min_tpr, max_fpr = region_of(min_tpr, max_fpr)
    chosen = method_of(method, min_tpr, sample_weight)
    rows = ranked_rows(y_true, y_score, sample_weight, pos_label)
    if rows.weight is not None:
        return chosen(*block_weights(rows), min_tpr, max_fpr)
    pos, neg = _chosen(rows.scores, rows.positive), _chosen(rows.scores, ~rows.positive)
    return OF_SCORES[method](pos, neg, min_tpr, max_fpr)


def partial_auc_scorer(
    *, min_tpr: float = 0.0, max_fpr: float = 1.0, method: str = "area", pos_label: Any = None
) -> Any:
    """A scorer for scikit-learn's searches: `partial_auc_score` of ``decision_function``, else of ``predict_proba``.

    Parameters
    ----------
    min_tpr, max_fpr, method, pos_label
        As for `partial_auc_score`.

    Returns
    -------
    scorer
        Made by `sklearn.metrics.make_scorer`. With metadata routing on, ``set_score_request(sample_weight=True)`` makes
        it ask for weights.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from xrisk.metrics import partial_auc_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = partial_auc_scorer(min_tpr=0.5, max_fpr=0.5)
    >>> cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).round(2).tolist()
    [0.92, 0.96, 0.97]
    """
    min_tpr, max_fpr = region_of(min_tpr, max_fpr)
    method_of(method, min_tpr, None)
    of_label = {} if pos_label is None else {"pos_label": pos_label}
    options: dict[str, Any] = {"min_tpr": min_tpr, "max_fpr": max_fpr, "method": method} | of_label
    return make_scorer(partial_auc_score, response_method=("decision_function", "predict_proba"), **options)


def method_of(method: Any, min_tpr: float, sample_weight: Any) -> Callable[..., float]:
    """The score of blocks that a word stands for; refuses what it has no meaning for."""
    if not isinstance(method, str) or method not in OF_BLOCKS:
        raise ValueError(f"method must be one of {', '.join(OF_BLOCKS)}, got {method!r}")
    if method == "counts" and sample_weight is not None:
        raise ValueError(
            "sample_weight must be None for method='counts', which counts rows; method='area' takes weights"
        )
    if method == "mcclish" and min_tpr != 0:
        raise ValueError(f"min_tpr must be 0 for method='mcclish', which is known for max_fpr alone, got {min_tpr!r}")
    return OF_BLOCKS[method]


def _area_of_blocks(p: np.ndarray, q: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    return area_share(*roc_curve_of(p, q), min_tpr, max_fpr)


def _counts_of_blocks(p: np.ndarray, q: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    n_pos, n_neg = float(p.sum()), float(q.sum())
    k1, k2 = _lowest(n_pos, min_tpr), _highest(n_neg, max_fpr)
    up, along = np.cumsum(p), np.cumsum(q)
    low = np.minimum(p, np.maximum(up - (n_pos - k1), 0.0))
    high = np.minimum(q, np.maximum(k2 - (along - q), 0.0))
    return _area_of_blocks(low, high, 0.0, 1.0)


def _mcclish_of_blocks(p: np.ndarray, q: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    return _mcclish(_area_of_blocks(p, q, 0.0, max_fpr), max_fpr)


def _area_of_scores(pos: np.ndarray, neg: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    """The area from the scores of both classes, sorting only those between the borders.

    The curve leaves the region in the block of the negative at ``low`` and rises above min_tpr in that of the positive
    at ``high``: the borders cut no other block, and between the two pairs are counted in whole numbers.
    """
    if neg.max() < pos.min():
        return 1.0  # to the last digit, which sums of fractions may miss
    low = _largest(neg, math.ceil(max_fpr * len(neg)))
    high = _largest(pos, min(math.floor(min_tpr * len(pos)), len(pos) - 1) + 1)
    if low > high:
        return 0.0
    area = area_inside(*_line(pos, neg, high), min_tpr, max_fpr)
    if low < high:
        area += area_inside(*_line(pos, neg, low), min_tpr, max_fpr)
        above = int(np.count_nonzero(pos >= high))
        pos, neg, n_pos, n_neg = _within(pos, low, high), _within(neg, low, high), len(pos), len(neg)
        height = (_won(pos, neg) / 2.0 + above * len(neg)) / n_pos
        area += (height - min_tpr * len(neg)) / n_neg
    return share_of(area, min_tpr, max_fpr)


def _counts_of_scores(pos: np.ndarray, neg: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    k1, k2 = _lowest(len(pos), min_tpr), _highest(len(neg), max_fpr)
    pos = pos if k1 == len(pos) else np.partition(pos, k1 - 1)[:k1]
    neg = neg if k2 == len(neg) else np.partition(neg, len(neg) - k2)[len(neg) - k2 :]
    return _won(pos, neg) / (2.0 * k1 * k2)


def _mcclish_of_scores(pos: np.ndarray, neg: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    return _mcclish(_area_of_scores(pos, neg, 0.0, max_fpr), max_fpr)


OF_BLOCKS = {"area": _area_of_blocks, "counts": _counts_of_blocks, "mcclish": _mcclish_of_blocks}
OF_SCORES = {"area": _area_of_scores, "counts": _counts_of_scores, "mcclish": _mcclish_of_scores}


def _mcclish(share: float, max_fpr: float) -> float:
    chance = max_fpr / 2.0  # its share of the region; the whole fraction is divided by max_fpr
    return 0.5 * (1.0 + (share - chance) / (1.0 - chance))


def _lowest(n_pos: float, min_tpr: float) -> int:
    k = math.floor(n_pos * (1.0 - min_tpr) + 1e-9)  # 0.3 · 10 is to be 3
    if k == 0:
        raise ValueError(
            f"min_tpr must leave a positive below it for method='counts', got {min_tpr!r} for {n_pos:.0f} of them; "
            "method='area' takes part of one"
        )
    return k


def _highest(n_neg: float, max_fpr: float) -> int:
    k = math.floor(n_neg * max_fpr + 1e-9)
    if k == 0:
        raise ValueError(
            f"max_fpr must leave a negative below it for method='counts', got {max_fpr!r} for {n_neg:.0f} of them; "
            "method='area' takes part of one"
        )
    return k


def _largest(scores: np.ndarray, k: int) -> Any:
    """The k-th largest score."""
    if k == 1:
        return scores.max()
    if k == len(scores):
        return scores.min()
    return np.partition(scores, len(scores) - k)[len(scores) - k]


def _line(pos: np.ndarray, neg: np.ndarray, score: Any) -> tuple[np.ndarray, np.ndarray]:
    """FPR and TPR before and after the rows of one score."""
    fpr, tpr = (np.array([np.count_nonzero(s > score), np.count_nonzero(s >= score)]) / len(s) for s in (neg, pos))
    return fpr, tpr


def _within(scores: np.ndarray, low: Any, high: Any) -> np.ndarray:
    return _chosen(scores, (scores > low) & (scores < high))


def _chosen(scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return scores[np.flatnonzero(mask)]  # by numbers: a mask of no pattern is up to five times as slow


def _won(pos: np.ndarray, neg: np.ndarray) -> int:
    """Twice the pairs in which the positive is above, ties counting half; searches for the fewer in the more."""
    if len(pos) > len(neg):
        return 2 * len(pos) * len(neg) - _won(neg, pos)
    if len(pos) == 0:
        return 0
    pos, neg = np.sort(pos), np.sort(neg)
    first = np.flatnonzero(np.append(True, pos[1:] != pos[:-1]))  # of many ties one is looked for
    score, times = pos[first], np.diff(np.append(first, len(pos)))
    below = np.searchsorted(neg, score)
    tied = neg[np.minimum(below, len(neg) - 1)] == score  # where a search to the right finds something else
    ties = np.searchsorted(neg, score[tied], side="right") - below[tied]
    return 2 * int(times @ below) + int(times[tied] @ ties)
