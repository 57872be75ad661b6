"""What the commands share: options, and refusals in one sentence."""

import itertools
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xrisk.objectives import COMMANDS
from xrisk.study.objective import Command, Option

NOT_CERTIFIED = 3  # the exit code


class Refused(click.ClickException):
    """A wrong file or option, reported in one sentence; exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"Error: {self.format_message()}", err=True)


LEAST = {"min_group_size": click.IntRange(min=1)}
OPTIONS = {option.name: option for command in COMMANDS.values() for option in command.options}  # not of all objectives


def options_of(*names: str) -> Callable:
    """Options of objectives, on a command."""

    def decorate(function: Callable) -> Callable:
        for name in reversed(names):
            function = _click_option(OPTIONS[name])(function)
        return function

    return decorate


def _click_option(option: Option) -> Callable:
    name, shown = option_name(option.name), option.default is not None and option.kind is not bool
    if option.kind is bool:
        return click.option(name, is_flag=True, help=option.help)
    if option.kind is tuple:
        return click.option(name, callback=words, help=option.help)
    kind = click.Choice(list(option.values)) if option.values else LEAST.get(option.name, option.kind)
    return click.option(name, type=kind, default=option.default, show_default=shown, help=option.help)


def option_name(name: str) -> str:
    """The name of an option as people type it."""
    return f"--{name.replace('_', '-')}"


def given(context: click.Context) -> list[str]:
    """The options that were given on the command line."""
    return [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]


def refuse_other_options(context: click.Context, command: Command) -> None:
    """Refuse options that are those of another objective."""
    for name in given(context):
        takers = [each.name for each in COMMANDS.values() if name in {option.name for option in each.options}]
        if takers and command.name not in takers:
            raise Refused(f"{option_name(name)} goes with --objective {' or '.join(takers)}, not with {command.name}")


seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the split and of the fits."
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for machines.")


def words(context: Any, option: Any, value: str | None) -> tuple[str, ...]:
    """An option that takes words, separated by commas."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def numbers(context: Any, option: Any, value: str) -> tuple[float, ...]:
    """An option that takes numbers, separated by commas."""
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"must be a number, or numbers separated by commas, got {value!r}") from error


def one_line_errors(command: Callable) -> Callable:
    """Turn the library's refusals of bad values into a sentence and exit code 2."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except BrokenPipeError:  # the reader of the output has gone: click ends quietly
            raise
        except (ValueError, OSError, ImportError) as error:
            raise Refused(" ".join(str(error).split())) from error
        except ArithmeticError as error:
            raise Refused("a number in the options or the table is too large or too small to compute with") from error
        except MemoryError as error:
            raise Refused("the memory of this machine is too small for the table") from error

    return run


def refuse_outputs(outputs: dict[str, str | None], *inputs: str) -> None:
    """Refuse outputs that cannot be written, are inputs too, or are one file twice, before any work is done.

    ``outputs`` are paths by the names of their options.
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for path in given.values():
        _refuse_unwritable(path)
    for option, path in given.items():
        for each in inputs:
            if is_same_file(path, each):
                raise Refused(f"{option} must not be an input, it would overwrite {each}")
    for (option, path), (other, second) in itertools.combinations(given.items(), 2):
        if is_same_file(path, second):
            raise Refused(f"{option} and {other} must be two files, both are {path}")


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file, also through links; for files yet to be written, whether they may.

    Names that differ only in case are one file on some systems.
    """
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    first, second = (os.path.realpath(each) for each in (path, other))
    neither = not os.path.exists(path) and not os.path.exists(other)
    return first == second or (neither and first.casefold() == second.casefold())


def _refuse_unwritable(path: str) -> None:
    try:
        target = Path(path).resolve()
        is_loop = target.is_symlink()  # still a link after all links were followed
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
        raise Refused(f"{path} cannot be written: you may not write to its folder")
