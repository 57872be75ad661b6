"""SONEX against its naive twin, and what it is a special case of."""

import numpy as np
import pytest

from tests.reference import problems
from tests.reference.sonex import sonex
from tests.solvers.cases import cvar
from tests.solvers.running import iterates
from xrisk.functions import Smoothed
from xrisk.problem import coupled
from xrisk.solvers import SONEX, SOX

pytestmark = pytest.mark.usefixtures("plain")

SETTING = {"step": 0.05, "track": 0.3, "momentum": 0.4, "blocks": 3}


@pytest.mark.parametrize("correction", [0.0, 0.6], ids=["v1", "v2"])
def test_it_follows_the_naive_twin(correction):
    x0, xs = iterates(cvar(), SONEX(**SETTING, nu=0.1, correction=correction, batch=5))
    expected = sonex(problems.cvar(x0, 5), 50, np.random.default_rng(0), **SETTING, nu=0.1, correction=correction)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_without_correction_it_is_sox_on_the_smoothed_outer_function():
    problem = coupled(cvar())
    smoothed = problem._replace(outer=Smoothed(problem.outer, 0.1))
    xs = iterates(problem, SONEX(**SETTING, nu=0.1, correction=0.0))[1]
    np.testing.assert_allclose(xs, iterates(smoothed, SOX(**SETTING))[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nu", [0.0, -1.0, np.nan, np.inf, None, "small"])
def test_a_smoothing_that_is_not_positive_is_refused(nu):
    with pytest.raises(ValueError, match=f"nu must be (positive|finite), got {nu!r}"):
        SONEX(nu=nu).prepare(cvar())
