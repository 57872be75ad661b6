"""Races of methods on one problem: equal budgets, several seeds, tuned or not, against the certified optimum."""

from xrisk.race.grid import PAPER as PAPER
from xrisk.race.grid import cells as cells
from xrisk.race.grid import with_setting as with_setting
from xrisk.race.phrases import as_dict as as_dict
from xrisk.race.phrases import as_markdown as as_markdown
from xrisk.race.picture import draw_race as draw_race
from xrisk.race.problems import PROBLEMS as PROBLEMS
from xrisk.race.problems import NamedProblem as NamedProblem
from xrisk.race.run import Race as Race
from xrisk.race.run import race as race
