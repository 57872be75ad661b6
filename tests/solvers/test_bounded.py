"""The bounded surrogate: values and slopes against brute force, the grid against pairs, a descent that only gains."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import expit

from xrisk.data.rows import as_rows
from xrisk.inner import Pairs
from xrisk.metrics import partial_auc_score
from xrisk.solvers.auc import bounded
from xrisk.solvers.auc.bounded import bounded_mean, bounded_objective, pairs_in_order, ranking_of

RNG = np.random.default_rng(0)


def table(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = X[:, 0] + 0.5 * X[:, 1] ** 2 + rng.standard_normal(n) > 1.2
    return X, y


def ranking(X, y, min_tpr=0.4, max_fpr=0.3):
    return ranking_of(Pairs(as_rows(X), np.flatnonzero(y), np.flatnonzero(~y)), min_tpr, max_fpr)


def test_the_value_is_the_mean_over_the_selected_pairs():
    X, y = table()
    z = X @ np.array([1.0, 0.3, -0.2, 0.1])
    lowest, highest = int(y.sum() * 0.6 + 1e-9), int((~y).sum() * 0.3 + 1e-9)
    a, b = np.sort(z[y])[:lowest], np.sort(z[~y])[-highest:]
    expected = expit(b[None, :] - a[:, None]).mean()
    assert bounded_objective(ranking(X, y), z)[0] == pytest.approx(expected, rel=1e-12)


def test_slopes_are_those_of_the_value():
    a, b = RNG.standard_normal(7), RNG.standard_normal(9)
    found = bounded_mean(a, b)
    assert check_grad(lambda v: bounded_mean(v, b).value, lambda v: bounded_mean(v, b).side_i, a) < 1e-7
    assert check_grad(lambda v: bounded_mean(a, v).value, lambda v: bounded_mean(a, v).side_j, b) < 1e-7
    assert found.side_i.sum() == pytest.approx(-found.side_j.sum())


@pytest.mark.parametrize("offset", [0.0, 1e6, -3e3])
def test_on_a_grid_the_mean_is_that_of_the_pairs(offset):
    a, b = 2.0 * RNG.standard_normal(400) + 1.0 + offset, 2.0 * RNG.standard_normal(500) + offset
    exact, grid = bounded._pair_by_pair(a, b), bounded._on_grid(a, b)
    assert grid.value == pytest.approx(exact.value, abs=2e-6)
    np.testing.assert_allclose(grid.side_i, exact.side_i, atol=5e-3 * np.abs(exact.side_i).max())
    np.testing.assert_allclose(grid.side_j, exact.side_j, atol=5e-3 * np.abs(exact.side_j).max())


def test_scores_out_of_reach_neither_count_nor_overflow():
    grid = bounded._on_grid(np.array([0.0, 1e8]), np.array([0.0, -1e8, 1.0]))
    assert np.isfinite(grid.value)
    assert grid.side_i[1] == grid.side_j[1] == 0.0


@pytest.mark.parametrize(("min_tpr", "max_fpr"), [(0.0, 1.0), (0.5, 0.3), (0.9, 0.05)])
def test_pairs_in_order_are_the_partial_auc_by_counts(min_tpr, max_fpr):
    X, y = table(n=400)
    z = np.round(X[:, 0], 1)
    found = pairs_in_order(ranking(X, y, min_tpr, max_fpr), z)
    expected = partial_auc_score(y, z, min_tpr=min_tpr, max_fpr=max_fpr, method="counts")
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("anchor", [0.1, 0.001])
@pytest.mark.parametrize("seed", range(4))
def test_a_descent_never_loses_pairs(seed, anchor):
    X, y = table(seed=seed)
    pairs = ranking(X, y)
    start = np.random.default_rng(seed).standard_normal(4)
    assert pairs.descended(start, anchor, 30).score >= pairs.step_at(start).score


def test_a_strong_anchor_holds():
    X, y = table()
    start = np.array([0.2, 1.0, 0.0, 0.0])
    near, far = (ranking(X, y).descended(start, anchor, 50).w for anchor in (1e3, 1e-3))
    assert np.linalg.norm(near - start) <= 1e-3 < np.linalg.norm(far - start)


def test_those_who_watch_can_end_it():
    X, y = table()
    seen = []
    ranking(X, y).descended(np.ones(4), 0.01, 50, watch=lambda step: bool(seen.append(step)) or len(seen) == 2)
    assert len(seen) == 2
