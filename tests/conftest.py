"""Small problems that many tests share."""

import numpy as np
import pytest
from hypothesis import settings

import xrisk
from xrisk.compile import uncompiled

# the same examples in every run: none fails by chance
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=12)
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=100)  # `make test-all`
settings.register_profile("random", settings.get_profile("thorough"), derandomize=False)  # new ones
settings.load_profile("repeatable")


def first_quick(values, quick=1):
    """Values as parameters, of which the first are quick; `make test-all` runs the others."""
    slow = [pytest.mark.slow]
    return [pytest.param(each, marks=[] if place < quick else slow) for place, each in enumerate(values)]


def table(n=240, d=4, groups=6, seed=0):
    """Rows, labels ±1 and groups; two groups see the first column with its sign reversed."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    group = np.concatenate([np.arange(groups), rng.integers(0, groups, n - groups)])
    sign = np.where(group < 2, -1.0, 1.0)
    y = np.where(sign * X[:, 0] + X[:, 1] + 0.5 * rng.standard_normal(n) > 0, 1, -1)
    return X, y, group


@pytest.fixture
def plain():
    """Kernels run as plain Python: short runs take less time than compiling."""
    with uncompiled():
        yield


@pytest.fixture
def cvar_problem():
    return xrisk.group_dro(*table(), divergence="cvar", alpha=0.4, l2=0.1)
