"""The worst groups: plain, re-weighted and robust models, judged by their worst group of enough rows."""

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone

from xrisk.applications import DIVERGENCES
from xrisk.applications.arguments import divergences_that_take
from xrisk.estimators import GroupDROClassifier, GroupDRORegressor
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport
from xrisk.objectives.shared import (
    ALPHA,
    BINS,
    DEFAULT_LOSS,
    GROUPS,
    GROUPS_AS_FEATURES,
    LOSS,
    SMALL_GROUPS,
    TASK,
    described,
)
from xrisk.phrases import counted
from xrisk.report import figures
from xrisk.report.phrases import (
    SIMPLEST,
    THIN,
    Card,
    compared,
    gap,
    interval,
    not_compared,
    proof_of,
    proved,
    recommended,
    score,
    scored,
)
from xrisk.run import TracePoint
from xrisk.study.objective import Choice, Command, Parts, Plan, Question, Sheet, SheetColumn, Told
from xrisk.study.scores import SCORES, SHARES, judge, metric_for
from xrisk.study.study import Study, certificate_dict, compared_with_constant, finite, is_open, parameters, sizes_of
from xrisk.study.verdict import Verdict, decide, is_cut_short
from xrisk.tables import Part
from xrisk.tables.prepare import Prepared, prepare
from xrisk.tables.rows import group_names

CURES = "larger groups, a larger alpha or lam, or features that tell more may help"
SHOWN, FOLDED = 12, 3  # groups in a table on a terminal, and those of few rows; the page has them all


class GroupsFound(NamedTuple):
    """What is found beside the scores."""

    bounds: tuple[TracePoint, ...]  # of the robust fit, against time
    notes: tuple[str, ...]

    @property
    def is_nearly_constant(self) -> bool:
        """Whether the robust model is hardly better than one that gives every row the same score."""
        return bool(self.notes)


