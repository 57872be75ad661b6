"""Bellman residuals: values, least squares, certificates and sampled solvers."""

import numpy as np
import pytest
import scipy.sparse

from xrisk import Budget, certify, minimize
from xrisk.applications import averaged_bellman, bellman
from xrisk.datasets import make_mdp
from xrisk.functions import L2, Ball, Box, NonNegative, NoPenalty, Restricted
from xrisk.inner import generated_transitions, inner_count, inner_samples
from xrisk.inner.generated import materialised
from xrisk.solvers import ALEXR, Auto, exact

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


@pytest.mark.slow
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


@pytest.mark.parametrize("state", [bellman, averaged_bellman])
def test_a_domain_without_parameters_is_kept(state):
    assert state(P, REWARD, PHI, domain=NonNegative()).value(-np.ones(D)) == np.inf


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        (
            {"P": P[:, 1:]},
            ValueError,
            r"P must have shape \(20, 20\), one row for each row of features, got \(20, 19\)",
        ),
        ({"P": scipy.sparse.csr_array(P[:3])}, ValueError, r"P must have shape \(20, 20\)"),
        ({"P": 0.5 * P}, ValueError, r"P must have rows that sum to one, row \d+ sums to 0\.5"),
        ({"P": P - 2.0 * np.eye(S)}, ValueError, "P must hold probabilities, got -1.9"),
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


# P given as observations, with ends of episodes


def test_observed_transitions_are_counted():
    before, after = np.array([0, 0, 0, 2, 2]), np.array([1, 1, 2, 0, -1])
    rewards = np.array([1.0, 2.0, 6.0, 4.0, 8.0])
    problem = bellman((before, after), rewards, np.eye(3), discount=0.5)
    np.testing.assert_allclose(problem.inner.mean_reward, [3.0, 6.0])
    v = np.array([10.0, 20.0, 30.0])
    residuals = [10.0 - 3.0 - 0.5 * (2 / 3 * 20.0 + 1 / 3 * 30.0), 30.0 - 6.0 - 0.5 * 0.5 * 10.0]
    placed = v[[0, 2, 1]]  # states that are left come first in the features, not in w
    assert problem.value(v) == pytest.approx(np.mean(np.square(residuals)))
    np.testing.assert_array_equal(problem.inner.features @ v, placed)


def test_rewards_of_observed_transitions_may_be_those_of_the_states():
    before, after = np.array([0, 0, 1]), np.array([1, 2, 2])
    by_state = bellman((before, after), [5.0, 7.0, 9.0, 0.0], np.eye(4))
    by_transition = bellman((before, after), [5.0, 5.0, 7.0], np.eye(4))
    w = np.arange(4.0)
    assert by_state.value(w) == pytest.approx(by_transition.value(w))


def test_observed_transitions_are_a_matrix_of_frequencies():
    before, after = RNG.integers(0, S, 400), RNG.integers(0, S, 400)
    before[:S] = np.arange(S)
    counts = np.zeros((S, S))
    np.add.at(counts, (before, after), 1.0)
    frequencies = counts / counts.sum(axis=1, keepdims=True)
    reward = RNG.random(S)
    assert bellman((before, after), reward[before], PHI).value(W) == pytest.approx(
        bellman(frequencies, reward, PHI).value(W), rel=1e-12
    )


CHAIN = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]])  # the episode ends in the last state
SOLVED = np.array([1.0 + 0.8 * 16.0 / 3.0, 16.0 / 3.0, 3.0])  # v₂ = 2 + 0.4 v₂ + 0.4·3, v₃ = 3


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("sampling", ["simulator", "uniform", "exact"])
def test_a_chain_with_an_end_is_solved_as_by_hand(form, sampling):
    problem = bellman(form(CHAIN), [1.0, 2.0, 3.0], np.eye(3), discount=0.8, sampling=sampling)
    assert problem.value(SOLVED) == pytest.approx(0.0, abs=1e-20)
    np.testing.assert_allclose(exact(problem).w, SOLVED, rtol=1e-6)


def test_an_end_that_is_observed_has_its_reward():
    ended = (np.array([0, 1, 1, 2]), np.array([1, 1, 2, -1]))
    problem = bellman(ended, [1.0, 2.0, 2.0, 3.0], np.eye(3), discount=0.8)
    assert problem.value(SOLVED) == pytest.approx(0.0, abs=1e-20)


