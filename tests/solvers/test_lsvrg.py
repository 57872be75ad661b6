"""LSVRG against its naive twin, and where it leads."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.lsvrg import lsvrg
from tests.solvers.cases import tasks
from tests.solvers.running import iterates
from xrisk.functions import MaxOuter
from xrisk.solvers import LSVRG

pytestmark = pytest.mark.usefixtures("plain")


def kl():
    return xrisk.group_dro(*table(), divergence="kl", lam=0.5, l2=0.1)


def kl_weights(u):
    weights = np.exp(u / 0.5)
    return weights / weights.sum()


def test_it_follows_the_naive_twin():
    setting = {"step": 0.1, "epoch": 7, "blocks": 3}
    x0, xs = iterates(kl(), LSVRG(**setting, batch=5))
    expected = lsvrg(problems.means(x0, 5), kl_weights, 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_noise_vanishes_under_a_smooth_risk():
    best = xrisk.solvers.exact(kl()).value
    found = xrisk.minimize(kl(), LSVRG(0.2, blocks=6), budget=xrisk.Budget(iterations=600), rng=0)
    assert found.value - best < 1e-6


def test_an_outer_function_is_refused():
    with pytest.raises(ValueError, match="LSVRG needs a joint risk of the inner values, got MaxOuter"):
        LSVRG().prepare(tasks(MaxOuter()))
