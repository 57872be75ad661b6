"""The same table, three models — plain, re-weighted, robust — trained alike and judged by one rule."""

import platform
import time
import warnings
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import xrisk
from xrisk.metrics import MIN_GROUP_SIZE
from xrisk.run import TracePoint
from xrisk.study.found import Arm, Study
from xrisk.study.scores import SCORES, Score, judge, metric_for
from xrisk.study.verdict import Verdict, arm_name, decide, finished, is_cut_short
from xrisk.tables.rows import Part


def compare(
    model: Any,
    train: Part,
    validation: Part,
    test: Part | None = None,
    *,
    l2: tuple[float, ...] | None = None,
    metric: str | None = None,
    min_group_size: int = MIN_GROUP_SIZE,
    title: str = "Worst groups",
    description: str = "",
    notes: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> Study:
    """Fit a robust model, and beside it the plain and the re-weighted one, and judge all three alike.

    The plain model (ERM) minimises the mean loss of all rows, the re-weighted one the mean over the groups of their
    mean losses, both with the loss and penalty of ``model``.

    Parameters
    ----------
    model : GroupDROClassifier or GroupDRORegressor
        Not fitted; its parameters are the question.
    train, validation : Part
        Training and validation rows; `xrisk.tables.parts` makes them.
    test : Part, optional
        The rows of the verdict; needed where there are several ``l2`` to choose from, because the rows that chose a
        model flatter it. With one ``l2`` the validation rows choose nothing, and the verdict may be on them.
    l2 : tuple of float, optional
        Strengths to choose from, for each of the three models by its score on the worst group of validation rows.
    metric : str, optional
        What choice and verdict go by: "accuracy" (the default), "balanced_accuracy" or "neg_log_loss" of a classifier,
        "neg_root_mean_squared_error" (the default), "neg_mean_squared_error" or "neg_mean_absolute_error" of a
        regression.
    min_group_size : int
        Groups of fewer rows are left out of choice and verdict.
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
    >>> from xrisk.study import compare
    >>> from xrisk.tables import parts
    >>> table = make_spurious(400, random_state=0)
    >>> study = compare(xrisk.GroupDROClassifier(random_state=0), *parts(table.X, table.y, table.groups))
    >>> [arm.key for arm in study.arms]
    ['erm', 'reweighted', 'robust']
    >>> study.verdict.groups, study.verdict.small  # groups of at least 30 validation rows, and of fewer
    (2, 2)
    """
    metric, strengths = metric_for(model, metric), strengths_of(model, l2, test)
    order = np.argsort(train.groups, kind="stable")  # in the order of groups all three problems share their kernels
    train = Part(train.X[order], np.asarray(train.y)[order], train.groups[order])
    said: list[str] = list(notes)
    rule: dict[str, Any] = {"metric": metric, "min_group_size": min_group_size}
    parts = (train, validation, validation if test is None else test)
    arms, done, total = [], 0.0, sum(WORK.values())
    for key, (name, _) in ARMS.items():
        watch(name, done / total)
        tried = [_arm(key, clone(model).set_params(l2=each), parts, rule, said) for each in strengths]
        arms.append(max(tried, key=lambda arm: _chosen_by(arm, SCORES[metric])))
        done += WORK[key]
    beside = beside_a_constant(arms[-1].model, train, "in the worst mixture of training groups", CURES, train.groups)
    watch("done", 1.0)
    return Study(
        title=title,
        description=description,
        task="classification" if is_classifier(model) else "regression",
        metric=SCORES[metric].name,
        arms=tuple(arms),
        verdict=_verdict(arms, parts[2], SCORES[metric], min_group_size),
        judged_on="validation" if test is None else "test",
        sizes=sizes_of(model, train, validation, test),
        is_nearly_constant=bool(beside),
        bounds=_bounds(arms[-1].model),
        settings={**parameters(model, strengths), **rule, **(settings or {})},
        notes=tuple(dict.fromkeys([*said, *beside])),
        versions=versions(),
        seed=model.random_state,
    )


ARMS = {
    "erm": ("ERM", "the mean loss over all rows"),
    "reweighted": ("Re-weighted", "the mean over the groups of their mean losses"),
    "robust": ("Robust", "the loss of the worst groups"),
}
CURES = "larger groups, a larger alpha or lam, or features that tell more may help"
HARDLY = 0.02  # of the objective: what a model must gain on a constant one to be worth a name
WORK = {"erm": 1.0, "reweighted": 1.0, "robust": 2.5}  # rough shares of the time


def _chosen_by(arm: Arm, score: Score) -> float:
    """The score of the worst group of validation rows; of all of them where no group has enough."""
    row = arm.validation.worst or arm.validation.overall
    assert row.score is not None  # the metrics of a study always are numbers
    return row.score if score.is_share else -row.score


def _verdict(arms: list[Arm], part: Part, score: Score, min_group_size: int) -> Verdict:
    done = finished(arms)
    return decide(
        tuple(arms[k].key for k in done),
        np.column_stack([score.gains(arm.model, part.X, part.y) for arm in arms])[:, done],
        part.groups,
        score=score,
        cells=score.cells(part.y),
        min_group_size=min_group_size,
    )


def _arm(key: str, fitted: Any, parts: tuple[Part, Part, Part], rule: dict[str, Any], said: list[str]) -> Arm:
    (name, words), train = ARMS[key], parts[0]
    groups: Any = train.groups
    if key != "robust":
        fitted.set_params(divergence="cvar", alpha=1.0)  # with alpha = 1 it is the mean over the groups
    if key == "erm":
        groups = np.zeros(train.y.size)
    if key == "robust":
        _compile(fitted, train)
    seconds, caught = timed(lambda: fitted.fit(train.X, train.y, groups=groups))
    for each in caught:
        if is_open(each):
            said.append(f"{name}: {each.message}.")
        elif key == "robust":
            said.append(f"Among the training rows {each.message}.")
    on_train, on_validation, on_test = (judge(fitted, part.X, part.y, part.groups, **rule) for part in parts)
    return Arm(key, arm_name(name, fitted), words, fitted.l2, fitted, on_train, on_validation, on_test, seconds)


def timed(fit: Callable[[], Any]) -> tuple[float, list[warnings.WarningMessage]]:
    """The seconds that a fit took, and what it warned of."""
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return time.perf_counter() - started, caught


def is_open(warning: warnings.WarningMessage) -> bool:
    """Whether a fit warns that it ended before its tolerance."""
    return issubclass(warning.category, ConvergenceWarning)


def strengths_of(model: Any, l2: tuple[float, ...] | None, test: Part | None) -> tuple[float, ...]:
    """The strengths to choose from; rows that choose among several cannot judge."""
    strengths = tuple(l2 or (model.l2,))
    if len(strengths) > 1 and test is None:
        raise ValueError(f"test must be given to choose from {len(strengths)} l2: the rows that choose cannot judge")
    return strengths


def beside_a_constant(model: Any, train: Part, where: str, cures: str, *groups: np.ndarray) -> list[str]:
    """A sentence where the robust model is hardly better than one that gives every row the same score."""
    if is_cut_short(model):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        constant = clone(model).fit(np.zeros((train.y.size, 1)), train.y, *groups)
    found, least = model.certificate_.primal, constant.certificate_.primal
    if not found > (1.0 - HARDLY) * least:
        return []
    worst = f"{where} it loses {found:.4g}, a constant score {least:.4g}"
    return [f"The robust model is hardly better than a constant one: {worst}; {cures}."]


def _compile(model: Any, train: Part) -> None:
    """Two steps, so that the bounds of the fit are told against the time of solving alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).set_params(max_iter=2).fit(train.X, train.y, groups=train.groups)


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


def _bounds(model: Any) -> tuple[TracePoint, ...]:
    """The points of the fit's trace; what was proved of the optimum in the end holds at every one of them."""
    return tuple(point._replace(bound=model.certificate_.dual) for point in model.trace_)
