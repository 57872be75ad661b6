"""Ranking problems: brute force, CVXPY, materialised differences, certificates and samples all agree."""

import tracemalloc
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

import xrisk
import xrisk.functions as fn
from tests.conftest import table
from xrisk.applications import p_norm_push, partial_auc, precision_at_k, top_push
from xrisk.auto import Auto, pass_seconds
from xrisk.data.rows import frozen
from xrisk.inner import Groups, LinearModel, as_rows
from xrisk.problem import inner_values
from xrisk.solvers import ALEXR, exact

X, Y, _ = table(n=60)
Y = np.where(np.arange(60) % 3 == 0, Y, -1.0)  # fewer positives
POSITIVE, NEGATIVE = X[Y > 0], X[Y < 0]
W = np.array([0.4, -0.3, 0.2, 0.7])
LOSSES = {
    "logistic": lambda t: np.logaddexp(0.0, -t),
    "hinge": lambda t: np.maximum(1.0 - t, 0.0),
    "squared_hinge": lambda t: np.maximum(1.0 - t, 0.0) ** 2,
    "exponential": lambda t: np.exp(-t),
}
PROBLEMS = {
    "partial AUC": lambda X=X, **options: partial_auc(X, Y, min_tpr=0.5, **options),
    "push": lambda X=X, **options: p_norm_push(X, Y, p=4, **options),
    "positives": lambda X=X, **options: p_norm_push(X, Y, p=2.5, outer="positives", **options),
    "at k": lambda X=X, **options: precision_at_k(X, Y, k=5, **options),
    "top push": lambda X=X, **options: top_push(X, Y, **options),
}
every_problem = pytest.mark.parametrize("make", PROBLEMS.values(), ids=PROBLEMS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


@every_loss
def test_values_are_those_of_the_formulas(loss):
    of, s, top = LOSSES[loss], POSITIVE @ W, NEGATIVE @ W
    of_positives, of_negatives = of(s[:, None] - top).mean(axis=1), of(s - top[:, None]).mean(axis=1)
    k = s.size // 2
    expected = {
        "partial AUC": np.sort(of_positives)[-k:].mean(),
        "push": (of_negatives**4).mean(),
        "positives": (of_positives**2.5).mean(),
        "at k": np.logaddexp(0.0, of(s[:, None] - X @ W).sum(axis=1) - 5).mean(),
        "top push": of(s - top.max()).mean(),
    }
    found = {name: make(loss=loss).value(W) for name, make in PROBLEMS.items()}
    assert found == pytest.approx(expected, rel=1e-12)


@every_loss
def test_the_worst_positives_are_those_of_lowest_score(loss):
    problem, k = partial_auc(X, Y, min_tpr=0.5, loss=loss), len(POSITIVE) // 2
    by_score = inner_values(problem, W)[np.argsort(POSITIVE @ W)[:k], 0].mean()
    assert problem.value(W) == pytest.approx(by_score, rel=1e-13)


@pytest.mark.parametrize(("positives", "min_tpr", "k"), [(10, 0.9, 1), (10, 0.0, 10), (3, 0.5, 1), (100, 0.71, 29)])
def test_the_number_of_worst_positives_is_rounded_down(positives, min_tpr, k):
    rows = np.arange(positives + 5.0)[:, None]
    problem = partial_auc(rows, np.where(rows[:, 0] < positives, 1, -1), min_tpr=min_tpr)
    assert problem.outer.alpha * positives == pytest.approx(k, rel=1e-12)


def test_the_first_power_is_the_area_under_the_curve():
    assert p_norm_push(X, Y, p=1).value(W) == pytest.approx(
        partial_auc(X, Y, min_tpr=0.0, loss="exponential").value(W), rel=1e-13
    )


def test_top_push_is_the_push_of_infinite_power():
    of_one_high_power = p_norm_push(X, Y, p=600, loss="hinge").value(W) ** (1 / 600)
    assert top_push(X, Y, loss="hinge").value(W) == pytest.approx(of_one_high_power, rel=0.01)


def by_cvxpy(name, loss):
    """The optimum with l2 = 0.1 over explicit differences."""
    w = cp.Variable(4)
    shapes = {
        "logistic": lambda t: cp.logistic(-t),
        "hinge": lambda t: cp.pos(1 - t),
        "squared_hinge": lambda t: cp.square(cp.pos(1 - t)),
        "exponential": lambda t: cp.exp(-t),
    }

    def means(outer, inner, side):
        return cp.hstack([cp.sum(shapes[loss](side * ((row - inner) @ w))) / len(inner) for row in outer])

    positives, k = len(POSITIVE), len(POSITIVE) // 2
    risk = {
        "partial AUC": lambda: cp.sum_largest(means(POSITIVE, NEGATIVE, 1), k) / k,
        "push": lambda: cp.sum(cp.power(means(NEGATIVE, POSITIVE, -1), 4)) / len(NEGATIVE),
        "positives": lambda: cp.sum(cp.power(means(POSITIVE, NEGATIVE, 1), 2.5)) / positives,
        "at k": lambda: cp.sum(cp.logistic(len(X) * means(POSITIVE, X, 1) - 5)) / positives,
        "top push": lambda: cp.sum(shapes[loss](POSITIVE @ w - cp.max(NEGATIVE @ w))) / positives,
    }[name]()
    task = cp.Problem(cp.Minimize(risk + 0.05 * cp.sum_squares(w)))
    task.solve(solver=cp.CLARABEL)
    return task.value, w.value


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("partial AUC", "logistic"),
        ("partial AUC", "hinge"),
        ("push", "exponential"),
        ("positives", "squared_hinge"),
        ("at k", "logistic"),
        ("top push", "squared_hinge"),
        ("top push", "logistic"),
    ],
)
def test_optima_agree_with_cvxpy(name, loss):
    value, w = by_cvxpy(name, loss)
    best = exact(PROBLEMS[name](loss=loss, l2=0.1))
    assert best.value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(best.w, w, atol=1e-4)


