"""Certificates: no dual bound exceeds any primal one, on thousands of problems, and the gap closes along a run."""

import re
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.conftest import first_quick, table
from tests.random_problems import (
    FREE,
    JOINT,
    LOSSES,
    MONOTONE,
    PENALTIES,
    RISKS,
    Known,
    pick,
    random_pairs,
    random_points,
    random_problem,
)
from tests.solvers import test_exact as references
from xrisk import Problem, certify
from xrisk.certificate import (
    conjugate_upper,
    loss_rounding,
    outer_conjugate_terms,
    outer_terms,
    risk_terms,
    symmetric_conjugate_upper,
    usual_outer_conjugate_terms,
    usual_outer_terms,
)
from xrisk.data.rows import frozen
from xrisk.inner import (
    Callables,
    Groups,
    LinearModel,
    NoisyCoordinates,
    Pairs,
    Partitioned,
    SoftmaxModel,
    WithIntercept,
    as_rows,
)
from xrisk.inner.oracle import inner_size
from xrisk.inner.passes import Slopes
from xrisk.solvers import exact

RIDGE = fn.L2(0.1)
SHORT_OF_INFINITE = (fn.Box, fn.Ball, fn.Simplex, fn.CappedSimplex, fn.Restricted)


def name(spec):
    return str(spec).replace(" ", "")


def certificates(problem, rng, near=None, count=None):
    near = rng.standard_normal(inner_size(problem.inner)) if near is None else near
    return [certify(problem, known) for known in random_points(rng, problem, near)[slice(None, count)]]


def assert_ordered(found):
    """Every dual is below every primal: a proof that needs no solver."""
    assert not np.isnan(found).any()
    assert max(c.dual for c in found) <= min(c.primal for c in found)
    assert all(c.gap == c.primal - c.dual for c in found if np.isfinite(c.gap))


@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_no_dual_exceeds_a_primal_for_any_loss(loss, plain):
    rng = np.random.default_rng(1)
    assert_ordered(certificates(random_problem(rng, loss=loss), rng, count=8))
    assert_ordered(certificates(random_problem(rng, loss=loss), rng, count=8))


@pytest.mark.parametrize("outer", [*MONOTONE, *JOINT, *RISKS], ids=name)
def test_no_dual_exceeds_a_primal_for_any_outer_function_or_risk(outer, plain):
    rng = np.random.default_rng(2)
    assert_ordered(certificates(random_problem(rng, loss=fn.Logistic(), outer=outer), rng))
    assert_ordered(certificates(random_problem(rng, outer=outer), rng, count=8))


@pytest.mark.parametrize("outer", FREE, ids=name)
def test_no_dual_exceeds_a_primal_for_outer_functions_that_are_not_monotone(outer, plain):
    rng = np.random.default_rng(3)
    assert_ordered(certificates(random_problem(rng, loss=fn.AffineLoss(), outer=outer), rng))
    assert_ordered(certificates(random_problem(rng, loss=fn.AffineLoss(), outer=outer), rng))


@pytest.mark.parametrize("penalty", PENALTIES, ids=name)
def test_no_dual_exceeds_a_primal_for_any_penalty(penalty, plain):
    rng = np.random.default_rng(4)
    assert_ordered(certificates(random_problem(rng, loss=fn.Logistic(), penalty=penalty), rng, count=8))
    assert_ordered(certificates(random_problem(rng, penalty=penalty), rng, count=8))


