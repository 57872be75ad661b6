"""The commands: fit, evaluate, demo; those about methods are in `xrisk.cli.methods`.

Exit codes: 0 done; 2 wrong file or option, reported in one sentence; 3 done, but a limit ran out before the certificate
reached its tolerance.
"""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

import xrisk
from xrisk.cli.demo import problems
from xrisk.cli.methods import compare_methods, methods
from xrisk.cli.options import (
    NOT_CERTIFIED,
    OPTIONS,
    Refused,
    given,
    json_option,
    numbers,
    one_line_errors,
    options_of,
    refuse_other_options,
    refuse_outputs,
    seed_option,
    words,
)
from xrisk.cli.screen import column_grid, grid, plain, progress, say, show_study
from xrisk.objectives import COMMANDS, WorstGroups
from xrisk.persistence import load, save
from xrisk.report import write_report
from xrisk.study import Arm, Study, compare
from xrisk.study.objective import Command
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared, TableOptions, column_rows, without_target
from xrisk.tables.read import read_table

KEYS = tuple(dict.fromkeys(key for command in COMMANDS.values() for key in command.keys))  # of all models


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(xrisk.__version__, prog_name="xrisk")
def app() -> None:
    """Train models for what the average hides: the worst groups, the worst rows, rare positives."""


app.add_command(methods)
app.add_command(compare_methods, "compare")


@app.command()
@click.argument("data")
@click.option("--target", required=True, help="Column to predict.")
@click.option(
    "--objective",
    type=click.Choice(list(COMMANDS)),
    default="group-dro",
    show_default=True,
    help="What the models are compared for.",
)
@options_of(*OPTIONS)
@click.option("--l1", default=0.0, show_default=True, help="Strength of the l1 penalty.")
@click.option(
    "--l2",
    default="1e-3",
    show_default=True,
    callback=numbers,
    help="Strength of the l2 penalty; several, separated by commas, to choose from.",
)
@click.option("--categorical", callback=words, help="Numeric columns that are codes of categories.")
@click.option("--drop", callback=words, help="Columns not to use.")
@click.option("--validation", default=0.25, show_default=True, help="Share of validation rows.")
@click.option(
    "--test", type=float, help="Share of test rows. Default: --validation if there are several --l2, else none."
)
@seed_option
@click.option("--tol", default=1e-3, show_default=True, help="Certified relative gap to reach.")
@click.option("--max-seconds", type=float, help="Time limit of each fit.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write the model that --save names to this file.")
@click.option(
    "--save",
    "kept",
    type=click.Choice(["recommended", *KEYS]),
    default="recommended",
    show_default=True,
    help="The model to write.",
)
@click.option("--report", "page", type=click.Path(dir_okay=False), help="Write a report (HTML) to this file.")
@json_option
@click.pass_context
@one_line_errors
def fit(context: click.Context, data: str, **options: Any) -> None:
    """Fit a robust model and simpler ones on a table (CSV or Parquet), and compare them.

    All models are judged by one rule. We recommend the simplest model that no other significantly outperforms (95 %
    confidence). Given several --l2 values, each model's is selected on the validation rows; the comparison uses
    separate test rows. --out writes the recommended model, --save names another.

    --objective group-dro compares plain, re-weighted and robust models by the score (--metric) of their worst group of
    validation rows, among groups of at least --min-group-size rows.

    --objective dro compares a plain model, one that is robust to weights of the rows (--ambiguity), and one that is
    fitted without the --outlier-fraction of the rows of largest loss. They are judged by the mean loss of the worst
    10 % of validation rows. With --groups the worst group is reported too.

    --objective two-way-partial-auc, partial-auc and p-norm-push take two classes and no groups. They compare logistic
    regression, balanced logistic regression and a ranking by the part of the ROC curve that --min-tpr and --max-fpr
    leave.
    """
    options |= {"data": data}
    command = COMMANDS[options["objective"]]
    _check_options(context, command, options)
    prepared = _prepared(command, options)
    objective, parts, title, description, settings, notes = command.ask(options, prepared)
    about: dict[str, Any] = {"title": title, "description": description, "settings": settings, "notes": notes}
    if not options["as_json"]:
        Console().print(column_grid(prepared, data))
    with progress(is_quiet=options["as_json"]) as notify:
        study = compare(objective, *parts, l2=options["l2"], **about, notify=notify)
    _finish(study, prepared, options)


def _check_options(context: click.Context, command: Command, options: dict[str, Any]) -> None:
    """Refuse options that do not go together, before any work is done."""
    refuse_other_options(context, command)
    command.check(given(context), options)
    if options["bins"] < 2:
        raise Refused(f"--bins must be at least 2, got {options['bins']}")
    keys = ("recommended", *command.keys)
    if options["kept"] not in keys:
        raise Refused(f"--save must be one of {', '.join(keys)} for {command.name}, got {options['kept']!r}")
    refuse_outputs({"--out": options["out"], "--report": options["page"]}, options["data"])


