"""Rankings on the page and on a terminal: numbers, and the ROC curves."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xrisk.metrics.roc import inside
from xrisk.report.figures import Panel, Scale
from xrisk.report.models import Quantity
from xrisk.report.numbers import THIN, percent
from xrisk.study import Arm
from xrisk.tables import RankedClasses

METRIC = "partial AUC"
HEIGHT = 340  # of a panel of ROC curves


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


def interval_text(score: Any) -> str:
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
