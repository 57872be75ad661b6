"""A page about a study of tails: verdict, sorted losses, the training rows that carry the weight."""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xrisk.applications import AMBIGUITIES, LOSSES
from xrisk.applications.arguments import by_name
from xrisk.estimators import DROClassifier
from xrisk.estimators.samples import RADIUS, concentration
from xrisk.metrics import GroupReport
from xrisk.phrases import counted
from xrisk.report.figures import Scale, level_name, marks_figure, placed, ticks
from xrisk.report.page import filled, write_page
from xrisk.report.phrases import (
    SIMPLEST,
    THIN,
    Card,
    Proof,
    compared,
    count,
    differences,
    loss_interval,
    loss_number,
    not_compared,
    percent,
    proof_of,
    recommended,
    rounded,
)
from xrisk.study import HeavyRow, TailScore, TailStudy
from xrisk.study.tailed import METRIC, TAIL
from xrisk.study.verdict import is_cut_short

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


def render_tail(study: TailStudy, *, title: str | None = None) -> str:
    """A page of HTML about a study of tails, as `render` makes one about groups.

    Parameters
    ----------
    study : TailStudy
        From `xrisk.study.compare_tails`.
    title : str, optional
        Of the page; by default that of the study.

    Returns
    -------
    str
    """
    return filled("tail.html", [study.to_dict()], title=title or study.title, view=_view(study), study=study)


def write_tail_report(path: str | os.PathLike[str], study: TailStudy, *, title: str | None = None) -> None:
    """Write the page of `render_tail` to a file, whole or not at all."""
    write_page(path, render_tail(study, title=title))


def _view(study: TailStudy) -> dict[str, Any]:
    """What the template shows of a study."""
    return {
        "summary": summary(study),
        "objective": objective(study),
        "verdict": verdict(study),
        "trade": trade(study),
        "worst": worst_names([(arm.name, arm.groups) for arm in study.arms]),
        "carried": carried(study),
        "aside": percent(study.outliers, 0 if round(100.0 * study.outliers, 6).is_integer() else 1),
        "proofs": [(arm.name, found) for arm, found in zip(study.arms[1:], proofs(study), strict=True)],
        "cards": cards(study),
        "right": right_name(study.task),
        "rows": [
            {"arm": arm, "tail": loss_number(arm.test.tail), "interval": loss_interval(arm.test.low, arm.test.high)}
            | {"rest": loss_number(arm.test.rest), "mean": loss_number(arm.test.mean), "train": loss_number(arm.train)}
            | {"right": right(arm.test, study.task), "worst": worst(arm.groups)}
            for arm in study.arms
        ],
        "differences": differences(study, signed, "against"),
        "score_figure": score_figure(study),
        "panels": loss_panels(study),
        "heavy": [_heavy(each) for each in study.heavy],
        "equal": _weight(1.0 / study.sizes["train_rows"]),
        "has_probabilities": any(each.probability is not None for each in study.heavy),
        "guide": guide(),
    }


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


def worst_names(named: list[tuple[str, GroupReport | None]], shown: Callable[[str], str] = str) -> str:
    """A sentence that names the worst group of each model; nothing where there are no groups.

    ``shown`` makes a name fit for what it is shown on.
    """
    known = [(name, groups.worst, groups.min_group_size) for name, groups in named if groups is not None]
    if not known:
        return ""
    if all(row is None for _, row, _ in known):
        return f"No group has {known[0][2]} rows: no worst group is named."
    said = ", ".join(f"{name} {'–' if row is None else shown(row.name)}".strip() for name, row, _ in known)
    return f"The worst group, by mean loss among those of at least {known[0][2]} rows: {said}."


def summary(study: TailStudy) -> str:
    """The finding, in a sentence or two: every model, whoever does best."""
    tails, means = (
        ", ".join(f"{arm.name} {loss_number(number)}" for arm, number in zip(study.arms, found, strict=True))
        for found in ([arm.test.tail for arm in study.arms], [arm.test.mean for arm in study.arms])
    )
    return f"{_headed(METRIC)}: {tails}; of all rows: {means}. {recommended(study)}"


def _headed(words: str) -> str:
    return words[0].upper() + words[1:]


def verdict(study: TailStudy) -> str:
    """What the rows can tell of the models, the recommendation, and the rule; the same words whoever is ahead."""
    if study.recommended is None:
        return f"{not_compared(study)}{recommended(study)}"
    pairs = "; ".join(compared(study, each, signed) for each in study.verdict.differences)
    rows = f"{count(study.robust.test.rows)} {study.judged_on} rows"
    said = f"Judged by the mean loss of the worst 10 % of {rows}"
    best = recommended(study, SIMPLEST)
    return f"{not_compared(study)}{said}; with 95 % confidence, in loss saved: {pairs}. {best}"


