"""Models side by side on one table, trained on the same rows and judged by one rule."""

import platform
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import xrisk
from xrisk.run import Stop, TracePoint
from xrisk.solvers.base import BOUNDED_ENDINGS, PROVED_ENDINGS
from xrisk.study.objective import Objective, Parts, Plan
from xrisk.study.verdict import Verdict
from xrisk.tables import Part

HARDLY = 0.02  # of the objective: by how much a model must be better than a constant one
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
    model: Any  # the fitted estimator
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
        """The model that was asked for."""
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
    notify: Callable[[str, float], None] = lambda name, share: None,
) -> Study:
    """Fit the models of an objective on the same rows and judge all by one rule.

    Parameters
    ----------
    objective : Objective
        The question, such as ``WorstGroups(GroupDROClassifier())``; `xrisk.objectives` has them.
    train, validation : Part
        Training and validation rows; `xrisk.tables.parts` makes them.
    test : Part, optional
        The rows of the verdict. Needed where there are several ``l2`` to choose from: the rows that chose a model make
        it look better than it is. With one ``l2`` the validation rows choose nothing and may serve for the verdict.
    l2 : tuple of float, optional
        Strengths to choose from: each model that has one gets the best on the validation rows.
    title, description, notes, settings
        For the page.
    notify : function of a name and a share
        Called with the name of the model that is fitted next and the share of the work that is done.

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
    parts = objective.checked((train, validation, validation if test is None else test))
    plans, arms, warned, done = objective.plans(parts[0]), [], list(notes), 0.0
    total = sum(plan.work for plan in plans.values())
    for key, plan in plans.items():
        notify(plan.name, done / total)
        arms.append(_arm(objective, key, plan, strengths, parts, warned))
        done += plan.work
    requested = next(arm for arm in arms if arm.key == objective.requested)
    constant = _versus_constant(objective, requested, plans[requested.key], parts[0])
    notify("done", 1.0)
    return Study(
        objective=objective,
        title=title or objective.title,
        description=description,
        arms=tuple(arms),
        verdict=objective.verdict([arm for arm in arms if arm.is_finished], parts[2]),
        constant=constant,
        details=objective.details(arms, parts),
        judged_on="validation" if test is None else "test",
        sizes=objective.sizes(train, validation, test),
        settings={**objective.settings(strengths), **(settings or {})},
        notes=tuple(dict.fromkeys(filter(None, (*warned, constant)))),
        versions=versions(),
        seed=objective.model.random_state,
    )


def _strengths(model: Any, l2: tuple[float, ...] | None, test: Part | None) -> tuple[float, ...]:
    """The strengths to choose from; rows that choose among several cannot judge."""
    strengths = tuple(l2 or (model.l2,))
    if len(strengths) > 1 and test is None:
        raise ValueError(f"test must be given to choose from {len(strengths)} l2: the rows that choose cannot judge")
    return strengths


def _arm(
    objective: Objective, key: str, plan: Plan, strengths: tuple[float, ...], parts: Parts, warned: list[str]
) -> Arm:
    """The best model of a plan on the validation rows; what its fits warn of is added to ``warned``."""
    (train, validation, last), tried = parts, []
    for l2 in strengths if plan.has_l2 else strengths[:1]:
        model = clone(plan.model).set_params(l2=l2)
        seconds, notes = fit_plan(plan, model, train)
        warned += notes
        tried.append((model, seconds, objective.measure(model, validation)))
    model, seconds, measured = max(tried, key=lambda each: objective.value(each[2]))
    arm = Arm(
        key=key,
        name=plan.name,
        minimises=plan.minimises,
        l2=float(model.l2) if plan.has_l2 else None,
        model=model,
        train=objective.measure(model, train),
        validation=measured,
        test=objective.judge(model, last),
        seconds=seconds,
    )
    return arm if arm.is_finished else arm._replace(name=plan.name + NOT_FINISHED)


def fit_plan(plan: Plan, model: Any, train: Part) -> tuple[float, list[str]]:
    """Fit a model: the seconds it took, and what it warned of."""
    groups = () if plan.groups is None else (plan.groups,)
    if plan.shows_bounds:  # two steps compile
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(model).set_params(max_iter=2).fit(train.X, train.y, *groups)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(train.X, train.y, *groups)
        except TypeError as error:  # of a problem that a certificate does not know
            if not plan.refusal:
                raise
            raise ValueError(plan.refusal.format(error)) from error
    seconds = time.perf_counter() - started
    return seconds, [note for each in caught if (note := _note(plan, each))]


def _note(plan: Plan, warning: warnings.WarningMessage) -> str:
    """What is reported of a warning, nothing where it is of no use."""
    is_open = issubclass(warning.category, ConvergenceWarning)
    return f"{plan.name}: {warning.message}." if is_open else plan.warning.format(warning.message)


def _versus_constant(objective: Objective, arm: Arm, plan: Plan, train: Part) -> str:
    """A sentence where a model is hardly better than one that gives every row the same score."""
    if objective.versus_constant is None or not arm.is_finished:
        return ""
    groups = () if plan.groups is None else (plan.groups,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant = clone(arm.model).fit(np.zeros((train.y.size, 1)), train.y, *groups)
    found, least = arm.model.certificate_.primal, constant.certificate_.primal
    if not found > (1.0 - HARDLY) * least:
        return ""
    where, cures = objective.versus_constant
    losses = f"{where} its loss is {found:.4g}, that of a constant score {least:.4g}"
    return f"The robust model is hardly better than a constant one: {losses}. {cures} may help."


def task_of(model: Any) -> str:
    """ "classification" or "regression"."""
    return "classification" if is_classifier(model) else "regression"


def sizes_of(model: Any, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
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


def parameters(model: Any, l2: tuple[float, ...]) -> dict[str, Any]:
    """The question that a model asks, for the page."""
    shown = {"estimator": type(model).__name__, **model.get_params(), "l2": l2[0] if len(l2) == 1 else list(l2)}
    return {
        name: value if isinstance(value, int | float | str | list | None) else str(value)
        for name, value in shown.items()
        if name not in NOT_SHOWN
    }


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba}
    found = {"xrisk": xrisk.__version__, "python": platform.python_version()}
    return found | {name: package.__version__ for name, package in packages.items()}


def finite(value: Any) -> Any:
    """The value, or None where it is a number that JSON does not know."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def trace_dicts(points: Iterable[TracePoint]) -> list[dict[str, Any]]:
    """The points of a trace, for JSON."""
    return [{key: finite(value) for key, value in point._asdict().items()} for point in points]


def certificate_dict(model: Any) -> dict[str, Any]:
    """What is proved of a model, for JSON."""
    return {
        "certificate": {key: finite(float(value)) for key, value in model.certificate_._asdict().items()},
        "certified": model.stop_ in PROVED_ENDINGS,
        "stop": str(model.stop_),
    }
