"""Three scores on one table, judged by their partial AUC."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import xrisk
from xrisk.metrics import partial_auc_difference, partial_auc_interval, partial_auc_score
from xrisk.objectives import RarePositives
from xrisk.objectives.rankings import judge_ranking
from xrisk.objectives.rare_positives import few_rows
from xrisk.study import compare
from xrisk.study.comparison import fit_plan
from xrisk.study.verdict import Difference, simplest
from xrisk.tables import RankedClasses, parts

HALF = RankedClasses("no", "yes", 0.5, 0.5)


def rare(n=600, share=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    score = X[:, 0] + X[:, 1] + rng.standard_normal(n)
    return X, score > np.quantile(score, 1.0 - share)


def quick(**options):
    return xrisk.TwoWayPartialAUCClassifier(anchor=0.1, start="logistic", random_state=0, **options)


@pytest.fixture(scope="module")
def rows():
    X, y = rare()
    return parts(X, y, y)


@pytest.fixture(scope="module")
def study(rows):
    return compare(RarePositives(quick()), *rows)


@pytest.mark.slow
def test_the_plain_model_is_logistic_regression(study, rows):
    train, _ = rows
    known = LogisticRegression(C=1.0 / (1e-3 * train.y.size), tol=1e-8).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[0].model.coef_, known.coef_, atol=0.05)


def test_the_balanced_model_is_logistic_regression_of_classes_weighted_alike(study, rows):
    train, _ = rows
    known = LogisticRegression(C=1.0 / (1e-3 * train.y.size), class_weight="balanced", tol=1e-8).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[1].model.coef_, known.coef_, atol=0.1)


@pytest.mark.parametrize("k", range(3))
def test_every_model_is_judged_by_the_metrics_of_the_same_rows(study, rows, k):
    arm, (_, validation) = study.arms[k], rows
    scores = arm.model.decision_function(validation.X)
    region = {"min_tpr": 0.5, "max_fpr": 0.5}
    assert arm.test.score == partial_auc_score(validation.y, scores, **region) == arm.validation
    assert (arm.test.low, arm.test.high) == partial_auc_interval(validation.y, scores, **region, random_state=0)
    assert arm.test.auc == roc_auc_score(validation.y, scores)
    assert arm.test.curve.score == pytest.approx(arm.test.score)


def test_differences_are_paired(study, rows):
    _, validation = rows
    plain, _, ours = (arm.model.decision_function(validation.X) for arm in study.arms)
    known = partial_auc_difference(validation.y, ours, plain, min_tpr=0.5, max_fpr=0.5, random_state=0)
    found = next(each for each in study.verdict.differences if (each.key, each.other) == ("ranking", "logistic"))
    assert (found.low, found.high) == (known.low, known.high)


def test_a_threshold_within_the_budget_catches_what_is_said():
    positive = np.array([True] * 10 + [False] * 10)
    scores = np.concatenate([np.arange(10.0) + 5.5, np.arange(10.0)])
    found = judge_ranking(positive, scores, RankedClasses("no", "yes", 0.9, 0.2))
    assert found.caught == np.mean(scores[:10] > 7.0)
    assert found.alarms == np.mean(scores[10:] > 6.0)


def test_the_simplest_that_no_other_is_sure_to_beat_is_recommended():
    keys = ("logistic", "balanced", "ranking")
    sure = Difference("ranking", "logistic", 0.01, 0.2)
    assert simplest(keys, (sure,), [0.4, 0.3, 0.5]) == "balanced"
    assert simplest(keys, (sure._replace(low=-0.01),), [0.4, 0.3, 0.5]) == "logistic"
    ring = (sure, Difference("balanced", "logistic", 0.1, 0.2), Difference("ranking", "balanced", 0.1, 0.2))
    assert simplest(keys, ring, [0.4, 0.3, 0.5]) == "ranking"


def test_a_few_positives_are_warned_of(study):
    assert "of 15 validation rows of class 'True' about 8 lie in the region, fewer than 10" in study.caution
    score = study.requested.test._replace(positives=20)
    assert few_rows(score, HALF, "validation") == ""
    assert "class 'no' about 1 lie" in few_rows(score, HALF._replace(max_fpr=0.001), "validation")


def test_too_few_positives_are_refused_before_a_fit(rows):
    train, validation = rows
    four = np.flatnonzero(validation.y)[:4]
    kept = np.concatenate([four, np.flatnonzero(~validation.y)])
    small = type(validation)(*(part[kept] for part in validation))
    with pytest.raises(ValueError, match="must hold at least 5 of class 'True', they hold 4"):
        compare(RarePositives(quick()), train, small)


@pytest.mark.slow
def test_of_several_strengths_each_logistic_model_gets_its_best(rows):
    train, held = rows
    last = parts(held.X, held.y, held.y, validation=0.5)
    study = compare(RarePositives(quick()), train, *last, l2=(1e-3, 10.0))
    alone = [compare(RarePositives(quick()), train, *last, l2=(each,)) for each in (1e-3, 10.0)]
    for k in range(2):
        assert study.arms[k].validation == max(each.arms[k].validation for each in alone)
    assert (study.judged_on, study.requested.l2) == ("test", None)


def test_the_rows_that_choose_a_strength_cannot_judge_it(rows):
    with pytest.raises(ValueError, match="test must be given to choose from 2 l2"):
        compare(RarePositives(quick()), *rows, l2=(1e-3, 1.0))


def test_a_bounded_surrogate_has_no_certificate_in_json(study):
    told = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert told["certificate"] is None
    assert not told["certified"]
    assert study.is_done
    assert told["start"]["model"] == "logistic"


def test_a_convex_surrogate_has_one(rows):
    study = compare(RarePositives(xrisk.PartialAUCClassifier(0.5, surrogate="convex", random_state=0)), *rows)
    told = json.loads(json.dumps(study.to_dict(), allow_nan=False))
    assert told["certified"]
    assert told["certificate"]["relative"] <= 1e-2
    assert study.objective.ranked.max_fpr == 1.0


@pytest.mark.slow
def test_a_collapsed_surrogate_is_told_in_the_notes():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), np.arange(400) % 8 == 0
    model = xrisk.PartialAUCClassifier(0.5, surrogate="convex", l2=1e-2)
    study = compare(RarePositives(model), *parts(X, y, y))
    assert any(note.startswith("Ranking: the optimum of the convex surrogate is") for note in study.notes)


@pytest.mark.parametrize(("surrogate", "error"), [("convex", ValueError), ("sigmoid", TypeError)])
def test_another_surrogate_is_named_only_where_it_helps(rows, surrogate, error):
    class Unknown:
        def fit(self, X, y, **options):
            raise TypeError("this problem is not known")

    said = {
        "convex": "^--surrogate convex cannot be used here: this problem is not known; sigmoid can$",
        "sigmoid": "^this problem is not known$",
    }[surrogate]
    with pytest.raises(error, match=said):
        fit_plan(RarePositives(quick(surrogate=surrogate)).plans(rows[0])["ranking"], Unknown(), rows[0])


def test_json_has_every_number_of_a_ranking(study):
    told = study.to_dict()
    assert set(told) == {
        *("title", "description", "task", "metric", "rule", "asked", "recommended", "verdict", "caution", "judged_on"),
        *("data", "models", "certificate", "certified", "stop", "start", "anchor", "settings", "notes", "versions"),
        "seed",
    }
    assert (told["task"], told["metric"]) == ("ranking", "partial AUC")
    for model in told["models"]:
        about = {"key", "name", "minimises", "l2", "seconds", "finished"}
        assert set(model) == {*about, "train", "validation", "test"}
        assert set(model["test"]) == {*("score", "low", "high", "auc", "caught", "alarms", "positives", "negatives")}
