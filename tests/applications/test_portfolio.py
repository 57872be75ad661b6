"""Mean and variance: one objective in three forms, the closed form of its minimum, moments that nothing cancels in."""

import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from xrisk.applications import mean_variance, mean_variance_of_moments
from xrisk.applications.portfolio import mean_variance_of_rows, moments, portfolio_domain
from xrisk.datasets import make_returns

RETURNS = make_returns(300, 5, random_state=0).returns
MEAN, COVARIANCE = RETURNS.mean(axis=0), np.cov(RETURNS.T, bias=True)
W = np.random.default_rng(0).standard_normal(5)


def objective(w, risk_aversion, l2):
    return -MEAN @ w + risk_aversion * w @ COVARIANCE @ w + 0.5 * l2 * w @ w


@pytest.mark.parametrize("sampling", ["uniform", "exact"])
def test_the_objective_of_rows_is_as_defined(sampling):
    problem = mean_variance(RETURNS, risk_aversion=3.0, l2=0.1, sampling=sampling)
    assert problem.value(W) == pytest.approx(objective(W, 3.0, 0.1), rel=1e-12)


def test_the_objective_of_moments_is_the_same():
    problem = mean_variance_of_moments(MEAN, COVARIANCE, risk_aversion=3.0, l2=0.1)
    assert problem.value(W) == pytest.approx(objective(W, 3.0, 0.1), rel=1e-12)


def test_the_objective_of_few_rows_is_the_same():
    few = (RETURNS - MEAN) / np.sqrt(300)
    problem = mean_variance_of_rows(few, MEAN, risk_aversion=3.0, l2=0.1)
    assert problem.value(W) == pytest.approx(objective(W, 3.0, 0.1), rel=1e-12)


@pytest.mark.parametrize("risk_aversion", [1.0, 0.2, 50.0])
def test_without_a_domain_the_minimiser_is_the_closed_form(risk_aversion):
    best = np.linalg.solve(2 * risk_aversion * COVARIANCE, MEAN)
    for problem in (
        mean_variance(RETURNS, risk_aversion=risk_aversion),
        mean_variance_of_moments(MEAN, COVARIANCE, risk_aversion=risk_aversion),
    ):
        np.testing.assert_allclose(xrisk.solvers.exact(problem).w, best, rtol=1e-6)


@pytest.mark.slow
def test_a_sampled_method_finds_it():
    problem = mean_variance(50.0 * RETURNS, l2=0.1, domain=fn.Simplex())
    best = xrisk.solvers.exact(problem).value
    solver = xrisk.solvers.SCGD(step=0.003, track=0.3)
    found = xrisk.minimize(problem, solver, np.full(5, 0.2), budget=xrisk.Budget(iterations=4000), rng=0)
    assert found.value - best < 0.3 * (problem.value(np.full(5, 0.2)) - best)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_moments_lose_nothing_to_an_offset(offset, scale):
    X = np.random.default_rng(0).integers(-8, 8, (1000, 3)).astype(float)
    found = moments(scale * (X + offset))
    np.testing.assert_allclose(found.covariance, scale**2 * np.cov(X.T, bias=True), rtol=1e-6)
    np.testing.assert_allclose(found.mean, scale * (X.mean(axis=0) + offset), rtol=1e-12)


def test_blocks_add_up(monkeypatch):
    whole = moments(RETURNS)
    monkeypatch.setattr("xrisk.applications.portfolio.BLOCK", 35)
    parts = moments(RETURNS)
    np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(parts.covariance, whole.covariance, rtol=1e-10)


def test_weights_repeat_rows(monkeypatch):
    times = np.arange(300) % 4
    monkeypatch.setattr("xrisk.applications.portfolio.BLOCK", 50)
    weighed, repeated = moments(RETURNS, times.astype(float)), moments(np.repeat(RETURNS, times, axis=0))
    np.testing.assert_allclose(weighed.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighed.covariance, repeated.covariance, rtol=1e-10)


CHOSEN = [
    ((True, 1.0, None), fn.Simplex(1.0)),
    ((True, 1.0, 2.0), fn.Simplex(1.0)),
    ((True, None, None), fn.NonNegative()),
    ((True, None, 2.0), fn.SolidSimplex(2.0)),
    ((False, None, None), None),
    ((False, None, 2.0), fn.L1Ball(2.0)),
    ((False, -1.0, None), fn.Hyperplane(-1.0)),
    ((False, 0.0, 2.0), fn.LeveragedBudget(0.0, 2.0)),
]


@pytest.mark.parametrize(("asked", "domain"), CHOSEN, ids=str)
def test_every_combination_has_its_domain(asked, domain):
    assert portfolio_domain(*asked) == domain


IMPOSSIBLE = [
    ((True, -1.0, None), "budget must be positive where long_only=True, got -1.0"),
    ((True, 0.0, None), "budget must be positive where long_only=True, got 0.0"),
    ((False, 1.0, 0.5), r"leverage must be at least \|budget\|=1.0, got 0.5"),
    ((True, 1.0, 0.5), r"leverage must be at least \|budget\|=1.0, got 0.5"),
    ((False, -2.0, 1.0), r"leverage must be at least \|budget\|=2.0, got 1.0"),
    ((False, None, 0.0), "leverage must be positive, got 0.0"),
    ((False, np.inf, None), "budget must be finite, got inf"),
]


@pytest.mark.parametrize(("asked", "sentence"), IMPOSSIBLE, ids=str)
def test_what_is_impossible_is_said(asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        portfolio_domain(*asked)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"risk_aversion": 0.0}, "risk_aversion must be positive, got 0.0"),
        ({"sampling": "all"}, "sampling must be one of uniform, exact, got 'all'"),
        ({"l2": -1.0}, "l2 must be finite and not negative"),
        ({"returns": [[np.nan]]}, "returns must be finite"),
        ({"returns": [1.0, 2.0]}, r"returns must have a row for each period .* got shape \(2,\)"),
    ],
)
def test_what_is_wrong_is_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        mean_variance(**{"returns": RETURNS, **options})


def test_a_domain_is_a_spec():
    with pytest.raises(TypeError, match="domain must be a domain spec"):
        mean_variance(RETURNS, domain="simplex")


def test_equal_returns_have_no_variance():
    assert not moments(np.full((60, 2), 0.004)).covariance.any()


def test_periods_without_weight_do_not_make_equal_returns_vary():
    returns = np.append(np.full((60, 1), 0.004), [[1.0]], axis=0)
    assert moments(returns, np.append(np.ones(60), 0.0)).covariance[0, 0] == 0.0


@pytest.mark.parametrize("domain", [fn.L1Ball(1.0), fn.SolidSimplex(1.0), fn.LeveragedBudget(1.0, 1.5)], ids=str)
def test_auto_says_what_takes_a_domain_that_it_does_not(domain):
    problem = mean_variance([[1.0, 0.0], [3.0, 2.0]], domain=domain)
    with pytest.raises(ValueError, match=rf"do not take the domain {type(domain).__name__}: Faces\(\) does"):
        xrisk.minimize(problem, xrisk.solvers.Auto(), budget=xrisk.Budget(iterations=10))
