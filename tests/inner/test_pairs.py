"""Means over pairs: their values, batches, gradients and storage."""

import numpy as np
import pytest
import scipy.sparse

from tests.conftest import table
from tests.drawing import drawn, drawn_part
from xrisk.functions import ExponentialLoss, HingeLoss, Logistic, Squared, SquaredHinge
from xrisk.inner import (
    Dense,
    Pairs,
    WithIntercept,
    as_rows,
    batch_value,
    batch_values,
    batch_vjp,
    exact_values,
    exact_vjp,
    has_parts,
    inner_lipschitz,
    inner_smoothness,
    new_batch,
)
from xrisk.inner.pair_passes import pair_means
from xrisk.inner.pairs import square_distances
from xrisk.inner.passes import NO_SHARE, scores_only, walk
from xrisk.inner.visitors import LossValues

X, Y, _ = table(n=60)
ABOVE, BELOW = np.flatnonzero(Y > 0), np.flatnonzero(Y < 0)
W = np.array([0.3, -0.2, 0.5, 0.1])
MARGIN = {
    Logistic: lambda t: np.logaddexp(0.0, -t),
    HingeLoss: lambda t: np.maximum(1.0 - t, 0.0),
    SquaredHinge: lambda t: np.maximum(1.0 - t, 0.0) ** 2,
    ExponentialLoss: lambda t: np.exp(-t),
}


def pairs(loss=Logistic(), side=1.0, X=X):
    return Pairs(as_rows(X), ABOVE, BELOW, loss, side)


def values(g, w):
    out = np.empty((g.outer.size, 1))
    exact_values(g, w, out)
    return out[:, 0]


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("loss", MARGIN)
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_values_are_means_over_pairs(loss, side, scale):
    s = scale * X @ W
    expected = MARGIN[loss](side * (s[ABOVE, None] - s[BELOW])).mean(axis=1)
    np.testing.assert_allclose(values(pairs(loss(), side), scale * W), expected, rtol=1e-12)


@pytest.mark.parametrize("loss", [HingeLoss(), SquaredHinge(), ExponentialLoss()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e3])
def test_sums_without_pairs_are_those_over_pairs(loss, scale, plain):
    z = scale * np.random.default_rng(0).integers(-5, 6, (110, 1)).astype(float)  # with ties
    g = Pairs(Dense(np.zeros((110, 1))), np.arange(40), np.arange(40, 110), loss)
    with np.errstate(over="ignore"):
        every = walk(g, LossValues(), scores_only(g, z), NO_SHARE).sums[:, 0]
    np.testing.assert_allclose(pair_means(loss, g, z), every, rtol=1e-12)


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, np.float32, np.asfortranarray])
def test_storage_changes_no_value(form):
    held = X.astype(np.float32) if form is np.float32 else form(X)
    rtol = 1e-6 if form is np.float32 else 1e-13
    np.testing.assert_allclose(values(pairs(X=held), W), values(pairs(), W), rtol=rtol)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=lambda loss: type(loss).__name__)
def test_batches_are_unbiased(loss, side):
    g = pairs(loss, side)
    rng, total, repeats = np.random.default_rng(0), 0.0, 4000
    room, out = new_batch(g, 4), np.empty(1)
    for _ in range(repeats):
        batch_value(g, 3, W, drawn(g, 3, rng, room), out)
        total += out[0] / repeats
    assert total == pytest.approx(values(g, W)[3], rel=0.05)


def test_a_batch_of_all_rows_is_the_mean():
    g, out = pairs(), np.empty(1)
    batch = new_batch(g, BELOW.size)._replace(rows=BELOW)
    batch_value(g, 3, W, batch, out)
    assert out[0] == pytest.approx(values(g, W)[3], rel=1e-13)


