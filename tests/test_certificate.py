"""Certificates: no dual bound exceeds any primal one, on thousands of problems, and the gap closes along a run."""

from fractions import Fraction

import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.conftest import table
from tests.random_problems import (
    FREE,
    JOINT,
    LOSSES,
    MONOTONE,
    PENALTIES,
    RISKS,
    Known,
    random_points,
    random_problem,
)
from tests.solvers import test_exact as references
from xrisk import Problem, certify
from xrisk.certificate import bounds, sums
from xrisk.data.rows import frozen
from xrisk.inner import Groups, LinearModel, NoisyCoordinates, SoftmaxModel, WithIntercept, as_rows
from xrisk.inner.oracle import inner_size
from xrisk.solvers import exact

RIDGE = fn.L2(0.1)
SHORT_OF_INFINITE = (fn.Box, fn.Ball, fn.Simplex, fn.CappedSimplex, fn.Restricted)


def name(spec):
    return str(spec).replace(" ", "")


@pytest.fixture
def uncompiled(monkeypatch):
    """Kernels as plain functions: the many types of a random problem would take longest to compile."""
    for module in (bounds, sums):
        monkeypatch.setattr(module, "specialise", lambda compiled, *specs: compiled.py_func)


def certificates(problem, rng, near=None, count=None):
    near = rng.standard_normal(inner_size(problem.inner)) if near is None else near
    return [certify(problem, known) for known in random_points(rng, problem, near)[slice(None, count)]]


def assert_ordered(found):
    """Every dual is below every primal: a proof that needs no solver."""
    assert not np.isnan(found).any()
    assert max(c.dual for c in found) <= min(c.primal for c in found)
    assert all(c.gap == c.primal - c.dual for c in found if np.isfinite(c.gap))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_no_dual_exceeds_a_primal_for_any_loss(loss, uncompiled):
    rng = np.random.default_rng(1)
    assert_ordered(certificates(random_problem(rng, loss=loss), rng, count=14))
    assert_ordered(certificates(random_problem(rng, loss=loss), rng, count=14))


@pytest.mark.parametrize("outer", [*MONOTONE, *JOINT, *RISKS], ids=name)
def test_no_dual_exceeds_a_primal_for_any_outer_function_or_risk(outer, uncompiled):
    rng = np.random.default_rng(2)
    assert_ordered(certificates(random_problem(rng, loss=fn.Logistic(), outer=outer), rng))
    assert_ordered(certificates(random_problem(rng, outer=outer), rng, count=14))


@pytest.mark.parametrize("outer", FREE, ids=name)
def test_no_dual_exceeds_a_primal_for_outer_functions_that_are_not_monotone(outer, uncompiled):
    rng = np.random.default_rng(3)
    assert_ordered(certificates(random_problem(rng, loss=fn.AffineLoss(), outer=outer), rng))
    assert_ordered(certificates(random_problem(rng, loss=fn.AffineLoss(), outer=outer), rng))


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_no_dual_exceeds_a_primal_for_any_penalty(penalty, uncompiled):
    rng = np.random.default_rng(4)
    assert_ordered(certificates(random_problem(rng, loss=fn.Logistic(), penalty=penalty), rng, count=14))
    assert_ordered(certificates(random_problem(rng, penalty=penalty), rng, count=14))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_dual_exceeds_a_primal_on_thousands_of_problems(seed, uncompiled):
    rng = np.random.default_rng((5, seed))
    for _ in range(100):
        assert_ordered(certificates(random_problem(rng), rng))


def compiled_problem(rng, choice):
    X = rng.standard_normal((int(rng.integers(8, 60)), 3))
    y = np.where(X[:, 0] + rng.standard_normal(X.shape[0]) > 0, 1, -1)
    groups = rng.permutation(np.arange(X.shape[0]) % int(rng.integers(1, 7)))
    common = {"l2": float(10.0 ** rng.uniform(-3, 1)), "divergence": choice[1]}
    return xrisk.group_dro(X, y, groups, loss=choice[0], **common, **choice[2])


CHOICES = [
    ("logistic", "cvar", {"alpha": 0.4}),
    ("hinge", "max", {"l1": 0.01}),
    ("squared", "chi2", {"fit_intercept": True}),
    ("exponential", "kl", {}),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: choice[0])
