"""One model for many tasks: its optimum, its risks by task and group, and tasks and groups of every kind."""

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.conftest import table
from xrisk import GroupDROClassifier, MultiTaskGroupDROClassifier

X, Y, cells = table()
TASKS = np.array(["b", "a", "a", "c", "c", "c"])[cells]  # of one, two and three groups
OWN = {"a": (1, 2), "b": (0,), "c": (3, 4, 5)}


def classifier(*args, **options):
    return MultiTaskGroupDROClassifier(*args, **{"l2": 0.01, **options})


@pytest.fixture(scope="module")
def fitted():
    return classifier(tol=1e-8).fit(X, Y, tasks=TASKS, groups=cells)


@pytest.mark.parametrize("outer", ["max", "log-sum-exp"])
def test_the_model_is_that_of_cvxpy(outer):
    w, b = cp.Variable(4), cp.Variable()
    losses = cp.logistic(-cp.multiply(Y, X @ w + b))
    means = [cp.sum(losses[cells == i]) / (cells == i).sum() for i in range(6)]
    join = {"max": cp.max, "log-sum-exp": lambda u: cp.log_sum_exp(4.0 * u) / 4.0}[outer]
    total = sum(join(cp.hstack([means[i] for i in own])) for own in OWN.values()) / 3
    cp.Problem(cp.Minimize(total + 0.005 * cp.sum_squares(w))).solve(solver=cp.CLARABEL)
    model = classifier(outer, beta=4.0, tol=1e-9).fit(X, Y, tasks=TASKS, groups=cells)
    np.testing.assert_allclose(model.coef_[0], w.value, atol=2e-4)
    np.testing.assert_allclose(model.intercept_, b.value, atol=2e-4)


def test_risks_are_the_mean_losses_of_the_groups_of_each_task(fitted):
    losses = np.logaddexp(0.0, -Y * fitted.decision_function(X))
    expected = np.full((3, 6), np.nan)
    for i, own in enumerate(OWN.values()):
        for j in own:
            expected[i, j] = losses[cells == j].mean()
    assert (fitted.tasks_, fitted.groups_) == (("a", "b", "c"), ("0", "1", "2", "3", "4", "5"))
    np.testing.assert_allclose(fitted.group_risk_, expected)
    np.testing.assert_allclose(fitted.task_risk_, np.nanmax(expected, axis=1))
    assert fitted.objective_ == pytest.approx(fitted.task_risk_.mean() + 0.005 * (fitted.coef_**2).sum())


def test_weights_are_a_distribution_over_the_worst_groups_of_each_task(fitted):
    np.testing.assert_allclose(fitted.group_weights_.sum(axis=1), 1.0)
    assert (fitted.group_weights_[np.isnan(fitted.group_risk_)] == 0.0).all()
    worst = fitted.group_risk_ >= fitted.task_risk_[:, None] - 1e-5
    assert fitted.group_weights_[~worst].max() <= 1e-3


def test_log_sum_exp_tells_the_risk_of_each_task_without_the_constant_of_repeats():
    model = classifier("log-sum-exp", beta=4.0).fit(X, Y, tasks=TASKS, groups=cells)
    expected = [np.log(np.nansum(np.exp(4.0 * row))) / 4.0 for row in model.group_risk_]
    np.testing.assert_allclose(model.task_risk_, expected)
    constant = np.mean([np.log(6 / len(own)) / 4.0 for own in OWN.values()])
    penalty = 0.005 * (model.coef_**2).sum()
    assert model.objective_ == pytest.approx(model.task_risk_.mean() + constant + penalty)


@pytest.mark.parametrize("outer", ["max", "log-sum-exp"])
def test_a_warm_start_knows_the_weights_of_repeated_groups(outer):
    model = classifier(outer, warm_start=True).fit(X, Y, tasks=TASKS, groups=cells)
    model.fit(X, Y, tasks=TASKS, groups=cells)
    assert [point.phase for point in model.trace_] == ["start"]


