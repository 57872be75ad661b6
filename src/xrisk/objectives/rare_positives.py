"""Rare positives: logistic, balanced and ranking scores, judged by the part of the ROC curve that counts."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score, roc_curve

from xrisk.estimators import GroupDROClassifier, PartialAUCClassifier, TwoWayPartialAUCClassifier
from xrisk.estimators.partial_auc import SURROGATES
from xrisk.metrics import RocRegion, partial_auc_difference, partial_auc_interval, partial_auc_score, roc_region
from xrisk.metrics.roc import inside
from xrisk.objectives.shared import POSITIVE, described
from xrisk.phrases import counted
from xrisk.report.figures import Scale, marks_figure, placed, ticks
from xrisk.report.phrases import (
    SIMPLEST,
    THIN,
    Card,
    Proof,
    compared,
    differences,
    headed,
    not_compared,
    percent,
    proof_of,
    recommended,
)
from xrisk.study.objective import Choice, Command, Parts, Plan, Question, Sheet, SheetColumn, Told, resampling
from xrisk.study.study import Study, certificate_dict, is_open, parameters, row_counts
from xrisk.study.verdict import CONFIDENCE, Verdict, is_cut_short, pairwise
from xrisk.tables import Part, RankedClasses
from xrisk.tables.prepare import Prepared, prepare_classes

METRIC = "partial AUC"
LEAST = 5  # rows of a class to be judged by
FEW = 10  # rows of a class in the region, below which intervals are too short
HEIGHT = 340  # of a panel of curves
HALF = 0.5  # the rates where none is given


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


@dataclass(frozen=True)
class RarePositives:
    """What ranks the positives first, in the part of the ROC curve that counts?

    Beside the model stand two logistic regressions, of the rows and of classes that count the same.

    Parameters
    ----------
    model : TwoWayPartialAUCClassifier or PartialAUCClassifier
        Not fitted; its parameters are the question.
    classes : tuple of str
        What the negative and the positive class are called. The targets of the rows say which are positive.
    """

    model: Any
    classes: tuple[str, str] = ("False", "True")

    title: ClassVar[str] = "Rare positives"
    template: ClassVar[str] = "rare_positives.html"
    metric: ClassVar[str] = METRIC
    chosen_by: ClassVar[str] = "the partial AUC of the validation rows"
    rule: ClassVar[str] = (
        "the models are judged by the partial AUC in the range that was asked for; we recommend the simplest "
        "model that no other outperforms with 95 % confidence"
    )

    @property
    def ranked(self) -> RankedClasses:
        """The classes and the region."""
        return RankedClasses(*self.classes, float(self.model.min_tpr), float(getattr(self.model, "max_fpr", 1.0)))

    @property
    def is_convex(self) -> bool:
        """Whether the surrogate is convex, so that its optimum can be proved."""
        return self.model.surrogate != "sigmoid"

    def plans(self) -> dict[str, Plan]:
        return PLANS

    def asked(self) -> str:
        return "ranking"

    def taken(self, parts: Parts) -> Parts:
        self.ranked.check()
        class_counts(parts[2].y, self.ranked)
        return parts

    def candidates(self, key: str, l2: tuple[float, ...]) -> list[Any]:
        if key == "ranking":
            return [clone(self.model).set_params(l2=each) for each in (l2 if self.is_convex else l2[:1])]
        return logistic_models(self.model, l2)

    def warm(self, key: str, model: Any, train: Part) -> None:
        """Nothing is told against time."""

    def fit(self, key: str, model: Any, train: Part) -> None:
        try:
            model.fit(train.X, train.y, **groups_of(key, train))
        except TypeError as error:  # of a convex problem that a certificate does not know
            if not self.is_convex:
                raise
            raise ValueError(f"--surrogate {self.model.surrogate} cannot be used here: {error}; sigmoid can") from error

    def strength(self, key: str, model: Any) -> float | None:
        return float(model.l2) if key != "ranking" or self.is_convex else None

    def note(self, key: str, name: str, warning: Any) -> str | None:
        return f"{name}: {warning.message}." if key == "ranking" or is_open(warning) else None

    def measure(self, model: Any, part: Part) -> float:
        return partial_auc_score(part.y, model.decision_function(part.X), **region_options(self.ranked))

    def value(self, measured: float) -> float:
        return measured

    def judge(self, model: Any, part: Part) -> RankingScore:
        return judge_ranking(part.y, model.decision_function(part.X), self.ranked)

    def verdict(self, arms: list[Any], part: Part) -> Verdict:
        return ranking_verdict(arms, part, self.ranked)

    def found(self, arms: list[Any], parts: Parts) -> None:
        return None

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        return class_sizes((train, validation, test), self.classes)

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        return parameters(self.model, l2)

    def caution(self, study: Study) -> str:
        return few_rows(study.asked.test, self.ranked, study.judged_on)

    def numbers(self, study: Study) -> dict[str, Any]:
        model = study.asked.model
        told = certificate_dict(model)
        return {
            "task": "ranking",
            "asked": self.ranked._asdict(),
            "certificate": told["certificate"] if self.is_convex else None,
            "certified": self.is_convex and told["certified"],
            "stop": told["stop"],
            "start": None if self.is_convex else {"model": model.start_, "train": float(model.start_score_)},
            "anchor": float(model.anchor_) if np.isfinite(model.anchor_) else None,
        }

    def numbers_of(self, arm: Any) -> dict[str, Any]:
        return {"train": arm.train, "validation": arm.validation, "test": arm.test.to_dict()}

    def aim(self) -> str:
        """What the ranking model is after, in a sentence or two."""
        kind = "convex" if self.is_convex else "bounded"
        surrogate = f"What it minimises is a {kind} surrogate ({self.model.surrogate}) of the pairs in wrong order."
        return f"{ordered(self.ranked)} {surrogate}"

    def proof(self, study: Study) -> Proof:
        """What is proved of the ranking model: the certificate of a convex surrogate, nothing of a bounded one."""
        model = study.asked.model
        return proof_of(model) if self.is_convex else unproved(model)

    def view(self, study: Study) -> dict[str, Any]:
        return {
            "summary": summary(study),
            "objective": self.aim(),
            "beside": BESIDE,
            "verdict": verdict(study),
            "scored": scored(study),
            "proof": self.proof(study),
            "cards": cards(study),
            "extra": headed(extra_title(self.ranked)),
            "rows": [
                {"arm": arm, "score": number(arm.test.score), "interval": interval(arm.test)}
                | {"auc": number(arm.test.auc), "train": number(arm.train), "extra": extra(arm.test, self.ranked)}
                for arm in study.arms
            ],
            "differences": differences(study, signed),
            "score_figure": score_figure(study),
            "panels": curve_panels(study),
        }

    def sheet(self, study: Study, is_wide: bool) -> Sheet:
        """Models in rows: partial AUC with its interval, AUC, and what a threshold catches or costs."""
        found, wide = study.asked.test, (SheetColumn("minimises", is_number=False, is_dim=True),) if is_wide else ()
        many = counted(found.positives + found.negatives, f"{study.judged_on} row", f"{study.judged_on} rows")
        title = f"{METRIC} ({region(self.ranked)}) on {many}, {found.positives:,} positive"
        lines = [(arm.name, *cells(arm.test, self.ranked), *((arm.words,) if is_wide else ())) for arm in study.arms]
        bold = () if study.recommended is None else (study.recommended.name,)
        return Sheet(title, (*columns(self.ranked), *wide), (tuple(lines),), bold)

    def sentences(self, study: Study) -> list[str]:
        found = self.proof(study)
        return [f"{found.headline}. {found.text}", verdict(study)]

    def kept(self, train: Part) -> dict[str, Any]:
        return {"ranked": self.ranked}


PLANS = {
    "logistic": Plan("Logistic", "the mean logistic loss over all rows", 1.0),
    "balanced": Plan("Balanced", "the mean over both classes of their mean logistic losses", 1.0),
    "ranking": Plan("Ranking", "the wrong order of the pairs that count", 6.0),
}
BESIDE = (
    f"Beside it, on the same training rows: logistic regression, which minimises {PLANS['logistic'].words}, and "
    f"balanced logistic regression, which minimises {PLANS['balanced'].words}."
)


def logistic_models(model: Any, l2: tuple[float, ...]) -> list[Any]:
    """Logistic regressions that take as long as the model may: all rows are one group, or the classes are."""
    same = {name: getattr(model, name) for name in ("l1", "tol", "max_seconds", "random_state")}
    return [GroupDROClassifier("cvar", alpha=1.0, l2=each, **same) for each in l2]


def groups_of(key: str, train: Part) -> dict[str, Any]:
    """Groups for the logistic models, which with alpha = 1 minimise their mean."""
    return {"logistic": {"groups": np.zeros(train.y.size)}, "balanced": {"groups": train.y}}.get(key, {})


def class_sizes(parts: tuple[Part, Part, Part | None], classes: tuple[str, str]) -> dict[str, Any]:
    """What the rows are, for the page: how many of each kind are positive."""
    counts = row_counts(*parts)
    positives = [0 if part is None else int(part.y.sum()) for part in parts]
    kinds = ("train_positives", "validation_positives", "test_positives")
    sizes = zip(classes, (counts["rows"] - sum(positives), sum(positives)), strict=True)
    named = [{"name": name, "rows": rows} for name, rows in sizes]
    return {**counts, **dict(zip(kinds, positives, strict=True)), "classes": named}


def judge_ranking(positive: np.ndarray, scores: np.ndarray, ranked: RankedClasses) -> RankingScore:
    """The partial AUC with its interval, and what stands beside it in a table.

    Parameters
    ----------
    positive : array (n,)
        Whether a row is of the positive class.
    scores : array (n,)
        High for positives.
    ranked : RankedClasses
        The region.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.objectives.rare_positives import judge_ranking
    >>> from xrisk.tables import RankedClasses
    >>> positive = np.arange(100) % 4 == 0
    >>> found = judge_ranking(positive, positive + np.sin(np.arange(100)), RankedClasses("no", "yes", 0.5, 0.5))
    >>> found.low <= found.score <= found.high <= 1.0
    True
    """
    region, counts = region_options(ranked), class_counts(positive, ranked)
    low, high = partial_auc_interval(positive, scores, **region, **_drawn(positive.size))
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


def ranking_verdict(arms: list[Any], part: Part, ranked: RankedClasses) -> Verdict:
    """By bounds on the differences of partial AUC, both models on the same draws of rows."""
    scores = {arm.key: arm.model.decision_function(part.X) for arm in arms}
    options = {**region_options(ranked), **_drawn(part.y.size)}

    def difference(one: str, other: str) -> tuple[float, float]:
        found = partial_auc_difference(part.y, scores[one], scores[other], **options)
        return found.low, found.high

    return pairwise(tuple(scores), difference, [arm.test.score for arm in arms])


def class_counts(positive: np.ndarray, ranked: RankedClasses) -> tuple[int, int]:
    """How many rows are positive and negative; too few of a class to be judged by are refused."""
    counts = int(positive.sum()), int((~positive).sum())
    for name, rows in zip((ranked.positive, ranked.negative), counts, strict=True):
        if rows < LEAST:
            raise ValueError(f"the rows to be judged by must hold at least {LEAST} of class {name!r}, they hold {rows}")
    return counts


def region_options(ranked: RankedClasses) -> dict[str, Any]:
    """The region, as options of the metrics."""
    return {"min_tpr": ranked.min_tpr, "max_fpr": ranked.max_fpr}


def _drawn(rows: int) -> dict[str, Any]:
    return {"confidence": CONFIDENCE, "n_resamples": resampling(rows), "random_state": 0}


def few_rows(score: RankingScore, ranked: RankedClasses, judged_on: str) -> str:
    """A warning where few rows of a class decide; nothing where there are enough."""
    counts = {
        ranked.positive: (score.positives, score.positives * (1.0 - ranked.min_tpr)),
        ranked.negative: (score.negatives, score.negatives * ranked.max_fpr),
    }
    name = min(counts, key=lambda each: counts[each][1])
    rows, count = counts[name]
    if count >= FEW:
        return ""
    return (
        f"Few rows decide: of {rows:,} {judged_on} rows of class {name!r} some {max(count, 1.0):.0f} lie in the "
        f"region, fewer than {FEW}. The intervals are too short, and another draw of rows may end otherwise."
    )


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


def extra(score: RankingScore, ranked: RankedClasses) -> str:
    """The number under `extra_title`."""
    return percent(score.caught if ranked.max_fpr < 1.0 else score.alarms)


def columns(ranked: RankedClasses) -> tuple[SheetColumn, ...]:
    """Of a table of scores."""
    interval = SheetColumn("95 % interval", is_dim=True)
    return (
        SheetColumn("model", is_number=False),
        SheetColumn(METRIC),
        interval,
        SheetColumn("AUC"),
        SheetColumn(extra_title(ranked), width=18),
    )


def cells(score: RankingScore, ranked: RankedClasses) -> tuple[str, ...]:
    """A row of it, without the name."""
    return number(score.score), interval(score), number(score.auc), extra(score, ranked)


def judged(study: Study) -> str:
    """The rows of the verdict: "500 validation rows, 35 of them positive"."""
    found = study.asked.test
    return f"{found.positives + found.negatives:,} {study.judged_on} rows, {found.positives:,} of them positive"


def summary(study: Study) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    each = ", ".join(f"{arm.name} {number(arm.test.score)}" for arm in study.arms)
    return f"Partial AUC ({region(study.objective.ranked)}): {each}. {recommended(study)}"


def verdict(study: Study) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    pairs = "; ".join(compared(study, each, signed) for each in study.verdict.differences)
    said = f"Judged by {METRIC} ({region(study.objective.ranked)}) on {judged(study)}; with 95 % confidence: {pairs}."
    return f"{not_compared(study)}{said} {recommended(study, SIMPLEST)}"


def ordered(ranked: RankedClasses) -> str:
    """Which rows are to be above which, and which of them count."""
    low = f"the {rate(1.0 - ranked.min_tpr)} of lowest score" if ranked.min_tpr > 0.0 else "all"
    high = f"the {rate(ranked.max_fpr)} of highest score" if ranked.max_fpr < 1.0 else "all"
    return (
        f"A linear score that puts rows of class {ranked.positive} above those of class {ranked.negative}, where it "
        f"counts: {region(ranked)}. Of the positives {low} count, of the negatives {high}."
    )


def scored(study: Study) -> str:
    """What a partial AUC is, and that of a score that knows nothing."""
    return (
        "A partial AUC is the share of the region that lies under the ROC curve: 1 for a perfect ranking, "
        f"{chance(study.objective.ranked):.3g} for a score that knows nothing."
    )


def unproved(model: Any) -> Proof:
    """What is known of a model of a bounded surrogate."""
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


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    ranked = study.objective.ranked
    return [
        Card("Partial AUC", tuple((arm.name, number(arm.test.score)) for arm in study.arms)),
        Card("AUC", tuple((arm.name, number(arm.test.auc)) for arm in study.arms)),
        Card(headed(extra_title(ranked)), tuple((arm.name, extra(arm.test, ranked)) for arm in study.arms)),
    ]


def score_figure(study: Study) -> dict[str, Any]:
    """The partial AUC of every model with its interval."""
    found = [(arm, arm.test.score, arm.test.low, arm.test.high) for arm in study.arms]
    texts = [(number(arm.test.score), interval(arm.test)) for arm in study.arms]
    return marks_figure(found, texts, 1.0)


def curve_panels(study: Study) -> list[dict[str, Any]]:
    """The ROC curves, whole, and the region alone; under the curve of the ranking model its share is filled."""
    ranked = study.objective.ranked
    whole = _panel(study, Scale(0.0, 1.0), Scale(0.0, 1.0)) | {"title": "ROC curves, the region in grey"}
    if ranked.min_tpr == 0.0 and ranked.max_fpr == 1.0:
        return [whole]
    return [
        whole,
        _panel(study, Scale(0.0, ranked.max_fpr), Scale(ranked.min_tpr, 1.0)) | {"title": "The region alone"},
    ]


def _panel(study: Study, across: Scale, up: Scale) -> dict[str, Any]:
    ranked = study.objective.ranked
    place = partial(placed, across, up, HEIGHT)
    curves = [(arm.key, arm.test.curve) for arm in study.arms]
    lines = [(key, place(*inside(curve.fpr, curve.tpr, up.low, across.high))) for key, curve in curves]
    top, bottom = place([0.0, ranked.max_fpr], [1.0, ranked.min_tpr])
    names = {"across": ticks(*across), "up": ticks(*up)}
    return {
        "height": HEIGHT,
        "names": ("false positive rate", "true positive rate"),
        "lines": lines,
        "area": place(*study.asked.test.curve.polygon.T),
        "region": {"width": bottom[0], "height": bottom[1] - top[1]},
        "chance": place(*inside(np.array([0.0, 1.0]), np.array([0.0, 1.0]), up.low, across.high)),
        "across": [{"at": across.at(v), "name": percent(v, _digits(names["across"]))} for v in names["across"]],
        "up": [{"y": place([0.0], [v])[0][1], "name": percent(v, _digits(names["up"]))} for v in names["up"]],
    }


def _digits(values: list[float]) -> int:
    """Decimals that tell the marks of an axis in per cent apart."""
    return next((k for k in range(4) if all(abs(100.0 * v - round(100.0 * v, k)) < 1e-9 for v in values)), 4)


def chosen_classes(prepared: Prepared, options: dict[str, Any]) -> tuple[tuple[str, str], str]:
    """The negative and the positive class, and a note that says which; the greater is positive unless told."""
    low, high = np.unique(prepared.train.groups).tolist()
    positive = high if options["positive"] is None else options["positive"]
    if positive not in (low, high):
        raise ValueError(f"--positive must be one of the classes {low!r} and {high!r}, got {positive!r}")
    share = float(np.mean(prepared.train.y == positive))
    said = f"Positive is {positive!r}, {100.0 * share:.3g} % of the training rows"
    is_odd = share > HALF and options["positive"] is None
    often = " and the more frequent class; --positive names another" if is_odd else ""
    return (low if positive == high else high, positive), f"{said}{often}."


def ask_of(objective: Any, prepared: Prepared, options: dict[str, Any], note: str) -> Question:
    """The question of a command line to rows of two classes."""
    classes, last = objective.classes, prepared.test

    def positive(part: Part) -> Part:
        return part._replace(y=part.y == classes[1])

    return Question(
        objective,
        (positive(prepared.train), positive(prepared.validation), None if last is None else positive(last)),
        title=f"{options['target']}: {classes[1]} before {classes[0]}",
        description=described(prepared, options, "rank {target} by {columns}"),
        settings={"objective": options["objective"], "validation": options["validation"]},
        notes=(note, *prepared.notes),
    )


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    classes, note = chosen_classes(prepared, options)
    rates = ("min_tpr", "max_fpr") if options["objective"] == "two-way-partial-auc" else ("min_tpr",)
    estimator: Any = TwoWayPartialAUCClassifier if len(rates) > 1 else PartialAUCClassifier
    model = estimator(
        **{name: HALF if options[name] is None else options[name] for name in rates},
        **{name: options[name] for name in ("surrogate", "l1", "tol", "max_seconds")},
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    return ask_of(RarePositives(model, classes), prepared, options, note)


def evaluate(fitted: Any, frame: Any, y: np.ndarray, *, title: str, model: str, options: dict[str, Any]) -> Told:
    """The partial AUC, with its interval, of a model on another table; rows of other classes are left out."""
    ranked = fitted.ranked
    known = np.isin(y, (ranked.negative, ranked.positive))
    if not known.any():
        raise ValueError(f"{title}: no row is of a class that {model} knows")
    strange, rows = sorted(set(y[~known].tolist())), fitted.encoding.encode(frame[known])
    found = judge_ranking(y[known] == ranked.positive, fitted.model.decision_function(rows), ranked)
    caution, many = few_rows(found, ranked, "judged"), int(known.sum())
    numbers = {"rows": many, "metric": METRIC, "asked": ranked._asdict(), **found.to_dict(), "caution": caution or None}
    named = f"{title}, {counted(many, 'row', 'rows')}, {found.positives:,} positive ({region(ranked)})"
    said = f"Partial AUC ({region(ranked)}) {number(found.score)}, 95 % interval {interval(found)}"
    return Told(
        {**numbers, "classes_not_trained_on": strange},
        Sheet(named, columns(ranked), (((model, *cells(found, ranked)),),)),
        (left_out(strange),) if strange else (),
        tuple(filter(None, (caution, f"{said}; positive is {ranked.positive}."))),
    )


def left_out(strange: list[str]) -> str:
    """The note that rows of classes a model does not know are left out."""
    return f"Classes without training rows, their rows are left out: {', '.join(strange)}."


MIN_TPR = Choice("min_tpr", "True positive rates below it do not count. Default: 0.5.", float)
MAX_FPR = Choice("max_fpr", "False positive rates above it do not count. Default: 0.5, of p-norm-push 0.1.", float)
SURROGATE = Choice(
    "surrogate",
    "What stands for the wrong order of a pair; sigmoid is bounded, the others convex.",
    default=SURROGATES[0],
    values=tuple(SURROGATES),
)
COMMANDS = (
    Command(
        "two-way-partial-auc", tuple(PLANS), (MIN_TPR, MAX_FPR, SURROGATE, POSITIVE), prepare_classes, ask, evaluate
    ),
    Command("partial-auc", tuple(PLANS), (MIN_TPR, SURROGATE, POSITIVE), prepare_classes, ask, evaluate),
)
