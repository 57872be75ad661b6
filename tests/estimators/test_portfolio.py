"""MeanVariancePortfolio: against closed form and cvxpy on generated and real returns, missing and hostile ones."""

import pickle
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

import xrisk
from tests.functions.test_penalty import modelled, solve
from xrisk import MeanVariancePortfolio, Stop
from xrisk.applications.portfolio import portfolio_domain
from xrisk.datasets import find_file, load_french, make_returns
from xrisk.datasets.french import FILES
from xrisk.solvers import ALEXR, Auto

RETURNS = 100.0 * make_returns(200, 8, random_state=0).returns
COMBINATIONS = {
    "long": {},
    "long-leverage": {"leverage": 2.0},
    "long-only": {"budget": None},
    "long-limit": {"budget": None, "leverage": 0.5},
    "free": {"long_only": False, "budget": None},
    "gross": {"long_only": False, "budget": None, "leverage": 1.2},
    "budget": {"long_only": False},
    "budget-gross": {"long_only": False, "leverage": 1.4},
    "neutral": {"long_only": False, "budget": 0.0, "leverage": 1.0},
    "short": {"long_only": False, "budget": -1.0, "leverage": 1.5},
}
combination = pytest.mark.parametrize("asked", COMBINATIONS.values(), ids=COMBINATIONS)


def real(name):
    if find_file(FILES[name]) is None:
        pytest.skip(f"{FILES[name]} is not there")
    return load_french(name).returns


def optimum(returns, model):
    """cvxpy's optimum of the objective of a model."""
    X = returns - returns.mean(axis=0)
    w = cp.Variable(X.shape[1])
    risk = model.risk_aversion * cp.sum_squares(X @ w) / len(X) + 0.5 * model.l2 * cp.sum_squares(w)
    domain = portfolio_domain(model.long_only, model.budget, model.leverage)
    constraints = [] if domain is None else modelled(domain, w)[1]
    return solve(cp.Problem(cp.Minimize(risk - returns.mean(axis=0) @ w), constraints)).value


def assert_best(model, returns):
    known, best = model.certificate_, optimum(returns, model)
    slack = 1e-5 * max(abs(best), 1e-3)
    assert model.stop_ is Stop.CONVERGED
    assert known.relative <= model.tol
    assert known.dual - slack <= best <= known.primal + slack
    assert model.objective_ == pytest.approx(best, abs=slack)


@combination
@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_the_optimum_is_that_of_cvxpy(asked, l2):
    assert_best(MeanVariancePortfolio(0.1, l2=l2, **asked).fit(RETURNS), RETURNS)


@combination
@pytest.mark.parametrize("name", ["25-monthly", "industry30-monthly"])
def test_the_optimum_on_real_returns_is_that_of_cvxpy(asked, name):
    returns = real(name)
    assert_best(MeanVariancePortfolio(0.05, **asked).fit(returns), returns)


@pytest.mark.parametrize("missing", ["rows", "assets"])
@pytest.mark.parametrize("name", ["100-monthly", "industry49-monthly"])
def test_the_optimum_with_missing_returns_is_that_of_what_is_left(missing, name):
    returns = real(name)
    gaps = np.isnan(returns)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = MeanVariancePortfolio(0.05, missing=missing).fit(returns)
    if missing == "rows":
        assert f"{gaps.any(axis=1).sum()} of {len(returns)} periods have missing returns" in str(said[0].message)
    left = returns[~gaps.any(axis=1)] if missing == "rows" else returns[:, ~gaps.any(axis=0)]
    assert len(model.left_out_) == returns.shape[1] - left.shape[1]
    assert_best(model, left)


@combination
def test_the_weights_are_in_the_domain(asked):
    w = MeanVariancePortfolio(0.1, **asked).fit(RETURNS).weights_
    asked = {"long_only": True, "budget": 1.0, "leverage": None, **asked}
    assert w.min() >= 0.0 or not asked["long_only"]
    assert asked["budget"] is None or w.sum() == pytest.approx(asked["budget"], abs=1e-12)
    assert asked["leverage"] is None or np.abs(w).sum() <= asked["leverage"] * (1 + 1e-12)


def test_without_a_domain_it_is_the_closed_form():
    model = MeanVariancePortfolio(0.3, long_only=False, budget=None).fit(RETURNS)
    np.testing.assert_allclose(
        model.weights_, np.linalg.solve(0.6 * np.cov(RETURNS.T, bias=True), RETURNS.mean(axis=0)), rtol=1e-8
    )


