"""Stages: their settings, their random lengths, and what is reported."""

import numpy as np
import pytest

from tests.solvers.cases import chi2_logistic, cvar
from tests.solvers.running import begin
from xrisk.solvers import BSGD, MSVR, SOX, Decreasing, LastIterate, Restarted

pytestmark = pytest.mark.usefixtures("plain")

SOLVER = SOX(0.1, 0.5, 0.4, blocks=3)


def test_it_is_the_solver_stage_by_stage():
    problem, solver, state, rng = begin(chi2_logistic(), Restarted(SOLVER, length=20))
    end = solver.advance(problem, state, 60, rng)
    problem, sox, expected, rng = begin(chi2_logistic(), SOLVER)
    left, stage = int(rng.integers(1, 21)), 0
    while expected.t < 60:
        part = 0.5**stage
        staged = sox._replace(step=0.1 * part, track=0.5 * part, momentum=0.4 * part)
        expected = staged.advance(problem, expected, min(left, 60 - expected.t), rng)
        left, stage = int(rng.integers(1, 20 * 2 ** (stage + 1) + 1)), stage + 1
    assert end.stage >= 2
    np.testing.assert_array_equal(end.inner.w, expected.w)
    np.testing.assert_array_equal(end.inner.u, expected.u)


def test_a_stage_is_as_long_as_a_uniform_draw():
    solver, rng = Restarted(SOX(), length=5, growth=2.0), np.random.default_rng(0)
    counts = np.bincount([solver.draw_length(1, rng) for _ in range(10_000)], minlength=11)
    assert counts[0] == 0
    assert np.abs(counts[1:] / 1000 - 1).max() < 0.15
    assert counts.size == 11


def test_settings_shrink_by_their_factors():
    solver = Restarted(MSVR(0.8, 0.4, 0.2), step_factor=0.5**0.5, track_factor=1.0)
    staged = solver.prepare(chi2_logistic())[1].of_stage(2)
    assert (staged.step, staged.track, staged.momentum) == pytest.approx((0.4, 0.4, 0.05))


def test_schedules_shrink_too():
    solver = Restarted(BSGD(Decreasing(0.8, 10.0)))
    assert solver.prepare(cvar())[1].of_stage(3).step == Decreasing(0.1, 10.0)


def test_the_last_iterate_of_a_stage_is_reported():
    problem, solver, state, rng = begin(chi2_logistic(), Restarted(SOLVER._replace(average=LastIterate()), length=20))
    state = solver.advance(problem, state, state.left, rng)
    assert state.stage == 1
    np.testing.assert_allclose(solver.solution(state), state.inner.w, rtol=1e-14)


@pytest.mark.parametrize("field", ["step_factor", "track_factor", "momentum_factor"])
@pytest.mark.parametrize("factor", [0.0, 1.5, np.nan, "half", None])
def test_factors_outside_their_range_are_refused(field, factor):
    with pytest.raises(ValueError, match=rf"{field} must lie in \(0, 1\], got"):
        Restarted(SOX(), **{field: factor}).prepare(cvar())


@pytest.mark.parametrize(
    ("length", "growth", "words"),
    [
        (0, 2.0, "length must be at least 1, got 0"),
        (1.5, 2.0, "length must be a whole number, got 1.5"),
        ("long", 2.0, "length must be a whole number, got 'long'"),
        (10, 0.5, "growth must be at least 1, got 0.5"),
        (10, np.inf, "growth must be finite, got inf"),
        (10, None, "growth must be at least 1, got None"),
    ],
)
def test_stages_that_do_not_grow_are_refused(length, growth, words):
    with pytest.raises(ValueError, match=words):
        Restarted(SOX(), length, growth).prepare(cvar())


@pytest.mark.parametrize("solver", ["sox", None, Decreasing()])
def test_what_is_no_solver_is_refused(solver):
    with pytest.raises(TypeError, match="solver must be a solver with a field step"):
        Restarted(solver).prepare(cvar())


def test_what_the_solver_refuses_is_refused():
    with pytest.raises(ValueError, match="MSVR needs a smooth outer function"):
        Restarted(MSVR()).prepare(cvar())
