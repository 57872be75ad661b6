"""Numbers and findings of a study as people read them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

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


def headed(words: str) -> str:
    """Words as a heading."""
    return words[0].upper() + words[1:]


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


def recommended(study: Study, rule: str = "Recommended") -> str:
    """The recommendation of any study, or why there is none; ``rule`` are the words before the name."""
    if study.recommended is None:
        return "No model is recommended: fewer than two fits finished."
    return f"{rule}: {study.recommended.name}{reserve(study)}."


def not_compared(study: Study) -> str:
    """A sentence that names the models whose fits were cut short, of any study; nothing where all finished."""
    cut = [arm for arm in study.arms if is_cut_short(arm.model)]
    if not cut:
        return ""
    each = "; ".join(f"{arm.name.removesuffix(' (not finished)')}, {arm.model.stop_}" for arm in cut)
    return f"Not compared, because the fit was cut short: {each}. "


def reserve(study: Study) -> str:
    """What must be said together with a recommendation."""
    is_constant = getattr(study.found, "is_nearly_constant", False) and study.verdict.recommended == study.asked.key
    return ", though in training it is hardly better than a constant model" if is_constant else ""


def scored(model: Any, metric: str) -> str:
    """What a model is trained on, and what it is scored by."""
    by = f"{metric}, which takes the likeliest class" if metric in SHARES else metric
    loss = model.loss
    return f"Trained on the {loss if isinstance(loss, str) else type(loss).__name__} loss, scored by {by}."


SIMPLEST = "We recommend the simplest model that no other significantly outperforms"


def compared(study: Study, found: Any, signed: Callable[[float], str]) -> str:
    """Which of two models is better and by how much, of any study with models by key; ``signed`` writes a gain."""
    one, other = study.arm(found.key).name, study.arm(found.other).name
    low, high = found.low, found.high
    if high < 0.0:
        one, other, low, high = other, one, -high, -low
    ends = f"{signed(low)} to {signed(high)}"
    return f"{one} beats {other} by {ends}" if low > 0.0 else f"{one} and {other} cannot be told apart ({ends})"


def differences(study: Study, signed: Callable[[float], str], between: str = "less") -> list[dict[str, str]]:
    """The rows of a table of differences between models, of any study with models by key."""
    return [
        {"pair": f"{study.arm(each.key).name} {between} {study.arm(each.other).name}", "low": signed(each.low)}
        | {"high": signed(each.high), "said": _better(study, each)}
        for each in study.verdict.differences
    ]


def _better(study: Study, found: Any) -> str:
    if found.low <= 0.0 <= found.high:
        return "cannot be told apart"
    return f"{study.arm(found.key if found.low > 0.0 else found.other).name} is better"


UP_TO_ROUNDING = {  # endings of fits whose optimum is zero: a relative gap has no digits to compare with
    Stop.PERFECT: "The fit is perfect up to rounding: its loss is below 10⁻¹² of that of a constant model",
    Stop.OPTIMAL: "Optimal up to rounding: the gap is below 10⁻¹² of what the objective is made of",
}


class Proof(NamedTuple):
    """The certificate in plain words."""

    is_certified: bool
    headline: str
    text: str


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


def proved(model: Any) -> str:
    """What is proved of the robust model, in a sentence with the bounds."""
    if model.stop_ in UP_TO_ROUNDING:
        return f"Robust model: {UP_TO_ROUNDING[model.stop_]}."
    said = "certified" if model.stop_ in PROVED_ENDINGS else f"not certified to {model.tol:g}, {model.stop_}"
    found = model.certificate_
    bounds = f"{found.dual:.6g} ≤ optimum ≤ {found.primal:.6g}"
    return f"Robust model: {said}; {bounds}, relative gap {found.relative:.1e}."


class Card(NamedTuple):
    """One of the large numbers on top, or one for each model."""

    label: str
    values: tuple[tuple[str, str], ...]  # what it is of, and the number


def gap(model: Any) -> str:
    """The relative gap of a model, for a card."""
    if model.stop_ in UP_TO_ROUNDING:
        return "zero up to rounding"
    relative = model.certificate_.relative
    return f"≤ {percent_above(relative, 2) if relative < 10.0 else 'not finite'}"
