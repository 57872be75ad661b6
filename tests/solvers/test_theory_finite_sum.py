"""Settings of the theorems on SVRPDA-I and SPDC: formulas, and promises kept."""

import numpy as np
import pytest

import xrisk
from tests.drawing import drawn
from tests.solvers.cases import chi2_logistic, cvar, pushed, single_rows, squares, tasks
from tests.solvers.running import begin
from xrisk.functions import L2, LogSumExp, Softplus
from xrisk.inner import batch_vjp, inner_size, new_batch, sample_lipschitz, sample_smoothness
from xrisk.problem import Problem, block_slopes, coupled, inner_values
from xrisk.solvers import LastPoint, RandomPoint, SingleLoop, theory

CONSTANTS = theory.Constants(12, 1.0, 0.25, 2.0, 0.5, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0)  # κ = 3 for theorem 4.5
SETTINGS = {"4.5": theory.theorem_4_5, "4.6": theory.theorem_4_6}


def lipschitz_squares():
    """As ``squares``, with an outer function that is Lipschitz and smooth, and curvature in the penalty."""
    return Problem(squares().inner, Softplus(), L2(2.0))


def single(n=6):
    stated = single_rows()
    inner = stated.inner._replace(
        offsets=stated.inner.offsets[: n + 1], index=type(stated.inner.index)(stated.inner.index.rows[:n])
    )
    return Problem(inner, Softplus(), L2(1.0))


def test_theorem_4_5_has_the_constants_of_the_text():
    solver = theory.theorem_4_5(squares(), 0.1, constants=CONSTANTS).solver
    assert solver.step == pytest.approx(1.0 / (0.5 * 12 * (64 * 3 + 1)))
    assert solver.dual_step == pytest.approx(0.25 / (64 * 3 + 1))
    assert solver.epoch == int(np.ceil(78.8 * 12 * 3 + 1.3 * 12 + 1.3))
    assert isinstance(solver.restart, LastPoint)


def test_theorem_4_6_has_the_constants_of_the_text():
    solver = theory.theorem_4_6(squares(), 0.1, constants=CONSTANTS).solver
    assert 1.0 / solver.step == pytest.approx(25 * 4 * 0.25 + 10 * 0.5 + 80 * 0.25 / 0.5)
    assert solver.dual_step == pytest.approx(0.5 / (40 * 4))
    assert solver.epoch == int(np.ceil(max(10 / (solver.step * 0.5), 2 * 12 * 0.25 / solver.dual_step, 48)))
    assert isinstance(solver.restart, RandomPoint)


def test_theorem_f_1_has_the_corrected_rate():
    setting = theory.theorem_f_1(single(), 0.1, constants=CONSTANTS._replace(n=6))
    assert isinstance(setting.solver.epoch, SingleLoop)
    assert setting.iterations == int(np.ceil(np.log(0.1) / np.log1p(-1.0 / (1 + 8 * 2.0 + 12))))


def distances(setting, seeds=4):
    """‖x − x*‖² + ‖y − y*‖² at the start, and after the iterations of the setting."""
    best = xrisk.solvers.exact(setting.problem, tol=1e-12).w
    duals = block_slopes(setting.problem.outer, inner_values(setting.problem, best))
    found = []
    for seed in range(seeds):
        problem, solver, state, rng = begin(setting.problem, setting.solver, seed, start=1.0)
        first = np.sum((state.w - best) ** 2), np.sum((state.y - duals) ** 2)
        state = solver.advance(problem, state, setting.iterations, rng)
        found.append((*first, np.sum((state.w - best) ** 2), np.sum((state.y - duals) ** 2)))
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("theorem", SETTINGS.values(), ids=SETTINGS)
def test_the_distance_falls_as_the_theorem_says(theorem):
    eps, stated = 0.3, lipschitz_squares()
    setting = theorem(stated, eps)
    c = theory.estimate_constants(stated)
    x0, y0, x, _ = distances(setting)
    kappa = sample_lipschitz(stated.inner) ** 2 * c.smoothness_f / c.mu
    weight = {
        theory.theorem_4_5: (64 * kappa + 3) / (c.mu * c.smoothness_f * (64 * c.n * kappa + c.n + 1)),
        theory.theorem_4_6: 1.0 / (c.n * c.mu * c.smoothness_f),
    }[theorem]
    assert x <= eps * (x0 + weight * y0)


@pytest.mark.slow
def test_the_single_loop_falls_as_its_theorem_says():
    eps, stated = 0.05, single()
    setting = theory.theorem_f_1(stated, eps)
    c, solver = theory.estimate_constants(stated), setting.solver
    at_x, at_y = 0.5 / solver.step + c.mu, 0.5 / solver.dual_step + 1.0 / c.smoothness_f
    x0, y0, x, y = distances(setting)
    assert at_x * x + at_y * y <= eps * (at_x * x0 + at_y * y0)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_spdc_falls_as_its_theorem_says(blocks):
    setting = theory.spdc_setting(single(), 1e-4, blocks=blocks)
    x0, y0, x, _ = distances(setting)
    c, solver = theory.estimate_constants(single()), setting.solver
    potential = (0.5 / solver.step + c.mu) * x0 + (0.25 / solver.dual_step + 1.0 / c.smoothness_f) * y0 / blocks
    assert (0.5 / solver.step + c.mu) * x <= 1e-4 * potential


SAMPLED = {"cvar": cvar, "pushed": pushed, "squares": squares, "tasks": lambda: tasks(LogSumExp(1.0))}


@pytest.mark.parametrize("stated", SAMPLED.values(), ids=SAMPLED)
def test_constants_of_single_samples_bound_what_is_drawn(stated):
    inner, rng = coupled(stated()).inner, np.random.default_rng(0)
    d, m = inner_size(inner), xrisk.inner.inner_dim(inner)
    lipschitz, smoothness = sample_lipschitz(inner), sample_smoothness(inner)
    for i in range(5):
        batch = drawn(inner, i % xrisk.inner.inner_count(inner), rng, new_batch(inner, 1))
        points, rows = rng.standard_normal((2, d)), np.zeros((2, m, d))
        for point, J in zip(points, rows, strict=True):
            for k, unit in enumerate(np.eye(m)):
                batch_vjp(inner, i % xrisk.inner.inner_count(inner), point, batch, unit, 1.0, J[k])
        assert np.linalg.norm(rows[0], 2) <= lipschitz * (1 + 1e-12)
        assert np.linalg.norm(rows[0] - rows[1], 2) <= smoothness * np.linalg.norm(points[0] - points[1]) + 1e-12


@pytest.mark.parametrize("theorem", [*SETTINGS.values(), theory.theorem_f_1, theory.spdc_setting])
def test_what_no_theorem_covers_is_refused(theorem):
    with pytest.raises(ValueError, match="needs a strongly convex penalty"):
        theorem(single(), 0.1, constants=CONSTANTS._replace(mu=0.0))
    with pytest.raises(ValueError, match="eps must be below 1"):
        theorem(single(), 2.0, constants=CONSTANTS)


@pytest.mark.parametrize("theorem", [theory.theorem_f_1, theory.spdc_setting])
def test_a_single_loop_needs_single_rows(theorem):
    with pytest.raises(ValueError, match="SPDC needs affine inner functions of one sample each"):
        theorem(chi2_logistic(), 0.1, constants=CONSTANTS)
