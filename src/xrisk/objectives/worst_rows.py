"""The worst rows, whoever they are: plain and robust models, judged by the mean loss of their worst tenth of rows."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import accuracy_score, r2_score

from xrisk.applications import AMBIGUITIES, LOSSES
from xrisk.applications.arguments import by_name
from xrisk.estimators import DROClassifier, DRORegressor
from xrisk.estimators.samples import RADIUS, concentration
from xrisk.functions import loss_value
from xrisk.metrics import MIN_GROUP_SIZE, GroupReport, cvar, group_report
from xrisk.metrics.intervals import middle
from xrisk.metrics.tail import resampled_cvar
from xrisk.objectives.rare_positives import left_out
from xrisk.objectives.shared import (
    ALPHA,
    BINS,
    DEFAULT_LOSS,
    GROUPS,
    GROUPS_AS_FEATURES,
    LOSS,
    SMALL_GROUPS,
    TASK,
    described,
)
from xrisk.phrases import counted
from xrisk.report.figures import Scale, level_name, marks_figure, placed, ticks
from xrisk.report.phrases import (
    SIMPLEST,
    THIN,
    Card,
    Proof,
    compared,
    count,
    differences,
    headed,
    loss_interval,
    loss_number,
    not_compared,
    percent,
    proof_of,
    recommended,
    rounded,
)
from xrisk.study.objective import Choice, Command, Parts, Plan, Question, Sheet, SheetColumn, Told, resampling
from xrisk.study.scores import metric_for
from xrisk.study.study import (
    Study,
    certificate_dict,
    compared_with_constant,
    finite,
    is_open,
    parameters,
    sizes_of,
)
from xrisk.study.verdict import CONFIDENCE, Verdict, is_cut_short, pairwise
from xrisk.tables import Part
from xrisk.tables.prepare import Prepared, prepare_rows
from xrisk.tables.rows import group_names

TAIL = 0.1  # fraction of the rows whose mean loss decides
FEW = 10  # rows in the tail, below which intervals are too short
GROUP_RESAMPLES = 200
OUTLIERS = 0.05  # share of the rows that is set aside, where none is given
SHOWN = 15  # rows that carry the weight
METRIC = "mean loss of the worst 10 % of rows"
CURES = "a larger alpha or strength, a smaller radius, or features that tell more may help"
MEAN: dict[str, Any] = {"ambiguity": "cvar", "alpha": 1.0, "radius": None, "strength": None}  # over all rows
HEIGHT = 300  # of a panel of losses
CUT = 0.01  # share of the rows, the worst, that may reach out of the panel of all rows
POINTS = 150  # of a curve
GUIDE = {  # what to use: how it is asked for, and when
    "kl": (
        ("--ambiguity kl", "--strength 1"),
        "Weights grow smoothly, and fast, with the loss. Strength is a price, in units of the loss.",
    ),
    "chi2": (
        ("--ambiguity chi2", "--radius 0.1"),
        "Weights grow in a straight line with the loss: huge ones count for less than with kl. A radius has no units.",
    ),
    "cvar": (
        ("--ambiguity cvar", "--alpha 0.1"),
        "You can name the fraction that matters; other rows count for nothing. Noisy classes need a large alpha.",
    ),
    "outliers": (
        ("--outlier-fraction 0.05",),
        "Some labels or numbers may be wrong: the third model sets the rows of largest loss aside.",
    ),
    "groups": (
        ("--objective group-dro", "--groups a,b"),
        "The rows to protect have a name: the worst rows, whoever they are, are not the worst group.",
    ),
}


class TailScore(NamedTuple):
    """How a model does on some rows."""

    tail: float  # mean loss of the worst tenth of the rows
    low: float  # bounds of confidence 95 %
    high: float
    rest: float  # the same after the worst rows were set aside, as many as the third model sets aside
    mean: float  # loss of all rows
    right: float  # accuracy of a classifier, R² of a regression
    rows: int
    losses: np.ndarray  # (n,) of the rows, in their order
    groups: GroupReport | None  # by mean loss; None where there are no groups

    def to_dict(self) -> dict[str, Any]:
        """The numbers."""
        return {name: finite(value) for name, value in self._asdict().items() if name not in ("losses", "groups")}


class HeavyRow(NamedTuple):
    """A training row that carries weight in the worst case, under the robust model."""

    row: int  # its number
    weight: float
    target: Any
    predicted: Any
    probability: float | None  # of its own class; None where the model has none
    loss: float
    is_aside: bool  # whether the third model sets it aside


class RowsFound(NamedTuple):
    """What is found beside the scores."""

    heavy: tuple[HeavyRow, ...]  # the training rows of largest weight
    half: float  # the least share of the training rows that carries half of the weight
    notes: tuple[str, ...]

    @property
    def is_nearly_constant(self) -> bool:
        """Whether the robust model is hardly better than one that gives every row the same score."""
        return bool(self.notes)


@dataclass(frozen=True)
class WorstRows:
    """What does best on the worst tenth of the rows?

    Beside the model stand a plain one and one that sets outliers aside, all with the same loss and penalty. Wrong
    labels among the rows that judge are in the tail too.

    Parameters
    ----------
    model : DROClassifier or DRORegressor
        Not fitted; its parameters are the question. Its ``outlier_fraction`` is that of the third model alone, 0.05
        where it is zero.
    min_group_size : int
        Where the rows are of several groups the worst of these is told; groups of fewer rows are never the worst.
    numbers_of_rows : array (rows,), optional
        What the training rows are called in the list of those that carry the weight; by default 0, 1, ….
    """

    model: Any
    min_group_size: int = MIN_GROUP_SIZE
    numbers_of_rows: Any = None

    title: ClassVar[str] = "The tail of the loss"
    template: ClassVar[str] = "worst_rows.html"
    metric: ClassVar[str] = METRIC
    chosen_by: ClassVar[str] = "the worst 10 % of the validation rows"
    rule: ClassVar[str] = (
        f"the models are judged by the {METRIC}; we recommend the simplest model that no other outperforms "
        "with 95 % confidence"
    )

    @property
    def aside(self) -> float:
        """The share of the rows that the third model sets aside."""
        return float(self.model.outlier_fraction) or OUTLIERS

    def plans(self) -> dict[str, Plan]:
        return PLANS

    def asked(self) -> str:
        return "robust"

    def taken(self, parts: Parts) -> Parts:
        return parts

    def candidates(self, key: str, l2: tuple[float, ...]) -> list[Any]:
        changed: dict[str, Any] = {"trimmed": {"outlier_fraction": self.aside}, "erm": MEAN}.get(key, {})
        return [clone(self.model).set_params(**{"l2": each, "outlier_fraction": 0.0, **changed}) for each in l2]

    def warm(self, key: str, model: Any, train: Part) -> None:
        """Nothing is told against time."""

    def fit(self, key: str, model: Any, train: Part) -> None:
        model.fit(train.X, train.y)

    def strength(self, key: str, model: Any) -> float | None:
        return float(model.l2)

    def note(self, key: str, name: str, warning: Any) -> str | None:
        return f"{name}: {warning.message}." if is_open(warning) else None

    def measure(self, model: Any, part: Part) -> float:
        return cvar(row_losses(model, part.X, part.y), TAIL)

    def value(self, measured: float) -> float:
        return -measured

    def judge(self, model: Any, part: Part) -> TailScore:
        groups = part.groups if np.unique(part.groups).size > 1 else None
        return judge_tail(model, part.X, part.y, groups, aside=self.aside, min_group_size=self.min_group_size)

    def verdict(self, arms: list[Any], part: Part) -> Verdict:
        return tail_verdict({arm.key: arm.test.losses for arm in arms})

    def found(self, arms: list[Any], parts: Parts) -> RowsFound:
        robust, train = arms[1].model, parts[0]
        numbers = np.arange(train.y.size) if self.numbers_of_rows is None else self.numbers_of_rows
        return RowsFound(
            heavy_rows(robust, arms[2].model.outliers_, train, numbers),
            half_of(robust.sample_weights_),
            compared_with_constant(robust, train, "under the worst weights of the training rows", CURES),
        )

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        return sizes_of(self.model, train, validation, test)

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        """The parameters that the question has: an alpha, or a radius or strength."""
        idle = {"alpha"} if self.model.ambiguity != "cvar" else {"radius", "strength"}
        shown = {name: value for name, value in parameters(self.model, l2).items() if name not in idle}
        return {**shown, "outlier_fraction": self.aside}

    def caution(self, study: Study) -> str:
        return few_rows(study.asked.test.rows, study.judged_on)

    def numbers(self, study: Study) -> dict[str, Any]:
        return {
            "tail": TAIL,
            "certified": study.is_done,
            "half_of_the_weight": study.found.half,
            "heaviest_rows": [each._asdict() for each in study.found.heavy],
            "is_nearly_constant": study.found.is_nearly_constant,
        }

    def numbers_of(self, arm: Any) -> dict[str, Any]:
        told = certificate_dict(arm.model)
        return {
            "certificate": told["certificate"],
            "stop": told["stop"],
            "set_aside": int(arm.model.outliers_.size),
            "train": arm.train,
            "validation": arm.validation,
            "test": arm.test.to_dict(),
            "groups": arm.test.groups and arm.test.groups.to_dict(),
        }

    def view(self, study: Study) -> dict[str, Any]:
        return {
            "summary": summary(study),
            "objective": objective(study),
            "verdict": verdict(study),
            "trade": trade(study),
            "worst": worst_names([(arm.name, arm.test.groups) for arm in study.arms]),
            "has_groups": study.asked.test.groups is not None,
            "carried": carried(study),
            "aside": percent(self.aside, 0 if round(100.0 * self.aside, 6).is_integer() else 1),
            "proofs": [(arm.name, found) for arm, found in zip(study.arms[1:], proofs(study), strict=True)],
            "cards": cards(study),
            "right": headed(right_name(study.task)),
            "rows": [
                {"arm": arm, "tail": loss_number(arm.test.tail), "interval": loss_interval(arm.test.low, arm.test.high)}
                | {"rest": loss_number(arm.test.rest), "mean": loss_number(arm.test.mean)}
                | {"train": loss_number(arm.train)}
                | {"right": right(arm.test, study.task), "worst": worst(arm.test.groups)}
                for arm in study.arms
            ],
            "differences": differences(study, signed, "against"),
            "score_figure": score_figure(study),
            "panels": loss_panels(study),
            "heavy": [heavy_line(each) for each in study.found.heavy],
            "equal": _weight(1.0 / study.sizes["train_rows"]),
            "has_probabilities": any(each.probability is not None for each in study.found.heavy),
            "guide": guide(),
        }

    def sheet(self, study: Study, is_wide: bool) -> Sheet:
        """Models in rows: the worst tenth with its interval, the mean, accuracy or R², the worst group."""
        many = counted(study.asked.test.rows, f"{study.judged_on} row", f"{study.judged_on} rows")
        wide = (SheetColumn("minimises", is_number=False, is_dim=True),) if is_wide else ()
        lines = [(arm.name, *cells(arm.test, study.task), *((arm.words,) if is_wide else ())) for arm in study.arms]
        bold = () if study.recommended is None else (study.recommended.name,)
        title = f"loss on {many}"
        return Sheet(title, (*columns(study.task, study.asked.test.groups), *wide), (tuple(lines),), bold)

    def sentences(self, study: Study) -> list[str]:
        shown = ", ".join(f"{each.row:,}" for each in study.found.heavy[:5])
        said = [
            *(f"{arm.name}: {found.headline}." for arm, found in zip(study.arms[1:], proofs(study), strict=True)),
            f"{carried(study)} The heaviest rows of the file, from 1 on: {shown}.",
            worst_names([(arm.name, arm.test.groups) for arm in study.arms]),
            trade(study),
            verdict(study),
        ]
        return [sentence for sentence in said if sentence]

    def kept(self, train: Part) -> dict[str, Any]:
        names = np.unique(train.groups).tolist()
        return {"groups": tuple(names) if len(names) > 1 else (), "tail": TAIL}


PLANS = {
    "erm": Plan("ERM", "the mean loss over all rows", 1.0),
    "robust": Plan("Robust", "the loss under the worst weights of the rows", 2.0),
    "trimmed": Plan("Trimmed", "the same after the rows of largest loss are set aside", 5.0),
}


def row_losses(model: Any, X: Any, y: np.ndarray) -> np.ndarray:
    """The loss (n,) of each row, that which the model was trained on; classes must be ones it knows.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.objectives.worst_rows import row_losses
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


