"""The commands: fit, evaluate, demo; those about methods stand in `xrisk.cli.methods`.

Exit codes: 0 done; 2 wrong file or option, told in one sentence; 3 done, but a limit ran out before the certificate
reached its tolerance.
"""

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import xrisk
from xrisk.applications import LOSSES
from xrisk.cli.demo import problems
from xrisk.cli.ending import finish
from xrisk.cli.methods import compare_methods, methods
from xrisk.cli.options import (
    ARMS_OF,
    DEFAULT_LOSS,
    NOT_CERTIFIED,
    OBJECTIVES,
    Refused,
    ambiguity_options,
    divergence_options,
    metric_option,
    min_group_size_option,
    numbers,
    one_line_errors,
    ranking_options,
    refuse_group_options,
    refuse_other_options,
    refuse_outputs,
    seed_option,
    words,
)
from xrisk.cli.ranking import evaluate_ranking, fit_ranking
from xrisk.cli.screen import column_grid, plain, progress, report_grid, study_grid
from xrisk.cli.tail import evaluate_tail, fit_tail
from xrisk.estimators import GroupDROClassifier, GroupDRORegressor
from xrisk.persistence import load
from xrisk.phrases import counted
from xrisk.report import write_report
from xrisk.report.phrases import UP_TO_ROUNDING, scored, verdict, worst_group
from xrisk.solvers.base import PROVED_ENDINGS
from xrisk.study import Study, compare, judge
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared, TableOptions, prepare, without_target
from xrisk.tables.read import read_table
from xrisk.tables.rows import group_names

SAVED = tuple(dict.fromkeys(key for arms in ARMS_OF.values() for key in arms))  # keys of models


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(xrisk.__version__, prog_name="xrisk")
def app() -> None:
    """Train models for what the average hides: the worst groups of a table, its worst rows, its rare positives."""


app.add_command(methods)
app.add_command(compare_methods, "compare")


