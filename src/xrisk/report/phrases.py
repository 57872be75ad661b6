"""Numbers and findings of a study as people read them."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from xrisk.applications import DIVERGENCES
from xrisk.metrics import GroupReport
from xrisk.phrases import counted
from xrisk.solvers.base import PROVED_ENDINGS, Stop
from xrisk.study import Study
from xrisk.study.scores import SHARES
from xrisk.study.verdict import is_cut_short

WORDY = 1e8  # from here on a number is shorter with an exponent
THIN = "\u202f"  # narrow no-break space


def count(number: int) -> str:
    """12 345 with narrow spaces."""
    return f"{number:,}".replace(",", THIN)


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent."""
    return f"{100.0 * share:.{digits}f}{THIN}%"


def percent_above(share: float, digits: int) -> str:
    """A share in per cent, rounded up: what is said to be at most it must be.

    Examples
    --------
    >>> from xrisk.report.phrases import percent_above
    >>> percent_above(1e-9, 2).replace(THIN, " ")
    '0.01 %'
    """
    fine = 10.0 ** (digits + 2)
    return percent(math.ceil(share * fine) / fine, digits)


def short(value: Any) -> str:
    """A number in four digits, anything else as it is."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(short(entry) for entry in value)
    return "none" if value is None else str(value)


def score(value: float | None, metric: str) -> str:
    """A score: per cent for accuracies, four digits for errors and losses."""
    if value is None:
        return "–"
    return percent(value) if metric in SHARES else loss_number(value)


def loss_number(value: float) -> str:
    """A loss, in four digits; the zeros at the end are digits too."""
    return rounded(value, "#.4g")


def rounded(value: float, form: str) -> str:
    """A number in the digits of a format; one of thousands and millions without an exponent.

    Examples
    --------
    >>> from xrisk.report.phrases import rounded
    >>> rounded(0.51234, "#.3g"), rounded(51234.0, "+.3g"), rounded(1e12, ".3g")
    ('0.512', '+51200', '1e+12')
    """
    text = format(value, form)
    if "e+" in text and abs(value) < WORDY:
        text = format(float(text), "+.0f" if form.startswith("+") else ".0f")
    return text.removesuffix(".")


def loss_interval(low: float, high: float) -> str:
    """The ends of an interval of a loss."""
    return "–".join(rounded(end, "#.3g") for end in (low, high))


def interval(row: Any, metric: str) -> str:
    """The ends of a score's interval."""
    if row.score_low is None or row.score_high is None:
        return ""
    if metric in SHARES:
        return f"{100.0 * row.score_low:.0f}–{100.0 * row.score_high:.0f}"
    return loss_interval(row.score_low, row.score_high)


def objective(study: Study) -> str:
    """What the robust model minimises, in a sentence."""
    model, groups = study.robust.model, study.sizes["groups"]
    word = "max" if model.divergence == "cvar" and model.alpha * groups <= 1.0 else model.divergence
    many = counted(groups, "group", "groups")
    if word not in DIVERGENCES:
        return f"A linear model whose risk over {many} is as small as can be: {word}."
    said = DIVERGENCES[word].objective.format(
        groups=many, alpha=f"{100.0 * model.alpha:g}{THIN}%", lam=f"{model.lam:g}", word=word
    )
    return f"A linear model whose {said} is as small as can be."


def better(metric: str) -> str:
    """Which way a score is better."""
    return "more is better" if metric in SHARES else "less is better"


def _each(study: Study, rows: list[Any]) -> str:
    """The score of a row under each of the models: "ERM 32.0 %, re-weighted 82.4 %, robust 83.1 %"."""
    said = (f"{arm.name} {score(row.score, study.metric)}" for arm, row in zip(study.arms, rows, strict=True))
    return ", ".join(said)


def summary(study: Study) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    noun = study.metric.capitalize()
    whole = f"of all rows {_each(study, [arm.test.overall for arm in study.arms])}"
    if None in (arm.worst for arm in study.arms):
        return f"{noun} {whole}. No group has {study.min_group_size} {study.judged_on} rows: nothing is said of groups."
    worst = _each(study, [arm.worst for arm in study.arms])
    return f"{noun} on the worst group: {worst}; {whole}. {recommended(study)}"