@dataclass(frozen=True)
class WorstGroups:
    """What does best on the worst groups?

    The plain model (ERM) minimises the mean loss of all rows, the re-weighted one the mean over the groups of their
    mean losses, both with the loss and penalty of ``model``.

    Parameters
    ----------
    model : GroupDROClassifier or GroupDRORegressor
        Not fitted; its parameters are the question.
    score : str, optional
        What choice and verdict go by: "accuracy" (the default), "balanced_accuracy" or "neg_log_loss" of a classifier,
        "neg_root_mean_squared_error" (the default), "neg_mean_squared_error" or "neg_mean_absolute_error" of a
        regression.
    min_group_size : int
        Groups of fewer rows are left out of choice and verdict.
    """

    model: Any
    score: str | None = None
    min_group_size: int = MIN_GROUP_SIZE

    title: ClassVar[str] = "Worst groups"
    template: ClassVar[str] = "worst_groups.html"
    chosen_by: ClassVar[str] = "the worst group of the validation rows"
    rule: ClassVar[str] = (
        "the models are judged by the score of their worst group among those of enough rows; we recommend the "
        "simplest model that no other outperforms with 95 % confidence"
    )

    @property
    def word(self) -> str:
        """The word of the score."""
        return metric_for(self.model, self.score)

    @property
    def metric(self) -> str:
        """The score as people read it."""
        return SCORES[self.word].name

    def plans(self) -> dict[str, Plan]:
        return PLANS

    def asked(self) -> str:
        return "robust"

    def taken(self, parts: Parts) -> Parts:
        """Training rows in the order of groups: all three problems share their kernels."""
        metric_for(self.model, self.score)
        train, validation, last = parts
        order = np.argsort(train.groups, kind="stable")
        return Part(train.X[order], np.asarray(train.y)[order], train.groups[order]), validation, last

    def candidates(self, key: str, l2: tuple[float, ...]) -> list[Any]:
        # with alpha = 1 the CVaR is the mean over the groups
        mean = {} if key == "robust" else {"divergence": "cvar", "alpha": 1.0}
        return [clone(self.model).set_params(l2=each, **mean) for each in l2]

    def fit(self, key: str, model: Any, train: Part) -> None:
        model.fit(train.X, train.y, groups=np.zeros(train.y.size) if key == "erm" else train.groups)

    def warm(self, key: str, model: Any, train: Part) -> None:
        """Two steps, so that the bounds of the robust fit are told against the time of solving alone."""
        if key == "robust":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                clone(model).set_params(max_iter=2).fit(train.X, train.y, groups=train.groups)

    def strength(self, key: str, model: Any) -> float | None:
        return float(model.l2)

    def note(self, key: str, name: str, warning: Any) -> str | None:
        if is_open(warning):
            return f"{name}: {warning.message}."
        return f"Among the training rows {warning.message}." if key == "robust" else None

    def measure(self, model: Any, part: Part) -> GroupReport:
        return judge(model, part.X, part.y, part.groups, metric=self.word, min_group_size=self.min_group_size)

    judge = measure

    def value(self, measured: GroupReport) -> float:
        """The score of the worst group; of all rows where no group has enough."""
        row = measured.worst or measured.overall
        assert row.score is not None  # the metrics of a study always are numbers
        return row.score if SCORES[self.word].is_share else -row.score

    def verdict(self, arms: list[Any], part: Part) -> Verdict:
        by = SCORES[self.word]
        return decide(
            tuple(arm.key for arm in arms),
            np.column_stack([by.gains(arm.model, part.X, part.y) for arm in arms]) if arms else np.zeros((0, 0)),
            part.groups,
            score=by,
            cells=by.cells(part.y),
            min_group_size=self.min_group_size,
        )

    def found(self, arms: list[Any], parts: Parts) -> GroupsFound:
        model, train = arms[-1].model, parts[0]
        # what was proved of the optimum in the end holds at every point of the trace
        bounds = tuple(point._replace(bound=model.certificate_.dual) for point in model.trace_)
        where = "in the worst mixture of training groups"
        return GroupsFound(bounds, compared_with_constant(model, train, where, CURES, train.groups))

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        return sizes_of(self.model, train, validation, test)

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        return {**parameters(self.model, l2), "metric": self.word, "min_group_size": self.min_group_size}

    def caution(self, study: Study) -> str:
        return ""

    def numbers(self, study: Study) -> dict[str, Any]:
        robust, report = study.asked.model, study.arms[0].test
        weights = zip(robust.groups_, robust.group_weights_.tolist(), robust.group_risk_.tolist(), strict=True)
        return {
            "verdict": {**study.verdict.to_dict(), "groups": len(report.large), "small": len(report.small)},
            "min_group_size": self.min_group_size,
            "loss": study.settings.get("loss"),
            "is_nearly_constant": study.found.is_nearly_constant,
            **certificate_dict(robust),
            "groups": [{"name": name, "weight": weight, "risk": risk} for name, weight, risk in weights],
            "bounds": [{key: finite(value) for key, value in point._asdict().items()} for point in study.found.bounds],
        }

    def numbers_of(self, arm: Any) -> dict[str, Any]:
        return {
            "worst": None if arm.test.worst is None else arm.test.worst._asdict(),
            "validation": arm.validation.to_dict(),
            "test": arm.test.to_dict(),
            "train": arm.train.to_dict(),
        }

    def view(self, study: Study) -> dict[str, Any]:
        robust, reports = study.asked, [arm.test for arm in study.arms]
        return {
            "better": better(study.metric),
            "objective": objective(study),
            "summary": summary(study),
            "trade": trade(study),
            "scored": scored(robust.model, study.metric),
            "verdict": verdict(study),
            "proof": proof(study),
            "cards": cards(study),
            "min_group_size": self.min_group_size,
            "groups_figure": figures.groups_figure(study.arms, study.metric),
            "trade_figure": figures.spans_figure(study.arms, study.metric),
            "weights_figure": figures.weights_figure(robust.model, robust.train),
            "bounds_figure": figures.bounds_figure(study.found.bounds),
            "rows": group_rows(robust.model, reports),
        }

    def sheet(self, study: Study, is_wide: bool) -> Sheet:
        """Groups in rows, models in columns, worst groups of the plain model first."""
        first, metric = study.arms[0].test, study.metric
        columns = [SheetColumn("group", is_number=False), SheetColumn("rows")]
        for arm in study.arms:
            columns += [SheetColumn(arm.name), SheetColumn("", is_dim=True)] if is_wide else [SheetColumn(arm.name)]

        def line(name: str, rows: list[Any], n: str) -> tuple[str, ...]:
            pairs = [(score(row.score, metric), interval(row, metric)) for row in rows]
            return (name, n, *(cell for pair in pairs for cell in (pair if is_wide else pair[:1])))

        def lines(groups: Any, most: int) -> tuple[tuple[str, ...], ...]:
            shown = [line(row.name, [arm.test[row.name] for arm in study.arms], f"{row.n:,}") for row in groups[:most]]
            return (*shown, *([(f"… {len(groups) - most} more",)] if len(groups) > most else []))

        few = (left_out_line(self.min_group_size), *lines(first.small, FOLDED)) if first.small else ()
        last = [line("all rows", [arm.test.overall for arm in study.arms], f"{first.overall.n:,}")]
        if first.worst is not None:
            last.insert(0, line("worst group", [arm.test.worst for arm in study.arms], ""))
        title = f"{metric} on {rows_of(study)}"
        return Sheet(title, tuple(columns), (lines(first.large, SHOWN), few, tuple(last)), bold=("worst group",))

    def sentences(self, study: Study) -> list[str]:
        return [proved(study.asked.model), scored(study.asked.model, study.metric), verdict(study)]

    def kept(self, train: Part) -> dict[str, Any]:
        return {"groups": tuple(np.unique(train.groups).tolist())}


