"""What a study found: the models, their scores, the verdict; and how that is said in JSON."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from xrisk.annotations import Estimator
from xrisk.run import Stop, TracePoint
from xrisk.solvers.base import BOUNDED_ENDINGS, PROVED_ENDINGS
from xrisk.study.verdict import Verdict
from xrisk.tables import Part

CUT_SHORT = (Stop.ITERATIONS, Stop.ORACLE_CALLS, Stop.SECONDS, Stop.INTERRUPTED, Stop.DIVERGED, Stop.UNBOUNDED)
DONE = (*PROVED_ENDINGS, *BOUNDED_ENDINGS)
NOT_FINISHED = " (not finished)"  # what the name of a model ends in whose fit was cut short
RULE = "the models are judged by {}; we recommend the simplest model that no other outperforms with 95 % confidence"
NOT_SHOWN = ("verbose", "warm_start", "random_state")  # parameters that are no part of the question


class Arm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str  # says so where the fit was cut short
    minimises: str
    l2: float | None  # None where the model has no such penalty
    model: Estimator  # the fitted estimator
    train: Any  # what the objective measures on the training rows
    validation: Any  # and on the rows that chose l2
    test: Any  # how it is judged on the rows of the verdict; the validation rows where l2 was given
    seconds: float  # of the fit

    @property
    def is_finished(self) -> bool:
        """Whether its fit was not cut short by a limit or Ctrl-C, which may leave a model where it started."""
        return self.model.stop_ not in CUT_SHORT


class Study(NamedTuple):
    """What `compare` found; `xrisk.report.render` makes a page of it."""

    objective: Any  # an `Objective`
    title: str
    description: str
    arms: tuple[Arm, ...]  # the simplest first
    verdict: Verdict
    constant: str  # a sentence where the requested model is hardly better than a constant one
    details: Any  # what else the objective shows
    judged_on: str  # "validation" or "test", the rows of the verdict
    sizes: dict[str, Any]  # rows, features, classes
    settings: dict[str, Any]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seed: int | None

    @property
    def task(self) -> str:
        """ "classification" or "regression"."""
        return task_of(self.objective.model)

    @property
    def requested(self) -> Arm:
        """The requested model."""
        return self.arm(self.objective.requested)

    @property
    def recommended(self) -> Arm | None:
        """The model that the verdict recommends; None where fewer than two fits finished."""
        return None if self.verdict.recommended is None else self.arm(self.verdict.recommended)

    @property
    def is_done(self) -> bool:
        """Whether every fit reached its tolerance, or its end where nothing can be proved."""
        return all(arm.model.stop_ in DONE for arm in self.arms)

    @property
    def caution(self) -> str:
        """A warning where few rows decide, else nothing."""
        return self.objective.caution(self.requested.test, self.judged_on)

    def arm(self, key: str) -> Arm:
        """The model called ``key``."""
        return next(arm for arm in self.arms if arm.key == key)

    def to_dict(self) -> dict[str, Any]:
        """The study as dicts, lists, numbers, strings and None, ready for JSON."""
        return {
            "title": self.title,
            "description": self.description,
            "task": self.task,
            "metric": self.objective.metric,
            "rule": RULE.format(self.objective.judged_by),
            "recommended": self.verdict.recommended,
            "verdict": self.verdict.to_dict(),
            "caution": self.caution or None,
            "judged_on": self.judged_on,
            "data": self.sizes,
            "models": [self._arm_dict(arm) for arm in self.arms],
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
            **self.objective.numbers(self),
        }

    def _arm_dict(self, arm: Arm) -> dict[str, Any]:
        about = {"key": arm.key, "name": arm.name, "minimises": arm.minimises, "l2": arm.l2, "seconds": arm.seconds}
        return {**about, "finished": arm.is_finished, **self.objective.numbers_of(arm)}


def task_of(model: Estimator) -> str:
    """ "classification" or "regression"."""
    return "classification" if is_classifier(model) else "regression"


def sizes_of(model: Estimator, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
    """How many rows there are of each kind, group and class, for the page."""
    parts = (train, validation) if test is None else (train, validation, test)
    names, counts = np.unique(np.concatenate([part.groups for part in parts]), return_counts=True)
    y = np.concatenate([part.y for part in parts])
    sizes: dict[str, Any] = {
        **row_counts(train, validation, test),
        "groups": int(names.size),
        "smallest_group": {"name": str(names[counts.argmin()]), "rows": int(counts.min())},
        "largest_group": {"name": str(names[counts.argmax()]), "rows": int(counts.max())},
    }
    if is_classifier(model):
        labels, often = np.unique(y, return_counts=True)
        shares = zip(labels.tolist(), often.tolist(), strict=True)
        return {**sizes, "classes": [{"name": str(label), "rows": n} for label, n in shares]}
    return {**sizes, "target": {"mean": float(y.mean()), "std": float(y.std())}}


def row_counts(train: Part, validation: Part, test: Part | None) -> dict[str, int]:
    """How many rows there are of each kind, and how many features."""
    sizes = [0 if part is None else int(part.y.size) for part in (train, validation, test)]
    counts = dict(zip(("train_rows", "validation_rows", "test_rows"), sizes, strict=True))
    return {"rows": sum(sizes), **counts, "features": int(train.X.shape[1])}


def parameters(model: Estimator, l2: tuple[float, ...]) -> dict[str, Any]:
    """The question that a model asks, for the page."""
    shown = {"estimator": type(model).__name__, **model.get_params(), "l2": l2[0] if len(l2) == 1 else list(l2)}
    return {
        name: value if isinstance(value, int | float | str | list | None) else str(value)
        for name, value in shown.items()
        if name not in NOT_SHOWN
    }


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON does not know."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def trace_dicts(points: Iterable[TracePoint]) -> list[dict[str, Any]]:
    """The points of a trace, for JSON."""
    return [{key: finite(value) for key, value in point._asdict().items()} for point in points]


def certificate_dict(model: Estimator) -> dict[str, Any]:
    """What is proved of a model, for JSON."""
    return {
        "certificate": {key: finite(float(value)) for key, value in model.certificate_._asdict().items()},
        "certified": model.stop_ in PROVED_ENDINGS,
        "stop": str(model.stop_),
    }
