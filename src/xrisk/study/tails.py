"""Three models — plain, robust, robust with outliers set aside — trained on the same rows and judged by their tail."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier

from xrisk.metrics import MIN_GROUP_SIZE, cvar
from xrisk.study.fits import beside_a_constant, is_open, parameters, sizes_of, strengths_of, timed, versions
from xrisk.study.tailed import (
    TAIL,
    HeavyRow,
    TailArm,
    TailStudy,
    judge_groups,
    judge_tail,
    row_losses,
    tail_verdict,
)
from xrisk.study.verdict import arm_name, finished
from xrisk.tables.rows import Part

OUTLIERS = 0.05  # share of the rows that is set aside, where none is given
SHOWN = 15  # rows that carry the weight
TAIL_ARMS = {
    "erm": ("ERM", "the mean loss over all rows"),
    "robust": ("Robust", "the loss under the worst weights of the rows"),
    "trimmed": ("Trimmed", "the same after the rows of largest loss are set aside"),
}
WORK = {"erm": 1.0, "robust": 2.0, "trimmed": 5.0}  # rough shares of the time
Parts = tuple[Part, Part, Part]


def compare_tails(
    model: Any,
    train: Part,
    validation: Part,
    test: Part | None = None,
    *,
    l2: tuple[float, ...] | None = None,
    numbers: np.ndarray | None = None,
    min_group_size: int = MIN_GROUP_SIZE,
    title: str = "The tail of the loss",
    description: str = "",
    notes: tuple[str, ...] = (),
    settings: dict[str, Any] | None = None,
    watch: Callable[[str, float], None] = lambda name, share: None,
) -> TailStudy:
    """Fit a model of the worst case over rows, beside it a plain one and one that sets outliers aside, and judge them.

    All three have the loss and penalty of ``model``. Wrong labels among the rows that judge are in the tail too.

    Parameters
    ----------
    model : DROClassifier or DRORegressor
        Not fitted; its parameters are the question. Its ``outlier_fraction`` is that of the third model alone, 0.05
        where it is zero.
    train, validation : Part
        Training and validation rows. Where they are of several groups, the worst of these is told.
    test : Part, optional
        The rows of the verdict; needed where there are several ``l2`` to choose from.
    l2 : tuple of float, optional
        Strengths to choose from, for each model by the tail of its loss on validation rows.
    numbers : array (rows,), optional
        What the training rows are called in the list of those that carry the weight; by default 0, 1, ….
    min_group_size : int
        Groups of fewer rows are never the worst.
    title, description, notes, settings
        For the page.
    watch : function of a name and a share
        Told which model is to be fitted next, and the share of the work that is done.

    Returns
    -------
    TailStudy

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.study import compare_tails
    >>> from xrisk.tables import parts
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = X[:, 0] + rng.standard_normal(400)
    >>> study = compare_tails(xrisk.DRORegressor("kl", radius=0.1), *parts(X, y, np.zeros(400)))
    >>> [arm.key for arm in study.arms]
    ['erm', 'robust', 'trimmed']
    """
    strengths = strengths_of(model, l2, test)
    parts, said = (train, validation, validation if test is None else test), list(notes)
    arms, share, total = [], 0.0, sum(WORK.values())
    aside = float(model.outlier_fraction) or OUTLIERS
    for key, (name, _) in TAIL_ARMS.items():
        watch(name, share / total)
        tried = [_fitted(key, _asked(key, model, each, aside), train, said) for each in strengths]
        chosen = min(tried, key=lambda each: _tail(each[0], validation))
        arms.append(_arm(key, chosen, parts, aside, min_group_size))
        share += WORK[key]
    robust, done = arms[1].model, finished(arms)
    beside = beside_a_constant(robust, train, "under the worst weights of the training rows", CURES)
    watch("done", 1.0)
    return TailStudy(
        title=title,
        description=description,
        task="classification" if is_classifier(model) else "regression",
        arms=tuple(arm._replace(losses=np.sort(arm.losses)[::-1]) for arm in arms),
        verdict=tail_verdict(tuple(arms[k].key for k in done), np.column_stack([arm.losses for arm in arms])[:, done]),
        judged_on="validation" if test is None else "test",
        sizes=sizes_of(model, train, validation, test),
        heavy=_heavy(robust, arms[2].model.outliers_, train, np.arange(train.y.size) if numbers is None else numbers),
        half=half_of(robust.sample_weights_),
        is_nearly_constant=bool(beside),
        settings={**_settings(model, strengths), "outlier_fraction": aside, **(settings or {})},
        notes=tuple(dict.fromkeys([*said, *beside])),
        versions=versions(),
        seed=model.random_state,
    )


CURES = "a larger alpha or strength, a smaller radius, or features that tell more may help"
PLAIN = {"ambiguity": "cvar", "alpha": 1.0, "radius": None, "strength": None}  # the mean over all rows


def _settings(model: Any, strengths: tuple[float, ...]) -> dict[str, Any]:
    """The parameters that the question has: an alpha, or a radius or strength."""
    idle = {"alpha"} if model.ambiguity != "cvar" else {"radius", "strength"}
    return {name: value for name, value in parameters(model, strengths).items() if name not in idle}


def _asked(key: str, model: Any, l2: float, aside: float) -> Any:
    asked = clone(model).set_params(l2=l2, outlier_fraction=aside if key == "trimmed" else 0.0)
    return asked.set_params(**PLAIN) if key == "erm" else asked


def _fitted(key: str, model: Any, train: Part, said: list[str]) -> tuple[Any, float]:
    """The model, fitted, and the seconds it took."""
    seconds, caught = timed(lambda: model.fit(train.X, train.y))
    said += [f"{TAIL_ARMS[key][0]}: {each.message}." for each in caught if is_open(each)]
    return model, seconds


def _tail(model: Any, part: Part) -> float:
    return cvar(row_losses(model, part.X, part.y), TAIL)


def _arm(key: str, fitted: tuple[Any, float], parts: Parts, aside: float, min_group_size: int) -> TailArm:
    (name, words), (model, seconds), (train, validation, last) = TAIL_ARMS[key], fitted, parts
    losses = row_losses(model, last.X, last.y)
    some: dict[str, Any] = {"losses": losses, "min_group_size": min_group_size}
    return TailArm(
        key=key,
        name=arm_name(name, model),
        words=words,
        l2=float(model.l2),
        model=model,
        train=_tail(model, train),
        validation=_tail(model, validation),
        test=judge_tail(model, last.X, last.y, aside=aside, losses=losses),
        losses=losses,
        groups=judge_groups(model, *last, **some) if np.unique(train.groups).size > 1 else None,
        seconds=seconds,
    )


def _heavy(model: Any, aside: np.ndarray, train: Part, numbers: np.ndarray) -> tuple[HeavyRow, ...]:
    """The training rows of largest weight."""
    rows, weights = model.heaviest_rows(SHOWN)
    X, y = train.X[rows], train.y[rows]
    losses, predicted = row_losses(model, X, y), model.predict(X)
    likely = np.exp(-losses) if is_classifier(model) and hasattr(model, "predict_proba") else [None] * rows.size
    cells = zip(numbers[rows], weights, y, predicted, likely, losses, np.isin(rows, aside), strict=True)
    return tuple(HeavyRow(*(each.item() if hasattr(each, "item") else each for each in row)) for row in cells)


def half_of(weights: np.ndarray) -> float:
    """The least share of the rows that carries half of the weight.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.study.tails import half_of
    >>> half_of(np.array([0.1, 0.5, 0.2, 0.2]))
    0.25
    """
    reached = np.cumsum(np.sort(weights)[::-1]) >= 0.5 - 1e-12
    return float(np.argmax(reached) + 1) / weights.size
