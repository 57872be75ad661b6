"""Worst-group models: groups of every kind, and the optimum itself."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.conftest import table
from xrisk import GroupDROClassifier, GroupDRORegressor, Stop
from xrisk.functions import CVaRRisk, HingeLoss
from xrisk.metrics import worst_group_scorer
from xrisk.solvers import Auto

DIVERGENCES = ("cvar", "chi2", "chi2-b", "kl", "max")
slow = pytest.mark.slow
X, Y, cells = table()
NAMES = np.array([f"g{i}" for i in range(6)])[cells]
TARGET = X @ np.array([1.0, -2.0, 0.5, 0.0]) + np.where(cells < 2, 2.0, 0.0) * X[:, 0] + np.sin(np.arange(len(X)))


def classifier(**options):
    return GroupDROClassifier(**{"divergence": "max", "l2": 0.01, **options})


def regressor(**options):
    return GroupDRORegressor(**{"divergence": "max", "l2": 0.01, **options})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Y, groups=cells)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def risk_of(u, divergence, alpha, lam):
    """The risk of m group means as CVXPY has it."""
    m, c = u.size, cp.Variable()
    return {
        "cvar": c + cp.sum(cp.pos(u - c)) / (alpha * m),
        "chi2": c + lam * (cp.sum(cp.square(cp.pos((u - c) / lam + 1))) / (2 * m) - 0.5),
        "chi2-b": c + lam * (cp.sum(cp.square(cp.pos((u - c) / lam + 2))) / (4 * m) - 1),
        "kl": lam * (cp.log_sum_exp(u / lam) - np.log(m)),
        "max": cp.max(u),
    }[divergence]


def by_cvxpy(losses, w, divergence, *, alpha=0.4, lam=0.5, l1=0.0, l2=0.01, weight=None):
    """Solve with group means of ``losses``, an expression with one entry for each row."""
    weight = np.ones(len(cells)) if weight is None else weight
    means = [weight[cells == i] @ losses[cells == i] / weight[cells == i].sum() for i in range(6)]
    risk = risk_of(cp.hstack(means), divergence, alpha, lam)
    task = cp.Problem(cp.Minimize(risk + l1 * cp.norm1(w) + l2 / 2 * cp.sum_squares(w)))
    task.solve(solver=cp.CLARABEL)
    return task.value


def compared(model, w, b, *, atol=2e-4):
    np.testing.assert_allclose(model.coef_.ravel(), w.value.T.ravel(), atol=atol)
    np.testing.assert_allclose(model.intercept_, b.value, atol=atol)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_classifier_agrees_with_cvxpy(divergence):
    w, b = cp.Variable(4), cp.Variable()
    value = by_cvxpy(cp.logistic(-cp.multiply(Y, X @ w + b)), w, divergence)
    model = classifier(divergence=divergence, alpha=0.4, lam=0.5, tol=1e-9).fit(X, Y, groups=cells)
    compared(model, w, b)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_regressor_agrees_with_cvxpy(divergence):
    w, b = cp.Variable(4), cp.Variable()
    value = by_cvxpy(cp.square(X @ w + b - TARGET) / 2, w, divergence)
    model = regressor(divergence=divergence, alpha=0.4, lam=0.5, tol=1e-9).fit(X, TARGET, groups=cells)
    compared(model, w, b)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


def test_l1_and_weights_agree_with_cvxpy():
    w, b, weight = cp.Variable(4), cp.Variable(), 1.0 + np.arange(len(Y)) % 3
    value = by_cvxpy(cp.logistic(-cp.multiply(Y, X @ w + b)), w, "cvar", l1=0.05, weight=weight)
    model = classifier(divergence="cvar", alpha=0.4, l1=0.05, tol=1e-9)
    model.fit(X, Y, groups=cells, sample_weight=weight)
    compared(model, w, b)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "y", "loss", "shape"),
    [
        (classifier, Y, "hinge", lambda z: cp.pos(1 - cp.multiply(Y, z))),
        (classifier, Y, "squared_hinge", lambda z: cp.square(cp.pos(1 - cp.multiply(Y, z)))),
        pytest.param(classifier, Y, "exponential", lambda z: cp.exp(-cp.multiply(Y, z)), marks=slow),
        pytest.param(regressor, TARGET, "absolute", lambda z: cp.abs(z - TARGET), marks=slow),
        pytest.param(regressor, TARGET, "huber", lambda z: cp.huber(z - TARGET, 1.0) / 2, marks=slow),
    ],
    ids=["hinge", "squared_hinge", "exponential", "absolute", "huber"],
)
def test_losses_by_name_agree_with_cvxpy(make, y, loss, shape):
    w, b = cp.Variable(4), cp.Variable()
    value = by_cvxpy(shape(X @ w + b), w, "max")
    model = make(loss=loss, tol=1e-7).fit(X, y, groups=cells)
    assert model.objective_ == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("divergence", ["cvar", "max"])
def test_many_classes_agree_with_cvxpy(divergence):
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    w, b = cp.Variable((4, 3)), cp.Variable(3)
    scores = X @ w + cp.reshape(b, (1, 3), order="C")
    losses = cp.log_sum_exp(scores, axis=1) - cp.sum(cp.multiply(scores, np.eye(3)[y]), axis=1)
    penalised = cp.vstack([w, cp.reshape(b, (1, 3), order="C")])
    by_cvxpy(losses, cp.reshape(penalised, (15,), order="C"), divergence)
    compared(classifier(divergence=divergence, alpha=0.4, tol=1e-9).fit(X, y, groups=cells), w, b)


def test_specs_do_what_their_names_do():
    named = classifier(divergence="cvar", alpha=0.4, loss="hinge").fit(X, Y, groups=cells)
    given = classifier(divergence=CVaRRisk(0.4), loss=HingeLoss()).fit(X, Y, groups=cells)
    np.testing.assert_array_equal(named.coef_, given.coef_)


def test_max_equalises_the_worst_groups():
    model = classifier(tol=1e-9).fit(X, Y, groups=cells)
    bearing = model.group_risk_[model.group_weights_ > 1e-3]
    assert bearing.size > 1
    np.testing.assert_allclose(bearing, model.group_risk_.max(), rtol=1e-5)


def test_weights_of_groups_are_a_distribution(fitted):
    assert fitted.group_weights_.min() >= 0
    assert fitted.group_weights_.sum() == pytest.approx(1.0)


def test_cvar_of_all_groups_is_their_mean():
    rows = np.bincount(cells)[cells]
    plain = LogisticRegression(C=1 / 0.01, tol=1e-10, max_iter=1000).fit(X, Y, sample_weight=1 / (6 * rows))
    model = classifier(divergence="cvar", alpha=1.0, tol=1e-10).fit(X, Y, groups=cells)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_single_group_is_logistic_regression(divergence):
    plain = LogisticRegression(C=1 / (0.01 * len(Y)), tol=1e-10, max_iter=1000).fit(X, Y)
    model = classifier(divergence=divergence, tol=1e-10)
    with pytest.warns(UserWarning, match="single group"):
        model.fit(X, Y, groups=np.zeros(len(Y)))
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, atol=1e-5)


def test_a_single_group_of_many_classes_is_logistic_regression():
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    plain = LogisticRegression(C=1 / (0.01 * len(Y)), tol=1e-10, max_iter=1000, fit_intercept=False).fit(X, y)
    model = classifier(tol=1e-10, fit_intercept=False)
    with pytest.warns(UserWarning, match="single group"):
        model.fit(X, y, groups=np.zeros(len(Y)))
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-5)


def test_a_regression_without_groups_is_ridge():
    plain = Ridge(alpha=0.01 * len(Y), tol=1e-10).fit(X, TARGET)
    np.testing.assert_allclose(regressor(tol=1e-10).fit(X, TARGET).coef_, plain.coef_, atol=1e-5)


def test_without_groups_the_classes_are_the_groups():
    model = classifier(tol=1e-6).fit(X, Y)
    assert model.groups_ == ("-1", "1")
    np.testing.assert_array_equal(model.coef_, classifier(tol=1e-6).fit(X, Y, groups=Y).coef_)


def test_string_groups_are_their_codes(fitted):
    model = classifier().fit(X, Y, groups=NAMES)
    assert model.groups_ == tuple(f"g{i}" for i in range(6))
    np.testing.assert_array_equal(model.coef_, fitted.coef_)


def intersections():
    return np.where(cells < 3, "a", "b"), cells % 3


@pytest.mark.parametrize("form", ["columns", "array", "frame", "membership", "sparse labels"])
def test_groups_in_any_form_are_the_same_groups(fitted, form):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    letters, numbers = intersections()
    groups = {
        "columns": [letters, numbers],
        "array": np.column_stack([letters, numbers.astype(str)]),
        "frame": pd.DataFrame({"letter": letters, "number": pd.Categorical(numbers)}),
        "membership": cells[:, None] == np.arange(6),
        "sparse labels": 1000 * cells,
    }[form]
    np.testing.assert_allclose(classifier().fit(X, Y, groups=groups).coef_, fitted.coef_, atol=1e-12)


def test_groups_may_overlap():
    member = np.column_stack([np.ones(len(Y), dtype=bool), cells == 0, Y > 0])
    model = classifier(tol=1e-9).fit(X, Y, groups=member)
    losses = np.logaddexp(0.0, -Y * model.decision_function(X))
    np.testing.assert_allclose(model.group_risk_, [losses[rows].mean() for rows in member.T])


def test_rows_without_a_group_are_a_group_and_said_to_be(fitted):
    groups = [None if i == 3 else str(i) for i in cells]
    with pytest.warns(UserWarning, match=rf"{(cells == 3).sum()} rows have no group: they are a group of their own"):
        model = classifier().fit(X, Y, groups=groups)
    assert model.groups_[-1] == "missing"
    np.testing.assert_allclose(model.coef_, fitted.coef_, atol=1e-3)


def test_tiny_groups_are_warned_about_where_fit_is_called():
    groups = np.where(np.arange(len(Y)) < 3, "few", "many")
    with pytest.warns(UserWarning, match="1 of 2 groups has fewer than 10 rows, the smallest, 'few', has 3") as seen:
        classifier().fit(X, Y, groups=groups)
    assert seen[0].filename == __file__


@pytest.mark.parametrize(
    ("options", "data", "sentence"),
    [
        ({"loss": "squared"}, {}, "loss must be one of logistic, .* got 'squared'"),
        ({"divergence": "worst"}, {}, "divergence must be one of cvar, .* got 'worst'"),
        ({"alpha": 0.0, "divergence": "cvar"}, {}, "alpha must .*0"),
        ({}, {"groups": cells[1:]}, "groups must have one label for each of the 240 rows"),
        ({}, {"sample_weight": np.where(cells == 2, 0.0, 1.0), "groups": NAMES}, "it is zero in all of 'g2'"),
        ({"loss": "hinge"}, {"y": cells}, "loss must be 'logistic' for more than two classes, got 'hinge'"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(options, data, sentence):
    with pytest.raises(ValueError, match=sentence):
        classifier(**options).fit(X, data.pop("y", Y), **{"groups": cells, **data})


@pytest.mark.parametrize("weight", [0.0, 1e-300])
def test_rows_of_no_weight_count_for_nothing(weight):
    half = np.arange(len(Y)) % 2 == 0
    model = classifier(tol=1e-9).fit(X, Y, groups=cells, sample_weight=np.where(half, 1.0, weight))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        alone = classifier(tol=1e-9).fit(X[half], Y[half], groups=cells[half])
    np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-5)


def test_a_search_routes_groups_and_judges_the_worst(routing):
    scoring = worst_group_scorer(min_group_size=1)
    search = GridSearchCV(classifier(), {"l2": [1e-3, 10.0]}, scoring=scoring, cv=3)
    search.fit(X, Y, groups=NAMES)
    assert search.best_estimator_.groups_ == tuple(f"g{i}" for i in range(6))


def test_a_search_that_keeps_the_groups_for_itself_is_told():
    folds = GroupKFold(2)
    with pytest.warns(UserWarning, match="fit was given no groups in a search .*enable_metadata_routing=True"):
        GridSearchCV(classifier(), {"l2": [0.01, 0.1]}, cv=folds).fit(X, Y, groups=NAMES)
    with pytest.warns(UserWarning, match="all rows are one group"):
        cross_validate(regressor(), X, X[:, 0], groups=NAMES, cv=folds)


def test_without_groups_a_fit_of_ones_own_and_a_routed_search_say_nothing(routing):
    classifier().fit(X, Y)
    GridSearchCV(classifier(), {"l2": [0.01, 0.1]}, cv=2).fit(X, Y)


def test_a_pipeline_in_cross_validation_routes_groups(routing):
    model = make_pipeline(StandardScaler(), classifier())
    folds = cross_validate(model, X, Y, params={"groups": NAMES}, cv=3, return_estimator=True, error_score="raise")
    assert [fold[-1].groups_ for fold in folds["estimator"]] == [tuple(f"g{i}" for i in range(6))] * 3


def test_a_frame_of_groups_is_routed_through_a_search_over_a_pipeline(routing):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    groups = pd.DataFrame({"letter": intersections()[0], "number": intersections()[1]})
    search = GridSearchCV(make_pipeline(StandardScaler(), classifier()), {"groupdroclassifier__l2": [0.01, 0.1]}, cv=2)
    search.fit(X, Y, groups=groups)
    assert search.best_estimator_[-1].groups_[0] == "a × 0"


def test_weights_and_groups_are_routed_together(routing):
    model = classifier().set_fit_request(sample_weight=True, groups=True)
    pipe = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), model)
    weight = 1.0 + np.arange(len(Y)) % 3
    pipe.fit(X, Y, groups=cells, sample_weight=weight)
    alone = classifier().fit(StandardScaler().fit_transform(X), Y, groups=cells, sample_weight=weight)
    np.testing.assert_array_equal(pipe[-1].coef_, alone.coef_)


def test_groups_can_be_declined(routing):
    pipe = make_pipeline(StandardScaler(), classifier().set_fit_request(groups=False))
    folds = cross_validate(pipe, X, Y, cv=2, return_estimator=True)
    assert folds["estimator"][0][-1].groups_ == ("-1", "1")


def test_only_the_logistic_loss_has_probabilities():
    assert not hasattr(classifier(loss="hinge"), "predict_proba")
    assert hasattr(classifier(), "predict_proba")


def test_risks_are_the_mean_losses_of_the_groups(fitted):
    losses = np.logaddexp(0.0, -Y * fitted.decision_function(X))
    np.testing.assert_allclose(fitted.group_risk_, [losses[cells == i].mean() for i in range(6)])


def test_the_certificate_holds_the_objective(fitted):
    objective = fitted.group_risk_.max() + 0.005 * (fitted.coef_**2).sum()
    assert fitted.objective_ == pytest.approx(objective)
    assert fitted.certificate_.dual <= objective <= fitted.certificate_.primal + 1e-12
    assert fitted.certificate_.relative <= fitted.tol
    assert fitted.stop_ is Stop.CONVERGED


@pytest.mark.parametrize("offset", [1e8, 1e10])
def test_targets_far_from_zero_are_no_perfect_fit_of_a_solver_with_a_tolerance_of_its_own(offset):
    with pytest.warns(ConvergenceWarning, match="its own tolerance; the certified relative gap is"):
        model = regressor(solver=Auto(0.5), tol=1e-12).fit(X, TARGET + offset, groups=cells)
    assert model.stop_ is Stop.LOOSE


def test_a_perfect_fit_is_an_optimum():
    model = regressor().fit(X, np.full(len(X), 3.0), groups=cells)
    assert model.stop_ is Stop.PERFECT
    assert model.intercept_ == pytest.approx(3.0)


@pytest.mark.parametrize("divergence", ["kl", "chi2", "chi2-b"])
def test_a_strength_beside_which_losses_vanish_is_certified(divergence):
    rng = np.random.default_rng(0)
    X, groups = rng.standard_normal((300, 3)), rng.integers(0, 6, 300)
    y = np.where(X[:, 0] + rng.logistic(size=300) > 0, 1, 0)
    plain = GroupDROClassifier(alpha=1.0, tol=1e-6).fit(X, y, groups=groups)
    for lam in (1e9, 1e12, 1e15):
        model = GroupDROClassifier(divergence, lam=lam).fit(X, y, groups=groups)
        assert model.certificate_.relative <= 1e-3, lam
        assert model.certificate_.dual <= plain.certificate_.primal * (1.0 + 1e-6), lam
        assert model.certificate_.primal >= plain.certificate_.dual, lam
