"""Rankings: what is pushed, and where predictions are cut."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import GridSearchCV

from tests.conftest import table
from xrisk import PNormPushClassifier, PrecisionAtKClassifier, TopPushClassifier
from xrisk.applications import p_norm_push, precision_at_k, top_push
from xrisk.estimators.ranking import balanced_threshold
from xrisk.functions import ExponentialLoss
from xrisk.problem import inner_values
from xrisk.solvers import exact

X, Y, _ = table()
Y = np.where(np.arange(len(Y)) % 3 == 0, Y, -1)  # fewer positives
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
    problem = top_push(X, Y, loss="logistic", l2=0.02)
    model = TopPushClassifier(loss="logistic", l2=0.02, tol=1e-9).fit(X, Y)
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


@every_model
def test_predictions_are_cut_where_both_error_rates_are_least(model):
    model.fit(X, Y)
    scores = model.decision_function(X)
    best = max(balanced_accuracy_score(Y, np.where(scores > cut, 1, -1)) for cut in scores)
    assert balanced_accuracy_score(Y, model.predict(X)) == pytest.approx(best)


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
    plain = model.fit(X, Y).decision_function(X)
    swapped = model.fit(X, np.where(Y > 0, "a", "b")).decision_function(X)
    assert np.corrcoef(plain, swapped)[0, 1] < 0


@every_model
def test_three_classes_are_refused(model):
    with pytest.raises(ValueError, match=r"y must hold two classes, got 3. Only binary classification is supported"):
        model.fit(X, np.arange(len(Y)) % 3)


@every_model
def test_a_search_judges_the_order(model):
    search = GridSearchCV(model, {"l2": [0.01, 1.0]}, scoring="average_precision", cv=2, error_score="raise")
    assert search.fit(X, Y).best_score_ > (Y > 0).mean()


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
