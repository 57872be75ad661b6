"""C-SAGA against its naive twin with full tables, and where it applies."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.csaga import csaga
from tests.solvers.cases import chi2_logistic, pushed, regrouped
from tests.solvers.running import begin, iterates
from xrisk.applications import bellman
from xrisk.inner import inner_count
from xrisk.solvers import CSAGA


def naive(stated, x0):
    g = stated.inner
    above, below = (g.rows.X[listed] for listed in (g.outer, g.inner))
    return problems.Pushed(x0, g.side * above, g.side * below)


@pytest.mark.parametrize("batch", [1, 20])
def test_it_follows_the_naive_twin(batch):
    """Of twenty draws among about thirty some are the same."""
    stated = pushed()
    x0, xs = iterates(stated, CSAGA(0.05, batch=batch), steps=10)
    expected = csaga(naive(stated, x0), 10, np.random.default_rng(0), step=0.05, batch=batch)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_the_means_are_those_of_the_points_that_are_kept(plain):
    stated = pushed()
    problem, solver, state, rng = begin(stated, CSAGA(0.05, batch=4), start=0.1)
    state = solver.advance(problem, state, 25, rng)
    twin = naive(stated, state.w)
    seen = [[twin.sample_value(i, j, a) for j, a in enumerate(state.anchors)] for i in range(twin.n)]
    np.testing.assert_allclose(state.means[:, 0], np.mean(seen, axis=1), rtol=1e-12)


RNG = np.random.default_rng(0)
P = RNG.random((10, 10))
P /= P.sum(axis=1, keepdims=True)
REWARD, FEATURES = RNG.random((10, 10)), RNG.random((10, 5))


def mdp(sampling="uniform"):
    return bellman(P, REWARD, FEATURES, sampling=sampling)


@pytest.mark.parametrize("batch", [1, 4])
def test_the_shared_form_of_the_paper_has_the_same_iterates(batch):
    """SVRPDA supplement, equation (20): one inner map to R^2S; its first halves are the same for all samples."""
    x0, xs = iterates(mdp(), CSAGA(0.1, batch=batch), steps=30)
    shared = problems.SharedBellman(x0, P, REWARD, FEATURES, 0.9)
    expected = csaga(shared, 30, np.random.default_rng(0), step=0.1, batch=batch)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_the_mdp_of_the_paper_is_solved_with_its_step():
    stated = mdp()
    best = stated.value(np.linalg.lstsq(stated.inner.mean_rows, stated.inner.mean_reward)[0])
    result = xrisk.minimize(stated, CSAGA(0.1), budget=xrisk.Budget(iterations=20_000), rng=0)
    assert result.value - best < 1e-12


def test_it_keeps_a_point_for_each_shared_sample():
    stated = pushed()
    _, _, state, _ = begin(stated, CSAGA())
    assert state.anchors.shape == (stated.inner.inner.size, 4)
    assert state.jacobians.shape == (inner_count(stated.inner), 1, 4)


def equal_groups():
    return regrouped(np.arange(0, 241, 40))._replace(outer=chi2_logistic().outer)


@pytest.mark.slow
def test_groups_of_one_size_have_shared_samples():
    stated = equal_groups()
    result = xrisk.minimize(stated, CSAGA(0.1, batch=4), budget=xrisk.Budget(iterations=3000), rng=0)
    assert result.value - xrisk.solvers.exact(stated).value < 1e-9


@pytest.mark.parametrize("stated", [chi2_logistic(), mdp("simulator")], ids=["unequal groups", "simulator"])
def test_inner_functions_without_shared_samples_are_refused(stated):
    with pytest.raises(ValueError, match="C-SAGA needs equally many numbered samples of all inner functions"):
        CSAGA().prepare(stated)
