"""In which order tests run, how the examples of docstrings do, and what the garbage collector leaves alone."""

import gc
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


def pytest_collection_finish(session):
    """What is there once all tests are collected stays: the garbage collector looks elsewhere, which saves a tenth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


@pytest.fixture(autouse=True)
def _examples_of_solvers_are_not_compiled(request):
    """Their runs are short: plain Python takes less time than compiling a kernel for each."""
    is_example = isinstance(request.node, pytest.DoctestItem)
    with uncompiled() if is_example and ".solvers." in request.node.name else nullcontext():
        yield
