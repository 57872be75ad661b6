"""What the commands share: options as lists, refusals as one sentence."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from xrisk.applications.arguments import DIVERGENCES, divergences_that_take
from xrisk.metrics import MIN_GROUP_SIZE
from xrisk.study import SCORES

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}


class Refused(click.ClickException):
    """A wrong file or option, told in one sentence; exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.format_message()}", err=True)


def divergence_options(command: Callable) -> Callable:
    """The options --divergence, --alpha and --lam, made from the table of divergences."""
    meanings = "; ".join(f"{word}: {each.meaning}" for word, each in DIVERGENCES.items())
    of_alpha, of_lam = (", ".join(divergences_that_take(number)) for number in ("alpha", "lam"))
    for option in (
        click.option("--lam", default=1.0, show_default=True, help=f"Strength of the cost, for {of_lam}."),
        click.option("--alpha", default=0.1, show_default=True, help=f"Fraction of the groups, for {of_alpha}."),
        click.option(
            "--divergence",
            type=click.Choice(list(DIVERGENCES)),
            default="cvar",
            show_default=True,
            help=f"Mixtures of the groups over which the worst case is taken. {meanings}.",
        ),
    ):
        command = option(command)
    return command


min_group_size_option = click.option(
    "--min-group-size",
    type=click.IntRange(min=1),
    default=MIN_GROUP_SIZE,
    show_default=True,
    help="Groups with fewer rows to be judged by are left out of the verdict.",
)

seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of the rows drawn and of the fits."
)
metric_option = click.option(
    "--metric",
    type=click.Choice(list(SCORES)),
    help="What models are judged by. Default: accuracy for classes, neg_root_mean_squared_error for numbers.",
)


def words(context: Any, option: Any, value: str | None) -> tuple[str, ...]:
    """An option of words with commas between."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def numbers(context: Any, option: Any, value: str) -> tuple[float, ...]:
    """An option of numbers with commas between."""
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"must be a number, or numbers with commas between, got {value!r}") from error


def one_line_errors(command: Callable) -> Callable:
    """Turn the library's refusals of bad values into a sentence and exit code 2."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (ValueError, OSError, ImportError) as error:
            raise Refused(" ".join(str(error).split())) from error

    return run


def refuse_unwritable(path: str | None) -> None:
    """Refuse a file that cannot be written, before the work is done."""
    if path is None:
        return
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise Refused(f"{path} cannot be written: its folder does not exist")
    if target.exists() and not target.is_file():
        raise Refused(f"{path} cannot be written: it is a device or a pipe")
    if not os.access(target.parent, os.W_OK):
        raise Refused(f"{path} cannot be written: its folder is not yours to write to")
