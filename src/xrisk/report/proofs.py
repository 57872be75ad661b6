"""What is proved of a fitted model, in words."""

from typing import Any, NamedTuple

from xrisk.report.numbers import percent_at_most
from xrisk.solvers.base import PROVED_ENDINGS, Stop

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


class Proof(NamedTuple):
    """The certificate in plain words."""

    is_certified: bool
    headline: str
    text: str


def proof_of(model: Any) -> Proof:
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


def bounds_on_optimum(model: Any) -> str:
    """The certificate of the robust model, in a sentence with the bounds."""
    if model.stop_ in UP_TO_ROUNDING:
        return f"Robust model: {UP_TO_ROUNDING[model.stop_]}."
    ending = "certified" if model.stop_ in PROVED_ENDINGS else f"not certified to {model.tol:g}, {model.stop_}"
    found = model.certificate_
    bounds = f"{found.dual:.6g} ≤ optimum ≤ {found.primal:.6g}"
    return f"Robust model: {ending}; {bounds}, relative gap {found.relative:.1e}."


def gap_text(model: Any) -> str:
    """The relative gap of a model, for a card."""
    if model.stop_ in UP_TO_ROUNDING:
        return "zero up to rounding"
    relative = model.certificate_.relative
    return f"≤ {percent_at_most(relative, 2) if relative < 10.0 else 'not finite'}"
