"""What every estimator promises: scikit-learn's contract, tables of every kind, certificates, limits, callbacks.

A newcomer adds a case, and is tested.
"""

import itertools
import operator
import pickle
import signal
import threading
import tracemalloc
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import xrisk
from tests.conftest import table
from xrisk import (
    DROClassifier,
    DRORegressor,
    GroupDROClassifier,
    GroupDRORegressor,
    MeanVariancePortfolio,
    MultiTaskGroupDROClassifier,
    PartialAUCClassifier,
    PNormPushClassifier,
    PolicyEvaluator,
    PrecisionAtKClassifier,
    RobustLogisticRegression,
    Stop,
    TopPushClassifier,
    TwoWayPartialAUCClassifier,
)
from xrisk.certificate import NOTHING_PROVED
from xrisk.functions import CVaRRisk
from xrisk.solvers import ALEXR, Newton

slow = pytest.mark.slow
X, Y, cells = table()
TARGET = X @ np.array([1.0, -2.0, 0.5, 0.0]) + np.where(cells < 2, 2.0, 0.0) * X[:, 0] + np.sin(np.arange(len(X)))

RARE = np.where(np.arange(len(Y)) % 3 == 0, Y, -1)  # fewer positives
CLEAR = np.where(X[:, 0] + X[:, 1] > 1.5, 1, -1)  # a line tells them apart


class Case(NamedTuple):
    """An estimator that fits X in a moment, and what its ``fit`` is given."""

    estimator: Any
    y: np.ndarray = Y
    metadata: dict[str, np.ndarray] = {}  # noqa: RUF012

    def make(self, **options):
        return clone(self.estimator).set_params(**options)

    def fit(self, rows=X, pick=slice(None), **options):
        metadata = {name: values[pick] for name, values in self.metadata.items()}
        return self.make(**options).fit(rows[pick], self.y[pick], **metadata)


