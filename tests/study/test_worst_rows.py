"""Three models on one table, judged by the tail of their losses."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, r2_score

import xrisk
from xrisk.metrics import cvar
from xrisk.metrics.tail import resampled_cvar
from xrisk.objectives import WorstRows
from xrisk.objectives.tails import half_of, judge_tail, row_losses, tail_verdict
from xrisk.objectives.worst_rows import few_rows
from xrisk.study import compare
from xrisk.tables import parts


def noisy(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    return X, X[:, 0] + X[:, 1] + rng.standard_normal(n), np.where(X[:, 2] > 0, "u", "v")


@pytest.fixture(scope="module")
def rows():
    X, z, groups = noisy()
    return parts(X, np.where(z > 0, "yes", "no"), groups)


@pytest.fixture(scope="module")
def study(rows):
    return compare(WorstRows(xrisk.DROClassifier(radius=0.1, random_state=0)), *rows)


@pytest.fixture(scope="module")
def regression():
    X, z, _ = noisy()
    rows = parts(X, z, np.zeros(z.size))
    return rows, compare(WorstRows(xrisk.DRORegressor(radius=0.1, random_state=0)), *rows)


def test_the_plain_model_is_logistic_regression(study, rows):
    train, _ = rows
    known = LogisticRegression(C=1.0 / (1e-3 * train.y.size), tol=1e-8).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[0].model.coef_, known.coef_, atol=0.05)


def test_the_plain_model_of_numbers_is_ridge_regression(regression):
    (train, _), study = regression
    known = Ridge(alpha=1e-3 * train.y.size).fit(train.X, train.y)
    np.testing.assert_allclose(study.arms[0].model.coef_, known.coef_, atol=0.02)


@pytest.mark.parametrize("k", range(3))
def test_every_model_is_judged_by_the_losses_of_the_same_rows(study, rows, k):
    arm, (train, validation) = study.arms[k], rows
    probability = arm.model.predict_proba(validation.X)
    own = -np.log(probability[np.arange(validation.y.size), (validation.y == "yes").astype(int)])
    assert arm.test.tail == pytest.approx(np.sort(own)[::-1][:15].mean(), rel=0.02)  # 150 rows, or 151
    assert arm.test.tail == pytest.approx(cvar(own, 0.1)) == pytest.approx(arm.validation)
    assert arm.test.mean == pytest.approx(log_loss(validation.y, probability))
    assert arm.test.right == accuracy_score(validation.y, arm.model.predict(validation.X))
    assert arm.test.low < arm.test.tail < arm.test.high
    assert arm.train == pytest.approx(cvar(row_losses(arm.model, train.X, train.y), 0.1))
    np.testing.assert_allclose(arm.test.losses, own, atol=1e-12)


def test_numbers_are_judged_by_half_the_squared_error_and_r2(regression):
    (_, validation), study = regression
    arm = study.requested
    found = arm.model.predict(validation.X)
    assert arm.test.mean == pytest.approx(0.5 * np.mean((found - validation.y) ** 2))
    assert arm.test.right == r2_score(validation.y, found)


def with_scores(classes, **options):
    """A model of three features that was never fitted."""
    model, rng = xrisk.DROClassifier(**options), np.random.default_rng(1)
    scores = len(classes) if len(classes) > 2 else 1
    model.classes_, model.n_features_in_ = np.array(classes), 3
    model.coef_, model.intercept_ = rng.standard_normal((scores, 3)), rng.standard_normal(scores)
    return model


def test_losses_of_any_loss_are_those_of_its_formula():
    X, z, _ = noisy(200)
    y = z > 0
    model = with_scores([False, True], loss="squared_hinge")
    margin = np.where(y, 1.0, -1.0) * model.decision_function(X)
    np.testing.assert_allclose(row_losses(model, X, y), np.maximum(1.0 - margin, 0.0) ** 2)


def test_losses_of_several_classes_need_not_hold_all_of_them():
    X, z, _ = noisy(200)
    y, model = np.digitize(z, [-1.0, 1.0]), with_scores([0, 1, 2])
    some = y != 1
    known = -np.log(model.predict_proba(X[some])[np.arange(some.sum()), y[some]])
    np.testing.assert_allclose(row_losses(model, X[some], y[some]), known)


def test_a_bootstrap_of_tails_is_that_of_rows_drawn_one_by_one():
    losses = np.random.default_rng(0).exponential(size=(37, 2))
    found = resampled_cvar(losses, 0.1, n_resamples=20, random_state=3)
    rng = np.random.default_rng(3)
    known = []
    for _ in range(20):
        drawn = losses[rng.integers(0, 37, 37)]
        known.append([cvar(drawn[:, 0], 0.1), cvar(drawn[:, 1], 0.1)])
    np.testing.assert_allclose(found, known)


def test_a_difference_is_the_loss_that_is_saved():
    losses = np.random.default_rng(0).exponential(size=400)
    found = tail_verdict({"a": losses, "b": losses + 0.25})
    (only,) = found.differences
    assert (only.key, only.other, found.recommended) == ("b", "a", "a")
    assert (only.low, only.high) == (pytest.approx(-0.25), pytest.approx(-0.25))


def test_the_tail_of_the_robust_model_is_surely_shorter(study):
    assert study.verdict.recommended == "robust"
    found = next(each for each in study.verdict.differences if (each.key, each.other) == ("robust", "erm"))
    assert 0.0 < found.low < study.arms[0].test.tail - study.requested.test.tail < found.high


def test_the_robust_model_sets_no_row_aside_and_the_last_one_its_share(study, rows):
    train, _ = rows
    assert [arm.model.outliers_.size for arm in study.arms] == [0, 0, int(0.05 * train.y.size)]
    assert study.objective.aside == study.arms[2].model.outlier_fraction == 0.05


def test_what_is_left_out_is_the_worst_share_of_each_model():
    X, z, _ = noisy(200)
    model = xrisk.DRORegressor(radius=0.1).fit(X, z)
    found = judge_tail(model, X, z, aside=0.1)
    losses = np.sort(row_losses(model, X, z))
    assert found.rest == pytest.approx(losses[162:180].mean())


def test_the_worst_group_is_that_of_largest_mean_loss(study, rows):
    _, validation = rows
    losses = row_losses(study.requested.model, validation.X, validation.y)
    means = {name: losses[validation.groups == name].mean() for name in ("u", "v")}
    assert study.requested.test.groups.worst.risk == pytest.approx(max(means.values()))
    assert study.requested.test.groups.worst.name == max(means, key=means.get)


def test_without_groups_none_is_the_worst(regression):
    assert regression[1].requested.test.groups is None


def test_rows_of_one_group_are_told_as_a_group_where_they_are_named():
    X, z, _ = noisy(200)
    model = xrisk.DRORegressor(radius=0.1).fit(X, z)
    found = judge_tail(model, X, z, np.full(z.size, "alone"))
    assert found.groups.worst.name == "alone"
    assert found.groups.worst.risk == pytest.approx(found.mean)
    assert judge_tail(model, X, z).groups is None


def test_wrong_labels_carry_the_weight_and_are_set_aside(rows):
    train, validation = rows
    margin = train.X[:, 0] + train.X[:, 1]
    wrong = np.argsort(-np.abs(margin))[:6]
    y = train.y.copy()
    y[wrong] = np.where(y[wrong] == "yes", "no", "yes")
    numbers = 1000 + np.arange(y.size)
    objective = WorstRows(xrisk.DROClassifier(radius=0.1, random_state=0), row_numbers=numbers)
    study = compare(objective, train._replace(y=y), validation)
    assert {each.row for each in study.details.heavy[:6]} == set((1000 + wrong).tolist())
    assert all(each.is_aside and each.target != each.predicted for each in study.details.heavy[:6])


def test_heavy_rows_tell_weight_loss_and_probability(study, rows):
    train, _ = rows
    first, model = study.details.heavy[0], study.requested.model
    assert first.row == model.sample_weights_.argmax()
    assert first.weight == model.sample_weights_.max()
    assert first.target == train.y[first.row]
    assert first.loss == pytest.approx(-np.log(first.probability))


@pytest.mark.parametrize(
    ("weights", "share"), [([0.25] * 4, 0.5), ([0.7, 0.1, 0.1, 0.1], 0.25), ([0.0, 0.4, 0.3, 0.3], 0.5)]
)
def test_half_of_the_weight_is_carried_by_the_heaviest(weights, share):
    assert half_of(np.array(weights)) == share


def test_a_model_that_is_nearly_constant_is_said_to_be(rows):
    study = compare(WorstRows(xrisk.DROClassifier("cvar", alpha=0.05, random_state=0)), *rows)
    assert study.constant
    assert study.to_dict()["is_nearly_constant"]
    assert any("hardly better than a constant one: under the worst weights of the" in note for note in study.notes)


def test_few_rows_are_warned_of():
    assert "the worst tenth of 60 test rows is about 6, fewer than 10" in few_rows(60, "test")
    assert few_rows(100, "test") == ""


@pytest.mark.slow
def test_of_several_strengths_each_model_gets_its_best(rows):
    train, held = rows
    last = parts(held.X, held.y, held.groups, validation=0.5)
    model = xrisk.DROClassifier(radius=0.1, random_state=0)
    study = compare(WorstRows(model), train, *last, l2=(1e-3, 10.0))
    alone = [compare(WorstRows(model), train, *last, l2=(each,)) for each in (1e-3, 10.0)]
    for k in range(3):
        assert study.arms[k].validation == min(each.arms[k].validation for each in alone)
    assert study.judged_on == "test"


def test_the_rows_that_choose_a_strength_cannot_judge_it(rows):
    with pytest.raises(ValueError, match="test must be given to choose from 2 l2"):
        compare(WorstRows(xrisk.DROClassifier()), *rows, l2=(1e-3, 1.0))


def test_the_study_is_json(study, regression):
    for each in (study, regression[1]):
        told = json.loads(json.dumps(each.to_dict(), allow_nan=False))
        assert told["certified"]
        assert [model["key"] for model in told["models"]] == ["erm", "robust", "trimmed"]
        assert len(told["heaviest_rows"]) == 15


def test_json_has_every_number_of_a_tail(study, regression):
    for each in (study, regression[1]):
        told = each.to_dict()
        assert set(told) == {
            *("title", "description", "task", "metric", "tail", "rule", "recommended", "verdict", "caution"),
            *("judged_on", "data", "models", "certified", "half_of_the_weight", "heaviest_rows"),
            *("is_nearly_constant", "settings", "notes", "versions", "seed"),
        }
        assert told["task"] == ("classification" if each is study else "regression")
        for model in told["models"]:
            about = {"key", "name", "minimises", "l2", "seconds", "finished"}
            assert set(model) == {
                *about,
                *("certificate", "stop", "set_aside", "train", "validation", "test", "groups"),
            }
            assert set(model["test"]) == {"tail", "low", "high", "rest", "mean", "right", "rows"}
            assert (model["groups"] is None) == (each is not study)