@pytest.mark.parametrize("seed", range(6))
def test_the_optimum_is_between_the_bounds_of_every_point(choice, seed):
    rng = np.random.default_rng((6, seed))
    for _ in range(4):
        problem = compiled_problem(rng, choice)
        best = exact(problem, tol=1e-11)
        found = [*certificates(problem, rng, best.w), certify(problem, best)]
        assert_ordered(found)
        assert max(c.dual for c in found) <= best.value
        assert found[-1].relative < 1e-5


@pytest.mark.parametrize("outer", [fn.CVaRRisk(0.4), fn.Softplus(), fn.KLRisk(0.05)], ids=name)
@pytest.mark.parametrize("penalty", [RIDGE, fn.Ball(0.2), fn.ElasticNet(0.05, 0.1)], ids=name)
def test_the_optimum_of_cvxpy_is_between_the_bounds(outer, penalty):
    problem = Problem(references.groups(), outer, penalty)
    optimum, found = references.cvx_value(problem), certify(problem, exact(problem))
    assert found.dual <= optimum + 1e-8
    assert optimum - 1e-8 <= found.primal


def ridge(rng, scale):
    """One row of features to one group: ½ mean (x w − y)² + ½ l2 w², its optimum a fraction of whole numbers."""
    n = int(rng.integers(1, 30))
    x, y = scale[0] * rng.standard_normal(n), scale[1] * rng.standard_normal(n)
    l2 = float(10.0 ** rng.uniform(-3, 3)) * scale[0] ** 2
    groups = Groups(LinearModel(as_rows(x[:, None]), frozen(y), fn.Squared()), frozen(np.array([0, n])))
    exact_x, exact_y = [Fraction(v) for v in x], [Fraction(v) for v in y]
    xx, yy = sum(v * v for v in exact_x) / n, sum(v * v for v in exact_y) / n
    xy = sum(a * b for a, b in zip(exact_x, exact_y, strict=True)) / n
    w = xy / (xx + Fraction(l2))
    return Problem(groups, fn.Identity(), fn.L2(l2)), float(w), (yy - xy * w) / 2


