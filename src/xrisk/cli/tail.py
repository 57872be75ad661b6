"""``xrisk fit`` and ``xrisk evaluate`` for the tail of the loss: the worst rows, whoever they are."""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from xrisk.cli.ending import finish
from xrisk.cli.options import DEFAULT_LOSS, Refused
from xrisk.cli.screen import FRAME, WIDE, column_grid, plain, progress, tell_left_out
from xrisk.estimators import DROClassifier, DRORegressor
from xrisk.estimators.samples import RADIUS
from xrisk.metrics import GroupReport
from xrisk.phrases import counted
from xrisk.report import write_tail_report
from xrisk.report.phrases import loss_interval, loss_number
from xrisk.report.tail import carried, proofs, right, right_name, trade, verdict, worst, worst_names
from xrisk.study import TailScore, TailStudy, compare_tails, judge_tail
from xrisk.study.tailed import METRIC, TAIL, few_rows, judge_groups, row_losses
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared, TableOptions, prepare_rows
from xrisk.tables.read import read_table
from xrisk.tables.rows import group_names


def fit_tail(data: str, options: dict[str, Any], shares: dict[str, Any]) -> None:
    """Fit three models on a table, say which to take, and end the process with its exit code."""
    if not 0.0 < options["outlier_fraction"] < 0.5:
        raise Refused(f"--outlier-fraction must be above 0 and below 0.5, got {options['outlier_fraction']:g}")
    for name in ("radius", "strength"):
        if options[name] is not None and not 0.0 < options[name] < np.inf:
            raise Refused(f"--{name} must be positive and finite, got {options[name]:g}")
    asked = TableOptions(**{name: options[name] for name in TableOptions._fields})
    prepared = prepare_rows(read_table(data), asked, data, **shares, seed=options["seed"])
    quiet, err = options["as_json"], Console(stderr=True)
    if not quiet:
        Console(soft_wrap=False).print(column_grid(prepared, data))
    with progress(err, enabled=err.is_terminal and not quiet) as watch:
        study = _study(prepared, data, options, watch)
    names = tuple(np.unique(prepared.train.groups).tolist()) if asked.groups else ()
    finish(
        study,
        prepared,
        options,
        write=write_tail_report,
        tell=_tell,
        groups=names,
        tail=TAIL,
    )


