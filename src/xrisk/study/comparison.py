"""The comparison: models fitted on the same rows, judged by one rule."""

import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import xrisk
from xrisk.annotations import Estimator
from xrisk.study.objective import Objective, Parts, Plan
from xrisk.study.study import NOT_FINISHED, Arm, Study
from xrisk.tables import Part

HARDLY = 0.02  # of the objective: by how much a model must be better than a constant one


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


def _strengths(model: Estimator, l2: tuple[float, ...] | None, test: Part | None) -> tuple[float, ...]:
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


def fit_plan(plan: Plan, model: Estimator, train: Part) -> tuple[float, list[str]]:
    """Fit a model; return the seconds it took and its warnings."""
    if plan.shows_bounds:  # two steps compile
        _fitted_quietly(clone(model).set_params(max_iter=2), train.X, train.y, plan)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(train.X, train.y, *plan.groups)
        except TypeError as error:  # of a problem that a certificate does not know
            if not plan.refusal:
                raise
            raise ValueError(plan.refusal.format(error)) from error
    seconds = time.perf_counter() - started
    return seconds, [note for each in caught if (note := _note(plan, each))]


def _fitted_quietly(model: Estimator, X: np.ndarray, y: np.ndarray, plan: Plan) -> Any:
    """The model, fitted without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, *plan.groups)


def _note(plan: Plan, warning: warnings.WarningMessage) -> str:
    """The note on a warning; empty where the warning is of no use."""
    is_open = issubclass(warning.category, ConvergenceWarning)
    return f"{plan.name}: {warning.message}." if is_open else plan.warning.format(warning.message)


def _versus_constant(objective: Objective, arm: Arm, plan: Plan, train: Part) -> str:
    """A sentence where a model is hardly better than one that gives every row the same score."""
    if objective.versus_constant is None or not arm.is_finished:
        return ""
    constant = _fitted_quietly(clone(arm.model), np.zeros((train.y.size, 1)), train.y, plan)
    found, least = arm.model.certificate_.primal, constant.certificate_.primal
    if not found > (1.0 - HARDLY) * least:
        return ""
    where, cures = objective.versus_constant
    losses = f"{where} its loss is {found:.4g}, that of a constant score {least:.4g}"
    return f"The robust model is hardly better than a constant one: {losses}. {cures} may help."


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    packages = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba}
    found = {"xrisk": xrisk.__version__, "python": platform.python_version()}
    return found | {name: package.__version__ for name, package in packages.items()}