@app.command()
@click.argument("data")
@click.option("--target", required=True, help="Column to predict.")
@click.option("--groups", callback=words, help="Columns whose intersections are the groups: race,sex.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default=OBJECTIVES[0], show_default=True)
@divergence_options
@ambiguity_options
@ranking_options
@click.option("--loss", type=click.Choice(sorted(LOSSES)), help="Default: logistic for classes, squared for numbers.")
@click.option("--l1", default=0.0, show_default=True, help="Strength of the l1 penalty.")
@click.option("--l2", default="1e-3", show_default=True, callback=numbers, help="Strength; of several the best.")
@click.option("--task", type=click.Choice(["auto", "classification", "regression"]), default="auto", show_default=True)
@click.option("--categorical", callback=words, help="Columns of numbers that are codes.")
@click.option("--drop", callback=words, help="Columns not to use.")
@click.option("--bins", default=4, show_default=True, help="Bins that many-valued numbers in --groups are cut into.")
@click.option("--groups-as-features", is_flag=True, help="Predict from the columns of the groups too.")
@click.option("--validation", default=0.25, show_default=True, help="Share of validation rows.")
@click.option(
    "--test", type=float, help="Share of test rows, for the verdict. Default with several --l2: --validation."
)
@metric_option
@min_group_size_option
@seed_option
@click.option("--tol", default=1e-3, show_default=True, help="Certified relative gap to reach.")
@click.option("--max-seconds", type=float, help="Limit on the time of each fit.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the model that the verdict recommends here.")
@click.option("--save", "kept", type=click.Choice(["recommended", *SAVED]), default="recommended", show_default=True)
@click.option("--report", "page", type=click.Path(dir_okay=False), help="Write a page (HTML) here.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@click.pass_context
@one_line_errors
def fit(context: click.Context, data: str, **options: Any) -> None:
    """Fit a model on a table (CSV or Parquet), beside plain and re-weighted ones.

    The three models have the same loss and penalty and are judged by one rule: the score (--metric) of their worst
    group of validation rows, among groups of at least --min-group-size rows. Recommended is the simplest that no other
    is sure to beat (confidence 95 %). Of several strengths --l2 each model gets its best by its worst group of
    validation rows, and the verdict is on test rows apart from these. --out writes the recommended model, --save names
    another.

    With --objective dro the three models are plain, robust to weights of the rows (--ambiguity), and the same after the
    --outlier-fraction of the rows of largest loss is set aside; they are judged by the mean loss of the worst 10 % of
    validation rows. Groups may be given, to see the worst.

    With --objective two-way-partial-auc or partial-auc there are two classes and no groups: logistic regression,
    balanced logistic regression and a ranking are judged by the part of the ROC curve that --min-tpr and --max-fpr
    leave.
    """
    refuse_other_options(context, options["objective"])
    if options["bins"] < 2:
        raise Refused(f"--bins must be at least 2, got {options['bins']}")
    refuse_outputs({"--out": options["out"], "--report": options["page"]}, data)
    several = len(options["l2"]) > 1
    test = options["validation"] if several and options["test"] is None else options["test"]
    shares = {"validation": options["validation"], "test": test}
    {"group-dro": _fit_groups, "dro": fit_tail}.get(options["objective"], fit_ranking)(data, options, shares)


def _fit_groups(data: str, options: dict[str, Any], shares: dict[str, Any]) -> None:
    asked = TableOptions(**{name: options[name] for name in TableOptions._fields})
    quiet = options["as_json"]
    prepared = prepare(read_table(data), asked, data, **shares, seed=options["seed"])
    err = Console(stderr=True)
    if not quiet:
        Console(soft_wrap=False).print(column_grid(prepared, data))
    study = _study(prepared, data, options, err, quiet)
    finish(
        study,
        prepared,
        options,
        write=write_report,
        tell=_tell,
        groups=tuple(np.unique(prepared.train.groups).tolist()),
    )


def _study(prepared: Prepared, data: str, options: dict[str, Any], err: Console, quiet: bool) -> Study:
    is_class = prepared.encoding.task == "classification"
    passed = ("divergence", "alpha", "lam", "l1", "tol", "max_seconds")
    model: Any = (GroupDROClassifier if is_class else GroupDRORegressor)(
        **{name: options[name] for name in passed},
        loss=options["loss"] or DEFAULT_LOSS[prepared.encoding.task],
        l2=options["l2"][0],
        random_state=options["seed"],
    )
    target, groups = options["target"], options["groups"] or (options["target"],)
    columns = counted(len(prepared.encoding.columns), "column", "columns")
    with progress(err, enabled=err.is_terminal and not quiet) as watch:
        return compare(
            model,
            prepared.train,
            prepared.validation,
            prepared.test,
            l2=options["l2"],
            metric=options["metric"],
            min_group_size=options["min_group_size"],
            title=f"{target} by {' × '.join(groups)}",
            description=f"{Path(data).name}: predict {target} from {columns}.",
            notes=prepared.notes,
            settings={"validation": options["validation"], "groups": list(groups)},
            watch=watch,
        )


def _tell(out: Console, study: Study) -> None:
    out.print(study_grid(study, out.width))
    model = study.robust.model
    for sentence in (_proved(model), scored(model, study.metric), verdict(study)):
        out.print(sentence, highlight=False, markup=False)


def _proved(model: Any) -> str:
    """What is proved of the robust model, in a sentence."""
    if model.stop_ in UP_TO_ROUNDING:
        return f"Robust model: {UP_TO_ROUNDING[model.stop_]}."
    said = "certified" if model.stop_ in PROVED_ENDINGS else f"not certified to {model.tol:g}, {model.stop_}"
    found = model.certificate_
    bounds = f"{found.dual:.6g} ≤ optimum ≤ {found.primal:.6g}"
    return f"Robust model: {said}; {bounds}, relative gap {found.relative:.1e}."


@app.command()
@click.argument("model")
@click.argument("data")
@metric_option
@min_group_size_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@click.pass_context
@one_line_errors
def evaluate(
    context: click.Context, model: str, data: str, metric: str | None, min_group_size: int, as_json: bool
) -> None:
    """Score a model that `xrisk fit` wrote on another table, which is encoded as it was then.

    A model of groups is scored on each group, one of rare positives by its partial AUC, one of the worst rows by the
    mean loss of the worst 10 %.
    """
    if not Path(model).exists():
        raise Refused(f"{model} does not exist")
    fitted = _table_model(model)
    frame = read_table(data).frame
    y, held = fitted.encoding.targets(frame)
    if not held.any():
        raise Refused(f"{data}: the target {fitted.encoding.target!r} has no values")
    if fitted.ranked is not None:
        refuse_group_options(context, ("metric", "min_group_size"), "this one ranks two classes")
        evaluate_ranking(fitted, (model, data), (frame[held], y, int((~held).sum())), as_json)
        return
    if fitted.tail is not None:
        refuse_group_options(context, ("metric",), "this one is judged by the tail of its loss")
        table = (frame[held], y, int((~held).sum()))
        evaluate_tail(fitted, (model, data), table, min_group_size=min_group_size, as_json=as_json)
        return
    frame = frame[held]
    groups = group_names(fitted.encoding.group_labels(frame), len(frame))
    rows = fitted.encoding.encode(frame)
    report = judge(fitted.model, rows, y, groups, metric=metric, min_group_size=min_group_size)
    without = int((~held).sum())
    unseen = sorted(set(np.unique(groups).tolist()) - set(fitted.groups))
    strange = _strange_classes(fitted, y)
    if as_json:
        told = {"command": "evaluate", "rows": len(frame), "rows_without_target": without, **report.to_dict()}
        click.echo(json.dumps({**told, "groups_not_trained_on": unseen, **strange}))
        return
    out = Console()
    if without:
        out.print(Text(without_target(without), style="dim"))
    if unseen:
        out.print(Text(f"Groups without training rows: {', '.join(map(plain, unseen))}.", style="dim"))
    if strange.get("classes_not_trained_on"):
        named = ", ".join(map(plain, strange["classes_not_trained_on"]))
        out.print(Text(f"Classes without training rows, never predicted: {named}.", style="dim"))
    out.print(report_grid(report, f"{plain(data)}, {counted(len(frame), 'row', 'rows')}, by {plain(model)}"))
    out.print(Text(f"{worst_group(report, plain)} {scored(fitted.model, report.metric)}"))


def _strange_classes(fitted: TableModel, y: np.ndarray) -> dict[str, list[str]]:
    """For JSON, the classes among targets that the model cannot predict; nothing for a regression."""
    if fitted.encoding.task == "regression":
        return {}
    return {"classes_not_trained_on": sorted(set(np.unique(y).tolist()) - set(fitted.model.classes_.tolist()))}


def _table_model(path: str) -> TableModel:
    fitted = load(path)
    if not isinstance(fitted, TableModel):
        raise Refused(f"{path} holds a {type(fitted).__name__} without its table's columns; xrisk fit writes those")
    return fitted


@app.command()
@click.option("--report", "page", type=click.Path(dir_okay=False), default="xrisk-demo.html", show_default=True)
@seed_option
@min_group_size_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@one_line_errors
def demo(page: str, seed: int, min_group_size: int, as_json: bool) -> None:
    """Three problems on built-in data: ERM against xrisk, a table for each, and a page about all of them.

    The first run compiles; the machine code stays on disk.
    """
    refuse_outputs({"--report": page})
    out, err = Console(), Console(stderr=True)
    studies = []
    for model, rows, about in problems(seed):
        with progress(err, enabled=err.is_terminal and not as_json) as watch:
            study = compare(model, *rows, **about, min_group_size=min_group_size, watch=watch)
        studies.append(study)
        if not as_json:
            out.print(Text(f"\n{study.title}", style="bold"))
            out.print(Text(study.description, style="dim"))
            _tell(out, study)
    write_report(page, studies, title="What the average hides: three tables")
    if as_json:
        told = {"command": "demo", "studies": [study.to_dict() for study in studies], "report": page}
        click.echo(json.dumps(told, allow_nan=False))
    else:
        out.print(Text(f"\nReport: {plain(str(Path(page).resolve()))}"))
    raise SystemExit(0 if all(study.is_done for study in studies) else NOT_CERTIFIED)
