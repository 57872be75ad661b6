"""Full passes: whatever walks and whatever looks, the sums are those of plain NumPy."""

import itertools

import numpy as np
import pytest

import xrisk.functions as fn
from tests.conftest import table
from xrisk.compile import uncompiled
from xrisk.data.rows import frozen
from xrisk.data.threads import interruptible
from xrisk.functions.smoothing import smoothable_loss
from xrisk.inner import (
    Equal,
    Groups,
    Indexed,
    InOrder,
    LinearModel,
    Pairs,
    Partitioned,
    SoftmaxModel,
    Weighted,
    as_rows,
    group_passes,
    pair_passes,
)
from xrisk.inner.oracle import exact_vjp, inner_count
from xrisk.inner.passes import (
    Scores,
    add_hessian,
    add_squares,
    adjoint,
    column_sizes,
    has_gradients,
    inner_gradients,
    jacobian,
    sampled,
    scores_at,
    scores_only,
    walk,
    walk_apart,
)
from xrisk.inner.visitors import DualTerms, FreeSlope, LossBounds, LossValues, SmoothedTerms

X, Y, LABELS = table(n=60)
W = np.array([0.3, -0.2, 0.5, 0.1])
SIZES = np.bincount(LABELS)
OFFSETS = frozen(np.concatenate([[0], np.cumsum(SIZES)]))
ORDER = np.argsort(LABELS, kind="stable")
MIXED = Partitioned(frozen(ORDER), frozen(LABELS.astype(np.int32)))
WEIGHTS = 0.5 + np.arange(60) % 4
VISITORS = [LossValues(), LossBounds(1e-3), SmoothedTerms(0.05), DualTerms(0.05, 0.7, 0.9), FreeSlope(0.05)]
LOSSES = [fn.Logistic(), fn.HingeLoss(), fn.SquaredHinge()]
every_visitor = pytest.mark.parametrize("visitor", VISITORS, ids=lambda visitor: type(visitor).__name__)
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def seen_by(visitor, loss):
    """The loss as the visitor meets it: values and bounds are those of the loss itself."""
    return loss if isinstance(visitor, (LossValues, LossBounds)) else smoothable_loss(loss)


def groups(loss, index=MIXED, weight=Equal(), rows=X, target=Y):
    return Groups(LinearModel(as_rows(rows), frozen(np.asarray(target, dtype=float)), loss), OFFSETS, index, weight)


def in_order(loss, weight=Equal()):
    return groups(loss, InOrder(), weight, X[ORDER], Y[ORDER])


def pairs(loss, side=1.0):
    return Pairs(as_rows(X), np.flatnonzero(Y > 0), np.flatnonzero(Y < 0), loss, side)


def materialised(g):
    """Pairs as groups over a matrix of differences."""
    differences = g.side * (X[g.outer, None] - X[None, g.inner]).reshape(-1, X.shape[1])
    model = LinearModel(as_rows(differences), frozen(np.ones(len(differences))), g.loss)
    return Groups(model, frozen(np.arange(g.outer.size + 1) * g.inner.size))


def looked_at(g, rows=X):
    """Scores at W that move; sizes and entries in the last coordinate as if that were free."""
    count = inner_count(g)
    z, direction = rows @ W, rows @ np.array([0.1, 0.2, -0.3, 0.4])
    return Scores(z[:, None], direction[:, None], np.ones(len(rows)), rows[:, -1].copy(), np.linspace(0.5, 1.5, count))


def shares(g):
    return np.linspace(-1.0, 2.0, inner_count(g))


@every_visitor
@every_loss
def test_rows_of_mixed_groups_are_walked_as_sorted_ones(loss, visitor, plain):
    loss = seen_by(visitor, loss)
    mixed, ordered = groups(loss), in_order(loss)
    found = walk(mixed, visitor, looked_at(mixed), shares(mixed))
    expected = walk(ordered, visitor, looked_at(ordered, X[ORDER]), shares(ordered))
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found.coefs[:, ORDER], expected.coefs, rtol=1e-13, atol=1e-17)


