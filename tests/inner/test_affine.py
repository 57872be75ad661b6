"""Affine inner functions known through samples: perturbed rows and Bellman residuals."""

import numpy as np
import pytest
import scipy.sparse
from numba import njit

from tests.drawing import drawn
from xrisk import Problem
from xrisk.applications import bellman
from xrisk.data.rows import frozen
from xrisk.functions import Softplus
from xrisk.inner import (
    Dropout,
    Gaussian,
    Perturbed,
    Sampler,
    WithIntercept,
    as_rows,
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_is_affine,
    inner_lipschitz,
    inner_size,
    inner_smoothness,
    new_batch,
)
from xrisk.inner.passes import as_linear_groups

RNG = np.random.default_rng(7)
X = RNG.standard_normal((5, 3)) + 0.5
LABELS = frozen(np.array([1.0, -1.0, -1.0, 1.0, -1.0]))
P = RNG.random((5, 5)) * (RNG.random((5, 5)) < 0.7) + 0.1 * np.eye(5)
P /= P.sum(axis=1, keepdims=True)
REWARD, PHI = RNG.random((5, 5)), RNG.random((5, 3))
W = np.array([0.8, -0.3, 0.5])


def halved(row, rng):
    return row * rng.integers(0, 2, row.size)


CASES = {
    "gaussian": Perturbed(as_rows(X), LABELS, Gaussian(0.7)),
    "sparse": Perturbed(WithIntercept(as_rows(scipy.sparse.csr_array(X[:, :2]))), LABELS, Gaussian(0.7)),
    "dropout": Perturbed(WithIntercept(as_rows(X[:, :2].astype(np.float32))), LABELS, Dropout(0.4)),
    "sampler": Perturbed(as_rows(0.5 * X), LABELS, Sampler(halved, X)),
    "simulator": bellman(P, REWARD, PHI).inner,
    "uniform": bellman(P, REWARD, PHI, sampling="uniform").inner,
}
every_case = pytest.mark.parametrize("g", CASES.values(), ids=CASES)
compiled_case = pytest.mark.parametrize(
    "g", [g for name, g in CASES.items() if name != "sampler"], ids=[name for name in CASES if name != "sampler"]
)


def values(g, w):
    out = np.empty((inner_count(g), 1))
    exact_values(g, w, out)
    return out[:, 0]


def samples(g, i, size, repeats, seed=0):
    rng, room, out = np.random.default_rng(seed), new_batch(g, size), np.empty(1)
    found = np.empty(repeats)
    for k in range(repeats):
        draw(g, i, rng, room)
        batch_value(g, i, W, room, out)
        found[k] = out[0]
    return found


@every_case
@pytest.mark.parametrize("size", [1, 6])
def test_batches_are_unbiased(g, size):
    found = samples(g, 2, size, 3000)
    assert found.std() > 0.01
    assert abs(found.mean() - values(g, W)[2]) <= 4.0 * found.std() / np.sqrt(found.size)


@every_case
def test_a_batch_is_the_mean_of_its_samples(g):
    one, many = samples(g, 1, 1, 3000), samples(g, 1, 9, 3000, seed=1)
    assert many.var() == pytest.approx(one.var() / 9, rel=0.2)


@every_case
def test_the_gradient_of_a_batch_is_that_of_its_value(g):
    batch, grad = drawn(g, 1, np.random.default_rng(0), new_batch(g, 3)), np.zeros(3)
    batch_vjp(g, 1, W, batch, np.array([2.0]), 0.5, grad)
    at_w, at_zero = np.empty(1), np.empty(1)
    batch_values(g, 1, W, np.zeros(3), batch, at_w, at_zero)
    assert at_w[0] - at_zero[0] == pytest.approx(grad @ W, rel=1e-12)


@every_case
def test_two_points_share_their_samples(g):
    batch = drawn(g, 4, np.random.default_rng(0), new_batch(g, 3))
    both, prev, alone = np.empty(1), np.empty(1), np.empty(1)
    batch_values(g, 4, W, 2 * W, batch, both, prev)
    batch_value(g, 4, 2 * W, batch, alone)
    assert prev[0] == pytest.approx(alone[0], rel=1e-14)


@every_case
def test_a_block_of_no_weight_has_no_gradient(g):
    batch, grad = drawn(g, 1, np.random.default_rng(0), new_batch(g, 3)), np.zeros(3)
    batch_vjp(g, 1, W, batch, np.zeros(1), 0.5, grad)
    np.testing.assert_array_equal(grad, 0.0)


