"""The commands about methods: their table, and races between them."""

import json
import os
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

import xrisk
from xrisk.applications import LOSSES, group_dro
from xrisk.cli.options import Refused, json_option, one_line_errors, options_of, refuse_outputs, words
from xrisk.cli.screen import chosen_columns, progress
from xrisk.files import written_whole
from xrisk.functions.parameters import counted
from xrisk.objectives.options import DEFAULT_LOSS
from xrisk.problem import Problem
from xrisk.race import PAPER, PROBLEMS, Race, as_dict, draw_race, race
from xrisk.race.phrases import COLUMNS as RACE_COLUMNS
from xrisk.race.phrases import rows as race_rows
from xrisk.race.picture import blank_figure
from xrisk.run import Budget
from xrisk.solvers.catalogue import CATALOGUE, COLUMNS, as_markdown, describe, refusal, rows
from xrisk.tables.prepare import TableOptions, prepare_all
from xrisk.tables.read import read_table

WIDE = 120  # columns of a terminal that is wide enough for a whole table
ALL_METHODS = ("name", "values", "gradients", "needs", "theory asks for", "source")
WIDEST = 160  # columns of a terminal that is wide enough for all columns of the methods
NARROW_METHODS = ("name", "values", "needs", "source")
NARROW = ("method", "setting", "median gap", "seconds")
FILES = (".csv", ".csv.gz", ".tsv", ".txt", ".parquet", ".pq")


@click.command()
@click.argument("name", required=False)
@click.option("--problem", help="Say which methods apply to this problem of `xrisk compare`, and why others do not.")
@click.option("--markdown", is_flag=True, help="Print docs/methods.md.")
@json_option
@one_line_errors
def methods(name: str | None, problem: str | None, markdown: bool, as_json: bool) -> None:
    """List the methods, or describe one: what it needs, costs and guarantees, and where its update rule is from."""
    solver = None if name is None else _chosen((name,))[name]
    if markdown:
        click.echo(as_markdown(), nl=False)
    elif as_json:
        found = [dict(zip(COLUMNS, row, strict=True)) for row in rows()]
        click.echo(json.dumps(found if name is None else next(row for row in found if row["name"] == name)))
    elif solver is not None:
        Console().print(Text(describe(solver)))
    elif problem is not None:
        Console().print(_applies(_named(problem), problem))
    else:
        out, title = Console(), "S blocks of B samples per iteration, n blocks in all; xrisk methods NAME describes one"
        shown = ALL_METHODS if out.width >= WIDEST else NARROW_METHODS
        out.print(chosen_columns(title, COLUMNS, rows(), shown, whole=("name", "values", "source")))


def _applies(problem: Problem, title: str) -> Grid:
    names = ("name", "applies")
    found = [(name, refusal(problem, solver) or "yes") for name, solver in CATALOGUE.items()]
    return chosen_columns(f"On {title}: {PROBLEMS[title].description}", names, found, names, whole=("name",))


def _named(name: str) -> Problem:
    if name not in PROBLEMS:
        raise Refused(f"there is no problem {name!r}; there are {', '.join(PROBLEMS)}, or a file with --target")
    return PROBLEMS[name].build()


def _chosen(names: tuple[str, ...]) -> dict[str, Any]:
    unknown = [name for name in names if name not in CATALOGUE]
    if unknown:
        raise Refused(f"there is no method {unknown[0]!r}; there are {', '.join(CATALOGUE)}")
    return {name: CATALOGUE[name] for name in names or CATALOGUE}


