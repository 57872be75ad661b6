"""Two classes, three scores — logistic, balanced, ranking — trained on the same rows and judged by one rule."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from xrisk.estimators import GroupDROClassifier
from xrisk.metrics import partial_auc_difference, partial_auc_score, roc_region
from xrisk.study.fits import is_open, parameters, row_counts, strengths_of, timed, versions
from xrisk.study.ranked import (
    RankingArm,
    RankingStudy,
    class_counts,
    judge_ranking,
    region_options,
    resampling,
)
from xrisk.study.verdict import Difference, PairedVerdict, arm_name, finished, simplest
from xrisk.tables import RankedClasses
from xrisk.tables.rows import Part

RANKING_ARMS = {
    "logistic": ("Logistic", "the mean logistic loss over all rows"),
    "balanced": ("Balanced", "the mean over both classes of their mean logistic losses"),
    "ranking": ("Ranking", "the wrong order of the pairs that count"),
}
WORK = {"logistic": 1.0, "balanced": 1.0, "ranking": 6.0}  # rough shares of the time
Parts = tuple[Part, Part, Part]


def compare_rankings(
    model: Any,
    train: Part,
    validation: Part,
    test: Part | None = None,
    *,
    l2: tuple[float, ...] | None = None,
    classes: tuple[str, str] = ("False", "True"),
    title: str = "Rare positives",
    description: str = "",
    notes: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> RankingStudy:
    """Fit a score for a part of the ROC curve, and beside it two logistic regressions, and judge all three alike.

    Parameters
    ----------
    model : TwoWayPartialAUCClassifier or PartialAUCClassifier
        Not fitted; its parameters are the question.
    train, validation : Part
        Training and validation rows; ``y`` (n,) says which are positive. Their groups are not used.
    test : Part, optional
        The rows of the verdict; needed where there are several ``l2`` to choose from.
    l2 : tuple of float, optional
        Strengths to choose from, for each model that has one by its partial AUC on validation rows.
    classes : tuple of str
        What the negative and the positive class are called.
    title, description, notes, settings
        For the page.
    watch : function of a name and a share
        Told which model is to be fitted next, and the share of the work that is done.

    Returns
    -------
    RankingStudy

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.study import compare_rankings
    >>> from xrisk.tables import parts
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = X[:, 0] + rng.standard_normal(400) > 1.5
    >>> model = xrisk.TwoWayPartialAUCClassifier(anchor=0.1, start="logistic", random_state=0)
    >>> study = compare_rankings(model, *parts(X, y, y))
    >>> [arm.key for arm in study.arms]
    ['logistic', 'balanced', 'ranking']
    """
    strengths = strengths_of(model, l2, test)
    ranked = RankedClasses(*classes, float(model.min_tpr), float(getattr(model, "max_fpr", 1.0)))
    parts, said = (train, validation, validation if test is None else test), list(notes)
    ranked.check()
    class_counts(parts[2].y, ranked)  # says what is wrong before anything is fitted
    arms, done, total = [], 0.0, sum(WORK.values())
    for key, (name, _) in RANKING_ARMS.items():
        watch(name, done / total)
        tried = [_fitted(key, each, train, said) for each in _candidates(key, model, strengths)]
        arms.append(_arm(key, max(tried, key=lambda each: _score(each[0], validation, ranked)), parts, ranked))
        done += WORK[key]
    verdict = _verdict(arms, parts[2], ranked)
    watch("done", 1.0)
    return RankingStudy(
        title=title,
        description=description,
        ranked=ranked,
        arms=tuple(arms),
        verdict=verdict,
        judged_on="validation" if test is None else "test",
        sizes=_sizes(train, validation, test, ranked),
        settings={**parameters(model, strengths), **(settings or {})},
        notes=tuple(dict.fromkeys(said)),
        versions=versions(),
        seed=model.random_state,
    )


def _candidates(key: str, model: Any, strengths: tuple[float, ...]) -> list[Any]:
    """The models to choose from, not fitted; a bounded surrogate has no penalty."""
    if key == "ranking":
        chosen = strengths if model.surrogate != "sigmoid" else strengths[:1]
        return [clone(model).set_params(l2=each) for each in chosen]
    same = {name: getattr(model, name) for name in ("l1", "tol", "max_seconds", "random_state")}
    return [GroupDROClassifier("cvar", alpha=1.0, l2=each, **same) for each in strengths]


def _fitted(key: str, model: Any, train: Part, said: list[str]) -> tuple[Any, float]:
    """The model, fitted, and the seconds it took."""
    groups = {"logistic": {"groups": np.zeros(train.y.size)}, "balanced": {"groups": train.y}}  # alpha = 1: their mean
    seconds, caught = timed(lambda: model.fit(train.X, train.y, **groups.get(key, {})))
    said += [f"{RANKING_ARMS[key][0]}: {each.message}." for each in caught if key == "ranking" or is_open(each)]
    return model, seconds


def _score(model: Any, part: Part, ranked: RankedClasses) -> float:
    return partial_auc_score(part.y, model.decision_function(part.X), **region_options(ranked))


def _arm(key: str, fitted: tuple[Any, float], parts: Parts, ranked: RankedClasses) -> RankingArm:
    (name, words), (model, seconds), (train, validation, last) = RANKING_ARMS[key], fitted, parts
    scores, has_penalty = model.decision_function(last.X), key != "ranking" or model.surrogate != "sigmoid"
    return RankingArm(
        key=key,
        name=arm_name(name, model),
        words=words,
        l2=float(model.l2) if has_penalty else None,
        model=model,
        train=_score(model, train, ranked),
        validation=_score(model, validation, ranked),
        test=judge_ranking(last.y, scores, ranked),
        curve=roc_region(last.y, scores, **region_options(ranked)),
        seconds=seconds,
    )


def _verdict(arms: list[RankingArm], part: Part, ranked: RankedClasses) -> PairedVerdict:
    arms = [arms[k] for k in finished(arms)]
    if len(arms) < 2:
        return PairedVerdict(None, ())
    scores = [arm.model.decision_function(part.X) for arm in arms]
    options = {**region_options(ranked), **resampling(part.y.size)}
    differences = []
    for k in range(len(arms)):
        for j in range(k):
            found = partial_auc_difference(part.y, scores[k], scores[j], **options)
            differences.append(Difference(arms[k].key, arms[j].key, found.low, found.high))
    keys = tuple(arm.key for arm in arms)
    return PairedVerdict(
        simplest(keys, tuple(differences), [arm.test.score for arm in arms]),
        tuple(differences),
    )


def _sizes(train: Part, validation: Part, test: Part | None, ranked: RankedClasses) -> dict[str, Any]:
    counts = row_counts(train, validation, test)
    positives = [0 if part is None else int(part.y.sum()) for part in (train, validation, test)]
    kinds = ("train_positives", "validation_positives", "test_positives")
    total = sum(positives)
    classes = [
        {"name": ranked.negative, "rows": counts["rows"] - total},
        {"name": ranked.positive, "rows": total},
    ]
    return {**counts, **dict(zip(kinds, positives, strict=True)), "classes": classes}