def _study(prepared: Prepared, data: str, options: dict[str, Any], watch: Any) -> TailStudy:
    task, target = prepared.encoding.task, options["target"]
    passed = ("ambiguity", "alpha", "radius", "strength", "outlier_fraction", "l1", "tol", "max_seconds")
    model: Any = (DROClassifier if task == "classification" else DRORegressor)(
        **{name: options[name] for name in passed},
        loss=options["loss"] or DEFAULT_LOSS[task],
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    if options["ambiguity"] != "cvar" and options["radius"] is None and options["strength"] is None:
        model.set_params(radius=RADIUS)
    groups = {"groups": list(options["groups"])} if options["groups"] else {}
    columns = counted(len(prepared.encoding.columns), "column", "columns")
    return compare_tails(
        model,
        prepared.train,
        prepared.validation,
        prepared.test,
        l2=options["l2"],
        numbers=prepared.numbers,
        min_group_size=options["min_group_size"],
        title=f"{target}: the worst tenth of the rows",
        description=f"{Path(data).name}: predict {target} from {columns}.",
        notes=prepared.notes,
        settings={"objective": "dro", "validation": options["validation"], **groups},
        watch=watch,
    )


def _tell(out: Console, study: TailStudy) -> None:
    out.print(tail_grid(study, out.width))
    if study.caution:
        out.print(Text(study.caution, style="bold"))
    shown = ", ".join(f"{each.row:,}" for each in study.heavy[:5])
    for sentence in (
        *(f"{arm.name}: {found.headline}." for arm, found in zip(study.arms[1:], proofs(study), strict=True)),
        f"{carried(study)} The heaviest rows of the file, from 1 on: {shown}.",
        worst_names([(arm.name, arm.groups) for arm in study.arms], plain),
        trade(study),
        verdict(study),
    ):
        if sentence:
            out.print(sentence, highlight=False, markup=False)


def tail_grid(study: TailStudy, width: int) -> Grid:
    """Models in rows: the worst tenth with its interval, the mean, accuracy or R², the worst group."""
    many = counted(study.robust.test.rows, f"{study.judged_on} row", f"{study.judged_on} rows")
    grid = _score_grid(f"loss on {many}", study.task, study.robust.groups)
    if width >= WIDE:
        grid.add_column("minimises", style="dim")
    for arm in study.arms:
        words = (arm.words,) if width >= WIDE else ()
        style = "bold" if arm.key == study.verdict.recommended else ""
        grid.add_row(Text(arm.name), *_cells(arm.test, study.task, arm.groups), *words, style=style)
    return grid


def _score_grid(title: str, task: str, groups: GroupReport | None) -> Grid:
    grid = Grid(title=Text(title), **FRAME)
    grid.add_column("model")
    grid.add_column("worst 10 %", justify="right", no_wrap=True)
    grid.add_column("95 % interval", justify="right", style="dim", no_wrap=True)
    grid.add_column("all rows", justify="right", no_wrap=True)
    grid.add_column(right_name(task), justify="right", no_wrap=True)
    if groups is not None:
        grid.add_column("worst group", justify="right", no_wrap=True)
    return grid


def _cells(score: TailScore, task: str, groups: GroupReport | None) -> tuple[Any, ...]:
    last = () if groups is None else (worst(groups),)
    ends = loss_interval(score.low, score.high)
    return loss_number(score.tail), ends, loss_number(score.mean), right(score, task), *last


def evaluate_tail(
    fitted: TableModel,
    paths: tuple[str, str],
    table: tuple[Any, np.ndarray, int],
    *,
    min_group_size: int,
    as_json: bool,
) -> None:
    """The tail of the loss of a model on another table; rows of classes it does not know are left out.

    ``table`` holds the rows that have a target, their targets, and the number of those that have none.
    """
    (model, data), (frame, y, without), task = paths, table, fitted.encoding.task
    known = np.isin(y, fitted.model.classes_) if task == "classification" else np.ones(y.size, dtype=bool)
    if not known.any():
        raise Refused(f"{data}: no row is of a class that {model} knows")
    strange = sorted(set(y[~known].tolist()))
    found, groups = _judged(fitted, frame[known], y[known], min_group_size)
    caution = few_rows(found.rows, "judged")
    if as_json:
        told: dict[str, Any] = {"command": "evaluate", "rows_without_target": without, **_score_dict(found, task)}
        told |= {"caution": caution or None, "groups": None if groups is None else groups.to_dict()}
        click.echo(json.dumps({**told, "classes_not_trained_on": strange}, allow_nan=False))
        return
    out = Console()
    tell_left_out(out, without, strange)
    grid = _score_grid(f"{plain(data)}, {counted(found.rows, 'row', 'rows')}, loss", task, groups)
    grid.add_row(Text(plain(model)), *_cells(found, task, groups))
    out.print(grid)
    for sentence, style in ((caution, "bold"), (worst_names([("", groups)], plain), "")):
        if sentence:
            out.print(Text(sentence, style=style))


def _judged(fitted: TableModel, frame: Any, y: np.ndarray, min_group_size: int) -> tuple[TailScore, GroupReport | None]:
    rows = fitted.encoding.encode(frame)
    losses = row_losses(fitted.model, rows, y)
    found = judge_tail(fitted.model, rows, y, losses=losses)
    if not fitted.encoding.groups:
        return found, None
    names = group_names(fitted.encoding.group_labels(frame), len(frame))
    return found, judge_groups(fitted.model, rows, y, names, losses=losses, min_group_size=min_group_size)


def _score_dict(found: TailScore, task: str) -> dict[str, Any]:
    """For JSON; `rest` is left out, as nothing is set aside here."""
    right = found.right if np.isfinite(found.right) else None
    numbers = {name: getattr(found, name) for name in ("rows", "tail", "low", "high", "mean")}
    return {"metric": METRIC, **numbers, "accuracy" if task == "classification" else "r2": right}