GROUPS = {"groups": cells}
CASES = {
    "groups": Case(GroupDROClassifier("max", l2=0.01), metadata=GROUPS),
    "regression": Case(GroupDRORegressor(CVaRRisk(0.4), l2=0.01), TARGET, GROUPS),
    "rows": Case(DROClassifier("kl", strength=0.5, l2=0.01)),
    "rows regression": Case(DRORegressor("cvar", alpha=0.3, l2=0.01), TARGET),
    "robust": Case(RobustLogisticRegression("dropout", l2=0.01)),
    "push": Case(PNormPushClassifier(l2=0.01), RARE),
    "at k": Case(PrecisionAtKClassifier(l2=0.1), RARE),
    "top push": Case(TopPushClassifier(l2=0.01), CLEAR),
    "policy": Case(PolicyEvaluator(0.5, l2=0.01), TARGET),
    "tasks": Case(MultiTaskGroupDROClassifier(l2=0.01), metadata={"tasks": cells // 4, **GROUPS}),
}
CHECKED = [
    GroupDROClassifier(),
    GroupDRORegressor(),
    DROClassifier(),
    DRORegressor(),
    RobustLogisticRegression(),
    PNormPushClassifier(),
    PrecisionAtKClassifier(),
    TopPushClassifier(),
    MultiTaskGroupDROClassifier(),
    PolicyEvaluator(),
    TwoWayPartialAUCClassifier(anchor=0.1, start="logistic"),
    MeanVariancePortfolio(),
]
VARIANTS = [
    GroupDROClassifier(divergence="max"),
    GroupDRORegressor("kl"),
    DROClassifier("kl", strength=1.0),
    DRORegressor("chi2", strength=1.0, outlier_fraction=0.1),
    PolicyEvaluator(l2=0.1),
    PartialAUCClassifier(anchor=0.1, start="balanced"),
    MeanVariancePortfolio(long_only=False, leverage=1.5),
    MeanVariancePortfolio(long_only=False, budget=None, l2=0.1, missing="error"),
]
WEIGHED = ("groups", "regression", "rows", "rows regression", "tasks")

RANKINGS = ("push", "at k", "top push")  # their work grows with pairs: none of the large table, half of it positive


def every(chosen, long=()):
    """Cases as parameters; those in which a fit takes long are slow tests."""
    names = [name for name, case in CASES.items() if chosen(name, case.estimator)]
    cases = [pytest.param(CASES[name], id=name, marks=[slow] if name in long else []) for name in names]
    return pytest.mark.parametrize("case", cases)


every_case = every(lambda name, estimator: True)
every_uncompiled = every(lambda name, estimator: True, long=("at k",))
every_classifier = every(lambda name, estimator: is_classifier(estimator))
every_tight = every(lambda name, estimator: is_classifier(estimator) and name != "top push")  # it separates the rows
every_probability = every(lambda name, estimator: hasattr(estimator, "predict_proba"))
# the weights of a maximum over many negatives are not known from w alone, and 30 sampled steps need not descend
every_but_top_push = every(lambda name, estimator: name != "top push")
every_descending = every(lambda name, estimator: name != "top push", long=("rows", "push", "at k", "tasks"))
# the rows of a residual are new numbers, a quadratic is solved by one Newton step, and there is no score
every_but_policy = every(lambda name, estimator: name != "policy")
every_average = every(lambda name, estimator: name not in RANKINGS)


def scores(model, rows=X):
    return model.decision_function(rows) if is_classifier(model) else model.predict(rows)


@pytest.fixture(scope="module")
def fitted():
    """The fitted model of each case."""
    return {id(case): case.fit() for case in CASES.values()}


@parametrize_with_checks(CHECKED)
def test_scikit_learns_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of checks that ask for one iteration
        warnings.filterwarnings("ignore", "the optimum is a score of zero")  # of labels that are noise
        check(estimator)


@pytest.mark.slow
@parametrize_with_checks(VARIANTS)
def test_scikit_learns_contract_with_other_parameters(estimator, check):
    test_scikit_learns_contract(estimator, check)


@every_case
def test_the_certificate_holds_the_objective(case, fitted):
    model = fitted[id(case)]
    assert model.certificate_.dual <= model.objective_ <= model.certificate_.primal + 1e-12
    assert model.certificate_.relative <= model.tol
    assert model.stop_ is Stop.CONVERGED


@every_case
def test_the_trace_ends_with_the_certificate(case, fitted):
    model = fitted[id(case)]
    last = model.trace_[-1]
    assert last.bound == model.certificate_.dual
    assert last.value == model.objective_ == pytest.approx(model.certificate_.primal, rel=1e-11)
    assert last.iterations == model.n_iter_


@every_case
def test_prediction_needs_a_fit(case):
    with pytest.raises(NotFittedError):
        case.make().predict(X)


@every_classifier
def test_string_labels_are_predicted(case, fitted):
    model = case._replace(y=np.where(case.y > 0, "yes", "no")).fit()
    np.testing.assert_array_equal(model.classes_, ["no", "yes"])
    np.testing.assert_array_equal(model.predict(X) == "yes", fitted[id(case)].predict(X) == 1)


@every_case
def test_frames_keep_their_names(case, fitted):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = case.make().fit(frame, pd.Series(case.y), **{name: pd.Series(v) for name, v in case.metadata.items()})
    np.testing.assert_array_equal(model.feature_names_in_, list("abcd"))
    np.testing.assert_allclose(scores(model, frame), scores(fitted[id(case)]), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])


@every_case
@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csc_matrix, scipy.sparse.csr_array])
def test_sparse_rows_are_the_same_rows(case, fitted, form):
    model = case.make().fit(form(X), case.y, **case.metadata)
    np.testing.assert_allclose(model.coef_, fitted[id(case)].coef_, atol=1e-6)
    np.testing.assert_allclose(scores(model, form(X)), scores(fitted[id(case)]), atol=1e-5)


@every_case
def test_parameters_of_rows_in_single_precision_are_doubles(case, fitted):
    model = case.fit(X.astype(np.float32))
    assert model.coef_.dtype == model.intercept_.dtype == np.float64  # what is certified is not rounded
    np.testing.assert_allclose(model.coef_, fitted[id(case)].coef_, atol=1e-4)