@pytest.mark.slow
@pytest.mark.parametrize("free", [0, 1, 2])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != fn.Multinomial()], ids=name)
def test_no_dual_exceeds_a_primal_for_pairs(loss, free, plain):
    rng = np.random.default_rng(11)
    for _ in range(3):
        problem = random_pairs(rng, loss)
        problem = problem._replace(penalty=fn.Unpenalised(problem.penalty, free))
        assert_ordered(certificates(problem, rng, count=8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_no_dual_exceeds_a_primal_on_thousands_of_problems(seed, plain):
    rng = np.random.default_rng((5, seed))
    for _ in range(100):
        assert_ordered(certificates(random_problem(rng), rng))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_dual_exceeds_a_primal_on_a_hundred_problems_of_pairs(seed, plain):
    rng = np.random.default_rng((13, seed))
    for _ in range(20):
        assert_ordered(certificates(random_pairs(rng, pick(rng, LOSSES[:-1])), rng, count=8))


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
@pytest.mark.parametrize("seed", first_quick(range(6), 2))
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


@pytest.mark.parametrize("scale", first_quick(SCALES, 2), ids=str)
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
def test_an_optimum_at_zero_is_certified_at_every_scale(loss, size, plain):
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


@pytest.mark.parametrize("penalty", [fn.Box(-5.0, 5.0), fn.Ball(3.0), fn.L1(0.05)], ids=name)
@pytest.mark.parametrize("outer", [fn.MaxRisk(), fn.CVaRRisk(0.4)], ids=name)
@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss(), fn.Squared()], ids=name)
def test_a_tighter_tolerance_is_proved_tighter(loss, outer, penalty):
    problem = Problem(references.groups(loss), outer, penalty)
    assert certify(problem, exact(problem, tol=1e-12)).relative < 1e-7


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


RUNS = [
    pytest.param(("logistic", "cvar", {"alpha": 0.4}), id="logistic"),
    pytest.param(("squared_hinge", "chi2", {}), id="squared_hinge", marks=pytest.mark.slow),
    pytest.param(("squared", "kl", {"l1": 0.01}), id="squared", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("choice", RUNS)
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
    best, scores = exact(problem), np.full((60, 1), bad)
    told = Known(best.w, np.full((6, 1), bad), Slopes(scores, scores, np.full(6, bad), bad))
    assert certify(problem, told).dual == certify(problem, Known(best.w)).dual


def slopes_of_rows(rows):
    return Slopes(np.zeros((rows, 1)), np.zeros((rows, 1)), np.zeros(6), 0.0)


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (Known(np.zeros(3)), r"w must be finite and of shape \(4,\), got shape \(3,\)"),
        (Known(np.full(4, np.nan)), "w must be finite"),
        (Known(np.zeros(4), np.zeros((5, 1))), r"dual must have shape \(6, 1\), got \(5, 1\)"),
        (Known(np.zeros(4), None, np.zeros(60)), r"slopes must be Slopes with z of shape \(60, 1\), got ndarray"),
        (Known(np.zeros(4), None, slopes_of_rows(59)), r"Slopes with z of shape \(60, 1\), got Slopes with \(59, 1\)"),
        (
            Known(np.zeros(4), None, slopes_of_rows(60)._replace(direction=np.zeros((9, 1)))),
            r"Slopes with direction of shape \(60, 1\), got Slopes with \(9, 1\)",
        ),
        (
            Known(np.zeros(4), None, slopes_of_rows(60)._replace(factor=np.zeros(1))),
            r"Slopes with factor of shape \(6,\), got Slopes with \(1,\)",
        ),
    ],
)
def test_what_does_not_fit_the_problem_is_refused(known, sentence):
    with pytest.raises(ValueError, match=sentence):
        certify(Problem(references.groups(), fn.MaxRisk(), RIDGE), known)


def test_inner_functions_without_full_passes_have_no_certificate():
    inner = Callables(1, 2, lambda *_: 0, lambda *_: 0.0, lambda *_: np.zeros(2), lambda *_: 0.0)
    with pytest.raises(TypeError, match="inner functions with full passes are needed, got Callables"):
        certify(Problem(inner, fn.Softplus(), RIDGE), Known(np.zeros(2)))


