"""The commands: fit, evaluate, demo; those about methods stand in `xrisk.cli.methods`.

Exit codes: 0 done; 2 wrong file or option, told in one sentence; 3 done, but a limit ran out before the certificate
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
    Refused,
    choice_options,
    given,
    numbers,
    one_line_errors,
    refuse_other_options,
    refuse_outputs,
    seed_option,
    some_options,
    words,
)
from xrisk.cli.screen import column_dicts, column_grid, grid, is_wide, plain, progress, say
from xrisk.objectives import COMMANDS, WorstGroups
from xrisk.persistence import load, save
from xrisk.report import write_report
from xrisk.study import Arm, Study, compare
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared, TableOptions, without_target
from xrisk.tables.read import read_table

SAVED = tuple(dict.fromkeys(key for command in COMMANDS.values() for key in command.keys))  # keys of models


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(xrisk.__version__, prog_name="xrisk")
def app() -> None:
    """Train models for what the average hides: the worst groups of a table, its worst rows, its rare positives."""


app.add_command(methods)
app.add_command(compare_methods, "compare")


@app.command()
@click.argument("data")
@click.option("--target", required=True, help="Column to predict.")
@click.option("--objective", type=click.Choice(list(COMMANDS)), default="group-dro", show_default=True)
@choice_options
@click.option("--l1", default=0.0, show_default=True, help="Strength of the l1 penalty.")
@click.option("--l2", default="1e-3", show_default=True, callback=numbers, help="Strength; of several the best.")
@click.option("--categorical", callback=words, help="Columns of numbers that are codes.")
@click.option("--drop", callback=words, help="Columns not to use.")
@click.option("--validation", default=0.25, show_default=True, help="Share of validation rows.")
@click.option(
    "--test", type=float, help="Share of test rows, for the verdict. Default with several --l2: --validation."
)
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
    """Fit a model on a table (CSV or Parquet), beside plain ones.

    The models have the same loss and penalty and are judged by one rule. We recommend the simplest model that no other
    significantly outperforms (95 % confidence). Given several --l2 values, each model's is selected on the validation
    rows; the comparison uses separate test rows. --out writes the recommended model, --save names another.

    With --objective group-dro the three models are plain, re-weighted and robust, judged by the score (--metric) of
    their worst group of validation rows, among groups of at least --min-group-size rows.

    With --objective dro they are plain, robust to weights of the rows (--ambiguity), and the same after the
    --outlier-fraction of the rows of largest loss is set aside; they are judged by the mean loss of the worst 10 % of
    validation rows. Groups may be given, to see the worst.

    With --objective two-way-partial-auc, partial-auc or p-norm-push there are two classes and no groups: logistic
    regression, balanced logistic regression and a ranking are judged by the part of the ROC curve that --min-tpr and
    --max-fpr leave.
    """
    command = COMMANDS[options["objective"]]
    refuse_other_options(context, command)
    command.refuse(given(context), options)
    if options["bins"] < 2:
        raise Refused(f"--bins must be at least 2, got {options['bins']}")
    keys = ("recommended", *command.keys)
    if options["kept"] not in keys:
        raise Refused(f"--save must be one of {', '.join(keys)} for {command.word}, got {options['kept']!r}")
    refuse_outputs({"--out": options["out"], "--report": options["page"]}, data)
    options |= {"data": data}
    test = options["validation"] if len(options["l2"]) > 1 and options["test"] is None else options["test"]
    taken = {choice.name for choice in command.options} | {"target", "categorical", "drop"}
    asked = TableOptions(**{name: options[name] for name in TableOptions._fields if name in taken})
    shares = {"validation": options["validation"], "test": test}
    prepared = command.prepare(read_table(data), asked, data, **shares, seed=options["seed"])
    question, quiet, err = command.ask(options, prepared), options["as_json"], Console(stderr=True)
    if not quiet:
        Console(soft_wrap=False).print(column_grid(prepared, data))
    with progress(err, enabled=err.is_terminal and not quiet) as watch:
        about = {name: getattr(question, name) for name in ("title", "description", "settings", "notes")}
        study = compare(question.objective, *question.parts, l2=options["l2"], **about, watch=watch)
    _finish(study, prepared, options)


def _kept(study: Study, options: dict[str, Any]) -> Arm:
    """Which of the models of a study is to be saved."""
    return study.recommended or study.asked if options["kept"] == "recommended" else study.arm(options["kept"])


def _finish(study: Study, prepared: Prepared, options: dict[str, Any]) -> None:
    """Write what was asked for, tell what was found, and end the process."""
    out, page, kept = options["out"], options["page"], _kept(study, options)
    if out:
        about = study.objective.kept(prepared.train)
        save(TableModel(prepared.encoding, kept.model, objective=options["objective"], **about), out)
    if page:
        write_report(page, study)
    if options["as_json"]:
        told = {"command": "fit", **study.to_dict(), "columns": column_dicts(prepared)}
        told |= {"model": out, "saved": kept.key if out else None, "report": page}
        click.echo(json.dumps(told, allow_nan=False))
    else:
        console = Console(soft_wrap=False)
        say(console, study.notes, "dim")
        tell(console, study)
        if out:
            say(console, [f"Model: {out}, {kept.name}"])
        if page:
            say(console, [f"Report: {page}"])
    raise SystemExit(0 if study.is_done else NOT_CERTIFIED)


def tell(out: Console, study: Study) -> None:
    """The finding of a study, on a terminal."""
    out.print(grid(study.objective.sheet(study, is_wide(out))))
    say(out, filter(None, [study.caution]), "bold")
    say(out, study.objective.sentences(study))


@app.command()
@click.argument("model")
@click.argument("data")
@some_options("metric", "min_group_size")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")
@click.pass_context
@one_line_errors
def evaluate(context: click.Context, model: str, data: str, as_json: bool, **options: Any) -> None:
    """Score a model that `xrisk fit` wrote on another table, which is encoded as it was then.

    A model of groups is scored on each group, one of rare positives by its partial AUC, one of the worst rows by the
    mean loss of the worst 10 %.
    """
    if not Path(model).exists():
        raise Refused(f"{model} does not exist")
    fitted = _table_model(model)
    refuse_other_options(context, COMMANDS[fitted.objective])
    frame = read_table(data).frame
    y, held = fitted.encoding.targets(frame)
    if not held.any():
        raise Refused(f"{data}: the target {fitted.encoding.target!r} has no values")
    names = {"title": data, "model": model}
    told = COMMANDS[fitted.objective].evaluate(fitted, frame[held], y, **names, options=options)
    without = int((~held).sum())
    if as_json:
        numbers = {"command": "evaluate", "rows_without_target": without, **told.numbers}
        click.echo(json.dumps(numbers, allow_nan=False))
        return
    out = Console()
    say(out, [*([without_target(without)] if without else []), *told.notes], "dim")
    out.print(grid(told.sheet))
    say(out, told.sentences)


def _table_model(path: str) -> TableModel:
    fitted = load(path)
    if not isinstance(fitted, TableModel):
        raise Refused(f"{path} holds a {type(fitted).__name__} without its table's columns; xrisk fit writes those")
    if fitted.objective not in COMMANDS:
        raise Refused(
            f"{path} is a model of the objective {fitted.objective!r}, which is none of {', '.join(COMMANDS)}"
        )
    return fitted


@app.command()
@click.option("--report", "page", type=click.Path(dir_okay=False), default="xrisk-demo.html", show_default=True)
@seed_option
@some_options("min_group_size")
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
            objective = WorstGroups(model, min_group_size=min_group_size)
            study = compare(objective, *rows, **about, watch=watch)
        studies.append(study)
        if not as_json:
            out.print(Text(f"\n{study.title}", style="bold"))
            out.print(Text(study.description, style="dim"))
            tell(out, study)
    write_report(page, studies, title="What the average hides: three tables")
    if as_json:
        told = {"command": "demo", "studies": [study.to_dict() for study in studies], "report": page}
        click.echo(json.dumps(told, allow_nan=False))
    else:
        out.print(Text(f"\nReport: {plain(str(Path(page).resolve()))}"))
    raise SystemExit(0 if all(study.is_done for study in studies) else NOT_CERTIFIED)