@every_visitor
@every_loss
def test_listed_rows_are_walked_as_copied_ones(loss, visitor, plain):
    loss, rows = seen_by(visitor, loss), np.random.default_rng(0).integers(0, 60, 60)
    listed, copies = groups(loss, Indexed(frozen(rows))), groups(loss, InOrder(), Equal(), X[rows], Y[rows])
    found = walk(listed, visitor, looked_at(listed), shares(listed))
    expected = walk(copies, visitor, looked_at(copies, X[rows]), shares(copies))
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-13, atol=1e-15)
    summed = np.stack([np.bincount(rows, channel, 60) for channel in expected.coefs])
    np.testing.assert_allclose(found.coefs, summed, rtol=1e-12, atol=1e-16)


@every_visitor
@every_loss
def test_weights_by_row_are_weights_by_position(loss, visitor, plain):
    loss = seen_by(visitor, loss)
    mixed = groups(loss, weight=Weighted(frozen(WEIGHTS[ORDER]), frozen(WEIGHTS)))
    ordered = in_order(loss, Weighted(frozen(WEIGHTS[ORDER])))
    found = walk(mixed, visitor, looked_at(mixed), shares(mixed))
    expected = walk(ordered, visitor, looked_at(ordered, X[ORDER]), shares(ordered))
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(found.coefs[:, ORDER], expected.coefs, rtol=1e-13, atol=1e-17)