SCALES = [(1.0, 1.0), (1e6, 1.0), (1e-6, 1.0), (1.0, 1e-75), (1.0, 1e75), (1e70, 1e75), (1e-70, 1e-75), (1e-6, 1e6)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bounds_hold_in_exact_arithmetic(scale):
    rng = np.random.default_rng(7)
    for _ in range(100):
        problem, w, optimum = ridge(rng, scale)
        for at in (w, np.nextafter(w, np.inf), w * (1 + 1e-9), 0.0, 1e3 * w):
            found = certify(problem, Known(np.array([at])))
            assert Fraction(found.dual) <= optimum <= Fraction(found.primal)
        assert certify(problem, Known(np.array([w]))).relative < 1e-9


@pytest.mark.parametrize("size", [1e-75, 1e-6, 1.0, 1e6, 1e75])
@pytest.mark.parametrize("loss", [fn.Squared(), fn.Absolute(), fn.Huber(), fn.Pinball(0.3)], ids=name)
def test_an_optimum_at_zero_is_certified_at_every_scale(loss, size, uncompiled):
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((20, 2)), size * rng.standard_normal(20)
    inner = Groups(LinearModel(as_rows(X), frozen(y), loss), frozen(np.array([0, 7, 20])))
    found = certify(Problem(inner, fn.MaxRisk(), fn.ElasticNet(1e3 * max(size, 1.0), 1.0)), Known(np.zeros(2)))
    assert found.dual <= found.primal
    assert found.relative < 1e-10


@pytest.mark.parametrize("known", [Known(np.zeros(2)), Known(np.array([1.0, 0.0]), np.ones((1, 1)))], ids=["0", "e1"])
def test_a_loss_of_nothing_is_certified_as_nothing(known):
    inner = Groups(LinearModel(as_rows(np.eye(2)), frozen(known.w.copy()), fn.Squared()), frozen(np.array([0, 2])))
    found = certify(Problem(inner, fn.MaxRisk(), fn.Box(0.0, 1.0)), known)
    assert found.dual <= 0.0 <= found.primal
    assert found.gap < 1e-25


@pytest.mark.parametrize("loss", references.LOSSES, ids=name)
def test_the_gap_of_an_exact_solution_closes_for_every_loss(loss):
    problem = Problem(references.groups(loss), fn.CVaRRisk(0.4), RIDGE)
    assert certify(problem, exact(problem)).relative < 1e-8


@pytest.mark.parametrize("outer", [*references.OUTERS, *references.RISKS], ids=name)
def test_the_gap_of_an_exact_solution_closes_for_every_outer_function_and_risk(outer):
    problem = Problem(references.groups(), outer, RIDGE)
    assert certify(problem, exact(problem)).relative < 1e-8


@pytest.mark.parametrize("outer", references.BLOCKS, ids=name)
def test_the_gap_of_an_exact_solution_closes_for_every_outer_function_of_blocks(outer):
    problem = Problem(references.groups(dim=3), outer, RIDGE)
    assert certify(problem, exact(problem)).relative < 1e-8


@pytest.mark.parametrize("outer", [fn.Square(0.5), fn.LogisticOuter(1.0), fn.HardSmooth(0.3)], ids=name)
def test_the_gap_of_an_exact_solution_closes_for_affine_losses(outer):
    problem = Problem(references.groups(fn.AffineLoss()), outer, RIDGE)
    found = certify(problem, exact(problem))
    assert found.gap < 1e-8


CLOSING = [r for r in references.PENALTIES if "NonNegative" not in str(r) and r != fn.Box(-5.0, 5.0)]


@pytest.mark.parametrize("penalty", CLOSING, ids=name)
def test_the_gap_of_an_exact_solution_closes_for_every_penalty(penalty):
    bounded = isinstance(penalty, SHORT_OF_INFINITE) or getattr(penalty, "l2", 0.0) > 0.0
    problem = Problem(references.groups(), fn.CVaRRisk(0.4), penalty)
    found = certify(problem, exact(problem, tol=1e-12))
    assert found.relative < (1e-6 if bounded else 1.01)


def test_a_wide_box_multiplies_what_is_left_of_the_gradient_by_its_width():
    problem = Problem(references.groups(), fn.CVaRRisk(0.4), fn.Box(-5.0, 5.0))
    assert certify(problem, exact(problem, tol=1e-12)).relative < 1e-5


@pytest.mark.parametrize("penalty", [fn.L1(0.05), fn.GroupLasso(0.05, 0.0, 2)], ids=name)
def test_slopes_are_scaled_into_the_domain_of_a_norm(penalty):
    problem = Problem(references.groups(), fn.CVaRRisk(0.4), penalty)
    assert certify(problem, exact(problem, tol=1e-10)).relative < 1e-7


@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss(), fn.Absolute()], ids=name)
def test_the_gap_of_an_exact_solution_closes_with_an_intercept(loss):
    inner = references.groups(loss)
    inner = inner._replace(model=inner.model._replace(rows=WithIntercept(inner.model.rows)))
    problem = Problem(inner, fn.CVaRRisk(0.4), fn.Unpenalised(RIDGE, 1))
    assert certify(problem, exact(problem, tol=1e-10)).relative < 1e-6


def multinomial(penalty):
    rng = np.random.default_rng(9)
    X = rng.standard_normal((40, 3))
    target = np.argmax(X + rng.standard_normal((40, 3)), axis=1)
    model = SoftmaxModel(as_rows(X), frozen(target), 3)
    return Problem(Groups(model, frozen(np.array([0, 8, 25, 40]))), fn.MaxRisk(), penalty)


@pytest.mark.parametrize("penalty", [RIDGE, fn.Ball(0.5), fn.L1(0.01)], ids=name)
def test_the_gap_of_an_exact_solution_closes_for_many_classes(penalty):
    problem = multinomial(penalty)
    assert certify(problem, exact(problem)).relative < 1e-6


@pytest.mark.parametrize("free", [0, 1, 2, 3])
def test_free_coordinates_that_are_no_intercept_are_not_taken_for_one(free):
    problem, rng = multinomial(fn.Unpenalised(RIDGE, free)), np.random.default_rng(10)
    best = exact(problem)
    assert_ordered([*certificates(problem, rng, best.w), certify(problem, best)])


RUNS = [("logistic", "cvar", {"alpha": 0.4}), ("squared_hinge", "chi2", {}), ("squared", "kl", {"l1": 0.01})]


