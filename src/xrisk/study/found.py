"""What a study found."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.metrics import GroupReport, GroupRow
from xrisk.run import Stop

RULE = "models are judged by their score on the worst group of the validation rows, all of them by this rule"


class Arm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str
    words: str  # what it minimises
    l2: float
    model: Any  # the fitted estimator
    train: GroupReport
    validation: GroupReport
    seconds: float  # of the fit

    @property
    def worst(self) -> GroupRow:
        """The group of validation rows with the worst score."""
        return self.validation.rows[0]


class Study(NamedTuple):
    """What `compare` found; `xrisk.report.render` makes a page of it."""

    title: str
    description: str
    task: str  # "classification" or "regression"
    metric: str  # "accuracy" or "root mean squared error"
    arms: tuple[Arm, ...]  # plain, re-weighted, robust
    sizes: dict[str, Any]  # rows, features, groups, classes
    bounds: tuple[Any, ...]  # of the robust fit, against time: points of its ``trace_``
    settings: dict[str, Any]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seed: int | None

    @property
    def robust(self) -> Arm:
        """The model that was asked for."""
        return self.arms[-1]

    @property
    def best(self) -> Arm:
        """The model with the best score on its worst group of validation rows; of equals that of the best average."""
        sign = 1.0 if self.metric == "accuracy" else -1.0
        return max(self.arms, key=lambda arm: (sign * score_of(arm.worst), sign * score_of(arm.validation.overall)))

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
            "best": self.best.key,
            "data": self.sizes,
            "models": [_arm_dict(arm) for arm in self.arms],
            "certificate": {key: _finite(value) for key, value in robust.certificate_._asdict().items()},
            "certified": robust.stop_ is Stop.CONVERGED,
            "stop": str(robust.stop_),
            "groups": [{"name": name, "weight": weight, "risk": risk} for name, weight, risk in weights],
            "bounds": [{key: _finite(value) for key, value in point._asdict().items()} for point in self.bounds],
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
        }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def score_of(row: GroupRow) -> float:
    """The score of a row, NaN where there is none."""
    return float("nan") if row.score is None else row.score


def _arm_dict(arm: Arm) -> dict[str, Any]:
    return {
        "key": arm.key,
        "name": arm.name,
        "minimises": arm.words,
        "l2": arm.l2,
        "seconds": arm.seconds,
        "worst": arm.worst._asdict(),
        "validation": arm.validation.to_dict(),
        "train": arm.train.to_dict(),
    }