def test_no_reward_of_a_transition_is_earned_at_the_end():
    problem = bellman(CHAIN, np.ones((3, 3)), np.eye(3), discount=0.8)
    np.testing.assert_array_equal(problem.inner.mean_reward, [1.0, 1.0, 0.0])
    np.testing.assert_array_equal(problem.inner.mean_rows[2], [0.0, 0.0, 1.0])


# the same objective without sampling


@pytest.mark.parametrize("features", [PHI, scipy.sparse.csr_array(PHI)], ids=["dense", "sparse"])
def test_exact_rows_are_one_for_each_state(features):
    problem = bellman(P, REWARD, features, l2=0.1, sampling="exact")
    assert inner_count(problem.inner) == inner_samples(problem.inner) == S
    assert problem.value(W) == pytest.approx(bellman(P, REWARD, PHI, l2=0.1).value(W), rel=1e-12)


@pytest.mark.slow
def test_alexr_runs_on_exact_rows():
    problem = bellman(P, REWARD, PHI, l2=0.05, domain=Ball(10.0), sampling="exact")
    result = minimize(problem, ALEXR(0.1, 0.3), budget=Budget(iterations=20_000), rng=0)
    assert result.value - exact(problem).value <= 1e-4


@pytest.mark.parametrize("l2", [0.0, 0.1])
@pytest.mark.parametrize("features", [PHI, scipy.sparse.csr_array(PHI)], ids=["dense", "sparse"])
@pytest.mark.parametrize("domain", [None, Ball(0.5)], ids=["free", "ball"])
def test_the_averaged_objective_is_the_same(features, l2, domain):
    averaged = averaged_bellman(P, REWARD, features, l2=l2, domain=domain)
    assert averaged.value(W / 2) == pytest.approx(bellman(P, REWARD, PHI, l2=l2, domain=domain).value(W / 2), rel=1e-12)


@pytest.mark.parametrize("features", [np.c_[PHI, PHI], np.eye(S)], ids=["singular", "perfect"])
def test_the_averaged_objective_is_the_same_as_rows(features):
    w = RNG.standard_normal(features.shape[1])
    averaged = averaged_bellman(P, REWARD, features)
    assert averaged.value(w) == pytest.approx(bellman(P, REWARD, features).value(w), rel=1e-12)
    assert inner_samples(averaged.inner) == S


def test_weights_of_states_that_are_whole_numbers_repeat_residuals():
    weight = np.arange(S) % 3
    residuals = np.repeat(A @ W - B, weight)
    assert averaged_bellman(P, REWARD, PHI, state_weight=weight).value(W) == pytest.approx(np.mean(residuals**2))
    assert averaged_bellman(P, REWARD, np.c_[PHI, PHI], state_weight=weight).value(np.append(W, 0 * W)) == (
        pytest.approx(np.mean(residuals**2))
    )


@pytest.mark.parametrize("domain", [None, Ball(0.5), Box(-0.2, 0.6)], ids=repr)
def test_without_a_penalty_the_averaged_optimum_is_certified(domain):
    problem = averaged_bellman(P, REWARD, PHI, domain=domain)
    result = minimize(problem, Auto(1e-8), budget=Budget(iterations=200))
    assert result.certificate.relative <= 1e-8
    assert result.value == pytest.approx(exact(bellman(P, REWARD, PHI, domain=domain)).value, rel=1e-6)


@pytest.mark.parametrize(("states", "d"), [(10, 5), pytest.param(10_000, 10, marks=pytest.mark.slow)])
def test_both_formulations_of_the_paper_have_the_closed_form(states, d):
    mdp = make_mdp(states, d, random_state=0)
    given = mdp.transitions, mdp.rewards, mdp.features
    problem = bellman(*given, sampling="uniform")
    rows, targets = problem.inner.mean_rows, problem.inner.mean_reward
    best = np.linalg.lstsq(rows, targets)[0]
    least = np.mean((rows @ best - targets) ** 2)
    for form in (problem, bellman(*given), bellman(*given, sampling="exact"), averaged_bellman(*given)):
        assert form.value(best) == pytest.approx(least, rel=1e-9)
    result = minimize(averaged_bellman(*given), Auto(1e-6), budget=Budget(iterations=100))
    assert result.certificate.relative <= 1e-6
    assert result.value == pytest.approx(least, rel=1e-6)


