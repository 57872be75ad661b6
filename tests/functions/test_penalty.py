"""Penalties and domains: prox, conjugate and value against each other and against cvxpy."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.functions.cases import PENALTIES, failing, vectors
from xrisk import functions as xf
from xrisk.functions import penalty_conjugate, penalty_convexity, penalty_slope, penalty_value, prox
from xrisk.functions.proximal import Proximal
from xrisk.functions.restricted import EXACT, with_ridge

every_penalty = pytest.mark.parametrize("r", PENALTIES, ids=repr)
W = np.array([0.9, -1.4, 2.2, 0.1])


def near(r, w, s=1.0):
    x = w.copy()
    prox(r, x, s)
    return x


def modelled(r, x):
    """cvxpy's (expression, constraints) of r at the variable x."""
    return MODELS[type(r)](r, x)


def with_threshold(r, x):
    value, constraints = modelled(r.penalty, x[:-1])
    bounds = [b for b in (x[-1] >= r.low, x[-1] <= r.high) if np.isfinite((r.low, r.high)).all()]
    return value + r.slope * x[-1], constraints + bounds


def restricted(r, x):
    value, constraints = modelled(r.penalty, x)
    return value, constraints + modelled(r.domain, x)[1]


def group_lasso(r, x):
    groups = [x[i : min(i + r.size, x.size)] for i in range(0, x.size, r.size)]
    return r.strength * sum(cp.norm(g) for g in groups) + 0.5 * r.l2 * cp.sum_squares(x), []


def tilted(r, x):
    value, constraints = modelled(r.penalty, x)
    return value + np.broadcast_to(r.slope, x.shape) @ x + r.constant, constraints


MODELS = {
    xf.NoPenalty: lambda r, x: (0.0, []),
    xf.L1: lambda r, x: (r.l1 * cp.norm1(x), []),
    xf.L2: lambda r, x: (0.5 * r.l2 * cp.sum_squares(x), []),
    xf.ElasticNet: lambda r, x: (r.l1 * cp.norm1(x) + 0.5 * r.l2 * cp.sum_squares(x), []),
    xf.GroupLasso: group_lasso,
    xf.Box: lambda r, x: (0.0, [x >= r.low, x <= r.high]),
    xf.Ball: lambda r, x: (0.0, [cp.norm(x) <= r.radius]),
    xf.NonNegative: lambda r, x: (0.0, [x >= 0]),
    xf.Simplex: lambda r, x: (0.0, [x >= 0, cp.sum(x) == r.total]),
    xf.CappedSimplex: lambda r, x: (0.0, [x >= 0, x <= r.cap, cp.sum(x) == r.total]),
    xf.Hyperplane: lambda r, x: (0.0, [cp.sum(x) == r.total]),
    xf.L1Ball: lambda r, x: (0.0, [cp.norm1(x) <= r.radius]),
    xf.SolidSimplex: lambda r, x: (0.0, [x >= 0, cp.sum(x) <= r.total]),
    xf.LeveragedBudget: lambda r, x: (0.0, [cp.sum(x) == r.total, cp.norm1(x) <= r.gross]),
    xf.Restricted: restricted,
    xf.WithThreshold: with_threshold,
    xf.Tilted: tilted,
    xf.Unpenalised: lambda r, x: modelled(r.penalty, x[: x.size - r.free]),
}


def solve(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver's own remarks, not ours
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem


def test_every_penalty_has_a_model():
    assert {type(r) for r in PENALTIES} == set(MODELS)


@every_penalty
@pytest.mark.parametrize("s", [0.3, 4.0])
def test_prox_agrees_with_cvxpy(r, s):
    x = cp.Variable(4)
    value, constraints = modelled(r, x)
    solve(cp.Problem(cp.Minimize(value + cp.sum_squares(x - W) / (2 * s)), constraints))
    assert near(r, W, s) == pytest.approx(x.value, abs=2e-5)


@pytest.mark.parametrize("r", [r for r in PENALTIES if not isinstance(r, xf.Hyperplane)], ids=repr)
@pytest.mark.parametrize("v", [W, 0.1 * W, -W, np.array([0.25, 0.2, 0.0, 0.0])], ids=str)
def test_conjugate_agrees_with_cvxpy(r, v):
    x = cp.Variable(4)
    value, constraints = modelled(r, x)
    problem = solve(cp.Problem(cp.Maximize(v @ x - value), constraints))
    expected = np.inf if problem.status.startswith("unbounded") else problem.value
    assert penalty_conjugate(r, v) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "penalty", [xf.L2(0.7), xf.L1(0.3), xf.Restricted(xf.ElasticNet(0.3, 0.7), xf.Ball())], ids=repr
)
def test_proximal_agrees_with_cvxpy(penalty):
    r = Proximal(penalty, 2.0, np.array([0.5, -0.5, 1.0, 0.0]))
    x = cp.Variable(4)
    value, constraints = modelled(penalty, x)
    distance = 0.5 * r.strength * cp.sum_squares(x - r.center)
    solve(cp.Problem(cp.Minimize(value + distance + cp.sum_squares(x - W) / 0.6), constraints))
    assert near(r, W, 0.3) == pytest.approx(x.value, abs=2e-5)
    assert penalty_value(r, x.value) == pytest.approx(float((value + distance).value), abs=1e-8)
    assert penalty_convexity(r) == penalty_convexity(penalty) + 2.0


@every_penalty
@given(w=vectors(5), other=vectors(5), s=st.floats(0.05, 20.0))
def test_prox_beats_every_other_point(r, w, other, s):
    x, rival = near(r, w, s), near(r, other, 1.0)
    found = penalty_value(r, x) + (x - w) @ (x - w) / (2 * s)
    assert found < np.inf
    assert found <= penalty_value(r, rival) + (rival - w) @ (rival - w) / (2 * s) + 1e-10


