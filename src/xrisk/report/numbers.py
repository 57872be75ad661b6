"""Numbers as people read them."""

import math
from typing import Any

from xrisk.metrics import GroupRow
from xrisk.study.scores import Score

WORDY = 1e8  # from here on a number is shorter with an exponent
THIN = "\u202f"  # narrow no-break space


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent."""
    return f"{100.0 * share:.{digits}f}{THIN}%"


def percent_at_most(share: float, digits: int) -> str:
    """A share in per cent, rounded up: an upper bound stays one.

    Examples
    --------
    >>> from xrisk.report.numbers import THIN, percent_at_most
    >>> percent_at_most(1e-9, 2).replace(THIN, " ")
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


def rounded(value: float, form: str) -> str:
    """A number in the digits of a format; thousands and millions are written without an exponent.

    Examples
    --------
    >>> from xrisk.report.numbers import rounded
    >>> rounded(0.51234, "#.3g"), rounded(51234.0, "+.3g"), rounded(1e12, ".3g")
    ('0.512', '+51200', '1e+12')
    """
    text = format(value, form)
    if "e+" in text and abs(value) < WORDY:
        text = format(float(text), "+.0f" if form.startswith("+") else ".0f")
    return text.removesuffix(".")


def loss_text(value: float) -> str:
    """A loss, in four digits, trailing zeros included."""
    return rounded(value, "#.4g")


def loss_interval(low: float, high: float) -> str:
    """The ends of an interval of a loss."""
    return "–".join(rounded(end, "#.3g") for end in (low, high))


def score_text(value: float | None, score: Score) -> str:
    """A score: per cent for accuracies, four digits for errors and losses."""
    if value is None:
        return "–"
    return percent(value) if score.is_share else loss_text(value)


def score_interval(row: GroupRow, score: Score) -> str:
    """The ends of the interval of a group's score."""
    if row.score_low is None or row.score_high is None:
        return ""
    if score.is_share:
        return f"{100.0 * row.score_low:.0f}–{100.0 * row.score_high:.0f}"
    return loss_interval(row.score_low, row.score_high)


def headed(words: str) -> str:
    """Words as a heading."""
    return words[0].upper() + words[1:]