@pytest.mark.parametrize("nu", [0.3, 0.01])
def test_the_closed_form_of_the_hard_instance_is_between_its_bounds(nu):
    problem = Problem(NoisyCoordinates(8, nu), fn.HardSmooth(nu), fn.Restricted(fn.L2(1 / 16), fn.Box(-1.0, 1.0)))
    found = certify(problem, exact(problem))
    assert found.dual <= -(nu**2) / 3 <= found.primal
    assert found.relative < 1e-6


def test_kinked_losses_get_a_bound_without_slopes():
    problem = xrisk.group_dro(*table(), loss="hinge", divergence="cvar", alpha=0.4, l2=0.1)
    best = exact(problem)
    assert certify(problem, Known(best.w, best.dual)).relative < 0.02


def sorted_by_group(problem):
    """The same groups, their rows one after another."""
    g = problem.inner
    rows, target = as_rows(g.model.rows.X[g.index.rows]), frozen(g.model.target[g.index.rows])
    return problem._replace(inner=Groups(g.model._replace(rows=rows, target=target), g.offsets))


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_rows_of_mixed_groups_have_the_bounds_of_sorted_ones(loss):
    problem = xrisk.group_dro(*table(), loss=loss, divergence="cvar", alpha=0.4, l2=0.1)
    assert isinstance(problem.inner.index, Partitioned)
    known = Known(np.linspace(-0.5, 0.5, 4))
    expected = certify(sorted_by_group(problem), known)
    np.testing.assert_allclose(certify(problem, known), expected, rtol=1e-11)


class OwnHinge(NamedTuple):
    """A researcher's hinge loss: max(0, 1 − y z), its kink told."""


fn.loss_value.of(OwnHinge)(lambda loss, z, y: max(1.0 - y * z, 0.0))
fn.loss_slope.of(OwnHinge)(lambda loss, z, y: -y if y * z < 1.0 else 0.0)
fn.loss_curvature.of(OwnHinge)(lambda loss, z, y: 0.0)
fn.loss_conjugate.of(OwnHinge)(lambda loss, v, y: v * y)
fn.loss_domain.of(OwnHinge)(lambda loss, y: (min(-y, 0.0), max(-y, 0.0)))
fn.loss_kink.of(OwnHinge)(lambda loss, y: (min(-y, 0.0), max(-y, 0.0), y))
fn.loss_lipschitz.of(OwnHinge)(lambda loss: 1.0)
fn.loss_smoothness.of(OwnHinge)(lambda loss: np.inf)
fn.loss_is_classification.of(OwnHinge)(lambda loss: True)
loss_rounding.of(OwnHinge)(lambda loss: 16.0)


def test_a_researchers_loss_with_a_kink_gets_the_bound_of_its_twin():
    ours, own = (Problem(references.groups(loss), fn.CVaRRisk(0.4), RIDGE) for loss in (fn.HingeLoss(), OwnHinge()))
    known = Known(exact(ours).w)
    np.testing.assert_allclose(certify(own, known), certify(ours, known), rtol=1e-12)


def test_a_researchers_loss_with_a_kink_is_solved_and_certified_as_its_twin():
    ours, own = (Problem(references.groups(loss), fn.CVaRRisk(0.4), RIDGE) for loss in (fn.HingeLoss(), OwnHinge()))
    best = exact(own)
    assert best.value == pytest.approx(exact(ours).value, rel=2e-9)
    assert certify(own, best).relative < 2e-9


class OwnLogistic(NamedTuple):
    """A loss whose rounding nobody has told."""


fn.loss_value.of(OwnLogistic)(lambda loss, z, y: fn.loss_value(fn.Logistic(), z, y))
fn.loss_slope.of(OwnLogistic)(lambda loss, z, y: fn.loss_slope(fn.Logistic(), z, y))
fn.loss_conjugate.of(OwnLogistic)(lambda loss, v, y: fn.loss_conjugate(fn.Logistic(), v, y))
fn.loss_domain.of(OwnLogistic)(lambda loss, y: fn.loss_domain(fn.Logistic(), y))


class OwnOuter(NamedTuple):
    """f(u) = u: a function whose terms nobody has told."""