PLANS = {
    "erm": Plan("ERM", "the mean loss over all rows", 1.0),
    "reweighted": Plan("Re-weighted", "the mean over the groups of their mean losses", 1.0),
    "robust": Plan("Robust", "the loss of the worst groups", 2.5),
}


def left_out_line(least: int) -> tuple[str, ...]:
    """The line above groups of few rows."""
    return (f"fewer than {least} rows, left out of the verdict:",)


def rows_of(study: Study) -> str:
    """The rows of the verdict: "500 validation rows"."""
    n = study.arms[0].test.overall.n
    return counted(n, f"{study.judged_on} row", f"{study.judged_on} rows")


def objective(study: Study) -> str:
    """What the robust model minimises, in a sentence."""
    model, groups = study.asked.model, study.sizes["groups"]
    word = "max" if model.divergence == "cvar" and model.alpha * groups <= 1.0 else model.divergence
    many = counted(groups, "group", "groups")
    if word not in DIVERGENCES:
        return f"A linear model whose risk over {many} is as small as can be: {word}."
    said = DIVERGENCES[word].objective.format(
        groups=many, alpha=f"{100.0 * model.alpha:g}{THIN}%", lam=f"{model.lam:g}", word=word
    )
    return f"A linear model whose {said} is as small as can be."


def better(metric: str) -> str:
    """Which way a score is better."""
    return "more is better" if metric in SHARES else "less is better"


def _each(study: Study, rows: list[Any]) -> str:
    """The score of a row under each of the models: "ERM 32.0 %, re-weighted 82.4 %, robust 83.1 %"."""
    said = (f"{arm.name} {score(row.score, study.metric)}" for arm, row in zip(study.arms, rows, strict=True))
    return ", ".join(said)


def _least(study: Study) -> int:
    return study.arms[0].test.min_group_size


def _worst(study: Study) -> list[Any]:
    """The worst group of every model; none where no group has enough rows."""
    return [arm.test.worst for arm in study.arms if arm.test.worst is not None]