def recommended(study: Any, rule: str = "Recommended") -> str:
    """The recommendation of any study, or why there is none; ``rule`` are the words before the name."""
    if study.recommended is None:
        return "No model is recommended: fewer than two fits finished."
    return f"{rule}: {study.recommended.name}{reserve(study)}."


def not_compared(study: Any) -> str:
    """A sentence that names the models whose fits were cut short, of any study; nothing where all finished."""
    cut = [arm for arm in study.arms if is_cut_short(arm.model)]
    if not cut:
        return ""
    each = "; ".join(f"{arm.name.removesuffix(' (not finished)')}, {arm.model.stop_}" for arm in cut)
    return f"Not compared, because the fit was cut short: {each}. "


def reserve(study: Any) -> str:
    """What must be said together with a recommendation."""
    is_constant = getattr(study, "is_nearly_constant", False) and study.recommended.key == study.asked.key
    return ", though in training it is hardly better than a constant model" if is_constant else ""


def scored(model: Any, metric: str) -> str:
    """What a model is trained on, and what it is scored by."""
    by = f"{metric}, which takes the likeliest class" if metric in SHARES else metric
    loss = model.loss
    return f"Trained on the {loss if isinstance(loss, str) else type(loss).__name__} loss, scored by {by}."


def trade(study: Study) -> str:
    """What the worst group gains and what the average pays, for each model against the first."""
    if None in (arm.worst for arm in study.arms):
        return f"No group has {study.min_group_size} {study.judged_on} rows."
    if is_cut_short(study.arms[0].model):
        return f"Against {study.arms[0].name} nothing can be said."
    said = []
    for arm in study.arms[1:]:
        worst = _points(study, arm.worst, study.arms[0].worst)
        said.append(
            f"{arm.name}: worst group {worst}, all rows {_points(study, arm.test.overall, study.arms[0].test.overall)}"
        )
    return f"Against {study.arms[0].name}, in {_unit(study)} (more is better). {'; '.join(said)}."


def _unit(study: Study) -> str:
    return f"points of {study.metric}" if study.metric in SHARES else f"{study.metric} saved"


def _points(study: Study, row: Any, first: Any) -> str:
    gain = (row.score - first.score) if study.metric in SHARES else (first.score - row.score)
    return _signed(study, gain)


def _signed(study: Study, gain: float) -> str:
    return f"{100.0 * gain:+.1f}" if study.metric in SHARES else f"{gain:+.3g}"


SIMPLEST = "Recommended is the simplest that no other is sure to beat"


def verdict(study: Study) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    found = study.verdict
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    rows = counted(study.min_group_size, f"{study.judged_on} row", f"{study.judged_on} rows")
    left = counted(found.small, "smaller one is", "smaller ones are")
    if not found.groups:
        said = recommended(study, "Recommended is the simplest")
        return f"{not_compared(study)}No group has {rows}, so the models cannot be told apart. {said}"
    pairs = "; ".join(compared(study, each, partial(_signed, study)) for each in found.differences)
    many = counted(found.groups, "group", "groups")
    out = f" ({left} left out)" if found.small else ""
    judged = f"Judged by {study.metric} on the worst of {many} of at least {rows}{out}"
    said = f"{judged}; with 95 % confidence, in {_unit(study)}: {pairs}. {recommended(study, SIMPLEST)}"
    return f"{not_compared(study)}{said}"


def compared(study: Any, found: Any, signed: Callable[[float], str]) -> str:
    """Which of two models is better and by how much, of any study with models by key; ``signed`` writes a gain."""
    one, other = study.arm(found.key).name, study.arm(found.other).name
    low, high = found.low, found.high
    if high < 0.0:
        one, other, low, high = other, one, -high, -low
    ends = f"{signed(low)} to {signed(high)}"
    return f"{one} beats {other} by {ends}" if low > 0.0 else f"{one} and {other} cannot be told apart ({ends})"


def differences(study: Any, signed: Callable[[float], str], between: str = "less") -> list[dict[str, str]]:
    """The rows of a table of differences between models, of any study with models by key."""
    return [
        {"pair": f"{study.arm(each.key).name} {between} {study.arm(each.other).name}", "low": signed(each.low)}
        | {"high": signed(each.high), "said": _better(study, each)}
        for each in study.verdict.differences
    ]


