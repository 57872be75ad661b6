"""How every ``xrisk fit`` ends: model and page written, the finding told, an exit code."""

import json
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from xrisk.cli.options import NOT_CERTIFIED
from xrisk.cli.screen import column_dicts, plain
from xrisk.persistence import save
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared


def kept(study: Any, options: dict[str, Any]) -> Any:
    """Which of the models of a study is to be saved."""
    return study.recommended or study.asked if options["kept"] == "recommended" else study.arm(options["kept"])


def finish(
    study: Any,
    prepared: Prepared,
    options: dict[str, Any],
    *,
    write: Callable[[str, Any], None],
    tell: Callable[[Console, Any], None],
    **about: Any,
) -> None:
    """Write what was asked for, tell what was found, and end the process.

    ``write`` makes the page, ``tell`` says the finding on a terminal; ``about`` goes into the model's file.
    """
    if options["out"]:
        save(TableModel(prepared.encoding, kept(study, options).model, **about), options["out"])
    if options["page"]:
        write(options["page"], study)
    if options["as_json"]:
        told = {"command": "fit", **study.to_dict(), "columns": column_dicts(prepared)}
        told |= {"model": options["out"], "saved": kept(study, options).key if options["out"] else None}
        click.echo(json.dumps({**told, "report": options["page"]}, allow_nan=False))
    else:
        _tell(Console(soft_wrap=False), study, options, tell)
    raise SystemExit(0 if study.is_done else NOT_CERTIFIED)


def _tell(out: Console, study: Any, options: dict[str, Any], tell: Callable[[Console, Any], None]) -> None:
    for note in study.notes:
        out.print(Text(plain(note), style="dim"))
    tell(out, study)
    if options["out"]:
        out.print(Text(f"Model: {plain(options['out'])}, {kept(study, options).name}"))
    if options["page"]:
        out.print(Text(f"Report: {plain(options['page'])}"))
