"""Values of a policy: matrices, observations, trajectories and generated transitions."""

import signal
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xrisk
from xrisk import PolicyEvaluator, Stop
from xrisk.applications import chains
from xrisk.auto.solver import auto_step
from xrisk.datasets import make_mdp
from xrisk.inner import Groups, Reweighted, Simulated, Transitions, generated_transitions
from xrisk.solvers import ALEXR, Drago

MDP = make_mdp(200, 5, random_state=0)
PHI, P, REWARDS = MDP
A, B = PHI - 0.9 * P @ PHI, (P * REWARDS).sum(axis=1)
BEST = np.linalg.lstsq(A, B)[0]
RNG = np.random.default_rng(2)


def fitted(X=PHI, y=None, transitions=P, rewards=REWARDS, state_weight=None, **options):
    model = PolicyEvaluator(**{"tol": 1e-6, **options})
    return model.fit(X, y, transitions=transitions, rewards=rewards, state_weight=state_weight)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, scipy.sparse.csr_matrix, np.ndarray.tolist])
def test_values_are_those_of_least_squares(form):
    model = fitted(transitions=form(P))
    np.testing.assert_allclose(model.coef_, BEST, rtol=1e-6)
    np.testing.assert_allclose(model.predict(PHI), PHI @ BEST, rtol=1e-6)
    assert model.objective_ == pytest.approx(np.mean((A @ BEST - B) ** 2), rel=1e-6)


def test_without_a_penalty_the_fit_is_certified():
    model = fitted()
    assert model.certificate_.relative <= 1e-6
    assert model.certificate_.dual <= np.mean((A @ BEST - B) ** 2) <= model.certificate_.primal + 1e-12
    assert model.stop_ is Stop.CONVERGED


def test_a_ridge_is_that_of_the_closed_form():
    ridge = np.linalg.solve(2 * A.T @ A / 200 + 0.1 * np.eye(5), 2 * A.T @ B / 200)
    np.testing.assert_allclose(fitted(l2=0.1).coef_, ridge, rtol=1e-6)


def test_sparse_features_are_the_same_features():
    np.testing.assert_allclose(fitted(scipy.sparse.csr_array(PHI)).coef_, BEST, rtol=1e-6)


def test_rewards_of_the_states_may_be_the_targets():
    own = RNG.random(200)
    np.testing.assert_array_equal(
        fitted(y=own, rewards=None).coef_,
        fitted(rewards=own).coef_,
    )


def test_targets_of_as_many_transitions_as_states_are_those_of_the_states():
    before, after, own = RNG.permutation(200), RNG.integers(0, 200, 200), RNG.random(200)
    by_state = fitted(y=own, transitions=(before, after), rewards=None)
    by_transition = fitted(transitions=(before, after), rewards=own[before])
    np.testing.assert_allclose(by_state.coef_, by_transition.coef_, rtol=1e-12)


def test_observed_transitions_leave_out_states_that_are_never_left():
    before, after, reward = RNG.integers(0, 150, 2000), RNG.integers(-1, 200, 2000), RNG.random(2000)
    model = fitted(transitions=(before, after), rewards=reward)
    frequencies, means, sizes = np.zeros((200, 201)), np.zeros(200), np.bincount(before, minlength=200)
    np.add.at(frequencies, (before, after), 1.0)
    np.add.at(means, before, reward)
    left = sizes > 0
    rows = (PHI - 0.9 * (frequencies[:, :200] / np.maximum(sizes, 1)[:, None]) @ PHI)[left]
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(rows, means[left] / sizes[left])[0], rtol=1e-6)
    assert model.n_left_out_ == 200 - left.sum() >= 50


def test_without_transitions_the_rows_are_a_trajectory():
    reward = RNG.random(200)
    model = PolicyEvaluator(0.5, tol=1e-6).fit(PHI, reward)
    rows = PHI[:-1] - 0.5 * PHI[1:]
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(rows, reward[:-1])[0], rtol=1e-6)
    assert model.n_left_out_ == 1


@pytest.mark.parametrize("offset", [1e8, 1e9, 1e10, 1e12])
def test_rewards_far_from_zero_are_no_perfect_fit(offset):
    """Their noise is left, however small it is beside the rewards; what is proved of it has lost its digits."""
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(50), rng.standard_normal((50, 3))])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = PolicyEvaluator(0.9).fit(features, offset + rng.standard_normal(50))
    assert model.stop_ is (Stop.CONVERGED if model.certificate_.relative <= model.tol else Stop.ROUNDING)
    assert bool(told) == (model.stop_ is Stop.ROUNDING)