@every_but_policy
def test_single_precision_is_not_copied(case, monkeypatch):
    narrow, held = X.astype(np.float32), []
    monkeypatch.setattr(type(case.estimator), "_solve", lambda self, problem, *others: held.append(problem) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        case.fit(narrow)
    arrays = [part for part in leaves(held[0].inner) if isinstance(part, np.ndarray)]
    assert any(np.shares_memory(part, narrow) for part in arrays)
    assert not any(part.size >= narrow.size for part in arrays if not np.shares_memory(part, narrow))


def leaves(spec):
    for part in spec:
        yield from leaves(part) if isinstance(part, tuple) else [part]


@every_case
def test_a_memory_map_is_the_same_rows(case, fitted, tmp_path):
    np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)[:] = X
    model = case.fit(np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape))
    np.testing.assert_array_equal(model.coef_, fitted[id(case)].coef_)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "dtype"),
    [(CASES["groups"], np.float32), (CASES["groups"], np.float64), (CASES["robust"], np.float64)],
    ids=["groups-float32", "groups-float64", "robust-float64"],
)
def test_a_memory_map_is_not_copied(case, tmp_path, dtype):
    n, d = 200_000_000 // (100 * np.dtype(dtype).itemsize), 100
    rng = np.random.default_rng(0)
    data = np.memmap(tmp_path / "X", dtype=dtype, mode="w+", shape=(n, d))
    for rows in np.array_split(np.arange(n), 20):
        data[rows] = rng.standard_normal((rows.size, d))
    y = np.where(data[:, 0] + rng.standard_normal(n) > 0, 1, -1)
    large = case._replace(y=y, metadata={name: rng.integers(0, 8, n) for name in case.metadata})
    read = np.memmap(tmp_path / "X", dtype=dtype, mode="r", shape=(n, d))
    large.fit(read, slice(5000))  # compiles
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model = large.fit(read)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert model.certificate_.relative <= 1e-3
    assert peak <= 0.2 * read.nbytes


@every_probability
def test_probabilities_add_up_and_go_with_the_scores(case, fitted):
    model = fitted[id(case)]
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(chances), model.predict_log_proba(X))
    np.testing.assert_allclose(np.log(chances[:, 1] / chances[:, 0]), model.decision_function(X))


@every_probability
def test_probabilities_do_not_overflow(case, fitted):
    assert np.isfinite(fitted[id(case)].predict_proba(1e6 * X)).all()
    assert np.isfinite(fitted[id(case)].predict_log_proba(1e6 * X)).all()


@every_uncompiled
@pytest.mark.parametrize("store", ["pickle", "xrisk"])
def test_a_stored_model_is_the_same_model(case, tmp_path, store, plain):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = case.make(solver=ALEXR(), max_iter=10, tol=10.0, random_state=0)
    model.fit(frame, case.y, **case.metadata)
    if store == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        xrisk.save(model, tmp_path / "model.xrisk")
        again = xrisk.load(tmp_path / "model.xrisk")
    assert again.get_params() == model.get_params()
    assert vars(again).keys() == vars(model).keys()
    np.testing.assert_equal(vars(again), vars(model))
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))


@every_case
def test_an_automatic_model_is_stored_with_its_trace(case, tmp_path, fitted):
    xrisk.save(fitted[id(case)], tmp_path / "model.xrisk")
    np.testing.assert_equal(vars(xrisk.load(tmp_path / "model.xrisk")), vars(fitted[id(case)]))


@every_uncompiled
def test_nothing_of_the_data_is_kept_but_weights_and_losses_of_rows(case):
    models = [case.fit(pick=np.tile(np.arange(len(Y)), copies)) for copies in (1, 20)]
    for model in models:
        for name in ("sample_weights_", "sample_losses_", "trace_"):  # the trace has a point for every iteration
            vars(model).pop(name, None)
    sizes = [len(pickle.dumps(model)) for model in models]
    assert sizes[1] - sizes[0] < 400


