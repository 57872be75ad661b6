"""Blocks: the separable default, and outer functions with duals on a simplex."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.functions.cases import ENTROPIC, JOINTS, OUTERS, failing, numbers, vectors
from xrisk import functions as xf
from xrisk.functions import (
    block_conjugate,
    block_dual_step,
    block_entropy_step,
    block_is_monotone,
    block_is_smooth,
    block_lipschitz,
    block_project,
    block_slope,
    block_smoothness,
    block_start,
    block_value,
    outer_conjugate,
    outer_domain,
    outer_dual_step,
    outer_slope,
    outer_value,
)

every_outer = pytest.mark.parametrize("f", OUTERS, ids=repr)
every_joint = pytest.mark.parametrize("f", JOINTS, ids=repr)
every_entropic = pytest.mark.parametrize("f", ENTROPIC, ids=repr)
SIZES, STEPS = (0.0, 5e-324, 1e300, -1e300), (1e-8, 1.0, 1e8)
U, Y0 = np.array([0.3, -0.2, 1.1]), np.array([0.2, 0.5, 0.3])


def slope(f, u):
    y = np.empty_like(u)
    block_slope(f, u, y)
    return y


def dual_step(f, u, y0, tau):
    y = np.empty_like(u)
    block_dual_step(f, u, y0, tau, y)
    return y


def domain_point(f, v):
    y = v.copy()
    block_project(f, y)
    return y


@every_outer
@given(u=vectors(3))
def test_a_scalar_function_acts_as_a_sum(f, u):
    one_by_one = [outer_slope(f, float(x)) for x in u]
    assert block_value(f, u) == sum(outer_value(f, float(x)) for x in u)
    assert slope(f, u).tolist() == one_by_one
    assert block_conjugate(f, slope(f, u)) == sum(outer_conjugate(f, y) for y in one_by_one)


@every_outer
@given(u=vectors(3), tau=st.floats(0.1, 5.0))
def test_a_scalar_dual_step_acts_on_each_coordinate(f, u, tau):
    y0 = domain_point(f, np.array([0.2, 0.5, 0.3]))
    expected = [outer_dual_step(f, float(x), float(y), tau) for x, y in zip(u, y0, strict=True)]
    assert dual_step(f, u, y0, tau).tolist() == expected


@every_outer
def test_a_scalar_dual_starts_as_near_to_zero_as_its_domain_allows(f):
    lo, hi = outer_domain(f)
    y = np.full(2, np.nan)
    block_start(f, y)
    assert y.tolist() == [min(max(0.0, lo), hi)] * 2


@every_outer
@pytest.mark.parametrize("upper", [-1.0, 2.0, np.inf])
def test_scalar_constants_are_taken_over(f, upper):
    assert block_lipschitz(f, upper, 1) == xf.outer_lipschitz(f, upper)
    assert block_lipschitz(f, upper, 4) == 2.0 * xf.outer_lipschitz(f, upper)
    assert block_smoothness(f, upper) == xf.outer_smoothness(f, upper)
    assert block_is_monotone(f) == xf.outer_is_monotone(f)
    assert block_is_smooth(f) == xf.outer_is_smooth(f)


@every_joint
@given(u=vectors(4), other=vectors(4))
def test_slope_is_a_subgradient(f, u, other):
    assert block_value(f, other) >= block_value(f, u) + slope(f, u) @ (other - u) - 1e-12


@every_joint
@given(u=vectors(4), v=vectors(4))
def test_fenchel_young(f, u, v):
    y = domain_point(f, v)
    assert block_value(f, u) + block_conjugate(f, y) >= y @ u - 1e-12
    y = slope(f, u)
    assert block_value(f, u) + block_conjugate(f, y) == pytest.approx(y @ u, abs=1e-12)


@every_joint
@given(u=vectors(4), start=vectors(4), v=vectors(4), tau=st.floats(0.05, 20.0))
def test_dual_step_beats_every_other_dual(f, u, start, v, tau):
    y0 = domain_point(f, start)

    def objective(y):
        return y @ u - block_conjugate(f, y) - 0.5 * tau * (y - y0) @ (y - y0)

    y = dual_step(f, u, y0, tau)
    assert objective(y) >= objective(domain_point(f, v)) - 1e-10
    assert block_conjugate(f, y) < np.inf


@every_joint
@given(u=vectors(4, -30.0, 30.0), start=vectors(4), e=st.floats(-8, 8))
def test_dual_step_is_accurate_for_every_tau(f, u, start, e):
    tau = 10.0**e
    y0 = domain_point(f, start)
    y = dual_step(f, u, y0, tau)
    # y is the slope of f at u + τ (y₀ − y): the equality of Fenchel and Young, up to what the rounding of z allows
    z = u + tau * (y0 - y)
    assert block_value(f, z) + block_conjugate(f, y) == pytest.approx(y @ z, abs=1e-12 * (1 + np.abs(u).max() + tau))


@every_joint
def test_dual_step_survives_extreme_values(f):
    y0 = domain_point(f, np.ones(4))

    def is_feasible(size, tau):
        return block_conjugate(f, dual_step(f, np.array([size, -size, 0.0, 1.0]), y0, tau)) < np.inf

    assert failing(is_feasible, SIZES, STEPS) == []


@every_joint
def test_dual_step_may_overwrite_its_start(f):
    y0 = domain_point(f, Y0)
    expected = dual_step(f, U, y0, 0.8)
    block_dual_step(f, U, y0, 0.8, y0)
    assert y0.tolist() == expected.tolist()


@every_joint
def test_start_and_projection_are_in_the_domain(f):
    y = np.empty(5)
    block_start(f, y)
    assert np.ptp(y) == 0.0
    assert block_conjugate(f, y) < np.inf
    assert domain_point(f, y) == pytest.approx(y, abs=1e-15)


@every_joint
def test_conjugate_is_infinite_outside_the_domain(f):
    y = np.empty(4)
    block_start(f, y)
    assert block_conjugate(f, y + 0.01) == np.inf
    assert block_conjugate(f, y + np.array([2.0, -2.0, 0.0, 0.0])) == np.inf


@every_joint
@given(u=vectors(4), other=vectors(4))
def test_constants_hold(f, u, other):
    gap = np.linalg.norm(u - other)
    assert np.linalg.norm(slope(f, u)) <= block_lipschitz(f, 3.0, 4) + 1e-12
    assert np.linalg.norm(slope(f, u) - slope(f, other)) <= block_smoothness(f, 3.0) * max(gap, 1e-12) + 1e-12
    assert block_is_monotone(f)
    assert slope(f, u).min() >= 0.0


def test_log_sum_exp_smoothness_is_attained():
    f = xf.LogSumExp(3.0)
    jump = slope(f, np.array([1e-6, -1e-6])) - slope(f, np.array([-1e-6, 1e-6]))
    assert np.linalg.norm(jump) / (2e-6 * math.sqrt(2.0)) == pytest.approx(block_smoothness(f, 0.0), rel=1e-6)
    assert block_is_smooth(f)


@every_entropic
@given(u=vectors(4), start=vectors(4), v=vectors(4), tau=st.floats(0.05, 20.0))
def test_entropy_step_beats_every_other_dual(f, u, start, v, tau):
    y0 = domain_point(f, start) + 0.01
    y0 /= y0.sum()

    def objective(y):
        return y @ u - block_conjugate(f, y) - tau * y @ np.log(y / y0)

    logy = np.log(y0)
    block_entropy_step(f, u, logy, tau)
    rival = np.exp(v) / np.exp(v).sum()
    assert np.exp(logy).sum() == pytest.approx(1.0)
    assert objective(np.exp(logy) + 1e-300) >= objective(rival) - 1e-10


@every_entropic
def test_entropy_step_survives_extreme_values(f):
    def sums_to_one(size, tau):
        logy = np.log(np.full(3, 1.0 / 3.0))
        block_entropy_step(f, np.array([size, -size, 1.0]), logy, tau)
        return np.exp(logy).sum() == pytest.approx(1.0)

    assert failing(sums_to_one, SIZES, STEPS) == []


@given(x=numbers())
def test_log_sum_exp_tends_to_the_maximum(x):
    u = np.array([x, 0.5, -1.0])
    assert block_value(xf.LogSumExp(1e4), u) == pytest.approx(block_value(xf.MaxOuter(), u), abs=2e-4)
    assert block_value(xf.TopSum(1), u) == block_value(xf.MaxOuter(), u)


def test_ties_in_the_top_sum_count_k_of_them():
    assert slope(xf.TopSum(2), np.zeros(5)).sum() == 2.0


def test_golden_duals():
    assert dual_step(xf.MaxOuter(), U, Y0, 5.0) == pytest.approx([0.18, 0.38, 0.44], abs=1e-12)
    expected = [0.26536851, 0.21331361, 0.52131788]
    assert dual_step(xf.LogSumExp(), U, Y0, 0.8) == pytest.approx(expected, abs=5e-9)


def test_golden_entropy_steps():
    logy = np.log(Y0)
    block_entropy_step(xf.MaxOuter(), U, logy, 0.8)
    assert np.exp(logy) == pytest.approx([0.15587064, 0.20857886, 0.63555050], abs=5e-9)
    logy = np.log(Y0)
    block_entropy_step(xf.LogSumExp(), U, logy, 0.8)
    assert np.exp(logy) == pytest.approx([0.24963735, 0.28414135, 0.46622130], abs=5e-9)
