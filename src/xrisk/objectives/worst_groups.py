"""The worst groups: plain, re-weighted and robust models, judged by their worst group of enough rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from xrisk.annotations import Estimator, Frame
from xrisk.applications import DIVERGENCES
from xrisk.applications.arguments import divergences_that_take
from xrisk.estimators import GroupDROClassifier, GroupDRORegressor
from xrisk.functions.parameters import counted
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, GroupRow
from xrisk.objectives.options import ALPHA, GROUPS, TABLE, linear_model, question
from xrisk.report import groups as shown
from xrisk.report.findings import (
    against_first,
    bounds_on_optimum,
    gap_text,
    judged_rows,
    proof_of,
    recommendation,
    verdict_text,
)
from xrisk.report.groups import groups_table, trained_and_scored
from xrisk.report.models import Card
from xrisk.report.numbers import THIN, headed, score_text
from xrisk.run import TracePoint
from xrisk.study.objective import Command, Evaluation, Option, Parts, Plan, Question, TableColumn, TextTable
from xrisk.study.scores import SCORES, Score, judge, score_for
from xrisk.study.study import Arm, Study, certificate_dict, parameters, sizes_of, trace_dicts
from xrisk.study.verdict import Verdict, decide
from xrisk.tables import Part, TableModel
from xrisk.tables.prepare import Prepared, prepare
from xrisk.tables.rows import group_names

SHOWN, FOLDED = 12, 3  # groups in a table on a terminal, and those of few rows; the page has them all
UNSEEN = {
    "groups_not_trained_on": "Groups without training rows",
    "classes_not_trained_on": "Classes without training rows, never predicted",
}


@dataclass(frozen=True)
class WorstGroups:
    """Which model does best on the worst groups?

    The plain model (ERM) minimises the mean loss over all rows, the re-weighted one the mean over the groups of their
    mean losses, both with the loss and penalty of ``model``.

    Parameters
    ----------
    model : GroupDROClassifier or GroupDRORegressor
        Not fitted; its parameters are the question.
    scored_by : str, optional
        What l2 is chosen and models are judged by: "accuracy" (the default), "balanced_accuracy" or "neg_log_loss" of a
        classifier, "neg_root_mean_squared_error" (the default), "neg_mean_squared_error" or "neg_mean_absolute_error"
        of a regression.
    min_group_size : int
        Groups of fewer rows are left out of choice and verdict.
    """

    model: Estimator
    scored_by: str | None = None
    min_group_size: int = MIN_GROUP_SIZE

    title: ClassVar[str] = "Worst groups"
    template: ClassVar[str] = "worst_groups.html"
    requested: ClassVar[str] = "robust"
    chosen_by: ClassVar[str] = "the worst group of the validation rows"
    judged_by: ClassVar[str] = "the score of their worst group among those of enough rows"
    versus_constant: ClassVar[tuple[str, str] | None] = (
        "in the worst mixture of training groups",
        "Larger groups, a larger alpha or lam, or more informative features",
    )

    @cached_property
    def score(self) -> Score:
        """What models are judged by."""
        return score_for(self.model, self.scored_by)

    @property
    def metric(self) -> str:
        return self.score.name

    def checked(self, parts: Parts) -> Parts:
        """Training rows in the order of groups: all three problems share their kernels."""
        assert self.score  # a metric that does not fit is refused before the fits
        train, validation, last = parts
        order = np.argsort(train.groups, kind="stable")
        return Part(train.X[order], np.asarray(train.y)[order], train.groups[order]), validation, last

    def plans(self, train: Part) -> dict[str, Plan]:
        # with alpha = 1 the CVaR is the mean over the groups
        mean = clone(self.model).set_params(divergence="cvar", alpha=1.0)
        groups = (train.groups,)
        robust = Plan("Robust", "the loss of the worst groups", 2.5, self.model, groups)
        return {
            "erm": Plan("ERM", "the mean loss over all rows", 1.0, mean, (np.zeros(train.y.size),)),
            "reweighted": Plan("Re-weighted", "the mean over the groups of their mean losses", 1.0, mean, groups),
            "robust": robust._replace(shows_bounds=True, warning="Among the training rows {}."),
        }

    def measure(self, model: Estimator, part: Part) -> GroupReport:
        return judge(model, *part, score=self.score, min_group_size=self.min_group_size)

    judge = measure

    def value(self, measured: GroupReport) -> float:
        """The score of the worst group; of all rows where no group has enough."""
        found = (measured.worst or measured.overall).score
        assert found is not None  # the metrics of a study always are numbers
        return found if self.score.is_share else -found

    def verdict(self, arms: Sequence[Arm], part: Part) -> Verdict:
        row_scores = [self.score.row_scores(arm.model, part.X, part.y) for arm in arms]
        return decide(
            tuple(arm.key for arm in arms),
            np.column_stack(row_scores) if arms else np.zeros((0, 0)),
            part.groups,
            score=self.score,
            cells=self.score.cells(part.y),
            min_group_size=self.min_group_size,
        )

    def details(self, arms: Sequence[Arm], parts: Parts) -> tuple[TracePoint, ...]:
        """The bounds of the robust fit against time; what is proved in the end holds at every point of the trace."""
        model = arms[-1].model
        return tuple(point._replace(bound=model.certificate_.dual) for point in model.trace_)

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        return sizes_of(self.model, train, validation, test)

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        return {**parameters(self.model, l2), "metric": self.score.word, "min_group_size": self.min_group_size}

    def caution(self, found: GroupReport, judged_on: str) -> str:
        return ""

    def numbers(self, study: Study) -> dict[str, Any]:
        robust, report = study.requested.model, study.arms[0].test
        weights = zip(robust.groups_, robust.group_weights_.tolist(), robust.group_risk_.tolist(), strict=True)
        return {
            "verdict": {**study.verdict.to_dict(), "groups": len(report.large), "small": len(report.small)},
            "min_group_size": self.min_group_size,
            "loss": study.settings.get("loss"),
            "is_nearly_constant": bool(study.constant),
            **certificate_dict(robust),
            "groups": [{"name": name, "weight": weight, "risk": risk} for name, weight, risk in weights],
            "bounds": trace_dicts(study.details),
        }

    def numbers_of(self, arm: Arm) -> dict[str, Any]:
        reports = {"validation": arm.validation, "test": arm.test, "train": arm.train}
        worst = None if arm.test.worst is None else arm.test.worst._asdict()
        return {"worst": worst, **{name: report.to_dict() for name, report in reports.items()}}

    def view(self, study: Study) -> dict[str, Any]:
        robust = study.requested
        return {
            "score": self.score,
            "better": "more is better" if self.score.is_share else "less is better",
            "objective": objective(study),
            "summary": summary(study),
            "trade": trade(study),
            "scored": trained_and_scored(robust.model, self.score),
            "verdict": verdict(study),
            "proof": proof_of(robust.model),
            "cards": cards(study),
            "min_group_size": self.min_group_size,
            "groups_figure": shown.groups_figure(study.arms, self.score),
            "trade_figure": shown.spans_figure(study.arms, self.score),
            "weights_figure": shown.weights_figure(robust.model, robust.train),
            "bounds_figure": shown.bounds_figure(study.details),
            "weights": dict(zip(robust.model.groups_, robust.model.group_weights_.tolist(), strict=True)),
        }

    def table(self, study: Study, is_wide: bool) -> TextTable:
        """Groups in rows, models in columns, worst groups of the plain model first."""
        columns = [TableColumn("group", is_number=False), TableColumn("rows")]
        for arm in study.arms:
            columns += [TableColumn(arm.name), TableColumn("", is_dim=True)] if is_wide else [TableColumn(arm.name)]
        reports = [arm.test for arm in study.arms]
        title = f"{self.metric} on {judged_rows(study, reports[0].overall.n)}"
        return groups_table(title, columns, reports, self.score, with_intervals=is_wide, most=(SHOWN, FOLDED))

    def sentences(self, study: Study) -> list[str]:
        model = study.requested.model
        return [bounds_on_optimum(model), trained_and_scored(model, self.score), verdict(study)]

    def metadata(self, train: Part) -> dict[str, Any]:
        return {"groups": tuple(np.unique(train.groups).tolist())}


def objective(study: Study) -> str:
    """What the robust model minimises, in a sentence."""
    model, groups = study.requested.model, study.sizes["groups"]
    word = "max" if model.divergence == "cvar" and model.alpha * groups <= 1.0 else model.divergence
    many = counted(groups, "group", "groups")
    if word not in DIVERGENCES:
        return f"The robust model is a linear model that minimises the risk {word} over {many}."
    minimised = DIVERGENCES[word].objective.format(
        groups=many, alpha=f"{100.0 * model.alpha:g}{THIN}%", lam=f"{model.lam:g}", word=word
    )
    return f"The robust model is a linear model that minimises the {minimised}."


def _each(study: Study, row: Callable[[GroupReport], GroupRow | None]) -> str:
    """The score of a row under each of the models: "ERM 32.0 %, Re-weighted 82.4 %, Robust 83.1 %"."""
    rows = ((arm.name, row(arm.test)) for arm in study.arms)
    return ", ".join(f"{name} {score_text(found and found.score, study.objective.score)}" for name, found in rows)


def summary(study: Study) -> str:
    """The scores of all models and the recommendation, in a sentence or two."""
    noun, first = headed(study.objective.metric), study.arms[0].test
    whole = f"over all rows: {_each(study, lambda report: report.overall)}"
    if first.worst is None:
        return f"{noun} {whole}. No group has {first.min_group_size:,} {study.judged_on} rows, so no group is judged."
    return f"{noun} in the worst group: {_each(study, lambda report: report.worst)}; {whole}. {recommendation(study)}"


def trade(study: Study) -> str:
    """How the worst group and the average change, for each model compared with the first."""
    first, *others = (arm.test for arm in study.arms)
    if first.worst is None:
        return f"No group has {first.min_group_size:,} {study.judged_on} rows."

    def change(row: Any, before: Any) -> str:
        difference = row.score - before.score
        return _signed(study)(difference if study.objective.score.is_share else -difference)

    changes = [
        f"{change(each.worst, first.worst)} in the worst group and {change(each.overall, first.overall)} over all rows"
        for each in others
    ]
    return against_first(study, f"in {_unit(study)} (more is better)", changes)


def _unit(study: Study) -> str:
    score = study.objective.score
    return f"points of {score.name}" if score.is_share else f"{score.name} saved"


def _signed(study: Study) -> Callable[[float], str]:
    """Writes a difference, in points for shares."""
    return (
        (lambda value: f"{100.0 * value:+.1f}") if study.objective.score.is_share else (lambda value: f"{value:+.3g}")
    )


def verdict(study: Study) -> str:
    """How the models are judged, their differences, and the recommendation."""
    report = study.arms[0].test
    rows = judged_rows(study, report.min_group_size)
    if not report.large:
        alike = f"No group has {rows}, so the models cannot be told apart"
        return verdict_text(study, alike, _unit(study), _signed(study), "We recommend the simplest model")
    small = counted(len(report.small), "smaller group is", "smaller groups are")
    left_out = f" ({small} left out)" if report.small else ""
    large = counted(len(report.large), "group", "groups")
    judged = f"Judged by {study.objective.metric} in the worst of {large} with at least {rows}{left_out}"
    return verdict_text(study, judged, _unit(study), _signed(study))


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    score, reports = study.objective.score, [(arm.name, arm.test) for arm in study.arms]
    worst = tuple((name, score_text(report.worst and report.worst.score, score)) for name, report in reports)
    whole = tuple((name, score_text(report.overall.score, score)) for name, report in reports)
    return [
        Card(f"Worst group, {score.name}", worst),
        Card(f"All rows, {score.name}", whole),
        Card("Optimality gap", (("robust, by the certificate", gap_text(study.requested.model)),)),
    ]


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    groups = options["groups"] or (options["target"],)
    model = linear_model(GroupDROClassifier, GroupDRORegressor, prepared, "divergence", "alpha", "lam", **options)
    worst = "the worst class" if groups == (options["target"],) else f"the worst groups by {' × '.join(groups)}"
    found = WorstGroups(model, options["metric"], options["min_group_size"])
    whole = question(found, prepared, options, worst, "predicted")
    return whole._replace(settings={**whole.settings, "groups": list(groups)})


def evaluate(fitted: TableModel, frame: Frame, y: np.ndarray, options: dict[str, Any]) -> Evaluation:
    """The score of every group of another table."""
    groups = group_names(fitted.encoding.group_labels(frame), len(frame))
    score, least = score_for(fitted.model, options["metric"]), options["min_group_size"]
    report = judge(fitted.model, fitted.encoding.encode(frame), y, groups, score=score, min_group_size=least)
    unseen = {"groups_not_trained_on": sorted(set(np.unique(groups).tolist()) - set(fitted.groups))}
    if fitted.encoding.task == "classification":
        unseen["classes_not_trained_on"] = sorted(set(np.unique(y).tolist()) - set(fitted.model.classes_.tolist()))
    title = f"{options['data']}, {counted(len(frame), 'row', 'rows')}, by {options['model']}"
    numbers = TableColumn("rows"), TableColumn(score.name), TableColumn("95 % interval", is_dim=True)
    columns = (TableColumn("group", is_number=False), *numbers)
    return Evaluation(
        {"rows": len(frame), **report.to_dict(), **unseen},
        groups_table(title, columns, [report], score),
        tuple(f"{UNSEEN[kind]}: {', '.join(names)}." for kind, names in unseen.items() if names),
        (f"{shown.worst_group(report, score)} {trained_and_scored(fitted.model, score)}",),
    )


_with_lam = ", ".join(divergences_that_take("lam"))
_meanings = "; ".join(f"{word}: {each.meaning}" for word, each in DIVERGENCES.items())
COMMANDS = (
    Command(
        "group-dro",
        ("erm", "reweighted", "robust"),
        "groups",
        (
            GROUPS,
            Option(
                "divergence",
                f"The mixtures of the groups over which the worst case is taken. {_meanings}.",
                default="cvar",
                values=tuple(DIVERGENCES),
            ),
            ALPHA,
            Option("lam", f"Strength of the cost, for {_with_lam}.", float, 1.0),
            Option(
                "metric",
                "What models are judged by. Default: accuracy for classification, neg_root_mean_squared_error for "
                "regression.",
                values=tuple(SCORES),
            ),
            *TABLE,
        ),
        prepare,
        ask,
        evaluate,
    ),
)