def materialised(problem):
    """The same problem as group means over a matrix of differences."""
    g = problem.inner
    differences = g.side * (X[g.outer, None] - X[None, g.inner]).reshape(-1, X.shape[1])
    offsets = frozen(np.arange(g.outer.size + 1) * g.inner.size)
    model = LinearModel(as_rows(differences), frozen(np.ones(len(differences))), g.loss)
    return problem._replace(inner=Groups(model, offsets))


@every_problem
@every_loss
def test_optima_are_those_of_materialised_differences(make, loss):
    problem = make(loss=loss, l1=0.02, l2=0.05)
    best, other = exact(problem), exact(materialised(problem))
    assert best.value == pytest.approx(other.value, rel=1e-8)
    assert xrisk.certify(problem, best).relative < 1e-7
    np.testing.assert_allclose(best.dual, other.dual, atol=1e-3 * np.abs(other.dual).max())


@every_problem
@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_certificates_hold_at_random_points(make, loss, seed):
    rng = np.random.default_rng(seed)
    problem = make(loss=loss, l2=10.0 ** rng.uniform(-3, 0))
    best = exact(problem, tol=1e-11)
    slack = 1e-9 * abs(best.value)
    for size in (0.0, 1e-8, 1e-3, 1.0, 30.0):
        w = best.w + size * rng.standard_normal(4)
        dual = best.dual + size * rng.standard_normal(best.dual.shape)
        for known in (replace(best, w=w, dual=dual, slopes=None), replace(best, w=w, dual=dual)):
            found = xrisk.certify(problem, known)
            assert found.dual <= best.value + slack
            assert found.primal >= problem.value(w) - slack


@pytest.mark.parametrize("shift", [1e3, 1e6])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_rows_far_from_the_origin_are_certified_honestly(shift, loss):
    best = exact(partial_auc(X, Y, min_tpr=0.5, loss=loss, l2=0.1))
    far = partial_auc(X + shift, Y, min_tpr=0.5, loss=loss, l2=0.1)
    moved = exact(far)
    assert moved.value == pytest.approx(best.value, rel=1e-8)
    found = xrisk.certify(far, moved)
    assert found.dual <= best.value * (1 + 1e-9)
    assert found.relative < 1e-5


def in_form(form):
    thin = np.where(np.abs(X) < 0.3, 0.0, X).astype(np.float32)
    return {"sparse": scipy.sparse.csc_matrix, "float32": np.asarray, "float64": lambda x: x.astype(float)}[form](thin)


