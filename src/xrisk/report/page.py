"""The page: one HTML file with everything in it; it loads nothing from a network and runs no code."""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xrisk.files import written_whole
from xrisk.report.numbers import headed, percent, score_interval, score_text, short
from xrisk.study import Study

TEMPLATES = Path(__file__).parent / "templates"


def render(studies: Study | Sequence[Study], *, title: str | None = None) -> str:
    """A page of HTML about one study or several, of one objective or of different ones.

    Figures are SVG inside the page. Their numbers are also in tables and, as JSON, in
    ``<script type="application/json" id="xrisk-data">``. Needs jinja2 (``pip install xrisk[report]``).

    Parameters
    ----------
    studies : Study or sequence of them
        From `xrisk.study.compare`.
    title : str, optional
        Of the page; by default that of the first study.
    """
    several = (studies,) if isinstance(studies, Study) else tuple(studies)
    if not several:
        raise ValueError("studies must hold at least one study, got none")
    data = [study.to_dict() for study in several]
    return (
        _environment()
        .get_template("page.html")
        .render(
            title=title or several[0].title,
            version=data[0]["versions"]["xrisk"],
            data=_json(data),
            style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
            studies=[(study, study.objective.view(study)) for study in several],
            is_collection=len(several) > 1,
        )
    )


def write_report(path: str | os.PathLike[str], studies: Study | Sequence[Study], *, title: str | None = None) -> None:
    """Write the page of `render` to a file, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import xrisk
    >>> from xrisk.datasets import make_spurious
    >>> from xrisk.objectives import WorstGroups
    >>> from xrisk.report import write_report
    >>> from xrisk.study import compare
    >>> from xrisk.tables import parts
    >>> table = make_spurious(400, random_state=0)
    >>> objective = WorstGroups(xrisk.GroupDROClassifier(random_state=0))
    >>> study = compare(objective, *parts(table.X, table.y, table.groups))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", study)
    ...     (Path(folder) / "report.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    with written_whole(path) as file:
        file.write(render(studies, title=title).encode(errors="replace"))  # the name of a file need not be valid text


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("a report needs jinja2: pip install xrisk[report]") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,  # names of groups and columns are other people's text
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for filter_ in (score_text, score_interval, short, percent, headed, thousands, breakable):
        environment.filters[filter_.__name__] = filter_
    return environment


def thousands(number: int) -> str:
    """A count of rows or groups: 12,345."""
    return f"{number:,}"


def breakable(text: str) -> Any:
    """Text that a narrow page may break after an underscore, not inside a word."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in text.split("_"))


def _json(value: Any) -> Any:
    """JSON that cannot end the script element that holds it."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))
