"""``xrisk fit`` and ``xrisk evaluate`` for two classes that are ranked: partial AUC in place of groups."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from xrisk.cli.ending import finish
from xrisk.cli.options import Refused
from xrisk.cli.screen import FRAME, WIDE, column_grid, plain, progress, tell_left_out
from xrisk.estimators import PartialAUCClassifier, TwoWayPartialAUCClassifier
from xrisk.phrases import counted
from xrisk.report import write_ranking_report
from xrisk.report.ranking import extra, extra_title, interval, number, proof, region, verdict
from xrisk.study import RankingScore, RankingStudy, compare_rankings, judge_ranking
from xrisk.study.ranked import METRIC, few_rows
from xrisk.tables import Part, RankedClasses, TableModel
from xrisk.tables.prepare import Prepared, TableOptions, prepare_classes
from xrisk.tables.read import read_table

MODELS = {"two-way-partial-auc": TwoWayPartialAUCClassifier, "partial-auc": PartialAUCClassifier}
HALF = 0.5  # the rates where none is given


def fit_ranking(data: str, options: dict[str, Any], shares: dict[str, Any]) -> None:
    """Fit three scores on a table, say which to take, and end the process with its exit code."""
    quiet = options["as_json"]
    asked = TableOptions(options["target"], categorical=options["categorical"], drop=options["drop"])
    prepared = prepare_classes(read_table(data), asked, data, **shares, seed=options["seed"])
    classes, about = _classes(prepared, options)
    err = Console(stderr=True)
    if not quiet:
        Console(soft_wrap=False).print(column_grid(prepared, data))
    notes = (about, *prepared.notes)
    with progress(err, enabled=err.is_terminal and not quiet) as watch:
        study = _study(prepared, classes, data, options, notes, watch)
    finish(
        study,
        prepared,
        options,
        write=write_ranking_report,
        tell=_tell,
        ranked=study.ranked,
    )


def _classes(prepared: Prepared, options: dict[str, Any]) -> tuple[tuple[str, str], str]:
    """The negative and the positive class, and a note that says which; the greater is positive unless told."""
    low, high = np.unique(prepared.train.groups).tolist()
    positive = high if options["positive"] is None else options["positive"]
    if positive not in (low, high):
        raise Refused(f"--positive must be one of the classes {low!r} and {high!r}, got {positive!r}")
    share = float(np.mean(prepared.train.y == positive))
    said = f"Positive is {positive!r}, {100.0 * share:.3g} % of the training rows"
    is_odd = share > HALF and options["positive"] is None
    often = " and the more frequent class; --positive names another" if is_odd else ""
    return (low if positive == high else high, positive), f"{said}{often}."


def _model(options: dict[str, Any]) -> Any:
    rates = {"min_tpr": options["min_tpr"], "max_fpr": options["max_fpr"]}
    taken = rates if options["objective"] == "two-way-partial-auc" else {"min_tpr": options["min_tpr"]}
    estimator: Any = MODELS[options["objective"]]
    return estimator(
        **{name: HALF if value is None else value for name, value in taken.items()},
        **{name: options[name] for name in ("surrogate", "l1", "tol", "max_seconds")},
        l2=options["l2"][0],
        random_state=options["seed"],
    )


def _study(
    prepared: Prepared, classes: tuple[str, str], data: str, options: dict[str, Any], notes: tuple[str, ...], watch: Any
) -> RankingStudy:
    target, last = options["target"], prepared.test
    columns = counted(len(prepared.encoding.columns), "column", "columns")
    try:
        return compare_rankings(
            _model(options),
            _positive(prepared.train, classes),
            _positive(prepared.validation, classes),
            None if last is None else _positive(last, classes),
            l2=options["l2"],
            classes=classes,
            title=f"{target}: {classes[1]} before {classes[0]}",
            description=f"{Path(data).name}: rank {target} by {columns}.",
            notes=notes,
            settings={"objective": options["objective"], "validation": options["validation"]},
            watch=watch,
        )
    except TypeError as error:  # of a convex problem that a certificate does not know
        if options["surrogate"] == "sigmoid":
            raise
        raise Refused(f"--surrogate {options['surrogate']} cannot be used here: {error}; sigmoid can") from error


def _positive(part: Part, classes: tuple[str, str]) -> Part:
    """The same rows, their targets whether they are positive."""
    return part._replace(y=part.y == classes[1])


def _tell(out: Console, study: RankingStudy) -> None:
    out.print(ranking_grid(study, out.width))
    if study.caution:
        out.print(Text(plain(study.caution), style="bold"))
    found = proof(study)
    for sentence in (f"{found.headline}. {found.text}", verdict(study)):
        out.print(sentence, highlight=False, markup=False)


def ranking_grid(study: RankingStudy, width: int) -> Grid:
    """Models in rows: partial AUC with its interval, AUC, and what a threshold catches or costs."""
    found = study.asked.test
    many = counted(found.positives + found.negatives, f"{study.judged_on} row", f"{study.judged_on} rows")
    grid = _score_grid(f"{METRIC} ({region(study.ranked)}) on {many}, {found.positives:,} positive", study.ranked)
    if width >= WIDE:
        grid.add_column("minimises", style="dim")
    for arm in study.arms:
        words = (arm.words,) if width >= WIDE else ()
        style = "bold" if arm.key == study.verdict.recommended else ""
        grid.add_row(Text(arm.name), *_cells(arm.test, study.ranked), *words, style=style)
    return grid


def _score_grid(title: str, ranked: RankedClasses) -> Grid:
    grid = Grid(title=Text(title), **FRAME)
    grid.add_column("model")
    grid.add_column(METRIC, justify="right", no_wrap=True)
    grid.add_column("95 % interval", justify="right", style="dim", no_wrap=True)
    grid.add_column("AUC", justify="right", no_wrap=True)
    grid.add_column(Text(extra_title(ranked)), justify="right", max_width=18)
    return grid


def _cells(score: RankingScore, ranked: RankedClasses) -> tuple[str, ...]:
    return number(score.score), interval(score), number(score.auc), extra(score, ranked)


def evaluate_ranking(
    fitted: TableModel, paths: tuple[str, str], table: tuple[Any, np.ndarray, int], as_json: bool
) -> None:
    """The partial AUC, with its interval, of a model on another table; rows of other classes are left out.

    ``table`` holds the rows that have a target, their targets, and the number of those that have none.
    """
    ranked = fitted.ranked
    assert ranked is not None  # what is evaluated here ranks two classes
    (model, data), (frame, y, without) = paths, table
    known = np.isin(y, (ranked.negative, ranked.positive))
    if not known.any():
        raise Refused(f"{data}: no row is of a class that {model} knows")
    strange, rows = sorted(set(y[~known].tolist())), fitted.encoding.encode(frame[known])
    found = judge_ranking(y[known] == ranked.positive, fitted.model.decision_function(rows), ranked)
    caution = few_rows(found, ranked, "judged")
    if as_json:
        told: dict[str, Any] = {"command": "evaluate", "rows": int(known.sum()), "rows_without_target": without}
        told |= {"metric": METRIC, "asked": ranked._asdict(), **found._asdict(), "caution": caution or None}
        click.echo(json.dumps({**told, "classes_not_trained_on": strange}, allow_nan=False))
        return
    out = Console()
    tell_left_out(out, without, strange)
    many = counted(int(known.sum()), "row", "rows")
    grid = _score_grid(f"{plain(data)}, {many}, {found.positives:,} positive ({region(ranked)})", ranked)
    grid.add_row(Text(plain(model)), *_cells(found, ranked))
    out.print(grid)
    if caution:
        out.print(Text(plain(caution), style="bold"))
    said = f"Partial AUC ({region(ranked)}) {number(found.score)}, 95 % interval {interval(found)}"
    out.print(f"{said}; positive is {plain(ranked.positive)}.", highlight=False, markup=False)
