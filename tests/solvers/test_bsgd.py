"""BSGD against its naive twin, what it is a special case of, and what it minimises."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.bsgd import bsgd
from tests.solvers.cases import cvar, squares
from tests.solvers.running import iterates
from xrisk.solvers import BSGD, SOX, SameBatch


def test_it_follows_the_naive_twin():
    x0, xs = iterates(cvar(), BSGD(0.05, blocks=3, batch=5))
    expected = bsgd(problems.cvar(x0, 5), 50, np.random.default_rng(0), step=0.05, blocks=3)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_it_is_sox_without_memory():
    """γ = β = 1, and the batch of the value in the Jacobian."""
    sox = SOX(0.05, track=1.0, momentum=1.0, blocks=3, pairing=SameBatch())
    np.testing.assert_allclose(
        iterates(cvar(), BSGD(0.05, blocks=3))[1], iterates(cvar(), sox)[1], rtol=1e-12, atol=1e-12
    )


def biased_optimum(batch):
    """Minimiser of mean_i E gᵢ(x; 𝓑)² + 0.025‖x‖² = mean_i gᵢ(x)² + Var(gᵢ(x; ζ))/B + 0.025‖x‖²."""
    X, y, groups = table()
    A, b = 0.05 * np.eye(4), np.zeros(4)
    for i in range(6):
        rows, target = X[groups == i] + 1.0, y[groups == i].astype(float)
        second = np.column_stack([rows, target]).T @ np.column_stack([rows, target]) / len(rows)
        mean = np.append(rows.mean(axis=0), target.mean())
        moment = (1 - 1 / batch) * np.outer(mean, mean) + second / batch
        A, b = A + moment[:4, :4] / 3, b + moment[:4, 4] / 3
    return np.linalg.solve(A, b)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
def test_it_minimises_the_mean_of_f_over_batches(batch):
    """For f(u) = u² the bias is Var/B, the bound L_f σ₀²/(2B) attained."""
    problem = squares()
    result = xrisk.minimize(problem, BSGD(0.002, batch=batch), budget=xrisk.Budget(iterations=30_000), rng=0)
    np.testing.assert_allclose(result.w, biased_optimum(batch), atol=0.02)
    assert np.abs(result.w - xrisk.solvers.exact(problem).w).max() > 0.1


@pytest.mark.slow
def test_larger_batches_have_less_bias():
    problem = cvar()
    best = xrisk.solvers.exact(problem).value
    gaps = [
        xrisk.minimize(problem, BSGD(0.02, 3, batch), budget=xrisk.Budget(iterations=5000), rng=0).value - best
        for batch in (4, 64)
    ]
    assert gaps[0] > 0.01 > 0.004 > gaps[1]