def trade(study: TailStudy) -> str:
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


def carried(study: TailStudy) -> str:
    """How few rows carry half of the weight."""
    few = concentration(study.robust.model.sample_weights_)
    rows = counted(few, "row", "rows") if few else f"{percent(study.half)} of the training rows"
    alarm = " So few decide what the model looks like: see whether they are right before you trust it." if few else ""
    return f"Half of the weight of the robust model lies on {rows}.{alarm}"


def objective(study: TailStudy) -> str:
    """What the robust model minimises."""
    model = study.robust.model
    said = "A linear model whose loss under the worst weights q of the rows, near equal ones p, is as small as can be"
    if not isinstance(model.ambiguity, str):
        return f"{said}: {model.ambiguity}. {_loss(study)}"
    chosen = AMBIGUITIES[model.ambiguity]
    numbers = {"alpha": model.alpha} if chosen.ball is None else {"radius": model.radius, "strength": model.strength}
    given = {name: value for name, value in numbers.items() if value is not None} or {"radius": RADIUS}
    here = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    return f"{said}. Which weights are near ({model.ambiguity}): {chosen.meaning}; here {here}. {_loss(study)}"


def _loss(study: TailStudy) -> str:
    """Which loss that is, with its formula."""
    model = study.robust.model
    is_multinomial = study.task == "classification" and model.classes_.size > 2
    spec = by_name("loss", "multinomial" if is_multinomial else model.loss, LOSSES)
    formula = (type(spec).__doc__ or "").splitlines()[:1]
    return f"The loss is {type(spec).__name__}: {''.join(formula)}"


def proofs(study: TailStudy) -> list[Proof]:
    """What is proved of the robust model, and of the one that sets rows aside, given these."""
    robust, trimmed = (proof_of(arm.model) for arm in study.arms[1:])
    rows = study.arms[2].model.outliers_.size
    given = f" This is given the {count(rows)} training rows that are set aside: another choice of these may be better."
    return [robust, trimmed._replace(text=trimmed.text + given)]


def cards(study: TailStudy) -> list[Card]:
    """The numbers one would remember."""
    return [
        Card("Worst 10 % of rows, mean loss", tuple((arm.name, loss_number(arm.test.tail)) for arm in study.arms)),
        Card("All rows, mean loss", tuple((arm.name, loss_number(arm.test.mean)) for arm in study.arms)),
        Card(_headed(right_name(study.task)), tuple((arm.name, right(arm.test, study.task)) for arm in study.arms)),
    ]


def score_figure(study: TailStudy) -> dict[str, Any]:
    """The tail of every model with its interval."""
    found = [(arm, arm.test.tail, arm.test.low, arm.test.high) for arm in study.arms]
    texts = [(loss_number(arm.test.tail), loss_interval(arm.test.low, arm.test.high)) for arm in study.arms]
    return marks_figure(found, texts, np.inf)


def loss_panels(study: TailStudy) -> list[dict[str, Any]]:
    """The losses of each model, largest first: of all rows, and of the worst tenth alone."""
    return [
        _panel(study, 1.0) | {"title": "All rows, the worst tenth in grey"},
        _panel(study, TAIL) | {"title": "The worst tenth alone"},
    ]


def _panel(study: TailStudy, share: float) -> dict[str, Any]:
    n = study.robust.test.rows
    last = max(int(np.ceil(share * n)), 2)
    rows = np.unique(np.linspace(0, min(last, n) - 1, POINTS).astype(int))
    first = 0 if share < 1.0 else int(CUT * n)  # of all rows a few are far above the rest
    across, up = Scale(0.0, share), Scale(0.0, 1.04 * max(float(arm.losses[first]) for arm in study.arms) or 1.0)
    place = partial(placed, across, up, HEIGHT)
    levels = ticks(*up)
    return {
        "height": HEIGHT,
        "names": ("share of the rows, largest losses first", "loss"),
        "lines": [(arm.key, place((rows + 0.5) / n, arm.losses[rows])) for arm in study.arms],
        "area": [],
        "chance": [],
        "region": {"width": across.at(TAIL), "height": HEIGHT},
        "across": [{"at": across.at(v), "name": percent(v, 0)} for v in ticks(*across)],
        "up": [{"y": place([0.0], [v])[0][1], "name": level_name(v)} for v in levels],
    }


def _weight(weight: float) -> str:
    return f"{rounded(100.0 * weight, '.2g')}{THIN}%"


def _heavy(each: HeavyRow) -> dict[str, Any]:
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
