"""Least squares written about its minimiser: the same function, and a certificate for every fit that is not perfect."""

import numpy as np
import pytest
import scipy.sparse

from xrisk import Budget, minimize
from xrisk.applications import squares
from xrisk.applications.squares import squares_about_minimiser
from xrisk.functions import Ball, NoPenalty, Simplex
from xrisk.inner import as_rows, inner_count, inner_samples
from xrisk.solvers import Auto

RNG = np.random.default_rng(5)
N, D = 80, 6
A, B = RNG.standard_normal((N, D)), RNG.standard_normal(N)
EQUAL = np.full(N, 1.0 / N)
UNEQUAL = RNG.random(N) / N
W = RNG.standard_normal(D)


def stated(rows=A, targets=B, share=EQUAL, l2=0.0, domain=NoPenalty()):
    return squares_about_minimiser(as_rows(rows), targets, share, l2=l2, domain=domain)


def solved(problem):
    return minimize(problem, Auto(1e-6), budget=Budget(iterations=100))


@pytest.mark.parametrize("rows", [A, scipy.sparse.csr_array(A)], ids=["dense", "sparse"])
@pytest.mark.parametrize("share", [EQUAL, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_the_value_is_that_of_the_rows(rows, share, l2):
    expected = share @ (A @ W - B) ** 2 + 0.5 * l2 * W @ W
    assert stated(rows, share=share, l2=l2).value(W) == pytest.approx(expected, rel=1e-12)


def test_there_is_a_row_for_each_column():
    inner = stated().inner
    assert (inner_count(inner), inner_samples(inner)) == (1, D)


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-5, 1e-8])
def test_a_good_fit_loses_no_digits(noise):
    targets = A @ W + noise * B
    best = np.linalg.lstsq(A, targets)[0]
    problem = stated(targets=targets)
    assert problem.value(best) == pytest.approx(np.mean((A @ best - targets) ** 2), rel=1e-6)


@pytest.mark.parametrize("noise", [1.0, 1e-3, 1e-5])
@pytest.mark.parametrize("scales", [np.ones(D), np.logspace(-6, 6, D)], ids=["alike", "unlike"])
def test_fits_are_certified(noise, scales):
    result = solved(stated(A * scales, A @ W + noise * B))
    assert result.certificate.relative <= 1e-6
    np.testing.assert_allclose(result.w * scales, np.linalg.lstsq(A, A @ W + noise * B)[0], rtol=1e-5)


@pytest.mark.parametrize("domain", [Ball(0.1), Simplex(1.0)], ids=repr)
def test_an_optimum_on_a_domain_is_certified(domain):
    result = solved(stated(domain=domain))
    assert result.certificate.relative <= 1e-6


def test_what_the_rows_say_better_is_left_to_them(monkeypatch):
    assert stated(np.c_[A, A[:, 0]]) is None  # singular
    assert stated(A[:3], B[:3], EQUAL[:3]) is None  # more columns than rows
    assert stated(targets=np.zeros(N)) is None  # perfect
    assert stated(1e160 * A) is None  # squares overflow
    monkeypatch.setattr(squares, "MOST_COLUMNS", D - 1)
    assert stated() is None


def test_a_curvature_that_is_overestimated_is_no_error(monkeypatch):
    monkeypatch.setattr(squares, "least_eigenvalue", lambda H: 1e3)
    assert stated() is None
