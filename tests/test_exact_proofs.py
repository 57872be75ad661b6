"""Certificates against rational arithmetic: the optimum of the data lies between the bounds, for every estimator."""

from fractions import Fraction

import numpy as np
import pytest

from tests.reference import exact_quadratics as exact
from xrisk import MeanVariancePortfolio, PolicyEvaluator

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def assert_between(certificate, optimum, kept):
    """dual ≤ optimum ≤ primal, and the kept model is no worse than primal says."""
    if np.isfinite(certificate.dual):
        assert Fraction(certificate.dual) <= optimum
    if np.isfinite(certificate.primal):
        assert optimum <= Fraction(certificate.primal)
        assert kept <= Fraction(certificate.primal)


LIMITS = {
    "free": {"long_only": False, "budget": None},
    "budget": {"long_only": False, "budget": 1.0},
    "long": {"long_only": True, "budget": 1.0},
    "orthant": {"long_only": True, "budget": None},
    "gross": {"long_only": False, "budget": None, "leverage": 1.25},
    "neutral": {"long_only": False, "budget": 0.0, "leverage": 1.0},
    "long-limit": {"long_only": True, "budget": None, "leverage": 0.7},
}


def nearly_collinear(n, d, apart, seed, offset=0.0):
    rng = np.random.default_rng(seed)
    returns = rng.standard_normal((n, d))
    returns[:, 1] = returns[:, 0] + apart * returns[:, 1]
    return 0.1 * returns + offset


def check_portfolio(returns, limits, weight=None, **options):
    model = MeanVariancePortfolio(**limits, **options)
    try:
        model.fit(returns, sample_weight=weight)
    except ValueError:  # no optimum
        return None
    F = exact.portfolio(returns, model.risk_aversion, model.l2, weight)
    assert_between(model.certificate_, exact.best(F, **limits), F.value(model.weights_))
    return model.certificate_


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("apart", [1.0, 1e-4, 1e-8, 1e-12])
def test_the_optimum_of_nearly_collinear_returns_is_between_the_bounds(limits, apart):
    for seed in range(3):
        check_portfolio(nearly_collinear(5, 3, apart, seed), limits, risk_aversion=2.0)


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_the_optimum_of_weighted_returns_is_between_the_bounds(limits):
    weight = np.array([0.1, 0.7, 0.0, 3.0, 1e-3, 0.3])
    for offset in (0.0, 1e6):
        check_portfolio(nearly_collinear(6, 3, 1e-4, 5, offset), limits, weight=weight, l2=1e-3)


@pytest.mark.parametrize(("limits", "apart"), [("free", 1e-4), ("free", 1e-8), ("budget", 1e-4), ("budget", 1e-6)])
def test_nearly_collinear_returns_are_certified(limits, apart):
    for seed in range(3):
        known = check_portfolio(nearly_collinear(6, 3, apart, seed), LIMITS[limits])
        assert known.relative <= 1e-6


def test_two_assets_that_differ_by_a_millionth_are_certified():
    near = [[-0.140625, -0.1406257152557373], [-0.15625, -0.1562504768371582], [-0.03125, -0.03125]]
    returns = np.array([*near, [0.25, 0.2499995231628418]])
    assert check_portfolio(returns, LIMITS["free"]).relative <= 1e-9


def check_policy(apart, seed, scale=1.0, **options):
    rng = np.random.default_rng(seed)
    features, P = rng.standard_normal((7, 3)), rng.random((7, 7)) * (rng.random((7, 7)) < 0.6)
    features[:, 1] = features[:, 0] + apart * features[:, 1]
    features[:, 2] *= scale
    P[0] = 0.0
    P /= np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
    reward, weight = rng.standard_normal(7), rng.random(7)
    model = PolicyEvaluator(0.9, tol=1e-9, **options).fit(features, reward, transitions=P, state_weight=weight)
    F = exact.bellman(features, P, reward, 0.9, model.l2, weight)
    assert_between(model.certificate_, F.value(exact.stationary(F, [])), F.value(model.coef_))
    return model.certificate_


@pytest.mark.parametrize("l2", [0.0, 1e-6])
@pytest.mark.parametrize("apart", [1.0, 1e-4, 1e-8, 1e-12])
def test_the_optimum_of_nearly_collinear_features_is_between_the_bounds(apart, l2):
    for seed in range(3):
        check_policy(apart, seed, l2=l2)


@pytest.mark.parametrize(("apart", "scale"), [(1e-4, 1.0), (1e-7, 1.0), (1.0, 1e8), (1e-4, 1e-8)])
def test_values_of_nearly_collinear_features_are_certified(apart, scale):
    assert check_policy(apart, 4, scale).relative <= 1e-9