@every_case
def test_the_exact_gradient_is_that_of_the_exact_values(g):
    y, grad = np.arange(5.0)[:, None], np.zeros(3)
    exact_vjp(g, W, y, grad)
    assert y[:, 0] @ (values(g, W) - values(g, np.zeros(3))) == pytest.approx(grad @ W, rel=1e-12)


@every_case
def test_constants_are_those_of_the_mean_rows(g):
    rows = np.stack([values(g, e) - values(g, np.zeros(3)) for e in np.eye(3)], axis=1)
    assert inner_lipschitz(g) == pytest.approx(np.linalg.norm(rows, axis=1).max())
    assert inner_smoothness(g) == 0.0
    assert inner_is_affine(g)


@every_case
def test_linear_groups_have_the_same_values(g):
    same = as_linear_groups(g)
    assert (inner_count(same), inner_size(same)) == (inner_count(g), inner_size(g))
    np.testing.assert_allclose(values(same, W), values(g, W), rtol=1e-14)


def draw_and_look(g, i, rng, size, w, out):
    batch = new_batch(g, size)
    draw(g, i, rng, batch)
    batch_value(g, i, w, batch, out)


@pytest.mark.slow
@compiled_case
def test_compiled_draws_are_those_of_python(g):
    here, there = np.empty(1), np.empty(1)
    draw_and_look(g, 3, np.random.default_rng(5), 4, W, here)
    njit(draw_and_look)(g, 3, np.random.default_rng(5), 4, W, there)
    assert there[0] == pytest.approx(here[0], rel=1e-13)


def test_perturbed_values_are_scores_times_minus_the_label():
    np.testing.assert_allclose(values(CASES["gaussian"], W), -LABELS * (X @ W), rtol=1e-14)
    np.testing.assert_allclose(values(CASES["sampler"], W), -LABELS * (0.5 * X @ W), rtol=1e-14)


def test_an_intercept_is_not_perturbed():
    for name in ("sparse", "dropout"):
        batch = drawn(CASES[name], 0, np.random.default_rng(0), new_batch(CASES[name], 2))
        assert batch.row[-1] == -1.0


def test_bellman_values_are_residuals():
    expected = PHI @ W - (P * REWARD).sum(axis=1) - 0.9 * P @ PHI @ W
    np.testing.assert_allclose(values(CASES["simulator"], W), expected, rtol=1e-12)
    np.testing.assert_array_equal(values(CASES["uniform"], W), values(CASES["simulator"], W))


def test_a_simulator_has_the_lower_variance():
    assert samples(CASES["simulator"], 2, 1, 2000).var() < samples(CASES["uniform"], 2, 1, 2000).var()


def test_successors_of_no_probability_are_never_drawn():
    chain = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    g = bellman(chain, np.zeros(3), np.eye(3), discount=1.0).inner
    batch = drawn(g, 1, np.random.default_rng(0), new_batch(g, 500))
    np.testing.assert_allclose(batch.row, [0.0, 1.0, -1.0], atol=1e-12)


def test_successors_have_their_frequencies():
    g = bellman(P, REWARD, np.eye(5), discount=1.0).inner
    batch = drawn(g, 2, np.random.default_rng(0), new_batch(g, 20_000))
    np.testing.assert_allclose(np.eye(5)[2] - batch.row, P[2], atol=0.015)


@pytest.mark.parametrize(
    ("g", "sentence"),
    [
        (CASES["gaussian"]._replace(noise=Gaussian(-1.0)), r"sigma must be finite and not negative, got -1\.0"),
        (CASES["gaussian"]._replace(noise=Dropout(1.0)), r"rate must be at least 0 and below 1, got 1\.0"),
        (CASES["gaussian"]._replace(target=np.arange(5.0)), "y must hold −1 and 1"),
        (CASES["gaussian"]._replace(target=np.ones(3)), "y must have one entry for each of the 5 rows"),
        (CASES["simulator"]._replace(discount=1.5), r"discount must be between 0 and 1, got 1\.5"),
    ],
)
def test_wrong_specs_are_refused(g, sentence):
    with pytest.raises(ValueError, match=sentence):
        Problem(g, Softplus()).check()


@pytest.mark.parametrize("wrong", [lambda row, rng: row[1:], lambda row, rng: row * np.nan], ids=["short", "nan"])
def test_a_sampler_must_return_rows(wrong):
    g = CASES["sampler"]._replace(noise=Sampler(wrong, X))
    with pytest.raises(ValueError, match="perturbation must return finite rows of shape"):
        drawn(g, 0, np.random.default_rng(0), new_batch(g, 2))
