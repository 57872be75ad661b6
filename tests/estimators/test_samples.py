"""DROClassifier and DRORegressor: worst-case weights, rows that carry them, outliers, what is said and what refused."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import xrisk
from tests.conftest import table
from xrisk import DROClassifier, DRORegressor, Stop
from xrisk.auto.trimming import without_worst
from xrisk.estimators.samples import concentration
from xrisk.functions import CVaRRisk, KLBallRisk
from xrisk.run import runs
from xrisk.solvers import ALEXR

X, Y, _ = table()
NUMBERS = X @ np.array([1.0, -2.0, 0.5, 0.0]) + np.sin(np.arange(len(X)))


def losses(model, rows=X, y=Y):
    return np.log1p(np.exp(-y * model.decision_function(rows)))


@pytest.mark.parametrize(
    "options",
    [
        {"ambiguity": "kl", "radius": 0.02},
        {"ambiguity": "chi2", "radius": 0.02, "strength": 0.1},
        {"ambiguity": "kl", "strength": 0.5},
    ],
    ids=str,
)
def test_the_weights_are_the_worst_case_of_the_losses_of_the_model(options):
    model = DROClassifier(**options, tol=1e-8).fit(X, Y)
    worst = xrisk.worst_case(losses(model), **options)
    np.testing.assert_allclose(model.sample_weights_, worst.weights, atol=2e-4)
    coefs = model.coef_[0]
    assert model.objective_ == pytest.approx(worst.value + 0.5 * model.l2 * coefs @ coefs, rel=1e-6)


def test_without_a_radius_or_a_strength_there_is_one():
    by_default, given = DRORegressor().fit(X, NUMBERS), DRORegressor("chi2", radius=0.1).fit(X, NUMBERS)
    np.testing.assert_array_equal(by_default.coef_, given.coef_)


def test_a_small_radius_is_the_average_and_cvar_of_all_rows_too():
    average = DRORegressor("cvar", alpha=1.0, tol=1e-8).fit(X, NUMBERS)
    ball = DRORegressor("kl", radius=1e-10, tol=1e-8).fit(X, NUMBERS)
    np.testing.assert_allclose(ball.coef_, average.coef_, atol=1e-4)


def test_a_spec_is_an_ambiguity():
    word, spec = DROClassifier("kl", radius=0.01).fit(X, Y), DROClassifier(KLBallRisk(0.01)).fit(X, Y)
    np.testing.assert_array_equal(word.coef_, spec.coef_)


def test_the_tail_of_the_loss_falls():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 3))
    y = rows[:, 0] + np.where(rng.random(2000) < 0.1, 2.0 * rows[:, 1], 0.0) + 0.3 * rng.standard_normal(2000)
    plain, robust = (DRORegressor("cvar", alpha=share, l2=1e-6).fit(rows, y) for share in (1.0, 0.1))

    def tail(model):
        return xrisk.worst_case(0.5 * (y - model.predict(rows)) ** 2, ambiguity="cvar", alpha=0.1).value

    assert tail(robust) < 0.9 * tail(plain)


def test_several_classes():
    classes = np.array(["a", "b", "c"])[
        np.argmax(X[:, :3] + 0.5 * np.cos(np.arange(X.size)).reshape(X.shape)[:, :3], 1)
    ]
    model = DROClassifier("kl", radius=0.2).fit(X, classes)
    assert model.certificate_.relative <= 1e-3
    assert model.coef_.shape == (3, 4)
    assert (model.predict(X) == classes).mean() > 0.6


def wrong_labels():
    """A table in which 15 of 300 labels are wrong, and their numbers."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((300, 3))
    y = np.where(rows[:, 0] + 0.2 * rng.standard_normal(300) > 0, 1, -1)
    wrong = np.sort(np.argsort(-np.abs(rows[:, 0]))[5:65:4])
    y[wrong] *= -1
    return rows, y, wrong


def test_wrong_labels_carry_the_weight_and_are_listed():
    rows, y, wrong = wrong_labels()
    heavy = DROClassifier("kl", strength=0.5).fit(rows, y).heaviest_rows(15)
    assert np.isin(heavy.rows, wrong).mean() > 0.8
    assert (np.diff(heavy.weights) <= 0.0).all()


