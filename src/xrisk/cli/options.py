"""What the commands share: options as lists, refusals as one sentence."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from xrisk.cli.read import Refused

DIVERGENCES = ("cvar", "chi2", "chi2-b", "kl", "max")


def words(context: Any, option: Any, value: str | None) -> tuple[str, ...]:
    """An option of words with commas between."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def numbers(context: Any, option: Any, value: str) -> tuple[float, ...]:
    """An option of numbers with commas between."""
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter(f"must be a number, or numbers with commas between, got {value!r}") from error


def told_in_a_sentence(command: Callable) -> Callable:
    """Turn the library's refusals of bad values into a sentence and exit code 2."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (ValueError, OSError) as error:
            raise Refused(" ".join(str(error).split())) from error

    return run


def refuse_unwritable(path: str | None) -> None:
    """Refuse a file in a folder that does not exist, before the work is done."""
    if path is not None and not Path(path).resolve().parent.is_dir():
        raise Refused(f"{path} cannot be written: its folder does not exist")
