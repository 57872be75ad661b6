"""MSVR against its naive twin, and what it is a special case of."""

import numpy as np
import pytest

from tests.reference import problems
from tests.reference.msvr import msvr
from tests.solvers.cases import chi2_logistic, cvar
from tests.solvers.running import begin, iterates
from xrisk.functions import block_slope
from xrisk.inner import exact_vjp
from xrisk.problem import inner_values
from xrisk.solvers import (
    MSVR,
    SOX,
    AveragedGradient,
    CorrectedGradient,
    OldValue,
    PlainStep,
    UnitStep,
)

pytestmark = pytest.mark.usefixtures("plain")

SETTING = {"step": 0.05, "track": 0.3, "momentum": 0.2, "blocks": 3}


@pytest.mark.parametrize(
    ("gradient", "scaling"),
    [(AveragedGradient(), PlainStep()), (CorrectedGradient(), PlainStep()), (CorrectedGradient(), UnitStep())],
    ids=["v1", "v2", "v2 adaptive"],
)
def test_it_follows_the_naive_twin(gradient, scaling):
    x0, xs = iterates(chi2_logistic(), MSVR(**SETTING, batch=5, gradient=gradient, scaling=scaling))
    correction = (6 - 3) / (3 * (1 - 0.3)) + (1 - 0.3)
    variant = {"corrected": type(gradient) is CorrectedGradient, "unit": type(scaling) is UnitStep}
    expected = msvr(problems.chi2(x0, 5), 50, np.random.default_rng(0), **SETTING, correction=correction, **variant)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_without_corrections_it_is_sox_of_the_paper():
    xs = iterates(chi2_logistic(), MSVR(**SETTING, correction=0.0, gradient=AveragedGradient()))[1]
    sox = SOX(**SETTING, pairing=OldValue())
    np.testing.assert_allclose(xs, iterates(chi2_logistic(), sox)[1], rtol=1e-12, atol=1e-12)


def test_with_all_blocks_the_filter_is_storm():
    """u ← g(x_t; 𝓑) + (1 − γ)(u − g(x_{t−1}; 𝓑))."""
    setting = {**SETTING, "blocks": 6}
    storm = MSVR(**setting, correction=1.0 - 0.3, gradient=AveragedGradient())
    xs = iterates(chi2_logistic(), MSVR(**setting, gradient=AveragedGradient()))[1]
    np.testing.assert_allclose(xs, iterates(chi2_logistic(), storm)[1], rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_the_corrected_gradient_is_closer_than_the_averaged_one():
    setting = {"step": 0.05, "track": 0.1, "momentum": 0.05, "blocks": 6, "batch": 400}
    averaged = gradient_error(MSVR(**setting, gradient=AveragedGradient()))
    assert gradient_error(MSVR(**setting)) < 0.5 * averaged


def gradient_error(solver):
    """Mean over a run of ‖v − ∇F‖, F without its penalty."""
    problem, solver, state, rng = begin(chi2_logistic(), solver, start=1.0)
    errors = []
    for _ in range(40):
        at = state.w.copy()
        state = solver.advance(problem, state, 1, rng)
        y, exact = inner_values(problem, at), np.zeros(at.size)
        for block in y:
            block_slope(problem.outer, block.copy(), block)
        exact_vjp(problem.inner, at, y / y.shape[0], exact)
        errors.append(np.linalg.norm(state.v - exact))
    return np.mean(errors)


def test_an_outer_function_with_a_kink_is_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"MSVR needs a smooth outer function \(SONX and SONEX run without one\)"):
        MSVR().prepare(cvar())


def test_a_gradient_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"gradient must be CorrectedGradient\(\) or AveragedGradient\(\), got 'storm'"):
        MSVR(gradient="storm").prepare(chi2_logistic())


def test_a_scaling_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"scaling must be PlainStep\(\) or UnitStep\(\), got 2"):
        MSVR(scaling=2).prepare(chi2_logistic())
