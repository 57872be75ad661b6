"""Cases as fixtures."""

import pytest


@pytest.fixture
def case(request):
    """A case, while it is run in the way that the parameter says."""
    found, way = request.param
    with way():
        yield found
