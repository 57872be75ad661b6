"""Rankings: what is pushed, and where predictions are cut."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import GridSearchCV

from tests.conftest import table
from xrisk import (
    PartialAUCClassifier,
    PNormPushClassifier,
    PrecisionAtKClassifier,
    TopPushClassifier,
    TwoWayPartialAUCClassifier,
)
from xrisk.applications import p_norm_push, precision_at_k, top_push
from xrisk.estimators.ranking import balanced_threshold
from xrisk.functions import ExponentialLoss
from xrisk.problem import inner_values
from xrisk.solvers import exact

X, Y, _ = table()
Y = np.where(np.arange(len(Y)) % 3 == 0, Y, -1)  # fewer positives
CLEAR = np.where(X[:, 0] + X[:, 1] > 1.5, 1, -1)  # a line tells them apart
MODELS = [PNormPushClassifier(l2=0.01), PrecisionAtKClassifier(l2=0.1), TopPushClassifier(l2=0.01)]
every_model = pytest.mark.parametrize("model", MODELS, ids=["push", "at k", "top push"])


def test_the_push_is_the_optimum_of_its_problem():
    problem = p_norm_push(X, Y, p=3, outer="positives", loss="logistic", l1=0.01, l2=0.02)
    model = PNormPushClassifier(3, outer="positives", loss="logistic", l1=0.01, l2=0.02, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.coef_[0], exact(problem).w, atol=1e-5)
    assert model.objective_ == pytest.approx(problem.value(model.coef_[0]))


def test_precision_at_k_is_the_optimum_of_its_problem():
    problem = precision_at_k(X, Y, k=7, loss="squared_hinge", l2=0.1)
    model = PrecisionAtKClassifier(7, loss="squared_hinge", l2=0.1, tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.coef_[0], exact(problem).w, atol=1e-5)
    assert model.objective_ == pytest.approx(problem.value(model.coef_[0]))


def test_top_push_is_the_optimum_of_its_problem():
    problem = top_push(X, CLEAR, loss="logistic", l2=0.02)
    model = TopPushClassifier(loss="logistic", l2=0.02, tol=1e-9).fit(X, CLEAR)
    np.testing.assert_allclose(model.coef_[0], exact(problem).w, atol=1e-5)
    assert model.objective_ == pytest.approx(problem.value(model.coef_[0]))


def test_a_higher_power_pushes_the_highest_negative_further_down():
    highest = []
    for p in (1, 4, 16):
        model = PNormPushClassifier(p, l2=1e-4, tol=1e-6).fit(X, Y)
        highest.append(inner_values(p_norm_push(X, Y), model.coef_[0]).max())
    assert highest[2] < highest[1] < highest[0]


def test_specs_do_what_their_names_do():
    named, given = (
        PNormPushClassifier(loss="exponential").fit(X, Y),
        PNormPushClassifier(loss=ExponentialLoss()).fit(X, Y),
    )
    np.testing.assert_array_equal(named.coef_, given.coef_)


@pytest.mark.slow
@every_model
def test_predictions_are_cut_where_both_error_rates_are_least(model):
    model.fit(X, CLEAR)
    scores = model.decision_function(X)
    best = max(balanced_accuracy_score(CLEAR, np.where(scores > cut, 1, -1)) for cut in scores)
    assert balanced_accuracy_score(CLEAR, model.predict(X)) == pytest.approx(best)


@pytest.mark.parametrize(
    ("scores", "target", "cut"),
    [
        ([0.0, 1.0, 2.0, 5.0], [-1, -1, 1, 1], 1.5),
        ([0.0, 1.0, 2.0, 5.0], [-1, 1, -1, 1], 3.5),  # as good as 0.5, in a wider gap
        ([3.0, 3.0, 3.0], [-1, 1, -1], 3.0),
        ([2.0, 1.0, 1.0], [1, 1, -1], 1.5),
    ],
)
def test_thresholds_stand_in_gaps(scores, target, cut):
    assert balanced_threshold(np.array(scores), np.array(target)) == cut


@every_model
def test_a_ranking_has_no_probabilities(model):
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "predict_log_proba")


@every_model
def test_the_second_class_belongs_on_top(model):
    plain = model.fit(X, CLEAR).decision_function(X)
    swapped = model.fit(X, np.where(CLEAR > 0, "a", "b")).decision_function(X)
    assert np.corrcoef(plain, swapped)[0, 1] < 0


@every_model
def test_three_classes_are_refused(model):
    with pytest.raises(ValueError, match=r"y must hold two classes, got 3. Only binary classification is supported"):
        model.fit(X, np.arange(len(Y)) % 3)


@every_model
def test_a_search_judges_the_order(model):
    search = GridSearchCV(model, {"l2": [0.01, 1.0]}, scoring="average_precision", cv=2, error_score="raise")
    assert search.fit(X, CLEAR).best_score_ > (CLEAR > 0).mean()


def test_a_ranking_that_is_best_constant_is_told():
    with pytest.warns(UserWarning, match="the optimum is a score of zero: no linear model ranks the positives"):
        model = TopPushClassifier(l2=0.01).fit(X, Y)
    assert not model.coef_.any()
    assert model.objective_ == top_push(X, Y, l2=0.01).value(np.zeros(X.shape[1]))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (PNormPushClassifier(0.5), r"p must be finite and at least 1, got 0\.5"),
        (PNormPushClassifier(outer="rows"), "outer must be one of negatives, positives or a spec, got 'rows'"),
        (PNormPushClassifier(loss="squared"), "loss must be one of logistic, .* got 'squared'"),
        (PrecisionAtKClassifier(0), "k must be a whole number from 1 to the number of rows, 240, got 0"),
        (PrecisionAtKClassifier(241), "k must be a whole number from 1 to the number of rows, 240, got 241"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(model, sentence):
    with pytest.raises(ValueError, match=sentence):
        model.fit(X, Y)


def raw(offset, spread, dtype=np.float64, n=300):
    """A table of three columns of one size and one as it comes: seconds since 1970, numbers of orders."""
    rng = np.random.default_rng(1)
    columns = rng.standard_normal((n, 4))
    y = columns[:, 0] + columns[:, 1] + 0.5 * rng.standard_normal(n) > 1.0
    columns[:, 0] = offset + spread * columns[:, 0]
    return columns.astype(dtype), y


CERTIFIED = {
    "push": PNormPushClassifier(),
    "at k": PrecisionAtKClassifier(),
    "top push": TopPushClassifier(),
    "partial": PartialAUCClassifier(0.5, surrogate="convex", tol=1e-3),
    "two-way": TwoWayPartialAUCClassifier(0.5, 0.3, surrogate="hinge", tol=1e-3),
    "two-way logistic": TwoWayPartialAUCClassifier(0.5, 0.3, surrogate="logistic", tol=1e-3),
}
every_certified = pytest.mark.parametrize("model", CERTIFIED.values(), ids=CERTIFIED)
STORAGES = {
    "float64": (np.asarray, np.float64),
    "float32": (np.asarray, np.float32),
    "sparse": (scipy.sparse.csr_array, np.float64),
}


@every_certified
@pytest.mark.parametrize(("stored", "dtype"), STORAGES.values(), ids=STORAGES)
def test_columns_as_they_come_are_certified(model, stored, dtype):
    rows, y = raw(1.6e9, 1e6, dtype)
    model = clone(model).fit(stored(rows), y)
    assert model.certificate_.relative <= 1e-3
    assert roc_auc_score(y, model.decision_function(stored(rows))) > 0.85


@every_certified
@pytest.mark.parametrize("l2", [1e-4, 1e-1])
@pytest.mark.parametrize(("offset", "spread"), [(1e12, 1e6), (1e6, 1e2), (1.6e9, 1e8)])
def test_no_offset_and_no_spread_of_a_column_keeps_the_gap_open(model, offset, spread, l2):
    rows, y = raw(offset, spread)
    l2 *= 300 if model is CERTIFIED["at k"] else 1  # of which the objective is a number of rows
    assert clone(model).set_params(l2=l2).fit(rows, y).certificate_.relative <= 1e-3


@every_certified
@pytest.mark.parametrize("l1", [0.0, 1e-3])
def test_columns_that_no_ridge_holds_are_certified(model, l1):
    rows, y = raw(1e12, 3e11)
    assert clone(model).set_params(l2=1e-4, l1=l1).fit(rows, y).certificate_.relative <= 1e-3


@pytest.mark.parametrize("name", ["push", "two-way"])
def test_digits_that_are_not_there_are_told(name):
    rows, y = raw(1e15, 1e9, np.float32)
    with pytest.warns(UserWarning, match=r"^column 0 of X is about 1e\+15 and varies by .*, of which float32 keeps"):
        clone(CERTIFIED[name]).set_params(tol=0.1).fit(rows, y)


def test_a_constant_column_is_nothing_to_tell():
    rows, y = raw(0.1, 0.0, np.float32)
    clone(CERTIFIED["push"]).fit(rows, y)
