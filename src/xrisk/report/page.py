"""The page: one file of HTML with everything in it, no network needed."""

import os
from collections.abc import Sequence
from pathlib import Path

from xrisk.report.study import Study


def render(studies: Study | Sequence[Study], *, title: str | None = None) -> str:
    """stub"""
    return ""


def write_report(path: str | os.PathLike[str], studies: Study | Sequence[Study], *, title: str | None = None) -> None:
    """Write `render`'s page to a file."""
    Path(path).write_text(render(studies, title=title), encoding="utf-8")
