"""Samples in order: the parts of a group are all of it."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.drawing import drawn_part
from xrisk.inner import Groups, batch_value, batch_vjp, exact_values, exact_vjp, new_batch
from xrisk.inner.oracle import part_count, sample_parts

X, Y, LABELS = table(n=60)
W = np.array([0.3, -0.2, 0.5, 0.1])
INNERS = {
    "equal": xrisk.group_dro(X, Y, LABELS).inner,
    "weighted": xrisk.group_dro(X, Y, LABELS, sample_weight=0.5 + np.arange(60) % 4).inner,
}
pytestmark = [
    pytest.mark.usefixtures("plain"),
    pytest.mark.parametrize("g", INNERS.values(), ids=INNERS),
    pytest.mark.parametrize("size", [1, 4, 7, 100]),
]


def parts(g, size):
    return zip(*sample_parts(g, size, part_count(g, size)), strict=True)


def test_the_values_of_the_parts_add_up(g: Groups, size: int):
    u, exact, value, batch = np.zeros(6), np.empty((6, 1)), np.empty(1), new_batch(g, size)
    for i, first, share in parts(g, size):
        batch_value(g, i, W, drawn_part(g, i, first, batch), value)
        u[i] += share * value[0]
    exact_values(g, W, exact)
    np.testing.assert_allclose(u, exact[:, 0], rtol=1e-12)


def test_the_gradients_of_the_parts_add_up(g: Groups, size: int):
    y, found, exact, batch = 1.0 + np.arange(6.0), np.zeros(4), np.zeros(4), new_batch(g, size)
    for i, first, share in parts(g, size):
        batch_vjp(g, i, W, drawn_part(g, i, first, batch), np.ones(1), share * y[i], found)
    exact_vjp(g, W, y[:, None], exact)
    np.testing.assert_allclose(found, exact, rtol=1e-12)


def test_parts_are_as_few_as_can_be(g: Groups, size: int):
    assert len(list(parts(g, size))) == np.ceil(np.bincount(LABELS) / size).sum()
