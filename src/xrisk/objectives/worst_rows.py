"""The worst rows: plain and robust models, judged by the mean loss of their worst tenth of rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from xrisk.annotations import Estimator, Frame
from xrisk.applications import AMBIGUITIES
from xrisk.estimators import DROClassifier, DRORegressor
from xrisk.estimators.samples import RADIUS, concentration
from xrisk.functions.parameters import counted
from xrisk.metrics import MIN_GROUP_SIZE, cvar
from xrisk.objectives.options import ALPHA, GROUPS, TABLE, known_rows, linear_model, question
from xrisk.objectives.tails import (
    TAIL,
    RowsFound,
    TailScore,
    few_rows,
    half_of,
    heavy_rows,
    judge_tail,
    row_losses,
    tail_verdict,
)
from xrisk.report.findings import (
    Proof,
    against_first,
    difference_rows,
    judged_rows,
    proof_of,
    recommendation,
    verdict_text,
)
from xrisk.report.models import Quantity, cards, judged_table, marks_figure, models_table
from xrisk.report.numbers import headed, loss_text, percent
from xrisk.report.tails import (
    change,
    heavy_line,
    loss_formula,
    loss_panels,
    quantities,
    right_change,
    right_name,
    share_text,
    signed,
    weight_text,
    without_worst,
    worst_names,
)
from xrisk.study.objective import Command, Evaluation, Option, Parts, Plan, Question, TextTable
from xrisk.study.study import Arm, Study, certificate_dict, parameters, sizes_of
from xrisk.study.verdict import Verdict
from xrisk.tables import Part, TableModel
from xrisk.tables.prepare import Prepared, prepare_rows
from xrisk.tables.rows import group_names

OUTLIERS = 0.05  # share of the rows that is set aside, where none is given
SHOWN = 15  # rows of largest weight
METRIC = "mean loss of the worst 10 % of rows"
MEAN: dict[str, Any] = {"ambiguity": "cvar", "alpha": 1.0, "radius": None, "strength": None}  # over all rows


@dataclass(frozen=True)
class WorstRows:
    """Which model does best on the worst tenth of the rows?

    The model is compared with a plain one and one that sets outliers aside, all with the same loss and penalty. Wrong
    labels among the rows of the verdict are in the tail too.

    Parameters
    ----------
    model : DROClassifier or DRORegressor
        Not fitted; its parameters are the question. Its ``outlier_fraction`` is that of the third model alone, 0.05
        where it is zero.
    min_group_size : int
        Where rows belong to groups, the worst group is named. Groups of fewer rows are never the worst.
    row_numbers : array (rows,), optional
        The numbers of the training rows in the list of the heaviest; by default 0, 1, ….
    """

    model: Estimator
    min_group_size: int = MIN_GROUP_SIZE
    row_numbers: np.ndarray | None = None

    title: ClassVar[str] = "The tail of the loss"
    template: ClassVar[str] = "worst_rows.html"
    metric: ClassVar[str] = METRIC
    requested: ClassVar[str] = "robust"
    chosen_by: ClassVar[str] = "the worst 10 % of the validation rows"
    judged_by: ClassVar[str] = f"the {METRIC}"
    versus_constant: ClassVar[tuple[str, str] | None] = (
        "under the worst weights of the training rows",
        "A larger alpha or strength, a smaller radius, or more informative features",
    )

    @property
    def aside(self) -> float:
        """The share of the rows that the third model sets aside."""
        return float(self.model.outlier_fraction) or OUTLIERS

    def checked(self, parts: Parts) -> Parts:
        return parts

    def plans(self, train: Part) -> dict[str, Plan]:
        robust = clone(self.model).set_params(outlier_fraction=0.0)
        trimmed, mean = clone(robust).set_params(outlier_fraction=self.aside), clone(robust).set_params(**MEAN)
        return {
            "erm": Plan("ERM", "the mean loss over all rows", 1.0, mean),
            "robust": Plan("Robust", "the loss under the worst weights of the rows", 2.0, robust),
            "trimmed": Plan("Trimmed", "the same after the rows of largest loss are set aside", 5.0, trimmed),
        }

    def measure(self, model: Estimator, part: Part) -> float:
        return cvar(row_losses(model, part.X, part.y), TAIL)

    def value(self, measured: float) -> float:
        return -measured

    def judge(self, model: Estimator, part: Part) -> TailScore:
        groups = part.groups if np.unique(part.groups).size > 1 else None
        return judge_tail(model, part.X, part.y, groups, aside=self.aside, min_group_size=self.min_group_size)

    def verdict(self, arms: Sequence[Arm], part: Part) -> Verdict:
        return tail_verdict({arm.key: arm.test.losses for arm in arms})

    def details(self, arms: Sequence[Arm], parts: Parts) -> RowsFound:
        (_, robust, trimmed), train = (arm.model for arm in arms), parts[0]
        numbers = np.arange(train.y.size) if self.row_numbers is None else self.row_numbers
        heavy = heavy_rows(robust, trimmed.outliers_, train, numbers, SHOWN)
        return RowsFound(heavy, half_of(robust.sample_weights_))

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        return sizes_of(self.model, train, validation, test)

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        """The parameters that the question has: an alpha, or a radius or strength."""
        idle = {"alpha"} if self.model.ambiguity != "cvar" else {"radius", "strength"}
        shown = {name: value for name, value in parameters(self.model, l2).items() if name not in idle}
        return {**shown, "outlier_fraction": self.aside}

    def caution(self, found: TailScore, judged_on: str) -> str:
        return few_rows(found.rows, judged_on)

    def numbers(self, study: Study) -> dict[str, Any]:
        return {
            "tail": TAIL,
            "certified": study.is_done,
            "half_of_the_weight": study.details.half,
            "heaviest_rows": [each._asdict() for each in study.details.heavy],
            "is_nearly_constant": bool(study.constant),
        }

    def numbers_of(self, arm: Arm) -> dict[str, Any]:
        proved = certificate_dict(arm.model)
        return {
            "certificate": proved["certificate"],
            "stop": proved["stop"],
            "set_aside": int(arm.model.outliers_.size),
            "train": arm.train,
            "validation": arm.validation,
            "test": arm.test.to_dict(),
            "groups": arm.test.groups and arm.test.groups.to_dict(),
        }

    def view(self, study: Study) -> dict[str, Any]:
        shown, arms = self.quantities(study), study.arms
        return {
            "summary": summary(study),
            "objective": objective(study),
            "verdict": verdict(study),
            "trade": trade(study),
            "worst": worst_names([(arm.name, arm.test.groups) for arm in arms]),
            "has_groups": study.requested.test.groups is not None,
            "weight": weight_of_few(study),
            "aside": share_text(self.aside),
            "proofs": [(arm.name, found) for arm, found in zip(arms[1:], proofs(study), strict=True)],
            "cards": cards(study, shown),
            "quantities": shown,
            "training": loss_text,
            "differences": difference_rows(study, signed, "against"),
            "score_figure": marks_figure(arms, shown[0], "tail", np.inf),
            "panels": loss_panels(arms, TAIL),
            "heavy": [heavy_line(each) for each in study.details.heavy],
            "equal": weight_text(1.0 / study.sizes["train_rows"]),
            "has_probabilities": any(each.probability is not None for each in study.details.heavy),
            "default": DROClassifier().ambiguity,
        }

    def quantities(self, study: Study) -> tuple[Quantity, ...]:
        """What is shown of every model."""
        shown = quantities(study.task, study.requested.test.groups)
        return (shown[0], without_worst(self.aside), *shown[1:])

    def table(self, study: Study, is_wide: bool) -> TextTable:
        """Models in rows: the worst tenth with its interval, the mean, accuracy or R², the worst group."""
        title = f"loss on {judged_rows(study, study.requested.test.rows)}"
        return models_table(study, self.quantities(study), title, is_wide)

    def sentences(self, study: Study) -> list[str]:
        shown = ", ".join(f"{each.row:,}" for each in study.details.heavy[:5])
        return [
            *(f"{arm.name}: {found.headline}." for arm, found in zip(study.arms[1:], proofs(study), strict=True)),
            f"{weight_of_few(study)} The heaviest rows of the file, counted from 1: {shown}.",
            worst_names([(arm.name, arm.test.groups) for arm in study.arms]),
            trade(study),
            verdict(study),
        ]

    def metadata(self, train: Part) -> dict[str, Any]:
        names = np.unique(train.groups).tolist()
        return {"groups": tuple(names) if len(names) > 1 else (), "tail": TAIL}


def summary(study: Study) -> str:
    """The scores of all models and the recommendation, in a sentence or two."""
    tails, means = (
        ", ".join(f"{arm.name} {loss_text(number)}" for arm, number in zip(study.arms, numbers, strict=True))
        for numbers in ([arm.test.tail for arm in study.arms], [arm.test.mean for arm in study.arms])
    )
    return f"{headed(METRIC)}: {tails}; of all rows: {means}. {recommendation(study)}"


def verdict(study: Study) -> str:
    """How the models are judged, their differences, and the recommendation."""
    rows = judged_rows(study, study.requested.test.rows)
    return verdict_text(study, f"Judged by the mean loss of the worst 10 % of {rows}", "loss saved", signed)


def trade(study: Study) -> str:
    """How the tail and the average change, for each model compared with the first."""
    first, *others = (arm.test for arm in study.arms)
    changes = [
        f"{change(each.tail, first.tail)} in the worst 10 % and {change(each.mean, first.mean)} over all rows, "
        f"{right_name(study.task)} {right_change(study.task, each.right - first.right)}"
        for each in others
    ]
    return against_first(study, "in loss (less is better)", changes)


def weight_of_few(study: Study) -> str:
    """How few rows have half of the weight."""
    few = concentration(study.requested.model.sample_weights_)
    rows = counted(few, "row", "rows") if few else f"{percent(study.details.half)} of the training rows"
    alarm = " These few rows determine the model: check that they are correct before you trust it." if few else ""
    return f"Half of the robust model's weight lies on {rows}.{alarm}"


def objective(study: Study) -> str:
    """What the robust model minimises."""
    model = study.requested.model
    start = "The robust model is a linear model that minimises the loss under the worst weights q of the rows"
    if model.ambiguity not in AMBIGUITIES:
        return f"{start}: {model.ambiguity}. {loss_formula(model)}"
    chosen = AMBIGUITIES[model.ambiguity]
    numbers = {"alpha": model.alpha} if chosen.ball is None else {"radius": model.radius, "strength": model.strength}
    given = {name: value for name, value in numbers.items() if value is not None} or {"radius": RADIUS}
    values = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    near = f"The weights are close to equal weights p; {model.ambiguity} means {chosen.meaning}; here {values}."
    return f"{start}. {near} {loss_formula(model)}"


def proofs(study: Study) -> list[Proof]:
    """What is proved of the robust model, and of the trimmed one given the rows that it sets aside."""
    robust, trimmed = (proof_of(arm.model) for arm in study.arms[1:])
    rows = study.arms[2].model.outliers_.size
    given = f" This holds given the {rows:,} training rows that are set aside: another choice of these may be better."
    return [robust, trimmed._replace(text=trimmed.text + given)]


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    if not 0.0 < options["outlier_fraction"] < 0.5:
        raise ValueError(f"--outlier-fraction must be above 0 and below 0.5, got {options['outlier_fraction']:g}")
    for name in ("radius", "strength"):
        if options[name] is not None and not 0.0 < options[name] < np.inf:
            raise ValueError(f"--{name} must be positive and finite, got {options[name]:g}")
    passed = ("ambiguity", "alpha", "radius", "strength", "outlier_fraction")
    model = linear_model(DROClassifier, DRORegressor, prepared, *passed, **options)
    if options["ambiguity"] != "cvar" and options["radius"] is None and options["strength"] is None:
        model.set_params(radius=RADIUS)
    found = WorstRows(model, options["min_group_size"], prepared.numbers)
    whole = question(found, prepared, options, "the worst tenth of the rows", "predicted")
    groups = {"groups": list(options["groups"])} if options["groups"] else {}
    return whole._replace(settings={**whole.settings, **groups})


def check(given: list[str], options: dict[str, Any]) -> None:
    """Refuse numbers that are those of another ambiguity."""
    word = options["ambiguity"]
    takes = ("radius", "strength") if AMBIGUITIES[word].ball is not None else ("alpha",)
    for name in given:
        if name in ("alpha", "radius", "strength") and name not in takes:
            takers = [each for each in AMBIGUITIES if (AMBIGUITIES[each].ball is None) == (name == "alpha")]
            raise ValueError(f"--{name} goes with --ambiguity {' or '.join(takers)}, not with {word}")


def evaluate(fitted: TableModel, frame: Frame, y: np.ndarray, options: dict[str, Any]) -> Evaluation:
    """The tail of the loss of a model on another table; rows of classes it does not know are left out."""
    task, model, least = fitted.encoding.task, fitted.model, options["min_group_size"]
    rows = known_rows(fitted, frame, y, model.classes_ if task == "classification" else np.unique(y), options)
    groups = group_names(fitted.encoding.group_labels(rows.frame), rows.y.size) if fitted.encoding.groups else None
    found = judge_tail(model, rows.X, rows.y, groups, min_group_size=least)
    caution, known = few_rows(found.rows, "judged"), found.to_dict()
    numbers: dict[str, Any] = {name: known[name] for name in ("tail", "low", "high", "mean", "rows")}
    numbers |= {"metric": METRIC, "accuracy" if task == "classification" else "r2": known["right"]}
    numbers |= {"caution": caution or None, "groups": found.groups and found.groups.to_dict()}
    title = f"{options['data']}, {counted(found.rows, 'row', 'rows')}, loss"
    return Evaluation(
        {**numbers, "classes_not_trained_on": rows.unknown},
        judged_table(title, [(options["model"], found)], quantities(task, found.groups)),
        rows.notes,
        (caution, worst_names([("", found.groups)])),
    )


_of_ball = " and ".join(word for word, each in AMBIGUITIES.items() if each.ball is not None)
_meanings = "; ".join(f"{word}: {each.meaning}" for word, each in AMBIGUITIES.items())
COMMANDS = (
    Command(
        "dro",
        ("erm", "robust", "trimmed"),
        "tail",
        (
            GROUPS,
            Option(
                "ambiguity",
                f"dro takes the worst case over weights q of the rows near equal weights p. {_meanings}.",
                default=DROClassifier().ambiguity,
                values=tuple(AMBIGUITIES),
            ),
            ALPHA,
            Option("radius", f"Radius of the ball, for {_of_ball}. Default, without a strength: {RADIUS:g}.", float),
            Option("strength", f"Strength of the cost, in units of the loss, for {_of_ball}.", float),
            Option(
                "outlier_fraction",
                "Share of the rows, those of largest loss, that the third model of dro sets aside.",
                float,
                OUTLIERS,
            ),
            *TABLE,
        ),
        prepare_rows,
        ask,
        evaluate,
        check,
    ),
)