def judge_tail(
    model: Any,
    X: Any,
    y: np.ndarray,
    groups: np.ndarray | None = None,
    *,
    aside: float = 0.0,
    min_group_size: int = MIN_GROUP_SIZE,
) -> TailScore:
    """The mean loss of the worst tenth of the rows with its interval, and what stands beside it in a table.

    Parameters
    ----------
    model : estimator
        Fitted.
    X, y : array (n, d), array (n,)
        The rows.
    groups : array (n,), optional
        Names of the groups of the rows.
    aside : float
        Share of the rows of largest loss that ``rest`` leaves out.
    min_group_size : int
        Groups of fewer rows are never the worst.

    Examples
    --------
    >>> import numpy as np
    >>> import xrisk
    >>> from xrisk.objectives.worst_rows import judge_tail
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X[:, 0] + rng.standard_normal(200)
    >>> found = judge_tail(xrisk.DRORegressor().fit(X, y), X, y, aside=0.05)
    >>> found.mean < found.rest < found.tail, found.low < found.tail < found.high
    (True, True)
    """
    losses, predicted = row_losses(model, X, y), model.predict(X)
    sample = resampled_cvar(losses[:, None], TAIL, n_resamples=resampling(y.size), random_state=0)[:, 0]
    left = np.sort(losses)[: y.size - int(aside * y.size)]
    right = accuracy_score if is_classifier(model) else r2_score
    some: dict[str, Any] = {"losses": losses, "min_group_size": min_group_size}
    by_group = None if groups is None else judge_groups(model, y, predicted, groups, **some)
    return TailScore(
        cvar(losses, TAIL),
        *middle(sample, CONFIDENCE),
        cvar(left, TAIL),
        float(losses.mean()),
        float(right(y, predicted)) if y.size > 1 else float("nan"),
        int(y.size),
        losses,
        by_group,
    )


