"""Numbers and findings of a study as people read them."""

from typing import Any, NamedTuple

from xrisk.applications import DIVERGENCES
from xrisk.phrases import counted
from xrisk.run import Stop
from xrisk.study import Study

THIN = "\u202f"  # narrow no-break space


def count(number: int) -> str:
    """12 345 with narrow spaces."""
    return f"{number:,}".replace(",", THIN)


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent."""
    return f"{100.0 * share:.{digits}f}{THIN}%"


def short(value: Any) -> str:
    """A number in four digits, anything else as it is."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(short(entry) for entry in value)
    return "none" if value is None else str(value)


def score(value: float | None, metric: str) -> str:
    """A score: per cent for accuracies, four digits for errors."""
    if value is None:
        return "–"
    return percent(value) if metric == "accuracy" else f"{value:#.4g}"


def interval(row: Any, metric: str) -> str:
    """The ends of a score's interval."""
    if row.score_low is None or row.score_high is None:
        return ""
    if metric == "accuracy":
        return f"{100.0 * row.score_low:.0f}–{100.0 * row.score_high:.0f}"
    return f"{row.score_low:#.3g}–{row.score_high:#.3g}"


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


def _noun(study: Study) -> str:
    return "accuracy" if study.metric == "accuracy" else "error"


def _gain(study: Study, before: float, after: float) -> float:
    return after - before if study.metric == "accuracy" else before - after


def _change(study: Study, before: float | None, after: float | None) -> str:
    return f"from {score(before, study.metric)} to {score(after, study.metric)}"


def summary(study: Study) -> str:
    """The finding, in a sentence or two."""
    erm, robust = study.arms[0], study.robust
    worst = _change(study, erm.worst.score, robust.worst.score)
    whole = _change(study, erm.validation.overall.score, robust.validation.overall.score)
    return (
        f"Against training on the average, the worst group’s {_noun(study)} goes {worst}, "
        f"and that of all rows together {whole}."
    )


def trade(study: Study) -> str:
    """What the worst group gains and what the average pays."""
    erm, robust = study.arms[0], study.robust
    gain = _gain(study, erm.worst.score or 0.0, robust.worst.score or 0.0)
    cost = -_gain(study, erm.validation.overall.score or 0.0, robust.validation.overall.score or 0.0)
    unit = "points" if study.metric == "accuracy" else "of error"
    scale = 100.0 if study.metric == "accuracy" else 1.0
    one = f"The worst group {'gains' if gain >= 0 else 'loses'} {scale * abs(gain):.3g} {unit}"
    return f"{one}; the average {'pays' if cost >= 0 else 'gains'} {scale * abs(cost):.3g}."


def verdict(study: Study) -> str:
    """Which model is best by the rule, and the rule."""
    best, robust = study.best, study.robust
    tie = [arm.name for arm in study.arms if arm.worst.score == best.worst.score]
    more = f" ({' and '.join(tie)} are level there; the average decides)" if len(tie) > 1 else ""
    if best is not robust and not more and _overlap(best.worst, robust.worst):
        more = ", though the interval of its worst group overlaps that of the robust model’s"
    return (
        "All models are judged by one rule: their score on the worst group of the validation rows. "
        f"By it the best here is {best.name}{more}."
    )


def _overlap(one: Any, other: Any) -> bool:
    ends = (one.score_low, one.score_high, other.score_low, other.score_high)
    return None not in ends and max(ends[0], ends[2]) <= min(ends[1], ends[3])


class Proof(NamedTuple):
    """The certificate in plain words."""

    is_certified: bool
    headline: str
    text: str


def proof(study: Study) -> Proof:
    """What is proved of the robust model."""
    model = study.robust.model
    known, certified = model.certificate_, model.stop_ is Stop.CONVERGED
    if not known.relative < float("inf"):
        return Proof(
            False, "Not certified", "The bounds on the optimum are not finite: nothing is proved of this model."
        )
    text = (
        f"No linear model with this loss and penalty has a training objective below {known.dual:.6g}; this one has "
        f"{known.primal:.6g}. At most {percent(known.relative, 3)} is left to gain, so no other optimiser, step size "
        "or longer run would change it by more. This is a statement about the training rows; how the model does on "
        "others is what the validation rows are for."
    )
    if certified:
        return Proof(True, f"Proved optimal to within {percent(known.relative, 3)}", text)
    return Proof(False, f"Stopped before the tolerance of {model.tol:g}: {model.stop_}", text)


class Card(NamedTuple):
    """One of the large numbers on top."""

    label: str
    before: str
    after: str
    note: str


def cards(study: Study) -> list[Card]:
    """The numbers one would remember."""
    erm, robust, metric = study.arms[0], study.robust, study.metric
    relative = robust.model.certificate_.relative
    gap = percent(relative, 2) if relative < 10.0 else "not finite"
    return [
        Card(
            f"Worst group, {_noun(study)}",
            score(erm.worst.score, metric),
            score(robust.worst.score, metric),
            "ERM, then robust",
        ),
        Card(
            f"All rows, {_noun(study)}",
            score(erm.validation.overall.score, metric),
            score(robust.validation.overall.score, metric),
            "ERM, then robust",
        ),
        Card("Optimality gap", "", f"≤ {gap}", "by the certificate"),
    ]


def group_rows(study: Study) -> list[dict[str, Any]]:
    """Every group with its numbers, the worst of the plain model first."""
    model = study.robust.model
    weights = dict(zip(model.groups_, model.group_weights_.tolist(), strict=True))
    return [
        {
            "name": row.name,
            "n": row.n,
            "arms": [arm.validation[row.name] for arm in study.arms],
            "weight": weights.get(row.name),
        }
        for row in study.arms[0].validation.rows
    ]