def test_what_is_fitted_belongs_together():
    model = MeanVariancePortfolio(0.1).fit(RETURNS)
    found = model.predict(RETURNS)
    np.testing.assert_allclose(found, RETURNS @ model.weights_)
    assert model.expected_return_ == pytest.approx(found.mean())
    assert model.variance_ == pytest.approx(found.var())
    assert model.score(RETURNS) == pytest.approx(-model.objective_)
    assert model.trace_[-1].bound == model.certificate_.dual
    np.testing.assert_allclose(model.mean_, RETURNS.mean(axis=0))


@combination
def test_a_tight_tolerance_is_reached(asked):
    assert MeanVariancePortfolio(0.1, tol=1e-8, **asked).fit(RETURNS).certificate_.relative <= 1e-8


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e6, 1e12])
@pytest.mark.parametrize("asked", [COMBINATIONS["long"], COMBINATIONS["budget-gross"], COMBINATIONS["free"]], ids=str)
def test_the_scale_of_the_returns_does_not_matter(asked, scale):
    model = MeanVariancePortfolio(0.1 / scale, **asked).fit(scale * RETURNS)
    plain = MeanVariancePortfolio(0.1, **asked).fit(RETURNS)
    np.testing.assert_allclose(model.weights_, plain.weights_, atol=1e-6)


@pytest.mark.parametrize("asked", [COMBINATIONS["long"], COMBINATIONS["gross"], COMBINATIONS["neutral"]], ids=str)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 9])
def test_fewer_periods_than_assets_are_solved(asked, n):
    assert_best(MeanVariancePortfolio(0.1, **asked).fit(RETURNS[:n]), RETURNS[:n])


@pytest.mark.parametrize("asked", [COMBINATIONS["free"], COMBINATIONS["budget"]], ids=str)
def test_no_optimum_is_said_with_what_would_help(asked):
    with pytest.raises(ValueError, match=r"no optimum: some portfolio without variance .* l2 > 0, leverage, or a bud"):
        MeanVariancePortfolio(0.1, **asked).fit(RETURNS[:5])


@pytest.mark.parametrize("asked", [COMBINATIONS["free"], COMBINATIONS["budget"]], ids=str)
def test_a_penalty_gives_it_an_optimum(asked):
    assert_best(MeanVariancePortfolio(0.1, l2=0.1, **asked).fit(RETURNS[:5]), RETURNS[:5])


def test_one_asset_gets_the_budget():
    assert MeanVariancePortfolio(budget=2.0).fit(RETURNS[:, :1]).weights_.tolist() == [2.0]


@combination
def test_equal_assets_share_or_not_but_the_optimum_is_the_same(asked):
    twice, options = np.column_stack([RETURNS[:, :3], RETURNS[:, :3]]), {"l2": 0.1, **asked}
    assert_best(MeanVariancePortfolio(0.1, **options).fit(twice), twice)


def test_constant_returns_are_a_choice_of_the_best():
    model = MeanVariancePortfolio().fit(np.tile([1.0, 3.0, 2.0], (5, 1)))
    np.testing.assert_allclose(model.weights_, [0.0, 1.0, 0.0], atol=1e-12)


def test_returns_of_zero_have_an_optimum_of_zero():
    model = MeanVariancePortfolio(long_only=False, budget=None, leverage=1.0).fit(RETURNS - RETURNS.mean(axis=0))
    assert model.stop_ is Stop.OPTIMAL  # of a gap relative to zero nothing can be said
    assert model.objective_ == pytest.approx(0.0, abs=1e-12)


def test_means_below_zero_leave_nothing_to_hold():
    for options in ({"leverage": 1.0}, {}, {"l2": 0.1}):
        model = MeanVariancePortfolio(budget=None, **options).fit(RETURNS - RETURNS.mean(axis=0) - 1.0)
        assert model.stop_ is Stop.CONVERGED
        np.testing.assert_array_equal(model.weights_, 0.0)


@pytest.mark.parametrize("l2", [0.0, 1.0])
def test_returns_that_are_all_zero_leave_nothing_to_hold(l2):
    model = MeanVariancePortfolio(budget=None, l2=l2).fit(np.zeros((9, 4)))
    np.testing.assert_array_equal(model.weights_, 0.0)
    assert model.certificate_.gap == 0.0


