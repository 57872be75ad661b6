"""The tables and numbers of rankings: on the page, and on a terminal."""

from xrisk.report.models import Quantity
from xrisk.report.numbers import THIN, percent
from xrisk.study.ranking import RankingScore
from xrisk.tables import RankedClasses

METRIC = "partial AUC"


def quantities(ranked: RankedClasses) -> tuple[Quantity, ...]:
    """What is shown of a score on some rows."""
    return (
        Quantity(METRIC, lambda found: area_text(found.score), interval_text),
        Quantity("AUC", lambda found: area_text(found.auc)),
        Quantity(threshold_name(ranked), lambda found: threshold_text(found, ranked), width=18),
    )


def area_text(value: float) -> str:
    """An area under a curve, in three digits."""
    return f"{value:.3f}"


def interval_text(score: RankingScore) -> str:
    """The ends of the interval of a partial AUC."""
    return f"{score.low:.2f}–{score.high:.2f}"


def rate(share: float) -> str:
    """A rate in per cent, as it was asked for."""
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
    """What one threshold does: hits within the false positives allowed, or what the hits asked for cost."""
    if ranked.max_fpr < 1.0:
        return f"positives caught at FPR ≤ {rate(ranked.max_fpr)}"
    return f"false positives at TPR ≥ {rate(ranked.min_tpr)}"


def threshold_text(score: RankingScore, ranked: RankedClasses) -> str:
    """The number under `threshold_name`."""
    return percent(score.caught if ranked.max_fpr < 1.0 else score.alarms)