def test_outliers_are_set_aside_and_weigh_nothing():
    rows, y, wrong = wrong_labels()
    model = DROClassifier("kl", strength=0.5, outlier_fraction=0.05).fit(rows, y)
    assert model.outliers_.size == 15
    assert np.isin(model.outliers_, wrong).mean() > 0.9
    assert not model.sample_weights_[model.outliers_].any()
    assert model.stop_ is Stop.CONVERGED
    clean = np.setdiff1d(np.arange(300), wrong)
    plain = DROClassifier("kl", strength=0.5).fit(rows, y)
    assert losses(model, rows[clean], y[clean]).mean() < 0.7 * losses(plain, rows[clean], y[clean]).mean()


def test_the_rest_is_solved_as_if_outliers_were_not_there():
    rows, y, _ = wrong_labels()
    model = DROClassifier("kl", strength=0.5, outlier_fraction=0.05, tol=1e-8).fit(rows, y)
    left = np.setdiff1d(np.arange(300), model.outliers_)
    again = DROClassifier("kl", strength=0.5, tol=1e-8).fit(rows[left], y[left])
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-3)


def test_the_last_row_is_set_aside_in_part():
    left = without_worst(np.array([3.0, 1.0, 2.0, 0.0]), np.full(4, 0.25), 0.375)
    np.testing.assert_allclose(left, np.array([0.0, 0.25, 0.125, 0.25]) / 0.625)


def test_few_rows_with_half_of_the_weight_are_warned_of():
    rows, y = np.linspace(-1.0, 1.0, 400)[:, None], np.zeros(400)
    y[[10, 390]] = 100.0, -100.0
    with pytest.warns(
        UserWarning, match=r"3 rows carry half of the weight of 400: look at them with heaviest_rows\(\)"
    ):
        model = DRORegressor("kl", radius=3.0).fit(rows, y)
    assert {10, 390} <= set(model.heaviest_rows(3).rows)


def test_a_constant_optimum_is_warned_of():
    with pytest.warns(UserWarning, match="the model is nearly constant: .* a larger alpha or strength"):
        model = DROClassifier("cvar", alpha=0.05).fit(X, Y)
    assert model.certificate_.relative <= 1e-3


def test_weights_that_are_spread_are_not_warned_of():
    assert concentration(np.full(1000, 1e-3)) == 0
    assert concentration(np.full(50, 0.02)) == 0