@pytest.mark.parametrize("scale", [1e-150, 1e100, 1e150])
def test_returns_whose_squares_are_far_from_one_are_fitted_without_a_warning(scale):
    model = MeanVariancePortfolio(0.1 / scale).fit(scale * RETURNS)
    np.testing.assert_allclose(model.weights_, MeanVariancePortfolio(0.1).fit(RETURNS).weights_, atol=1e-6)


def test_masked_returns_are_missing_returns():
    gappy = with_gap()
    with pytest.warns(UserWarning, match="1 of 200 periods have missing returns and were left out"):
        model = MeanVariancePortfolio(0.1).fit(np.ma.masked_array(RETURNS, np.isnan(gappy)))
    with pytest.warns(UserWarning, match="1 of 200 periods"):
        np.testing.assert_array_equal(model.weights_, MeanVariancePortfolio(0.1).fit(gappy).weights_)


def test_a_column_of_dates_is_told_to_be_the_index():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    dates = pd.date_range("2000-01-31", periods=200)
    frame = pd.DataFrame(RETURNS, columns=[f"fund {j}" for j in range(8)])
    with pytest.raises(ValueError, match="X must hold returns alone, got a column of dates: make it the index"):
        MeanVariancePortfolio(0.1).fit(frame.assign(date=dates))
    assert MeanVariancePortfolio(0.1).fit(frame.set_index(dates)).stop_ is Stop.CONVERGED


def test_a_limit_too_far_to_be_reached_leaves_a_proof_by_the_curvature():
    model = MeanVariancePortfolio(0.1, long_only=False, leverage=1e300).fit(RETURNS)
    assert model.certificate_.relative <= 1e-9


def test_a_limit_too_far_to_prove_anything_is_told_to_be_smaller():
    twice = 7e4 + np.column_stack([RETURNS[:, :3], RETURNS[:, :3]])
    with pytest.warns(ConvergenceWarning, match="relative gap is 1, .* a smaller leverage, a larger l2"):
        MeanVariancePortfolio(0.1, long_only=False, budget=0.0, leverage=1e12).fit(twice)


def shapes(tmp_path):
    wide = np.repeat(RETURNS, 2, axis=1)
    frozen = RETURNS.copy()
    frozen.flags.writeable = False
    np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=RETURNS.shape)[:] = RETURNS
    mapped = np.memmap(tmp_path / "X", dtype=float, mode="r", shape=RETURNS.shape)
    return [wide[:, ::2], np.asfortranarray(RETURNS), frozen, mapped, RETURNS.tolist(), RETURNS.astype(object)]


def test_returns_may_be_stored_in_any_way(tmp_path):
    plain = MeanVariancePortfolio(0.1).fit(RETURNS).weights_
    for stored in shapes(tmp_path):
        np.testing.assert_allclose(MeanVariancePortfolio(0.1).fit(stored).weights_, plain, atol=1e-9)


def test_single_precision_and_whole_numbers_are_taken():
    plain = MeanVariancePortfolio(0.1).fit(RETURNS).weights_
    np.testing.assert_allclose(MeanVariancePortfolio(0.1).fit(RETURNS.astype(np.float32)).weights_, plain, atol=1e-5)
    assert MeanVariancePortfolio(0.1).fit(RETURNS.astype(int)).stop_ is Stop.CONVERGED


def test_names_of_columns_name_what_is_left_out():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame(RETURNS, columns=[f"fund {j}" for j in range(8)])
    frame.iloc[3, 2] = np.nan
    model = MeanVariancePortfolio(0.1, missing="assets").fit(frame)
    assert model.left_out_ == ("fund 2",)
    assert model.weights_[2] == 0.0
    assert np.isfinite(model.predict(frame)).all()


def with_gap(row=3, column=2):
    gappy = RETURNS.copy()
    gappy[row, column] = np.nan
    return gappy


def test_a_missing_return_of_an_asset_that_is_held_is_told():
    model = MeanVariancePortfolio(0.1).fit(RETURNS)
    held, other = int(np.argmax(model.weights_)), int(np.argmin(model.weights_))
    assert model.weights_[other] == 0.0
    assert np.isfinite(model.predict(with_gap(column=other))).all()
    with pytest.warns(UserWarning, match=rf"return of x{held} or another asset with a weight is missing in 1 of 200"):
        found = model.predict(with_gap(column=held))
    assert np.flatnonzero(np.isnan(found)).tolist() == [3]
    with pytest.warns(UserWarning, match="is NaN there"):
        assert np.isfinite(model.score(with_gap(column=held)))


