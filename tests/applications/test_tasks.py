"""Many tasks with groups: values, optima and certificates against NumPy and CVXPY."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp

import xrisk
from tests.conftest import table
from xrisk import Budget, certify, minimize
from xrisk.applications import multi_task
from xrisk.functions import MaxOuter, TopSum
from xrisk.solvers import ALEXR, Entropy, exact

X, Y, cells = table()
TASKS = np.array(["b", "a", "a", "c", "c", "c"])[cells]  # of one, two and three groups
W = np.array([0.3, -0.2, 0.5, 0.1])
OWN = {"a": (1, 2), "b": (0,), "c": (3, 4, 5)}


def risks(w):
    losses = np.logaddexp(0.0, -Y * (X @ w))
    return np.array([losses[cells == i].mean() for i in range(6)])


def cvx_risks(w):
    losses = cp.logistic(-cp.multiply(Y, X @ w))
    return [cp.sum(losses[cells == i]) / (cells == i).sum() for i in range(6)]


def test_the_maximum_is_that_of_the_groups_of_each_task():
    problem = multi_task(X, Y, TASKS, cells, l2=0.1)
    expected = np.mean([max(risks(W)[list(own)]) for own in OWN.values()]) + 0.05 * W @ W
    assert problem.value(W) == pytest.approx(expected, rel=1e-13)


def test_log_sum_exp_is_that_of_the_groups_of_each_task_up_to_a_constant():
    problem = multi_task(X, Y, TASKS, cells, outer="log-sum-exp", beta=4.0)
    terms = [logsumexp(4.0 * risks(W)[list(own)]) / 4.0 + np.log(6 / len(own)) / 4.0 for own in OWN.values()]
    assert problem.value(W) == pytest.approx(np.mean(terms), rel=1e-13)


def test_log_sum_exp_of_equally_many_groups_has_no_constant():
    problem = multi_task(X, Y, cells // 2, cells, outer="log-sum-exp", beta=4.0)
    terms = [logsumexp(4.0 * risks(W)[2 * i : 2 * i + 2]) / 4.0 for i in range(3)]
    assert problem.value(W) == pytest.approx(np.mean(terms), rel=1e-13)


@pytest.mark.parametrize("outer", ["max", "log-sum-exp"])
def test_repeated_groups_leave_the_optimum_that_of_cvxpy(outer):
    w = cp.Variable(4)
    found = cvx_risks(w)
    join = {"max": cp.max, "log-sum-exp": lambda u: cp.log_sum_exp(4.0 * u) / 4.0}[outer]
    total = sum(join(cp.hstack([found[i] for i in own])) for own in OWN.values()) / 3
    task = cp.Problem(cp.Minimize(total + 0.05 * cp.sum_squares(w)))
    task.solve(solver=cp.CLARABEL)
    problem = multi_task(X, Y, TASKS, cells, outer=outer, beta=4.0, l2=0.1)
    best = exact(problem)
    np.testing.assert_allclose(best.w, w.value, atol=1e-4)
    assert certify(problem, best).relative <= 1e-7


def test_under_the_maximum_the_smallest_group_of_a_task_is_the_one_repeated():
    inner = multi_task(X, Y, TASKS, cells).inner
    sizes = np.diff(inner.offsets).reshape(3, 3)
    own = np.bincount(cells)
    np.testing.assert_array_equal(sizes[0], [own[1], own[2], min(own[1], own[2])])
    np.testing.assert_array_equal(sizes[1], [own[0]] * 3)


def test_one_task_is_the_worst_group():
    single = multi_task(X, Y, np.zeros(240), cells, l2=0.1)
    assert exact(single).value == pytest.approx(exact(xrisk.group_dro(X, Y, cells, divergence="max", l2=0.1)).value)


def test_tasks_of_one_group_are_their_mean():
    problem = multi_task(X, Y, cells, np.zeros(240), l2=0.1)
    assert problem.inner.dim == 1
    assert problem.value(W) == pytest.approx(risks(W).mean() + 0.05 * W @ W)


def test_tasks_and_groups_may_overlap():
    tasks = np.stack([np.ones(240, dtype=bool), cells < 3], axis=1)
    groups = np.stack([Y > 0, Y < 0, X[:, 2] > 0], axis=1)
    losses = np.logaddexp(0.0, -Y * (X @ W))
    expected = np.mean([max(losses[task & group].mean() for group in groups.T) for task in tasks.T])
    assert multi_task(X, Y, tasks, groups).value(W) == pytest.approx(expected, rel=1e-13)


def test_weights_weigh_rows_within_groups():
    weight, losses = 1.0 + np.arange(240) % 3, np.logaddexp(0.0, -Y * (X @ W))
    means = [np.average(losses[cells == i], weights=weight[cells == i]) for i in range(6)]
    expected = np.mean([max(means[i] for i in own) for own in OWN.values()])
    assert multi_task(X, Y, TASKS, cells, sample_weight=weight).value(W) == pytest.approx(expected, rel=1e-13)


def test_sparse_rows_and_many_classes_are_taken():
    labels = np.arange(240) % 3
    dense = multi_task(X, labels, TASKS, cells, loss="multinomial", l2=0.1, fit_intercept=True)
    sparse = multi_task(scipy.sparse.csr_array(X), labels, TASKS, cells, loss="multinomial", l2=0.1, fit_intercept=True)
    w = np.linspace(-1, 1, 15)
    assert sparse.value(w) == pytest.approx(dense.value(w), rel=1e-13)


@pytest.mark.slow
def test_alexr_converges_to_the_optimum():
    problem = multi_task(X, Y, TASKS, cells, l2=0.1)
    result = minimize(problem, ALEXR(0.05, 0.1, blocks=2, mirror=Entropy()), budget=Budget(iterations=20_000), rng=0)
    assert result.value - exact(problem).value <= 0.02


def test_too_many_repeats_are_refused():
    tasks = np.repeat(np.arange(4), 60)
    groups = np.concatenate([np.arange(60) % m for m in (5, 6, 7, 8)])
    assert multi_task(X, Y, tasks, groups).inner.dim == 8
    with pytest.raises(ValueError, match=r"outer must be 'max' for tasks of 5, 6, 7, 8 groups: .* every task has 840"):
        multi_task(X, Y, tasks, groups, outer="log-sum-exp")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"outer": "mean"}, "outer must be one of max, log-sum-exp or a spec, got 'mean'"),
        ({"outer": "log-sum-exp", "beta": 0.0}, "beta must be positive"),
        ({"outer": TopSum(2)}, r"outer must be 'max' or 'log-sum-exp' for tasks of 1, 2, 3 groups, got TopSum"),
        ({"tasks": TASKS[1:]}, "tasks must be a label for each of the 240 rows"),
        ({"tasks": np.full(240, np.nan)}, "tasks must not hold NaN or None"),
        ({"tasks": np.zeros((240, 2), dtype=bool)}, "every row must belong to a task, row 0 belongs to none"),
        ({"groups": cells[1:]}, "groups must be a label for each of the 240 rows"),
        ({"sample_weight": np.where(cells == 2, 0.0, 1.0)}, "sample_weight must be positive somewhere in every group"),
        ({"loss": "cross"}, "loss must be one of logistic"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        multi_task(X, Y, **{"tasks": TASKS, "groups": cells, **options})


def test_a_spec_does_what_its_name_does():
    assert multi_task(X, Y, TASKS, cells, outer=MaxOuter()).value(W) == multi_task(X, Y, TASKS, cells).value(W)
