"""The catalogue is the one list of methods."""

import importlib
import pkgutil

import xrisk.solvers
from xrisk.solvers.catalogue import CATALOGUE, METHODS


def solvers_in_files():
    """Every class of the package that is a solver."""
    modules = pkgutil.walk_packages(xrisk.solvers.__path__, "xrisk.solvers.")
    found = (thing for info in modules for thing in vars(importlib.import_module(info.name)).values())
    return {thing for thing in found if isinstance(thing, type) and {"advance", "card"} <= set(dir(thing))}


def test_every_solver_of_the_package_is_in_the_catalogue():
    protocol = {xrisk.solvers.base.Solver}
    assert solvers_in_files() - protocol == {type(solver) for solver in CATALOGUE.values()}


def test_every_method_is_there_for_users_by_its_name():
    assert [cls for cls in METHODS if getattr(xrisk.solvers, cls.__name__, None) is not cls] == []