def summary(study: Study) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    noun = study.metric.capitalize()
    whole = f"of all rows {_each(study, [arm.test.overall for arm in study.arms])}"
    worst = _worst(study)
    if not worst:
        return f"{noun} {whole}. No group has {_least(study)} {study.judged_on} rows: nothing is said of groups."
    return f"{noun} on the worst group: {_each(study, worst)}; {whole}. {recommended(study)}"


def trade(study: Study) -> str:
    """What the worst group gains and what the average pays, for each model against the first."""
    worst = _worst(study)
    if not worst:
        return f"No group has {_least(study)} {study.judged_on} rows."
    if is_cut_short(study.arms[0].model):
        return f"Against {study.arms[0].name} nothing can be said."
    whole = [arm.test.overall for arm in study.arms]
    said = [
        f"{arm.name}: worst group {_points(study, row, worst[0])}, all rows {_points(study, all_rows, whole[0])}"
        for arm, row, all_rows in zip(study.arms[1:], worst[1:], whole[1:], strict=True)
    ]
    return f"Against {study.arms[0].name}, in {_unit(study)} (more is better). {'; '.join(said)}."


def _unit(study: Study) -> str:
    return f"points of {study.metric}" if study.metric in SHARES else f"{study.metric} saved"


def _points(study: Study, row: Any, first: Any) -> str:
    gain = (row.score - first.score) if study.metric in SHARES else (first.score - row.score)
    return _signed(study, gain)


def _signed(study: Study, gain: float) -> str:
    return f"{100.0 * gain:+.1f}" if study.metric in SHARES else f"{gain:+.3g}"


def verdict(study: Study) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    report = study.arms[0].test
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    rows = counted(_least(study), f"{study.judged_on} row", f"{study.judged_on} rows")
    if not report.large:
        said = recommended(study, "We recommend the simplest model")
        return f"{not_compared(study)}No group has {rows}, so the models cannot be told apart. {said}"
    pairs = "; ".join(compared(study, each, partial(_signed, study)) for each in study.verdict.differences)
    left = counted(len(report.small), "smaller one is", "smaller ones are")
    out = f" ({left} left out)" if report.small else ""
    judged = f"Judged by {study.metric} on the worst of {counted(len(report.large), 'group', 'groups')}"
    said = f"{judged} of at least {rows}{out}; with 95 % confidence, in {_unit(study)}: {pairs}."
    return f"{not_compared(study)}{said} {recommended(study, SIMPLEST)}"


def proof(study: Study) -> Any:
    """What is proved of the robust model."""
    return proof_of(study.asked.model)


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    reports = [(arm.name, arm.test) for arm in study.arms]
    worst = tuple((name, score(found.worst and found.worst.score, study.metric)) for name, found in reports)
    whole = tuple((name, score(found.overall.score, study.metric)) for name, found in reports)
    return [
        Card(f"Worst group, {study.metric}", worst),
        Card(f"All rows, {study.metric}", whole),
        Card("Optimality gap", (("robust, by the certificate", gap(study.asked.model)),)),
    ]


def group_rows(model: Any, reports: list[GroupReport]) -> list[dict[str, Any]]:
    """Every group with its numbers, the worst of the plain model first."""
    weights = dict(zip(model.groups_, model.group_weights_.tolist(), strict=True))
    return [
        {
            "name": row.name,
            "n": row.n,
            "arms": [report[row.name] for report in reports],
            "is_small": row.n < reports[0].min_group_size,
            "weight": weights.get(row.name),
        }
        for row in reports[0].rows
    ]