def _prepared(command: Command, options: dict[str, Any]) -> Prepared:
    """The rows of the table."""
    test = options["validation"] if len(options["l2"]) > 1 and options["test"] is None else options["test"]
    own = {option.name for option in command.options} | {"target", "categorical", "drop"}
    table = TableOptions(**{name: options[name] for name in TableOptions._fields if name in own})
    shares = {"validation": options["validation"], "test": test}
    return command.prepare(read_table(options["data"]), table, options["data"], **shares, seed=options["seed"])


def _finish(study: Study, prepared: Prepared, options: dict[str, Any]) -> None:
    """Write what was asked for, show what was found, and end the process."""
    out, page, arm = options["out"], options["page"], _saved(study, options["kept"])
    if out:
        metadata = study.objective.metadata(prepared.train)
        save(TableModel(prepared.encoding, arm.model, objective=options["objective"], **metadata), out)
    if page:
        write_report(page, study)
    if options["as_json"]:
        names = ("name", "kind", "detail")
        columns = [dict(zip(names, row, strict=True)) for row in column_rows(prepared.encoding)]
        files = {"model": out, "saved": arm.key if out else None, "report": page}
        click.echo(json.dumps({"command": "fit", **study.to_dict(), "columns": columns, **files}, allow_nan=False))
    else:
        console = Console()
        say(console, study.notes, "dim")
        show_study(console, study)
        say(console, [f"Model: {out}, {arm.name}"] if out else [])
        say(console, [f"Report: {page}"] if page else [])
    raise SystemExit(0 if study.is_done else NOT_CERTIFIED)


def _saved(study: Study, key: str) -> Arm:
    """Which of the models of a study is to be saved."""
    return study.recommended or study.requested if key == "recommended" else study.arm(key)


@app.command()
@click.argument("model")
@click.argument("data")
@options_of("metric", "min_group_size")
@json_option
@click.pass_context
@one_line_errors
def evaluate(context: click.Context, model: str, data: str, as_json: bool, **options: Any) -> None:
    """Evaluate a model that `xrisk fit` wrote on another table.

    A model of groups is judged by its score on each group, one of rare positives by its partial AUC, one of the worst
    rows by the mean loss of the worst 10 %.
    """
    if not Path(model).exists():
        raise Refused(f"{model} does not exist")
    fitted = _table_model(model)
    command = COMMANDS[fitted.objective]
    refuse_other_options(context, command)
    frame = read_table(data).frame
    y, has_target = fitted.encoding.targets(frame)
    if not has_target.any():
        raise Refused(f"{data}: the target {fitted.encoding.target!r} has no values")
    found = command.evaluate(fitted, frame[has_target], y, options | {"model": model, "data": data})
    without = int((~has_target).sum())
    if as_json:
        result = {"command": "evaluate", "rows_without_target": without, **found.numbers}
        click.echo(json.dumps(result, allow_nan=False))
        return
    out = Console()
    say(out, [*([without_target(without)] if without else []), *found.notes], "dim")
    out.print(grid(found.table))
    say(out, found.sentences)


def _table_model(path: str) -> TableModel:
    fitted = load(path)
    if not isinstance(fitted, TableModel):
        raise Refused(f"{path} holds a {type(fitted).__name__} without its table's columns; xrisk fit writes those")
    if fitted.objective not in COMMANDS:
        raise Refused(
            f"{path} is a model of the objective {fitted.objective!r}, which is none of {', '.join(COMMANDS)}"
        )
    metadata = COMMANDS[fitted.objective].metadata
    if not getattr(fitted, metadata):
        raise Refused(f"{path} is no model of the objective {fitted.objective!r}: it has no {metadata}")
    return fitted


@app.command()
@click.option("--report", "page", type=click.Path(dir_okay=False), default="xrisk-demo.html", show_default=True)
@seed_option
@options_of("min_group_size")
@json_option
@one_line_errors
def demo(page: str, seed: int, min_group_size: int, as_json: bool) -> None:
    """Compare ERM and xrisk on three built-in tables, and write a report about them.

    The first run compiles; the machine code is kept on disk.
    """
    refuse_outputs({"--report": page})
    out, studies = Console(), []
    for model, rows, about in problems(seed):
        with progress(is_quiet=as_json) as notify:
            study = compare(WorstGroups(model, min_group_size=min_group_size), *rows, notify=notify, **about)
        studies.append(study)
        if not as_json:
            out.print(Text(f"\n{study.title}", style="bold"))
            out.print(Text(study.description, style="dim"))
            show_study(out, study)
    write_report(page, studies, title="What the average hides: three tables")
    if as_json:
        result = {"command": "demo", "studies": [study.to_dict() for study in studies], "report": page}
        click.echo(json.dumps(result, allow_nan=False))
    else:
        out.print(Text(f"\nReport: {plain(str(Path(page).resolve()))}"))
    raise SystemExit(0 if all(study.is_done for study in studies) else NOT_CERTIFIED)
