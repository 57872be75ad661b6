"""The top of a ranking: logistic, balanced and p-norm push scores, judged where false positives are few."""

from dataclasses import dataclass
from typing import Any

from xrisk.annotations import Estimator
from xrisk.estimators import PNormPushClassifier
from xrisk.objectives import rare_positives as ranking
from xrisk.objectives.options import POSITIVE, model_of
from xrisk.objectives.rare_positives import RarePositives
from xrisk.report.findings import Proof, proof_of
from xrisk.study.objective import Command, Option, Plan, Question, like
from xrisk.study.study import Study, certificate_dict
from xrisk.tables import Part, RankedClasses
from xrisk.tables.prepare import Prepared, prepare_classes

TOP = 0.1  # false positive rates up to which the ranking is judged, where none is given
AGAINST = {  # by what the outer sum is over: the terms of the norm, and which of them count most
    "negatives": ("what the positives lose against each negative", "the highest negatives"),
    "positives": ("what each positive loses against the negatives", "the lowest positives"),
}


@like(RarePositives)
@dataclass(frozen=True)
class TopOfRanking:
    """Which model ranks the positives above the highest negatives?

    The model is compared with two logistic regressions, one of the rows and one in which both classes count the same.
    All are judged as `RarePositives` judges, by the partial AUC up to a small false positive rate.

    Parameters
    ----------
    model : PNormPushClassifier
        Not fitted; its parameters are the question.
    classes : tuple of str
        What the negative and the positive class are called. The targets of the rows say which are positive.
    max_fpr : float
        False positive rates above it do not count.
    """

    model: Estimator
    classes: tuple[str, str] = ("False", "True")
    max_fpr: float = TOP

    title = "The top of a ranking"

    @property
    def ranked(self) -> RankedClasses:
        """The classes and the region."""
        return RankedClasses(*self.classes, 0.0, float(self.max_fpr))

    def plans(self, train: Part) -> dict[str, Plan]:
        push = Plan("Push", "the p-norm of what positives lose against each negative", 3.0, self.model)
        return ranking.logistic_plans(self.model, train) | {"ranking": push._replace(warning="Push: {}.")}

    def numbers(self, study: Study) -> dict[str, Any]:
        return {"task": "ranking", "asked": self.ranked._asdict(), **certificate_dict(study.requested.model)}

    def aim(self) -> str:
        """What the push minimises, in a sentence or two."""
        each, most = AGAINST[self.model.outer]
        return (
            f"{ranking.ranking_aim(self.ranked)} It minimises the p-norm, p = {self.model.p:g}, of {each}: the larger "
            f"p is, the more {most} count."
        )

    def proof(self, study: Study) -> Proof:
        """The certificate of the push."""
        return proof_of(study.requested.model)


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    classes, note = ranking.chosen_classes(prepared, options)
    top = TOP if options["max_fpr"] is None else options["max_fpr"]
    objective = TopOfRanking(model_of(PNormPushClassifier, options, "p"), classes, top)
    return ranking.ranking_question(objective, prepared, options, note)


P = Option("p", "With p-norm-push: the larger, the more the highest negatives count.", float, 4.0)
OPTIONS = (P, ranking.MAX_FPR, POSITIVE)
COMMANDS = (Command("p-norm-push", ranking.KEYS, "ranked", OPTIONS, prepare_classes, ask, ranking.evaluate),)
