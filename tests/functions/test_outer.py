"""Scalar outer functions: slopes, conjugates, dual steps, proxes, constants, golden values, extreme arguments."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tests.functions.cases import EXTREMES, KINKED_OUTERS, OUTERS, failing, inside, numbers
from xrisk import functions as xf
from xrisk.functions import (
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_is_monotone,
    outer_is_smooth,
    outer_kink,
    outer_lipschitz,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
)

every_outer = pytest.mark.parametrize("f", OUTERS, ids=repr)
every_kinked_outer = pytest.mark.parametrize("f", KINKED_OUTERS, ids=repr)
scales = st.floats(-8, 8).map(lambda e: 10.0**e)
STEPS = (1e-8, 1.0, 1e8)


def assert_subgradient(f, z, y, slack):
    """y is a slope of f within ``slack`` of z."""
    rounding = 1e-11 * abs(y)
    assert outer_slope(f, z - slack) - rounding <= y <= outer_slope(f, z + slack) + rounding


@every_outer
@given(u=numbers())
def test_slope_is_the_derivative_of_value(f, u):
    h = 1e-6
    noise = 1e-9 * (1 + abs(outer_value(f, u)))
    below = (outer_value(f, u) - outer_value(f, u - h)) / h
    above = (outer_value(f, u + h) - outer_value(f, u)) / h
    assert below - noise <= outer_slope(f, u) <= above + noise
    assert above - below <= 3 * h * outer_smoothness(f, max(abs(u), 1.0)) + 2 * noise or not outer_is_smooth(f)


@every_outer
@given(u=numbers(), other=numbers())
def test_outer_is_convex(f, u, other):
    tangent = outer_value(f, u) + outer_slope(f, u) * (other - u)
    assert outer_value(f, other) >= tangent - 1e-12 * (1 + abs(tangent) + abs(outer_value(f, u)))


@every_outer
@given(u=numbers())
def test_curvature_is_the_derivative_of_slope(f, u):
    h = 1e-6
    left, right = outer_curvature(f, u - h), outer_curvature(f, u + h)
    assume(math.isfinite(left + right) and abs(left - right) < 1e-3 * (1 + left))
    jump = outer_slope(f, u + h) - outer_slope(f, u - h)
    assume(jump < 0.01 * (1 + abs(outer_slope(f, u))) or outer_is_smooth(f))
    noise = 1e-9 * (1 + abs(outer_slope(f, u)))
    assert jump / (2 * h) == pytest.approx(outer_curvature(f, u), rel=1e-3, abs=1e-4 + noise)


@every_outer
@given(share=st.floats(0, 1), u=numbers())
def test_fenchel_young_inequality(f, share, u):
    y = inside(*outer_domain(f), share)
    value = outer_value(f, u)
    assert value + outer_conjugate(f, y) >= y * u - 1e-12 * (1 + abs(y * u) + abs(value))


@every_outer
@given(u=numbers())
def test_fenchel_young_equality_at_the_slope(f, u):
    y, value = outer_slope(f, u), outer_value(f, u)
    assert value + outer_conjugate(f, y) == pytest.approx(y * u, rel=1e-9, abs=1e-11 * (1 + abs(value)))


@every_outer
@pytest.mark.parametrize("share", [0.0, 0.03, 0.4, 0.8, 1.0])
def test_conjugate_is_the_supremum(f, share):
    y = inside(*outer_domain(f), share)
    best = minimize_scalar(
        lambda u: outer_value(f, u) - y * u, bounds=(-60.0, 60.0), method="bounded", options={"xatol": 1e-10}
    )
    assert outer_conjugate(f, y) == pytest.approx(-best.fun, abs=3e-6, rel=1e-6)


@every_outer
def test_conjugate_is_infinite_outside_the_domain_only(f):
    lo, hi = outer_domain(f)
    assert outer_conjugate(f, math.nextafter(lo, -np.inf)) == np.inf or lo == -np.inf
    assert outer_conjugate(f, math.nextafter(hi, np.inf)) == np.inf or hi == np.inf
    assert math.isfinite(outer_conjugate(f, max(lo, -1e30)))
    assert math.isfinite(outer_conjugate(f, min(hi, 1e30)))


@every_outer
def test_slopes_fill_the_domain(f):
    lo, hi = outer_domain(f)
    assert outer_slope(f, -1e6) == pytest.approx(lo, abs=1e-9) or (lo == -np.inf and outer_slope(f, -1e6) < -1e5)
    assert outer_slope(f, 1e6) == pytest.approx(hi, abs=1e-9) or (hi == np.inf and outer_slope(f, 1e6) > 500)


@every_outer
@given(u=numbers(), share=st.floats(0, 1), tau=st.floats(0.05, 20.0))
def test_dual_step_beats_every_other_dual(f, u, share, tau):
    lo, hi = outer_domain(f)
    y0 = inside(lo, hi, 0.3)

    def objective(y):
        return y * u - outer_conjugate(f, y) - 0.5 * tau * (y - y0) * (y - y0)

    y = outer_dual_step(f, u, y0, tau)
    assert lo <= y <= hi
    found = objective(y)
    assert found >= objective(inside(lo, hi, share)) - 1e-11 * (1 + abs(found))


@every_outer
@given(u=numbers(-50, 50), share=st.floats(0, 1), tau=scales)
def test_dual_step_is_accurate_for_every_tau(f, u, share, tau):
    y0 = inside(*outer_domain(f), share)
    y = outer_dual_step(f, u, y0, tau)
    z = u + tau * (y0 - y)
    assert_subgradient(f, z, y, 1e-13 * (1 + abs(u) + tau * (abs(y0) + abs(y))))


@every_outer
def test_dual_step_survives_extreme_values(f):
    lo, hi = outer_domain(f)
    y0 = inside(lo, hi, 0.3)
    assert failing(lambda u, tau: lo <= outer_dual_step(f, u, y0, tau) <= hi, EXTREMES, STEPS) == []


@every_outer
@given(u=numbers(-50, 50), s=scales)
def test_prox_is_optimal(f, u, s):
    z = outer_prox(f, u, s)
    y = (u - z) / s
    slack = 1e-12 * (1 + abs(u) + abs(z) + s * abs(y))
    noise = 1e-15 * (1 + abs(u) + abs(z)) / s
    assert outer_slope(f, z - slack) - noise - 1e-11 * abs(y) <= y <= outer_slope(f, z + slack) + noise + 1e-11 * abs(y)


@every_outer
@given(u=numbers(), s=st.floats(0.05, 20.0))
def test_prox_agrees_with_the_dual_step(f, u, s):
    assert outer_prox(f, u, s) == pytest.approx(u - s * outer_dual_step(f, u, 0.0, s), abs=1e-11, rel=1e-11)


def slopes_up_to(f, upper):
    """Slopes on a grid of u ≤ upper, of |u| ≤ |upper| for even functions, and the grid."""
    even = outer_domain(f)[0] == -np.inf
    grid = np.linspace(-abs(upper), abs(upper), 6001) if even else np.linspace(-20.0, upper, 6001)
    return np.array([outer_slope(f, float(u)) for u in grid]), grid


@every_outer
@pytest.mark.parametrize("upper", [-3.0, -0.2, 0.4, 2.0])
def test_constants_hold(f, upper):
    slopes, grid = slopes_up_to(f, upper)
    assert np.abs(slopes).max() <= outer_lipschitz(f, upper) * (1 + 1e-9) + 1e-12
    quotients = np.diff(slopes) / np.diff(grid)
    assert quotients.max() <= outer_smoothness(f, upper) * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("f", [f for f in OUTERS if type(f) is not xf.Scaled], ids=repr)
@pytest.mark.parametrize("upper", [0.4, 2.0])
def test_constants_are_attained(f, upper):
    slopes, grid = slopes_up_to(f, upper)
    assert np.abs(slopes).max() == pytest.approx(outer_lipschitz(f, upper), rel=1e-6)
    steepest = (np.diff(slopes) / np.diff(grid)).max()
    assert steepest == pytest.approx(outer_smoothness(f, upper), rel=0.05, abs=1e-12) or not outer_is_smooth(f)


@every_outer
def test_constants_without_a_bound_are_global(f):
    lo, hi = outer_domain(f)
    assert outer_lipschitz(f, np.inf) == pytest.approx(max(abs(lo), abs(hi)))
    curvatures = [outer_curvature(f, float(u)) for u in np.linspace(-5.0, 20.0, 501)]
    assert outer_smoothness(f, np.inf) >= max(curvatures) * (1 - 1e-12)


@every_outer
def test_monotone_means_no_negative_slope(f):
    assert outer_is_monotone(f) == (outer_domain(f)[0] >= 0.0)


@every_outer
def test_smooth_means_a_finite_constant(f):
    assert outer_is_smooth(f) == math.isfinite(outer_smoothness(f, 1.0))


@every_kinked_outer
@given(u=numbers())
def test_kink_describes_the_function(f, u):
    lo, hi, at, offset = outer_kink(f)
    assert outer_value(f, u) == pytest.approx(offset + max(lo * (u - at), hi * (u - at)), abs=1e-12)
    assert (lo, hi) == pytest.approx(outer_domain(f))


@every_outer
def test_extreme_arguments_give_no_nan(f):
    assert failing(lambda u: not math.isnan(outer_value(f, u)), EXTREMES) == []
    assert failing(lambda u: not math.isnan(outer_slope(f, u)), EXTREMES) == []
    assert failing(lambda u: not math.isnan(outer_conjugate(f, u)), EXTREMES) == []
    assert failing(lambda u: outer_curvature(f, u) >= 0.0, EXTREMES) == []
    assert failing(lambda u: outer_lipschitz(f, u) >= 0.0, EXTREMES) == []
    assert failing(lambda u: outer_smoothness(f, u) >= 0.0, EXTREMES) == []


@every_outer
def test_prox_survives_extreme_arguments(f):
    assert failing(lambda u, s: math.isfinite(outer_prox(f, u, s)), EXTREMES, STEPS) == []


GOLDEN = [
    (xf.CVaRHinge(0.25), 0.775),
    (xf.Scaled(xf.ChiSquareA(), 0.7), 0.7269230769),
    (xf.Scaled(xf.ChiSquareB(), 0.7), 0.71640625),
    (xf.ChiSquareA(0.7), 0.88),
    (xf.ChiSquareB(0.7), 0.9181818182),
    (xf.Square(), 0.4769230769),
    (xf.HardSmooth(0.3), 0.5111111111),
    (xf.HardNonsmooth(1.7, 0.3), 1.15),
    (xf.Power(1.5), 0.5849242405),
    (xf.Power(2.0), 0.4769230769),
    (xf.Power(3.0), 0.3487852709),
    (xf.Power(4.0), 0.2675749999),
    (xf.Exponential(), 0.9028074615),
    (xf.Softplus(), 0.5457265631),
    (xf.Smoothed(xf.CVaRHinge(0.25), 0.2), 0.62),
]


@pytest.mark.parametrize(("f", "expected"), GOLDEN, ids=repr)
def test_golden_dual_steps(f, expected):
    assert outer_dual_step(f, 0.3, 0.4, 0.8) == pytest.approx(expected, abs=1e-10)


@given(u=numbers(-3, 3))
def test_power_steps_match_the_closed_forms(u):
    w, tau = abs(u) + 0.8 * 0.4, 0.8
    cubic = ((-1 / math.sqrt(3) + math.sqrt(1 / 3 + 4 * tau * w)) / (2 * tau)) ** 2
    q = w / (8 * tau)
    root = math.sqrt(q * q + (1 / (12 * tau)) ** 3)
    quartic = 4 * (math.cbrt(q + root) + math.cbrt(q - root)) ** 3
    assert outer_dual_step(xf.Power(3.0), abs(u), 0.4, tau) == pytest.approx(cubic, rel=1e-12)
    assert outer_dual_step(xf.Power(4.0), abs(u), 0.4, tau) == pytest.approx(quartic, rel=1e-12)


@given(u=numbers(-3, 3))
def test_smoothed_hinge_matches_its_closed_form(u):
    a, nu = 4.0, 0.2
    pieces = 0.0 if u <= 0 else (u * u / (2 * nu) if u < a * nu else a * u - a * a * nu / 2)
    assert outer_value(xf.Smoothed(xf.CVaRHinge(1 / a), nu), u) == pytest.approx(pieces, abs=1e-13)


@every_outer
@given(u=numbers(), nu=st.floats(0.05, 2.0))
def test_smoothing_stays_within_its_bound(f, u, nu):
    gap = outer_value(f, u) - outer_value(xf.Smoothed(f, nu), u)
    bound = 0.5 * nu * outer_slope(f, u) ** 2
    noise = 1e-12 * (1 + abs(outer_value(f, u)))
    assert -noise <= gap <= bound + noise


@every_outer
@given(u=numbers(), factor=st.floats(0.1, 5.0), slope=st.floats(0.1, 3.0), shift=numbers(-2, 2))
def test_scaled_value_and_slope(f, u, factor, slope, shift):
    h = xf.Scaled(f, factor, slope, shift, 1.5)
    inner = slope * u + shift
    assert outer_value(h, u) == factor * outer_value(f, inner) + 1.5
    assert outer_slope(h, u) == pytest.approx(factor * slope * outer_slope(f, inner), rel=1e-14)