fn.outer_value.of(OwnOuter)(lambda f, u: u)
fn.outer_slope.of(OwnOuter)(lambda f, u: 1.0)
fn.outer_conjugate.of(OwnOuter)(lambda f, y: 0.0)
fn.outer_domain.of(OwnOuter)(lambda f: (1.0, 1.0))
fn.outer_is_monotone.of(OwnOuter)(lambda f: True)


class HalfOwnOuter(NamedTuple):
    """f(u) = u, of which the terms of f are told and those of f* are not."""


for verb in (fn.outer_value, fn.outer_slope, fn.outer_conjugate, fn.outer_domain, fn.outer_is_monotone):
    verb.of(HalfOwnOuter)(verb.table[OwnOuter])
outer_terms.of(HalfOwnOuter)(usual_outer_terms)


class OwnRisk(NamedTuple):
    """The maximum, under a name of its own."""


for verb in (fn.risk_value, fn.risk_weights, fn.risk_project, fn.risk_conjugate, fn.risk_is_support, fn.risk_cap):
    verb.of(OwnRisk)(verb.table[fn.MaxRisk])


class OwnRidge(NamedTuple):
    """0.05 ‖w‖², under a name of its own."""


fn.penalty_value.of(OwnRidge)(lambda r, w: fn.penalty_value(RIDGE, w))
fn.penalty_convexity.of(OwnRidge)(lambda r: fn.penalty_convexity(RIDGE))
fn.penalty_conjugate.of(OwnRidge)(lambda r, v: fn.penalty_conjugate(RIDGE, v))
fn.prox.of(OwnRidge)(lambda r, w, step: fn.prox(RIDGE, w, step))

UNKNOWN = {
    "OwnLogistic must implement loss_rounding": Problem(references.groups(OwnLogistic()), fn.MaxRisk(), RIDGE),
    "OwnOuter must implement outer_terms": Problem(references.groups(), OwnOuter(), RIDGE),
    "HalfOwnOuter must implement outer_conjugate_terms": Problem(references.groups(), HalfOwnOuter(), RIDGE),
    "OwnRisk must implement risk_terms": Problem(references.groups(), OwnRisk(), RIDGE),
    "OwnRidge must implement conjugate_upper": Problem(references.groups(), fn.MaxRisk(), OwnRidge()),
    "OwnRidge must implement conjugate_upper ": Problem(
        references.groups(), fn.MaxRisk(), fn.Unpenalised(OwnRidge(), 1)
    ),
}


@pytest.mark.parametrize(("sentence", "problem"), UNKNOWN.items(), ids=list(UNKNOWN))
def test_a_certificate_refuses_what_it_does_not_know(sentence, problem, plain):
    whole = f"a certificate is a proof and refuses what it does not know: {sentence.strip()}"
    with pytest.raises(TypeError, match=f"^{re.escape(whole)}$"):
        certify(problem, Known(np.zeros(4)))


class ToldOuter(NamedTuple):
    """f(u) = u, everything told."""


for verb in (fn.outer_value, fn.outer_slope, fn.outer_conjugate, fn.outer_domain, fn.outer_is_monotone):
    verb.of(ToldOuter)(verb.table[OwnOuter])
outer_terms.of(ToldOuter)(usual_outer_terms)
outer_conjugate_terms.of(ToldOuter)(usual_outer_conjugate_terms)


class ToldRidge(NamedTuple):
    """0.05 ‖w‖², everything told."""


for verb in (fn.penalty_value, fn.penalty_convexity, fn.penalty_conjugate, fn.prox):
    verb.of(ToldRidge)(verb.table[OwnRidge])
conjugate_upper.of(ToldRidge)(symmetric_conjugate_upper)


class ToldRisk(NamedTuple):
    """The maximum, everything told."""


for verb in (fn.risk_value, fn.risk_weights, fn.risk_project, fn.risk_conjugate, fn.risk_is_support, fn.risk_cap):
    verb.of(ToldRisk)(verb.table[fn.MaxRisk])