def test_without_tasks_it_is_the_worst_group():
    single = classifier(tol=1e-8).fit(X, Y, groups=cells)
    worst = GroupDROClassifier("max", l2=0.01, tol=1e-8).fit(X, Y, groups=cells)
    assert single.tasks_ == ("all",)
    np.testing.assert_allclose(single.coef_, worst.coef_, atol=1e-4)
    np.testing.assert_allclose(single.group_risk_[0], worst.group_risk_, atol=1e-5)


def test_without_groups_the_classes_are_the_groups_of_each_task():
    model = classifier().fit(X, Y, tasks=TASKS)
    assert model.groups_ == ("-1", "1")
    assert model.group_risk_.shape == (3, 2)


def test_many_classes_are_taken():
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    model = classifier().fit(X, y, tasks=TASKS, groups=cells)
    losses = -model.predict_log_proba(X)[np.arange(len(y)), y]
    np.testing.assert_allclose(model.group_risk_[1, 0], losses[cells == 0].mean())
    assert model.certificate_.relative <= 1e-3


@pytest.mark.parametrize("form", ["columns", "frame", "membership"])
def test_tasks_and_groups_in_any_form_are_the_same(fitted, form):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    letters, numbers = np.where(cells < 3, "a", "b"), cells % 3
    groups = {
        "columns": [letters, numbers],
        "frame": pd.DataFrame({"letter": letters, "number": numbers}),
        "membership": cells[:, None] == np.arange(6),
    }[form]
    tasks = TASKS[:, None] == np.array(["a", "b", "c"]) if form == "membership" else pd.Series(TASKS)
    model = classifier(tol=1e-8).fit(X, Y, tasks=tasks, groups=groups)
    np.testing.assert_allclose(model.coef_, fitted.coef_, atol=1e-12)


def test_tasks_and_groups_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), classifier())
        folds = cross_validate(
            model, X, Y, params={"groups": cells, "tasks": TASKS}, cv=2, return_estimator=True, error_score="raise"
        )
    assert [fold[-1].tasks_ for fold in folds["estimator"]] == [("a", "b", "c")] * 2
    assert [fold[-1].group_risk_.shape for fold in folds["estimator"]] == [(3, 6)] * 2


def test_tiny_groups_of_a_task_are_warned_about_where_fit_is_called():
    tasks = np.where(np.arange(len(Y)) < 20, "small", "large")
    with pytest.warns(
        UserWarning, match=r"\d of 12 groups (has|have) fewer than 10 rows, .* 'small × \d', has \d"
    ) as seen:
        classifier().fit(X, Y, tasks=tasks, groups=cells)
    assert seen[0].filename == __file__


def test_rows_without_a_task_are_a_task_and_said_to_be():
    tasks = [None if i == 0 else str(i // 3) for i in cells]
    with pytest.warns(UserWarning, match=rf"{(cells == 0).sum()} rows have no task: they are a task of their own"):
        model = classifier().fit(X, Y, tasks=tasks, groups=cells)
    assert model.tasks_ == ("0", "1", "missing")


@pytest.mark.parametrize(
    ("options", "data", "sentence"),
    [
        ({"outer": "mean"}, {}, "outer must be one of max, log-sum-exp or a spec, got 'mean'"),
        ({"loss": "squared"}, {}, r"loss must be one of logistic, .* got 'squared'"),
        ({}, {"tasks": TASKS[1:]}, "tasks must have one label for each of the 240 rows"),
        ({}, {"groups": cells[1:]}, "groups must have one label for each of the 240 rows"),
        ({}, {"sample_weight": np.where(cells == 2, 0.0, 1.0)}, "it is zero in all of 'a × 2'"),
        ({"loss": "hinge"}, {"y": cells}, "loss must be 'logistic' for more than two classes, got 'hinge'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, data, sentence):
    given = {"y": Y, "tasks": TASKS, "groups": cells, **data}
    with pytest.raises(ValueError, match=sentence):
        classifier(**options).fit(X, given.pop("y"), **given)