def judge_groups(
    model: Any, y: np.ndarray, predicted: np.ndarray, groups: Any, *, losses: np.ndarray, min_group_size: int
) -> GroupReport:
    """The mean loss of every group, worst first, beside its accuracy or its error."""
    return group_report(
        y,
        predicted,
        groups=groups,
        metric=metric_for(model, None),
        losses=losses,
        bootstrap=int(np.clip(2e7 / max(y.size, 1), 20, GROUP_RESAMPLES)),
        random_state=0,
        min_group_size=min_group_size,
    )


def tail_verdict(losses: dict[str, np.ndarray]) -> Verdict:
    """Which model the rows recommend, by bounds on the differences of their tails.

    Parameters
    ----------
    losses : dict of array (n,)
        Of the same rows under each model, the simplest first.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.objectives.worst_rows import tail_verdict
    >>> losses = np.random.default_rng(0).exponential(size=300)
    >>> tail_verdict({"plain": losses, "robust": 0.5 * losses}).recommended
    'robust'
    """
    keys = tuple(losses)
    if len(keys) < 2:
        return Verdict(None, ())
    table = np.column_stack(list(losses.values()))
    sample = dict(
        zip(keys, resampled_cvar(table, TAIL, n_resamples=resampling(len(table)), random_state=0).T, strict=True)
    )

    def difference(one: str, other: str) -> tuple[float, float]:
        return middle(sample[other] - sample[one], CONFIDENCE)

    return pairwise(keys, difference, [-sample[key].mean() for key in keys])


