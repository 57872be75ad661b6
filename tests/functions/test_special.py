"""Special functions: their equations, and their tails."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.special import wrightomega

from xrisk.functions import special


@given(z=st.floats(-700, 1e6))
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
def test_logit_root_solves_its_equation(w, e):
    tau = 10.0**e
    x = special.logit_root(w, tau)
    slack = 1e-12 * (1 + abs(w) + tau)
    assert x + tau * special.sigmoid(x) == pytest.approx(w, abs=slack)


@given(w=st.floats(1e-300, 1e300), e=st.floats(-8, 8), p=st.floats(1.05, 20.0))
def test_power_root_solves_its_equation(w, e, p):
    z, y = special.power_root(p, w, 10.0**e)
    assert z + 10.0**e * y == pytest.approx(w, rel=1e-12)


@given(x=st.floats(allow_nan=False))
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


@njit(error_model="numpy")
def logistic_of_all(m, loss, slope, curvature):
    for k in range(m.size):
        loss[k], slope[k], curvature[k] = special.logistic_terms(m[k])


def long_logistic(m):
    """The three terms in extended precision, and what a double may be off by: relatively, or near underflow."""
    m = m.astype(np.longdouble)
    e = np.exp(-abs(m))
    terms = np.maximum(-m, 0.0) + np.log1p(e), np.where(m >= 0, e, 1.0) / (1.0 + e), e / (1.0 + e) ** 2
    return terms, [8e-16 * np.abs(term) + 5e-324 for term in terms]


MARGINS = {
    "usual": np.linspace(-12.0, 12.0, 20_001),
    "small": np.outer([-1.0, 1.0], np.logspace(-320, 0, 5_001)).ravel(),
    "large": np.outer([-1.0, 1.0], np.logspace(0, 308, 5_001)).ravel(),
    "about to underflow": np.outer([-1.0, 1.0], np.linspace(690.0, 750.0, 5_001)).ravel(),
}


@pytest.mark.parametrize("m", MARGINS.values(), ids=MARGINS.keys())
@pytest.mark.parametrize("term", [0, 1, 2], ids=["loss", "slope", "curvature"])
def test_logistic_terms_are_right_to_the_last_digits(m, term):
    found = np.empty((3, m.size))
    logistic_of_all(m, *found)
    expected, allowed = long_logistic(m)
    assert (np.abs(found[term] - expected[term]) <= allowed[term]).all()


@given(m=st.floats(allow_nan=False))
def test_logistic_terms_in_python_are_those_of_libm(m):
    expected = special.log1pexp(-m), special.sigmoid(-m), special.sigmoid_slope(m)
    assert special.logistic_terms(m) == pytest.approx(expected, rel=1e-15, abs=1e-323)


@pytest.mark.parametrize(
    ("m", "expected"),
    [
        (np.inf, (0.0, 0.0, 0.0)),
        (-np.inf, (np.inf, 1.0, 0.0)),
        (-1e300, (1e300, 1.0, 0.0)),
        (800.0, (0.0, 0.0, 0.0)),
        (np.nan, (np.nan, np.nan, np.nan)),
    ],
)
def test_logistic_terms_at_their_ends(m, expected):
    found = np.empty((3, 9))
    logistic_of_all(np.full(9, m), *found)  # eight in vectors, one alone
    np.testing.assert_array_equal(found, np.outer(expected, np.ones(9)))
    np.testing.assert_array_equal(special.logistic_terms(m), expected)


@pytest.mark.skipif(not hasattr(logistic_of_all, "inspect_llvm"), reason="nothing is compiled")
def test_a_loop_of_logistic_terms_uses_vectors():
    logistic_of_all(np.zeros(1), *np.empty((3, 1)))
    assert re.search(r"fdiv .*<\d+ x double>", "".join(logistic_of_all.inspect_llvm().values()))


@given(x=st.floats(-745.0, 709.0))
def test_fast_exp_is_that_of_libm(x):
    assert special.fast_exp(x) == pytest.approx(math.exp(x), rel=4e-16, abs=5e-324)


@pytest.mark.parametrize("x", [-np.inf, -1e308, -746.0, -0.0, 0.0, 709.8, 1e308, np.inf, np.nan])
def test_fast_exp_at_its_ends(x):
    with np.errstate(over="ignore"):
        np.testing.assert_equal(special.fast_exp(x), np.exp(x))


@given(x=st.floats(0.0, 1.0))
def test_fast_log1p_is_that_of_libm(x):
    assert special.fast_log1p(x) == pytest.approx(math.log1p(x), rel=4e-16, abs=0.0)