@every_visitor
@every_loss
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_pairs_are_walked_as_their_differences(loss, visitor, side, plain):
    g = pairs(seen_by(visitor, loss), side)
    wide, at = (
        materialised(g),
        looked_at(g)._replace(error_bound=np.full(60, 0.5)),
    )  # the sizes of two rows add up to one
    found = walk(g, visitor, at, shares(g))
    expected = walk(wide, visitor, looked_at(wide, wide.model.rows.X), shares(wide))
    np.testing.assert_allclose(found.sums, expected.sums, rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(adjoint(g, found.coefs), adjoint(wide, expected.coefs), rtol=1e-10, atol=1e-13)


@every_visitor
def test_compiled_walks_are_plain_ones(visitor):
    g = groups(seen_by(visitor, fn.HingeLoss()))
    with_kernels = walk(g, visitor, looked_at(g), shares(g))
    with uncompiled():
        without = walk(g, visitor, looked_at(g), shares(g))
    np.testing.assert_allclose(with_kernels.sums, without.sums, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(with_kernels.coefs, without.coefs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [groups, in_order, pairs])
def test_parts_add_up(make, plain, monkeypatch):
    g = make(fn.Logistic())
    whole = walk(g, SmoothedTerms(0.0), looked_at(g), shares(g))
    for module in (group_passes, pair_passes):
        monkeypatch.setattr(module, "borders", lambda size, *_: np.linspace(0, size, 4).astype(np.int64))
    parts = walk(g, SmoothedTerms(0.0), looked_at(g), shares(g))
    np.testing.assert_allclose(parts.sums, whole.sums, rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(parts.coefs, whole.coefs, rtol=1e-14, atol=1e-16)


def softmax():
    model = SoftmaxModel(as_rows(X), frozen(np.arange(60) % 3), 3)
    return Groups(model, OFFSETS, MIXED)


def at_rest(g, w):
    return scores_only(g, scores_at(g, w))


def gradient(g, w, share):
    grad = np.zeros(w.size)
    exact_vjp(g, w, share[:, None], grad)
    return grad


GEOMETRIES = {
    "mixed": (lambda: groups(fn.Logistic()), W),
    "sorted": (lambda: in_order(fn.Logistic()), W),
    "rows": (lambda: Groups(groups(fn.Logistic()).model, frozen(np.arange(61))), W),
    "pairs": (lambda: pairs(fn.Logistic()), W),
    "pushed pairs": (lambda: pairs(fn.Logistic(), -1.0), W),
    "softmax": (softmax, np.linspace(-1.0, 1.0, 12)),
}
every_geometry = pytest.mark.parametrize(("make", "w"), GEOMETRIES.values(), ids=GEOMETRIES)


@every_geometry
def test_the_hessian_is_the_derivative_of_the_gradient(make, w, plain):
    g = make()
    share, H = 1.0 + np.arange(inner_count(g)), np.zeros((w.size, w.size))
    coefs = walk(g, SmoothedTerms(0.0), at_rest(g, w), share).coefs
    add_hessian(g, SmoothedTerms(0.0), at_rest(g, w), share, coefs[-1], H)
    steps = 1e-5 * np.eye(w.size)
    expected = [(gradient(g, w + e, share) - gradient(g, w - e, share)) / 2e-5 for e in steps]
    np.testing.assert_allclose(H, expected, rtol=1e-6, atol=1e-7 * np.abs(H).max())


@every_geometry
def test_the_jacobian_is_made_of_the_gradients(make, w, plain):
    g = make()
    expected = [gradient(g, w, one) for one in np.eye(inner_count(g))]
    found = jacobian(g, SmoothedTerms(0.0), at_rest(g, w))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_tiles_of_pairs_ask_whether_to_stop(plain, monkeypatch):
    monkeypatch.setattr(pair_passes, "TILE", 100)
    g, asked = pairs(fn.Logistic()), []
    with interruptible(lambda: bool(asked.append(True))):
        jacobian(g, SmoothedTerms(0.0), at_rest(g, W))
    assert len(asked) > g.outer.size * g.inner.size // 100


@every_geometry
def test_squares_are_those_of_the_jacobian(make, w, plain):
    g = make()
    c, H = 1.0 + np.arange(inner_count(g)), np.ones((w.size, w.size))
    J = jacobian(g, SmoothedTerms(0.0), at_rest(g, w))
    add_squares(g, SmoothedTerms(0.0), at_rest(g, w), c, H)
    np.testing.assert_allclose(H, 1.0 + J.T @ (c[:, None] * J), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_column_sizes_of_pairs_are_those_of_their_differences(side):
    g = pairs(fn.Logistic(), side)
    np.testing.assert_allclose(column_sizes(g), column_sizes(materialised(g)), rtol=1e-12)


def test_a_sample_keeps_the_groups_and_some_rows_of_each():
    big = frozen(np.repeat(np.arange(3), 1000).astype(np.int32))
    rows = np.random.default_rng(0).standard_normal((3000, 2))
    model = LinearModel(as_rows(rows), frozen(np.ones(3000)), fn.Logistic())
    g = Groups(model, frozen(np.arange(0, 3001, 1000)), Partitioned(frozen(np.arange(3000)), big))
    some = sampled(g, 0.1, np.random.default_rng(1))
    some.check()
    assert inner_count(some) == 3
    assert all(60 < size < 150 for size in np.diff(some.offsets))


def test_the_weights_of_a_sample_average_to_one_in_every_group():
    weight = WEIGHTS.astype(float)
    for i in range(6):
        weight[i == LABELS] /= weight[i == LABELS].mean()
    g = groups(fn.Logistic(), weight=Weighted(frozen(weight[ORDER]), frozen(weight)))
    some = sampled(g, 0.5, np.random.default_rng(1))
    means = [some.weight.weights[a:b].mean() for a, b in itertools.pairwise(some.offsets)]
    np.testing.assert_allclose(means, 1.0, rtol=1e-14)


@every_loss
def test_gradients_of_inner_functions_are_the_jacobian_and_means_of_slopes_and_curvatures(loss, plain):
    for g in (groups(smoothable_loss(loss)), in_order(smoothable_loss(loss), Weighted(frozen(np.ones(60))))):
        at, n = looked_at(g), inner_count(g)
        found = inner_gradients(g, walk_apart(g, SmoothedTerms(0.05), at).coefs)
        np.testing.assert_allclose(found.slopes, jacobian(g, SmoothedTerms(0.05), at), rtol=1e-13)
        seen = [walk(g, SmoothedTerms(0.05), at, share).coefs for share in np.eye(n)]
        np.testing.assert_allclose(found.adjoints, [np.abs(coefs[0]).sum() for coefs in seen], rtol=1e-12)
        np.testing.assert_allclose(found.curvatures, [coefs[1].sum() for coefs in seen], rtol=1e-12)


def test_gradients_are_kept_where_they_are_few_beside_the_rows():
    assert has_gradients(groups(fn.Logistic()))
    alone = Groups(LinearModel(as_rows(X), frozen(Y.astype(float)), fn.Logistic()), frozen(np.arange(61)))
    assert not has_gradients(alone)
    assert not has_gradients(pairs(fn.Logistic()))
