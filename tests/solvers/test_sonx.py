"""SONX against its naive twin, and what it is a special case of."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.sonx import sonx
from tests.solvers.cases import cvar, tasks
from tests.solvers.running import begin, iterates
from xrisk.functions import LogSumExp
from xrisk.solvers import SONX, SOX, OldValue, TheoryCorrection
from xrisk.solvers.shared.tracking import correction_weight

pytestmark = pytest.mark.usefixtures("plain")

SETTING = {"step": 0.05, "track": 0.3, "blocks": 3}


@pytest.mark.parametrize("correction", [0.0, 0.6], ids=["v1", "v2"])
def test_it_follows_the_naive_twin(correction):
    x0, xs = iterates(cvar(), SONX(**SETTING, correction=correction, batch=5))
    expected = sonx(problems.cvar(x0, 5), 50, np.random.default_rng(0), **SETTING, correction=correction)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_it_follows_the_naive_twin_with_the_correction_of_the_theory():
    x0, xs = iterates(cvar(), SONX(**SETTING, correction=TheoryCorrection(), batch=5))
    correction = (6 - 3) / (3 * (1 - 0.3)) + (1 - 0.3)
    expected = sonx(problems.cvar(x0, 5), 50, np.random.default_rng(0), **SETTING, correction=correction)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_vector_blocks_follow_the_naive_twin():
    setting = {"step": 0.05, "track": 0.3, "blocks": 2, "correction": 0.5}
    x0, xs = iterates(tasks(LogSumExp(2.0)), SONX(**setting, batch=4))
    expected = sonx(problems.lse(x0, 4), 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_without_correction_it_is_sox_of_the_paper_without_momentum():
    sox = SOX(**SETTING, momentum=1.0, pairing=OldValue())
    xs = iterates(cvar(), SONX(**SETTING, correction=0.0))[1]
    np.testing.assert_allclose(xs, iterates(cvar(), sox)[1], rtol=1e-12, atol=1e-12)


def test_with_all_blocks_the_correction_of_the_theory_is_that_of_storm():
    assert correction_weight(TheoryCorrection(), 0.3, 6, 6) == pytest.approx(0.7)


def test_the_cap_holds_the_correction_of_the_theory():
    assert correction_weight(TheoryCorrection(), 0.3, 60, 3) > 20
    assert correction_weight(TheoryCorrection(cap=0.9), 0.3, 60, 3) == 0.9


@pytest.mark.slow
def test_the_correction_tracks_moving_inner_values_more_closely():
    """At a steady pace a moving average lags behind; the difference of two values on one batch makes up for it."""
    average, corrected = (
        tracking_error(SONX(0.05, 0.05, correction, blocks=6, batch=40)) for correction in (0.0, 0.95)
    )
    assert corrected < 0.5 * average


def tracking_error(solver):
    problem, solver, state, rng = begin(cvar(), solver, start=1.0)
    state = solver.advance(problem, state, 80, rng)
    return np.abs(state.u - xrisk.problem.inner_values(problem, state.w)).mean()


def test_a_negative_correction_is_refused():
    with pytest.raises(ValueError, match=r"correction must be finite and not negative, got -0\.5"):
        SONX(correction=-0.5).prepare(cvar())


@pytest.mark.parametrize("correction", ["theory", None, np.nan])
def test_a_correction_of_another_kind_is_refused(correction):
    with pytest.raises((TypeError, ValueError), match="correction must"):
        SONX(correction=correction).prepare(cvar())


def test_the_correction_of_the_theory_is_refused_where_it_is_infinite():
    with pytest.raises(ValueError, match=r"track must be below 1 for TheoryCorrection"):
        SONX(track=1.0, correction=TheoryCorrection()).prepare(cvar())


@pytest.mark.parametrize("cap", [0.0, np.nan, "one", None])
def test_a_cap_that_is_not_positive_is_refused(cap):
    with pytest.raises(ValueError, match="cap must be positive, got"):
        SONX(correction=TheoryCorrection(cap=cap)).prepare(cvar())


def test_whole_numbers_are_corrections_too():
    assert SONX(correction=1).prepare(cvar())[1].correction == 1.0
