"""Compiled equals Python, for every spec; a foreign function runs in a kernel."""

from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from tests.functions.cases import JOINTS, ours
from xrisk import functions as xf
from xrisk.compile import specialise
from xrisk.functions import (
    block_conjugate,
    block_dual_step,
    block_slope,
    block_value,
    loss_conjugate,
    loss_curvature,
    loss_domain,
    loss_slope,
    loss_value,
    outer_conjugate,
    outer_curvature,
    outer_domain,
    outer_dual_step,
    outer_lipschitz,
    outer_prox,
    outer_slope,
    outer_smoothness,
    outer_value,
    penalty_conjugate,
    penalty_convexity,
    penalty_slope,
    penalty_value,
    prox,
    risk_conjugate,
    risk_outer,
    risk_project,
    risk_threshold,
    risk_value,
    risk_weights,
    scores_conjugate,
    scores_slope,
    scores_value,
)

# nothing of these is kept on disk: they are compiled in every run. Part of `test_plain` is the quick form
pytestmark = pytest.mark.slow

W = np.array([0.9, -1.4, 2.2, 0.1])


@njit(error_model="numpy")
def loss_numbers(loss, z, y):
    lo, hi = loss_domain(loss, y)
    v = loss_slope(loss, z, y)
    return loss_value(loss, z, y), v, loss_curvature(loss, z, y), loss_conjugate(loss, v, y), lo, hi


@njit(error_model="numpy")
def scores_numbers(loss, z):
    v = np.empty_like(z)
    scores_slope(loss, z, 1, v)
    return scores_value(loss, z, 1), scores_conjugate(loss, v, 1), v.sum(), v[0]


@njit(error_model="numpy")
def outer_numbers(f, u):
    lo, hi = outer_domain(f)
    y = outer_slope(f, u)
    values = outer_value(f, u), y, outer_curvature(f, u), outer_conjugate(f, y)
    steps = outer_dual_step(f, u, 0.4, 0.8), outer_prox(f, u, 0.8)
    return values, steps, (lo, hi, outer_lipschitz(f, u), outer_smoothness(f, u))


@njit(error_model="numpy")
def block_numbers(f, u):
    y = np.empty_like(u)
    block_slope(f, u, y)
    value, conjugate, first = block_value(f, u), block_conjugate(f, y), y[0]
    block_dual_step(f, u, y, 0.8, y)
    return value, conjugate, first, y[0], y[1], y[2]


@njit(error_model="numpy")
def risk_numbers(rho, u):
    q = np.empty_like(u)
    risk_weights(rho, u, q)
    conjugate = risk_conjugate(rho, q)
    risk_project(rho, q)
    return risk_value(rho, u), conjugate, q[0], q[1]


@njit(error_model="numpy")
def threshold_numbers(rho, u):
    c = risk_threshold(rho, u)
    return c, outer_value(risk_outer(rho, u.size), u[0] - c)


@njit(error_model="numpy")
def penalty_numbers(r, w):
    x, out = w.copy(), np.empty_like(w)
    prox(r, x, 0.5)
    penalty_slope(r, w, out)
    value = penalty_value(r, x)
    return value, penalty_conjugate(r, w), penalty_convexity(r), out[0], out[3], x[0], x[1], x[2], x[3]


def assert_same(compiled, *args):
    assert np.hstack(compiled(*args)) == pytest.approx(np.hstack(compiled.py_func(*args)), rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("loss", ours(loss_value.table), ids=repr)
def test_compiled_losses_equal_python(loss):
    assert_same(loss_numbers, loss, 0.3, -1.0)
    assert_same(loss_numbers, loss, -1e300, 1.0)


def test_compiled_scores_equal_python():
    assert_same(scores_numbers, xf.Multinomial(), W)


@pytest.mark.parametrize("f", ours(outer_value.table), ids=repr)
def test_compiled_outers_equal_python(f):
    assert_same(outer_numbers, f, 0.3)
    assert_same(outer_numbers, f, -1e300)


@pytest.mark.parametrize("f", [*JOINTS[1:4], xf.MaxOuter(), xf.Softplus()], ids=repr)
def test_compiled_blocks_equal_python(f):
    assert_same(block_numbers, f, W)


@pytest.mark.parametrize("rho", ours(risk_value.table), ids=repr)
def test_compiled_risks_equal_python(rho):
    assert_same(risk_numbers, rho, W[: xf.WithMasses().masses.size])


@pytest.mark.parametrize("rho", ours(risk_outer.table), ids=repr)
def test_compiled_thresholds_equal_python(rho):
    assert_same(threshold_numbers, rho, W)


@pytest.mark.parametrize(
    "r", [*ours(penalty_value.table), xf.Restricted(xf.ElasticNet(0.1, 0.0), xf.NonNegative())], ids=repr
)
def test_compiled_penalties_equal_python(r):
    assert_same(penalty_numbers, r, W)


class Quartic(NamedTuple):
    """f(u) = u⁴: a researcher's own function, known by its value and slope only."""

    scale: float = 1.0


@outer_value.of(Quartic)
def _(f, u):
    return f.scale * u**4


@outer_slope.of(Quartic)
def _(f, u):
    return 4.0 * f.scale * u**3


@njit(error_model="numpy")
def value_and_slope(f, u):
    y = np.empty_like(u)
    block_slope(f, u, y)
    return block_value(f, u), y.sum()


def test_a_foreign_function_runs_in_a_kernel():
    f = Quartic(0.5)
    value, slope = specialise(value_and_slope, f)(f, np.array([1.0, 2.0]))
    assert (value, slope) == (8.5, 18.0)