WRONG = [
    ({"missing": "error"}, with_gap(), "no missing returns where missing='error', NaN is in 1 of 200 periods"),
    ({"missing": "some"}, RETURNS, "missing must be one of rows, assets, error, got 'some'"),
    ({}, np.full((4, 2), np.nan), "X must have a period without missing returns, all 4 have one: missing='assets'"),
    ({"missing": "assets"}, np.full((4, 2), np.nan), "X must have an asset without missing returns"),
    ({}, np.full((4, 2), np.inf), "infinity"),
    ({}, np.array([[1e200, 1.0], [-1e200, 2.0]]), "X must have returns whose squares are finite: scale them down"),
    ({}, np.array([["a", "b"]]), "could not convert|dtype"),
    ({"risk_aversion": -1.0}, RETURNS, "risk_aversion must be positive, got -1.0"),
    ({"leverage": 0.5}, RETURNS, r"leverage must be at least \|budget\|=1.0, got 0.5"),
    ({"budget": 1e200}, RETURNS, r"budget must be smaller, for the objective to be finite, got 1e\+200"),
    ({"budget": -1.0}, RETURNS, "budget must be positive where long_only=True"),
    ({"l2": -0.1}, RETURNS, "l2 must be finite and not negative"),
    ({"tol": 0.0}, RETURNS, "tol must be positive"),
]


@pytest.mark.parametrize(("options", "returns", "sentence"), WRONG, ids=[sentence[:40] for _, _, sentence in WRONG])
def test_what_is_wrong_is_said_in_one_sentence(options, returns, sentence):
    with pytest.raises(ValueError, match=sentence):
        MeanVariancePortfolio(**options).fit(returns)


def test_sparse_returns_and_flags_of_another_kind_are_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        MeanVariancePortfolio().fit(scipy.sparse.csr_array(RETURNS))
    with pytest.raises(TypeError, match="long_only must be True or False, got 'no'"):
        MeanVariancePortfolio(long_only="no").fit(RETURNS)


def test_weights_of_periods_repeat_them():
    times = np.arange(200) % 3
    weighed = MeanVariancePortfolio(0.1, tol=1e-9).fit(RETURNS, sample_weight=times)
    repeated = MeanVariancePortfolio(0.1, tol=1e-9).fit(np.repeat(RETURNS, times, axis=0))
    np.testing.assert_allclose(weighed.weights_, repeated.weights_, atol=1e-7)
    with pytest.raises(ValueError, match="Sample weights must contain at least one non-zero number"):
        MeanVariancePortfolio().fit(RETURNS, sample_weight=np.zeros(200))
    with pytest.raises(ValueError, match="sample_weight needs solver='auto'"):
        MeanVariancePortfolio(solver=ALEXR()).fit(RETURNS, sample_weight=np.ones(200))


@pytest.mark.parametrize("asked", [COMBINATIONS["long"], COMBINATIONS["budget"], COMBINATIONS["free"]], ids=str)
def test_a_solver_of_ones_own_finds_the_same(asked):
    options = {"l2": 0.5, **asked}
    model = MeanVariancePortfolio(0.1, solver=Auto(1e-8), **options).fit(RETURNS)
    np.testing.assert_allclose(model.weights_, MeanVariancePortfolio(0.1, **options).fit(RETURNS).weights_, atol=1e-4)


def test_a_sampled_solver_runs(plain):
    with pytest.warns(ConvergenceWarning, match="the budget of iterations is used up; the certified relative gap"):
        model = MeanVariancePortfolio(0.1, l2=0.5, solver=ALEXR(), max_iter=50, random_state=0).fit(RETURNS)
    assert model.weights_.sum() == pytest.approx(1.0)


def test_a_search_chooses_the_penalty():
    search = GridSearchCV(MeanVariancePortfolio(0.1, long_only=False), {"l2": [0.0, 1.0, 100.0]}, cv=KFold(4))
    search.fit(RETURNS)
    assert search.best_params_["l2"] in (0.0, 1.0, 100.0)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize("store", ["pickle", "xrisk"])
