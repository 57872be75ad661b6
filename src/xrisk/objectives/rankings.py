"""How well a score ranks rows: the partial AUC with its interval, and what a threshold catches or costs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from xrisk.metrics import RocRegion, partial_auc_difference, partial_auc_interval, partial_auc_score, roc_region
from xrisk.study import Arm, Verdict
from xrisk.study.verdict import CONFIDENCE, pairwise, resampling
from xrisk.tables import Part, RankedClasses

LEAST = 5  # rows of a class to be judged by


class RankingScore(NamedTuple):
    """How well a score ranks some rows."""

    score: float  # partial AUC
    low: float  # bounds of confidence 95 %
    high: float
    auc: float
    caught: float  # share of the positives above the best threshold of false positive rate at most max_fpr
    alarms: float  # the least share of the negatives above a threshold of true positive rate at least min_tpr
    positives: int
    negatives: int
    curve: RocRegion

    def to_dict(self) -> dict[str, Any]:
        """All but the curve."""
        return {name: value for name, value in self._asdict().items() if name != "curve"}


def judge_ranking(positive: np.ndarray, scores: np.ndarray, ranked: RankedClasses) -> RankingScore:
    """How well scores (n,), high for positives, rank rows; ``positive`` (n,) says which rows are positive."""
    region, counts = ranked.region(), class_counts(positive, ranked)
    low, high = partial_auc_interval(positive, scores, **region, **_resampled(positive.size))
    fpr, tpr, _ = roc_curve(positive, scores, drop_intermediate=False)
    return RankingScore(
        partial_auc_score(positive, scores, **region),
        low,
        high,
        float(roc_auc_score(positive, scores)),
        float(tpr[fpr <= ranked.max_fpr + 1e-12].max()),
        float(fpr[tpr >= ranked.min_tpr - 1e-12].min()),
        *counts,
        roc_region(positive, scores, **region),
    )


def ranking_verdict(arms: Sequence[Arm], part: Part, ranked: RankedClasses) -> Verdict:
    """By bounds on the differences of partial AUC, both models on the same draws of rows."""
    scores = {arm.key: arm.model.decision_function(part.X) for arm in arms}
    options = {**ranked.region(), **_resampled(part.y.size)}

    def difference(one: str, other: str) -> tuple[float, float]:
        return partial_auc_difference(part.y, scores[one], scores[other], **options)[1:]

    return pairwise(tuple(scores), difference, [arm.test.score for arm in arms])


def class_counts(positive: np.ndarray, ranked: RankedClasses) -> tuple[int, int]:
    """How many rows are positive and negative; too few of a class to be judged by are refused."""
    counts = int(positive.sum()), int((~positive).sum())
    for name, rows in zip((ranked.positive, ranked.negative), counts, strict=True):
        if rows < LEAST:
            raise ValueError(f"the rows to be judged by must hold at least {LEAST} of class {name!r}, they hold {rows}")
    return counts


def _resampled(rows: int) -> dict[str, Any]:
    return {"confidence": CONFIDENCE, "n_resamples": resampling(rows), "random_state": 0}
