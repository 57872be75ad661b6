"""The same table, three models — plain, re-weighted, robust — trained alike and judged by one rule."""

import platform
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning

import xrisk
from xrisk.auto import AutoPoint
from xrisk.grouping import encode_groups
from xrisk.metrics import GroupReport, GroupRow, group_report
from xrisk.run.budget import Stop

RESAMPLES = 200  # of a group, for intervals of errors of regression


class Part(NamedTuple):
    """Rows of a table."""

    X: Any  # (n, d)
    y: np.ndarray  # (n,)
    groups: np.ndarray  # (n,) names


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
    bounds: tuple[AutoPoint, ...]  # of the robust fit, against time
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
        return max(self.arms, key=lambda arm: (sign * _score(arm.worst), sign * _score(arm.validation.overall)))

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
            "certified": robust.stop_ is Stop.REACHED,
            "stop": str(robust.stop_),
            "groups": [{"name": name, "weight": weight, "risk": risk} for name, weight, risk in weights],
            "bounds": [{key: _finite(value) for key, value in point._asdict().items()} for point in self.bounds],
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
        }


RULE = "models are judged by their score on the worst group of the validation rows, all of them by this rule"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _score(row: GroupRow) -> float:
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


def parts(X: Any, y: Any, groups: Any, *, validation: float = 0.25, seed: int | None = 0) -> tuple[Part, Part]:
    """Split a table into training and validation rows, in each group and class by the same share.

    Parameters
    ----------
    X : array or sparse matrix (n, d)
        The rows.
    y, groups : array (n,)
        Targets, and groups as `xrisk.grouping.encode_groups` takes them (they must not overlap).
    validation : float in (0, 1)
        The share of the validation rows.
    seed : int, optional
        Of the draw.

    Examples
    --------
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.report import parts
    >>> table = make_spurious(400, random_state=0)
    >>> [part.y.size for part in parts(table.X, table.y, table.groups)]
    [300, 100]
    """
    y = np.asarray(y)
    names = group_names(groups, y.size)
    train, held_out = split(names, y, validation=validation, seed=seed)
    return Part(X[train], y[train], names[train]), Part(X[held_out], y[held_out], names[held_out])


def group_names(groups: Any, n: int) -> np.ndarray:
    """The name of the group of each row (n,)."""
    grouping = encode_groups(groups, n)
    if grouping.labels.ndim == 2:
        raise ValueError("groups must not overlap here: give labels, or columns of labels, not membership")
    return np.array(grouping.names, dtype=str)[grouping.labels]


