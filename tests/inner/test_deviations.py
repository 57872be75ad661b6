"""Deviations from the mean: samples are differences of rows, and their means are the deviations."""

import numpy as np
import pytest

from tests.drawing import drawn, drawn_part
from xrisk.inner import Deviations, exact_values, inner_samples, new_batch, sample_lipschitz
from xrisk.inner.oracle import sample_parts, sample_range

RNG = np.random.default_rng(0)
RETURNS = RNG.standard_normal((7, 3)) + 5.0
INNER = Deviations(RETURNS - RETURNS.mean(axis=0))
W = RNG.standard_normal(3)


def test_values_are_deviations_from_the_mean():
    out = np.empty((7, 1))
    exact_values(INNER, W, out)
    assert out[:, 0] == pytest.approx((RETURNS - RETURNS.mean(axis=0)) @ W)


def test_a_batch_is_the_mean_of_differences_of_rows():
    batch = drawn(INNER, 2, np.random.default_rng(1), new_batch(INNER, 1))
    differences = RETURNS[2] - RETURNS
    assert np.abs(differences - batch.row).sum(axis=1).min() < 1e-12
    assert batch.shift[0] == 0.0


def test_batches_have_the_right_mean():
    rng, batch, total = np.random.default_rng(2), new_batch(INNER, 4), np.zeros(3)
    for _ in range(4000):
        total += drawn(INNER, 3, rng, batch).row / 4000
    assert total == pytest.approx(INNER.rows[3], abs=0.05)


@pytest.mark.parametrize("size", [1, 3, 7, 10])
def test_parts_add_up(size):
    total, batch = np.zeros(3), new_batch(INNER, size)
    for first in range(0, 7, size):
        total += drawn_part(INNER, 4, first, batch).row * size / 7
    assert total == pytest.approx(INNER.rows[4], abs=1e-12)


def test_every_pair_is_a_sample():
    assert inner_samples(INNER) == 49
    assert [sample_range(INNER, i) for i in (0, 6)] == [(0, 7), (42, 49)]
    group, first, share = sample_parts(INNER, 4, 14)
    assert (group[:3].tolist(), first[:3].tolist(), share[0]) == ([0, 0, 1], [0, 4, 0], 4 / 7)


def test_the_steepest_sample_is_the_largest_difference_of_two_rows(monkeypatch):
    largest = max(np.linalg.norm(a - b) for a in RETURNS for b in RETURNS)
    assert sample_lipschitz(INNER) == pytest.approx(largest)
    monkeypatch.setattr("xrisk.inner.deviations.ALL_PAIRS", 1)  # of many rows a bound
    assert largest <= sample_lipschitz(INNER) <= 2.0 * largest
