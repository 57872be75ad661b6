"""The top of a ranking: logistic, balanced and p-norm push scores, judged where false positives are few."""

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from xrisk.estimators import PNormPushClassifier
from xrisk.objectives import rare_positives as ranking
from xrisk.objectives.rare_positives import RarePositives
from xrisk.objectives.shared import POSITIVE
from xrisk.report.phrases import Proof, proof_of
from xrisk.study.objective import Choice, Command, Plan, Question
from xrisk.study.study import Study, certificate_dict
from xrisk.tables import RankedClasses
from xrisk.tables.prepare import Prepared, prepare_classes

TOP = 0.1  # false positive rates up to which the ranking is judged, where none is given
PLANS = {**ranking.PLANS, "ranking": Plan("Push", "the p-norm of what positives lose against each negative", 3.0)}
AGAINST = {  # by what is on the outside: the terms of the norm, and which of them count most
    "negatives": ("what the positives lose against each negative", "the highest negatives"),
    "positives": ("what each positive loses against the negatives", "the lowest positives"),
}


@dataclass(frozen=True)
class TopOfRanking:
    """What ranks the positives above the highest negatives?

    Beside the model stand two logistic regressions, of the rows and of classes that count the same; all are judged as
    `RarePositives` judges, by the partial AUC up to a small false positive rate.

    Parameters
    ----------
    model : PNormPushClassifier
        Not fitted; its parameters are the question.
    classes : tuple of str
        What the negative and the positive class are called. The targets of the rows say which are positive.
    max_fpr : float
        False positive rates above it do not count.
    """

    model: Any
    classes: tuple[str, str] = ("False", "True")
    max_fpr: float = TOP

    title = "The top of a ranking"
    template, metric, chosen_by, rule = (
        RarePositives.template, RarePositives.metric, RarePositives.chosen_by, RarePositives.rule,
    )  # fmt: skip
    asked, taken, warm, note = RarePositives.asked, RarePositives.taken, RarePositives.warm, RarePositives.note
    measure, value, judge, verdict = (
        RarePositives.measure, RarePositives.value, RarePositives.judge, RarePositives.verdict,
    )  # fmt: skip
    found, sizes, settings, caution = (
        RarePositives.found, RarePositives.sizes, RarePositives.settings, RarePositives.caution,
    )  # fmt: skip
    numbers_of, view, sheet = RarePositives.numbers_of, RarePositives.view, RarePositives.sheet
    sentences, kept = RarePositives.sentences, RarePositives.kept

    @property
    def ranked(self) -> RankedClasses:
        """The classes and the region."""
        return RankedClasses(*self.classes, 0.0, float(self.max_fpr))

    def plans(self) -> dict[str, Plan]:
        return PLANS

    def candidates(self, key: str, l2: tuple[float, ...]) -> list[Any]:
        if key == "ranking":
            return [clone(self.model).set_params(l2=each) for each in l2]
        return ranking.logistic_models(self.model, l2)

    def fit(self, key: str, model: Any, train: Any) -> None:
        model.fit(train.X, train.y, **ranking.groups_of(key, train))

    def strength(self, key: str, model: Any) -> float | None:
        return float(model.l2)

    def numbers(self, study: Study) -> dict[str, Any]:
        return {"task": "ranking", "asked": self.ranked._asdict(), **certificate_dict(study.asked.model)}

    def aim(self) -> str:
        """What the push is after, in a sentence or two."""
        each, most = AGAINST[self.model.outer]
        return (
            f"{ranking.ordered(self.ranked)} What it minimises is the p-norm, p = {self.model.p:g}, of {each}: the "
            f"larger p is, the more {most} count."
        )

    def proof(self, study: Study) -> Proof:
        """The certificate of the push."""
        return proof_of(study.asked.model)


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    classes, note = ranking.chosen_classes(prepared, options)
    model = PNormPushClassifier(
        p=options["p"],
        **{name: options[name] for name in ("l1", "tol", "max_seconds")},
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    top = TOP if options["max_fpr"] is None else options["max_fpr"]
    return ranking.ask_of(TopOfRanking(model, classes, top), prepared, options, note)


P = Choice("p", "Of p-norm-push: the larger, the more the highest negatives count.", float, 4.0)
COMMANDS = (
    Command("p-norm-push", tuple(PLANS), (P, ranking.MAX_FPR, POSITIVE), prepare_classes, ask, ranking.evaluate),
)