def test_a_stored_portfolio_is_the_same(store, tmp_path):
    model = MeanVariancePortfolio(0.1, long_only=False, leverage=1.3).fit(RETURNS)
    if store == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        xrisk.save(model, tmp_path / "portfolio.xrisk")
        again = xrisk.load(tmp_path / "portfolio.xrisk")
    np.testing.assert_equal(vars(again), vars(model))
    np.testing.assert_array_equal(again.predict(RETURNS), model.predict(RETURNS))


def test_a_warm_start_ends_where_it_was():
    model = MeanVariancePortfolio(0.1, warm_start=True).fit(RETURNS)
    first = model.weights_
    np.testing.assert_allclose(model.fit(RETURNS).weights_, first, atol=1e-10)
    assert model.fit(RETURNS[:, :3]).weights_.shape == (3,)


@pytest.mark.slow
def test_a_memory_map_is_not_copied(tmp_path):
    import tracemalloc

    n, d = 200_000, 100
    data = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(n, d))
    data[:] = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    read = np.memmap(tmp_path / "X", dtype=np.float32, mode="r", shape=(n, d))
    MeanVariancePortfolio().fit(RETURNS)
    tracemalloc.start()
    MeanVariancePortfolio().fit(read)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 2 * read.nbytes


def with_cash(rate=0.004):
    returns = np.random.default_rng(0).normal(0.01, 0.05, (60, 4))
    returns[:, 2] = rate  # sixty times 0.004 do not sum to 60 · 0.004
    return returns


@pytest.mark.parametrize("limits", [{}, {"long_only": False, "leverage": 2.0}, {"budget": None, "leverage": 2.0}])
def test_an_asset_of_constant_returns_leaves_the_portfolio_optimal(limits):
    portfolio = MeanVariancePortfolio(5.0, **limits).fit(with_cash())
    assert portfolio.certificate_.relative <= 1e-6


def test_constant_returns_without_a_limit_have_no_optimum():
    with pytest.raises(ValueError, match="no optimum"):
        MeanVariancePortfolio(5.0, budget=None).fit(with_cash())


def test_a_limit_that_is_far_away_does_not_end_the_fit_at_its_start():
    returns = np.random.default_rng(0).normal(0.01, 0.05, (60, 4))
    free = MeanVariancePortfolio(5.0, long_only=False, budget=None).fit(returns)
    far = MeanVariancePortfolio(5.0, long_only=False, budget=None, leverage=1e15).fit(returns)
    np.testing.assert_allclose(far.weights_, free.weights_, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e308, 1e-310])
def test_the_scale_of_the_weights_of_periods_does_not_matter(scale):
    returns = np.random.default_rng(0).normal(0.01, 0.05, (60, 4))
    weighted = MeanVariancePortfolio().fit(returns, sample_weight=np.full(60, scale))
    np.testing.assert_allclose(weighted.weights_, MeanVariancePortfolio().fit(returns).weights_, atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the budget of iterations")
def test_a_solver_for_single_samples_gets_exact_deviations():
    returns = np.random.default_rng(0).normal(0.01, 0.05, (60, 4))
    fitted = MeanVariancePortfolio(5.0, solver=xrisk.solvers.SPDC(), max_iter=10, random_state=0).fit(returns)
    assert fitted.n_iter_ == 10


def test_a_class_is_no_solver():
    with pytest.raises(ValueError, match="solver must be 'auto' or a solver spec"):
        MeanVariancePortfolio(solver=xrisk.solvers.ALEXR).fit(with_cash())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_returns_far_from_zero_do_not_keep_a_fit_from_ending():
    returns = 7e4 + np.random.default_rng(4).normal(0.005, 0.05, (60, 6))
    portfolio = MeanVariancePortfolio(long_only=False, budget=0.0, leverage=1.5, l2=0.1, max_iter=1000).fit(returns)
    assert portfolio.stop_ is not Stop.ITERATIONS


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("asked", [COMBINATIONS["free"], COMBINATIONS["budget"]], ids=["free", "budget"])
def test_a_portfolio_that_only_rounding_keeps_from_being_without_limit_is_refused(asked, dtype):
    returns = np.random.default_rng(0).normal(0.01, 0.05, (60, 4))
    twin = np.column_stack([returns, returns[:, 0] + 0.001]).astype(dtype)  # the same, and a sure gain
    with pytest.raises(ValueError, match="no optimum: some portfolio without variance up to rounding"):
        MeanVariancePortfolio(**asked, max_iter=3000).fit(twin)
