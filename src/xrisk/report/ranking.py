"""A page about a study of rankings: verdict, ROC curves, the region that counts."""

import os
from functools import partial
from typing import Any

import numpy as np

from xrisk.metrics.roc import inside
from xrisk.report.figures import Scale, marks_figure, placed, ticks
from xrisk.report.page import filled, write_page
from xrisk.report.phrases import (
    SIMPLEST,
    THIN,
    Card,
    Proof,
    compared,
    differences,
    not_compared,
    percent,
    proof_of,
    recommended,
)
from xrisk.study import RankingScore, RankingStudy
from xrisk.study.ranked import METRIC
from xrisk.study.verdict import is_cut_short
from xrisk.tables import RankedClasses

HEIGHT = 340  # of a panel of curves


def render_ranking(study: RankingStudy, *, title: str | None = None) -> str:
    """A page of HTML about a study of rankings, as `render` makes one about groups.

    Parameters
    ----------
    study : RankingStudy
        From `xrisk.study.compare_rankings`.
    title : str, optional
        Of the page; by default that of the study.

    Returns
    -------
    str
    """
    return filled("ranking.html", [study.to_dict()], title=title or study.title, view=_view(study), study=study)


def write_ranking_report(path: str | os.PathLike[str], study: RankingStudy, *, title: str | None = None) -> None:
    """Write the page of `render_ranking` to a file, whole or not at all."""
    write_page(path, render_ranking(study, title=title))


def _view(study: RankingStudy) -> dict[str, Any]:
    """What the template shows of a study."""
    return {
        "metric": METRIC,
        "summary": summary(study),
        "objective": objective(study),
        "verdict": verdict(study),
        "scored": scored(study),
        "proof": proof(study),
        "cards": cards(study),
        "extra": _headed(extra_title(study.ranked)),
        "rows": [
            {"arm": arm, "score": number(arm.test.score), "interval": interval(arm.test), "auc": number(arm.test.auc)}
            | {"train": number(arm.train), "extra": extra(arm.test, study.ranked)}
            for arm in study.arms
        ],
        "differences": differences(study, signed),
        "score_figure": score_figure(study),
        "panels": curve_panels(study),
    }


def number(value: float) -> str:
    """An area under a curve, in three digits."""
    return f"{value:.3f}"


def signed(gain: float) -> str:
    """A gain in partial AUC."""
    return f"{gain:+.3f}"


def interval(score: RankingScore) -> str:
    """The ends of the interval of a partial AUC."""
    return f"{score.low:.2f}–{score.high:.2f}"


def rate(share: float) -> str:
    """A rate in per cent, as it was asked for."""
    return f"{100.0 * share:.4g}{THIN}%"


def region(ranked: RankedClasses) -> str:
    """The part of the ROC curve that counts: "TPR ≥ 50 %, FPR ≤ 50 %"."""
    said = [f"TPR ≥ {rate(ranked.min_tpr)}"] if ranked.min_tpr > 0.0 else []
    said += [f"FPR ≤ {rate(ranked.max_fpr)}"] if ranked.max_fpr < 1.0 else []
    return ", ".join(said) or "the whole curve"


def chance(ranked: RankedClasses) -> float:
    """Partial AUC of a score that knows nothing."""
    side = max(ranked.max_fpr - ranked.min_tpr, 0.0)
    return side**2 / 2.0 / ((1.0 - ranked.min_tpr) * ranked.max_fpr)


def extra_title(ranked: RankedClasses) -> str:
    """What stands beside the areas: hits within the false positives allowed, or what the hits asked for cost."""
    if ranked.max_fpr < 1.0:
        return f"positives caught at FPR ≤ {rate(ranked.max_fpr)}"
    return f"false positives at TPR ≥ {rate(ranked.min_tpr)}"


def _headed(words: str) -> str:
    return words[0].upper() + words[1:]


def extra(score: RankingScore, ranked: RankedClasses) -> str:
    """The number under `extra_title`."""
    return percent(score.caught if ranked.max_fpr < 1.0 else score.alarms)


def judged(study: RankingStudy) -> str:
    """The rows of the verdict: "500 validation rows, 35 of them positive"."""
    found = study.asked.test
    return f"{found.positives + found.negatives:,} {study.judged_on} rows, {found.positives:,} of them positive"


def summary(study: RankingStudy) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    each = ", ".join(f"{arm.name} {number(arm.test.score)}" for arm in study.arms)
    return f"Partial AUC ({region(study.ranked)}): {each}. {recommended(study)}"


def verdict(study: RankingStudy) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    pairs = "; ".join(compared(study, each, signed) for each in study.verdict.differences)
    said = f"Judged by {METRIC} ({region(study.ranked)}) on {judged(study)}; with 95 % confidence: {pairs}."
    return f"{not_compared(study)}{said} {recommended(study, SIMPLEST)}"


