"""PartialAUCClassifier and TwoWayPartialAUCClassifier: what they promise, and what they say."""

import importlib
import itertools
import pickle
import tracemalloc
import warnings
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import xrisk
from xrisk import PartialAUCClassifier, PrecisionAtKClassifier, Stop, TwoWayPartialAUCClassifier
from xrisk.estimators import anchored, calibration
from xrisk.metrics import partial_auc_score, partial_auc_scorer
from xrisk.run import Runs
from xrisk.solvers.base import BOUNDED_ENDINGS


class Interrupted(NamedTuple):
    """A result that Ctrl-C has ended."""

    w: np.ndarray
    stop: Any = Stop.INTERRUPTED


def table(n=1500, seed=0, shift=2.2):
    """Two kinds of positives, of which the second is hard: a logistic model gives it up."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    y = (X[:, 0] + rng.standard_normal(n) > shift) | (X[:, 1] - 0.5 * X[:, 0] + rng.standard_normal(n) > 1.2 * shift)
    return X, y


X, Y = table()
TABLE = anchored.table_of(X, np.where(Y, 1.0, -1.0))


@pytest.fixture(scope="module")
def fitted():
    return TwoWayPartialAUCClassifier(0.5, 0.3, random_state=0).fit(X, Y)


def test_the_training_score_is_not_below_that_of_the_start(fitted):
    assert fitted.training_score_ >= fitted.start_score_
    scores = fitted.decision_function(X)
    found = partial_auc_score(Y, scores, min_tpr=0.5, max_fpr=0.3, method="counts")
    assert found == pytest.approx(fitted.training_score_, abs=1e-9)


def test_nothing_is_proved_and_that_is_said(fitted):
    assert fitted.stop_ in BOUNDED_ENDINGS
    assert "nothing is proved" in str(fitted.stop_)
    assert fitted.certificate_.gap == np.inf


def test_on_new_rows_it_is_not_worse_than_logistic_regression(fitted):
    """Within the noise of 20,000 rows."""
    X_new, y_new = table(20_000, seed=1)
    plain = LogisticRegression().fit(X, Y)
    ours, theirs = (
        partial_auc_score(y_new, model.decision_function(X_new), min_tpr=0.5, max_fpr=0.3) for model in (fitted, plain)
    )
    assert ours >= theirs - 0.01


def test_probabilities_are_calibrated(fitted):
    X_new, y_new = table(20_000, seed=1)
    probability = fitted.predict_proba(X_new)[:, 1]
    assert probability.mean() == pytest.approx(y_new.mean(), abs=0.02)
    likely = probability > 0.4
    assert y_new[likely].mean() == pytest.approx(probability[likely].mean(), abs=0.12)


def test_folds_of_different_sizes_of_scores_agree_on_a_budget():
    """The scores of five models are one curve: of the rows of the fit the false alarms are as asked."""
    rng = np.random.default_rng(0)
    y = np.arange(800) < 80
    X_few = rng.standard_normal((800, 4)) + y[:, None] * [1.0, 1.0, 0.0, 0.0]
    model = TwoWayPartialAUCClassifier(anchor=0.001, start="logistic", random_state=0).fit(X_few, y)
    alarms = [model.set_threshold(max_fpr=share).predict(X_few)[~y].mean() for share in (0.02, 0.05, 0.2)]
    np.testing.assert_allclose(alarms, [0.02, 0.05, 0.2], atol=0.02)  # held-out scores keep the budget, these nearly


def test_columns_far_from_zero_leave_the_probabilities_as_they_are():
    far = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.1, start="logistic", random_state=0).fit(X + 1e4, Y)
    assert far.predict_proba(X + 1e4)[:, 1].mean() == pytest.approx(Y.mean(), abs=0.01)
    assert far.set_threshold(max_fpr=0.05).predict(X + 1e4)[~Y].mean() == pytest.approx(0.05, abs=0.01)


def test_probabilities_are_of_all_rows_where_cross_validation_saw_some(monkeypatch):
    monkeypatch.setattr(anchored, "CV_ROWS", 150)
    model = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.1, start="logistic", random_state=0).fit(X, Y)
    assert model.roc_fpr_.size <= 301  # of 300 rows
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(Y.mean(), abs=0.02)


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_a_budget_of_false_alarms_is_kept(share, fitted):
    model = deepcopy(fitted).set_threshold(max_fpr=share)
    X_new, y_new = table(20_000, seed=1)
    assert model.predict(X_new)[~y_new].mean() <= share + 0.03
    assert model.predict(X_new)[y_new].mean() > share


def test_a_demand_on_hits_is_met(fitted):
    model = deepcopy(fitted).set_threshold(min_tpr=0.9)
    X_new, y_new = table(20_000, seed=1)
    assert model.predict(X_new)[y_new].mean() == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "set_threshold must be given max_fpr or min_tpr, one of the two"),
        ({"max_fpr": 0.1, "min_tpr": 0.5}, "one of the two"),
        ({"max_fpr": 1.5}, r"max_fpr must be between 0 and 1, got 1\.5"),
        ({"min_tpr": -0.1}, r"min_tpr must be between 0 and 1, got -0\.1"),
    ],
    ids=str,
)
def test_a_wrong_budget_is_refused(options, words, fitted):
    with pytest.raises(ValueError, match=words):
        fitted.set_threshold(**options)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model(fitted):
    again = TwoWayPartialAUCClassifier(0.5, 0.3, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)


@pytest.mark.parametrize("positives", [1, 2, 3, 10])
def test_few_positives_are_enough(positives):
    rng = np.random.default_rng(0)
    X_few = rng.standard_normal((200, 3))
    y_few = np.arange(200) < positives
    X_few[y_few] += 1.5
    model = TwoWayPartialAUCClassifier(0.0, 0.5, random_state=0).fit(X_few, y_few)
    assert np.isfinite(model.coef_).all()
    assert model.training_score_ >= model.start_score_ > 0.5


def test_too_few_positives_for_the_range_are_told():
    y_few = np.arange(len(Y)) < 5
    with pytest.raises(ValueError, match=r"min_tpr must be at most 0\.8 for 5 positives, got 0\.9"):
        TwoWayPartialAUCClassifier(0.9, 0.5).fit(X, y_few)


@pytest.mark.slow
def test_sparse_rows_and_strings_are_as_good():
    names = np.where(Y, "rare", "common")
    options = {"anchor": 0.01, "start": "logistic", "random_state": 0}
    dense = TwoWayPartialAUCClassifier(0.5, 0.3, **options).fit(X, names)
    sparse = TwoWayPartialAUCClassifier(0.5, 0.3, **options).fit(scipy.sparse.csr_array(X), names)
    assert sparse.training_score_ == pytest.approx(dense.training_score_, abs=0.02)
    assert set(sparse.set_threshold(min_tpr=0.5).predict(X)) == {"rare", "common"}


@pytest.mark.parametrize("surrogate", ["convex", "hinge", "logistic"])
def test_one_way_convex_surrogates_are_certified(surrogate):
    model = PartialAUCClassifier(0.2, surrogate=surrogate, l2=1e-2).fit(X[:400], Y[:400])
    assert model.certificate_.relative <= 1e-2
    assert np.isnan(model.start_score_)
    assert 0.0 < model.training_score_ <= 1.0


def test_a_collapse_of_the_convex_surrogate_is_told():
    """Positives on both sides of the negatives: no direction separates the hard pairs."""
    rng = np.random.default_rng(0)
    X_both = np.concatenate([rng.standard_normal((300, 2)), 3.0 * rng.choice([-1.0, 1.0], (40, 2))])
    y_both = np.arange(340) >= 300
    with pytest.warns(UserWarning, match="the optimum of the convex surrogate is a score of almost zero"):
        PartialAUCClassifier(0.5, surrogate="convex", l2=1e-2).fit(X_both, y_both)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"surrogate": "square"}, "surrogate must be one of sigmoid, convex, .*, got 'square'"),
        ({"anchor": -1.0}, r"anchor must be positive or None, got -1\.0"),
        ({"start": "svm"}, "start must be one of logistic, balanced or None, got 'svm'"),
        ({"min_tpr": 1.0}, r"min_tpr must lie in \[0, 1\), got 1\.0"),
        ({"max_fpr": 0.0}, r"max_fpr must lie in \(0, 1\], got 0\.0"),
        ({"solver": xrisk.solvers.ALEXR()}, "solver must be 'auto' for surrogate='sigmoid'"),
        ({"surrogate": np.array([1, 2])}, r"surrogate must be one of sigmoid, .*, got array\(\[1, 2\]\)"),
        ({"surrogate": "convex", "l2": 0.0}, r"l2 must be positive for surrogate='convex', got 0\.0"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_what_is_wrong_is_said_in_one_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        TwoWayPartialAUCClassifier(**{"min_tpr": 0.5, "max_fpr": 0.3, **options}).fit(X, Y)


def test_a_limit_of_time_is_kept_and_told():
    with pytest.warns(ConvergenceWarning, match="the budget of seconds is used up"):
        model = TwoWayPartialAUCClassifier(0.5, 0.3, max_seconds=1e-3).fit(X, Y)
    assert np.isfinite(model.coef_).all()


def test_a_limit_of_steps_is_told():
    with pytest.warns(ConvergenceWarning, match="iterations is used up; a larger max_iter would go on"):
        model = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.01, start="logistic", max_iter=1).fit(X, Y)
    assert model.stop_ is Stop.ITERATIONS
    assert model.n_iter_ == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("steps", "stop"), [(2, Stop.EARLY), (100_000, Stop.LOCAL)])
def test_a_descent_of_all_its_steps_is_no_local_optimum(monkeypatch, steps, stop):
    monkeypatch.setattr("xrisk.estimators.partial_auc.STEPS", steps)
    model = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.1, start="logistic").fit(X[:600], Y[:600])
    assert model.stop_ is stop
    assert (model.n_iter_ == steps) == (stop is Stop.EARLY)


def test_a_start_that_is_kept_is_no_local_optimum():
    rows = np.arange(60.0)[:, None]  # in order from the start
    model = TwoWayPartialAUCClassifier(0.5, 0.3, random_state=0).fit(rows, rows[:, 0] > 50)
    assert (model.anchor_, model.stop_) == (np.inf, Stop.KEPT)


def test_a_convex_fit_that_was_cut_short_is_no_collapse():
    with pytest.warns(ConvergenceWarning, match="a larger max_iter or tol would end certified") as told:
        TwoWayPartialAUCClassifier(0.5, 0.3, surrogate="convex", max_iter=1).fit(X, Y)
    assert len(told) == 1


@pytest.mark.parametrize("surrogate", ["sigmoid", "convex"])
def test_columns_too_large_to_be_squared_are_told(surrogate):
    with pytest.raises(ValueError, match=r"columns of X must be at most 1e\+150 in size"):
        TwoWayPartialAUCClassifier(surrogate=surrogate).fit(X * 1e200, Y)


def test_a_positive_class_that_is_common_is_told():
    with pytest.warns(UserWarning, match="the positive class is 'ok', .* and y == 'fraud' in place of y"):
        PartialAUCClassifier(0.5, anchor=0.1, start="logistic").fit(X, np.where(Y, "fraud", "ok"))


def test_without_time_the_means_of_the_classes_make_a_score():
    with Runs(1e-9) as runs:
        w = anchored.start_model(TABLE, "logistic", runs)
        assert runs.over() is Stop.SECONDS
    assert partial_auc_score(Y, X @ w) > 0.7
    assert partial_auc_score(Y, X @ anchored.apart(X, np.where(Y, 1.0, -1.0), np.ones(Y.size))) > 0.7


def test_ctrl_c_in_the_fit_of_a_start_ends_the_descent(monkeypatch):
    monkeypatch.setattr("xrisk.run.runs.minimize", lambda *a, **k: Interrupted(np.ones(6)))
    with Runs() as runs:
        anchored.start_model(TABLE, "logistic", runs)
        assert runs.over() is Stop.INTERRUPTED


@pytest.mark.slow
def test_a_warm_start_is_not_below_the_last_fit():
    model = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=1e-3, start="logistic", warm_start=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = model.set_params(max_iter=3).fit(X, Y).training_score_
        second = model.set_params(max_iter=4).fit(X, Y).training_score_
    assert second >= first - 1e-9
    assert model.n_iter_ <= 4


def test_a_descent_shows_its_progress(capsys):
    TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.1, start="logistic", verbose=1).fit(X[:300], Y[:300])
    shown = capsys.readouterr().err
    assert "cross-validation" in shown
    assert "descent: objective" in shown
    assert "100%" in shown


@pytest.mark.slow
def test_a_sampled_method_is_certified_too():
    with pytest.warns(ConvergenceWarning, match="the certified relative gap is"):
        model = TwoWayPartialAUCClassifier(
            0.3, 0.5, surrogate="convex", l2=1e-2, solver=xrisk.solvers.STACO1(), max_iter=2000
        ).fit(X, Y)
    assert model.certificate_.relative < np.inf


def test_models_are_saved_and_copied(tmp_path, fitted):
    xrisk.save(fitted, tmp_path / "model.xrisk")
    for model in (xrisk.load(tmp_path / "model.xrisk"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(model.predict_proba(X), fitted.predict_proba(X))
        assert model.set_threshold(max_fpr=0.1).threshold_ == deepcopy(fitted).set_threshold(max_fpr=0.1).threshold_


@pytest.mark.slow
def test_it_is_scored_by_its_own_metric():
    model = TwoWayPartialAUCClassifier(0.5, 0.3, anchor=0.1, start="logistic", random_state=0)
    scores = cross_val_score(model, X, Y, scoring=partial_auc_scorer(min_tpr=0.5, max_fpr=0.3), cv=3)
    assert ((scores > 0.0) & (scores < 1.0)).all()


@pytest.mark.parametrize("ties", [12, 1], ids=["apart", "tied"])
@pytest.mark.parametrize("share", [0.0, 1e-4, 3e-3, 0.1, 0.5, 0.9999, 1.0])
def test_a_thinned_curve_never_exceeds_a_budget_and_is_close_to_it(share, ties, fitted):
    rng = np.random.default_rng(0)
    y = rng.random(50_000) < 0.1
    scores = (rng.standard_normal(y.size) + y).round(ties)
    model = deepcopy(fitted)
    model.roc_fpr_, model.roc_tpr_, model.roc_thresholds_ = calibration.kept_curve(y, scores)
    assert model.roc_fpr_.size < 2100
    alarms = (scores[~y] > model.set_threshold(max_fpr=share).threshold_).mean()
    hits = (scores[y] > model.set_threshold(min_tpr=share).threshold_).mean()
    assert alarms <= share <= hits
    whole = [np.quantile(scores[side], 1.0 - share, method="higher") for side in (~y, y)]
    assert alarms >= 0.95 * (scores[~y] > whole[0]).mean() or (scores[y] > model.threshold_).all()
    assert 1.0 - hits >= 0.95 * (scores[y] < whole[1]).mean() - 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 0.003, 0.2])
def test_the_rows_of_the_curve_keep_the_budget(share, dtype):
    rows, y = table(6000)
    model = PartialAUCClassifier(0.5, surrogate="convex").fit(rows.astype(dtype), y)
    assert model.set_threshold(max_fpr=share).predict(rows.astype(dtype))[~y].mean() <= share
    assert model.set_threshold(min_tpr=share).predict(rows.astype(dtype))[y].mean() >= share


@pytest.mark.parametrize(
    "model",
    [
        TwoWayPartialAUCClassifier(surrogate="logistic", max_seconds=4.0),
        TwoWayPartialAUCClassifier(surrogate="hinge", max_seconds=4.0),
        PrecisionAtKClassifier(max_seconds=4.0),
    ],
    ids=["logistic", "hinge", "precision at k"],
)
def test_a_pass_over_pairs_that_takes_too_long_leaves_the_start(model, monkeypatch):
    """On a clock on which a second passes whenever somebody looks."""
    clock = itertools.count()
    for module in ("xrisk.run.driver", "xrisk.run.runs", "xrisk.estimators.proving"):
        monkeypatch.setattr(f"{module}.now", lambda: float(next(clock)))
    with pytest.warns(ConvergenceWarning, match=r"^the budget of seconds is used up; no gap is certified"):
        model = clone(model).fit(X, Y)
    assert model.stop_ is Stop.SECONDS
    assert not model.coef_.any()
    assert next(clock) < 40


def test_time_that_is_up_in_a_fold_ends_cross_validation(monkeypatch):
    clock = itertools.count()
    for module in ("xrisk.run.driver", "xrisk.run.runs"):
        monkeypatch.setattr(f"{module}.now", lambda: float(next(clock)))
    with pytest.warns(ConvergenceWarning, match=r"^the budget of seconds is used up"):
        model = TwoWayPartialAUCClassifier(0.5, 0.3, max_seconds=200.0, random_state=0).fit(X, Y)
    assert model.stop_ is Stop.SECONDS
    assert model.training_score_ > 0.0
    assert next(clock) < 300


def counted(monkeypatch, name):
    """What a function is called with from now on, call after call."""
    module, _, word = name.rpartition(".")
    function, calls = getattr(importlib.import_module(module), word), []
    monkeypatch.setattr(name, lambda *args, **options: calls.append(args) or function(*args, **options))
    return calls


def test_when_time_is_up_no_model_is_fitted_and_pairs_are_counted_once(monkeypatch):
    fits = counted(monkeypatch, "xrisk.estimators.anchored._logistic")
    clock = itertools.chain([0.0], itertools.repeat(10.0))
    monkeypatch.setattr("xrisk.run.runs.now", lambda: next(clock))
    with pytest.warns(ConvergenceWarning, match=r"^the budget of seconds is used up"):
        model = TwoWayPartialAUCClassifier(0.5, 0.3, max_seconds=1.0, random_state=0).fit(X, Y)
    assert not fits
    assert model.training_score_ == model.start_score_ > 0.0


def test_log_odds_of_many_rows_are_fitted_to_some_of_each_class(monkeypatch):
    rng = np.random.default_rng(0)
    target = np.where(rng.random(20_000) < 0.05, 1.0, -1.0)
    scores = rng.standard_normal(target.size) + target
    whole = calibration.log_odds(scores, target, 0.05)
    sizes, fit = [], LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, X, y: sizes.append(y.size) or fit(self, X, y))
    monkeypatch.setattr(calibration, "CALIBRATED", 900)
    np.testing.assert_allclose(calibration.log_odds(scores, target, 0.05), whole, atol=0.3)
    assert sizes == [1800]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("surrogate", "dtype", "most"),
    [
        ("sigmoid", np.float32, 0.5),
        ("sigmoid", np.float64, 0.3),
        ("convex", np.float32, 0.35),
        ("convex", np.float64, 0.2),
    ],
)
def test_rows_are_not_copied(surrogate, dtype, most):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((100_000, 100), dtype=dtype)
    y = rows[:, 0] + rows[:, 1] + rng.standard_normal(100_000) > 2.5
    model = TwoWayPartialAUCClassifier(surrogate=surrogate, anchor=0.1, start="logistic")
    model.fit(rows[:2000], y[:2000])
    tracemalloc.start()
    model.fit(rows, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < most * rows.nbytes  # some numbers for each row, which has a hundred; a copy would be of float64
