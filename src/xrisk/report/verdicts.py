"""The verdict of a study in sentences: the recommendation, the differences, and what could not be compared."""

from collections.abc import Callable, Sequence

from xrisk.study import Difference, Study
from xrisk.study.study import NOT_FINISHED

SIMPLEST = "We recommend the simplest model that no other significantly outperforms"
Signed = Callable[[float], str]  # writes a difference with its sign


def recommendation(study: Study, rule: str = "Recommended") -> str:
    """The recommendation, or why there is none; ``rule`` is the text before the name."""
    if study.recommended is None:
        return "No model is recommended: fewer than two fits finished."
    is_constant = study.constant and study.recommended is study.requested
    reserve = ", though in training it is hardly better than a constant model" if is_constant else ""
    return f"{rule}: {study.recommended.name}{reserve}."


def verdict_text(study: Study, judged: str, signed: Signed, rule: str = SIMPLEST) -> str:
    """What the rows say about the models and the recommendation, in the same words whoever is ahead.

    ``judged`` is the beginning of the sentence on the differences, which says what the models are judged by.
    """
    cut = [arm for arm in study.arms if not arm.is_finished]
    each = "; ".join(f"{arm.name.removesuffix(NOT_FINISHED)}, {arm.model.stop_}" for arm in cut)
    missing = f"Not compared, because the fit was cut short: {each}. " if cut else ""
    if study.recommended is None:
        return f"{missing}{recommendation(study)}"
    pairs = "; ".join(_compared(study, found, signed) for found in study.verdict.differences)
    return f"{missing}{judged}{f': {pairs}' if pairs else ''}. {recommendation(study, rule)}"


def _compared(study: Study, found: Difference, signed: Signed) -> str:
    """Which of two models is better and by how much."""
    one, other = study.arm(found.key).name, study.arm(found.other).name
    low, high = found.low, found.high
    if high < 0.0:
        one, other, low, high = other, one, -high, -low
    ends = f"{signed(low)} to {signed(high)}"
    return f"{one} beats {other} by {ends}" if low > 0.0 else f"{one} and {other} cannot be told apart ({ends})"


def difference_rows(study: Study, signed: Signed, between: str = "less") -> list[dict[str, str]]:
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
