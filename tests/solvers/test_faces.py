"""Faces: minima over every domain, against cvxpy and certified, and what it refuses."""

import cvxpy as cp
import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.applications.test_quadratic import random_form
from tests.functions.test_penalty import modelled, solve
from xrisk.applications import quadratic
from xrisk.solvers.faces import Faces

DOMAINS = [
    fn.NoPenalty(),
    fn.L2(0.1),
    fn.Simplex(),
    fn.NonNegative(),
    fn.SolidSimplex(2.0),
    fn.L1Ball(2.0),
    fn.Hyperplane(-1.0),
    fn.LeveragedBudget(1.0, 3.0),
    fn.LeveragedBudget(0.0, 1.0),
    fn.LeveragedBudget(1.0, 1.0),
    fn.Restricted(fn.L2(0.3), fn.LeveragedBudget(1.0, 1.5)),
]


def run(problem, **options):
    return xrisk.minimize(problem, Faces(**options), budget=xrisk.Budget(iterations=300))


@pytest.mark.parametrize("d", [1, 2, 12])
@pytest.mark.parametrize("cond", [10.0, 1e6])
@pytest.mark.parametrize("penalty", DOMAINS, ids=str)
def test_the_minimum_is_that_of_cvxpy_and_certified(penalty, cond, d):
    H, b = random_form(np.random.default_rng(d), d, cond)
    b = np.abs(b)
    x = cp.Variable(d)
    value, constraints = modelled(penalty, x)
    model = solve(cp.Problem(cp.Minimize(cp.quad_form(x, cp.psd_wrap(H)) - 2 * b @ x + value), constraints))
    problem = quadratic(H, b, penalty=penalty)
    result = run(problem)
    known, slack = xrisk.certify(problem, result), 1e-6 * max(1.0, abs(model.value))
    assert result.stop is xrisk.Stop.CONVERGED
    assert known.gap <= max(1e-8 * abs(known.primal), 1e-11)
    assert known.dual - slack <= model.value <= known.primal + slack


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@pytest.mark.parametrize("penalty", DOMAINS[2:], ids=str)
def test_the_scale_of_the_data_does_not_matter(penalty, scale):
    H, b = random_form(np.random.default_rng(5), 8, 100.0, scale)
    problem = quadratic(H, b, penalty=penalty)
    assert xrisk.certify(problem, run(problem)).relative <= 1e-8


def test_the_same_minimum_as_newtons():
    rng = np.random.default_rng(0)
    problem = xrisk.group_dro(
        rng.standard_normal((50, 4)), rng.standard_normal(50), np.arange(50) % 3, loss="squared", l2=0.1
    )._replace(outer=fn.Identity())
    np.testing.assert_allclose(run(problem).w, xrisk.solvers.exact(problem).w, rtol=1e-6)


@pytest.mark.parametrize("penalty", [fn.Simplex(), fn.L1Ball(), fn.LeveragedBudget()], ids=str)
def test_a_linear_objective_ends_at_a_corner(penalty):
    result = run(quadratic(np.zeros((3, 3)), np.array([0.1, 0.3, 0.2]), penalty=penalty))
    assert result.w[1] == pytest.approx(1.5 if type(penalty) is fn.LeveragedBudget else 1.0)


def test_what_falls_without_bound_is_said():
    result = run(quadratic(np.diag([1.0, 0.0]), np.array([1.0, 1.0])))
    assert result.stop is xrisk.Stop.UNBOUNDED or result.certificate is None


def test_a_start_in_steps_is_a_run_in_one():
    H, b = random_form(np.random.default_rng(9), 30, 1e5)
    problem = quadratic(H, b, penalty=fn.LeveragedBudget(1.0, 4.0))
    task, solver = Faces(1e-14).prepare(problem)
    state = solver.init(task, np.zeros(30), None)
    once, twice = (
        solver.advance(task, state, 5, None),
        solver.advance(task, solver.advance(task, state, 2, None), 3, None),
    )
    np.testing.assert_array_equal(once.w, twice.w)
    np.testing.assert_array_equal(solver.advance(task, state, 0, None).w, state.w)


@pytest.mark.parametrize(
    ("problem", "needed"),
    [
        (quadratic(np.eye(2), np.ones(2), penalty=fn.Ball()), "a domain of known faces, got Tilted"),
        (quadratic(np.eye(2), np.ones(2), penalty=fn.L1()), "a domain of known faces, got Tilted"),
        (xrisk.group_dro(np.eye(2), [1, -1], [0, 1], l2=0.1), "squared losses under Identity"),
        (
            xrisk.applications.mean_variance(np.eye(2), domain=fn.L1Ball()),
            "squared losses under Identity.* got Deviations under Scaled",
        ),
    ],
    ids=["ball", "l1", "logistic", "outer"],
)
def test_what_it_does_not_know_it_refuses(problem, needed):
    with pytest.raises(ValueError, match=f"faces needs .*{needed}"):
        run(problem)