def few_rows(rows: int, judged_on: str) -> str:
    """A warning where few rows decide; nothing where there are enough."""
    if TAIL * rows >= FEW:
        return ""
    return (
        f"Few rows decide: the worst tenth of {rows:,} {judged_on} rows are some {max(TAIL * rows, 1.0):.0f}, fewer "
        f"than {FEW}. The intervals are too short, and another draw of rows may end otherwise."
    )


def heavy_rows(model: Any, aside: np.ndarray, train: Part, numbers: np.ndarray) -> tuple[HeavyRow, ...]:
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
    >>> from xrisk.objectives.worst_rows import half_of
    >>> half_of(np.array([0.1, 0.5, 0.2, 0.2]))
    0.25
    """
    reached = np.cumsum(np.sort(weights)[::-1]) >= 0.5 - 1e-12
    return float(np.argmax(reached) + 1) / weights.size


def guide() -> dict[str, tuple[tuple[str, ...], str]]:
    """What to use and when; that which is used unless another is asked for is called the default."""
    default = DROClassifier().ambiguity
    return {key: (asked, f"The default. {when}" if key == default else when) for key, (asked, when) in GUIDE.items()}


def signed(gain: float) -> str:
    """A loss that is saved."""
    return rounded(gain, "+.3g")


def right_name(task: str) -> str:
    """What stands beside the losses."""
    return "accuracy" if task == "classification" else "R²"


def right(score: TailScore, task: str) -> str:
    """The number under `right_name`."""
    if not np.isfinite(score.right):
        return "–"
    return percent(score.right) if task == "classification" else f"{score.right:.3f}"


def worst(groups: GroupReport | None) -> str:
    """The mean loss of the worst group; a dash where no group has enough rows."""
    found = None if groups is None else groups.worst
    return "–" if found is None or found.risk is None else loss_number(found.risk)


def worst_names(named: list[tuple[str, GroupReport | None]]) -> str:
    """A sentence that names the worst group of each model; nothing where there are no groups."""
    known = [(name, groups.worst, groups.min_group_size) for name, groups in named if groups is not None]
    if not known:
        return ""
    if all(row is None for _, row, _ in known):
        return f"No group has {known[0][2]} rows: no worst group is named."
    said = ", ".join(f"{name} {'–' if row is None else row.name}".strip() for name, row, _ in known)
    return f"The worst group, by mean loss among those of at least {known[0][2]} rows: {said}."


def summary(study: Study) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    tails, means = (
        ", ".join(f"{arm.name} {loss_number(number)}" for arm, number in zip(study.arms, found, strict=True))
        for found in ([arm.test.tail for arm in study.arms], [arm.test.mean for arm in study.arms])
    )
    return f"{headed(METRIC)}: {tails}; of all rows: {means}. {recommended(study)}"


def verdict(study: Study) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    pairs = "; ".join(compared(study, each, signed) for each in study.verdict.differences)
    rows = f"{count(study.asked.test.rows)} {study.judged_on} rows"
    said = f"Judged by the mean loss of the worst 10 % of {rows}"
    best = recommended(study, SIMPLEST)
    return f"{not_compared(study)}{said}; with 95 % confidence, in loss saved: {pairs}. {best}"


def trade(study: Study) -> str:
    """What the tail gains and what the average pays, for each model against the first."""
    if is_cut_short(study.arms[0].model):
        return f"Against {study.arms[0].name} nothing can be said."
    first = study.arms[0].test
    said = [
        f"{arm.name}: worst 10 % {_change(arm.test.tail, first.tail)}, all rows {_change(arm.test.mean, first.mean)}, "
        f"{right_name(study.task)} {_right_change(study.task, arm.test, first)}"
        for arm in study.arms[1:]
    ]
    return f"Loss against {study.arms[0].name} (less is better). {'; '.join(said)}."


def _change(loss: float, first: float) -> str:
    return f"{100.0 * (loss / first - 1.0):+.1f} %" if first > 0.0 else signed(loss - first)


def _right_change(task: str, score: TailScore, first: TailScore) -> str:
    gain = score.right - first.right
    return f"{100.0 * gain:+.1f} points" if task == "classification" else f"{gain:+.3f}"


def carried(study: Study) -> str:
    """How few rows carry half of the weight."""
    few = concentration(study.asked.model.sample_weights_)
    rows = counted(few, "row", "rows") if few else f"{percent(study.found.half)} of the training rows"
    alarm = " So few decide what the model looks like: see whether they are right before you trust it." if few else ""
    return f"Half of the weight of the robust model lies on {rows}.{alarm}"


def objective(study: Study) -> str:
    """What the robust model minimises."""
    model = study.asked.model
    said = "A linear model whose loss under the worst weights q of the rows, near equal ones p, is as small as can be"
    if not isinstance(model.ambiguity, str):
        return f"{said}: {model.ambiguity}. {_loss(study)}"
    chosen = AMBIGUITIES[model.ambiguity]
    numbers = {"alpha": model.alpha} if chosen.ball is None else {"radius": model.radius, "strength": model.strength}
    given = {name: value for name, value in numbers.items() if value is not None} or {"radius": RADIUS}
    here = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    return f"{said}. Which weights are near ({model.ambiguity}): {chosen.meaning}; here {here}. {_loss(study)}"


def _loss(study: Study) -> str:
    """Which loss that is, with its formula."""
    model = study.asked.model
    is_multinomial = study.task == "classification" and model.classes_.size > 2
    spec = by_name("loss", "multinomial" if is_multinomial else model.loss, LOSSES)
    formula = (type(spec).__doc__ or "").splitlines()[:1]
    return f"The loss is {type(spec).__name__}: {''.join(formula)}"


def proofs(study: Study) -> list[Proof]:
    """What is proved of the robust model, and of the one that sets rows aside, given these."""
    robust, trimmed = (proof_of(arm.model) for arm in study.arms[1:])
    rows = study.arms[2].model.outliers_.size
    given = f" This is given the {count(rows)} training rows that are set aside: another choice of these may be better."
    return [robust, trimmed._replace(text=trimmed.text + given)]


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    return [
        Card("Worst 10 % of rows, mean loss", tuple((arm.name, loss_number(arm.test.tail)) for arm in study.arms)),
        Card("All rows, mean loss", tuple((arm.name, loss_number(arm.test.mean)) for arm in study.arms)),
        Card(headed(right_name(study.task)), tuple((arm.name, right(arm.test, study.task)) for arm in study.arms)),
    ]


def score_figure(study: Study) -> dict[str, Any]:
    """The tail of every model with its interval."""
    found = [(arm, arm.test.tail, arm.test.low, arm.test.high) for arm in study.arms]
    texts = [(loss_number(arm.test.tail), loss_interval(arm.test.low, arm.test.high)) for arm in study.arms]
    return marks_figure(found, texts, np.inf)


def loss_panels(study: Study) -> list[dict[str, Any]]:
    """The losses of each model, largest first: of all rows, and of the worst tenth alone."""
    return [
        _panel(study, 1.0) | {"title": "All rows, the worst tenth in grey"},
        _panel(study, TAIL) | {"title": "The worst tenth alone"},
    ]


def _panel(study: Study, share: float) -> dict[str, Any]:
    n, losses = study.asked.test.rows, {arm.key: np.sort(arm.test.losses)[::-1] for arm in study.arms}
    last = max(int(np.ceil(share * n)), 2)
    rows = np.unique(np.linspace(0, min(last, n) - 1, POINTS).astype(int))
    first = 0 if share < 1.0 else int(CUT * n)  # of all rows a few are far above the rest
    across, up = Scale(0.0, share), Scale(0.0, 1.04 * max(float(each[first]) for each in losses.values()) or 1.0)
    place = partial(placed, across, up, HEIGHT)
    levels = ticks(*up)
    return {
        "height": HEIGHT,
        "names": ("share of the rows, largest losses first", "loss"),
        "lines": [(key, place((rows + 0.5) / n, each[rows])) for key, each in losses.items()],
        "area": [],
        "chance": [],
        "region": {"width": across.at(TAIL), "height": HEIGHT},
        "across": [{"at": across.at(v), "name": percent(v, 0)} for v in ticks(*across)],
        "up": [{"y": place([0.0], [v])[0][1], "name": level_name(v)} for v in levels],
    }


def _weight(weight: float) -> str:
    return f"{rounded(100.0 * weight, '.2g')}{THIN}%"


def heavy_line(each: HeavyRow) -> dict[str, Any]:
    """A row of the table of heavy rows, as text."""
    shown = [each.target, each.predicted]
    target, predicted = (loss_number(value) if isinstance(value, float) else str(value) for value in shown)
    return {
        "row": count(each.row),
        "weight": _weight(each.weight),
        "target": target,
        "predicted": predicted,
        "probability": "" if each.probability is None else percent(each.probability),
        "loss": loss_number(each.loss),
        "aside": "yes" if each.is_aside else "",
    }


def columns(task: str, groups: GroupReport | None) -> tuple[SheetColumn, ...]:
    """Of a table of scores."""
    some = (SheetColumn("worst group"),) if groups is not None else ()
    tail = SheetColumn("worst 10 %"), SheetColumn("95 % interval", is_dim=True)
    return SheetColumn("model", is_number=False), *tail, SheetColumn("all rows"), SheetColumn(right_name(task)), *some


def cells(score: TailScore, task: str) -> tuple[str, ...]:
    """A row of it, without the name."""
    last = () if score.groups is None else (worst(score.groups),)
    ends = loss_interval(score.low, score.high)
    return loss_number(score.tail), ends, loss_number(score.mean), right(score, task), *last


def ask(options: dict[str, Any], prepared: Prepared) -> Question:
    """The question of a command line."""
    task, target = prepared.encoding.task, options["target"]
    if not 0.0 < options["outlier_fraction"] < 0.5:
        raise ValueError(f"--outlier-fraction must be above 0 and below 0.5, got {options['outlier_fraction']:g}")
    for name in ("radius", "strength"):
        if options[name] is not None and not 0.0 < options[name] < np.inf:
            raise ValueError(f"--{name} must be positive and finite, got {options[name]:g}")
    estimator: Any = DROClassifier if task == "classification" else DRORegressor
    passed = ("ambiguity", "alpha", "radius", "strength", "outlier_fraction", "l1", "tol", "max_seconds")
    model = estimator(
        **{name: options[name] for name in passed},
        loss=options["loss"] or DEFAULT_LOSS[task],
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    if options["ambiguity"] != "cvar" and options["radius"] is None and options["strength"] is None:
        model.set_params(radius=RADIUS)
    groups = {"groups": list(options["groups"])} if options["groups"] else {}
    return Question(
        WorstRows(model, options["min_group_size"], prepared.numbers),
        (prepared.train, prepared.validation, prepared.test),
        title=f"{target}: the worst tenth of the rows",
        description=described(prepared, options, "predict {target} from {columns}"),
        settings={"objective": "dro", "validation": options["validation"], **groups},
        notes=prepared.notes,
    )


def refuse(given: list[str], options: dict[str, Any]) -> None:
    """Refuse numbers that are those of another ambiguity."""
    word = options["ambiguity"]
    takes = ("radius", "strength") if AMBIGUITIES[word].ball is not None else ("alpha",)
    for name in given:
        if name in ("alpha", "radius", "strength") and name not in takes:
            takers = [each for each in AMBIGUITIES if (AMBIGUITIES[each].ball is None) == (name == "alpha")]
            raise ValueError(f"--{name} goes with --ambiguity {' or '.join(takers)}, not with {word}")


def evaluate(fitted: Any, frame: Any, y: np.ndarray, *, title: str, model: str, options: dict[str, Any]) -> Told:
    """The tail of the loss of a model on another table; rows of classes it does not know are left out."""
    task = fitted.encoding.task
    known = np.isin(y, fitted.model.classes_) if task == "classification" else np.ones(y.size, dtype=bool)
    if not known.any():
        raise ValueError(f"{title}: no row is of a class that {model} knows")
    strange, frame = sorted(set(y[~known].tolist())), frame[known]
    names = group_names(fitted.encoding.group_labels(frame), len(frame)) if fitted.encoding.groups else None
    rows, least = fitted.encoding.encode(frame), options["min_group_size"]
    found = judge_tail(fitted.model, rows, y[known], names, min_group_size=least)
    caution = few_rows(found.rows, "judged")
    numbers = {name: getattr(found, name) for name in ("rows", "tail", "low", "high", "mean")}
    told = {"metric": METRIC, **numbers, "accuracy" if task == "classification" else "r2": finite(found.right)}
    told |= {"caution": caution or None, "groups": found.groups and found.groups.to_dict()}
    return Told(
        {**told, "classes_not_trained_on": strange},
        Sheet(
            f"{title}, {counted(found.rows, 'row', 'rows')}, loss",
            columns(task, found.groups),
            (((model, *cells(found, task)),),),
        ),
        (left_out(strange),) if strange else (),
        tuple(filter(None, (caution, worst_names([("", found.groups)])))),
    )


_of_ball = " and ".join(word for word, each in AMBIGUITIES.items() if each.ball is not None)
COMMANDS = (
    Command(
        "dro",
        tuple(PLANS),
        (
            GROUPS,
            Choice(
                "ambiguity",
                "Weights q of the rows near equal ones p over which dro takes the worst case. "
                + "; ".join(f"{word}: {each.meaning}" for word, each in AMBIGUITIES.items())
                + ".",
                default=DROClassifier().ambiguity,
                values=tuple(AMBIGUITIES),
            ),
            ALPHA,
            Choice("radius", f"Of the ball, for {_of_ball}. Default, without a strength: {RADIUS:g}.", float),
            Choice("strength", f"Of the cost, in units of the loss, for {_of_ball}.", float),
            Choice(
                "outlier_fraction",
                "Share of the rows that the third model of dro sets aside, those of largest loss.",
                float,
                OUTLIERS,
            ),
            LOSS,
            TASK,
            BINS,
            GROUPS_AS_FEATURES,
            SMALL_GROUPS,
        ),
        prepare_rows,
        ask,
        evaluate,
        refuse,
    ),
)
