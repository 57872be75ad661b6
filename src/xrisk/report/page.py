"""The page: one file of HTML with everything in it; it asks nothing of a network and runs no code."""

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from xrisk.files import written_whole
from xrisk.report import figures, phrases
from xrisk.study import Study

TEMPLATES = Path(__file__).parent / "templates"


def render(studies: Study | Sequence[Study], *, title: str | None = None) -> str:
    """A page of HTML about one study or several.

    Every figure is drawn by the page itself (SVG), every number is there in a table too, and all of them once more as
    JSON in ``<script type="application/json" id="xrisk-data">``. Needs jinja2 (``pip install xrisk[report]``).

    Parameters
    ----------
    studies : Study or sequence of them
        From `xrisk.study.compare`.
    title : str, optional
        Of the page; by default that of the first study.

    Returns
    -------
    str
    """
    several = (studies,) if isinstance(studies, Study) else tuple(studies)
    if not several:
        raise ValueError("studies must hold at least one study, got none")
    return filled(
        "report.html",
        [study.to_dict() for study in several],
        title=title or several[0].title,
        studies=[_view(study) for study in several],
        is_collection=len(several) > 1,
    )


def filled(template: str, data: list[dict[str, Any]], *, title: str, **view: Any) -> str:
    """A page of HTML: what a template makes of its view, the style, and the data as JSON."""
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            version=data[0]["versions"]["xrisk"],
            data=_json(data),
            style=(TEMPLATES / "report.css").read_text(encoding="utf-8"),
            **view,
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
    >>> from xrisk.report import write_report
    >>> from xrisk.study import compare
    >>> from xrisk.tables import parts
    >>> table = make_spurious(400, random_state=0)
    >>> study = compare(xrisk.GroupDROClassifier(random_state=0), *parts(table.X, table.y, table.groups))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", study)
    ...     (Path(folder) / "report.html").read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    write_page(path, render(studies, title=title))


def write_page(path: str | os.PathLike[str], text: str) -> None:
    """Write a page to a file, whole or not at all."""
    with written_whole(path) as file:
        file.write(text.encode(errors="replace"))  # the name of a file need not be text


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
    for filter_ in (phrases.score, phrases.count, phrases.short, phrases.percent, phrases.interval):
        environment.filters[filter_.__name__] = filter_
    return environment


def _json(value: Any) -> Any:
    """JSON that cannot end the script element it stands in."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    return Markup(text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"))


def _view(study: Study) -> dict[str, Any]:
    """What the template shows of a study."""
    return {
        "study": study,
        "metric": study.metric,
        "better": phrases.better(study.metric),
        "objective": phrases.objective(study),
        "summary": phrases.summary(study),
        "trade": phrases.trade(study),
        "scored": phrases.scored(study.robust.model, study.metric),
        "verdict": phrases.verdict(study),
        "proof": phrases.proof(study),
        "cards": phrases.cards(study),
        "groups_figure": figures.groups_figure(study),
        "trade_figure": figures.trade_figure(study),
        "weights_figure": figures.weights_figure(study),
        "bounds_figure": figures.bounds_figure(study),
        "rows": phrases.group_rows(study),
    }
