"""ALEXR-DL against its naive twin, on inner functions that are not convex, and what it refuses."""

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import xrisk
from tests.reference import problems
from tests.reference.alexr_dl import alexr_dl
from tests.solvers.cases import cvar, tasks
from tests.solvers.running import begin
from xrisk.functions import L2, CVaRHinge, CVaRRisk, MaxOuter, Smoothed, Softplus
from xrisk.inner import Callables
from xrisk.problem import Problem, coupled, coupled_start
from xrisk.solvers import ALEXR, ALEXRDL, SOX, Conjugate, Decreasing


@pytest.mark.parametrize("outer", [{}, {"momentum": 0.3, "outer_step": 1.4}], ids=["plain", "momentum"])
def test_it_follows_the_naive_twin(outer):
    setting = {"step": 0.05, "dual_step": 0.2, "theta": 0.7, "blocks": 3}
    solver = ALEXRDL(ALEXR(**setting, batch=5), strength=0.8, length=10, **outer)
    problem, solver, state, rng = begin(cvar(), solver, start=0.1)
    p = problems.cvar(state.center.copy(), 5)
    centers = []
    for _ in range(5):
        state = solver.advance(problem, state, 10, rng)
        centers.append(state.center.copy())
    expected = alexr_dl(p, 5, np.random.default_rng(0), strength=0.8, length=10, **setting, **outer)
    np.testing.assert_allclose(centers, expected, rtol=1e-10, atol=1e-12)


def test_a_stage_begins_at_the_solution_of_the_one_before_with_its_duals():
    problem, solver, state, rng = begin(cvar(), ALEXRDL(ALEXR(blocks=3), length=10))
    state = solver.advance(problem, state, 9, rng)
    np.testing.assert_array_equal(state.center, solver.start(cvar(), np.zeros(4)))
    state = solver.advance(problem, state, 1, rng)
    assert (state.inner.t, state.t) == (0, 10)
    assert (state.center != solver.start(cvar(), np.zeros(4))).any()
    np.testing.assert_array_equal(state.inner.w_prev, state.center)
    np.testing.assert_array_equal(solver.solution(state), state.center)
    assert (state.inner.z != 0.0).any()


def robust_regression():
    """gᵢ(w) = mean ℓ(⟨a, w⟩ − b) with ℓ(r) = r²/(1 + r²), whose curvature goes down to −½; and its weak convexity."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((4, 30, 2))
    b = A @ np.array([1.5, -1.0]) + 0.3 * rng.standard_normal((4, 30))
    b[:, :6] += 5.0  # outliers

    def value(i, w, rows):
        r2 = (A[i, rows] @ w - b[i, rows]) ** 2
        return (r2 / (1.0 + r2)).mean()

    def vjp(i, w, rows, y):
        r = A[i, rows] @ w - b[i, rows]
        return y[0] * (2.0 * r / (1.0 + r**2) ** 2) @ A[i, rows] / len(rows)

    every = np.arange(30)
    inner = Callables(
        n=4,
        d=2,
        sample=lambda i, rng, size: (30 * rng.random(size)).astype(int),
        value=value,
        vjp=vjp,
        exact=lambda i, w: value(i, w, every),
    )
    rho = 0.5 * max(np.linalg.eigvalsh(rows.T @ rows / 30)[-1] for rows in A)
    return inner, rho


def distance_from_stationary(problem, x, strength):
    """ρ̄ ‖x − x̂‖ with x̂ the minimiser of F + (ρ̄/2)‖· − x‖²."""

    def around(z):
        return problem.value(z) + 0.5 * strength * np.sum((z - x) ** 2)

    best = scipy_minimize(around, x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14, "maxfev": 4000})
    return strength * np.linalg.norm(x - best.x)


def test_the_inner_functions_of_these_tests_are_not_convex():
    inner, _ = robust_regression()
    problem = Problem(inner, Softplus(), L2(0.01))
    a, b = np.array([6.0, -4.0]), np.array([1.5, -1.0])
    assert problem.value((a + b) / 2) > 0.5 * (problem.value(a) + problem.value(b)) + 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outer", "lipschitz", "smoothing", "momentum"),
    [(Softplus(), 1.0, None, 1.0), (CVaRRisk(0.5), 2.0, 0.05, 1.0), (CVaRRisk(0.5), 2.0, 0.05, 0.5)],
    ids=["smooth", "smoothed", "alexr2"],
)
def test_it_comes_near_a_stationary_point_of_a_weakly_convex_problem(outer, lipschitz, smoothing, momentum):
    inner, rho = robust_regression()
    stated, w0 = Problem(inner, outer, L2(0.01)), np.array([0.5, 0.0])
    inside, strength = ALEXR(0.2, 0.5, blocks=2, batch=16), 2.0 * lipschitz * rho
    solver = ALEXRDL(inside, strength, length=25, smoothing=smoothing, momentum=momentum)
    result = xrisk.minimize(stated, solver, w0, budget=xrisk.Budget(iterations=2000), rng=0)
    problem, settled = solver.prepare(stated)
    far, near = (distance_from_stationary(problem, x, settled.strength) for x in (coupled_start(stated, w0), result.x))
    assert near < 0.1 * far
    assert result.value < stated.value(w0) - 0.1


def test_smoothing_puts_the_moreau_envelope_in_the_place_of_f():
    problem, _ = ALEXRDL(smoothing=0.1).prepare(cvar())
    assert problem.outer == Smoothed(CVaRHinge(0.4), 0.1)
    x = np.array([0.3, -0.2, 0.1, 0.4, 0.6])
    assert 0.0 < coupled(cvar()).value(x) - problem.value(x) <= 0.1 * 2.5**2 / 2


def test_smoothing_allows_the_geometry_of_f():
    solver = ALEXRDL(ALEXR(mirror=Conjugate()))
    with pytest.raises(ValueError, match=r"mirror must be Quadratic\(\) for an outer function with a kink"):
        solver.prepare(cvar())
    solver._replace(smoothing=0.1).prepare(cvar())


def test_vector_blocks_are_not_smoothed():
    with pytest.raises(ValueError, match=r"smoothing must be None for .* of several values, got 0.1 for MaxOuter"):
        ALEXRDL(smoothing=0.1).prepare(tasks(MaxOuter()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strength": 0.0}, "strength must be positive, got 0.0"),
        ({"strength": np.nan}, "strength must be finite, got nan"),
        ({"length": 0}, "length must be at least 1, got 0"),
        ({"smoothing": -1.0}, "smoothing must be positive, got -1.0"),
        ({"momentum": 1.5}, r"momentum must lie in \(0, 1\], got 1.5"),
        ({"momentum": Decreasing(0.5)}, "momentum must lie in \\(0, 1\\], got Decreasing"),
        ({"outer_step": 0.0}, "outer_step must be positive, got 0.0"),
        ({"solver": ALEXR(theta=2.0)}, "theta must lie between 0 and 1, got 2.0"),
    ],
    ids=["strength", "nan", "length", "smoothing", "momentum", "schedule", "outer step", "inner"],
)
def test_parameters_out_of_range_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        ALEXRDL(**change).prepare(cvar())


def test_another_inner_method_is_refused():
    with pytest.raises(TypeError, match="solver must be an ALEXR, got SOX"):
        ALEXRDL(solver=SOX()).prepare(cvar())