def objective(study: RankingStudy) -> str:
    """What the ranking model is after, in a sentence or two."""
    ranked = study.ranked
    low = f"the {rate(1.0 - ranked.min_tpr)} of lowest score" if ranked.min_tpr > 0.0 else "all"
    high = f"the {rate(ranked.max_fpr)} of highest score" if ranked.max_fpr < 1.0 else "all"
    return (
        f"A linear score that puts rows of class {ranked.positive} above those of class {ranked.negative}, where it "
        f"counts: {region(ranked)}. Of the positives {low} count, of the negatives {high}. What it minimises is a "
        f"{'convex' if study.is_convex else 'bounded'} surrogate ({study.asked.model.surrogate}) of the pairs in wrong "
        "order."
    )


def scored(study: RankingStudy) -> str:
    """What a partial AUC is, and that of a score that knows nothing."""
    return (
        "A partial AUC is the share of the region that lies under the ROC curve: 1 for a perfect ranking, "
        f"{chance(study.ranked):.3g} for a score that knows nothing."
    )


def proof(study: RankingStudy) -> Proof:
    """What is proved of the ranking model: the certificate of a convex surrogate, nothing of a bounded one."""
    model = study.asked.model
    if study.is_convex:
        return proof_of(model)
    start = "logistic regression" if model.start_ == "logistic" else "balanced logistic regression"
    came = f"Of the training pairs that count {percent(model.training_score_)} are in order, at its start, {start}, "
    came += f"{percent(model.start_score_)}."
    chosen = (
        " Cross-validation found nothing sure to be better than the start, so the model ranks as the start does."
        if np.isinf(model.anchor_)
        else f" It is held to its start with strength {model.anchor_:g}."
    )
    limit = "" if not is_cut_short(model) else f" The fit was cut short: {model.stop_}."
    text = (
        "A bounded surrogate is not convex and has no certificate: the fit ends in a local optimum or short of "
        f"one, and another model may be better on the training rows too. {came}{chosen}{limit}"
    )
    return Proof(False, "Nothing is proved of the optimum", text)


def cards(study: RankingStudy) -> list[Card]:
    """The numbers one would remember."""
    return [
        Card("Partial AUC", tuple((arm.name, number(arm.test.score)) for arm in study.arms)),
        Card("AUC", tuple((arm.name, number(arm.test.auc)) for arm in study.arms)),
        Card(
            _headed(extra_title(study.ranked)), tuple((arm.name, extra(arm.test, study.ranked)) for arm in study.arms)
        ),
    ]


def score_figure(study: RankingStudy) -> dict[str, Any]:
    """The partial AUC of every model with its interval."""
    found = [(arm, arm.test.score, arm.test.low, arm.test.high) for arm in study.arms]
    texts = [(number(arm.test.score), interval(arm.test)) for arm in study.arms]
    return marks_figure(found, texts, 1.0)


def curve_panels(study: RankingStudy) -> list[dict[str, Any]]:
    """The ROC curves, whole, and the region alone; under the curve of the ranking model its share is filled."""
    ranked = study.ranked
    whole = _panel(study, Scale(0.0, 1.0), Scale(0.0, 1.0)) | {"title": "ROC curves, the region in grey"}
    if ranked.min_tpr == 0.0 and ranked.max_fpr == 1.0:
        return [whole]
    return [
        whole,
        _panel(study, Scale(0.0, ranked.max_fpr), Scale(ranked.min_tpr, 1.0)) | {"title": "The region alone"},
    ]


def _panel(study: RankingStudy, across: Scale, up: Scale) -> dict[str, Any]:
    ranked = study.ranked
    place = partial(placed, across, up, HEIGHT)
    lines = [(arm.key, place(*inside(arm.curve.fpr, arm.curve.tpr, up.low, across.high))) for arm in study.arms]
    top, bottom = place([0.0, ranked.max_fpr], [1.0, ranked.min_tpr])
    names = {"across": ticks(*across), "up": ticks(*up)}
    return {
        "height": HEIGHT,
        "names": ("false positive rate", "true positive rate"),
        "lines": lines,
        "area": place(*study.asked.curve.polygon.T),
        "region": {"width": bottom[0], "height": bottom[1] - top[1]},
        "chance": place(*inside(np.array([0.0, 1.0]), np.array([0.0, 1.0]), up.low, across.high)),
        "across": [{"at": across.at(v), "name": percent(v, _digits(names["across"]))} for v in names["across"]],
        "up": [{"y": place([0.0], [v])[0][1], "name": percent(v, _digits(names["up"]))} for v in names["up"]],
    }


def _digits(values: list[float]) -> int:
    """Decimals that tell the marks of an axis in per cent apart."""
    return next((k for k in range(4) if all(abs(100.0 * v - round(100.0 * v, k)) < 1e-9 for v in values)), 4)
