"""Robust logistic regression: values, optima and certificates against NumPy, CVXPY and plain logistic regression."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

from tests.conftest import table
from tests.random_problems import Known
from xrisk import Budget, Problem, certify, minimize
from xrisk.applications import averaged_logistic, robust_logistic
from xrisk.data.rows import frozen
from xrisk.functions import L2, Softplus
from xrisk.inner import Dropout, Gaussian, Perturbed, Sampler, as_rows
from xrisk.inner.passes import as_linear_groups
from xrisk.solvers import ALEXR, exact

X, Y, _ = table(n=120)
W = np.array([0.3, -0.2, 0.5, 0.1])


def masked(row, rng):
    return row * rng.integers(0, 2, row.size)


def mean_rows(copies, seed):
    rng = np.random.default_rng(seed)
    return np.array([np.mean([masked(row, rng) for _ in range(copies)], axis=0) for row in X])


def by_cvxpy(rows, *, l1=0.0, l2=0.0, intercept=False):
    w, b = cp.Variable(4), cp.Variable() if intercept else 0.0
    loss = cp.sum(cp.logistic(-cp.multiply(Y, rows @ w + b))) / len(Y)
    task = cp.Problem(cp.Minimize(loss + l1 * cp.norm1(w) + l2 / 2 * cp.sum_squares(w)))
    task.solve(solver=cp.CLARABEL)
    return task.value


@pytest.mark.parametrize("perturbation", ["gaussian", "dropout", Gaussian(3.0), Dropout(0.9)], ids=repr)
def test_perturbations_of_mean_zero_leave_the_exact_objective_that_of_logistic_regression(perturbation):
    problem = robust_logistic(X, Y, perturbation=perturbation, l2=0.1)
    expected = np.logaddexp(0.0, -Y * (X @ W)).mean() + 0.05 * W @ W
    assert problem.value(W) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
def test_copies_of_a_function_have_the_value_of_their_means(form):
    problem = robust_logistic(form(X), Y, perturbation=masked, copies=7, rng=3)
    assert problem.value(W) == pytest.approx(np.logaddexp(0.0, -Y * (mean_rows(7, 3) @ W)).mean(), rel=1e-13)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("perturbation", ["gaussian", masked])
def test_the_expectation_taken_first_is_the_same_objective(form, perturbation):
    options = {"perturbation": perturbation, "copies": 7, "rng": 3, "l1": 0.1, "l2": 0.2, "fit_intercept": True}
    sampled, averaged = robust_logistic(form(X), Y, **options), averaged_logistic(form(X), Y, **options)
    for w in (np.zeros(5), np.append(W, 0.3), 10.0 * np.append(W, -0.1)):
        assert averaged.value(w) == pytest.approx(sampled.value(w), rel=1e-13)
    assert exact(averaged).value == pytest.approx(exact(sampled).value, rel=1e-8)


def test_a_function_of_another_mean_has_another_optimum():
    other = robust_logistic(X, Y, perturbation=masked, l2=0.1, rng=0)
    plain, best = exact(robust_logistic(X, Y, l2=0.1)), exact(other, tol=1e-9)
    assert other.value(plain.w) > best.value * (1.0 + 1e-5)


@pytest.mark.parametrize(
    "options",
    [{"l2": 0.1}, {"l2": 0.01, "fit_intercept": True}, {"l1": 0.02}, {"l1": 0.02, "l2": 0.01, "fit_intercept": True}],
    ids=["l2", "intercept", "l1", "all"],
)
def test_the_optimum_is_that_of_cvxpy_and_certified(options):
    given = {name: value for name, value in options.items() if name != "fit_intercept"}
    for problem, rows in (
        (robust_logistic(X, Y, **options), X),
        (robust_logistic(X, Y, perturbation=masked, copies=3, rng=1, **options), mean_rows(3, 1)),
    ):
        best = exact(problem)
        optimum = by_cvxpy(rows, intercept="fit_intercept" in options, **given)
        assert best.value == pytest.approx(optimum, rel=1e-6)
        assert certify(problem, best).relative <= 1e-6


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_certificates_hold_at_any_point(fit_intercept):
    problem = robust_logistic(X, Y, l1=0.01, l2=0.05, fit_intercept=fit_intercept)
    best, rng = exact(problem), np.random.default_rng(0)
    for size in (1e-6, 0.1, 1.0, 100.0):
        w = best.w + size * rng.standard_normal(best.w.size)
        found = certify(problem, Known(w, rng.standard_normal((120, 1))))
        assert found.dual <= best.value * (1.0 + 1e-9)
        assert found.gap >= problem.value(w) - best.value - 1e-9


def test_without_a_penalty_the_certificate_is_that_of_losses_that_are_not_negative():
    problem = robust_logistic(X, Y)
    assert certify(problem, exact(problem)).dual == pytest.approx(0.0, abs=1e-12)


def test_many_rows_are_certified_as_few_are():
    many = robust_logistic(np.tile(X, (5, 1)), np.tile(Y, 5), l2=0.1, fit_intercept=True)
    few = robust_logistic(X, Y, l2=0.1, fit_intercept=True)
    best = exact(many)
    assert best.value == pytest.approx(exact(few).value, rel=1e-9)
    assert certify(many, best).relative <= 1e-8


@pytest.mark.slow
def test_alexr_converges_to_the_optimum():
    problem = robust_logistic(X, Y, perturbation=Gaussian(0.5), l2=0.1)
    result = minimize(problem, ALEXR(0.05, 0.1), budget=Budget(iterations=20_000), rng=0)
    assert problem.value(result.w) - exact(problem).value <= 2e-3
    assert certify(problem, result).relative <= 0.05


def test_a_sampler_runs_uncompiled():
    means = as_rows(0.5 * X)
    problem = Problem(Perturbed(means, frozen(Y.astype(float)), Sampler(masked, X)), Softplus(), L2(0.1))
    result = minimize(problem, ALEXR(0.2, 0.5), budget=Budget(iterations=150), rng=0)
    assert 0.0 <= result.value - exact(problem).value <= 0.25 * (np.log(2.0) - exact(problem).value)


def test_rows_are_not_copied():
    narrow = X.astype(np.float32)
    assert np.shares_memory(robust_logistic(narrow, Y).inner.rows.X, narrow)
    assert np.shares_memory(as_linear_groups(robust_logistic(narrow, Y).inner).model.rows.X, narrow)


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"perturbation": "blur"}, ValueError, "perturbation must be one of gaussian, dropout or a spec, got 'blur'"),
        ({"perturbation": 3}, TypeError, "perturbation must be a word, a perturbation spec or a function, got 3"),
        ({"perturbation": Gaussian(np.nan)}, ValueError, "sigma must be finite and not negative, got nan"),
        ({"perturbation": masked, "copies": 0}, ValueError, "copies must be a whole number of at least 1, got 0"),
        ({"perturbation": masked, "copies": 2.5}, ValueError, r"copies must be a whole number of at least 1, got 2\.5"),
        ({"perturbation": lambda row, rng: 0.0}, ValueError, r"perturbation must return finite rows of shape \(4,\)"),
        ({"y": np.arange(120)}, ValueError, "y must hold −1 and 1, got"),
        ({"y": Y[1:]}, ValueError, "y must have one entry for each of the 120 rows"),
        ({"X": np.full((120, 2), np.inf)}, ValueError, "X must be finite"),
        ({"l2": -1.0}, ValueError, "l2 must be finite and not negative"),
    ],
)
@pytest.mark.parametrize("state", [robust_logistic, averaged_logistic])
def test_what_is_wrong_is_said_in_one_sentence(state, options, error, sentence):
    given = {"X": X, "y": Y, **options}
    with pytest.raises(error, match=sentence):
        state(given.pop("X"), given.pop("y"), **given)
