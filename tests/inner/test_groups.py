"""Group means, their batches, weights and storage."""

import numpy as np
import pytest
import scipy.sparse

import xrisk
from tests.conftest import table
from tests.drawing import drawn
from xrisk.compile import kernel
from xrisk.data.rows import add_row, add_rows, fetch_row, row_dot, row_dots, row_norm, rows_dot, rows_dots
from xrisk.inner import (
    CSR,
    Dense,
    Indexed,
    InOrder,
    Partitioned,
    Shifted,
    WithIntercept,
    as_rows,
    batch_value,
    batch_values,
    batch_vjp,
    exact_values,
    exact_vjp,
    inner_lipschitz,
    inner_pooled,
    inner_smoothness,
    new_batch,
    sample_lipschitz,
)


def inner(X=None, **options):
    own, y, groups = table()
    return xrisk.group_dro(own if X is None else X, y, groups, **options).inner


def values(g, w):
    out = np.empty(((g.offsets.size - 1) // g.dim, g.dim))
    exact_values(g, w, out)
    return out


def naive_means(X, y, groups, w, weights=None):
    losses = np.logaddexp(0.0, -y * (X @ w))
    weights = np.ones(y.size) if weights is None else weights
    return np.array([np.average(losses[groups == i], weights=weights[groups == i]) for i in np.unique(groups)])


W = np.array([0.3, -0.2, 0.5, 0.1])


def test_exact_values_are_group_means():
    X, y, groups = table()
    np.testing.assert_allclose(values(inner(), W)[:, 0], naive_means(X, y, groups, W), rtol=1e-14)


def test_sample_weights_weigh_rows_within_groups():
    X, y, groups = table()
    weights = np.random.default_rng(1).integers(0, 4, y.size) + (np.arange(y.size) < 6)
    expected = naive_means(X, y, groups, W, weights)
    np.testing.assert_allclose(values(inner(sample_weight=weights), W)[:, 0], expected, rtol=1e-13)


def test_groups_may_overlap():
    X, y, groups = table()
    member = np.stack([groups == i for i in range(6)] + [np.ones(y.size, dtype=bool)], axis=1)
    g = xrisk.group_dro(X, y, member).inner
    expected = np.append(naive_means(X, y, groups, W), np.logaddexp(0.0, -y * (X @ W)).mean())
    np.testing.assert_allclose(values(g, W)[:, 0], expected, rtol=1e-13)


def test_sorted_groups_need_no_index():
    X, y, groups = table()
    order = np.argsort(groups, kind="stable")
    assert isinstance(xrisk.group_dro(X[order], y[order], groups[order]).inner.index, InOrder)
    assert isinstance(inner().index, Partitioned)


def test_groups_that_overlap_are_listed():
    X, y, groups = table()
    member = np.stack([groups < 4, groups >= 2], axis=1)
    assert isinstance(xrisk.group_dro(X, y, member).inner.index, Indexed)


@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 240)], ids=["equal", "weighted"])
def test_pooled_groups_are_one_group_of_all_rows(weights):
    g, groups = inner(sample_weight=weights), table()[2]
    pooled = inner_pooled(g)
    pooled.check()
    shares = np.bincount(groups) / groups.size
    np.testing.assert_allclose(values(pooled, W), shares @ values(g, W)[:, 0], rtol=1e-13)


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_matrix])
def test_sparse_rows_give_the_values_of_dense_ones(make):
    X = np.where(np.abs(table()[0]) < 0.5, 0.0, table()[0])
    np.testing.assert_allclose(values(inner(make(X)), W), values(inner(X), W), rtol=1e-13)


def test_rows_of_one_precision_stay_so():
    X = table()[0].astype(np.float32)
    g = inner(X)
    assert np.shares_memory(g.model.rows.X, X)
    np.testing.assert_allclose(values(g, W), values(inner(X.astype(np.float64)), W), rtol=1e-13)


