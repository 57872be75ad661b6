"""Rows less a centre: what is computed of them is what is computed of the differences, digit for digit."""

import numpy as np
import pytest
import scipy.sparse

from xrisk.data.products import (
    Centred,
    column_squares,
    less_offset,
    row_adjoint,
    row_block,
    row_gram,
    row_scores,
    sampled_rows,
    scaled_norms,
)
from xrisk.data.rows import as_rows, row_dots, row_norm

pytestmark = pytest.mark.usefixtures("plain")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 4))
X[:, 0], X[:, 2] = 2.0**40 + np.round(64 * X[:, 0]), 2.0**20 + np.round(8 * X[:, 2])
X[X[:, 1] > 0.5, 1] = 0.0
HOLED = X.copy()
HOLED[3, 0] = HOLED[7, 2] = 0.0  # rows without an entry in a far column
STORED = {"dense": as_rows, "sparse": lambda array: as_rows(scipy.sparse.csr_array(array))}
every_storage = pytest.mark.parametrize("stored", STORED.values(), ids=STORED)


@every_storage
@pytest.mark.parametrize("array", [X, HOLED], ids=["whole", "holed"])
def test_products_are_those_of_the_differences(stored, array):
    rows = Centred(stored(array), np.array([2.0**40, 0.0, 2.0**20, 0.0]), np.array([0, 2]))
    apart, w, s = array - rows.centre, RNG.standard_normal((1, 4)), RNG.standard_normal((40, 1))
    np.testing.assert_allclose(row_scores(rows, w), apart @ w.T, rtol=1e-13)
    np.testing.assert_allclose(row_adjoint(rows, s), s.T @ apart, rtol=1e-12)
    np.testing.assert_allclose(row_gram(rows, np.ones(40)), apart.T @ apart, rtol=1e-12)
    np.testing.assert_allclose(column_squares(rows), (apart**2).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(scaled_norms(rows, np.full(4, 2.0)), np.linalg.norm(apart, axis=1) / 2.0, rtol=1e-12)
    np.testing.assert_array_equal(row_block(sampled_rows(rows, np.array([3, 7])), slice(0, 2)), apart[[3, 7]])
    np.testing.assert_allclose(row_dots(rows, 3, w[0], s[:4, 0]), [apart[3] @ w[0], apart[3] @ s[:4, 0]], rtol=1e-13)
    assert row_norm(rows, 3) == pytest.approx(np.linalg.norm(apart[3]), rel=1e-13)


@every_storage
def test_columns_far_from_zero_lose_their_offset_and_no_others(stored):
    rows = less_offset(stored(X))
    assert rows.far.tolist() == [0, 2]
    assert np.abs(row_scores(rows, np.array([[1.0, 0.0, 0.0, 0.0]]))).max() < 1000


@every_storage
def test_columns_around_zero_stay_as_they_are(stored):
    rows = stored(X[:, [1, 3]])
    assert less_offset(rows) is rows
