"""Compositional-SVRG-1, -2 and ASCVRG against their naive twins, and at their best."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.compositional_svrg import ascvrg, csvrg1, csvrg2
from tests.solvers.cases import chi2_logistic, cvar, squares
from tests.solvers.running import begin, iterates
from xrisk.solvers import ASCVRG, CompositionalSVRG1, CompositionalSVRG2, Growing, MeanPoint, RandomPoint


def naive(problem, x0):
    return {"curved": problems.chi2, "affine": problems.Affine}[problem](x0, 3)


STATED = {"curved": chi2_logistic, "affine": squares}
each = pytest.mark.parametrize("problem", STATED)


@each
def test_the_first_form_follows_its_naive_twin(problem):
    x0, xs = iterates(STATED[problem](), CompositionalSVRG1(0.02, epoch=7, batch=3))
    expected = csvrg1(naive(problem, x0), 50, np.random.default_rng(0), step=0.02, epoch=7)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@each
def test_the_second_form_follows_its_naive_twin(problem):
    x0, xs = iterates(STATED[problem](), CompositionalSVRG2(0.02, epoch=7, batch=3, jacobian_batch=3))
    expected = csvrg2(naive(problem, x0), 50, np.random.default_rng(0), step=0.02, epoch=7)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@each
def test_ascvrg_follows_its_naive_twin(problem):
    x0, xs = iterates(STATED[problem](), ASCVRG(0.02, passes=4, batch=3, jacobian_batch=3))
    expected = ascvrg(naive(problem, x0), 50, np.random.default_rng(0), step=0.02, passes=4)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [
        CompositionalSVRG1(0.05),
        CompositionalSVRG1(0.05, restart=RandomPoint()),
        CompositionalSVRG2(0.05),
        CompositionalSVRG2(0.05, restart=MeanPoint()),
    ],
    ids=lambda solver: f"{type(solver).__name__}-{solver.restart}",
)
def test_constant_steps_are_linear_to_1e_10(solver, plain):
    """The second thousand steps lower the gap by a factor, as the first do."""
    problem, solver, state, rng = begin(chi2_logistic(), solver)
    best, gaps = xrisk.solvers.exact(chi2_logistic(), tol=1e-14).value, []
    for _ in range(2):
        state = solver.advance(problem, state, 1000, rng)
        gaps.append(problem.value(state.w) - best)
    assert gaps[0] < 1e-5
    assert gaps[1] < min(1e-10, 1e-4 * gaps[0]) + 1e-15


@pytest.mark.slow
def test_the_steps_of_ascvrg_rise_from_a_root_of_a_half():
    """On a problem of one exact row, x − x⁺ is the step times the gradient."""
    stated, s = squares(), 1e-6
    problem, solver, state, rng = begin(stated, ASCVRG(s, passes=2), start=0.1)
    moves = []
    for _ in range(20):
        before = state.w.copy()
        state = solver.advance(problem, state, 1, rng)
        moves.append(np.linalg.norm(state.w - before))
    assert solver.epoch == Growing()
    assert moves[0] / moves[-1] == pytest.approx(np.sqrt(0.5), rel=1e-2)


def test_what_ascvrg_reports_is_the_mean_of_the_epoch(plain):
    problem, solver, state, rng = begin(chi2_logistic(), ASCVRG(0.05), start=0.1)
    xs = []
    for _ in range(11):
        state = solver.advance(problem, state, 1, rng)
        xs.append(state.w.copy())
    np.testing.assert_allclose(solver.solution(state), np.mean(xs[5:], axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "solver", [CompositionalSVRG1(), CompositionalSVRG2(), ASCVRG()], ids=lambda s: type(s).__name__
)
def test_an_outer_function_with_a_kink_is_refused(solver):
    with pytest.raises(ValueError, match="needs a smooth outer function"):
        solver.prepare(cvar())


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (CompositionalSVRG2(jacobian_batch=0), "jacobian_batch must be at least 1, got 0"),
        (ASCVRG(jacobian_batch=1.5), "jacobian_batch must be a whole number, got 1.5"),
        (ASCVRG(passes=0), "passes must be at least 1, got 0"),
        (ASCVRG(step=-1.0), "step must be positive, got -1"),
    ],
    ids=lambda x: "",
)
def test_what_is_wrong_is_said_in_one_sentence(solver, words):
    with pytest.raises(ValueError, match=words):
        solver.prepare(chi2_logistic())