@pytest.mark.parametrize("choice", RUNS, ids=lambda choice: choice[0])
def test_the_gap_closes_along_a_run_of_alexr(choice):
    problem = xrisk.group_dro(*table(), loss=choice[0], divergence=choice[1], l2=0.1, **choice[2])
    solver = xrisk.solvers.ALEXR(xrisk.solvers.Decreasing(0.1, 300.0), 0.1, blocks=6)
    budgets = (30, 1000, 30000)
    runs = [xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=t), rng=0) for t in budgets]
    gaps = [certify(problem, run).relative for run in runs]
    assert gaps[2] < 0.5 * gaps[1]
    assert gaps[1] < gaps[0]
    assert gaps[2] < 0.01


@pytest.mark.parametrize("penalty", [fn.NoPenalty(), fn.NonNegative(), fn.L2(0.0)], ids=name)
def test_without_a_finite_conjugate_losses_are_known_not_to_be_negative(penalty):
    problem = Problem(references.groups(), fn.MaxRisk(), penalty)
    found = certify(problem, Known(np.ones(4)))
    assert found.dual == pytest.approx(0.0, abs=1e-12)
    assert found.relative == pytest.approx(1.0)


def test_where_nothing_is_known_from_below_the_gap_is_infinite():
    problem = Problem(references.groups(fn.AffineLoss()), fn.MaxRisk(), fn.NoPenalty())
    found = certify(problem, Known(np.ones(4)))
    assert np.isfinite(found.primal)
    assert found[1:] == (-np.inf, np.inf, np.inf)


def test_outside_the_domain_the_primal_is_infinite():
    problem = Problem(references.groups(), fn.MaxRisk(), fn.Ball(1.0))
    found = certify(problem, Known(np.ones(4)))
    assert np.isfinite(found.dual)
    assert (found.primal, found.gap, found.relative) == (np.inf, np.inf, np.inf)


def test_a_point_outside_by_rounding_is_moved_inside():
    problem = Problem(references.groups(), fn.CVaRRisk(0.4), fn.Ball(0.2))
    best = exact(problem, tol=1e-12)
    outside = best.w * (1.0 + 9e-10) * 0.2 / np.linalg.norm(best.w)
    assert certify(problem, best).dual <= certify(problem, Known(outside)).primal < np.inf


def test_losses_that_overflow_give_an_infinite_primal():
    problem = Problem(references.groups(fn.ExponentialLoss()), fn.CVaRRisk(0.4), RIDGE)
    found = certify(problem, Known(np.full(4, 1e6)))
    assert found.primal == np.inf
    assert found.dual < np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_duals_that_are_not_finite_are_ignored(bad):
    problem = Problem(references.groups(), fn.CVaRRisk(0.4), RIDGE)
    best = exact(problem)
    told = Known(best.w, np.full((6, 1), bad), np.full(60, bad))
    assert certify(problem, told).dual == certify(problem, Known(best.w)).dual


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (Known(np.zeros(3)), r"w must be finite and of shape \(4,\), got shape \(3,\)"),
        (Known(np.full(4, np.nan)), "w must be finite"),
        (Known(np.zeros(4), np.zeros((5, 1))), r"dual must have shape \(6, 1\), got \(5, 1\)"),
        (Known(np.zeros(4), None, np.zeros(59)), r"slopes must have shape \(60, 1\), got \(59,\)"),
    ],
)
def test_what_does_not_fit_the_problem_is_refused(known, sentence):
    with pytest.raises(ValueError, match=sentence):
        certify(Problem(references.groups(), fn.MaxRisk(), RIDGE), known)


def test_other_inner_functions_have_no_certificate():
    problem = Problem(NoisyCoordinates(4, 0.1), fn.HardSmooth(), RIDGE)
    with pytest.raises(TypeError, match="group means of a linear model or means over pairs, got NoisyCoordinates"):
        certify(problem, Known(np.zeros(4)))


def test_kinked_losses_get_a_bound_without_slopes():
    problem = xrisk.group_dro(*table(), loss="hinge", divergence="cvar", alpha=0.4, l2=0.1)
    best = exact(problem)
    assert certify(problem, Known(best.w, best.dual)).relative < 0.02
