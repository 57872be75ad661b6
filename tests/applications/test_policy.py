"""Bellman residuals: values, least squares, certificates and sampled solvers."""

import numpy as np
import pytest
import scipy.sparse

from xrisk import Budget, certify, minimize
from xrisk.applications import bellman
from xrisk.functions import L2, Ball, Box, NoPenalty, Restricted
from xrisk.solvers import ALEXR, exact

RNG = np.random.default_rng(1)
S, D = 20, 4
P = RNG.random((S, S)) * (RNG.random((S, S)) < 0.4) + 0.05 * np.eye(S)
P /= P.sum(axis=1, keepdims=True)
REWARD, PHI = RNG.random((S, S)), RNG.random((S, D))
A, B = PHI - 0.9 * P @ PHI, (P * REWARD).sum(axis=1)
W = np.array([0.3, -0.2, 0.5, 0.1])


def test_the_value_is_the_mean_square_of_the_residuals():
    residuals = [PHI[s] @ W - sum(P[s, t] * (REWARD[s, t] + 0.9 * PHI[t] @ W) for t in range(S)) for s in range(S)]
    assert bellman(P, REWARD, PHI).value(W) == pytest.approx(np.mean(np.square(residuals)), rel=1e-12)


@pytest.mark.parametrize("sampling", ["simulator", "uniform"])
def test_the_optimum_is_that_of_least_squares(sampling):
    best = exact(bellman(P, REWARD, PHI, sampling=sampling))
    np.testing.assert_allclose(best.w, np.linalg.lstsq(A, B)[0], rtol=1e-6)


def test_a_penalised_optimum_is_that_of_ridge_and_certified():
    problem = bellman(P, REWARD, PHI, l2=0.1)
    best = exact(problem)
    np.testing.assert_allclose(best.w, np.linalg.solve(2 * A.T @ A / S + 0.1 * np.eye(D), 2 * A.T @ B / S), rtol=1e-7)
    assert certify(problem, best).relative <= 1e-8


@pytest.mark.parametrize("domain", [Ball(0.5), Box(-0.2, 0.6)], ids=repr)
def test_the_optimum_on_a_domain_is_certified(domain):
    problem = bellman(P, REWARD, PHI, domain=domain)
    assert certify(problem, exact(problem)).relative <= 1e-6


def test_a_certificate_without_a_penalty_knows_that_squares_are_not_negative():
    problem = bellman(P, REWARD, PHI)
    best = exact(problem)
    found = certify(problem, best)
    assert pytest.approx(found.dual, abs=1e-12) == 0.0
    assert found.primal == pytest.approx(best.value, rel=1e-9)


@pytest.mark.parametrize("sampling", ["simulator", "uniform"])
def test_alexr_converges_to_the_optimum(sampling):
    problem = bellman(P, REWARD, PHI, l2=0.05, domain=Ball(10.0), sampling=sampling)
    result = minimize(problem, ALEXR(0.1, 0.3), budget=Budget(iterations=20_000), rng=0)
    assert result.value - exact(problem).value <= 2e-3


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, scipy.sparse.coo_matrix, np.ndarray.tolist])
def test_probabilities_in_any_form_are_the_same(form):
    assert bellman(form(P), REWARD, PHI).value(W) == pytest.approx(bellman(P, REWARD, PHI).value(W), rel=1e-12)


def test_rewards_in_any_form_are_the_same():
    own = REWARD[:, 0]
    wide = np.repeat(own[:, None], S, axis=1)
    values = [
        bellman(p, r, PHI).value(W)
        for p in (P, scipy.sparse.csr_array(P))
        for r in (own, wide, scipy.sparse.csr_array(wide))
    ]
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_rows_that_nearly_sum_to_one_are_divided_by_their_sum():
    near = P * (1.0 + 1e-8)
    assert bellman(near, REWARD, PHI).value(W) == pytest.approx(bellman(P, REWARD, PHI).value(W), rel=1e-12)


def test_penalties_and_domains_are_joined():
    assert bellman(P, REWARD, PHI).penalty == NoPenalty()
    assert bellman(P, REWARD, PHI, domain=Ball(2.0)).penalty == Ball(2.0)
    assert bellman(P, REWARD, PHI, l2=1, domain=Ball(2.0)).penalty == Restricted(L2(1.0), Ball(2.0))


def test_the_arrays_of_the_caller_are_left_alone():
    mine, sparse = P.copy(), scipy.sparse.csr_array(2.0 * P / 2.0)
    bellman(mine, REWARD, PHI)
    bellman(sparse, REWARD, PHI)
    mine *= 0.5
    np.testing.assert_array_equal(sparse.toarray(), P)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"P": P[:, 1:]}, ValueError, r"P must have shape \(20, 20\), got \(20, 19\)"),
        ({"P": scipy.sparse.csr_array(P[:3])}, ValueError, r"P must have shape \(20, 20\)"),
        ({"P": 0.5 * P}, ValueError, r"P must have rows that sum to one, row \d+ sums to 0\.5"),
        ({"P": P - 2.0 * np.eye(S)}, ValueError, "P must hold probabilities, it holds a negative number"),
        ({"P": np.full((S, S), np.nan)}, ValueError, "P must hold probabilities"),
        ({"P": np.full((S, S), "a")}, ValueError, "P must hold numbers"),
        ({"reward": REWARD[1:]}, ValueError, r"reward must have shape \(20,\) or \(20, 20\)"),
        ({"reward": np.full(S, np.inf)}, ValueError, "reward must be finite"),
        ({"features": PHI[:, 0]}, ValueError, "features must have a row for each state"),
        ({"features": np.full((S, 1), np.nan)}, ValueError, "features must be finite"),
        ({"discount": 1.1}, ValueError, r"discount must be between 0 and 1, got 1\.1"),
        ({"discount": "much"}, TypeError, "discount must be a number"),
        ({"sampling": "all"}, ValueError, "sampling must be one of simulator, uniform, exact, got 'all'"),
        ({"domain": 3.0}, TypeError, r"domain must be a domain spec such as Ball\(1.0\), got 3\.0"),
        ({"l2": -1.0}, ValueError, "l2 must be finite and not negative"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, error, sentence):
    given = {"P": P, "reward": REWARD, "features": PHI, **options}
    with pytest.raises(error, match=sentence):
        bellman(given.pop("P"), given.pop("reward"), given.pop("features"), **given)
