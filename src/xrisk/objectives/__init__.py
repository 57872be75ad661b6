"""What a study can be about, one file each: what is fitted, how it is judged, what is reported.

A new objective is a file here that ends in ``COMMANDS``, and a template of `xrisk.report` for its page.
"""

from importlib import import_module
from pkgutil import iter_modules

from xrisk.objectives.rare_positives import RarePositives
from xrisk.objectives.top_of_ranking import TopOfRanking
from xrisk.objectives.worst_groups import WorstGroups
from xrisk.objectives.worst_rows import WorstRows

_MODULES = [import_module(f"{__name__}.{each.name}") for each in iter_modules(__path__)]
COMMANDS = {command.name: command for module in _MODULES for command in getattr(module, "COMMANDS", ())}

__all__ = ["COMMANDS", "RarePositives", "TopOfRanking", "WorstGroups", "WorstRows"]
