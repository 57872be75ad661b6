"""Cases as fixtures."""

import pytest

from xrisk.compile import uncompiled


@pytest.fixture
def case(request):
    """A case, while it is run in the way that the parameter says."""
    found, way = request.param
    with way():
        yield found


@pytest.fixture
def steps(request):
    """How many iterations a run of a case is long: plain Python makes fewer."""
    return 12 if request.node.callspec.params["case"][1] is uncompiled else 50