def test_samples_by_number_are_those_of_the_mean():
    g, batch, out = pairs(), new_batch(pairs(), 1), np.empty(1)
    losses = []
    for j in range(BELOW.size):
        batch_value(g, 3, W, drawn_part(g, 3, j, batch), out)
        losses.append(out[0])
    assert np.mean(losses) == pytest.approx(values(g, W)[3], rel=1e-13)


def test_samples_by_number_come_one_at_a_time():
    assert has_parts(pairs(), 1)
    assert not has_parts(pairs(), 2)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_gradient_of_a_batch_is_the_derivative_of_its_value(side):
    g = pairs(side=side)
    batch = drawn(g, 3, np.random.default_rng(0), new_batch(g, 5))
    grad, up, down = np.zeros(4), np.empty(1), np.empty(1)
    batch_vjp(g, 3, W, batch, np.array([2.0]), 0.5, grad)
    for j in range(4):
        e = 1e-6 * np.eye(4)[j]
        batch_values(g, 3, W + e, W - e, batch, up, down)
        assert grad[j] == pytest.approx((up - down)[0] / 2e-6, rel=1e-6)


def test_two_points_share_their_samples():
    g = pairs()
    batch = drawn(g, 2, np.random.default_rng(0), new_batch(g, 5))
    both, prev, alone = np.empty(1), np.empty(1), np.empty(1)
    batch_values(g, 2, W, 2 * W, batch, both, prev)
    batch_value(g, 2, 2 * W, batch, alone)
    assert prev[0] == pytest.approx(alone[0], rel=1e-14)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_exact_gradient_is_the_derivative_of_the_exact_values(side):
    g = pairs(side=side)
    y, grad = np.arange(float(ABOVE.size))[:, None], np.zeros(4)
    exact_vjp(g, W, y, grad)
    for j in range(4):
        e = 1e-6 * np.eye(4)[j]
        assert grad[j] == pytest.approx(y[:, 0] @ (values(g, W + e) - values(g, W - e)) / 2e-6, rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_square_distances_are_means_over_pairs(shift):
    expected = ((X[ABOVE, None] - X[None, BELOW]) ** 2).sum(axis=2).mean(axis=1)
    np.testing.assert_allclose(square_distances(pairs(X=X + shift)), expected, rtol=1e-8)


def test_the_constants_bound_gradients_and_their_change():
    g, rng, n = pairs(), np.random.default_rng(0), ABOVE.size
    for _ in range(20):
        a, b, i = rng.standard_normal(4), rng.standard_normal(4), rng.integers(n)
        one, ga, gb = np.zeros((n, 1)), np.zeros(4), np.zeros(4)
        one[i] = 1.0
        exact_vjp(g, a, one, ga)
        exact_vjp(g, b, one, gb)
        assert np.linalg.norm(ga) <= inner_lipschitz(g)
        assert np.linalg.norm(ga - gb) <= inner_smoothness(g) * np.linalg.norm(a - b)


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"loss": 3}, TypeError, "loss must be a spec that implements loss_value, got 3"),
        ({"side": 0.5}, ValueError, r"side must be 1 or −1, got 0\.5"),
        ({"sampling": "shared"}, TypeError, r"sampling must be BatchEach\(\) or BatchForAll\(\), got 'shared'"),
        ({"outer": np.array([60])}, ValueError, "outer must list rows between 0 and 59, at least one"),
        ({"inner": np.zeros(0, dtype=int)}, ValueError, "inner must list rows between 0 and 59, at least one"),
        ({"rows": WithIntercept(Dense(X))}, ValueError, "rows must have no intercept: it cancels"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(change, error, sentence):
    with pytest.raises(error, match=sentence):
        pairs()._replace(**change).check()


def test_any_loss_of_a_score_will_do():
    g = pairs(Squared())
    g.check()
    s = X @ W
    np.testing.assert_allclose(values(g, W), ((s[ABOVE, None] - s[BELOW] - 1.0) ** 2 / 2).mean(axis=1), rtol=1e-12)
