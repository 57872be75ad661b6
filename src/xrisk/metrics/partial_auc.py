"""Partial AUC, one-way and two-way: exact, with ties and weights, and as a scorer."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import make_scorer

from xrisk.annotations import Vector
from xrisk.metrics.counting import between, classes_apart, twice_won
from xrisk.metrics.roc import (
    area_inside,
    area_share,
    block_weights,
    ranked_rows,
    region_of,
    roc_curve_of,
    share_of,
)

MERGED = 20  # ratio of the class sizes from which binary searches for the fewer scores beat a merge


def partial_auc_score(
    y_true: Vector,
    y_score: Vector,
    *,
    min_tpr: float = 0.0,
    max_fpr: float = 1.0,
    method: str = "area",
    sample_weight: Vector = None,
    pos_label: Any = None,
) -> float:
    """∫₀^max_fpr [TPR(f) − min_tpr]₊ df / ((1 − min_tpr) max_fpr): the share of the region under the ROC curve.

    Parameters
    ----------
    y_true : array (n,)
        Labels of two classes, of any kind.
    y_score : array (n,)
        Scores, high for positives. Only their order counts: they may be infinite, but not NaN.
    min_tpr : float in [0, 1)
        The region is above this true positive rate; 0 for a region bounded by ``max_fpr`` alone.
    max_fpr : float in (0, 1]
        The region is left of this false positive rate; 1 for a region bounded by ``min_tpr`` alone.
    method : {"area", "counts", "mcclish"}
        ``"area"`` is the formula above, 1 for a perfect ranking, 0 where the curve misses the region.
        ``"counts"`` is the AUC of the lowest ⌊n₊(1 − min_tpr)⌋ of the n₊ positives and the highest ⌊n₋ max_fpr⌋ of the
        n₋ negatives, with ties counting one half: what the papers on partial AUC report. It takes no weights.
        ``"mcclish"`` is ½(1 + (A − max_fpr²/2)/(max_fpr − max_fpr²/2)), A the area, so that chance has ½; it is
        what scikit-learn's ``roc_auc_score(max_fpr=…)`` gives, and has no ``min_tpr``.
    sample_weight : array (n,), optional
        Weights of the rows; rows of weight zero are left out.
    pos_label : label, optional
        The positive class; by default the greater of the two, as in scikit-learn.

    Returns
    -------
    float in [0, 1]

    Notes
    -----
    TPR(f) joins the points of all thresholds by straight lines. Rows with the same score are one such line: inside the
    region every tied pair counts one half, and a border cuts the line as if the decision on tied rows were random. So
    the area is continuous in both borders. Where n₊(1 − min_tpr) and n₋ max_fpr are whole numbers and no positive is
    tied with a negative across a border, ``"area"`` and ``"counts"`` are equal. Across a border ``"counts"`` gives one
    half to each tied pair of the chosen rows, whatever else is tied with them.

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
    apart, n_pos = classes_apart(rows.scores, rows.positive)
    return OF_SCORES[method](apart[:n_pos], apart[n_pos:], min_tpr, max_fpr)


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


def method_of(method: Any, min_tpr: float, sample_weight: Vector) -> Callable[..., float]:
    """The score of blocks of this name; refuses arguments that it does not take."""
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
    k1, k2 = _inside(n_pos, n_neg, min_tpr, max_fpr)
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
    n_pos, n_neg = len(pos), len(neg)
    (pos, p_low, p_high), (neg, q_low, q_high) = between(pos, low, high), between(neg, low, high)
    area = area_inside(_rates(q_high, n_neg), _rates(p_high, n_pos), min_tpr, max_fpr)
    if low < high:
        area += area_inside(_rates(q_low, n_neg), _rates(p_low, n_pos), min_tpr, max_fpr)
        height = (_won(pos, neg) / 2.0 + p_high[1] * len(neg)) / n_pos
        area += (height - min_tpr * len(neg)) / n_neg
    return share_of(area, min_tpr, max_fpr)


def _counts_of_scores(pos: np.ndarray, neg: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    k1, k2 = _inside(len(pos), len(neg), min_tpr, max_fpr)
    if k1 < len(pos):
        pos.partition(k1 - 1)
    if k2 < len(neg):
        neg.partition(len(neg) - k2)
    return _won(pos[:k1], neg[len(neg) - k2 :]) / (2.0 * k1 * k2)


def _mcclish_of_scores(pos: np.ndarray, neg: np.ndarray, min_tpr: float, max_fpr: float) -> float:
    return _mcclish(_area_of_scores(pos, neg, 0.0, max_fpr), max_fpr)


OF_BLOCKS = {"area": _area_of_blocks, "counts": _counts_of_blocks, "mcclish": _mcclish_of_blocks}
OF_SCORES = {"area": _area_of_scores, "counts": _counts_of_scores, "mcclish": _mcclish_of_scores}


def _mcclish(share: float, max_fpr: float) -> float:
    chance = max_fpr / 2.0  # its share of the region; the whole fraction is divided by max_fpr
    return 0.5 * (1.0 + (share - chance) / (1.0 - chance))


def _inside(n_pos: float, n_neg: float, min_tpr: float, max_fpr: float) -> tuple[int, int]:
    """How many positives, the lowest, and negatives, the highest, the region holds."""
    positives = _whole(n_pos, 1.0 - min_tpr, "min_tpr", min_tpr, "positive")
    return positives, _whole(n_neg, max_fpr, "max_fpr", max_fpr, "negative")


def _whole(n: float, share: float, name: str, border: float, kind: str) -> int:
    k = math.floor(n * share + 1e-9)  # 0.3 · 10 is to be 3
    if k == 0:
        raise ValueError(
            f"{name} must leave a {kind} below it for method='counts', got {border!r} for {n:.0f} of them; "
            "method='area' takes part of one"
        )
    return k


def _largest(scores: np.ndarray, k: int) -> Any:
    """The k-th largest score; they change places."""
    if k == 1:
        return scores.max()
    if k == len(scores):
        return scores.min()
    scores.partition(len(scores) - k)
    return scores[len(scores) - k]


def _rates(counts: tuple[int, int], n: int) -> np.ndarray:
    """FPR or TPR before and after the rows of one score."""
    return np.array(counts) / n


def _won(pos: np.ndarray, neg: np.ndarray) -> int:
    """Twice the number of pairs in order, with ties counting half; sorts both arrays."""
    pos.sort()
    neg.sort()
    few, many = (pos, neg) if len(pos) < len(neg) else (neg, pos)
    if MERGED * len(few) > len(many):
        return int(twice_won(pos, neg))
    found = sum(int(np.searchsorted(many, few, side).sum()) for side in ("left", "right"))
    return found if few is pos else 2 * len(pos) * len(neg) - found
