"""Which method is chosen for which problem, and what `Auto` makes of quadratics, rows and pairs."""

import numpy as np
import pytest

import xrisk
import xrisk.functions as fn
from tests.applications.test_quadratic import random_form
from tests.conftest import table
from xrisk.applications import partial_auc, quadratic, sample_dro
from xrisk.auto import Auto, planned
from xrisk.auto.choice import CHEAPER_BY_CUTS, ONLY_BY_CUTS, choose
from xrisk.inner import Groups, LinearModel, as_rows
from xrisk.solvers import Bundle, Faces, Newton, RowNewton

X, Y, CELLS = table()
LIMITED = [fn.Simplex(), fn.SolidSimplex(2.0), fn.L1Ball(2.0), fn.LeveragedBudget(1.0, 3.0)]
FLAT = [fn.NoPenalty(), fn.L2(0.1), fn.Hyperplane(-1.0)]
OTHERS = [fn.NonNegative(), fn.Box(-1.0, 2.0), fn.Ball(3.0), fn.L1(0.3)]


def form(penalty, d=8):
    H, b = random_form(np.random.default_rng(0), d, 100.0)
    return quadratic(H, np.abs(b), penalty=penalty)


def methods(problem, tol=1e-3):
    return [type(stage.solver) for stage in planned(problem, Auto(tol)).stages]


@pytest.mark.parametrize("penalty", LIMITED + FLAT, ids=str)
def test_a_quadratic_on_a_limited_or_flat_domain_is_for_faces(penalty):
    (stage,) = planned(form(penalty), Auto(1e-6)).stages
    assert stage.solver == Faces(1e-9)


@pytest.mark.parametrize("penalty", OTHERS, ids=str)
def test_a_quadratic_on_another_domain_is_not(penalty):
    assert Faces not in methods(form(penalty))


def test_least_squares_with_targets_are_no_quadratic():
    model = LinearModel(as_rows(X), np.arange(len(X)) % 7, fn.Squared())
    problem = xrisk.Problem(Groups(model, np.array([0, len(X)])), fn.Identity(), fn.Simplex())
    assert Faces not in methods(problem)


@pytest.mark.parametrize("penalty", LIMITED + FLAT, ids=str)
def test_what_faces_finds_is_certified(penalty):
    found = xrisk.minimize(form(penalty), Auto(1e-8), budget=xrisk.Budget(iterations=100))
    alone = xrisk.minimize(form(penalty), Faces(1e-9), budget=xrisk.Budget(iterations=100))
    assert found.stop is xrisk.Stop.CONVERGED
    assert found.certificate.relative <= 1e-8
    np.testing.assert_allclose(found.w, alone.w, rtol=1e-9, atol=1e-12)


def test_a_quadratic_that_falls_without_bound_is_said_to():
    found = xrisk.minimize(quadratic(np.diag([1.0, 0.0]), [1.0, 1.0]), Auto(), budget=xrisk.Budget(iterations=100))
    assert found.stop is xrisk.Stop.UNBOUNDED


def test_rows_are_for_row_newton_and_groups_are_not():
    assert methods(sample_dro(X, Y, ambiguity="cvar", alpha=0.1, l2=0.1)) == [RowNewton]
    assert RowNewton not in methods(xrisk.group_dro(X, Y, CELLS, divergence="cvar", alpha=0.4, l2=0.1))


def test_a_tail_over_few_rows_of_many_columns_is_for_newton():
    wide = np.random.default_rng(0).standard_normal((200, 150))
    assert set(methods(sample_dro(wide, np.resize(Y, 200), ambiguity="cvar", alpha=0.1, l2=0.1))) == {Newton}


def test_what_only_cuts_solve_is_taken_from_auto_and_from_newton():
    tail = xrisk.applications.two_way_partial_auc(X, Y, min_tpr=0.5, max_fpr=0.5, l2=0.1)
    for general in (Auto(1e-5), Newton(1e-5)):
        assert choose(tail, general, (ONLY_BY_CUTS,)) == Bundle(1e-5)


def test_many_pairs_are_left_to_newton_where_cost_is_no_matter():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1000) % 5 == 0, 1, -1)
    pairs = partial_auc(rng.standard_normal((1000, 4)), y, min_tpr=0.5, loss="squared_hinge", l2=0.01)
    assert choose(pairs, Auto(), (ONLY_BY_CUTS, CHEAPER_BY_CUTS)) == Bundle(Auto().tol)
    assert choose(pairs, Newton(), (ONLY_BY_CUTS,)) == Newton()
