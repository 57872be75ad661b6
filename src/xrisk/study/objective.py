"""What a study is about, as data: which models are fitted, how they are judged, what is reported."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from sklearn.base import BaseEstimator

from xrisk.annotations import Estimator
from xrisk.study.study import Arm, Study
from xrisk.study.verdict import Verdict
from xrisk.tables import Part, TableModel
from xrisk.tables.prepare import Prepared

Parts = tuple[Part, Part, Part]  # training, validation, and the rows of the verdict


class Plan(NamedTuple):
    """One of the models of a study: how it is fitted."""

    name: str
    minimises: str  # "the mean loss over all rows"
    work: float  # its share of the time, roughly
    model: BaseEstimator  # not fitted; the study fits a clone for each l2
    groups: tuple[np.ndarray, ...] = ()  # those of the training rows, for models that are fitted with groups
    has_l2: bool = True
    shows_bounds: bool = False  # against time: kernels are compiled before the clock starts
    warning: str = ""  # how warnings other than of an unreached tolerance are reported, "{}" is the message
    refusal: str = ""  # how a problem without a certificate is reported


class Option(NamedTuple):
    """An option of the command line; ``values`` are the words it takes."""

    name: str
    help: str
    kind: type = str
    default: Any = None
    values: tuple[str, ...] = ()


class TableColumn(NamedTuple):
    """A column of a table on a terminal."""

    name: str
    is_number: bool = True
    is_dim: bool = False
    width: int | None = None  # at which its name is wrapped
    is_whole: bool = False  # never wrapped


class TextTable(NamedTuple):
    """A table on a terminal: rows of text, in parts with a line between them, those of ``bold`` in bold."""

    title: str
    columns: tuple[TableColumn, ...]
    parts: tuple[tuple[tuple[str, ...], ...], ...]
    bold: tuple[str, ...] = ()  # first cells


class Evaluation(NamedTuple):
    """How a saved model does on another table: for machines, and for people."""

    numbers: dict[str, Any]
    table: TextTable
    notes: tuple[str, ...]  # before the table
    sentences: tuple[str, ...]  # after it


class Question(NamedTuple):
    """What a command line asks: an objective, the rows as it takes them, and the title and text of its page."""

    objective: "Objective"
    parts: tuple[Part, Part, Part | None]
    title: str
    description: str
    settings: dict[str, Any]
    notes: tuple[str, ...]


def accept(given: list[str], options: dict[str, Any]) -> None:
    """Accept any combination of options."""


class Command(NamedTuple):
    """An objective on the command line."""

    name: str
    keys: tuple[str, ...]  # of its models
    metadata: str  # the attribute of a `TableModel` that its models have
    options: tuple[Option, ...]  # those that not all objectives have
    prepare: Callable[..., Prepared]  # from a table that was read to rows
    ask: Callable[[dict[str, Any], Prepared], Question]
    evaluate: Callable[[TableModel, Any, np.ndarray, dict[str, Any]], Evaluation]  # of the rows that have a target
    check: Callable[[list[str], dict[str, Any]], None] = accept  # refuses options that do not go together


class Objective(Protocol):
    """A question to a table. `xrisk.study.compare` answers it, `xrisk.report.render` makes a page of the answer.

    One file of `xrisk.objectives` holds an objective and its sentences, one template its page.
    """

    title: ClassVar[str]  # of a page that is given none
    template: ClassVar[str]
    judged_by: ClassVar[str]  # completes "the models are judged by …"
    chosen_by: ClassVar[str]  # what l2 is chosen by, in words
    requested: ClassVar[str]  # the key of the requested model
    versus_constant: ClassVar[tuple[str, str] | None]  # where a constant model is compared with it, what may help

    @property
    def model(self) -> Any:
        """The requested model, not fitted; its parameters are the question."""

    @property
    def metric(self) -> str:
        """What models are judged by, in words."""

    def checked(self, parts: Parts) -> Parts:
        """The rows as they are fitted and judged; rows that cannot be judged are refused in a sentence."""

    def plans(self, train: Part) -> dict[str, Plan]:
        """The models by key, the simplest first, the requested one among them."""

    def measure(self, model: Estimator, part: Part) -> Any:
        """How a model does on training or validation rows."""

    def value(self, measured: Any) -> float:
        """The number by which l2 is chosen; more is better."""

    def judge(self, model: Estimator, part: Part) -> Any:
        """How a model does on the rows of the verdict."""

    def verdict(self, arms: list[Arm], part: Part) -> Verdict:
        """Which of the models whose fits finished the rows recommend."""

    def details(self, arms: list[Arm], parts: Parts) -> Any:
        """What else the objective shows."""

    def sizes(self, train: Part, validation: Part, test: Part | None) -> dict[str, Any]:
        """How many rows of each kind there are."""

    def settings(self, l2: tuple[float, ...]) -> dict[str, Any]:
        """The parameters of the question."""

    def caution(self, found: Any, judged_on: str) -> str:
        """A warning where few rows decide, else nothing; ``found`` is what `judge` returned."""

    def numbers(self, study: Study) -> dict[str, Any]:
        """What the JSON of this objective adds to that of every study."""

    def numbers_of(self, arm: Arm) -> dict[str, Any]:
        """What it adds for each model."""

    def view(self, study: Study) -> dict[str, Any]:
        """What the template shows."""

    def table(self, study: Study, is_wide: bool) -> TextTable:
        """The models in a table on a terminal."""

    def sentences(self, study: Study) -> list[str]:
        """The text below it."""

    def metadata(self, train: Part) -> dict[str, Any]:
        """What the file of a model of this objective holds, apart from the model and the encoding."""


def like(other: type) -> Callable[[type], Any]:
    """A decorator that gives an objective the members of another one that it does not define itself."""

    def filled(cls: type) -> Any:
        for name, member in vars(other).items():
            if not name.startswith("__") and name not in vars(cls):
                setattr(cls, name, member)
        return cls

    return filled