def test_a_chain_with_an_end_is_solved_as_by_hand():
    chain = [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.0]]
    model = PolicyEvaluator(0.8).fit(np.eye(3), [1.0, 1.0, 0.5], transitions=chain)
    np.testing.assert_allclose(model.coef_, [3.0, 2.0, 0.5], rtol=1e-5)
    assert model.stop_ is Stop.PERFECT


def test_a_table_of_values_solves_the_linear_system():
    mdp = make_mdp(400, 1, successors=4, random_state=0)
    model = fitted(np.eye(400), transitions=mdp.transitions, rewards=mdp.rewards)
    np.testing.assert_allclose(
        model.coef_, np.linalg.solve(np.eye(400) - 0.9 * mdp.transitions, mdp.rewards), rtol=1e-4
    )


@pytest.mark.slow
def test_a_large_sparse_table_of_values_satisfies_the_bellman_equation():
    n = 10_000
    mdp = make_mdp(n, 1, successors=3, random_state=0)
    model = fitted(scipy.sparse.eye_array(n, format="csr"), transitions=mdp.transitions, rewards=mdp.rewards)
    v = model.coef_
    np.testing.assert_allclose(v - 0.9 * mdp.transitions @ v, mdp.rewards, atol=1e-5)


@pytest.mark.slow
def test_a_hundred_thousand_states_are_a_table_too():
    n = 100_000
    mdp = make_mdp(n, 1, successors=5, random_state=0)
    model = fitted(scipy.sparse.eye_array(n, format="csr"), transitions=mdp.transitions, rewards=mdp.rewards)
    v = model.coef_
    np.testing.assert_allclose(v - 0.9 * mdp.transitions @ v, mdp.rewards, atol=1e-5)


@pytest.mark.slow
def test_generated_transitions_of_many_states_are_fitted():
    mdp = make_mdp(10_000, 10, random_state=0)
    model = PolicyEvaluator(tol=1e-6).fit(mdp.features, transitions=mdp.transitions)
    assert model.certificate_.relative <= 1e-6
    assert model.n_left_out_ == 0


def test_weights_of_states_that_are_whole_numbers_repeat_residuals():
    times = np.arange(200) % 3
    rows, targets = np.repeat(A, times, axis=0), np.repeat(B, times)
    np.testing.assert_allclose(fitted(state_weight=times).coef_, np.linalg.lstsq(rows, targets)[0], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-140, 1e-5, 1e5, 1e140])
def test_the_scale_of_the_features_does_not_matter_without_a_penalty(scale):
    np.testing.assert_allclose(fitted(scale * PHI).predict(scale * PHI), PHI @ BEST, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-140, 1e140])
def test_the_scale_of_the_rewards_is_that_of_the_values(scale):
    np.testing.assert_allclose(fitted(rewards=scale * REWARDS).predict(PHI) / scale, PHI @ BEST, rtol=1e-6)


def test_columns_of_unlike_scales_are_certified():
    model = fitted(PHI * [1e-4, 1.0, 1.0, 1e4, 1.0])
    assert model.certificate_.relative <= 1e-6


def test_features_in_single_precision_have_values_in_double():
    model = fitted(PHI.astype(np.float32), tol=1e-3)
    assert model.coef_.dtype == np.float64
    np.testing.assert_allclose(model.coef_, BEST, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_computed_whenever_they_are_read_have_the_same_values(monkeypatch, dtype):
    rng = np.random.default_rng(3)
    before, after, reward = rng.integers(0, 150, 500), rng.integers(-1, 200, 500), rng.random(500)
    before[before == 3] = 199  # states that are left stand behind others that are not
    observed = {"transitions": (before, after), "rewards": reward, "state_weight": np.arange(200) % 3}
    once = fitted(PHI.astype(dtype), **observed)
    monkeypatch.setattr(chains, "MANY", 0)
    monkeypatch.setattr("xrisk.applications.policy.residual_matrix", lambda rows: pytest.fail("all rows at once"))
    anew = fitted(PHI.astype(dtype), **observed)
    np.testing.assert_allclose(anew.coef_, once.coef_, rtol=1e-9)
    assert anew.certificate_.relative <= 1e-6
    assert anew.objective_ == pytest.approx(once.objective_, rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_that_fit_without_residual_are_solved_from_rows_that_are_computed_anew(monkeypatch, dtype):
    monkeypatch.setattr(chains, "MANY", 0)
    model = PolicyEvaluator(0.5).fit(np.eye(4, dtype=dtype)[:, ::-1], [1.0, 2.0, 3.0, 4.0])
    assert model.stop_ is Stop.PERFECT


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "columns"), [(np.float32, 200), (np.float64, 100)])
def test_a_memory_map_of_many_rows_is_not_copied(tmp_path, dtype, columns):
    n, rng = 100_000, np.random.default_rng(0)
    data = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=(n, columns))
    for rows in np.array_split(np.arange(n), 20):
        data[rows] = rng.standard_normal((rows.size, columns))
    read, rewards = np.memmap(tmp_path / "X", dtype=dtype, mode="r", shape=(n, columns)), rng.random(n)
    PolicyEvaluator().fit(read[:2000], rewards[:2000])  # compiles
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model = PolicyEvaluator().fit(read, rewards)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert model.certificate_.relative <= 1e-3
    assert peak <= 0.2 * read.nbytes


