"""Models side by side on one table, trained on the same rows and judged by one rule."""

import platform
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import xrisk
from xrisk.solvers.base import PROVED_ENDINGS
from xrisk.study.objective import Objective, Parts
from xrisk.study.verdict import Verdict, arm_name, finished, is_cut_short, is_done
from xrisk.tables import Part

HARDLY = 0.02  # of the objective: what a model must gain on a constant one to be worth a name


class Arm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str
    words: str  # what it minimises
    l2: float | None  # None where the model has no such penalty
    model: Any  # the fitted estimator
    train: Any  # what the objective measures on the training rows
    validation: Any  # and on the rows that chose l2
    test: Any  # what it finds on the rows of the verdict; the validation rows where l2 was given
    seconds: float  # of the fit


class Study(NamedTuple):
    """What `compare` found; `xrisk.report.render` makes a page of it."""

    objective: Any  # an `Objective`, with what it has beside that
    title: str
    description: str
    arms: tuple[Arm, ...]  # the simplest first
    verdict: Verdict
    found: Any  # what else the objective found
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
    def metric(self) -> str:
        """What the models are judged by, as people read it."""
        return self.objective.metric

    @property
    def asked(self) -> Arm:
        """The model that was asked for."""
        return self.arm(self.objective.asked())

    @property
    def recommended(self) -> Arm | None:
        """The model that the verdict recommends; None where fewer than two fits finished."""
        return None if self.verdict.recommended is None else self.arm(self.verdict.recommended)

    @property
    def is_done(self) -> bool:
        """Whether every fit reached its tolerance, or its end where nothing can be proved."""
        return is_done(self.arms)

    @property
    def caution(self) -> str:
        """What must be said where few rows decide; nothing where there are enough."""
        return self.objective.caution(self)

    def arm(self, key: str) -> Arm:
        """The model called ``key``."""
        return next(arm for arm in self.arms if arm.key == key)

    def to_dict(self) -> dict[str, Any]:
        """The study as dicts, lists, numbers, strings and None, ready for JSON."""
        return {
            "title": self.title,
            "description": self.description,
            "task": self.task,
            "metric": self.metric,
            "rule": self.objective.rule,
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
        told = {"key": arm.key, "name": arm.name, "minimises": arm.words, "l2": arm.l2, "seconds": arm.seconds}
        return {**told, "finished": not is_cut_short(arm.model), **self.objective.numbers_of(arm)}


def compare(
    objective: Objective,
    train: Part,
    validation: Part,
    test: Part | None = None,
    *,
    l2: tuple[float, ...] | None = None,
    title: str = "",
    description: str = "",
    notes: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> Study:
    """Fit the models of an objective on the same rows and judge all by one rule.

    Parameters
    ----------
    objective : Objective
        The question, such as ``WorstGroups(GroupDROClassifier())``; `xrisk.objectives` has them.
    train, validation : Part
        Training and validation rows; `xrisk.tables.parts` makes them.
    test : Part, optional
        The rows of the verdict; needed where there are several ``l2`` to choose from, because the rows that chose a
        model flatter it. With one ``l2`` the validation rows choose nothing, and the verdict may be on them.
    l2 : tuple of float, optional
        Strengths to choose from, for each model that has one by its score on the validation rows.
    title, description, notes, settings
        For the page.
    watch : function of a name and a share
        Told which model is to be fitted next, and the share of the work that is done.

    Returns
    -------
    Study

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.objectives import WorstGroups
    >>> from xrisk.study import compare
    >>> from xrisk.tables import parts
    >>> table = make_spurious(400, random_state=0)
    >>> objective = WorstGroups(xrisk.GroupDROClassifier(random_state=0))
    >>> study = compare(objective, *parts(table.X, table.y, table.groups))
    >>> [arm.key for arm in study.arms]
    ['erm', 'reweighted', 'robust']
    """
    strengths = _strengths(objective.model, l2, test)
    parts, said = (train, validation, validation if test is None else test), list(notes)
    parts = objective.taken(parts)
    arms, done, plans = [], 0.0, objective.plans()
    total = sum(plan.work for plan in plans.values())
    for key, plan in plans.items():
        watch(plan.name, done / total)
        arms.append(_arm(objective, key, strengths, parts, said))
        done += plan.work
    verdict, found = objective.verdict([arms[k] for k in finished(arms)], parts[2]), objective.found(arms, parts)
    watch("done", 1.0)
    return Study(
        objective=objective,
        title=title or objective.title,
        description=description,
        arms=tuple(arms),
        verdict=verdict,
        found=found,
        judged_on="validation" if test is None else "test",
        sizes=objective.sizes(train, validation, test),
        settings={**objective.settings(strengths), **(settings or {})},
        notes=tuple(dict.fromkeys([*said, *getattr(found, "notes", ())])),
        versions=versions(),
        seed=objective.model.random_state,
    )


def _arm(objective: Objective, key: str, strengths: tuple[float, ...], parts: Parts, said: list[str]) -> Arm:
    plan, (train, validation, last) = objective.plans()[key], parts
    tried = []
    for model in objective.candidates(key, strengths):
        objective.warm(key, model, train)
        seconds, caught = _timed(partial(objective.fit, key, model, train))
        said += [note for each in caught if (note := objective.note(key, plan.name, each))]
        tried.append((model, seconds, objective.measure(model, validation)))
    model, seconds, measured = max(tried, key=lambda each: objective.value(each[2]))
    return Arm(
        key=key,
        name=arm_name(plan.name, model),
        words=plan.words,
        l2=objective.strength(key, model),
        model=model,
        train=objective.measure(model, train),
        validation=measured,
        test=objective.judge(model, last),
        seconds=seconds,
    )


def _timed(fit: Callable[[], Any]) -> tuple[float, list[warnings.WarningMessage]]:
    """The seconds that a fit took, and what it warned of."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return time.perf_counter() - started, caught


def is_open(warning: warnings.WarningMessage) -> bool:
    """Whether a fit warns that it ended before its tolerance."""
    return issubclass(warning.category, ConvergenceWarning)


def _strengths(model: Any, l2: tuple[float, ...] | None, test: Part | None) -> tuple[float, ...]:
    """The strengths to choose from; rows that choose among several cannot judge."""
    strengths = tuple(l2 or (model.l2,))
    if len(strengths) > 1 and test is None:
        raise ValueError(f"test must be given to choose from {len(strengths)} l2: the rows that choose cannot judge")
    return strengths


def compared_with_constant(model: Any, train: Part, where: str, cures: str, *groups: np.ndarray) -> tuple[str, ...]:
    """A sentence where the robust model is hardly better than one that gives every row the same score."""
    if is_cut_short(model):
        return ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant = clone(model).fit(np.zeros((train.y.size, 1)), train.y, *groups)
    found, least = model.certificate_.primal, constant.certificate_.primal
    if not found > (1.0 - HARDLY) * least:
        return ()
    worst = f"{where} it loses {found:.4g}, a constant score {least:.4g}"
    return (f"The robust model is hardly better than a constant one: {worst}; {cures}.",)


def task_of(model: Any) -> str:
    """ "classification" or "regression"."""
    return "classification" if is_classifier(model) else "regression"


def sizes_of(model: Any, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
    """What the rows are, for the page: how many of each kind, group and class."""
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


def parameters(model: Any, l2: tuple[float, ...]) -> dict[str, Any]:
    """The question that a model asks, for the page."""
    shown = {"estimator": type(model).__name__, **model.get_params()}
    shown["l2"] = l2[0] if len(l2) == 1 else list(l2)
    for name in ("verbose", "warm_start", "random_state"):
        shown.pop(name, None)
    return {
        name: value if isinstance(value, int | float | str | list | None) else str(value)
        for name, value in shown.items()
    }


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    return {
        "xrisk": xrisk.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
    }


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON does not know."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def certificate_dict(model: Any) -> dict[str, Any]:
    """What is proved of a model, for JSON."""
    return {
        "certificate": {key: finite(float(value)) for key, value in model.certificate_._asdict().items()},
        "certified": model.stop_ in PROVED_ENDINGS,
        "stop": str(model.stop_),
    }
