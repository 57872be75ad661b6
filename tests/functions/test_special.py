"""Special functions: their equations, and their tails."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import wrightomega

from tests.functions.cases import quick
from xrisk.functions import special


@given(z=st.floats(-700, 1e6))
@quick
def test_wright_omega_equals_scipy(z):
    assert special.wright_omega(z) == pytest.approx(float(wrightomega(z)), rel=3e-14)


@pytest.mark.parametrize("z", [-700.0, -40.0, 1.0, 1e18, 1e300])
def test_wright_omega_at_its_seams(z):
    below, above = math.nextafter(z, -np.inf), math.nextafter(z, np.inf)
    assert special.wright_omega(below) == pytest.approx(special.wright_omega(above), rel=1e-12)
    assert special.wright_omega(z) + math.log(special.wright_omega(z)) == pytest.approx(z)


def test_wright_omega_at_its_ends():
    assert special.wright_omega(-1e300) == 0.0
    assert special.wright_omega(np.inf) == np.inf


@given(w=st.floats(-1e9, 1e9), e=st.floats(-8, 8))
@quick
def test_logit_root_solves_its_equation(w, e):
    tau = 10.0**e
    x = special.logit_root(w, tau)
    slack = 1e-12 * (1 + abs(w) + tau)
    assert x + tau * special.sigmoid(x) == pytest.approx(w, abs=slack)


@given(w=st.floats(1e-300, 1e300), e=st.floats(-8, 8), p=st.floats(1.05, 20.0))
@quick
def test_power_root_solves_its_equation(w, e, p):
    z, y = special.power_root(p, w, 10.0**e)
    assert z + 10.0**e * y == pytest.approx(w, rel=1e-12)


@given(x=st.floats(allow_nan=False))
@quick
def test_sigmoid_and_its_integral_never_fail(x):
    assert 0.0 <= special.sigmoid(x) <= 1.0
    assert special.log1pexp(x) >= 0.0
    assert special.sigmoid(x) + special.sigmoid(-x) == pytest.approx(1.0)


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1.0, 1e200, 1e300])
def test_norm_neither_overflows_nor_vanishes(size):
    assert special.norm(np.array([3.0 * size, -4.0 * size])) == pytest.approx(5.0 * size, rel=1e-14)


def test_norm_of_zero_and_of_infinity():
    assert special.norm(np.zeros(3)) == 0.0
    assert special.norm(np.array([1.0, np.inf])) == np.inf
    assert special.norm(np.zeros(0)) == 0.0


def test_powers_and_exponentials_overflow_to_infinity():
    assert special.exp(1e4) == np.inf
    assert special.power(1e300, 2.0) == np.inf
    assert special.power(0.0, 0.0) == 1.0
    assert special.power(0.0, -1.0) == np.inf
