"""SPDC against its naive twin, and where it applies."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.spdc import spdc
from tests.solvers.cases import chi2_logistic, single_rows, squares
from tests.solvers.running import iterates
from xrisk.solvers import SPDC

SETTING = {"step": 0.02, "dual_step": 0.5, "theta": 0.8, "blocks": 3}


def test_it_follows_the_naive_twin():
    x0, xs = iterates(single_rows(), SPDC(**SETTING))
    expected = spdc(problems.Affine(x0, 1, single=True), 50, np.random.default_rng(0), **SETTING)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_it_is_linear_to_1e_12():
    result = xrisk.minimize(single_rows(), SPDC(**SETTING), budget=xrisk.Budget(iterations=20_000), rng=0)
    assert result.value - xrisk.solvers.exact(single_rows()).value < 1e-12


@pytest.mark.parametrize("stated", [chi2_logistic, squares])
def test_inner_functions_that_are_no_single_rows_are_refused(stated):
    with pytest.raises(ValueError, match="SPDC needs affine inner functions of one sample each"):
        SPDC().prepare(stated())