def test_a_memory_map_is_not_copied(tmp_path):
    X = table()[0]
    path = tmp_path / "X"
    np.memmap(path, dtype=X.dtype, mode="w+", shape=X.shape)[:] = X
    mapped = np.memmap(path, dtype=X.dtype, mode="r", shape=X.shape)
    g = inner(mapped)
    assert np.shares_memory(g.model.rows.X, mapped)
    np.testing.assert_array_equal(values(g, W), values(inner(X), W))


@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("options", [{}, {"loss": "squared_hinge"}, {"sample_weight": np.linspace(0.5, 2.0, 240)}])
def test_batches_are_unbiased(dim, options):
    g = inner(**options)._replace(dim=dim)
    rng, total, repeats = np.random.default_rng(0), np.zeros(dim), 4000
    room, out = new_batch(g, 4), np.empty(dim)
    for _ in range(repeats):
        batch_value(g, 1, W, drawn(g, 1, rng, room), out)
        total += out / repeats
    np.testing.assert_allclose(total, values(g, W)[1], rtol=0.05)


@pytest.mark.parametrize("dim", [1, 2])
def test_the_gradient_of_a_batch_is_the_derivative_of_its_value(dim):
    g = inner()._replace(dim=dim)
    batch = drawn(g, 1, np.random.default_rng(0), new_batch(g, 5))
    y, grad, up, down = np.arange(1.0, dim + 1), np.zeros(4), np.empty(dim), np.empty(dim)
    batch_vjp(g, 1, W, batch, y, 0.5, grad)
    for j in range(4):
        e = 1e-6 * np.eye(4)[j]
        batch_values(g, 1, W + e, W - e, batch, up, down)
        assert grad[j] == pytest.approx(0.5 * y @ (up - down) / 2e-6, rel=1e-6)


def test_two_points_share_their_samples():
    g = inner()
    batch = drawn(g, 2, np.random.default_rng(0), new_batch(g, 5))
    both, prev, alone = np.empty(1), np.empty(1), np.empty(1)
    batch_values(g, 2, W, 2 * W, batch, both, prev)
    batch_value(g, 2, 2 * W, batch, alone)
    assert prev[0] == pytest.approx(alone[0], rel=1e-14)


def test_the_exact_gradient_is_the_derivative_of_the_exact_values():
    g, y, grad = inner(), np.arange(6.0)[:, None], np.zeros(4)
    exact_vjp(g, W, y, grad)
    for j in range(4):
        e = 1e-6 * np.eye(4)[j]
        assert grad[j] == pytest.approx((y * (values(g, W + e) - values(g, W - e))).sum() / 2e-6, rel=1e-6)


def test_the_constants_bound_gradients_and_their_change():
    g, rng = inner(), np.random.default_rng(0)
    for _ in range(20):
        a, b, i = rng.standard_normal(4), rng.standard_normal(4), rng.integers(6)
        one, ga, gb = np.zeros((6, 1)), np.zeros(4), np.zeros(4)
        one[i] = 1.0
        exact_vjp(g, a, one, ga)
        exact_vjp(g, b, one, gb)
        assert np.linalg.norm(ga) <= inner_lipschitz(g)
        assert np.linalg.norm(ga - gb) <= inner_smoothness(g) * np.linalg.norm(a - b)


def test_a_bound_on_samples_bounds_every_sample():
    g, rng, room = inner(), np.random.default_rng(0), new_batch(inner(), 1)
    for i in range(6):
        for _ in range(20):
            grad = np.zeros(4)
            batch_vjp(g, i, rng.standard_normal(4), drawn(g, i, rng, room), np.ones(1), 1.0, grad)
            assert np.linalg.norm(grad) <= sample_lipschitz(g)
    assert sample_lipschitz(g) >= inner_lipschitz(g)
    assert sample_lipschitz(Shifted(g)) == pytest.approx(np.hypot(sample_lipschitz(g), 1.0))


X9 = np.random.default_rng(3).standard_normal((9, 5))
ROWS = [
    Dense(X9),
    Dense(X9.astype(np.float32)),
    as_rows(scipy.sparse.csr_matrix(np.where(X9 > 0, X9, 0.0))),
    WithIntercept(Dense(X9)),
    WithIntercept(as_rows(scipy.sparse.csr_matrix(X9))),
]


