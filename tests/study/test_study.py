"""Three models on one table, trained alike and judged by one rule."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import xrisk
from xrisk.datasets import make_spurious
from xrisk.metrics import METRICS, group_report
from xrisk.objectives import WorstGroups
from xrisk.study import SCORES, compare
from xrisk.study.scores import judge, score_for
from xrisk.study.verdict import decide
from xrisk.tables import parts
from xrisk.tables.rows import Part


@pytest.fixture(scope="module")
def rows():
    table = make_spurious(600, random_state=0)
    return parts(table.X, table.y, table.groups)


@pytest.fixture(scope="module")
def study(rows):
    return compare(WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0)), *rows)


@pytest.fixture(scope="module")
def all_groups(rows):
    return compare(WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, l2=1e-2, random_state=0), min_group_size=1), *rows)


def test_the_plain_model_is_logistic_regression(study, rows):
    train, _ = rows
    known = LogisticRegression(C=1.0 / (1e-2 * train.y.size), tol=1e-8).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[0].model.coef_, known.coef_, atol=0.02)


def test_the_reweighted_model_is_logistic_regression_with_the_groups_weighted_alike(study, rows):
    train, _ = rows
    _, codes, counts = np.unique(train.groups, return_inverse=True, return_counts=True)
    weight = 1.0 / counts[codes]
    known = LogisticRegression(C=1.0 / (1e-2 * weight.sum()), tol=1e-8).fit(train.X, train.y, sample_weight=weight)
    np.testing.assert_allclose(study.arms[1].model.coef_, known.coef_, atol=0.05)


def test_the_worst_group_fares_better_under_the_robust_model(all_groups):
    assert all_groups.requested.test.worst.score > all_groups.arms[0].test.worst.score + 0.1


def test_the_bounds_enclose_the_certified_optimum(study):
    proof = study.requested.model.certificate_
    assert all(point.bound <= proof.primal and point.value >= proof.dual for point in study.details)
    assert np.all(np.diff([point.seconds for point in study.details]) >= 0)


def test_of_several_strengths_each_model_gets_the_best_on_its_worst_group():
    table = make_spurious(600, random_state=0)
    train, held = parts(table.X, table.y, table.groups, validation=0.5)
    rows = (train, *parts(*held, validation=0.5))
    objective = WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, random_state=0))
    chosen = compare(objective, *rows, l2=(1e-3, 10.0))
    alone = [compare(objective, *rows, l2=(l2,)) for l2 in (1e-3, 10.0)]
    for k in range(3):
        found = [each.arms[k].validation.worst.score for each in alone]
        assert chosen.arms[k].validation.worst.score == max(found)
    assert chosen.judged_on == "test"
    assert chosen.sizes["test_rows"] == rows[2].y.size == chosen.arms[0].test.overall.n


def test_the_rows_that_choose_a_strength_cannot_judge_it(rows):
    with pytest.raises(ValueError, match="test must be given to choose from 2 l2"):
        compare(WorstGroups(xrisk.GroupDROClassifier()), *rows, l2=(1e-3, 1.0))


def judged(*columns, groups, metric="accuracy", min_group_size=30, **options):
    keys, row_scores, score = ("erm", "reweighted", "robust")[: len(columns)], np.column_stack(columns), SCORES[metric]
    return decide(keys, row_scores, np.asarray(groups), score=score, min_group_size=min_group_size, **options)


def test_a_few_rows_decide_nothing():
    right = np.ones(102)
    few = np.where(np.arange(102) < 2, 0.0, right)
    found = judged(few, right, groups=np.repeat(["few", "many"], [2, 100]))
    assert found.recommended == "erm"
    assert found == judged(few[2:], right[2:], groups=np.repeat("many", 100))


def test_without_a_large_group_the_simplest_is_recommended_and_nothing_claimed():
    found = judged(np.zeros(20), np.ones(20), groups=np.zeros(20))
    assert (found.recommended, found.differences) == ("erm", ())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the simple one", "the other"])
def test_whoever_is_surely_better_is_recommended(order):
    half, most = np.arange(200) % 2, np.arange(200) % 10 > 0
    found = judged(*[(half, most)[k] for k in order], groups=np.repeat(["u", "v"], 100))
    assert found.recommended == ("reweighted" if order == (0, 1) else "erm")
    (difference,) = found.differences
    assert difference.low > 0.2 or difference.high < -0.2


def test_models_that_rows_cannot_tell_apart_are_level_and_the_simplest_is_recommended():
    right = (np.arange(100) % 3 > 0).astype(float)
    one_more = right.copy()
    one_more[0] = 1.0
    found = judged(right, one_more, groups=np.zeros(100))
    assert found.recommended == "erm"
    assert found.differences[0].low < 0.0 < found.differences[0].high


def test_a_group_of_one_row_is_never_sure():
    found = judged(np.arange(61) > 0, np.ones(61), groups=np.arange(61) > 0, min_group_size=1)
    assert found.recommended == "erm"


def test_bounds_hold_the_true_difference_about_as_often_as_they_say():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(200):
        first = rng.random(120) < np.repeat([0.6, 0.9], 60)
        second = np.where(rng.random(120) < 0.8, first, rng.random(120) < np.repeat([0.85, 0.9], 60))
        (bound,) = judged(first, second, groups=np.repeat([0, 1], 60)).differences
        hits += bound.low <= 0.05 <= bound.high
    assert hits >= 180


def test_errors_of_a_regression_are_compared_as_roots():
    error = np.random.default_rng(0).standard_normal(4000) ** 2
    (bound,) = judged(-9.0 * error, -error, groups=np.zeros(4000), metric="neg_root_mean_squared_error").differences
    assert bound.low < 2.0 < bound.high


def test_other_errors_are_compared_as_they_are():
    error = np.abs(np.random.default_rng(0).standard_normal(4000))
    (bound,) = judged(-3.0 * error, -error, groups=np.zeros(4000), metric="neg_mean_absolute_error").differences
    assert bound.low < 2.0 * error.mean() < bound.high
    assert bound.low > 1.0


def test_in_a_balanced_accuracy_a_rare_class_counts_as_much_as_a_common_one():
    rare = np.arange(1000) < 100
    options = {"groups": np.zeros(1000), "cells": rare.astype(int)}
    (balanced,) = judged(~rare, np.ones(1000), metric="balanced_accuracy", **options).differences
    assert balanced.low < 0.5 < balanced.high
    assert balanced.low > 0.4


def test_a_class_of_one_row_decides_no_balanced_accuracy():
    rare = np.arange(100) < 1
    found = judged(~rare, np.ones(100), groups=np.zeros(100), cells=rare.astype(int), metric="balanced_accuracy")
    assert found.recommended == "erm"


CLASSIFIER, REGRESSOR = xrisk.GroupDROClassifier(l2=0.1), xrisk.GroupDRORegressor(l2=0.1)
RESPONSES = {"neg_log_loss": "predict_proba"}


@pytest.mark.parametrize("metric", SCORES)
def test_the_scores_of_a_study_are_those_of_the_metrics_of_this_name(rows, metric):
    score, (X, y, groups) = SCORES[metric], rows[0]
    y = y if score.task == "classification" else X[:, 0] + 0.1 * X[:, 1]
    model = (CLASSIFIER if score.task == "classification" else REGRESSOR).fit(X, y, groups=groups)
    found = judge(model, X, y, groups, score=score_for(model, metric), min_group_size=1)
    guess = getattr(model, RESPONSES.get(metric, "predict"))(X)
    known = group_report(y, guess, groups=groups, metric=metric, min_group_size=1)
    sign = 1.0 if score.is_share else -1.0
    assert [row.name for row in found] == [row.name for row in known]
    np.testing.assert_allclose([row.score for row in found], [sign * row.score for row in known])
    assert found.overall.score_low <= found.overall.score <= found.overall.score_high
    assert (found.metric, metric in METRICS) == (score.name, True)


def test_a_class_that_the_model_does_not_know_has_a_finite_log_loss(rows):
    X, y, groups = rows[0]
    model = CLASSIFIER.fit(X, y, groups=groups)
    found = judge(model, X, np.full(y.size, 7), groups, score=SCORES["neg_log_loss"])
    assert found.overall.score == pytest.approx(-np.log(np.finfo(float).eps))


@pytest.mark.parametrize(
    ("model", "metric", "said"),
    [
        (CLASSIFIER, "acuracy", "metric must be one of accuracy, balanced_accuracy, neg_log_loss .* got 'acuracy'"),
        (CLASSIFIER, "neg_mean_squared_error", "for classification, got 'neg_mean_squared_error'"),
        (
            REGRESSOR,
            "accuracy",
            "metric must be one of neg_root_mean_squared_error, .* for regression, got 'accuracy'",
        ),
        (CLASSIFIER, 3, "metric must be one of .* got 3"),
        (
            xrisk.GroupDROClassifier(loss="hinge"),
            "neg_log_loss",
            "metric must be one without probabilities for loss='hinge', got 'neg_log_loss'",
        ),
    ],
)
def test_a_metric_that_does_not_fit_is_refused_in_a_sentence(rows, model, metric, said):
    with pytest.raises(ValueError, match=said):
        compare(WorstGroups(model, metric), *rows)


@pytest.mark.slow
def test_the_metric_of_a_study_chooses_and_judges():
    table = make_spurious(600, random_state=0)
    train, held = parts(table.X, table.y, table.groups, validation=0.5)
    rows = (train, *parts(*held, validation=0.5))
    objective = WorstGroups(xrisk.GroupDROClassifier(alpha=0.5, random_state=0), "neg_log_loss")
    found = compare(objective, *rows, l2=(1e-3, 10.0))
    assert found.objective.metric == "log loss"
    assert found.settings["metric"] == "neg_log_loss"
    alone = [compare(objective, *rows, l2=(l2,)).arms[0].validation.worst for l2 in (1e-3, 10.0)]
    assert found.arms[0].validation.worst.score == min(row.score for row in alone)


def test_the_verdict_of_a_study_is_on_its_large_groups(study):
    told, report = study.to_dict()["verdict"], study.arms[0].test
    assert (told["groups"], told["small"]) == (len(report.large), len(report.small)) == (2, 2)
    assert study.recommended.key == study.verdict.recommended
    assert report.worst.n >= study.objective.min_group_size == 30


@pytest.mark.parametrize(("signal", "told"), [(0.0, True), (3.0, False)])
def test_a_model_hardly_better_than_a_constant_one_is_told(signal, told):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((400, 3)), np.repeat(["a", "b"], 200)
    y = np.where(signal * X[:, 0] + rng.logistic(size=400) > 0, "yes", "no")
    part = Part(X, y, groups)
    found = compare(WorstGroups(xrisk.GroupDROClassifier("max")), part, part)
    assert any("hardly better than a constant one" in note for note in found.notes) == told
    assert bool(found.constant) == found.to_dict()["is_nearly_constant"] == told


def test_what_a_fit_warns_of_is_told_of_the_training_rows(rows):
    train, validation = rows
    groups = np.where(np.arange(train.y.size) < 3, "few", train.groups)
    objective = WorstGroups(xrisk.GroupDROClassifier(l2=0.1))
    notes = compare(objective, train._replace(groups=groups), validation).notes
    assert any(note.startswith("Among the training rows 1 of 5 groups has fewer than 10 rows") for note in notes)
