"""What the commands share: options as lists, refusals as one sentence."""

import itertools
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xrisk.objectives import COMMANDS
from xrisk.study.objective import Choice, Command

NOT_CERTIFIED = 3  # the exit code


class Refused(click.ClickException):
    """A wrong file or option, told in one sentence; exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.format_message()}", err=True)


def _option(choice: Choice) -> Callable:
    """A choice as an option of click."""
    name, shown = f"--{choice.name.replace('_', '-')}", choice.default is not None and choice.kind is not bool
    if choice.kind is bool:
        return click.option(name, is_flag=True, help=choice.help)
    if choice.kind is tuple:
        return click.option(name, callback=words, help=choice.help)
    kind = click.Choice(list(choice.values)) if choice.values else LEAST.get(choice.name, choice.kind)
    return click.option(name, type=kind, default=choice.default, show_default=shown, help=choice.help)


LEAST = {"min_group_size": click.IntRange(min=1)}
CHOICES = {choice.name: choice for command in COMMANDS.values() for choice in command.options}


def choice_options(function: Callable) -> Callable:
    """The options that not all objectives have, each once."""
    return some_options(*CHOICES)(function)


def some_options(*names: str) -> Callable:
    """Some of these."""

    def decorate(function: Callable) -> Callable:
        for name in reversed(names):
            function = _option(CHOICES[name])(function)
        return function

    return decorate


def given(context: click.Context) -> list[str]:
    """The options that were given on the command line."""
    return [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_other_options(context: click.Context, command: Command) -> None:
    """Refuse options that are those of another objective."""
    own = {choice.name for choice in command.options}
    for name in given(context):
        takers = [each.word for each in COMMANDS.values() if name in {choice.name for choice in each.options}]
        if takers and name not in own:
            option = f"--{name.replace('_', '-')}"
            raise Refused(f"{option} goes with --objective {' or '.join(takers)}, not with {command.word}")


seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of the rows drawn and of the fits."
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
