"""What a study of tails found, and how a model is judged: by the mean loss of its worst tenth of rows."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score

from xrisk.applications import LOSSES
from xrisk.applications.arguments import by_name
from xrisk.functions import loss_value
from xrisk.metrics import GroupReport, cvar, group_report
from xrisk.metrics.intervals import middle
from xrisk.metrics.tail import resampled_cvar
from xrisk.study.found import about, finite
from xrisk.study.ranked import resampling
from xrisk.study.scores import metric_for
from xrisk.study.verdict import CONFIDENCE, Difference, PairedVerdict, is_done, simplest

TAIL = 0.1  # fraction of the rows whose mean loss decides
FEW = 10  # rows in the tail, below which intervals are too short
GROUP_RESAMPLES = 200
METRIC = "mean loss of the worst 10 % of rows"
RULE = (
    f"the models are judged by the {METRIC}; recommended is the first, from the simplest on, that no other beats with "
    "confidence 95 %"
)


class TailScore(NamedTuple):
    """How a model does on some rows."""

    tail: float  # mean loss of the worst tenth of the rows
    low: float  # bounds of confidence 95 %
    high: float
    rest: float  # the same after the worst rows were set aside, as many as the third model sets aside
    mean: float  # loss of all rows
    right: float  # accuracy of a classifier, R² of a regression
    rows: int


class HeavyRow(NamedTuple):
    """A training row that carries weight in the worst case, under the robust model."""

    row: int  # its number
    weight: float
    target: Any
    predicted: Any
    probability: float | None  # of its own class; None where the model has none
    loss: float
    is_aside: bool  # whether the third model sets it aside


class TailArm(NamedTuple):
    """One of the models that are compared."""

    key: str
    name: str
    words: str  # what it minimises
    l2: float
    model: Any  # the fitted estimator
    train: float  # mean loss of the worst tenth of the training rows
    validation: float  # and of the rows that chose l2
    test: TailScore  # on the rows of the verdict; the validation rows where l2 was given
    losses: np.ndarray  # (n,) of the same rows, largest first
    groups: GroupReport | None  # by mean loss; None where there are no groups
    seconds: float  # of the fit


class TailStudy(NamedTuple):
    """What `compare_tails` found; `xrisk.report.render_tail` makes a page of it."""

    title: str
    description: str
    task: str  # "classification" or "regression"
    arms: tuple[TailArm, ...]  # plain, robust, robust with outliers set aside
    verdict: PairedVerdict
    judged_on: str  # "validation" or "test", the rows of the verdict
    sizes: dict[str, Any]  # rows, features, groups, classes
    heavy: tuple[HeavyRow, ...]  # training rows, the heaviest first
    half: float  # the least share of the training rows that carries half of the weight
    is_nearly_constant: bool  # whether the robust model is hardly better than one that gives every row the same score
    settings: dict[str, Any]
    notes: tuple[str, ...]
    versions: dict[str, str]
    seed: int | None

    @property
    def robust(self) -> TailArm:
        """The model of the worst case over all rows."""
        return self.arms[1]

    @property
    def asked(self) -> TailArm:
        """The model that was asked for."""
        return self.robust

    @property
    def recommended(self) -> TailArm | None:
        """The model that the verdict recommends; None where fewer than two fits finished."""
        return None if self.verdict.recommended is None else self.arm(self.verdict.recommended)

    @property
    def outliers(self) -> float:
        """The share of the rows that the third model sets aside."""
        return float(self.arms[2].model.outlier_fraction)

    @property
    def is_done(self) -> bool:
        """Whether every model reached its tolerance."""
        return is_done(self.arms)

    @property
    def caution(self) -> str:
        """What must be said where few rows decide; nothing where there are enough."""
        return few_rows(self.robust.test.rows, self.judged_on)

    def arm(self, key: str) -> TailArm:
        """The model called ``key``."""
        return next(arm for arm in self.arms if arm.key == key)

    def to_dict(self) -> dict[str, Any]:
        """The study as dicts, lists, numbers, strings and None, ready for JSON."""
        return {
            "title": self.title,
            "description": self.description,
            "task": self.task,
            "metric": METRIC,
            "tail": TAIL,
            "rule": RULE,
            "recommended": self.verdict.recommended,
            "verdict": self.verdict.to_dict(),
            "caution": self.caution or None,
            "judged_on": self.judged_on,
            "data": self.sizes,
            "models": [_arm_dict(arm) for arm in self.arms],
            "certified": self.is_done,
            "half_of_the_weight": self.half,
            "heaviest_rows": [each._asdict() for each in self.heavy],
            "is_nearly_constant": self.is_nearly_constant,
            "settings": self.settings,
            "notes": list(self.notes),
            "versions": self.versions,
            "seed": self.seed,
        }


def _arm_dict(arm: TailArm) -> dict[str, Any]:
    return {
        **about(arm),
        "certificate": {key: finite(value) for key, value in arm.model.certificate_._asdict().items()},
        "stop": str(arm.model.stop_),
        "set_aside": int(arm.model.outliers_.size),
        "train": arm.train,
        "validation": arm.validation,
        "test": {key: finite(value) for key, value in arm.test._asdict().items()},
        "groups": None if arm.groups is None else arm.groups.to_dict(),
    }


def row_losses(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """The loss (n,) of each row, that which the model was trained on; classes must be ones it knows.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.study.tailed import row_losses
    >>> X, y = np.arange(6.0)[:, None], np.array([0.0, 1.0, 2.0, 3.0, 4.0, 7.0])
    >>> model = xrisk.DRORegressor().fit(X, y)
    >>> np.allclose(row_losses(model, X, y), 0.5 * (model.predict(X) - y) ** 2)
    True
    """
    codes = np.searchsorted(model.classes_, y) if is_classifier(model) else None
    if codes is not None and hasattr(model, "predict_log_proba"):
        return -model.predict_log_proba(X)[np.arange(y.size), codes]
    scores = model.predict(X) if codes is None else model.decision_function(X)
    targets, loss = y if codes is None else 2.0 * codes - 1.0, by_name("loss", model.loss, LOSSES)
    return np.array([loss_value(loss, z, t) for z, t in zip(scores.tolist(), targets.tolist(), strict=True)])


def judge_tail(model: Any, X: Any, y: np.ndarray, *, aside: float = 0.0, losses: np.ndarray | None = None) -> TailScore:
    """The mean loss of the worst tenth of the rows with its interval, and what stands beside it in a table.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : array (n, d), array (n,)
        The rows.
    aside : float
        Share of the rows of largest loss that ``rest`` leaves out.
    losses : array (n,), optional
        Of the rows, where they are known.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.study import judge_tail
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> found = judge_tail(xrisk.DRORegressor().fit(X, y), X, y, aside=0.05)
    >>> found.mean < found.rest < found.tail, found.low < found.tail < found.high
    (True, True)
    """
    losses = row_losses(model, X, y) if losses is None else losses
    sample = resampled_cvar(losses[:, None], TAIL, **_draws(y.size))[:, 0]
    left = np.sort(losses)[: y.size - int(aside * y.size)]
    right = accuracy_score if is_classifier(model) else r2_score
    return TailScore(
        cvar(losses, TAIL),
        *middle(sample, CONFIDENCE),
        cvar(left, TAIL),
        float(losses.mean()),
        float(right(y, model.predict(X))) if y.size > 1 else float("nan"),
        int(y.size),
    )


def judge_groups(
    model: Any, X: Any, y: np.ndarray, groups: np.ndarray, *, losses: np.ndarray, min_group_size: int
) -> GroupReport:
    """The mean loss of every group, worst first, beside its accuracy or its error."""
    return group_report(
        y,
        model.predict(X),
        groups=groups,
        metric=metric_for(model, None),
        losses=losses,
        bootstrap=int(np.clip(2e7 / max(y.size, 1), 20, GROUP_RESAMPLES)),
        random_state=0,
        min_group_size=min_group_size,
    )


def tail_verdict(keys: tuple[str, ...], losses: np.ndarray) -> PairedVerdict:
    """Which model the rows recommend, by bounds on the differences of their tails.

    Parameters
    ----------
    keys : tuple of str
        The models, the simplest first.
    losses : array (n, models)
        Of the same rows under each model.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.study.tailed import tail_verdict
    >>> losses = np.random.default_rng(0).exponential(size=(300, 1))
    >>> tail_verdict(("plain", "robust"), np.hstack([losses, 0.5 * losses])).recommended
    'robust'
    """
    if len(keys) < 2:
        return PairedVerdict(None, ())
    sample = resampled_cvar(losses, TAIL, **_draws(len(losses)))
    differences = tuple(
        Difference(keys[k], keys[j], *middle(sample[:, j] - sample[:, k], CONFIDENCE))
        for k in range(len(keys))
        for j in range(k)
    )
    return PairedVerdict(simplest(keys, differences, -sample.mean(axis=0)), differences)


def _draws(rows: int) -> dict[str, Any]:
    return {name: value for name, value in resampling(rows).items() if name != "confidence"}


def few_rows(rows: int, judged_on: str) -> str:
    """A warning where few rows decide; nothing where there are enough."""
    if TAIL * rows >= FEW:
        return ""
    return (
        f"Few rows decide: the worst tenth of {rows:,} {judged_on} rows are some {max(TAIL * rows, 1.0):.0f}, fewer "
        f"than {FEW}. The intervals are too short, and another draw of rows may end otherwise."
    )