@every_penalty
@given(v=vectors(5), w=vectors(5))
def test_fenchel_young_inequality(r, v, w):
    x = near(r, w)
    assert penalty_value(r, x) + penalty_conjugate(r, v) >= v @ x - 1e-10


@every_penalty
@given(w=vectors(5), s=st.floats(0.2, 5.0))
def test_fenchel_young_equality_at_the_prox(r, w, s):
    # (w − x)/s is a subgradient at x = prox(w); rounding may push it over the edge of the conjugate's domain
    x = near(r, w, s)
    v = (w - x) / s
    conjugate = penalty_conjugate(r, v)
    assert conjugate == np.inf or penalty_value(r, x) + conjugate == pytest.approx(v @ x, abs=1e-9)


@every_penalty
@given(w=vectors(5))
def test_prox_of_a_tiny_step_stays_put_inside(r, w):
    x = near(r, w)
    assert near(r, x, 1e-12) == pytest.approx(x, abs=1e-10)


@every_penalty
@given(w=vectors(5), other=vectors(5), share=st.floats(0, 1))
def test_penalty_is_strongly_convex(r, w, other, share):
    x, y = near(r, w), near(r, other)
    between = share * x + (1 - share) * y
    curvature = 0.5 * penalty_convexity(r) * share * (1 - share) * (x - y) @ (x - y)
    chord = share * penalty_value(r, x) + (1 - share) * penalty_value(r, y)
    assert penalty_value(r, between) <= chord - curvature + 1e-10


def test_slope_is_the_gradient_of_the_differentiable_part():
    out = np.full(4, np.nan)
    penalty_slope(xf.ElasticNet(0.3, 0.7), W, out)
    assert out == pytest.approx(0.7 * W)
    penalty_slope(xf.Unpenalised(xf.L2(2.0), 1), W, out)
    assert out == pytest.approx([1.8, -2.8, 4.4, 0.0])
    penalty_slope(xf.WithThreshold(xf.L2(2.0), 0.5), W, out)
    assert out == pytest.approx([1.8, -2.8, 4.4, 0.5])
    penalty_slope(xf.Restricted(xf.L2(2.0), xf.Ball()), W, out)
    assert out == pytest.approx(2.0 * W)

    penalty_slope(xf.Tilted(xf.L2(2.0), 3.0 * W), W, out)
    assert out == pytest.approx(5.0 * W)


def test_a_slope_has_an_entry_for_each_coordinate_or_one_for_all():
    with pytest.raises(ValueError, match="slope must have as many entries as there are coordinates"):
        penalty_value(xf.Tilted(xf.L2(), np.zeros(3)), W)


@every_penalty
def test_slope_is_written_everywhere(r):
    out = np.full(4, np.nan)
    penalty_slope(r, W, out)
    assert np.isfinite(out).all()


@every_penalty
def test_extreme_points_give_no_nan(r):
    sizes = (0.0, 5e-324, 1e-200, 1e300)

    def point(size):
        return np.array([size, -size, 0.0, size, 1.0])

    assert failing(lambda size: np.isfinite(near(r, point(size))).all(), sizes) == []
    assert failing(lambda size: penalty_value(r, near(r, point(size))) > -np.inf, sizes) == []
    assert failing(lambda size: penalty_value(r, point(size)) > -np.inf, sizes) == []
    assert failing(lambda size: not np.isnan(penalty_conjugate(r, point(size))), sizes) == []


DOMAINS = [r for r in PENALTIES if type(r) in EXACT]


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@given(w=vectors(5))
def test_a_projection_is_inside_and_what_it_moved_was_outside(domain, w):
    x = near(domain, w)
    assert penalty_value(domain, x) == 0.0
    assert (
        penalty_value(domain, w) == (0.0 if np.abs(x - w).max() < 1e-12 else np.inf) or np.abs(x - w).max() <= 1.01e-8
    )


RIDGED = [r for r in PENALTIES if with_ridge.implemented(r)]


@pytest.mark.parametrize("r", RIDGED, ids=repr)
@given(w=vectors(5))
def test_a_ridge_adds_half_its_squares(r, w):
    x, ridged = near(r, w), with_ridge(r, 0.6)
    assert penalty_value(ridged, x) == pytest.approx(penalty_value(r, x) + 0.3 * x @ x)
    assert penalty_convexity(ridged) == pytest.approx(penalty_convexity(r) + 0.6)


def test_free_coordinates_must_have_no_slope():
    r = xf.Unpenalised(xf.L2(), 1)
    assert penalty_conjugate(r, np.array([1.0, 0.0])) == 0.5
    assert penalty_conjugate(r, np.array([1.0, 1e-300])) == np.inf


def test_on_a_hyperplane_only_a_constant_has_a_bound():
    assert penalty_conjugate(xf.Hyperplane(-0.5), np.full(4, 3.0)) == pytest.approx(-1.5)
    assert penalty_conjugate(xf.Hyperplane(-0.5), W) == np.inf


def test_threshold_without_bounds_must_match_its_slope():
    r = xf.WithThreshold(xf.L2(), 1.0)
    assert penalty_conjugate(r, np.array([1.0, 1.0])) == 0.5
    assert penalty_conjugate(r, np.array([1.0, 1.0 + 1e-15])) == np.inf
    assert penalty_value(xf.WithThreshold(xf.L2(), 1.0, 0.0, 1.0), np.array([1.0, 2.0])) == np.inf
