"""What a study is about, as data: an objective says what is fitted beside what, how models are judged, what is told."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from xrisk.study.verdict import Verdict
from xrisk.tables import Part

Parts = tuple[Part, Part, Part]  # training, validation, and the rows of the verdict


class Plan(NamedTuple):
    """One of the models of a study, before it is fitted."""

    name: str
    words: str  # what it minimises
    work: float  # its share of the time, roughly


class Choice(NamedTuple):
    """An option of the command line; ``values`` are the words it takes."""

    name: str
    help: str
    kind: type = str
    default: Any = None
    values: tuple[str, ...] = ()


class SheetColumn(NamedTuple):
    """A column of a table on a terminal."""

    name: str
    is_number: bool = True
    is_dim: bool = False
    width: int | None = None  # where its name must break


class Sheet(NamedTuple):
    """A table on a terminal: rows of text, in parts with a line between, those of ``bold`` in bold."""

    title: str
    columns: tuple[SheetColumn, ...]
    parts: tuple[tuple[tuple[str, ...], ...], ...]
    bold: tuple[str, ...] = ()  # first cells


class Told(NamedTuple):
    """What `xrisk evaluate` finds of a model on a table: for machines, and for people."""

    numbers: dict[str, Any]
    sheet: Sheet
    notes: tuple[str, ...]  # before the table
    sentences: tuple[str, ...]  # after it


class Command(NamedTuple):
    """An objective on the command line."""

    word: str
    keys: tuple[str, ...]  # of its models
    options: tuple[Choice, ...]  # those that not all objectives have
    prepare: Callable  # from a table that was read to rows
    ask: Callable[[dict[str, Any], Any], Any]  # from options and prepared rows to the objective and its page
    evaluate: Callable[..., Told]  # a model of it on another table
    refuse: Callable[[list[str], dict[str, Any]], None] = lambda given, options: None  # options that do not go together


class Question(NamedTuple):
    """What the command line asks: an objective, the rows as it takes them, and what its page is called."""

    objective: Any
    parts: tuple[Part, Part, Part | None]
    title: str
    description: str
    settings: dict[str, Any]
    notes: tuple[str, ...]


class Objective(Protocol):
    """A question to a table. `xrisk.study.compare` answers it, `xrisk.report.render` makes a page of the answer.

    One file of `xrisk.objectives` holds an objective with its sentences and figures, one template its page.
    """

    title: ClassVar[str]  # of a page that is given none
    template: ClassVar[str]
    rule: ClassVar[str]  # of the verdict, in a sentence
    chosen_by: ClassVar[str]  # what l2 is chosen by, as people read it

    @property
    def model(self) -> Any:
        """Not fitted; its parameters are the question."""

    @property
    def metric(self) -> str:
        """What models are judged by, as people read it."""

    def plans(self) -> dict[str, Plan]:
        """The models by key, the simplest first, the one that was asked for among them."""

    def asked(self) -> str:
        """The key of the model that was asked for."""

    def taken(self, parts: Parts) -> Parts:
        """The rows as they are fitted and judged; refuses in a sentence what cannot be judged."""

    def candidates(self, key: str, l2: tuple[float, ...]) -> list[Any]:
        """The models to choose from, not fitted; one for each strength, or one alone where it has no such penalty."""

    def warm(self, key: str, model: Any, train: Part) -> None:
        """What is to be compiled before a fit whose bounds are told against time."""

    def fit(self, key: str, model: Any, train: Part) -> None:
        """Fit a candidate."""

    def strength(self, key: str, model: Any) -> float | None:
        """The l2 of a model; None where it has no such penalty."""

    def note(self, key: str, name: str, warning: Any) -> str | None:
        """What a warning of a fit is told as; None where it is not told."""

    def measure(self, model: Any, part: Part) -> Any:
        """What is known of a model on training or validation rows."""

    def value(self, measured: Any) -> float:
        """What strengths are chosen by, of the above; more is better."""

    def judge(self, model: Any, part: Part) -> Any:
        """What is known of a model on the rows of the verdict."""

    def verdict(self, arms: list[Any], part: Part) -> Verdict:
        """Which model the rows recommend, of those whose fits finished."""

    def found(self, arms: list[Any], parts: Parts) -> Any:
        """What else is found, and may be shown."""

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        """What the rows are."""

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        """The parameters of the question."""

    def caution(self, study: Any) -> str:
        """What must be said where few rows decide; nothing where there are enough."""

    def numbers(self, study: Any) -> dict[str, Any]:
        """What JSON has beside that which every study has."""

    def numbers_of(self, arm: Any) -> dict[str, Any]:
        """What JSON has of a model beside that which every model has."""

    def view(self, study: Any) -> dict[str, Any]:
        """What the template shows."""

    def sheet(self, study: Any, is_wide: bool) -> Sheet:
        """The models in a table on a terminal."""

    def sentences(self, study: Any) -> list[str]:
        """What is said below it."""

    def kept(self, train: Part) -> dict[str, Any]:
        """What the file of a model of this objective holds beside it."""


def resampling(rows: int) -> int:
    """How often rows are drawn for an interval: less often where many would take long."""
    return int(np.clip(3e7 / rows, 300, 1000))