@pytest.mark.slow
def test_rows_of_several_successors_are_not_copied():
    n, rng = 100_000, np.random.default_rng(0)
    rows, rewards = rng.standard_normal((n, 100)), rng.random(n)
    followed = scipy.sparse.csr_array(
        (np.full(8 * n, 1 / 8), rng.integers(0, n, 8 * n), np.arange(0, 8 * n + 1, 8)), shape=(n, n)
    )
    followed.sum_duplicates()
    PolicyEvaluator().fit(rows[:2000], rewards[:2000])  # compiles
    tracemalloc.start()
    PolicyEvaluator().fit(rows, rewards, transitions=followed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 0.4 * rows.nbytes  # the transitions alone are a sixth


def stated(monkeypatch, solver):
    held = []
    monkeypatch.setattr(PolicyEvaluator, "_solve", lambda self, problem, *others: held.append(problem) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted(solver=solver)
    return held[0].inner


def test_a_solver_of_ones_own_samples_successors_from_the_simulator(monkeypatch):
    assert isinstance(stated(monkeypatch, ALEXR()).law, Simulated)


def test_a_solver_without_a_card_samples_too(monkeypatch):
    class Plain:
        def advance(self):
            """Nothing."""

    assert isinstance(stated(monkeypatch, Plain()), Transitions)


class Counting(ALEXR):
    """A method that takes its samples in order."""

    def card(self):
        return super().card()._replace(needs=Drago().card().needs[-1:])


def test_a_solver_that_takes_samples_in_order_gets_equally_likely_ones(monkeypatch):
    assert [need.words for need in Counting().card().needs] == [
        "inner functions whose samples can be taken in order, such as Groups"
    ]
    assert isinstance(stated(monkeypatch, Counting()).law, Reweighted)


def test_auto_has_the_expectations_taken_first(monkeypatch):
    inner = stated(monkeypatch, "auto")
    assert isinstance(inner, Groups)
    assert inner.model.target.size == 5


@pytest.mark.slow
def test_a_sampled_fit_nears_the_optimum():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fitted(solver=ALEXR(0.1, 0.3), max_iter=20_000, l2=0.05, random_state=0)
    assert model.objective_ <= 1.02 * fitted(l2=0.05).objective_


def test_transitions_are_routed_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        model = PolicyEvaluator().set_fit_request(transitions=True, rewards=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(PHI, transitions=P, rewards=REWARDS)
    scaled = StandardScaler().fit_transform(PHI)
    np.testing.assert_allclose(pipeline[-1].coef_, fitted(scaled).coef_, rtol=1e-3)


def test_a_saved_model_is_the_same_model(tmp_path):
    model = fitted()
    xrisk.save(model, tmp_path / "values.xrisk")
    again = xrisk.load(tmp_path / "values.xrisk")
    np.testing.assert_equal(vars(again), vars(model))


def test_a_file_with_a_wrong_count_is_refused():
    model = fitted()
    model.n_left_out_ = -1
    with pytest.raises(ValueError, match="n_left_out_ must be a whole number from 0 on, got -1"):
        model.check()


def test_ctrl_c_keeps_the_best_model(monkeypatch):
    def pressed(problem, solver, state, rng):
        if state.t == 2:
            signal.raise_signal(signal.SIGINT)
        return auto_step(problem, solver, state, rng)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("xrisk.auto.solver.auto_step", pressed)
    with pytest.warns(ConvergenceWarning, match="interrupted: this is the best point seen so far"):
        model = fitted(np.eye(200))  # of which every column counts: many iterations
    assert model.stop_ is Stop.INTERRUPTED
    assert model.objective_ < model.trace_[0].value
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


def test_features_that_do_not_determine_the_values_are_told():
    with pytest.warns(ConvergenceWarning, match="without a penalty a proof needs features of which none"):
        model = fitted(np.c_[PHI, PHI[:, 0]])
    assert model.objective_ == pytest.approx(np.mean((A @ BEST - B) ** 2), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"discount": 1.0}, r"discount must be at least 0 and below 1, got 1\.0"),
        ({"discount": -0.1}, r"discount must be at least 0 and below 1, got -0\.1"),
        ({"discount": np.nan}, "discount must be at least 0 and below 1, got nan"),
        ({"transitions": P[1:]}, r"transitions must have shape \(200, 200\), one .* of X, got \(199, 200\)"),
        ({"transitions": scipy.sparse.csr_array(P[1:])}, r"transitions must have shape \(200, 200\), one row for each"),
        ({"transitions": 2.0 * P}, r"transitions must have rows that sum to one, row \d+ sums to 2"),
        ({"transitions": P - np.eye(200)}, r"transitions must hold probabilities, got -0\.9"),
        ({"transitions": P * np.nan}, "transitions must hold probabilities, got nan"),
        ({"transitions": scipy.sparse.csr_array(P * np.inf)}, "transitions must hold probabilities, got inf"),
        ({"transitions": np.full((200, 200), "a")}, "transitions must hold numbers"),
        (
            {"transitions": (np.arange(3), np.arange(198, 201))},
            "must hold successors from -1 to 199, got 200",
        ),
        (
            {"transitions": make_mdp(2001, 1).transitions, "rewards": None},
            "of the 200 rows of X, got 2001 states",
        ),
        ({"rewards": REWARDS[1:]}, r"rewards must have shape \(200,\) or \(200, 200\), got \(199, 200\)"),
        ({"rewards": np.full(200, np.nan)}, "rewards must be finite, got nan"),
        ({"rewards": np.full(200, -np.inf)}, "rewards must be finite, got -inf"),
        ({"rewards": np.full(200, 1e200)}, "rewards must be at most"),
        ({"rewards": ["a"] * 200}, "rewards must hold numbers"),
        ({"rewards": None}, "PolicyEvaluator requires y to be passed, .* give the rewards as y or as rewards"),
        ({"y": np.ones(200)}, "rewards must be given once, got y and rewards"),
        (
            {"y": np.ones(200), "rewards": None, "transitions": generated_transitions(200)},
            "y must be None for generated",
        ),
        ({"y": np.full(200, 1e200), "rewards": None}, "y must be at most"),
        ({"y": np.ones(3), "rewards": None}, "inconsistent numbers of samples"),
        ({"X": PHI * 1e200}, r"columns of X must be at most 1e\+150 in size"),
        ({"X": PHI * np.nan}, "NaN"),
        ({"X": np.ma.masked_less(PHI, 0.1)}, "X must not be masked: fill the masked entries"),
        ({"X": PHI[:0]}, "0 sample"),
        ({"X": PHI[:1], "transitions": None, "rewards": [1.0]}, "at least two states for a trajectory, got 1 sample"),
        ({"state_weight": np.ones(200), "solver": ALEXR()}, "state_weight must be None for a solver that samples"),
        ({"state_weight": np.zeros(200)}, "state_weight must be positive"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted(**options)


def test_a_discount_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match="discount must be a number, got 'much'"):
        fitted(discount="much")


def test_a_fit_without_residual_is_not_given_a_bound_above_it():
    rng = np.random.default_rng(0)
    features, P = rng.standard_normal((7, 7)), rng.random((7, 7))
    P /= P.sum(axis=1, keepdims=True)
    model = PolicyEvaluator(0.999999).fit(features, transitions=P, rewards=20.0 * rng.random((7, 7)))
    assert model.certificate_.dual <= 1e-17


def test_sparse_features_of_generated_transitions():
    mdp = make_mdp(2001, 3, random_state=0)
    dense = PolicyEvaluator().fit(mdp.features, transitions=mdp.transitions)
    sparse = PolicyEvaluator().fit(scipy.sparse.csr_array(mdp.features), transitions=mdp.transitions)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9)


def test_a_class_is_no_solver():
    with pytest.raises(ValueError, match="solver must be 'auto' or a solver spec"):
        PolicyEvaluator(solver=xrisk.solvers.ALEXR).fit(np.eye(2), [1.0, 2.0])


def test_sampled_methods_without_a_penalty_are_told_that_they_prove_nothing():
    with pytest.warns(UserWarning, match="without a penalty only solver='auto' proves a bound"):
        PolicyEvaluator(solver=xrisk.solvers.SPDC(), max_iter=3).fit(np.ones((3, 1)), [1.0, 2.0, 3.0])


def test_a_table_of_observed_transitions_is_told_to_be_a_tuple():
    with pytest.raises(ValueError, match=r"got \(2, 3\): observed transitions are a tuple \(states, successors\)"):
        PolicyEvaluator().fit(np.eye(4), transitions=[[0, 1, 2], [1, 2, 3]], rewards=[1.0, 1.0, 1.0])


def test_sparse_rewards_of_observed_transitions_are_refused_by_their_shape():
    with pytest.raises(ValueError, match=r"rewards must have shape \(2,\).*got \(3, 3\)"):
        PolicyEvaluator().fit(np.eye(3), transitions=([0, 1], [1, 2]), rewards=scipy.sparse.eye_array(3))