def split(
    names: np.ndarray, y: np.ndarray, *, validation: float, seed: int | None = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the training and of the validation rows, ascending; a group or class of one row is trained on."""
    if not 0.0 < validation < 1.0:
        raise ValueError(f"validation must be between 0 and 1, got {validation!r}")
    rng = np.random.default_rng(seed)
    few = y.dtype.kind not in "f" or np.unique(y).size <= 2
    cells = np.unique(names, return_inverse=True)[1]
    if few:
        classes, codes = np.unique(y, return_inverse=True)
        cells = np.unique(cells * classes.size + codes, return_inverse=True)[1]
    held_out = np.zeros(y.size, dtype=bool)
    for rows in np.split(np.argsort(cells, kind="stable"), np.cumsum(np.bincount(cells))[:-1]):
        taken = min(round(validation * rows.size), rows.size - 1)
        held_out[rng.permutation(rows)[:taken]] = True
    if not held_out.any():
        raise ValueError(
            f"validation must leave rows to judge by, {validation:g} of {y.size} rows in small groups is none"
        )
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def compare(
    model: Any,
    train: Part,
    validation: Part,
    *,
    l2: tuple[float, ...] | None = None,
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
        Rows to learn from and to judge by; `parts` makes them.
    l2 : tuple of float, optional
        Strengths to choose from, for each of the three models by its score on the worst group of validation rows.
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
    >>> from xrisk.report import compare, parts
    >>> table = make_spurious(400, random_state=0)
    >>> study = compare(xrisk.GroupDROClassifier(random_state=0), *parts(table.X, table.y, table.groups))
    >>> [arm.key for arm in study.arms]
    ['erm', 'reweighted', 'robust']
    """
    order = np.argsort(train.groups, kind="stable")  # in the order of groups all three problems share their kernels
    train = Part(train.X[order], np.asarray(train.y)[order], train.groups[order])
    said: list[str] = list(notes)
    strengths = tuple(l2 or (model.l2,))
    arms, done, total = [], 0.0, sum(WORK.values())
    for key, (name, words) in ARMS.items():
        watch(name, done / total)
        tried = [_arm(key, name, words, model, strength, train, validation, said) for strength in strengths]
        arms.append(max(tried, key=_worst_is_best))
        done += WORK[key]
    watch("done", 1.0)
    return Study(
        title=title,
        description=description,
        task="classification" if is_classifier(model) else "regression",
        metric=arms[0].validation.metric,
        arms=tuple(arms),
        sizes=_sizes(model, train, validation),
        bounds=tuple(arms[-1].model.trace_),
        settings={**_parameters(model, strengths), **(settings or {})},
        notes=tuple(dict.fromkeys(said)),
        versions=versions(),
        seed=model.random_state,
    )


ARMS = {
    "erm": ("ERM", "the mean loss over all rows"),
    "reweighted": ("Re-weighted", "the mean over the groups of their mean losses"),
    "robust": ("Robust", "the loss of the worst groups"),
}
WORK = {"erm": 1.0, "reweighted": 1.0, "robust": 2.5}  # rough shares of the time


def _worst_is_best(arm: Arm) -> float:
    return _score(arm.worst) if arm.validation.metric == "accuracy" else -_score(arm.worst)


def _arm(key: str, name: str, words: str, model: Any, l2: float, train: Part, validation: Part, said: list[str]) -> Arm:
    fitted = clone(model).set_params(l2=l2)
    groups: Any = train.groups
    if key != "robust":
        fitted.set_params(divergence="cvar", alpha=1.0)  # with alpha = 1 it is the mean over the groups
    if key == "erm":
        groups = np.zeros(train.y.size)
    if key == "robust":
        _compile(fitted, train)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(train.X, train.y, groups=groups)
    seconds = time.perf_counter() - started
    for each in caught:
        if key == "robust":
            said.append(_sentence(each))
        elif issubclass(each.category, ConvergenceWarning):
            said.append(f"{name}: {_sentence(each)}")
    return Arm(key, name, words, l2, fitted, _judge(fitted, train), _judge(fitted, validation), seconds)


def _compile(model: Any, train: Part) -> None:
    """Two steps, so that the bounds of the fit are told against the time of solving alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clone(model).set_params(max_iter=2).fit(train.X, train.y, groups=train.groups)


def _sentence(caught: Any) -> str:
    text = str(caught.message)
    return text[:1].upper() + text[1:] + "."


def root_mean_squared_error(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """√(mean (y − ŷ)²), without scikit-learn's checks, which a bootstrap would pay for each time."""
    return float(np.sqrt(np.mean((y_true - y_pred) ** 2)))


def judge(model: Any, guess: np.ndarray, y: np.ndarray, groups: Any) -> GroupReport:
    """The score of every group, worst first: the accuracy of a classifier, the error of a regression."""
    if is_classifier(model):
        return group_report(y, guess, groups=groups)
    resamples = int(np.clip(2e7 / max(y.size, 1), 20, RESAMPLES))
    report = group_report(
        y,
        guess,
        groups=groups,
        metric=root_mean_squared_error,
        greater_is_better=False,
        bootstrap=resamples,
        random_state=0,
    )
    report.metric = "root mean squared error"
    return report


def _judge(model: Any, part: Part) -> GroupReport:
    return judge(model, model.predict(part.X), part.y, part.groups)


def _sizes(model: Any, train: Part, validation: Part) -> dict[str, Any]:
    names, counts = np.unique(np.concatenate([train.groups, validation.groups]), return_counts=True)
    y = np.concatenate([train.y, validation.y])
    sizes: dict[str, Any] = {
        "rows": int(y.size),
        "train_rows": int(train.y.size),
        "validation_rows": int(validation.y.size),
        "features": int(train.X.shape[1]),
        "groups": int(names.size),
        "smallest_group": {"name": str(names[counts.argmin()]), "rows": int(counts.min())},
        "largest_group": {"name": str(names[counts.argmax()]), "rows": int(counts.max())},
    }
    if is_classifier(model):
        labels, often = np.unique(y, return_counts=True)
        shares = zip(labels.tolist(), often.tolist(), strict=True)
        return {**sizes, "classes": [{"name": str(label), "rows": n} for label, n in shares]}
    return {**sizes, "target": {"mean": float(y.mean()), "deviation": float(y.std())}}


def _parameters(model: Any, l2: tuple[float, ...]) -> dict[str, Any]:
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
    import numba

    return {
        "xrisk": xrisk.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
    }