@pytest.mark.slow
def test_a_sampled_solver_reports_the_worst_case_at_its_solution():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DROClassifier("kl", strength=0.5, solver=ALEXR(), max_iter=2000, random_state=0).fit(X, Y)
    worst = xrisk.worst_case(losses(model), ambiguity="kl", strength=0.5)
    np.testing.assert_allclose(model.sample_weights_, worst.weights, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ambiguity": "wasserstein"}, "ambiguity must be one of kl, chi2, cvar or a spec, got 'wasserstein'"),
        ({"ambiguity": None}, "ambiguity must be one of kl, chi2, cvar or a spec of a risk, got None"),
        ({"radius": -1.0}, "radius must be positive, got -1.0"),
        ({"radius": float("nan")}, "radius must be finite, got nan"),
        ({"strength": 0.0}, "lam must be positive|strength must be positive"),
        ({"radius": "a"}, "radius must be a number, got 'a'"),
        ({"ambiguity": "cvar", "alpha": 0.0}, r"alpha must lie in \(0, 1\], got 0.0"),
        ({"ambiguity": "cvar", "alpha": None}, "needs alpha"),
        ({"ambiguity": "cvar", "radius": 0.5}, "radius is not for ambiguity='cvar', which takes alpha, got 0.5"),
        ({"outlier_fraction": 0.5}, "outlier_fraction must be at least 0 and below 0.5, got 0.5"),
        ({"outlier_fraction": "a"}, "outlier_fraction must be a number, got 'a'"),
        ({"l2": -1.0}, "l2 must be finite and not negative, got -1.0"),
    ],
    ids=str,
)
def test_wrong_parameters_are_told_in_a_sentence(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DROClassifier(**options).fit(X, Y)


def test_a_count_that_is_none_is_told():
    with pytest.raises(ValueError, match="count must be a whole number from 1 on, got 0"):
        DROClassifier("kl", strength=1.0).fit(X, Y).heaviest_rows(0)


@pytest.mark.slow
def test_a_class_that_is_set_aside_is_warned_of():
    rare = np.where(np.arange(len(Y)) < 6, 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="all rows of class")
        with pytest.raises(UserWarning, match="all rows of class 1 were set aside: outlier_fraction must be below"):
            DROClassifier("kl", strength=1.0, outlier_fraction=0.1, l2=0.1).fit(X, rare)


def test_rows_of_equal_weight_are_listed_by_their_loss():
    model = DRORegressor("cvar", alpha=0.5).fit(X, NUMBERS)
    heavy = model.heaviest_rows(5)
    assert heavy.rows[0] == np.argmax(model.sample_losses_)


def test_masses_of_zero_rows_weigh_nothing():
    weight = np.where(np.arange(len(Y)) % 5 == 0, 0.0, 1.0)
    model = DROClassifier(CVaRRisk(0.9)).fit(X, Y, sample_weight=weight)
    assert not model.sample_weights_[weight == 0.0].any()


CONSTANTS = [0.0, 1.0, 1e-8, 1e8, 0.1]
ENDS = {"max_iter": 3000}  # a fit that would run for ever fails instead
FITS = {
    "cvar": lambda y: DRORegressor("cvar", **ENDS).fit(X, y),
    "kl": lambda y: DRORegressor("kl", strength=1.0, **ENDS).fit(X, y),
    "absolute": lambda y: DRORegressor("cvar", loss="absolute", **ENDS).fit(X, y),
    "groups": lambda y: xrisk.GroupDRORegressor("max", **ENDS).fit(X, y, np.arange(len(y)) % 5),
    "absolute groups": lambda y: xrisk.GroupDRORegressor("kl", loss="absolute", **ENDS).fit(
        X, y, np.arange(len(y)) % 5
    ),
}


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("kind", FITS)
def test_constant_targets_are_fitted(kind, constant):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FITS[kind](np.full(len(X), constant))
    assert model.stop_ in (Stop.CONVERGED, Stop.PERFECT)
    np.testing.assert_allclose(model.predict(X), constant, rtol=1e-12)


def some_labels_wrong():
    return np.where(np.arange(len(X)) % 20 == 0, -Y, Y)


def test_rounds_of_setting_rows_aside_share_the_time(monkeypatch):
    given = []

    def timed(*args, budget, **options):
        given.append(budget.elapsed)
        return xrisk.minimize(*args, budget=budget, **options)

    monkeypatch.setattr(runs, "minimize", timed)
    DROClassifier("kl", strength=0.5, outlier_fraction=0.05, max_seconds=100.0).fit(X, some_labels_wrong())
    assert len(given) > 1
    assert given == sorted(given, reverse=True)
    assert given[-1] < given[0] == pytest.approx(100.0, abs=5.0)


def test_the_average_is_not_taken_for_the_worst_case_where_time_is_up(monkeypatch):
    clock = iter(range(0, 10_000, 1000))
    monkeypatch.setattr(runs, "now", lambda: float(next(clock)))
    model = DROClassifier("kl", strength=0.5, outlier_fraction=0.05, max_seconds=100.0)
    with pytest.warns(ConvergenceWarning, match="budget of seconds is used up; no gap is certified"):
        model.fit(X, some_labels_wrong())
    assert model.stop_ is Stop.SECONDS


@pytest.mark.parametrize("name", ["radius", "strength"])
def test_a_spec_takes_no_numbers_beside_it(name):
    with pytest.raises(ValueError, match=f"{name} must be None where ambiguity is a spec, which has its own, got 0.2"):
        DROClassifier(KLBallRisk(0.1), **{name: 0.2}).fit(X, Y)


def test_rows_of_a_model_that_is_not_fitted_are_not_known():
    with pytest.raises(NotFittedError):
        DROClassifier().heaviest_rows()
