"""What a study found."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.metrics import GroupReport, GroupRow
from xrisk.solvers.base import PROVED_ENDINGS
from xrisk.study.verdict import Verdict, is_cut_short, is_done

RULE = (
    "the models are judged by the score of their worst group among those of enough rows; recommended is the first, "
    "from the simplest on, that no other beats with confidence 95 %"
)


class Arm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str
    words: str  # what it minimises
    l2: float
    model: Any  # the fitted estimator
    train: GroupReport
    validation: GroupReport  # on the rows that chose l2
    test: GroupReport  # on the rows of the verdict; the validation rows where l2 was given
    seconds: float  # of the fit

    @property
    def worst(self) -> GroupRow | None:
        """The worst group in the verdict; None where none has enough rows."""
        return self.test.worst


class Study(NamedTuple):
    """What `compare` found; `xrisk.report.render` makes a page of it."""

    title: str
    description: str
    task: str  # "classification" or "regression"
    metric: str  # as people read it: "accuracy", "log loss"
    arms: tuple[Arm, ...]  # plain, re-weighted, robust
    verdict: Verdict
    judged_on: str  # "validation" or "test", the rows of the verdict
    sizes: dict[str, Any]  # rows, features, groups, classes
    is_nearly_constant: bool  # whether the robust model is hardly better than one that gives every row the same score
    bounds: tuple[Any, ...]  # of the robust fit, against time: points of its ``trace_``
    settings: dict[str, Any]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seed: int | None

    @property
    def robust(self) -> Arm:
        """The model of the worst groups."""
        return self.arms[-1]

    @property
    def asked(self) -> Arm:
        """The model that was asked for."""
        return self.robust

    @property
    def recommended(self) -> Arm | None:
        """The model that the verdict recommends; None where fewer than two fits finished."""
        return None if self.verdict.recommended is None else self.arm(self.verdict.recommended)

    @property
    def is_done(self) -> bool:
        """Whether every model reached its tolerance."""
        return is_done(self.arms)

    @property
    def min_group_size(self) -> int:
        """Groups of fewer rows are left out of the verdict."""
        return self.arms[0].test.min_group_size

    @property
    def judged_rows(self) -> int:
        """The number of rows of the verdict."""
        return self.arms[0].test.overall.n

    def arm(self, key: str) -> Arm:
        """The model called ``key``."""
        return next(arm for arm in self.arms if arm.key == key)

    def to_dict(self) -> dict[str, Any]:
        """The study as dicts, lists, numbers, strings and None, ready for JSON."""
        robust = self.robust.model
        weights = zip(robust.groups_, robust.group_weights_.tolist(), robust.group_risk_.tolist(), strict=True)
        return {
            "title": self.title,
            "description": self.description,
            "task": self.task,
            "metric": self.metric,
            "rule": RULE,
            "recommended": self.verdict.recommended,
            "verdict": self.verdict.to_dict(),
            "judged_on": self.judged_on,
            "min_group_size": self.min_group_size,
            "loss": self.settings.get("loss"),
            "data": self.sizes,
            "is_nearly_constant": self.is_nearly_constant,
            "models": [_arm_dict(arm) for arm in self.arms],
            "certificate": {key: finite(value) for key, value in robust.certificate_._asdict().items()},
            "certified": robust.stop_ in PROVED_ENDINGS,
            "stop": str(robust.stop_),
            "groups": [{"name": name, "weight": weight, "risk": risk} for name, weight, risk in weights],
            "bounds": [{key: finite(value) for key, value in point._asdict().items()} for point in self.bounds],
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
        }


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON does not know."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def about(arm: Any) -> dict[str, Any]:
    """What is told of a model of any study, for JSON."""
    finished = not is_cut_short(arm.model)
    told = {"key": arm.key, "name": arm.name, "minimises": arm.words, "l2": arm.l2, "seconds": arm.seconds}
    return {**told, "finished": finished}


def _arm_dict(arm: Arm) -> dict[str, Any]:
    return {
        **about(arm),
        "worst": None if arm.worst is None else arm.worst._asdict(),
        "validation": arm.validation.to_dict(),
        "test": arm.test.to_dict(),
        "train": arm.train.to_dict(),
    }