risk_terms.of(ToldRisk)(lambda rho, n: 0.0)


@pytest.mark.parametrize(
    ("told", "ours"),
    [
        ((ToldOuter(), RIDGE), (fn.Identity(), RIDGE)),
        ((ToldRisk(), RIDGE), (fn.MaxRisk(), RIDGE)),
        ((fn.MaxRisk(), ToldRidge()), (fn.MaxRisk(), RIDGE)),
    ],
    ids=["outer", "risk", "penalty"],
)
def test_what_is_told_of_a_researchers_part_is_believed(told, ours, plain):
    known = Known(np.linspace(-0.5, 0.5, 4))
    found, expected = (certify(Problem(references.groups(), *parts), known) for parts in (told, ours))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def rising_pairs(loss, outer):
    """Pairs that the last coordinate tells apart, which is free: it runs off, and nothing is known from below."""
    X = np.random.default_rng(12).standard_normal((30, 3))
    X[:15, 2] += 8.0
    return Problem(Pairs(as_rows(X), np.arange(15), np.arange(15, 30), loss), outer, fn.Unpenalised(RIDGE, 1))


@pytest.mark.parametrize("outer", [fn.CVaRRisk(0.5), fn.MaxRisk(), fn.Softplus(), fn.Identity()], ids=name)
@pytest.mark.parametrize("loss", [fn.MarginLoss(), fn.AffineLoss(), fn.Logistic(), fn.HingeLoss()], ids=name)
def test_a_free_coordinate_of_pairs_is_free(loss, outer, plain):
    points = [np.zeros(3), np.array([0.3, -0.2, 0.1]), np.array([0.0, 0.0, 50.0]), np.array([0.0, 0.0, -50.0])]
    assert_ordered([certify(rising_pairs(loss, outer), Known(w)) for w in points])


@pytest.mark.parametrize("loss", [fn.Logistic(), fn.HingeLoss()], ids=name)
def test_the_gap_of_an_exact_solution_closes_for_pairs_with_a_free_coordinate(loss):
    X, y = references.data()
    inner = Pairs(as_rows(X), frozen(np.flatnonzero(y > 0)), frozen(np.flatnonzero(y <= 0)), loss)
    problem = Problem(inner, fn.CVaRRisk(0.4), fn.Unpenalised(RIDGE, 1))
    assert certify(problem, exact(problem, tol=1e-10)).relative < 1e-6


@pytest.mark.parametrize("middle", [0.1, 1e8, -3e12])
def test_bounds_hold_for_targets_far_from_zero_in_exact_arithmetic(middle):
    rng = np.random.default_rng(0)
    rows, l2 = rng.standard_normal((25, 2)), 1e-3
    y = middle + rows @ [1.0, -0.5] + rng.standard_normal(25)
    problem = xrisk.group_dro(
        rows, y, np.zeros(25, dtype=int), divergence="max", loss="squared", l2=l2, fit_intercept=True
    )

    def exact(w):
        a, b, c = map(Fraction, w.tolist())
        each = [
            (a * Fraction(p) + b * Fraction(q) + c - Fraction(t)) ** 2 / 2 for (p, q), t in zip(rows, y, strict=True)
        ]
        return sum(each) / 25 + Fraction(l2) * (a * a + b * b) / 2

    best = xrisk.minimize(problem, xrisk.solvers.Auto(1e-5), budget=xrisk.Budget(iterations=200))
    points = [best.w, *(best.w + size * rng.standard_normal(3) for size in (1e-9, 1e-4, 1.0, 1e3))]
    for w in points:
        found = certify(problem, Known(w, best.dual, best.slopes))
        assert Fraction(found.primal) >= exact(w)
        assert Fraction(found.dual) <= min(map(exact, points))
    assert best.certificate.relative <= (1e-5 if abs(middle) <= 1e8 else 1.0)