def dense(rows):
    if isinstance(rows, WithIntercept):
        return np.column_stack([dense(rows.rows), np.ones(9)])
    if isinstance(rows, CSR):
        return scipy.sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape=(9, rows.size)).toarray()
    return rows.X.astype(np.float64)


@pytest.mark.parametrize("rows", ROWS, ids=lambda r: type(r).__name__)
def test_rows_agree_with_a_dense_matrix(rows):
    X = dense(rows)
    w, v = np.linspace(-1, 1, X.shape[1]), np.linspace(2, 0, X.shape[1])
    chosen, scales = np.array([1, 3, 3, 8, 0, 2, 7]), np.arange(7.0)
    out, prev, grad, one = np.empty(7), np.empty(7), np.ones(X.shape[1]), np.zeros(X.shape[1])
    rows_dot(rows, chosen, w, out)
    np.testing.assert_allclose(out, X[chosen] @ w, rtol=1e-12, atol=1e-14)
    rows_dots(rows, chosen, w, v, out, prev)
    np.testing.assert_allclose(prev, X[chosen] @ v, rtol=1e-12, atol=1e-14)
    add_rows(rows, chosen, scales, grad)
    np.testing.assert_allclose(grad, 1.0 + scales @ X[chosen], rtol=1e-12)
    add_row(rows, 4, 2.0, one)
    np.testing.assert_allclose(one, 2.0 * X[4])
    np.testing.assert_allclose([row_dot(rows, 5, w), *row_dots(rows, 6, w, v)], [X[5] @ w, X[6] @ w, X[6] @ v])
    assert row_norm(rows, 7) == pytest.approx(np.linalg.norm(X[7]))


@pytest.mark.parametrize("size", [1e200, 1e-200, 0.0])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_norms_of_rows_neither_overflow_nor_vanish(size, form):
    assert row_norm(as_rows(form(size * np.array([[3.0, 4.0]]))), 0) == pytest.approx(5.0 * size, rel=1e-14)


def test_norms_of_single_precision_rows_do_not_overflow():
    assert row_norm(as_rows(np.array([[3e30, 4e30]], dtype=np.float32)), 0) == pytest.approx(5e30, rel=1e-6)


def test_the_softmax_model_is_the_multinomial_loss():
    X, _, groups = table()
    y = np.arange(240) % 3
    g = xrisk.group_dro(X, y, groups, loss="multinomial").inner
    w = np.linspace(-1, 1, 12)
    scores = X @ w.reshape(3, 4).T
    losses = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(240), y]
    expected = [losses[groups == i].mean() for i in range(6)]
    np.testing.assert_allclose(values(g, w)[:, 0], expected, rtol=1e-13)
    grad, one = np.zeros(12), np.ones((6, 1))
    exact_vjp(g, w, one, grad)
    e = 1e-6 * np.eye(12)[7]
    assert grad[7] == pytest.approx((values(g, w + e) - values(g, w - e)).sum() / 2e-6, rel=1e-6)


@kernel
def fetch_all(rows, n):
    for k in range(n):
        fetch_row(rows, k)


@pytest.mark.parametrize("width", [1, 7, 3000])
@pytest.mark.parametrize("store", [np.float32, np.float64, scipy.sparse.csr_matrix], ids=["float32", "float64", "CSR"])
def test_a_row_may_be_asked_for_before_it_is_read(store, width):
    X = np.ones((5, width))
    rows = WithIntercept(as_rows(store(X)))
    fetch_all(rows, 5)
    assert row_dot(rows, 4, np.ones(width + 1)) == width + 1


def test_a_block_of_no_weight_adds_no_gradient():
    g, grad = inner(), np.zeros(4)
    batch = drawn(g, 1, np.random.default_rng(0), new_batch(g, 5))
    batch_vjp(g, 1, np.full(4, np.nan), batch, np.zeros(1), 1.0, grad)
    assert (grad == 0.0).all()