@every_uncompiled
def test_the_same_seed_gives_the_same_model(case, plain):
    first, second = (case.fit(solver=ALEXR(), max_iter=10, tol=10.0, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)


@every_but_top_push
def test_a_warm_start_at_the_optimum_has_nothing_to_do(case):
    model = case.fit(warm_start=True)
    first = model.coef_
    model.fit(X, case.y, **case.metadata)
    assert [point.phase for point in model.trace_] == ["start"]
    np.testing.assert_array_equal(model.coef_, first)


@every_case
def test_a_warm_start_goes_on_to_a_tighter_gap(case):
    model = case.fit(warm_start=True)
    model.set_params(tol=1e-8).fit(X, case.y, **case.metadata)
    assert model.certificate_.relative <= 1e-8


@every_case
def test_a_warm_start_on_other_columns_starts_afresh(case):
    model = case.fit(warm_start=True)
    model.fit(X[:, :2], case.y, **{name: values % 2 for name, values in case.metadata.items()})
    assert model.coef_.shape[-1] == 2
    assert model.stop_ is Stop.CONVERGED


@every_descending
def test_a_solver_of_ones_own_is_continued_by_a_warm_start(case, plain):
    model = case.make(solver=ALEXR(), max_iter=30, tol=1e-12, warm_start=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"budget of iterations is used up; the certified relative gap is \d"):
        model.fit(X, case.y, **case.metadata)
    first = model.objective_
    with pytest.warns(ConvergenceWarning):
        model.fit(X, case.y, **case.metadata)
    assert model.objective_ < first
    assert np.isfinite(model.certificate_.relative)


@every_but_policy
def test_limits_that_ran_out_are_told_where_fit_is_called(case):
    with pytest.warns(ConvergenceWarning, match="budget of iterations is used up; the certified relative") as seen:
        model = case.make(max_iter=1, tol=1e-9).fit(X, case.y, **case.metadata)
    assert seen[0].filename == __file__
    assert model.stop_ is Stop.ITERATIONS
    assert model.n_iter_ == 1


@every_tight
def test_without_a_penalty_the_warning_says_what_would_help(case):
    with pytest.warns(ConvergenceWarning, match="without a penalty there is no tight bound, l2 > 0 gives one"):
        case.fit(l2=0.0)


@pytest.fixture
def heard():
    """Ctrl-C reaches the process, also where it was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@every_but_policy
def test_ctrl_c_keeps_the_best_model(case, monkeypatch, heard):
    from xrisk.auto.solver import auto_step
    from xrisk.solvers.newton.rows import row_step

    def pressed(problem, solver, state, rng):
        if state.t == 2:
            signal.raise_signal(signal.SIGINT)
        return auto_step(problem, solver, state, rng)

    def pressed_on_rows(task, solver, state):
        if state.t == 2:
            signal.raise_signal(signal.SIGINT)
        return row_step(task, solver, state)

    monkeypatch.setattr("xrisk.auto.solver.auto_step", pressed)
    monkeypatch.setattr("xrisk.solvers.newton.rows.row_step", pressed_on_rows)
    with pytest.warns(ConvergenceWarning, match="interrupted: this is the best point seen so far; the certified"):
        model = case.fit(tol=1e-12)
    assert model.stop_ is Stop.INTERRUPTED
    assert model.objective_ < model.trace_[0].value + 1e-12
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture
def late(monkeypatch):
    """A clock on which an hour passes whenever a run looks."""
    clock = itertools.count(0.0, 3600.0)
    monkeypatch.setattr("xrisk.run.driver.now", lambda: next(clock))


@every_case
@pytest.mark.parametrize(
    "solver",
    [
        pytest.param("auto", id="auto"),
        pytest.param(Newton(), id="newton"),
        pytest.param(ALEXR(), id="alexr", marks=slow),
    ],
)
def test_a_fit_without_time_is_a_model_where_it_started(case, solver, late):
    with pytest.warns(
        ConvergenceWarning, match="seconds is used up; the certified .* the model is where the fit start"
    ):
        model = case.fit(solver=solver, max_seconds=1.0)
    assert model.stop_ is Stop.SECONDS
    assert model.objective_ == model.trace_[0].value
    assert not np.any(model.coef_)
    assert model.predict(X).shape == (len(X),)


@every_case
def test_a_certificate_that_costs_too_much_is_not_tried_after_the_limit(case, late, monkeypatch):
    monkeypatch.setattr("xrisk.estimators.proving.pass_seconds", lambda auto, problem: 10.0)
    with pytest.warns(
        ConvergenceWarning, match="the budget of seconds is used up; no gap is certified, tol is 0.001; "
    ):
        model = case.fit(max_seconds=1.0)
    assert model.certificate_ == NOTHING_PROVED


@every_uncompiled
def test_a_certificate_has_what_is_left_of_the_time(case, monkeypatch, plain):
    clock = itertools.count(0.0, 3600.0)
    monkeypatch.setattr("xrisk.estimators.proving.now", lambda: next(clock))
    with pytest.warns(ConvergenceWarning, match="the budget of iterations is used up; no gap is certified"):
        case.fit(solver=ALEXR(), max_iter=5, max_seconds=1000.0)


@every_uncompiled
def test_ctrl_c_during_the_certificate_keeps_the_model(case, monkeypatch, heard, plain):
    where = "policy.certify_squares" if case is CASES["policy"] else "proving.certify_measured"
    certified = operator.attrgetter(where)(xrisk.estimators)

    def pressed(*args, **options):
        signal.raise_signal(signal.SIGINT)
        return certified(*args, **options)

    monkeypatch.setattr(f"xrisk.estimators.{where}", pressed)
    with pytest.warns(ConvergenceWarning, match="the budget of iterations is used up; no gap is certified"):
        model = case.fit(solver=ALEXR(), max_iter=5)
    assert model.stop_ is Stop.ITERATIONS
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@every_case
def test_a_fit_in_a_thread_is_a_fit(case, fitted):
    model = case.make()
    thread = threading.Thread(target=lambda: model.fit(X, case.y, **case.metadata))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(model.coef_, fitted[id(case)].coef_)


@every_case
def test_a_bar_is_shown_when_asked_for(case, capsys):
    case.fit(verbose=1, max_iter=50, tol=10.0)
    assert "100%" in capsys.readouterr().err


@every_uncompiled
def test_a_bar_of_a_sampled_method_is_shown_when_asked_for(case, capsys, plain):
    case.fit(verbose=1, solver=ALEXR(), max_iter=5, tol=10.0)
    assert "100%" in capsys.readouterr().err


@every_case
def test_nothing_is_shown_unasked(case, capsys):
    case.fit()
    assert capsys.readouterr() == ("", "")


@every_but_policy
def test_a_search_over_a_pipeline_finds_it(case):
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(StandardScaler(), case.make())
        name = type(case.estimator).__name__.lower()
        search = GridSearchCV(model, {f"{name}__l2": [0.01, 0.1]}, cv=2, error_score="raise")
        search.fit(X, case.y, **case.metadata)
    assert search.best_estimator_[-1].certificate_.relative <= 1e-3


@pytest.mark.parametrize("case", [CASES[name] for name in WEIGHED], ids=WEIGHED)
def test_weights_that_are_whole_numbers_repeat_rows(case):
    times = 1 + np.arange(len(Y)) % 3
    weighed = case.make(tol=1e-8).fit(X, case.y, **case.metadata, sample_weight=times)
    repeated = case.fit(pick=np.repeat(np.arange(len(Y)), times), tol=1e-8)
    assert weighed.objective_ == pytest.approx(repeated.objective_, rel=3e-8)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"l2": -1.0}, r"l2 must be finite and not negative, got -1\.0"),
        ({"tol": 0.0}, r"tol must be positive, got 0\.0"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"max_seconds": 0.0}, "max_seconds must be positive"),
        ({"solver": "newton"}, r"solver must be 'auto' or a solver spec such as .*, got 'newton'"),
        ({"solver": 3}, r"solver must be 'auto' or a solver spec such as .*, got 3"),
    ],
)
@every_case
def test_what_is_wrong_is_said_in_one_sentence(case, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        case.fit(**options)


class Listener:
    """A callback that writes down what it is told, and asks for an end at a task if told to."""

    def __init__(self, end=False):
        self.heard, self.models, self.end = [], [], end

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.heard.append(f"end {context.task_name}")
        self.models.append(fitted_estimator.predict(X))
        return self.end


@every_case
def test_callbacks_hear_of_every_certified_point(case, fitted):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    listener = Listener()
    case.make().set_callbacks(listener).fit(X, case.y, **case.metadata)
    points = ["begin stage", "end stage"] * len(fitted[id(case)].trace_)
    assert listener.heard == ["setup", "begin fit", *points, "end fit", "teardown"]
    np.testing.assert_array_equal(listener.models[-1], fitted[id(case)].predict(X))


@every_but_policy
def test_a_callback_may_end_a_fit(case):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = case.make(tol=1e-12).set_callbacks(Listener(end=True)).fit(X, case.y, **case.metadata)
    assert model.n_iter_ <= 3


@every_case
def test_callbacks_are_taken_down_when_a_fit_fails(case, monkeypatch):
    pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    listener = Listener()

    def failing(*args, **options):
        raise ValueError("no more")

    monkeypatch.setattr("xrisk.run.runs.minimize", failing)
    with pytest.raises(ValueError, match="no more"):
        case.make().set_callbacks(listener).fit(X, case.y, **case.metadata)
    assert listener.heard == ["setup", "begin fit", "teardown"]


@every_classifier
def test_callbacks_of_scikit_learn_work(case):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn has callbacks from 1.9 on")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = case.make().set_callbacks(monitor).fit(X, case.y, **case.metadata)
    assert monitor.get_logs().data[-1]["accuracy"] == pytest.approx(model.score(X, case.y))
