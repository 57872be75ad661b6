"""Losses: slopes, convexity, conjugates, constants, kinks, extreme scores."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tests.functions.cases import EXTREMES, KINKED_LOSSES, LOSSES, failing, inside, numbers, vectors
from xrisk.functions import (
    Logistic,
    Multinomial,
    SquaredHinge,
    loss_conjugate,
    loss_curvature,
    loss_domain,
    loss_is_affine,
    loss_is_classification,
    loss_kink,
    loss_lipschitz,
    loss_slope,
    loss_smoothness,
    loss_value,
    scores_conjugate,
    scores_lipschitz,
    scores_slope,
    scores_smoothness,
    scores_value,
)

signs = st.sampled_from((-1.0, 1.0))
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
every_kinked_loss = pytest.mark.parametrize("loss", KINKED_LOSSES, ids=repr)


@every_loss
@given(z=numbers(), y=signs)
def test_slope_is_the_derivative_of_value(loss, z, y):
    h = 1e-6
    below = (loss_value(loss, z, y) - loss_value(loss, z - h, y)) / h
    above = (loss_value(loss, z + h, y) - loss_value(loss, z, y)) / h
    assert below - 1e-7 <= loss_slope(loss, z, y) <= above + 1e-7
    assert above - below <= 1e-3 or loss_smoothness(loss) == np.inf


@every_loss
@given(z=numbers(), other=numbers(), y=signs)
def test_loss_is_convex(loss, z, other, y):
    tangent = loss_value(loss, z, y) + loss_slope(loss, z, y) * (other - z)
    assert loss_value(loss, other, y) >= tangent - 1e-12 * (1 + abs(tangent))


@every_loss
@given(z=numbers(), y=signs)
def test_curvature_is_the_derivative_of_slope(loss, z, y):
    h = 1e-6
    assume(abs(loss_curvature(loss, z + h, y) - loss_curvature(loss, z - h, y)) < 1e-3)
    jump = loss_slope(loss, z + h, y) - loss_slope(loss, z - h, y)
    assume(jump < 0.01)
    assert jump / (2 * h) == pytest.approx(loss_curvature(loss, z, y), rel=1e-4, abs=1e-4)


@every_loss
@given(share=st.floats(0, 1), z=numbers(), y=signs)
def test_fenchel_young_inequality(loss, share, z, y):
    v = inside(*loss_domain(loss, y), share)
    assert loss_value(loss, z, y) + loss_conjugate(loss, v, y) >= v * z - 1e-12 * (1 + abs(v * z))


@every_loss
@given(z=numbers(), y=signs)
def test_fenchel_young_equality_at_the_slope(loss, z, y):
    v = loss_slope(loss, z, y)
    total = loss_value(loss, z, y) + loss_conjugate(loss, v, y)
    assert total == pytest.approx(v * z, rel=1e-11, abs=1e-11)


@every_loss
@pytest.mark.parametrize("y", [-1.0, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.4, 0.8, 1.0])
def test_conjugate_is_the_supremum(loss, y, share):
    v = inside(*loss_domain(loss, y), share)
    best = minimize_scalar(
        lambda z: loss_value(loss, z, y) - v * z, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9}
    )
    assert loss_conjugate(loss, v, y) == pytest.approx(-best.fun, abs=2e-6, rel=1e-6)


@every_loss
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_conjugate_is_infinite_outside_the_domain_only(loss, y):
    lo, hi = loss_domain(loss, y)
    assert loss_conjugate(loss, math.nextafter(lo, -np.inf), y) == np.inf or lo == -np.inf
    assert loss_conjugate(loss, math.nextafter(hi, np.inf), y) == np.inf or hi == np.inf
    assert math.isfinite(loss_conjugate(loss, max(lo, -1e100), y))
    assert math.isfinite(loss_conjugate(loss, min(hi, 1e100), y))


@every_loss
def test_constants_are_attained(loss):
    # 40 is far enough for every slope to be at its end, and inf to be large
    grid = np.linspace(-40.0, 40.0, 4001)
    slopes = [abs(loss_slope(loss, float(z), y)) for z in grid for y in (-1.0, 1.0)]
    curvatures = [loss_curvature(loss, float(z), y) for z in grid for y in (-1.0, 1.0)]
    assert max(slopes) == pytest.approx(loss_lipschitz(loss), rel=1e-6) or (
        loss_lipschitz(loss) == np.inf and max(slopes) > 30
    )
    assert max(curvatures) == pytest.approx(loss_smoothness(loss), rel=1e-6) or loss_smoothness(loss) == np.inf


@every_kinked_loss
@given(z=numbers(), y=signs)
def test_kink_describes_the_loss(loss, z, y):
    lo, hi, at = loss_kink(loss, y)
    assert loss_value(loss, z, y) == pytest.approx(max(lo * (z - at), hi * (z - at)), abs=1e-14)
    assert (lo, hi) == loss_domain(loss, y)


@every_loss
def test_extreme_scores_give_no_nan(loss):
    labels = (-1.0, 1.0)
    assert failing(lambda z, y: loss_value(loss, z, y) > -np.inf, EXTREMES, labels) == []
    assert failing(lambda z, y: not math.isnan(loss_slope(loss, z, y)), EXTREMES, labels) == []
    assert failing(lambda z, y: loss_curvature(loss, z, y) >= 0, EXTREMES, labels) == []
    assert failing(lambda z, y: not math.isnan(loss_conjugate(loss, z, y)), EXTREMES, labels) == []


def test_losses_that_grow_linearly_are_finite_at_extreme_scores():
    assert loss_value(Logistic(), -1e300, 1.0) == 1e300
    assert loss_value(SquaredHinge(), -1e300, 1.0) == np.inf


def test_logistic_tail_is_relatively_accurate():
    assert loss_value(Logistic(), 50.0, 1.0) == pytest.approx(math.exp(-50.0), rel=1e-14)
    assert loss_slope(Logistic(), 50.0, 1.0) == pytest.approx(-math.exp(-50.0), rel=1e-14)


def test_classification_and_affine_flags():
    flags = {type(loss).__name__: (loss_is_classification(loss), loss_is_affine(loss)) for loss in LOSSES}
    assert {name for name, (labels, _) in flags.items() if labels} == {
        "Logistic",
        "HingeLoss",
        "SquaredHinge",
        "SmoothedHinge",
        "ExponentialLoss",
        "MarginLoss",
    }
    assert {name for name, (_, affine) in flags.items() if affine} == {"AffineLoss", "MarginLoss"}


@given(z=vectors(4), k=st.integers(0, 3), direction=vectors(4))
def test_multinomial_slope_is_the_gradient(z, k, direction):
    gradient = np.empty(4)
    scores_slope(Multinomial(), z, k, gradient)
    h = 1e-6
    quotient = (
        scores_value(Multinomial(), z + h * direction, k) - scores_value(Multinomial(), z - h * direction, k)
    ) / (2 * h)
    assert quotient == pytest.approx(gradient @ direction, abs=1e-7)
    assert np.linalg.norm(gradient) <= scores_lipschitz(Multinomial())


@given(z=vectors(4), other=vectors(4), k=st.integers(0, 3))
def test_multinomial_fenchel_young(z, other, k):
    v = np.empty(4)
    scores_slope(Multinomial(), z, k, v)
    conjugate = scores_conjugate(Multinomial(), v, k)
    assert scores_value(Multinomial(), z, k) + conjugate == pytest.approx(v @ z, abs=1e-12)
    assert scores_value(Multinomial(), other, k) + conjugate >= v @ other - 1e-12


@given(z=vectors(4), other=vectors(4), k=st.integers(0, 3))
def test_multinomial_gradient_is_lipschitz(z, other, k):
    one, two = np.empty(4), np.empty(4)
    scores_slope(Multinomial(), z, k, one)
    scores_slope(Multinomial(), other, k, two)
    bound = scores_smoothness(Multinomial()) * np.linalg.norm(z - other)
    assert np.linalg.norm(one - two) <= bound + 1e-12


def test_multinomial_constants_are_attained():
    steep, one, two = np.empty(2), np.empty(2), np.empty(2)
    scores_slope(Multinomial(), np.array([-40.0, 40.0]), 0, steep)
    assert np.linalg.norm(steep) == pytest.approx(scores_lipschitz(Multinomial()))
    scores_slope(Multinomial(), np.array([1e-5, -1e-5]), 0, one)
    scores_slope(Multinomial(), np.array([-1e-5, 1e-5]), 0, two)
    quotient = np.linalg.norm(one - two) / (2e-5 * math.sqrt(2.0))
    assert quotient == pytest.approx(scores_smoothness(Multinomial()), rel=1e-6)


def test_multinomial_conjugate_is_infinite_off_the_simplex():
    assert scores_conjugate(Multinomial(), np.array([0.1, 0.0, 0.0]), 0) == np.inf
    assert scores_conjugate(Multinomial(), np.array([-0.5, 0.7, -0.2]), 0) == np.inf
    assert scores_conjugate(Multinomial(), np.array([-1.0, 1.0, 0.0]), 0) == 0.0


@pytest.mark.parametrize("size", EXTREMES)
def test_multinomial_survives_extreme_scores(size):
    z = np.array([size, -size, 0.0])
    gradient = np.empty(3)
    scores_slope(Multinomial(), z, 1, gradient)
    assert np.isfinite(gradient).all()
    assert 0.0 <= scores_value(Multinomial(), z, 1) < np.inf


def test_multinomial_gradient_keeps_a_tiny_error():
    gradient = np.empty(2)
    scores_slope(Multinomial(), np.array([50.0, 0.0]), 0, gradient)
    assert gradient[0] == pytest.approx(-math.exp(-50.0), rel=1e-12)
