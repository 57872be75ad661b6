"""MSVR v3 against its naive twin, its special case, and what full passes buy."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.msvr_snapshot import msvr_snapshot
from tests.solvers.cases import chi2_logistic, cvar
from tests.solvers.running import begin, iterates
from xrisk.solvers import MSVR, SnapshotMSVR

SETTING = {"step": 0.05, "track": 0.3, "momentum": 0.2, "blocks": 3}


def test_it_follows_the_naive_twin():
    x0, xs = iterates(chi2_logistic(), SnapshotMSVR(**SETTING, epoch=7, batch=5))
    correction = (6 - 3) / (3 * (1 - 0.3)) + (1 - 0.3)
    stream = np.random.default_rng(0)
    expected = msvr_snapshot(problems.chi2(x0, 5), 50, stream, **SETTING, correction=correction, epoch=7)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_without_noise_it_is_msvr_v2():
    """Groups of one row, all of them in every iteration."""
    X, y, _ = table(n=6)
    problem = xrisk.group_dro(X, y, np.array([1, 0, 2, 3, 4, 5]), divergence="chi2", lam=1.0, l2=0.1)
    setting = {**SETTING, "blocks": 6, "batch": 1}
    xs = iterates(problem, SnapshotMSVR(**setting, epoch=7))[1]
    np.testing.assert_allclose(xs, iterates(problem, MSVR(**setting))[1], rtol=1e-10, atol=1e-12)


def test_constant_steps_reach_the_optimum():
    """The noise goes to zero with the distance: the last iterate is as good as it gets."""
    problem, solver, state, rng = begin(chi2_logistic(), SnapshotMSVR(0.05, blocks=3))
    state = solver.advance(problem, state, 5000, rng)
    assert problem.value(state.w) - xrisk.solvers.exact(chi2_logistic()).value < 1e-7


def test_an_epoch_samples_as_much_as_a_pass_sees():
    solver = SnapshotMSVR(blocks=3, batch=7).prepare(chi2_logistic())[1]
    assert solver.epoch == int(np.ceil(240 / 21))


@pytest.mark.parametrize(
    ("epoch", "words"), [(0, "epoch must be at least 1, got 0"), (2.5, "epoch must be a whole number, got 2.5")]
)
def test_an_epoch_that_is_no_number_of_iterations_is_refused(epoch, words):
    with pytest.raises(ValueError, match=words):
        SnapshotMSVR(epoch=epoch).prepare(chi2_logistic())


def pushed():
    X, y, _ = table(n=60)
    return xrisk.applications.p_norm_push(X, y, p=2.0, loss="logistic", l2=0.1)


def bellman():
    rng = np.random.default_rng(0)
    P = rng.random((12, 12))
    P /= P.sum(axis=1, keepdims=True)
    return xrisk.applications.bellman(P, rng.random(12), rng.random((12, 3)), discount=0.9, l2=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "step", "samples"), [(pushed(), 0.1, None), (bellman(), 0.05, 144)])
def test_pairs_and_transitions_have_full_passes(problem, step, samples):
    count = xrisk.inner.inner_samples(problem.inner)
    assert count == (samples or problem.inner.outer.size * problem.inner.inner.size)
    result = xrisk.minimize(problem, SnapshotMSVR(step), budget=xrisk.Budget(iterations=4000), rng=0)
    assert result.value - xrisk.solvers.exact(problem).value < 1e-5


def test_inner_functions_that_are_no_finite_sums_are_refused():
    problem = xrisk.applications.hard_smooth(4, eps=0.005).problem
    with pytest.raises(ValueError, match="SnapshotMSVR needs inner finite sums"):
        SnapshotMSVR().prepare(problem)


def test_an_outer_function_with_a_kink_is_refused():
    with pytest.raises(ValueError, match="SnapshotMSVR needs a smooth outer function"):
        SnapshotMSVR().prepare(cvar())
