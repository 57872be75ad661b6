"""How the examples of docstrings are run."""

from contextlib import nullcontext

import pytest

from xrisk.compile import uncompiled


@pytest.fixture(autouse=True)
def _examples_of_solvers_are_not_compiled(request):
    """Their runs are short: plain Python takes less time than compiling a kernel for each."""
    is_example = isinstance(request.node, pytest.DoctestItem)
    with uncompiled() if is_example and ".solvers." in request.node.name else nullcontext():
        yield
