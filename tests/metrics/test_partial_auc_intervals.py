"""Intervals of partial AUC against rows drawn anew, differences, and scorers inside scikit-learn's searches."""

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB

from xrisk.metrics import partial_auc_difference, partial_auc_interval, partial_auc_score, partial_auc_scorer


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.3).astype(int)
    return y, np.round(y + rng.standard_normal(300), 1)


@pytest.mark.parametrize("method", ["area", "counts"])
def test_an_interval_is_that_of_rows_drawn_anew(table, method):
    y, score = table
    region = {"min_tpr": 0.3, "max_fpr": 0.4, "method": method}
    rng, again = np.random.default_rng(3), []
    pos, neg = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    for _ in range(50):
        rows = np.concatenate([some[rng.integers(0, len(some), len(some))] for some in (pos, neg)])
        again.append(partial_auc_score(y[rows], score[rows], **region))
    low, high = partial_auc_interval(y, score, **region, n_resamples=50, random_state=3, confidence=0.8)
    np.testing.assert_allclose([low, high], np.quantile(again, [0.1, 0.9]), atol=1e-12)


def test_weights_come_along_with_the_rows_that_are_drawn(table):
    y, score = table
    rng, again, weight = np.random.default_rng(3), [], np.random.default_rng(0).integers(0, 3, 300)
    pos, neg = np.flatnonzero((y == 1) & (weight > 0)), np.flatnonzero((y == 0) & (weight > 0))
    for _ in range(30):
        rows = np.concatenate([some[rng.integers(0, len(some), len(some))] for some in (pos, neg)])
        again.append(partial_auc_score(y[rows], score[rows], max_fpr=0.4, sample_weight=weight[rows]))
    found = partial_auc_interval(y, score, max_fpr=0.4, n_resamples=30, random_state=3, sample_weight=weight)
    np.testing.assert_allclose(found, np.quantile(again, [0.025, 0.975]), atol=1e-12)


def test_the_same_seed_gives_the_same_interval(table):
    seeds = [0, np.random.default_rng(0), 1]
    first, same, other = (partial_auc_interval(*table, max_fpr=0.3, n_resamples=40, random_state=s) for s in seeds)
    assert first == same != other


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say():
    rng, truth = np.random.default_rng(0), 0.760250  # Φ(1/√2), the AUC of two normals one apart
    hits = 0
    for seed in range(200):
        y = np.arange(300) % 3 == 0
        low, high = partial_auc_interval(y, y + rng.standard_normal(300), n_resamples=100, random_state=seed)
        hits += low <= truth <= high
    assert 0.88 <= hits / 200 <= 0.99


def test_a_difference_shares_its_resamples(table):
    y, score = table
    found = partial_auc_difference(y, score, 2 * score + 1, min_tpr=0.2, max_fpr=0.5, n_resamples=20, random_state=0)
    assert found == (0.0, 0.0, 0.0)


def test_a_difference_is_that_of_the_scores(table):
    y, score = table
    worse = score + 3.0 * np.random.default_rng(1).standard_normal(300)
    found = partial_auc_difference(y, score, worse, max_fpr=0.5, n_resamples=100, random_state=0)
    ours, theirs = (partial_auc_score(y, some, max_fpr=0.5) for some in (score, worse))
    assert found.difference == pytest.approx(ours - theirs, abs=1e-13)
    assert 0.0 < found.low < found.difference < found.high
    back = partial_auc_difference(y, worse, score, max_fpr=0.5, n_resamples=100, random_state=0)
    np.testing.assert_allclose([back.low, back.high], [-found.high, -found.low], atol=1e-13)


WRONG_RESAMPLING = {
    "confidence must be between 0 and 1, got 95": dict(confidence=95),
    "n_resamples must be a number of resamples, at least 1, got 0": dict(n_resamples=0),
    "at least two rows of each class": dict(y_true=[0, 0, 0, 1]),
    "other_score must hold no NaN": dict(other_score=[1, 2, np.nan, 3]),
    "y_true and other_score must be of one length": dict(other_score=[1, 2, 3]),
}


@pytest.mark.parametrize("message", WRONG_RESAMPLING)
def test_what_is_wrong_with_resampling_is_said_in_a_sentence(message):
    rows = {"y_true": [0, 1, 0, 1], "y_score": [1, 2, 3, 4], "other_score": [1, 2, 3, 4]}
    with pytest.raises(ValueError, match=message):
        partial_auc_difference(**(rows | WRONG_RESAMPLING[message]))


@pytest.fixture
def patients():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.3).astype(int)
    return y[:, None] + rng.standard_normal((300, 2)), y


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianNB()], ids=["decision_function", "predict_proba"])
def test_a_scorer_scores_what_the_model_answers(patients, model):
    X, y = patients
    model.fit(X, y)
    score = model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]
    scorer = partial_auc_scorer(min_tpr=0.3, max_fpr=0.4)
    assert scorer(model, X, y) == partial_auc_score(y, score, min_tpr=0.3, max_fpr=0.4)


@pytest.mark.parametrize("positive", ["sick", "healthy"])
def test_a_scorer_knows_which_label_is_positive(patients, positive):
    X, y = patients
    names = np.where(y == 1, "sick", "healthy")
    model = LogisticRegression().fit(X, names)
    scorer = partial_auc_scorer(max_fpr=0.4, pos_label=positive)
    score = model.predict_proba(X)[:, list(model.classes_).index(positive)]
    assert scorer(model, X, names) == pytest.approx(partial_auc_score(names == positive, score, max_fpr=0.4), abs=1e-12)


def test_a_scorer_serves_in_searches(patients):
    scorer = partial_auc_scorer(min_tpr=0.3, max_fpr=0.4)
    search = GridSearchCV(LogisticRegression(), {"C": [1e-3, 1.0]}, scoring=scorer, cv=3).fit(*patients)
    folds = cross_val_score(search.best_estimator_, *patients, scoring=scorer, cv=3)
    assert search.best_score_ == pytest.approx(folds.mean())


def test_a_scorer_asks_for_weights_by_metadata_routing(patients):
    weight = np.random.default_rng(0).integers(0, 3, 300)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = partial_auc_scorer(max_fpr=0.4).set_score_request(sample_weight=True)
        model = LogisticRegression().set_fit_request(sample_weight=False)
        options = {"scoring": scorer, "cv": 3, "params": {"sample_weight": weight}, "return_estimator": True}
        found = cross_validate(model, *patients, **options, return_indices=True)
    rows, fitted = found["indices"]["test"][0], found["estimator"][0]
    score = fitted.decision_function(patients[0][rows])
    expected = partial_auc_score(patients[1][rows], score, max_fpr=0.4, sample_weight=weight[rows])
    assert found["test_score"][0] == pytest.approx(expected)


def test_a_scorer_refuses_at_once_what_no_score_takes():
    with pytest.raises(ValueError, match="min_tpr must be in"):
        partial_auc_scorer(min_tpr=2.0)
