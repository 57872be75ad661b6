"""Worst cases of many values: they agree with the risks, their curvature with differences, from any start."""

import numpy as np
import pytest

import xrisk.functions as fn
from xrisk.functions import risk_conjugate, risk_project, risk_value, risk_weights, worst

PLAIN = [
    fn.KLRisk(1e-3),
    fn.KLRisk(0.5),
    fn.KLRisk(30.0),
    fn.ChiSquareRiskA(1e-3),
    fn.ChiSquareRiskA(0.5),
    fn.ChiSquareRiskA(30.0),
    fn.KLBallRisk(1e-3),
    fn.KLBallRisk(0.3),
    fn.KLBallRisk(0.3, 0.1),
    fn.KLBallRisk(0.3, 5.0),
    fn.KLBallRisk(4.0),
    fn.KLBallRisk(4.0, 1e-3),
    fn.ChiSquareBallRisk(1e-3),
    fn.ChiSquareBallRisk(0.3),
    fn.ChiSquareBallRisk(0.3, 0.1),
    fn.ChiSquareBallRisk(0.3, 5.0),
    fn.ChiSquareBallRisk(40.0),
    fn.ChiSquareBallRisk(40.0, 1e-3),
    fn.CVaRRisk(0.01),
    fn.CVaRRisk(0.35),
    fn.CVaRRisk(1.0),
]
RNG = np.random.default_rng(5)
V, STEP = RNG.standard_normal(7), RNG.standard_normal(7)
WEIGHTED = [fn.WithMasses(rho, RNG.dirichlet(np.ones(7))) for rho in PLAIN]
RISKS = [*PLAIN, *WEIGHTED, *[fn.WithMasses(rho, np.array([0.3, 0.0, 0.2, 0.1, 0.0, 0.4, 0.0])) for rho in PLAIN[::4]]]

every_risk = pytest.mark.parametrize("rho", RISKS, ids=str)
smoothing = pytest.mark.parametrize("mu", [0.0, 1e-3, 0.2, 3.0])


def hessian(found):
    return np.diag(found.curvature) - (found.vectors.T * found.scales) @ found.vectors


def in_dual_set(rho, q):
    return q.min() >= 0.0 and abs(q.sum() - 1.0) < 1e-14 and risk_conjugate(rho, q) < np.inf


@every_risk
@smoothing
def test_weights_are_feasible_and_attain_a_value_that_is_not_above_the_risk(rho, mu):
    found = worst(rho, V, mu)
    assert in_dual_set(rho, found.weights)
    assert found.weights @ V - risk_conjugate(rho, found.weights) == pytest.approx(found.value, abs=1e-12)
    assert found.smoothed <= found.value <= risk_value(rho, V) + 1e-11


@every_risk
def test_without_smoothing_it_is_the_risk(rho):
    found, q = worst(rho, V, 0.0), np.empty(7)
    risk_weights(rho, V, q)
    assert found.value == pytest.approx(risk_value(rho, V), abs=1e-12)
    assert found.smoothed == found.value
    assert found.weights == pytest.approx(q, abs=1e-10)


@every_risk
@smoothing
def test_weights_are_the_slope_of_the_smoothed_value(rho, mu):
    h = 1e-6
    ahead, behind = worst(rho, V + h * STEP, mu).smoothed, worst(rho, V - h * STEP, mu).smoothed
    assert (ahead - behind) / (2 * h) == pytest.approx(worst(rho, V, mu).weights @ STEP, abs=1e-7)


@every_risk
@smoothing
def test_the_hessian_is_the_slope_of_the_weights(rho, mu):
    h = 1e-7
    ahead, behind = worst(rho, V + h * STEP, mu).weights, worst(rho, V - h * STEP, mu).weights
    wanted = hessian(worst(rho, V, mu)) @ STEP
    assert (ahead - behind) / (2 * h) == pytest.approx(wanted, abs=1e-5 * max(1.0, np.abs(wanted).max()))


