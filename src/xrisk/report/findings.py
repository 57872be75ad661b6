"""The findings of a study in sentences: the recommendation, the differences, and what is proved of a model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xrisk.annotations import Estimator
from xrisk.functions.parameters import counted
from xrisk.report.numbers import percent_at_most
from xrisk.solvers.base import PROVED_ENDINGS, Stop
from xrisk.study import Difference, Study
from xrisk.study.study import NOT_FINISHED

SIMPLEST = "We recommend the simplest model that no other significantly outperforms"
Signed = Callable[[float], str]  # writes a difference with its sign
UP_TO_ROUNDING = {  # endings of fits whose optimum is zero: a relative gap has nothing to compare with
    Stop.PERFECT: "The fit is perfect up to rounding: its loss is below 10⁻¹² of that of a constant model",
    Stop.OPTIMAL: "Optimal up to rounding: the gap is below 10⁻¹² of the terms of the objective",
}
NOTHING_LEFT = (
    "Any further decrease would be smaller than the rounding error. The relative gap has no meaning here, because the "
    "optimum is zero."
)
TRAINING_ONLY = (
    "This is a statement about the training rows; the validation rows show how the model does on other rows."
)


def judged_rows(study: Study, number: int) -> str:
    """How many rows of the verdict: "500 validation rows"."""
    return counted(number, f"{study.judged_on} row", f"{study.judged_on} rows")


def recommendation(study: Study, rule: str = "Recommended") -> str:
    """The recommendation, or why there is none; ``rule`` is the text before the name."""
    if study.recommended is None:
        return "No model is recommended: fewer than two fits finished."
    is_constant = study.constant and study.recommended is study.requested
    reserve = ", though in training it is hardly better than a constant model" if is_constant else ""
    return f"{rule}: {study.recommended.name}{reserve}."


def verdict_text(study: Study, judged: str, unit: str, signed: Signed, rule: str = SIMPLEST) -> str:
    """How the models are judged, their differences, and the recommendation; the same words for every outcome."""
    cut = [arm for arm in study.arms if not arm.is_finished]
    each = "; ".join(f"{arm.name.removesuffix(NOT_FINISHED)}, {arm.model.stop_}" for arm in cut)
    missing = f"Not compared, because the fit was cut short: {each}. " if cut else ""
    if study.recommended is None:
        return f"{missing}{recommendation(study)}"
    pairs = "; ".join(_compared(study, found, signed) for found in study.verdict.differences)
    differences = f"Differences in {unit}, with 95 % confidence: {pairs}. " if pairs else ""
    return f"{missing}{judged}. {differences}{recommendation(study, rule)}"


def _compared(study: Study, found: Difference, signed: Signed) -> str:
    """Which of two models is better and by how much."""
    one, other = study.arm(found.key).name, study.arm(found.other).name
    low, high = found.low, found.high
    if high < 0.0:
        one, other, low, high = other, one, -high, -low
    ends = f"{signed(low)} to {signed(high)}"
    return f"{one} beats {other} by {ends}" if low > 0.0 else f"{one} and {other} cannot be told apart ({ends})"


def difference_rows(study: Study, signed: Signed, between: str = "minus") -> list[dict[str, str]]:
    """The rows of a table of differences between models."""
    return [
        {"pair": f"{study.arm(each.key).name} {between} {study.arm(each.other).name}"}
        | {"low": signed(each.low), "high": signed(each.high), "verdict": _better(study, each)}
        for each in study.verdict.differences
    ]


def _better(study: Study, found: Difference) -> str:
    if found.low <= 0.0 <= found.high:
        return "cannot be told apart"
    return f"{study.arm(found.key if found.low > 0.0 else found.other).name} is better"


def against_first(study: Study, unit: str, changes: Sequence[str]) -> str:
    """What each other model changes, compared with the first; ``changes`` are theirs in words."""
    first, *others = study.arms
    if not first.is_finished:
        return f"Nothing can be compared with {first.name}."
    each = "; ".join(f"{arm.name} {change}" for arm, change in zip(others, changes, strict=True))
    return f"Compared with {first.name}, {unit}: {each}."


class Proof(NamedTuple):
    """The certificate in plain words."""

    is_certified: bool
    headline: str
    text: str


def proof_of(model: Estimator) -> Proof:
    """What is proved of a fitted model."""
    known = model.certificate_
    if model.stop_ in UP_TO_ROUNDING:
        return Proof(True, UP_TO_ROUNDING[model.stop_], f"{NOTHING_LEFT} {TRAINING_ONLY}")
    if not known.relative < float("inf"):
        return Proof(False, "Not certified", "The bounds on the optimum are not finite: nothing is proved.")
    most = percent_at_most(known.relative, 3)
    text = (
        f"No linear model with this loss and penalty has a training objective below {known.dual:.6g}; this one has "
        f"{known.primal:.6g}. Another optimiser, another step size or a longer run could lower it by at most {most}. "
        f"{TRAINING_ONLY}"
    )
    if model.stop_ in PROVED_ENDINGS:
        return Proof(True, f"Proved optimal to within {most}", text)
    return Proof(False, f"Stopped before the tolerance of {model.tol:g}: {model.stop_}", text)


def bounds_on_optimum(model: Estimator) -> str:
    """The certificate of the robust model, in a sentence with the bounds."""
    if model.stop_ in UP_TO_ROUNDING:
        return f"Robust model: {UP_TO_ROUNDING[model.stop_]}."
    ending = "certified" if model.stop_ in PROVED_ENDINGS else f"not certified to {model.tol:g}, {model.stop_}"
    found = model.certificate_
    bounds = f"{found.dual:.6g} ≤ optimum ≤ {found.primal:.6g}"
    return f"Robust model: {ending}; {bounds}, relative gap {found.relative:.1e}."


def gap_text(model: Estimator) -> str:
    """The relative gap of a model, for a card."""
    if model.stop_ in UP_TO_ROUNDING:
        return "zero up to rounding"
    relative = model.certificate_.relative
    return f"≤ {percent_at_most(relative, 2) if relative < 10.0 else 'not finite'}"
