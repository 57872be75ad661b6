"""Rankings: how well a score ranks rows, its numbers in words, and the ROC curves."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score, roc_curve

from xrisk.metrics import RocRegion, partial_auc_difference, partial_auc_interval, partial_auc_score, roc_region
from xrisk.metrics.roc import inside
from xrisk.report.figures import Panel, Scale
from xrisk.report.models import Quantity
from xrisk.report.numbers import THIN, percent
from xrisk.study import Arm, Verdict
from xrisk.study.verdict import CONFIDENCE, pairwise, resampling
from xrisk.tables import Part, RankedClasses

METRIC = "partial AUC"
LEAST = 5  # rows of a class to be judged by
HEIGHT = 340  # of a panel of ROC curves


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
    """How well scores (n,), high for positives, rank rows; ``positive`` (n,) says which rows are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.objectives.rankings import judge_ranking
    >>> from xrisk.tables import RankedClasses
    >>> positive = np.arange(100) % 4 == 0
    >>> found = judge_ranking(positive, positive + np.sin(np.arange(100)), RankedClasses("no", "yes", 0.5, 0.5))
    >>> found.low <= found.score <= found.high <= 1.0
    True
    """
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


def quantities(ranked: RankedClasses) -> tuple[Quantity, ...]:
    """What is shown of a score on some rows."""
    threshold = "caught" if ranked.max_fpr < 1.0 else "alarms"
    return (
        Quantity(METRIC, lambda found: area_text(found.score), interval_text),
        Quantity("AUC", lambda found: area_text(found.auc)),
        Quantity(threshold_name(ranked), lambda found: percent(getattr(found, threshold)), width=18),
    )


def area_text(value: float) -> str:
    """An area under a curve, in three digits."""
    return f"{value:.3f}"


def interval_text(score: RankingScore) -> str:
    """The ends of the interval of a partial AUC."""
    return f"{score.low:.2f}–{score.high:.2f}"


def rate(share: float) -> str:
    """A rate in per cent, with as many decimals as it needs."""
    return f"{100.0 * share:.4g}{THIN}%"


def region(ranked: RankedClasses) -> str:
    """The part of the ROC curve that counts: "TPR ≥ 50 %, FPR ≤ 50 %"."""
    limits = [f"TPR ≥ {rate(ranked.min_tpr)}"] if ranked.min_tpr > 0.0 else []
    limits += [f"FPR ≤ {rate(ranked.max_fpr)}"] if ranked.max_fpr < 1.0 else []
    return ", ".join(limits) or "the whole curve"


def chance(ranked: RankedClasses) -> float:
    """Partial AUC of a random score."""
    side = max(ranked.max_fpr - ranked.min_tpr, 0.0)
    return side**2 / 2.0 / ((1.0 - ranked.min_tpr) * ranked.max_fpr)


def threshold_name(ranked: RankedClasses) -> str:
    """What one threshold achieves: hits within the allowed false positives, or the cost of the required hits."""
    if ranked.max_fpr < 1.0:
        return f"positives caught at FPR ≤ {rate(ranked.max_fpr)}"
    return f"false positives at TPR ≥ {rate(ranked.min_tpr)}"


def roc_panels(arms: Sequence[Arm], shaded: Arm, ranked: RankedClasses) -> list[dict[str, Any]]:
    """The ROC curves, whole, and the region alone; the part of the region under one of them is filled."""
    whole = _roc_panel(arms, shaded, ranked, "ROC curves, the region in grey", Scale(0.0, 1.0), Scale(0.0, 1.0))
    if ranked.min_tpr == 0.0 and ranked.max_fpr == 1.0:
        return [whole]
    across, up = Scale(0.0, ranked.max_fpr), Scale(ranked.min_tpr, 1.0)
    return [whole, _roc_panel(arms, shaded, ranked, "The region alone", across, up)]


def _roc_panel(
    arms: Sequence[Arm], shaded: Arm, ranked: RankedClasses, title: str, across: Scale, up: Scale
) -> dict[str, Any]:
    panel = Panel(title, across, up, HEIGHT, ("false positive rate", "true positive rate"), (rate, rate))
    top, bottom = panel.curve([0.0, ranked.max_fpr], [1.0, ranked.min_tpr])
    diagonal, curves = np.array([0.0, 1.0]), [(arm.key, arm.test.curve) for arm in arms]
    return panel.drawn(
        [(key, panel.curve(*inside(curve.fpr, curve.tpr, up.low, across.high))) for key, curve in curves],
        region={"width": bottom[0], "height": bottom[1] - top[1]},
        area=panel.curve(*shaded.test.curve.polygon.T),
        chance=panel.curve(*inside(diagonal, diagonal, up.low, across.high)),
    )