def _grid(context: Any, option: Any, values: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    grid = {}
    for value in values:
        field, _, numbers = value.partition("=")
        try:
            grid[field.strip().replace("-", "_")] = tuple(float(number) for number in numbers.split(","))
        except ValueError as error:
            raise click.BadParameter(f"must look like step=0.01,0.1, got {value!r}") from error
    return grid


@click.command(epilog=f"Problems: {', '.join(PROBLEMS)}.")
@click.argument("problem")
@click.option("--methods", "names", callback=words, help="Which, separated by commas. Default: all that apply.")
@click.option("--oracle-calls", type=float, help="Budget of each run in sampled values and gradients.")
@click.option("--iterations", type=float, help="Budget of each run in iterations.")
@click.option("--seconds", type=float, help="Budget of each run in seconds inside the method.")
@click.option("--seeds", default=5, show_default=True, help="Number of runs of each method.")
@click.option("--tune", is_flag=True, help="First tune every method over the grid of the ALEXR paper.")
@click.option("--grid", multiple=True, callback=_grid, help="Tune over these instead: --grid step=0.01,0.1 --grid …")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Number of processes.")
@click.option("--target", help="For a file: the column to predict.")
@click.option("--groups", callback=words, help="For a file: columns whose intersections are the groups.")
@options_of("divergence", "alpha", "lam")
@click.option("--loss", type=click.Choice(sorted(LOSSES)), help="For a file. Default: logistic for classification.")
@click.option("--l2", default=1e-3, show_default=True, help="For a file: strength of the penalty.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write all numbers (JSON) to this file.")
@click.option("--picture", type=click.Path(dir_okay=False), help="Draw the race (PNG, SVG or PDF) in this file.")
@json_option
@one_line_errors
def compare_methods(problem: str, names: tuple[str, ...], as_json: bool, **options: Any) -> None:
    """Race methods on a problem: a named one, or group DRO on a table (CSV or Parquet).

    The options --target to --l2 are for a table. All runs have the same budget, by default 10⁶ oracle calls. With
    --tune or --grid every method first runs with all combinations of its fields, under another seed, and then races
    with the best. Gaps are to the certified optimum.
    """
    refuse_outputs({"--out": options["out"], "--picture": options["picture"]}, problem)
    if options["picture"]:
        blank_figure(options["picture"])
    solvers = _chosen(names)
    budget = Budget(*(options[name] for name in ("iterations", "oracle_calls", "seconds")))
    budget = budget if any(limit is not None for limit in budget) else Budget(oracle_calls=1e6)
    raced, title = _problem(problem, options)
    with progress(is_quiet=as_json) as notify:
        found = race(
            raced,
            solvers,
            budget=budget,
            seeds=range(options["seeds"]),
            grid=options["grid"] or (PAPER if options["tune"] else None),
            jobs=options["jobs"],
            title=title,
            watch=notify,
        )
    _write(found, options)
    if as_json:
        click.echo(json.dumps(_as_json(found)))
    else:
        _show(found, options)


def _problem(problem: str, options: dict[str, Any]) -> tuple[Problem, str]:
    if not problem.lower().endswith(FILES):
        return _named(problem), f"{problem}: {PROBLEMS[problem].description}"
    if options["target"] is None:
        raise Refused("--target is needed: the column of the file to predict")
    encoding, (X, y, groups), _ = prepare_all(
        read_table(problem), TableOptions(options["target"], options["groups"]), problem
    )
    loss = options["loss"] or DEFAULT_LOSS[encoding.task]
    if encoding.task == "classification":
        classes, codes = np.unique(y, return_inverse=True)
        y = np.where(codes == 1, 1, -1) if classes.size == 2 else codes
        loss = loss if classes.size == 2 else "multinomial"
    passed = {name: options[name] for name in ("divergence", "alpha", "lam", "l2")}
    raced = group_dro(X, y, groups, loss=loss, fit_intercept=True, **passed)  # as `xrisk fit` does
    many = counted(np.unique(groups).size, "group", "groups")
    return raced, f"{os.path.basename(problem)}: {options['divergence']} over {many}"


def _as_json(found: Race) -> dict[str, Any]:
    return {"command": "compare", "xrisk": xrisk.__version__, **as_dict(found)}


def _write(found: Race, options: dict[str, Any]) -> None:
    if options["out"]:
        with written_whole(options["out"]) as file:
            file.write(json.dumps(_as_json(found), indent=1, allow_nan=False).encode())
    if options["picture"]:
        draw_race(found, options["picture"])


def _show(found: Race, options: dict[str, Any]) -> None:
    out = Console()
    size = f"{counted(found.size[0], 'block', 'blocks')}, {counted(found.size[1], 'variable', 'variables')}"
    shown = RACE_COLUMNS if out.width >= WIDE else NARROW
    whole, numbers = [name for name in shown if name != "setting"], RACE_COLUMNS[2:]
    title = f"{found.problem}; {size}"
    out.print(chosen_columns(title, RACE_COLUMNS, race_rows(found), shown, whole=whole, numbers=numbers))
    goal = found.goal
    out.print(f"Optimum {goal.value:.9g}, at least {goal.dual:.9g}; gaps are medians over the seeds.", highlight=False)
    for name, reason in found.refused.items():
        out.print(Text(f"{name} does not apply: {reason}", style="dim"))
    for what, path in (("Numbers", options["out"]), ("Picture", options["picture"])):
        if path:
            out.print(Text(f"{what}: {path}"))
