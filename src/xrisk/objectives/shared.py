"""Options of the command line that several objectives have, and words that all have."""

from pathlib import Path
from typing import Any

from xrisk.applications import LOSSES
from xrisk.applications.arguments import divergences_that_take
from xrisk.metrics import MIN_GROUP_SIZE
from xrisk.phrases import counted
from xrisk.study.objective import Choice
from xrisk.tables.prepare import Prepared

DEFAULT_LOSS = {"classification": "logistic", "regression": "squared"}
GROUPS = Choice("groups", "Columns whose intersections are the groups: race,sex.", tuple)
ALPHA = Choice(
    "alpha",
    f"Fraction of the groups (with dro: of the rows), for {', '.join(divergences_that_take('alpha'))}.",
    float,
    0.1,
)
LOSS = Choice("loss", "Default: logistic for classes, squared for numbers.", values=tuple(sorted(LOSSES)))
TASK = Choice("task", "Default: guessed.", default="auto", values=("auto", "classification", "regression"))
BINS = Choice("bins", "Bins that many-valued numbers in --groups are cut into.", int, 4)
GROUPS_AS_FEATURES = Choice("groups_as_features", "Predict from the columns of the groups too.", bool, False)
SMALL_GROUPS = Choice(
    "min_group_size", "Groups with fewer rows to be judged by are left out of the verdict.", int, MIN_GROUP_SIZE
)
POSITIVE = Choice("positive", "The class to be ranked first. Default: the greater one, 1 of 0 and 1.")


def described(prepared: Prepared, options: dict[str, Any], what: str) -> str:
    """A sentence about the table: its file, and what is predicted from how many columns."""
    columns = counted(len(prepared.encoding.columns), "column", "columns")
    return f"{Path(options['data']).name}: {what.format(target=options['target'], columns=columns)}."
