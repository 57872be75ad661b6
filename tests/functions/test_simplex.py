"""Projections onto the simplex and the capped simplex, Euclidean and Kullback–Leibler."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from tests.functions.cases import vectors
from tests.reference.capped import kl_capped
from xrisk.functions import (
    kl_project_capped_simplex,
    kl_project_logs,
    normalise_logs,
    project_capped_simplex,
    project_simplex,
)


def projected(project, v, *bounds):
    q = v.copy()
    project(q, *bounds)
    return q


def assert_feasible(q, total, cap):
    assert q.sum() == pytest.approx(total, rel=1e-12)
    assert q.min() >= 0.0
    assert q.max() <= cap


@given(v=vectors(5), total=st.floats(0.1, 4.0), other=vectors(5, 0.01, 1.0))
def test_simplex_projection_is_the_nearest_point(v, total, other):
    q = projected(project_simplex, v, total)
    assert_feasible(q, total, total * (1 + 1e-15))
    # ⟨v − q, p − q⟩ ≤ 0 for every feasible p characterises the projection
    assert (v - q) @ (total * other / other.sum() - q) <= 1e-12


@given(v=vectors(5), cap=st.floats(0.21, 0.9), mixture=st.lists(vectors(5), min_size=4, max_size=4))
def test_capped_projection_is_the_nearest_point(v, cap, mixture):
    q = projected(project_capped_simplex, v, 1.0, cap)
    assert_feasible(q, 1.0, cap)
    # vertices of the set: as many caps as fit, then the remainder
    full = int(1.0 // cap)
    vertex = np.zeros(5)
    vertex[:full] = cap
    vertex[full] = 1.0 - full * cap
    for direction in mixture:
        p = np.empty(5)
        p[np.argsort(-direction)] = vertex
        assert (v - q) @ (p - q) <= 1e-12


@given(v=vectors(6))
def test_a_wide_cap_changes_nothing(v):
    assert projected(project_capped_simplex, v, 1.0, 1.0) == pytest.approx(
        projected(project_simplex, v, 1.0), abs=1e-14
    )


@given(v=vectors(6), cap=st.floats(0.2, 0.9))
def test_projecting_twice_changes_nothing(v, cap):
    once = projected(project_capped_simplex, v, 1.0, cap)
    assert projected(project_capped_simplex, once, 1.0, cap) == pytest.approx(once, abs=1e-14)


def test_the_tightest_cap_gives_the_uniform_point():
    assert projected(project_capped_simplex, np.array([5.0, 1.0, 0.0]), 1.0, 1.0 / 3.0).tolist() == [1.0 / 3.0] * 3
    assert projected(kl_project_capped_simplex, np.array([0.7, 0.2, 0.1]), 1.0 / 3.0).tolist() == [1.0 / 3.0] * 3


def test_an_impossible_cap_is_refused():
    with pytest.raises(ValueError, match="cap is too small"):
        project_capped_simplex(np.ones(3), 1.0, 0.3)
    with pytest.raises(ValueError, match="cap is too small"):
        kl_project_capped_simplex(np.ones(3), 0.3)


@pytest.mark.parametrize("size", [1e17, 1e200, 1e300])
def test_far_apart_values_keep_their_sum(size):
    v = np.array([0.0, -size, -size, -size])
    assert projected(project_capped_simplex, v, 1.0, 0.5).tolist() == pytest.approx([0.5, 1 / 6, 1 / 6, 1 / 6])
    assert projected(project_simplex, v, 1.0).tolist() == [1.0, 0.0, 0.0, 0.0]
    assert projected(project_simplex, v + size, 1.0).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_golden_kl_projection():
    q = projected(kl_project_capped_simplex, np.array([0.5, 0.3, 0.15, 0.05]), 0.4)
    assert q.tolist() == pytest.approx([0.4, 0.36, 0.18, 0.06], abs=1e-12)


@given(q=vectors(4, 0.05, 1.0), cap=st.floats(0.26, 0.95), other=vectors(4, 0.05, 1.0))
def test_kl_projection_beats_every_other_point(q, cap, other):
    q = q / q.sum()
    p = projected(kl_project_capped_simplex, q, cap)
    assert_feasible(p, 1.0, cap * (1 + 1e-15))
    rival = projected(project_capped_simplex, other, 1.0, cap) + 1e-12
    assert p @ np.log(p / q) <= rival @ np.log(rival / q) + 1e-9


def test_kl_projection_agrees_with_slsqp():
    q = np.array([0.45, 0.35, 0.15, 0.05])
    found = minimize(
        lambda p: p @ np.log(p / q),
        np.full(4, 0.25),
        bounds=[(1e-9, 0.3)] * 4,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1.0},
        method="SLSQP",
        options={"ftol": 1e-14},
    )
    assert projected(kl_project_capped_simplex, q, 0.3) == pytest.approx(found.x, abs=1e-6)


def test_kl_projection_normalises():
    assert projected(kl_project_capped_simplex, np.array([2.0, 1.0, 1.0]), 0.9).tolist() == [0.5, 0.25, 0.25]


def test_kl_projection_of_too_few_positive_entries_stays_feasible():
    assert projected(kl_project_capped_simplex, np.array([1.0, 0.0, 0.0]), 0.5).tolist() == [0.5, 0.25, 0.25]


@given(q=vectors(6, 0.001, 1.0), cap=st.floats(0.17, 1.0))
def test_the_projection_of_logarithms_is_the_logarithm_of_the_projection(q, cap):
    p = np.exp(projected(kl_project_logs, np.log(q), cap))
    assert p == pytest.approx(projected(kl_project_capped_simplex, q, cap), rel=1e-12)
    assert p == pytest.approx(kl_capped(q, cap), rel=1e-12)


def test_golden_kl_projection_of_logarithms():
    logq = projected(kl_project_logs, np.log([0.5, 0.3, 0.15, 0.05]) + 1e4, 0.4)
    assert np.exp(logq).tolist() == pytest.approx([0.4, 0.36, 0.18, 0.06], abs=1e-11)


@pytest.mark.parametrize("size", [800.0, 1e17, 1e300])
@pytest.mark.parametrize("cap", [0.3, 1 / 3, 0.4, 0.5, 1.0])
def test_logarithms_far_apart_keep_their_sum_and_their_order(size, cap):
    logq = projected(kl_project_logs, np.array([size, 0.0, 0.0, -size, -size, -size / 2]), cap)
    assert np.exp(logq).sum() == pytest.approx(1.0, rel=1e-12)
    assert np.exp(logq).max() <= cap * (1 + 1e-12)
    assert np.isfinite(logq).all()
    assert logq[0] >= logq[1] == pytest.approx(logq[2])
    assert logq[2] > logq[5] > logq[3] == logq[4]


def test_a_cap_that_some_weights_fill_leaves_the_others_their_ratios():
    logq = projected(kl_project_logs, np.array([0.0, 0.0, -1000.0, -1001.0]), 0.5)
    assert logq[2] - logq[3] == pytest.approx(1.0)


def test_the_tightest_cap_gives_equal_logarithms():
    assert projected(kl_project_logs, np.array([5.0, 1.0, 0.0]), 1.0 / 3.0).tolist() == [-np.log(3.0)] * 3


def test_an_impossible_cap_is_refused_for_logarithms():
    with pytest.raises(ValueError, match="cap is too small"):
        kl_project_logs(np.zeros(3), 0.3)


def test_normalised_logarithms_sum_to_one():
    logq = projected(normalise_logs, np.array([1e300, 1e300, -1e300]))
    assert logq.tolist() == [-np.log(2.0), -np.log(2.0), -2e300]
