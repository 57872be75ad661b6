"""Transitions by their laws: stored, observed and generated; by chance, by number and in parts."""

import itertools
import warnings

import numpy as np
import pytest
from numba import njit

from tests.drawing import drawn, drawn_part
from xrisk.applications import bellman
from xrisk.inner import (
    Generated,
    batch_value,
    draw_part,
    exact_values,
    generated_transitions,
    has_parts,
    inner_count,
    inner_lipschitz,
    inner_samples,
    new_batch,
    sample_lipschitz,
)
from xrisk.inner.generated import generated_means, hashed, materialised, numbers_at, write_entries
from xrisk.inner.oracle import part_count, sample_parts, sample_range
from xrisk.inner.transitions import draw_transition, transition_at, transition_range
from xrisk.solvers.card import IN_PARTS

RNG = np.random.default_rng(3)
S, D = 50, 3
LAW = generated_transitions(S, 11)
P, REWARD = materialised(LAW)
PHI = RNG.standard_normal((S, D))
SPARSE = P * (RNG.random((S, S)) < 0.2) + 0.01 * np.eye(S)
SPARSE /= SPARSE.sum(axis=1, keepdims=True)
SPARSE[7] = 0.0  # where the episode ends
BEFORE, AFTER = RNG.integers(0, S, 300), RNG.integers(-1, S, 300)
LARGE = 2**63 - 1
W = np.array([0.8, -0.3, 0.5])


def inner(transitions, rewards, sampling):
    return bellman(transitions, rewards, PHI, discount=0.7, sampling=sampling).inner


GIVEN = {"dense": (P, REWARD), "ends": (SPARSE, REWARD), "observed": ((BEFORE, AFTER), RNG.random(300))}
GIVEN["generated"] = (LAW, None)
UNIFORM = {name: inner(*given, "uniform") for name, given in GIVEN.items()}
SIMULATED = {name: inner(*given, "simulator") for name, given in GIVEN.items()}
LAWS = {**{f"uniform {name}": g for name, g in UNIFORM.items()}, **{f"simulator {n}": g for n, g in SIMULATED.items()}}
every_law = pytest.mark.parametrize("g", LAWS.values(), ids=LAWS)
every_uniform = pytest.mark.parametrize("g", UNIFORM.values(), ids=UNIFORM)


def values(g, w):
    out = np.empty((inner_count(g), 1))
    exact_values(g, w, out)
    return out[:, 0]


def sampled(g, i, batch):
    out = np.empty(1)
    batch_value(g, i, W, batch, out)
    return out[0]


@every_law
def test_draws_are_unbiased(g):
    rng, room = np.random.default_rng(0), new_batch(g, 4)
    found = np.array([sampled(g, 7, drawn(g, 7, rng, room)) for _ in range(2000)])
    assert abs(found.mean() - values(g, W)[7]) <= 4.5 * found.std() / np.sqrt(found.size) + 1e-12


def transitions(law, i, count, rng):
    out = np.empty((count, 3))
    for k in range(count):
        successor, reward, weight = draw_transition(law, i, rng)
        out[k, 0], out[k, 1], out[k, 2] = successor, reward, weight
    return out


@pytest.mark.slow
@every_law
def test_compiled_draws_are_those_of_python(g):
    compiled = njit(transitions)(g.law, 5, 20, np.random.default_rng(1))
    np.testing.assert_array_equal(compiled, transitions(g.law, 5, 20, np.random.default_rng(1)))


@every_uniform
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_parts_add_up_to_the_inner_functions(g, size):
    room, total = new_batch(g, size), np.zeros(inner_count(g))
    for i, first, share in zip(*sample_parts(g, size, part_count(g, size)), strict=True):
        total[i] += share * sampled(g, i, drawn_part(g, i, first, room))
    np.testing.assert_allclose(total, values(g, W), rtol=1e-10, atol=1e-12)


def part_rows(g, i, first, size):
    batch = new_batch(g, size)
    draw_part(g, i, first, batch)
    return batch.row, batch.shift


@pytest.mark.slow
@every_uniform
def test_compiled_parts_are_those_of_python(g):
    here, there = part_rows(g, 3, 2, 4), njit(part_rows)(g, 3, 2, 4)
    np.testing.assert_allclose(there[0], here[0], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(there[1], here[1], rtol=1e-13)


@every_law
def test_samples_are_numbered_state_after_state(g):
    ranges = [sample_range(g, i) for i in range(inner_count(g))]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == inner_samples(g)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))


@every_uniform
def test_equally_likely_samples_can_be_taken_in_parts(g):
    assert has_parts(g, 4)


@pytest.mark.parametrize("g", SIMULATED.values(), ids=SIMULATED)
def test_samples_that_are_not_equally_likely_cannot(g):
    assert not has_parts(g, 4)
    with pytest.raises(TypeError, match="transition_at is not implemented for"):
        draw_part(g, 0, 0, new_batch(g, 2))


