"""Races of methods on one problem: equal budgets, several seeds, tuned or not, against the certified optimum."""

from xrisk.race.grid import PAPER, cells, with_setting
from xrisk.race.phrases import as_dict, as_markdown
from xrisk.race.picture import draw_race
from xrisk.race.problems import PROBLEMS, NamedProblem
from xrisk.race.run import Race, race

__all__ = [
    "PAPER",
    "PROBLEMS",
    "NamedProblem",
    "Race",
    "as_dict",
    "as_markdown",
    "cells",
    "draw_race",
    "race",
    "with_setting",
]
