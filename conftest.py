"""In which order tests run, and how the examples of docstrings do."""

import random
from contextlib import nullcontext

import pytest

from xrisk.compile import uncompiled


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


def pytest_collection_modifyitems(config, items):
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


@pytest.fixture(autouse=True)
def _examples_of_solvers_are_not_compiled(request):
    """Their runs are short: plain Python takes less time than compiling a kernel for each."""
    is_example = isinstance(request.node, pytest.DoctestItem)
    with uncompiled() if is_example and ".solvers." in request.node.name else nullcontext():
        yield