def test_methods_that_take_parts_ask_the_law():
    assert IN_PARTS.met(bellman(P, REWARD, PHI, sampling="uniform"))
    assert not IN_PARTS.met(bellman(P, REWARD, PHI))


@every_uniform
def test_numbered_transitions_average_to_the_law(g):
    low, high = transition_range(g.law, 4)
    found = [transition_at(g.law, 4, k) for k in range(high - low)]
    assert np.mean([weight for _, _, weight in found]) == pytest.approx(1.0)
    assert np.mean([weight * reward for _, reward, weight in found]) == pytest.approx(g.mean_reward[4])


def sample_norms(g):
    for i in range(inner_count(g)):
        for k in range(np.diff(transition_range(g.law, i))[0]):
            successor, _, weight = transition_at(g.law, i, k)
            yield np.linalg.norm(g.features[i] - (successor >= 0) * weight * g.discount * g.features[successor])


@pytest.mark.parametrize("name", ["dense", "ends", "observed"])
def test_the_bound_on_stored_samples_is_their_largest(name):
    assert sample_lipschitz(UNIFORM[name]) == pytest.approx(max(sample_norms(UNIFORM[name])))
    assert sample_lipschitz(UNIFORM[name]) > inner_lipschitz(UNIFORM[name])


def test_the_bound_on_generated_samples_holds():
    largest = max(sample_norms(UNIFORM["generated"]))
    assert largest <= sample_lipschitz(UNIFORM["generated"]) <= 2.0 * largest


@pytest.mark.parametrize("g", SIMULATED.values(), ids=SIMULATED)
def test_the_bound_on_simulated_samples_holds(g):
    rng, room = np.random.default_rng(0), new_batch(g, 1)
    rows = [np.linalg.norm(drawn(g, i, rng, room).row) for i in range(inner_count(g)) for _ in range(20)]
    assert max(rows) <= sample_lipschitz(g) * (1.0 + 1e-12)


def test_generated_probabilities_sum_to_one():
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-13)
    assert (P > 0.0).all()
    assert ((REWARD > 0.0) & (REWARD < 1.0)).all()


def test_generated_numbers_look_uniform_and_unlike():
    u, r = P * LAW.sums[:, None], REWARD
    for numbers in (u, r):
        assert np.histogram(numbers, 10, (0.0, 1.0))[0].std() <= 3.0 * np.sqrt(S * S / 10)
        assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) <= 0.06
    assert abs(np.corrcoef(u.ravel(), r.ravel())[0, 1]) <= 0.06
    assert np.unique(u).size == S * S


def test_generated_numbers_depend_on_the_seed():
    assert not np.isin(materialised(generated_transitions(S, 12))[1], REWARD).any()


def test_compiled_hashes_are_those_of_python():
    compiled, plain = np.empty((2, 2, 6)), np.empty((2, 2, 6))
    for seed in (0, LARGE):
        write_entries(seed, LARGE - 1, *compiled)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            write_entries.py_func(np.int64(seed), np.int64(LARGE - 1), *plain)
        np.testing.assert_array_equal(compiled, plain)


def test_hashes_are_those_of_splitmix64():
    # the first outputs of the reference implementation at state 1234567, less their last bit
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [hashed(1234567, j) for j in range(4)] == [z >> 1 for z in published]


def test_hashes_stay_in_their_range():
    found = [hashed(z, 0) for z in (0, 1, LARGE, LARGE - 1)]
    assert all(0 <= z <= LARGE for z in found)
    assert len(set(found)) == 4
    assert all(0.0 < number < 1.0 for z in found for number in numbers_at(z, z))


def test_generated_means_are_those_of_the_matrix():
    means, rewards = generated_means(LAW, PHI)
    np.testing.assert_allclose(means, P @ PHI, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(rewards, (P * REWARD).sum(axis=1), rtol=1e-12)


def test_generated_transitions_are_those_of_the_matrix():
    dense, generated = UNIFORM["dense"], UNIFORM["generated"]
    assert transition_range(generated.law, 3) == (3 * S, 4 * S)
    for k in (0, 17, S - 1):
        np.testing.assert_allclose(transition_at(generated.law, 3, k), transition_at(dense.law, 3, k), rtol=1e-12)
    np.testing.assert_allclose(values(generated, W), values(dense, W), rtol=1e-12)


def test_generated_transitions_take_one_number_for_each_state():
    assert [np.size(part) for part in UNIFORM["generated"].law] == [1, S]


@pytest.mark.parametrize("seed", [-1, 1.5, 2**63])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be"):
        generated_transitions(3, seed)


def test_the_default_is_a_chain_of_one_state():
    assert Generated().sums.size == 1