def _better(study: Any, found: Any) -> str:
    if found.low <= 0.0 <= found.high:
        return "cannot be told apart"
    return f"{study.arm(found.key if found.low > 0.0 else found.other).name} is better"


def worst_group(report: GroupReport, shown: Callable[[str], str] = str) -> str:
    """The worst group of a report, in a sentence; ``shown`` makes its name fit for what it is shown on."""
    row = report.worst
    if row is None:
        return f"No group has {report.min_group_size} rows: no worst group is named."
    sure = f" (95 % interval {interval(row, report.metric)})" if row.score_low is not None else ""
    left = counted(len(report.small), "group", "groups")
    out = f" {left} of fewer than {report.min_group_size} rows left out." if report.small else ""
    return f"Worst group: {shown(row.name)}, {report.metric} {score(row.score, report.metric)}{sure}.{out}"


UP_TO_ROUNDING = {  # endings of fits whose optimum is zero: a relative gap has no digits to compare with
    Stop.PERFECT: "The fit is perfect up to rounding: its loss is below 10⁻¹² of that of a constant model",
    Stop.OPTIMAL: "Optimal up to rounding: the gap is below 10⁻¹² of what the objective is made of",
}


class Proof(NamedTuple):
    """The certificate in plain words."""

    is_certified: bool
    headline: str
    text: str


def proof(study: Study) -> Proof:
    """What is proved of the robust model."""
    return proof_of(study.robust.model)


NOTHING_LEFT = (
    "What is left to gain is smaller than the rounding of the numbers. The relative gap says nothing here, because the "
    "optimum is zero."
)
TRAINING_ONLY = (
    "This is a statement about the training rows; how the model does on others is what the validation rows are for."
)


def proof_of(model: Any) -> Proof:
    """What is proved of a fitted model."""
    known, certified = model.certificate_, model.stop_ in PROVED_ENDINGS
    if model.stop_ in UP_TO_ROUNDING:
        return Proof(True, UP_TO_ROUNDING[model.stop_], f"{NOTHING_LEFT} {TRAINING_ONLY}")
    if not known.relative < float("inf"):
        return Proof(
            False, "Not certified", "The bounds on the optimum are not finite: nothing is proved of this model."
        )
    text = (
        f"No linear model with this loss and penalty has a training objective below {known.dual:.6g}; this one has "
        f"{known.primal:.6g}. At most {percent_above(known.relative, 3)} is left to gain, so no other optimiser, step "
        f"size or longer run would change it by more. {TRAINING_ONLY}"
    )
    if certified:
        return Proof(True, f"Proved optimal to within {percent_above(known.relative, 3)}", text)
    return Proof(False, f"Stopped before the tolerance of {model.tol:g}: {model.stop_}", text)


class Card(NamedTuple):
    """One of the large numbers on top, or one for each model."""

    label: str
    values: tuple[tuple[str, str], ...]  # what it is of, and the number


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    worst = tuple((arm.name, score(arm.worst.score if arm.worst else None, study.metric)) for arm in study.arms)
    whole = tuple((arm.name, score(arm.test.overall.score, study.metric)) for arm in study.arms)
    return [
        Card(f"Worst group, {study.metric}", worst),
        Card(f"All rows, {study.metric}", whole),
        Card("Optimality gap", (("robust, by the certificate", _gap(study.robust.model)),)),
    ]


def _gap(model: Any) -> str:
    if model.stop_ in UP_TO_ROUNDING:
        return "zero up to rounding"
    relative = model.certificate_.relative
    return f"≤ {percent_above(relative, 2) if relative < 10.0 else 'not finite'}"


def group_rows(study: Study) -> list[dict[str, Any]]:
    """Every group with its numbers, the worst of the plain model first."""
    model = study.robust.model
    weights = dict(zip(model.groups_, model.group_weights_.tolist(), strict=True))
    return [
        {
            "name": row.name,
            "n": row.n,
            "arms": [arm.test[row.name] for arm in study.arms],
            "is_small": row.n < study.min_group_size,
            "weight": weights.get(row.name),
        }
        for row in study.arms[0].test.rows
    ]