def worst_group(report: GroupReport) -> str:
    """The worst group of a report, in a sentence."""
    row = report.worst
    if row is None:
        return f"No group has {report.min_group_size} rows: no worst group is named."
    sure = f" (95 % interval {interval(row, report.metric)})" if row.score_low is not None else ""
    left = counted(len(report.small), "group", "groups")
    out = f" {left} of fewer than {report.min_group_size} rows left out." if report.small else ""
    return f"Worst group: {row.name}, {report.metric} {score(row.score, report.metric)}{sure}.{out}"


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    task, target = prepared.encoding.task, options["target"]
    estimator: Any = GroupDROClassifier if task == "classification" else GroupDRORegressor
    passed = ("divergence", "alpha", "lam", "l1", "tol", "max_seconds")
    model = estimator(
        **{name: options[name] for name in passed},
        loss=options["loss"] or DEFAULT_LOSS[task],
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    groups = options["groups"] or (target,)
    return Question(
        WorstGroups(model, options["metric"], options["min_group_size"]),
        (prepared.train, prepared.validation, prepared.test),
        title=f"{target} by {' × '.join(groups)}",
        description=described(prepared, options, "predict {target} from {columns}"),
        settings={"validation": options["validation"], "groups": list(groups)},
        notes=prepared.notes,
    )


def evaluate(fitted: Any, frame: Any, y: np.ndarray, *, title: str, model: str, options: dict[str, Any]) -> Told:
    """The score of every group of another table."""
    groups = group_names(fitted.encoding.group_labels(frame), len(frame))
    rows, some = fitted.encoding.encode(frame), {name: options[name] for name in ("metric", "min_group_size")}
    report = judge(fitted.model, rows, y, groups, **some)
    unseen = sorted(set(np.unique(groups).tolist()) - set(fitted.groups))
    strange = sorted(set(np.unique(y).tolist()) - set(fitted.model.classes_.tolist())) if is_class(fitted) else []
    notes = [f"Groups without training rows: {', '.join(unseen)}."] if unseen else []
    notes += [f"Classes without training rows, never predicted: {', '.join(strange)}."] if strange else []
    numbers = {"rows": len(frame), **report.to_dict(), "groups_not_trained_on": unseen}
    told = {**numbers, "classes_not_trained_on": strange} if is_class(fitted) else numbers
    by = f"{title}, {counted(len(frame), 'row', 'rows')}, by {model}"
    said = f"{worst_group(report)} {scored(fitted.model, report.metric)}"
    return Told(told, report_sheet(report, by), tuple(notes), (said,))


def is_class(fitted: Any) -> bool:
    """Whether a table model is a classifier."""
    return fitted.encoding.task == "classification"


def report_sheet(report: GroupReport, title: str) -> Sheet:
    """One model's groups, worst first."""

    def lines(rows: Any) -> tuple[tuple[str, ...], ...]:
        return tuple(
            (row.name, f"{row.n:,}", score(row.score, report.metric), interval(row, report.metric)) for row in rows
        )

    columns = (
        SheetColumn("group", is_number=False),
        SheetColumn("rows"),
        SheetColumn(report.metric),
        SheetColumn("95 % interval", True, True),
    )
    few = (left_out_line(report.min_group_size), *lines(report.small)) if report.small else ()
    return Sheet(title, columns, (lines(report.large), few, lines([report.overall._replace(name="all rows")])))


_of_alpha, _of_lam = (", ".join(divergences_that_take(number)) for number in ("alpha", "lam"))
COMMANDS = (
    Command(
        "group-dro",
        tuple(PLANS),
        (
            GROUPS,
            Choice(
                "divergence",
                "Mixtures of the groups over which the worst case is taken. "
                + "; ".join(f"{word}: {each.meaning}" for word, each in DIVERGENCES.items())
                + ".",
                default="cvar",
                values=tuple(DIVERGENCES),
            ),
            ALPHA,
            Choice("lam", f"Strength of the cost, for {_of_lam}.", float, 1.0),
            LOSS,
            TASK,
            BINS,
            GROUPS_AS_FEATURES,
            Choice(
                "metric",
                "What models are judged by. Default: accuracy for classes, neg_root_mean_squared_error for numbers.",
                values=tuple(SCORES),
            ),
            SMALL_GROUPS,
        ),
        prepare,
        ask,
        evaluate,
    ),
)