@every_risk
@smoothing
def test_an_earlier_answer_changes_nothing_but_the_time(rho, mu):
    cold = worst(rho, V, mu)
    for near in (worst(rho, V + 0.1 * STEP, mu).near, worst(rho, 100.0 * V, mu).near, (-1e300,), (1e300,), (1e-300,)):
        warm = worst(rho, V, mu, near)
        assert warm.weights == pytest.approx(cold.weights, abs=1e-9)
        assert warm.value == pytest.approx(cold.value, abs=1e-9)


@every_risk
@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_values_of_any_scale_have_finite_answers(rho, size):
    for mu in (0.0, 1e-300, 1.0, 1e300):
        found = worst(rho, size * V, mu)
        assert found.weights.sum() == pytest.approx(1.0, abs=1e-14)
        assert np.isfinite([found.value, found.smoothed]).all()
        assert size * V.min() <= found.value <= size * V.max()


@every_risk
@smoothing
def test_equal_values_keep_their_masses(rho, mu):
    found = worst(rho, np.full(7, 3.0), mu)
    assert found.weights == pytest.approx(getattr(rho, "masses", np.full(7, 1.0 / 7.0)), abs=1e-15)
    assert found.value == pytest.approx(3.0, abs=1e-15)
    assert np.isfinite(hessian(found)).all()


@pytest.mark.parametrize("rho", PLAIN, ids=str)
def test_one_value_has_all_of_the_weight(rho):
    assert worst(rho, np.array([2.0]), 0.5)[:3] == ([1.0], 2.0, 2.0)


@pytest.mark.parametrize("rho", [rho for rho in RISKS if not isinstance(rho, fn.WithMasses)], ids=str)
def test_equal_masses_are_none_at_all(rho):
    plain, weighted = worst(rho, V, 0.1), worst(fn.WithMasses(rho, np.full(7, 1.0 / 7.0)), V, 0.1)
    assert plain.weights == pytest.approx(weighted.weights, abs=1e-13)
    assert hessian(plain) == pytest.approx(hessian(weighted), abs=1e-9)


@every_risk
def test_no_projected_weights_do_better(rho):
    best = risk_value(rho, V)
    for q in np.random.default_rng(0).dirichlet(np.full(7, 0.3), 50):
        risk_project(rho, q)
        assert in_dual_set(rho, q)
        assert q @ V - risk_conjugate(rho, q) <= best + 1e-11


@every_risk
def test_projection_keeps_worst_case_weights(rho):
    q, kept = np.empty(7), np.empty(7)
    risk_weights(rho, V, q)
    kept[:] = q
    risk_project(rho, q)
    assert q == pytest.approx(kept, abs=1e-12)


def test_masses_that_are_no_distribution_are_refused():
    with pytest.raises(ValueError, match="masses must be non-negative numbers with a sum of one"):
        fn.WithMasses(fn.KLRisk(), np.array([0.5, 0.7])).check()


def test_masses_must_be_as_many_as_the_values():
    rho = fn.WithMasses(fn.KLRisk(), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="masses must be as many as the values"):
        risk_value(rho, V)
    with pytest.raises(ValueError, match="masses must be as many as the values"):
        worst(rho, V, 0.1)


def test_only_balls_without_a_price_are_support_functions():
    assert [bool(fn.risk_is_support(rho)) for rho in (fn.KLBallRisk(), fn.KLBallRisk(0.5, 0.1))] == [True, False]
    assert fn.risk_is_support(fn.WithMasses(fn.ChiSquareBallRisk(), np.ones(1)))
    assert not fn.risk_is_capped(fn.KLBallRisk())


def test_many_values_agree_with_few_that_stand_for_them():
    v = np.random.default_rng(1).integers(0, 50, 30_000).astype(float)
    values, counts = np.unique(v, return_counts=True)
    for rho in (fn.KLBallRisk(0.4), fn.ChiSquareBallRisk(0.4, 0.1), fn.CVaRRisk(0.07), fn.KLRisk(2.0)):
        few = worst(fn.WithMasses(rho, counts / counts.sum()), values, 0.3)
        assert worst(rho, v, 0.3).value == pytest.approx(few.value, rel=1e-11)
