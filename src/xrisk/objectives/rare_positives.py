"""Rare positives: logistic, balanced and ranking scores, judged by the part of the ROC curve that counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xrisk.annotations import Estimator, Frame
from xrisk.estimators import GroupDROClassifier, PartialAUCClassifier, TwoWayPartialAUCClassifier
from xrisk.estimators.parameters import SURROGATES
from xrisk.functions.parameters import counted
from xrisk.metrics import partial_auc_score
from xrisk.objectives.options import POSITIVE, known_rows, model_of, question
from xrisk.objectives.rankings import RankingScore, class_counts, judge_ranking, ranking_verdict
from xrisk.report.findings import Proof, difference_rows, judged_rows, proof_of, recommendation, verdict_text
from xrisk.report.models import cards, judged_table, marks_figure, models_table
from xrisk.report.numbers import percent
from xrisk.report.rankings import METRIC, area_text, chance, interval_text, quantities, rate, region, roc_panels
from xrisk.study.objective import Command, Evaluation, Option, Parts, Plan, Question, TextTable
from xrisk.study.study import Arm, Study, certificate_dict, parameters, row_counts
from xrisk.study.verdict import Verdict
from xrisk.tables import Part, RankedClasses, TableModel
from xrisk.tables.prepare import Prepared, prepare_classes

FEW = 10  # rows of a class in the region, below which intervals are too short
HALF = 0.5  # the rates where none is given
KEYS = ("logistic", "balanced", "ranking")


@dataclass(frozen=True)
class RarePositives:
    """Which model ranks the positives first, in the part of the ROC curve that counts?

    The model is compared with two logistic regressions, one of the rows and one in which both classes count the same.

    Parameters
    ----------
    model : TwoWayPartialAUCClassifier or PartialAUCClassifier
        Not fitted; its parameters are the question.
    classes : tuple of str
        What the negative and the positive class are called. The targets of the rows say which are positive.
    """

    model: Estimator
    classes: tuple[str, str] = ("False", "True")

    title: ClassVar[str] = "Rare positives"
    template: ClassVar[str] = "rare_positives.html"
    metric: ClassVar[str] = METRIC
    requested: ClassVar[str] = "ranking"
    chosen_by: ClassVar[str] = "the partial AUC of the validation rows"
    judged_by: ClassVar[str] = "the partial AUC in the requested range"
    versus_constant: ClassVar[tuple[str, str] | None] = None

    @property
    def ranked(self) -> RankedClasses:
        """The classes and the region."""
        region = self.model.get_params()
        return RankedClasses(*self.classes, float(region["min_tpr"]), float(region.get("max_fpr", 1.0)))

    @property
    def is_convex(self) -> bool:
        """Whether the surrogate is convex, so that its optimum can be proved."""
        return self.model.surrogate != "sigmoid"

    def checked(self, parts: Parts) -> Parts:
        self.ranked.check()
        class_counts(parts[2].y, self.ranked)
        return parts

    def plans(self, train: Part) -> dict[str, Plan]:
        surrogate = self.model.surrogate
        refusal = f"--surrogate {surrogate} cannot be used here: {{}}; sigmoid can" if self.is_convex else ""
        ranking = Plan("Ranking", "the wrong order of the pairs that count", 6.0, self.model, has_l2=self.is_convex)
        return logistic_plans(self.model, train) | {
            "ranking": ranking._replace(warning="Ranking: {}.", refusal=refusal),
        }

    def measure(self, model: Estimator, part: Part) -> float:
        return partial_auc_score(part.y, model.decision_function(part.X), **self.ranked.region())

    def value(self, measured: float) -> float:
        return measured

    def judge(self, model: Estimator, part: Part) -> RankingScore:
        return judge_ranking(part.y, model.decision_function(part.X), self.ranked)

    def verdict(self, arms: Sequence[Arm], part: Part) -> Verdict:
        return ranking_verdict(arms, part, self.ranked)

    def details(self, arms: Sequence[Arm], parts: Parts) -> tuple[()]:
        return ()

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        """How many rows of each kind are positive."""
        counts = row_counts(train, validation, test)
        positives = [0 if part is None else int(part.y.sum()) for part in (train, validation, test)]
        kinds = ("train_positives", "validation_positives", "test_positives")
        sizes = zip(self.classes, (counts["rows"] - sum(positives), sum(positives)), strict=True)
        named = [{"name": name, "rows": rows} for name, rows in sizes]
        return {**counts, **dict(zip(kinds, positives, strict=True)), "classes": named}

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        return parameters(self.model, l2)

    def caution(self, found: RankingScore, judged_on: str) -> str:
        return few_rows(found, self.ranked, judged_on)

    def numbers(self, study: Study) -> dict[str, Any]:
        model = study.requested.model
        proved = certificate_dict(model)
        return {
            "task": "ranking",
            "asked": self.ranked._asdict(),
            "certificate": proved["certificate"] if self.is_convex else None,
            "certified": self.is_convex and proved["certified"],
            "stop": proved["stop"],
            "start": None if self.is_convex else {"model": model.start_, "train": float(model.start_score_)},
            "anchor": float(model.anchor_) if np.isfinite(model.anchor_) else None,
        }

    def numbers_of(self, arm: Arm) -> dict[str, Any]:
        return {"train": arm.train, "validation": arm.validation, "test": arm.test.to_dict()}

    def aim(self) -> str:
        """What the ranking model minimises, in a sentence or two."""
        kind = "convex" if self.is_convex else "bounded"
        minimised = f"a {kind} surrogate ({self.model.surrogate}) of the number of pairs in the wrong order"
        return f"{ranking_aim(self.ranked)} It minimises {minimised}."

    def proof(self, study: Study) -> Proof:
        """What is proved of the ranking model: the certificate of a convex surrogate, nothing of a bounded one."""
        return proof_of(study.requested.model) if self.is_convex else no_proof(study.requested)

    def view(self, study: Study) -> dict[str, Any]:
        ranked, arms, shown = self.ranked, study.arms, quantities(self.ranked)
        return {
            "summary": summary(study),
            "objective": self.aim(),
            "verdict": verdict(study),
            "chance": f"{chance(ranked):.3g}",
            "proof": self.proof(study),
            "cards": cards(study, shown),
            "quantities": shown,
            "training": area_text,
            "differences": difference_rows(study, signed),
            "score_figure": marks_figure(arms, shown[0], "score", 1.0),
            "panels": roc_panels(arms, study.requested, ranked),
        }

    def table(self, study: Study, is_wide: bool) -> TextTable:
        """Models in rows: partial AUC with its interval, AUC, and what a threshold catches or costs."""
        found = study.requested.test
        rows = judged_rows(study, found.positives + found.negatives)
        title = f"{METRIC} ({region(self.ranked)}) on {rows}, {found.positives:,} positive"
        return models_table(study, quantities(self.ranked), title, is_wide)

    def sentences(self, study: Study) -> list[str]:
        found = self.proof(study)
        return [f"{found.headline}. {found.text}", verdict(study)]

    def metadata(self, train: Part) -> dict[str, Any]:
        return {"ranked": self.ranked}


def logistic_plans(model: Estimator, train: Part) -> dict[str, Plan]:
    """Plain and balanced logistic regression, with the limits of the model.

    With alpha = 1 the mean over the groups is minimised: all rows are one group, or each class is one.
    """
    same = {name: getattr(model, name) for name in ("l1", "tol", "max_seconds", "random_state")}
    mean = GroupDROClassifier("cvar", alpha=1.0, **same)
    balanced = "the mean over both classes of their mean logistic losses"
    return {
        "logistic": Plan("Logistic", "the mean logistic loss over all rows", 1.0, mean, (np.zeros(train.y.size),)),
        "balanced": Plan("Balanced", balanced, 1.0, mean, (train.y,)),
    }


def few_rows(score: RankingScore, ranked: RankedClasses, judged_on: str) -> str:
    """A warning where few rows of a class decide, else nothing."""
    counts = {
        ranked.positive: (score.positives, score.positives * (1.0 - ranked.min_tpr)),
        ranked.negative: (score.negatives, score.negatives * ranked.max_fpr),
    }
    name = min(counts, key=lambda each: counts[each][1])
    rows, inside = counts[name]
    if inside >= FEW:
        return ""
    return (
        f"Few rows decide: of {rows:,} {judged_on} rows of class {name!r} about {max(inside, 1.0):.0f} lie in the "
        f"region, fewer than {FEW}. The intervals are too short, and other rows could change the verdict."
    )


def signed(difference: float) -> str:
    """A difference in partial AUC."""
    return f"{difference:+.3f}"


def summary(study: Study) -> str:
    """The scores of all models and the recommendation, in a sentence or two."""
    each = ", ".join(f"{arm.name} {area_text(arm.test.score)}" for arm in study.arms)
    return f"Partial AUC ({region(study.objective.ranked)}): {each}. {recommendation(study)}"


def verdict(study: Study) -> str:
    """How the models are judged, their differences, and the recommendation."""
    found = study.requested.test
    rows = f"{judged_rows(study, found.positives + found.negatives)}, {found.positives:,} of them positive"
    return verdict_text(study, f"Judged by {METRIC} ({region(study.objective.ranked)}) on {rows}", METRIC, signed)


def ranking_aim(ranked: RankedClasses) -> str:
    """Which class the score puts first, and which part of the ROC curve counts."""
    low = (
        f"the lowest-scoring {rate(1.0 - ranked.min_tpr)} of the positives" if ranked.min_tpr > 0.0 else "all positives"
    )
    high = f"the highest-scoring {rate(ranked.max_fpr)} of the negatives" if ranked.max_fpr < 1.0 else "all negatives"
    return (
        f"The ranking model is a linear score that puts rows of class {ranked.positive} above those of class "
        f"{ranked.negative}. The part of the ROC curve that counts is {region(ranked)}: {low} and {high}."
    )


def no_proof(arm: Arm) -> Proof:
    """What is known of a model of a bounded surrogate."""
    model = arm.model
    start = "logistic regression" if model.start_ == "logistic" else "balanced logistic regression"
    chosen = (
        "Cross-validation found no model significantly better than the start, so the ranking is that of the start."
        if np.isinf(model.anchor_)
        else f"It is regularised towards its start with strength {model.anchor_:g}."
    )
    limit = "" if arm.is_finished else f" The fit was cut short: {model.stop_}."
    text = (
        "A bounded surrogate is not convex and has no certificate: the fit may end in or before a local optimum, and "
        f"another model may rank the training rows better. Of the training pairs that count, this one ranks "
        f"{percent(model.training_score_)} correctly; its start, {start}, {percent(model.start_score_)}. "
        f"{chosen}{limit}"
    )
    return Proof(False, "No proof of optimality", text)


def chosen_classes(prepared: Prepared, options: dict[str, Any]) -> tuple[tuple[str, str], str]:
    """The negative and the positive class, and a note that says which; by default the greater one is positive."""
    low, high = np.unique(prepared.train.groups).tolist()
    positive = high if options["positive"] is None else options["positive"]
    if positive not in (low, high):
        raise ValueError(f"--positive must be one of the classes {low!r} and {high!r}, got {positive!r}")
    share = float(np.mean(prepared.train.y == positive))
    is_odd = share > HALF and options["positive"] is None
    more = " It is the more frequent class; --positive names the other." if is_odd else ""
    note = f"The positive class is {positive!r}, {100.0 * share:.3g} % of the training rows.{more}"
    return (low if positive == high else high, positive), note


def ranking_question(objective: Any, prepared: Prepared, options: dict[str, Any], note: str) -> Question:
    """The question of a command line to rows of two classes."""
    negative, positive = objective.classes

    def marked(part: Part) -> Part:
        return part._replace(y=part.y == positive)

    whole = question(objective, prepared, options, f"ranking {positive} above {negative}", "ranked")
    train, validation, test = whole.parts
    parts = (marked(train), marked(validation), None if test is None else marked(test))
    return whole._replace(parts=parts, notes=(note, *whole.notes))


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    classes, note = chosen_classes(prepared, options)
    is_two_way = options["objective"] == "two-way-partial-auc"
    estimator = TwoWayPartialAUCClassifier if is_two_way else PartialAUCClassifier
    rates = ("min_tpr", "max_fpr") if is_two_way else ("min_tpr",)
    given = {name: HALF if options[name] is None else options[name] for name in rates}
    model = model_of(estimator, options, "surrogate", **given)
    return ranking_question(RarePositives(model, classes), prepared, options, note)


def evaluate(fitted: TableModel, frame: Frame, y: np.ndarray, options: dict[str, Any]) -> Evaluation:
    """The partial AUC, with its interval, of a model on another table; rows of other classes are left out."""
    ranked: Any = fitted.ranked
    rows = known_rows(fitted, frame, y, (ranked.negative, ranked.positive), options)
    found = judge_ranking(np.asarray(rows.y == ranked.positive), fitted.model.decision_function(rows.X), ranked)
    caution, many = few_rows(found, ranked, "judged"), int(rows.y.size)
    numbers = {"rows": many, "metric": METRIC, "asked": ranked._asdict(), **found.to_dict(), "caution": caution or None}
    title = f"{options['data']}, {counted(many, 'row', 'rows')}, {found.positives:,} positive ({region(ranked)})"
    interval = f"{area_text(found.score)}, 95 % interval {interval_text(found)}"
    return Evaluation(
        {**numbers, "classes_not_trained_on": rows.unknown},
        judged_table(title, [(options["model"], found)], quantities(ranked)),
        rows.notes,
        (caution, f"Partial AUC ({region(ranked)}) {interval}; positive is {ranked.positive}."),
    )


MIN_TPR = Option("min_tpr", "Lowest true positive rate that counts. Default: 0.5.", float)
MAX_FPR = Option("max_fpr", "Highest false positive rate that counts. Default: 0.5, with p-norm-push 0.1.", float)
SURROGATE = Option(
    "surrogate",
    "The loss of a pair in the wrong order: sigmoid is bounded, the others are convex.",
    default=SURROGATES[0],
    values=tuple(SURROGATES),
)
COMMANDS = tuple(
    Command(name, KEYS, "ranked", (*rates, SURROGATE, POSITIVE), prepare_classes, ask, evaluate)
    for name, rates in (("two-way-partial-auc", (MIN_TPR, MAX_FPR)), ("partial-auc", (MIN_TPR,)))
)