@pytest.mark.parametrize("form", ["sparse", "float32"])
@every_problem
def test_storage_changes_no_optimum(make, form):
    best, plain = exact(make(in_form(form), l2=0.1)), exact(make(in_form("float64"), l2=0.1))
    assert best.value == pytest.approx(plain.value, rel=1e-9)


def test_memory_maps_are_not_copied(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert np.shares_memory(partial_auc(mapped, Y, min_tpr=0.5).inner.rows.X, mapped)


@pytest.mark.slow
@every_problem
def test_samples_find_the_optimum(make):
    problem = make(l2=0.2)
    best = exact(problem).value
    solver = ALEXR(0.02, 0.02) if isinstance(problem.outer, fn.CVaRRisk) else ALEXR(1e-3, 1.0)
    result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=40_000), rng=0)
    assert -1e-8 < result.value / best - 1.0 < 0.02
    assert xrisk.certify(problem, result).gap >= result.value - best


@every_problem
def test_auto_certifies(make):
    found = xrisk.minimize(make(l2=0.01), Auto(tol=1e-6), budget=xrisk.Budget(iterations=1000))
    assert found.stop is xrisk.Stop.CONVERGED
    assert found.certificate.relative <= 1e-6


def test_a_pass_takes_time_for_every_pair():
    problems = [partial_auc(np.tile(X, (t, 1)), np.tile(Y, t), min_tpr=0.5) for t in (1, 10)]
    one, many = (pass_seconds(Auto(read_rate=np.inf), problem) for problem in problems)
    assert many == pytest.approx(100 * one, rel=1e-12)


@pytest.mark.slow
def test_pairs_are_never_stored():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((5000, 5)), np.where(np.arange(5000) % 2, 1, -1)
    problem = partial_auc(X, y, min_tpr=0.5, l2=0.1)
    exact(problem, max_steps=1)
    tracemalloc.start()
    best = exact(problem, max_steps=2)
    xrisk.certify(problem, best)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 8 * 2500**2


@pytest.mark.parametrize(
    ("build", "error", "sentence"),
    [
        (lambda: partial_auc(X, Y, min_tpr=1.0), ValueError, r"min_tpr must lie in \[0, 1\), got 1.0"),
        (lambda: partial_auc(X, Y, min_tpr=0.999), ValueError, "min_tpr must be at most .* none would be left to rank"),
        (lambda: partial_auc(X, Y, min_tpr="half"), TypeError, "min_tpr must be a number, got 'half'"),
        (lambda: partial_auc(X, Y, min_tpr=np.nan), ValueError, r"min_tpr must lie in \[0, 1\), got nan"),
        (lambda: partial_auc(X, Y > 0, min_tpr=0.5), ValueError, "y must hold −1 and 1, got"),
        (lambda: partial_auc(X, np.ones(60), min_tpr=0.5), ValueError, "y must hold both −1 and 1, got 1 alone"),
        (lambda: partial_auc(X, Y[1:], min_tpr=0.5), ValueError, "y must have one entry for each of the 60 rows"),
        (lambda: partial_auc(X * np.nan, Y, min_tpr=0.5), ValueError, "X must be finite"),
        (lambda: partial_auc(X, Y, min_tpr=0.5, loss="multinomial"), ValueError, "loss must be one of logistic, hinge"),
        (lambda: partial_auc(X, Y, min_tpr=0.5, l2=-1), ValueError, "l2 must be finite and not negative, got -1"),
        (lambda: p_norm_push(X, Y, p=0.5), ValueError, r"p must be finite and at least 1, got 0\.5"),
        (
            lambda: p_norm_push(X, Y, outer="both"),
            ValueError,
            "outer must be one of negatives, positives .* got 'both'",
        ),
        (
            lambda: precision_at_k(X, Y, k=0),
            ValueError,
            "k must be a whole number from 1 to the number of rows, 60, got 0",
        ),
        (lambda: precision_at_k(X, Y, k=2.5), ValueError, r"k must be a whole number .*, got 2\.5"),
        (lambda: precision_at_k(X, Y, k=np.nan), ValueError, "k must be a whole number .*, got nan"),
        (lambda: top_push(X, Y, loss=fn.Squared()), ValueError, r"loss must not increase .*, got Squared\(\)"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(build, error, sentence):
    with pytest.raises(error, match=sentence):
        build()
