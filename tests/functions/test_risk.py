"""Joint risks: the two forms agree, weights attain the value, golden values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from tests.functions.cases import MEAN_RISKS, RISKS, failing, vectors
from xrisk.functions import (
    ChiSquareRiskA,
    ChiSquareRiskB,
    CVaRRisk,
    KLRisk,
    MaxRisk,
    outer_value,
    risk_cap,
    risk_conjugate,
    risk_outer,
    risk_project,
    risk_threshold,
    risk_value,
    risk_weights,
)

every_risk = pytest.mark.parametrize("rho", RISKS, ids=repr)
every_mean_risk = pytest.mark.parametrize("rho", MEAN_RISKS, ids=repr)
R = np.array([1.0, 2.0, 3.0, 6.0])


def shifted_mean(rho, u, c):
    f = risk_outer(rho, u.size)
    return c + sum(outer_value(f, float(x) - c) for x in u) / u.size


def weights(rho, u):
    q = np.empty_like(u)
    risk_weights(rho, u, q)
    return q


def dual_point(rho, v):
    q = v.copy()
    risk_project(rho, q)
    return q


@every_mean_risk
@given(u=st.integers(1, 7).flatmap(vectors))
def test_value_is_the_shifted_mean_at_the_threshold(rho, u):
    assert shifted_mean(rho, u, risk_threshold(rho, u)) == pytest.approx(risk_value(rho, u), abs=1e-11)


@every_mean_risk
@given(u=vectors(5), c=st.floats(-5, 5))
def test_no_threshold_does_better(rho, u, c):
    assert shifted_mean(rho, u, c) >= risk_value(rho, u) - 1e-11


@every_mean_risk
def test_value_is_the_least_shifted_mean(rho):
    best = minimize_scalar(
        lambda c: shifted_mean(rho, R, c), bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-10}
    )
    assert risk_value(rho, R) == pytest.approx(best.fun, abs=1e-6)


@every_risk
@given(u=st.integers(1, 7).flatmap(vectors))
def test_weights_attain_the_value(rho, u):
    q = weights(rho, u)
    assert q @ u - risk_conjugate(rho, q) == pytest.approx(risk_value(rho, u), abs=1e-11)


@every_risk
@given(u=vectors(5), v=vectors(5))
def test_no_weights_do_better(rho, u, v):
    q = dual_point(rho, v)
    assert q @ u - risk_conjugate(rho, q) <= risk_value(rho, u) + 1e-11


@every_risk
@given(v=vectors(5))
def test_projected_weights_respect_the_cap(rho, v):
    q = dual_point(rho, v)
    assert q.sum() == pytest.approx(1.0)
    assert q.min() >= 0.0
    assert q.max() <= risk_cap(rho, 5) + 1e-15


@every_risk
def test_conjugate_is_infinite_outside_the_dual_set(rho):
    assert risk_conjugate(rho, np.full(4, 0.3)) == np.inf
    assert risk_conjugate(rho, np.array([1.2, -0.2, 0.0, 0.0])) == np.inf
    assert risk_conjugate(rho, np.full(4, 0.25)) == pytest.approx(0.0, abs=1e-15)


@every_risk
@given(u=vectors(5), constant=st.floats(-1e3, 1e3))
def test_a_constant_moves_the_risk_by_itself(rho, u, constant):
    assert risk_value(rho, u + constant) == pytest.approx(risk_value(rho, u) + constant, abs=1e-10)


@every_risk
def test_equal_values_get_equal_weights(rho):
    assert weights(rho, np.full(4, 2.0)) == pytest.approx(np.full(4, 0.25))
    assert risk_value(rho, np.full(4, 2.0)) == pytest.approx(2.0)


@every_risk
def test_extreme_values_keep_weights_on_the_simplex(rho):
    sizes = (5e-324, 1e-300, 1e17, 1e300)

    def point(size):
        return np.array([size, -size, 0.0, size])

    assert failing(lambda size: weights(rho, point(size)).sum() == pytest.approx(1.0), sizes) == []
    assert failing(lambda size: weights(rho, point(size)).min() >= 0.0, sizes) == []
    assert failing(lambda size: np.isfinite(risk_value(rho, point(size))), sizes) == []


@every_mean_risk
def test_extreme_values_have_a_threshold(rho):
    sizes = (5e-324, 1e-300, 1e17, 1e300)
    assert failing(lambda size: np.isfinite(risk_threshold(rho, size * np.array([1.0, -1.0, 0.0, 1.0]))), sizes) == []


@pytest.mark.parametrize(
    ("rho", "expected"),
    [
        (MaxRisk(), 6.0),
        (CVaRRisk(0.5), 4.5),
        (CVaRRisk(0.3), 5.5),
        (CVaRRisk(1.0), 3.0),
        (ChiSquareRiskA(1.0), 4.5625),
        (ChiSquareRiskB(1.0), 3.875),
        (KLRisk(1.0), float(np.log(np.mean(np.exp(R))))),
    ],
    ids=repr,
)
def test_golden_values(rho, expected):
    assert risk_value(rho, R) == pytest.approx(expected, abs=1e-9)


def test_golden_thresholds():
    assert risk_threshold(ChiSquareRiskA(1.0), R) == pytest.approx(3.5, abs=1e-12)
    assert risk_threshold(ChiSquareRiskB(1.0), R) == pytest.approx(3.0, abs=1e-12)


def test_caps():
    assert risk_cap(CVaRRisk(0.5), 4) == 0.5
    assert risk_cap(CVaRRisk(0.1), 4) == 1.0
    assert risk_cap(CVaRRisk(1.0), 3) == 1.0 / 3.0
    assert risk_cap(MaxRisk(), 3) == 1.0


def test_a_share_below_one_value_is_the_maximum():
    assert risk_value(CVaRRisk(0.01), R) == risk_value(MaxRisk(), R)


def test_a_cvar_of_less_than_one_value_is_coupled_as_the_maximum():
    """A steeper slope would have the same value, and be harder to minimise."""
    assert risk_outer(CVaRRisk(1e-300), 4) == risk_outer(MaxRisk(), 4)
    assert risk_outer(CVaRRisk(0.5), 4).alpha == 0.5
