"""What the commands share: options as lists, refusals as one sentence."""

import itertools
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xrisk.applications.arguments import AMBIGUITIES, DIVERGENCES, divergences_that_take
from xrisk.estimators import DROClassifier
from xrisk.estimators.partial_auc import SURROGATES
from xrisk.estimators.samples import RADIUS
from xrisk.metrics import MIN_GROUP_SIZE
from xrisk.study import ARMS, RANKING_ARMS, SCORES, TAIL_ARMS
from xrisk.study.tails import OUTLIERS

NOT_CERTIFIED = 3  # the exit code
DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
ARMS_OF = {"group-dro": ARMS, "dro": TAIL_ARMS, "two-way-partial-auc": RANKING_ARMS, "partial-auc": RANKING_ARMS}
OBJECTIVES = tuple(ARMS_OF)
OF_GROUPS = (
    "groups", "divergence", "alpha", "lam", "loss", "task", "bins", "groups_as_features", "metric", "min_group_size",
)  # fmt: skip
OF_ROWS = (
    "groups", "ambiguity", "alpha", "radius", "strength", "outlier_fraction", "loss", "task", "bins",
    "groups_as_features", "min_group_size",
)  # fmt: skip
OF_OBJECTIVE = {  # options that others do not take
    "group-dro": OF_GROUPS,
    "dro": OF_ROWS,
    "two-way-partial-auc": ("min_tpr", "max_fpr", "surrogate", "positive"),
    "partial-auc": ("min_tpr", "surrogate", "positive"),
}


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
        click.option(
            "--alpha",
            default=0.1,
            show_default=True,
            help=f"Fraction of the groups (with dro: of the rows), for {of_alpha}.",
        ),
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


def ambiguity_options(command: Callable) -> Callable:
    """The options --ambiguity, --radius, --strength and --outlier-fraction of the worst case over rows."""
    meanings = "; ".join(f"{word}: {each.meaning}" for word, each in AMBIGUITIES.items())
    of_ball = " and ".join(word for word, each in AMBIGUITIES.items() if each.ball is not None)
    for option in (
        click.option(
            "--outlier-fraction",
            type=float,
            default=OUTLIERS,
            show_default=True,
            help="Share of the rows that the third model of dro sets aside, those of largest loss.",
        ),
        click.option(
            "--strength",
            type=float,
            help=f"Of the cost, in units of the loss, for {of_ball}.",
        ),
        click.option(
            "--radius", type=float, help=f"Of the ball, for {of_ball}. Default, without a strength: {RADIUS:g}."
        ),
        click.option(
            "--ambiguity",
            type=click.Choice(list(AMBIGUITIES)),
            default=DROClassifier().ambiguity,
            show_default=True,
            help=f"Weights q of the rows near equal ones p over which dro takes the worst case. {meanings}.",
        ),
    ):
        command = option(command)
    return command


def _refuse_other_ambiguity(context: click.Context) -> None:
    """Refuse numbers that are those of another ambiguity."""
    word = context.params["ambiguity"]
    takes = ("radius", "strength") if AMBIGUITIES[word].ball is not None else ("alpha",)
    for name in _given(context):
        if name in ("alpha", "radius", "strength") and name not in takes:
            takers = [each for each in AMBIGUITIES if (AMBIGUITIES[each].ball is None) == (name == "alpha")]
            raise Refused(f"{_option(name)} goes with --ambiguity {' or '.join(takers)}, not with {word}")


def ranking_options(command: Callable) -> Callable:
    """The options --min-tpr, --max-fpr, --surrogate and --positive of rankings."""
    for option in (
        click.option("--positive", help="The class to be ranked first. Default: the greater one, 1 of 0 and 1."),
        click.option(
            "--surrogate",
            type=click.Choice(list(SURROGATES)),
            default=SURROGATES[0],
            show_default=True,
            help="What stands for the wrong order of a pair; sigmoid is bounded, the others convex.",
        ),
        click.option("--max-fpr", type=float, help="False positive rates above it do not count. Default: 0.5."),
        click.option("--min-tpr", type=float, help="True positive rates below it do not count. Default: 0.5."),
    ):
        command = option(command)
    return command


def refuse_other_options(context: click.Context, objective: str) -> None:
    """Refuse options, and models to save, that are those of another objective."""
    own = OF_OBJECTIVE[objective]
    for name in _given(context):
        takers = [each for each, names in OF_OBJECTIVE.items() if name in names]
        if takers and name not in own:
            raise Refused(f"{_option(name)} goes with --objective {' or '.join(takers)}, not with {objective}")
    if objective == "dro":
        _refuse_other_ambiguity(context)
    keys = ("recommended", *ARMS_OF[objective])
    if context.params["kept"] not in keys:
        raise Refused(f"--save must be one of {', '.join(keys)} for {objective}, got {context.params['kept']!r}")


def refuse_group_options(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse some options of groups for a model that does without, and say why."""
    for name in _given(context):
        if name in names:
            raise Refused(f"{_option(name)} goes with a model of groups, {why}")


def _given(context: click.Context) -> list[str]:
    """The options that were given on the command line."""
    return [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
        except BrokenPipeError:  # whoever read the output has gone, which click ends quietly
            raise
        except (ValueError, OSError, ImportError) as error:
            raise Refused(" ".join(str(error).split())) from error
        except ArithmeticError as error:
            raise Refused("a number in the options or the table is too large or too small to compute with") from error
        except MemoryError as error:
            raise Refused("the memory of this machine is too small for the table") from error

    return run


def refuse_outputs(outputs: dict[str, str | None], *inputs: str) -> None:
    """Refuse files that cannot be written, that are read too, or that are one file twice, before the work is done.

    ``outputs`` are paths by the names of their options.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for path in given.values():
        _refuse_unwritable(path)
    for option, path in given.items():
        for each in inputs:
            if is_same_file(path, each):
                raise Refused(f"{option} must not be a file that is read, it would overwrite {each}")
    for (option, path), (other, second) in itertools.combinations(given.items(), 2):
        if is_same_file(path, second):
            raise Refused(f"{option} and {other} must be two files, both are {path}")


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file, through links too; of files yet to be written, whether they may.

    Names that differ in upper and lower case alone are one file on some systems.
    """
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    first, second = (os.path.realpath(each) for each in (path, other))
    neither = not os.path.exists(path) and not os.path.exists(other)
    return first == second or (neither and first.casefold() == second.casefold())


def _refuse_unwritable(path: str) -> None:
    try:
        target = Path(path).resolve()
        is_loop = target.is_symlink()  # what is left of a link once all are followed
    except (OSError, RuntimeError):  # Python before 3.13 raises
        is_loop = True
    if is_loop:
        raise Refused(f"{path} cannot be written: it is a link that leads nowhere")
    if not target.parent.is_dir():
        raise Refused(f"{path} cannot be written: its folder does not exist")
    if target.is_dir():
        raise Refused(f"{path} cannot be written: it is a folder")
    if target.exists() and not target.is_file():
        raise Refused(f"{path} cannot be written: it is a device or a pipe")
    if not os.access(target.parent, os.W_OK):
        raise Refused(f"{path} cannot be written: its folder is not yours to write to")
