"""Logistic regression on perturbed rows: the model it should be, and what cannot be."""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import xrisk
from tests.conftest import table
from xrisk import RobustLogisticRegression
from xrisk.inner import Dropout, Gaussian
from xrisk.solvers import ALEXR

X, Y, _ = table()


def masked(row, rng):
    return row * (rng.random(row.size) < (0.2, 1.0, 1.0, 1.0))


def robust(*args, **options):
    return RobustLogisticRegression(*args, **{"l2": 0.01, **options})


@pytest.mark.parametrize("perturbation", ["gaussian", "dropout"])
def test_a_perturbation_of_mean_zero_gives_logistic_regression(perturbation):
    plain = LogisticRegression(C=1 / (0.01 * len(Y)), tol=1e-10, max_iter=1000).fit(X, Y)
    model = robust(perturbation, scale=0.3, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)


def test_a_function_gives_the_model_of_the_mean_of_its_copies():
    seen = []

    def noted(row, rng):
        seen.append(masked(row, rng))
        return seen[-1]

    model = robust(noted, copies=4, l1=0.01, tol=1e-9, random_state=5).fit(X, Y)
    rows = np.array(seen).reshape(len(Y), 4, X.shape[1]).mean(axis=1)
    w, b = cp.Variable(4), cp.Variable()
    loss = cp.sum(cp.logistic(-cp.multiply(Y, rows @ w + b))) / len(Y)
    cp.Problem(cp.Minimize(loss + 0.01 * cp.norm1(w) + 0.005 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=2e-4)
    np.testing.assert_allclose(model.intercept_, b.value, atol=2e-4)


def test_a_column_that_is_mostly_lost_is_trusted_less():
    plain, lossy = robust().fit(X, Y), robust(masked, copies=50, random_state=0).fit(X, Y)
    shares = [abs(model.coef_[0, 0] / model.coef_[0, 1]) for model in (lossy, plain)]
    rng = np.random.default_rng(1)
    seen = np.mean([[masked(row, rng) for row in X] for _ in range(50)], axis=0)
    losses = [np.logaddexp(0.0, -Y * model.decision_function(seen)).mean() for model in (lossy, plain)]
    assert shares[0] != pytest.approx(shares[1], rel=0.01)
    assert losses[0] < losses[1]


@pytest.mark.slow
def test_a_sampled_solver_comes_to_the_same_model():
    sampled = robust("gaussian", scale=0.5, l2=0.1, solver=ALEXR(0.05, 0.1), max_iter=20_000, tol=0.1, random_state=0)
    exact = robust(l2=0.1, tol=1e-8).fit(X, Y)
    assert sampled.fit(X, Y).objective_ - exact.objective_ <= 2e-3


@pytest.mark.parametrize(("word", "spec"), [("gaussian", Gaussian(0.3)), ("dropout", Dropout(0.3))])
def test_specs_do_what_their_names_do(word, spec, plain):
    options = {"scale": 0.3, "solver": ALEXR(), "max_iter": 50, "tol": 10.0, "random_state": 0}
    named, given = robust(word, **options).fit(X, Y), robust(spec, **options).fit(X, Y)
    np.testing.assert_array_equal(named.coef_, given.coef_)


def test_copies_follow_the_seed():
    first, second, other = (robust(masked, random_state=seed).fit(X, Y).coef_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 0


def test_a_function_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="perturbation cannot be saved"):
        xrisk.save(robust(masked).fit(X, Y), tmp_path / "model.xrisk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "y", "error", "sentence"),
    [
        ({}, np.arange(240) % 3, ValueError, "y must hold two classes, got 3"),
        ({}, np.zeros(240), ValueError, "y must hold at least two classes of positive weight, got one class"),
        (
            {"perturbation": "blur"},
            Y,
            ValueError,
            "perturbation must be one of gaussian, dropout",
        ),
        ({"perturbation": 3}, Y, TypeError, "perturbation must be a word, a perturbation spec or a function, got 3"),
        ({"scale": -1.0}, Y, ValueError, r"scale must be at least 0 and below inf for 'gaussian', got -1\.0"),
        (
            {"perturbation": "dropout", "scale": 1.0},
            Y,
            ValueError,
            r"scale must be .* below 1\.0 for 'dropout'",
        ),
        ({"scale": "much"}, Y, TypeError, "scale must be a number, got 'much'"),
        ({"perturbation": masked, "copies": 0}, Y, ValueError, "copies must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, y, error, sentence):
    with pytest.raises(error, match=sentence):
        robust(**options).fit(X, y)


@pytest.mark.parametrize("copies", ["a", 0, 2.5, None])
def test_copies_of_the_wrong_kind_are_refused_also_where_none_are_drawn(copies):
    with pytest.raises(ValueError, match="copies must be"):
        RobustLogisticRegression(copies=copies).fit(np.eye(4), [0, 1, 0, 1])
