"""SGD on the pool and with equal weights: their twins, and what it is that they minimise."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.sgd import oversampled_cross_entropy, pair_sgd, sgd, upweighted_sgd
from tests.solvers.cases import averaged, cvar, pooled, tasks
from tests.solvers.running import begin, iterates
from xrisk.applications import partial_auc
from xrisk.functions import HardSmooth, MaxOuter
from xrisk.inner import NoisyCoordinates
from xrisk.problem import Problem
from xrisk.solvers import SGD, UpweightedSGD


def test_sgd_follows_the_naive_twin():
    x0, xs = iterates(cvar(), SGD(0.05, batch=7))
    expected = sgd(problems.means(x0, 7), 50, np.random.default_rng(0), step=0.05, batch=7)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_upweighted_sgd_follows_the_naive_twin():
    x0, xs = iterates(cvar(), UpweightedSGD(0.05, blocks=3, batch=5))
    expected = upweighted_sgd(problems.means(x0, 5), 50, np.random.default_rng(0), step=0.05, blocks=3)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_sgd_on_pairs_follows_the_naive_twin():
    X, y, _ = table()
    x0, xs = iterates(partial_auc(X, y, min_tpr=0.5, l2=0.1), SGD(0.05, batch=7))
    above, below, rng = np.flatnonzero(y > 0), np.flatnonzero(y < 0), np.random.default_rng(0)
    expected = pair_sgd(X, above, below, x0, 50, rng, step=0.05, batch=7, l2=0.1)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_classes_of_equal_weight_are_over_sampled_cross_entropy():
    X, y, _ = table()
    x0, xs = iterates(xrisk.group_dro(X, y, y, l2=0.1), UpweightedSGD(0.05, blocks=2, batch=5))
    expected = oversampled_cross_entropy(X, y, x0, 50, np.random.default_rng(0), step=0.05, half=5, l2=0.1)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_the_pool_is_the_groups_weighted_by_their_sizes():
    stated, w = cvar(), np.array([0.3, -0.2, 0.5, 0.1])
    X, y, _ = table()
    losses = np.log1p(np.exp(-y * (X @ w)))
    assert pooled(stated).value(w) == pytest.approx(losses.mean() + 0.05 * w @ w, rel=1e-12)


def test_a_row_in_two_groups_counts_twice_in_the_pool():
    X, y, groups = table()
    member = groups[:, None] == np.arange(6)
    member[:50, 0] = True
    stated, w = xrisk.group_dro(X, y, member, alpha=0.4, l2=0.1), np.array([0.3, -0.2, 0.5, 0.1])
    losses = np.log1p(np.exp(-y * (X @ w)))
    expected = losses @ member.sum(axis=1) / member.sum() + 0.05 * w @ w
    assert pooled(stated).value(w) == pytest.approx(expected, rel=1e-12)


def test_weights_of_rows_are_relative_to_their_group_in_the_pool():
    X, y, groups = table()
    weight, w = np.random.default_rng(1).uniform(0.5, 2.0, 240), np.array([0.3, -0.2, 0.5, 0.1])
    stated = xrisk.group_dro(X, y, groups, alpha=0.4, l2=0.1, sample_weight=weight)
    losses, sizes = np.log1p(np.exp(-y * (X @ w))), np.bincount(groups)
    relative = weight * (sizes / np.bincount(groups, weight))[groups]
    assert pooled(stated).value(w) == pytest.approx((relative * losses).mean() + 0.05 * w @ w, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "aim"), [(SGD(), pooled), (UpweightedSGD(), averaged)], ids=["pool", "equal"])
def test_the_duals_are_the_weights_it_gives_to_the_groups(solver, aim):
    stated = cvar()
    result = xrisk.minimize(stated, solver, budget=xrisk.Budget(iterations=1), rng=0)
    u = problems.means(result.w, 1)
    risks = np.array([u.value(i, result.w, u.everything(i))[0] for i in range(6)])
    expected = aim(stated).value(result.w) - 0.05 * result.w @ result.w
    assert result.dual[:, 0] @ risks / 6 == pytest.approx(expected, rel=1e-12)


def test_components_are_groups_of_the_pool():
    problem, solver, state, _ = begin(tasks(MaxOuter()), SGD())
    y = solver.dual(problem, state)
    assert y.shape == (3, 2)
    assert y.ravel() == pytest.approx(3 * np.bincount(table()[2]) / 240)


def test_samples_that_cannot_be_pooled_are_refused():
    with pytest.raises(ValueError, match=r"SGD needs .* samples can be pooled.* got NoisyCoordinates"):
        SGD().prepare(Problem(NoisyCoordinates(n=4), HardSmooth()))


def test_equal_weights_need_no_groups():
    problem, _ = UpweightedSGD().prepare(Problem(NoisyCoordinates(n=4), HardSmooth()))
    assert type(problem.inner) is NoisyCoordinates
