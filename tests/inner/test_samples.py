"""Samples: single rows as inner functions are what groups of one row each are."""

import numpy as np
import pytest

from tests.conftest import table
from tests.drawing import drawn, drawn_part
from xrisk.compile import uncompiled
from xrisk.data.rows import frozen
from xrisk.inner import Groups, LinearModel, Samples, SoftmaxModel, as_rows
from xrisk.inner.oracle import (
    batch_value,
    batch_vjp,
    exact_values,
    exact_vjp,
    inner_count,
    inner_lipschitz,
    inner_pooled,
    inner_shares,
    inner_smoothness,
    new_batch,
    sample_range,
    sample_share,
    sample_slopes,
    sample_vjp,
)
from xrisk.inner.passes import (
    Scores,
    add_hessian,
    add_squares,
    column_sizes,
    jacobian,
    sampled,
    score_size,
    scores_at,
    scores_only,
    walk,
)
from xrisk.inner.visitors import DualTerms, FreeSlope, LossBounds, LossValues, SmoothedTerms

X, Y, _ = table(n=40)
W = np.array([0.3, -0.2, 0.5, 0.1])
CLASSES = frozen(np.arange(40) % 3)
LINEAR = LinearModel(as_rows(X), frozen(Y.astype(float)))
SOFTMAX = SoftmaxModel(as_rows(X), CLASSES, 3)
MODELS = [pytest.param(LINEAR, W, id="linear"), pytest.param(SOFTMAX, np.linspace(-1.0, 1.0, 12), id="softmax")]
VISITORS = [LossValues(), LossBounds(1e-3), SmoothedTerms(0.05), DualTerms(0.05, 0.7, 0.9)]


@pytest.fixture(autouse=True)
def plain():
    with uncompiled():
        yield


def both(model):
    """Single rows, and groups of one row each."""
    return Samples(model), Groups(model, frozen(np.arange(41)))


def scores(g, w):
    z = scores_at(g, w)
    error_bound, free_entry = np.linspace(0.5, 2.0, 40), np.ones(40)
    return Scores(z, 0.1 * z, error_bound, free_entry, np.linspace(0.1, 1.0, 40))


@pytest.mark.parametrize(("model", "w"), MODELS)
@pytest.mark.parametrize("visitor", VISITORS, ids=lambda visitor: type(visitor).__name__)
def test_a_walk_is_that_of_groups_of_one_row(model, w, visitor):
    g, groups = both(model)
    share = np.linspace(0.0, 1.0, 40)
    ours, theirs = walk(g, visitor, scores(g, w), share), walk(groups, visitor, scores(groups, w), share)
    np.testing.assert_allclose(ours.sums, theirs.sums, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(ours.coefs, theirs.coefs, rtol=1e-14, atol=1e-300)


def test_what_a_free_coordinate_is_pulled_by_is_that_of_groups():
    g, groups = both(LINEAR)
    ours, theirs = (walk(each, FreeSlope(0.05), scores(each, W), np.zeros(0)) for each in (g, groups))
    np.testing.assert_allclose(ours.sums, theirs.sums, rtol=1e-14)


@pytest.mark.parametrize(("model", "w"), MODELS)
def test_values_and_gradients_of_a_pass(model, w):
    g, groups = both(model)
    y, ours, theirs = np.linspace(0.0, 2.0, 40)[:, None], np.zeros(w.size), np.zeros(w.size)
    values, others = np.empty((40, 1)), np.empty((40, 1))
    exact_values(g, w, values)
    exact_values(groups, w, others)
    np.testing.assert_allclose(values, others, rtol=1e-14)
    exact_vjp(g, w, y, ours)
    exact_vjp(groups, w, y, theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(("model", "w"), MODELS)
def test_hessian_and_squares_of_gradients(model, w):
    g, _ = both(model)
    at, c = scores_only(g, scores_at(g, w)), np.linspace(0.0, 1.0, 40)
    J, squares, H = jacobian(g, SmoothedTerms(0.05), at), np.zeros((w.size,) * 2), np.zeros((w.size,) * 2)
    add_squares(g, SmoothedTerms(0.05), at, c, squares)
    np.testing.assert_allclose(squares, J.T @ (c[:, None] * J), atol=1e-12)
    add_hessian(g, SmoothedTerms(0.05), at, c, c, H)
    assert np.linalg.eigvalsh(H).min() > -1e-12


def test_a_sample_of_a_row_is_the_row():
    g, rng = Samples(LINEAR), np.random.default_rng(0)
    losses, out, grad, slopes = np.empty((40, 1)), np.empty(1), np.zeros(4), np.empty(1)
    exact_values(g, W, losses)
    batch = drawn(g, 7, rng, new_batch(g, 3))
    batch_value(g, 7, W, batch, out)
    assert out[0] == pytest.approx(losses[7, 0])
    batch_vjp(g, 7, W, batch, np.array([2.0]), 0.5, grad)
    np.testing.assert_allclose(grad, jacobian(g, SmoothedTerms(0.0), scores_only(g, scores_at(g, W)))[7])
    assert sample_slopes(g, 7, W, slopes) == pytest.approx(losses[7, 0])
    again = np.zeros(4)
    sample_vjp(g, 7, slopes, 1.0, again)
    np.testing.assert_allclose(again, grad)
    assert (*sample_range(g, 7), sample_share(g, 7, 7)) == (7, 8, 1.0)
    assert drawn_part(g, 9, 0, batch).rows[0] == 9


def test_constants_and_shares_of_single_rows():
    g, groups = both(LINEAR)
    assert inner_lipschitz(g) == pytest.approx(inner_lipschitz(groups))
    assert inner_smoothness(g) == pytest.approx(inner_smoothness(groups))
    assert inner_count(inner_pooled(g)) == 1
    assert inner_shares(g).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(column_sizes(g), column_sizes(groups))
    assert score_size(g) == score_size(groups)
    assert 5 < inner_count(sampled(g, 0.5, np.random.default_rng(0))) < 35


def test_rows_and_targets_must_be_as_many():
    with pytest.raises(ValueError, match=r"y must have one entry for each of the 40 rows of X, got shape \(39,\)"):
        Samples(LINEAR._replace(target=frozen(np.ones(39)))).check()
