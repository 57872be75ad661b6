"""Options of the command line that several objectives share, and what is built from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from xrisk.annotations import Frame
from xrisk.applications import LOSSES
from xrisk.applications.arguments import divergences_that_take
from xrisk.functions.parameters import counted
from xrisk.metrics import MIN_GROUP_SIZE
from xrisk.study.objective import Option, Question
from xrisk.tables import TableModel
from xrisk.tables.prepare import Prepared

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
GROUPS = Option("groups", "Columns whose intersections are the groups: race,sex.", tuple)
ALPHA = Option(
    "alpha",
    f"Fraction of the groups (with dro: of the rows), for {', '.join(divergences_that_take('alpha'))}.",
    float,
    0.1,
)
LOSS = Option("loss", "Default: logistic for classification, squared for regression.", values=tuple(sorted(LOSSES)))
TASK = Option("task", "Default: guessed from the target.", default="auto", values=("auto", *DEFAULT_LOSS))
BINS = Option("bins", "Number of bins for numeric columns in --groups with many values.", int, 4)
GROUPS_AS_FEATURES = Option("groups_as_features", "Use the columns of --groups as features too.", bool, False)
SMALL_GROUPS = Option(
    "min_group_size", "Groups with fewer rows to judge by are left out of the verdict.", int, MIN_GROUP_SIZE
)
TABLE = (LOSS, TASK, BINS, GROUPS_AS_FEATURES, SMALL_GROUPS)  # of tables with groups, for classification or regression
POSITIVE = Option("positive", "The class to rank first. Default: the greater one, 1 of 0 and 1.")


def model_of(estimator: type[BaseEstimator], options: dict[str, Any], *names: str, **more: Any) -> Any:
    """The requested model: an estimator with these options and those that all objectives have."""
    passed = {name: options[name] for name in (*names, "l1", "tol", "max_seconds")}
    return estimator(**passed, l2=options["l2"][0], random_state=options["seed"], **more)


def linear_model(
    classifier: type[BaseEstimator], regressor: type[BaseEstimator], prepared: Prepared, *names: str, **options: Any
) -> Any:
    """The requested model, for the task of the table."""
    task = prepared.encoding.task
    estimator = classifier if task == "classification" else regressor
    return model_of(estimator, options, *names, loss=options["loss"] or DEFAULT_LOSS[task])


def question(objective: Any, prepared: Prepared, options: dict[str, Any], title: str, verb: str) -> Question:
    """A question to the rows of a table, and the text of its page."""
    columns = counted(len(prepared.encoding.columns), "column", "columns")
    description = f"{Path(options['data']).name}: {options['target']} is {verb} from {columns}."
    parts = (prepared.train, prepared.validation, prepared.test)
    settings = {"objective": options["objective"], "validation": options["validation"]}
    title = f"Predicting {options['target']}: {title}"
    return Question(objective, parts, title, description, settings, prepared.notes)


class KnownRows(NamedTuple):
    """The rows of another table whose classes a model knows."""

    X: np.ndarray  # (n, d) encoded
    y: np.ndarray  # (n,)
    frame: Frame
    unknown: list[str]  # the other classes
    notes: tuple[str, ...]


def known_rows(
    fitted: TableModel, frame: Frame, y: np.ndarray, classes: Sequence[Any] | np.ndarray, options: dict[str, Any]
) -> KnownRows:
    """The rows of these classes; refuses a table that has none."""
    known = np.isin(y, list(classes))
    if not known.any():
        raise ValueError(f"{options['data']}: no row is of a class that {options['model']} knows")
    unknown, frame = sorted(set(y[~known].tolist())), frame[known]
    notes = (f"Classes without training rows, their rows are left out: {', '.join(unknown)}.",) if unknown else ()
    return KnownRows(fitted.encoding.encode(frame), y[known], frame, unknown, notes)
