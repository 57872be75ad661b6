"""PAUCI, AUCM and cross-entropy against their naive twins, and at extreme scores."""

import numpy as np
import pytest

from tests.reference.rows_auc import aucm, cross_entropy, pauci
from tests.reference.two_way import TwoWay
from tests.solvers.cases import two_way
from tests.solvers.running import begin
from xrisk.applications import two_way_partial_auc
from xrisk.compile import uncompiled
from xrisk.solvers import AUCM, PAUCI, CrossEntropy, EqualClasses, EqualRows

ASGDA = {
    "step": 0.4,
    "dual_step": 0.3,
    "scale": 1.2,
    "delay": 5.0,
    "decay": 1.5,
    "dual_decay": 0.8,
    "kappa": 3.0,
    "omega": 0.6,
    "blocks": 7,
}
PESG = {"step": 0.05, "margin": 0.8, "strength": 0.3, "momentum": 0.6, "epoch": 8, "blocks": 7}


def points(solver, *names, steps=50):
    """w at the start, and the named parts of the state after every iteration, one below the other."""
    problem, solver, state, rng = begin(two_way(), solver, start=0.1)
    found = []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            found.append(np.hstack([getattr(state, name) for name in names]))
    return np.full(4, 0.1), np.array(found)


def test_pauci_follows_the_naive_twin():
    w, found = points(PAUCI(**ASGDA, batch=5), "x", "gamma")
    expected = pauci(TwoWay(w, 5), 50, np.random.default_rng(0), **ASGDA)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_pauci_climbs_in_its_dual():
    """From γ = −1 with all else at its start the slope in γ is positive."""
    problem, solver, state, rng = begin(two_way(), PAUCI())
    with uncompiled():
        after = solver.advance(problem, state._replace(gamma=-1.0, gamma_prev=-1.0), 1, rng)
    assert after.ascent > 0.0
    assert after.gamma > -1.0


def test_aucm_follows_the_naive_twin():
    w, found = points(AUCM(**PESG, batch=5), "x", "alpha")
    expected = aucm(TwoWay(w, 5), 50, np.random.default_rng(0), **PESG)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weights", [EqualRows(), EqualClasses()], ids=str)
def test_cross_entropy_follows_the_naive_twin(weights):
    w, found = points(CrossEntropy(0.3, weights, 7, 5), "x")
    twin = TwoWay(w, 5)
    weight = 0.5 if isinstance(weights, EqualClasses) else twin.n / 60
    expected = cross_entropy(twin, 50, np.random.default_rng(0), step=0.3, weight=weight, blocks=7)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", [PAUCI(step=1e-6), AUCM(step=1e-9), CrossEntropy(1e-6)], ids=["PAUCI", "AUCM", "CE"])
def test_scores_of_a_thousand_overflow_nothing(solver):
    X = 1e3 * np.random.default_rng(0).standard_normal((80, 3))
    stated = two_way_partial_auc(X, np.tile([1, -1], 40), min_tpr=0.5, max_fpr=0.5, l2=0.1)
    problem, solver, state, rng = begin(stated, solver, start=1.0)
    with uncompiled():
        state = solver.advance(problem, state, 40, rng)
    assert np.isfinite(state.x).all()


def test_the_solution_begins_with_the_parameters():
    for solver, more in ((PAUCI(), 7), (AUCM(), 2), (CrossEntropy(), 1)):
        _, ready, state, _ = begin(two_way(), solver, start=0.1)
        assert ready.solution(state).shape == (4 + more,)
        np.testing.assert_array_equal(ready.solution(state)[:4], 0.1)


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        (PAUCI(step=0.0), ValueError, "step must be positive, got 0.0"),
        (PAUCI(kappa=-1.0), ValueError, "kappa must be positive, got -1.0"),
        (PAUCI(omega=-1.0), ValueError, "omega must be finite and not negative, got -1.0"),
        (PAUCI(scale=3.0), ValueError, "delay must be at least 27 for that scale and decay, got 10.0"),
        (AUCM(margin=0.0), ValueError, "margin must be positive, got 0.0"),
        (CrossEntropy(weights=2), TypeError, r"weights must be EqualRows\(\) or EqualClasses\(\), got 2"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(solver, error, words):
    with pytest.raises(error, match=words):
        solver.prepare(two_way())