def test_generated_transitions_are_those_of_their_matrix():
    law = generated_transitions(S, 5)
    dense, reward = materialised(law)
    assert bellman(law, None, PHI).value(W) == pytest.approx(bellman(dense, reward, PHI).value(W), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("sampling", ["simulator", "uniform"])
def test_alexr_converges_on_generated_transitions(sampling):
    problem = bellman(generated_transitions(S, 5), None, PHI, l2=0.05, domain=Ball(10.0), sampling=sampling)
    result = minimize(problem, ALEXR(0.1, 0.3), budget=Budget(iterations=20_000), rng=0)
    assert result.value - exact(problem).value <= 2e-3


def test_sparse_features_are_sampled_where_they_are_small():
    assert bellman(P, REWARD, scipy.sparse.csr_array(PHI)).value(W) == pytest.approx(bellman(P, REWARD, PHI).value(W))
    wide = scipy.sparse.csr_array((np.ones(1), ([0], [0])), shape=(S, 10**6))
    with pytest.raises(ValueError, match=r"features must be dense .* got 20000000: averaged_bellman, sampling='exact'"):
        bellman(P, REWARD, wide)


def test_a_sparse_table_of_values_stays_sparse():
    mdp = make_mdp(10_000, 1, successors=3, random_state=0)
    problem = averaged_bellman(mdp.transitions, mdp.rewards, scipy.sparse.eye_array(10_000, format="csr"))
    assert problem.inner.model.rows.data.size <= 4 * 10_000


PAIR = (np.array([0, 1]), np.array([1, -1]))


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"P": PAIR[:1]}, ValueError, r"P must be a matrix or a pair \(states, successors\), got a tuple of 1"),
        (
            {"P": (PAIR[0], PAIR[1][:1])},
            ValueError,
            r"index arrays of one length, at least 1, got shapes \(2,\) and \(1,",
        ),
        ({"P": (np.zeros(0, int), np.zeros(0, int))}, ValueError, "of one length, at least 1"),
        ({"P": (PAIR[0] + 0.5, PAIR[1])}, ValueError, "P must hold numbers of states, got dtype float64"),
        ({"P": (PAIR[0] + S, PAIR[1])}, ValueError, "P must hold states from 0 to 19, got 21"),
        ({"P": (PAIR[0], PAIR[1] - 1)}, ValueError, "P must hold successors from -1 to 19, got -2"),
        ({"P": PAIR, "reward": np.ones(3)}, ValueError, r"reward must have shape \(2,\), one for each transition, or"),
        ({"P": PAIR, "reward": np.array([1.0, np.nan])}, ValueError, "reward must be finite"),
        ({"P": generated_transitions(S)}, ValueError, "reward must be None for generated transitions"),
        ({"P": generated_transitions(3)}, ValueError, "P must have a state for each of the 20 rows of features, got 3"),
        ({"reward": np.full(S, 1e200)}, ValueError, r"reward must be at most 1e\+150 in size"),
        ({"P": scipy.sparse.csr_array(P.astype(complex))}, ValueError, "P must hold numbers, got dtype complex128"),
        ({"features": scipy.sparse.csr_array(PHI * np.nan)}, ValueError, "features must be finite"),
    ],
)
def test_what_is_wrong_with_observations_is_said_in_one_sentence(options, error, sentence):
    given = {"P": P, "reward": REWARD, "features": PHI, **options}
    with pytest.raises(error, match=sentence) as caught:
        bellman(given["P"], given["reward"], given["features"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (np.ones(3), r"state_weight must have shape \(20,\), got \(3,\)"),
        (-np.ones(S), "state_weight must be finite and not negative"),
        (np.full(S, np.inf), "state_weight must be finite and not negative"),
        (np.zeros(S), "state_weight must be positive for some state that is left, it is zero for all"),
    ],
)
def test_wrong_weights_are_refused(weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        averaged_bellman(P, REWARD, PHI, state_weight=weight)
