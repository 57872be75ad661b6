"""In which order tests run, and how the examples of docstrings do."""

import random
from contextlib import nullcontext

import pytest

from xrisk.compile import uncompiled


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


def is_example_of_a_solver(item):
    return isinstance(item, pytest.DoctestItem) and ".solvers." in item.name


@pytest.hookimpl(tryfirst=True)  # before those that are slow are left out
def pytest_collection_modifyitems(config, items):
    for item in filter(is_example_of_a_solver, items):
        item.add_marker(pytest.mark.slow)  # a minute for all of them; the tests run every method too
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


@pytest.fixture(autouse=True)
def _examples_of_solvers_are_not_compiled(request):
    """Their runs are short: plain Python takes less time than compiling a kernel for each."""
    with uncompiled() if is_example_of_a_solver(request.node) else nullcontext():
        yield
