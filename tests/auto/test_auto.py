"""The solver without step sizes: certified or honest on every kind of data, with and without Newton's method."""

import itertools

import numpy as np
import pytest
import scipy.sparse

import xrisk
import xrisk.functions as fn
from tests.conftest import table
from xrisk import Budget, Stop, datasets
from xrisk.auto import Auto, planned, staging
from xrisk.datasets import make_groups
from xrisk.inner import group_passes, inner_samples
from xrisk.inner.passes import walk_apart
from xrisk.solvers import CompositeNewton, Newton, SmoothedLBFGS
from xrisk.solvers.newton import composite
from xrisk.solvers.newton.smoothed import smoothed_problem

here = pytest.mark.skipif(
    datasets.find_file("adult_train.csv.gz") is None, reason="no adult_train.csv.gz in XRISK_DATA or ../shared/data"
)
woods = pytest.mark.skipif(
    datasets.find_file("covtype.npz") is None, reason="no covtype.npz in XRISK_DATA or ../shared/data"
)

X, Y, cells = table(n=400, d=5, groups=5)
NUMBERS = X @ np.arange(5.0) + np.where(cells < 2, 3.0, 0.0) * X[:, 1] + np.sin(np.arange(len(X)))


def one_column_larger():
    larger = X.copy()
    larger[:, 0] *= 1e6
    return larger


def wide():
    return np.random.default_rng(1).standard_normal((60, 120))


def separable():
    return X + np.outer(Y, [3.0, 0.0, 0.0, 0.0, 0.0])


def classes(n_classes):
    return (X[:, :1] + 0.3 * np.sin(np.outer(np.arange(len(X)), np.arange(n_classes)))).argmax(axis=1) % n_classes


CASES = {
    "cvar": (X, Y, {"divergence": "cvar", "alpha": 0.4}),
    "chi2": (X, Y, {"divergence": "chi2"}),
    "kl": (X, Y, {"divergence": "kl", "lam": 0.1}),
    "unscaled": (1e6 * X, Y, {}),
    "one column unscaled": (one_column_larger(), Y, {}),
    "tiny": (1e-6 * X, Y, {}),
    "more columns than rows": (wide(), Y[:60], {}),
    "more columns than rows, hinge": (wide(), Y[:60], {"loss": "hinge"}),
    "separable": (separable(), Y, {}),
    "separable, little penalty": (separable(), Y, {"l2": 1e-8}),
    "l1": (X, Y, {"l1": 0.02, "l2": 0.0}),
    "elastic net": (X, Y, {"l1": 0.02}),
    "l1, unscaled": (1e6 * X, Y, {"l1": 0.02}),
    "hinge": (X, Y, {"loss": "hinge"}),
    "hinge, unscaled": (1e6 * X, Y, {"loss": "hinge"}),
    "absolute": (X, NUMBERS, {"loss": "absolute"}),
    "squared": (X, NUMBERS, {"loss": "squared"}),
    "squared, unscaled": (1e6 * X, NUMBERS, {"loss": "squared"}),
    "squared, large targets": (X, 1e6 * NUMBERS, {"loss": "squared"}),
    "three classes": (X, np.arange(len(X)) % 3, {"loss": "multinomial"}),
    "ten classes": (X, np.arange(len(X)) % 10, {"loss": "multinomial"}),
    "sparse": (scipy.sparse.csr_array(X * (X > 0.5)), Y, {}),
    "float32": (X.astype(np.float32), Y, {}),
}


def stated(X, y, groups=None, **options):
    groups = cells[: len(y)] if groups is None else groups
    return xrisk.group_dro(X, y, groups, **{"divergence": "max", "l2": 1e-3, "fit_intercept": True, **options})


def solved(problem, tol=1e-3, w0=None, iterations=10_000, **options):
    """The result of `Auto`; the fields of it are options."""
    return xrisk.minimize(problem, Auto(tol, **options), w0, budget=Budget(iterations=iterations))


ALWAYS_LBFGS = {"newton_steps": 1e30, "composite_steps": 1e30}


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_data_ends_certified(name):
    data, y, options = CASES[name]
    result = solved(stated(data, y, **options))
    assert result.stop is Stop.CONVERGED
    assert result.certificate.relative <= 1e-3


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_data_ends_certified_without_a_matrix(name):
    data, y, options = CASES[name]
    assert solved(stated(data, y, **options), **ALWAYS_LBFGS).certificate.relative <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("scale", [[1e6] * 5, [1e6, 1, 1, 1, 1]], ids=["all columns", "one column"])
def test_unscaled_columns_end_certified_whatever_the_seed(scale, loss, seed):
    data, y, groups = table(n=400, d=5, groups=5, seed=seed)
    assert solved(stated(data * np.array(scale), y, groups, loss=loss)).stop is Stop.CONVERGED


@pytest.mark.parametrize("n_groups", [2, 10, 100, 1000])
def test_any_number_of_groups_ends_certified(n_groups):
    crowd = make_groups(n_groups, n=max(500, 4 * n_groups), n_features=4, random_state=0)
    assert solved(stated(*crowd[:3], divergence="cvar", alpha=0.1)).certificate.relative <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["cvar", "max"])
def test_ten_thousand_groups_end_certified(divergence):
    crowd = make_groups(10_000, n=50_000, random_state=0)
    assert solved(stated(*crowd[:3], divergence=divergence)).certificate.relative <= 1e-3


@here
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.15, 0.2, 0.25])
def test_adult_ends_certified(alpha):
    adult = datasets.load_adult()
    assert solved(stated(*adult[:3], divergence="cvar", alpha=alpha)).certificate.relative <= 1e-3


@woods
@pytest.mark.slow
def test_covertype_by_wilderness_area_ends_certified():
    trees = datasets.load_covtype()
    y = np.unique(trees.y, return_inverse=True)[1]
    problem = stated(trees.X, np.where(y == 1, 1, -1), trees.groups)
    assert solved(problem).certificate.relative <= 1e-3


def test_without_a_penalty_the_end_is_honest():
    result = solved(stated(X, Y, l2=0.0))
    assert result.stop is Stop.ROUNDING
    assert result.certificate.relative > 1e-3


def test_a_perfect_fit_is_good_enough():
    result = solved(stated(X, np.full(len(X), 2.0), loss="squared"))
    assert result.stop is Stop.PERFECT
    assert result.value < 1e-10


def many(n, divergence="cvar", **options):
    table = make_groups(12, n=n, n_features=6, random_state=0)
    return stated(*table[:3], divergence=divergence, alpha=0.25, l2=0.01, **options)


def test_samples_of_the_rows_are_solved_first():
    problem = many(50_000, "max")
    sampled = solved(problem, least_speedup=0.0, **ALWAYS_LBFGS)
    whole = solved(problem, shares=(), **ALWAYS_LBFGS)
    assert sampled.stop is whole.stop is Stop.CONVERGED
    assert not planned(problem, Auto(least_speedup=0.0)).stages[0].on_all_rows
    assert sampled.progress.iterations > whole.progress.iterations
    assert sampled.progress.gradients < whole.progress.gradients


def test_the_method_is_chosen_by_its_cost():
    narrow, wide = (
        many(3000),
        stated(np.random.default_rng(0).standard_normal((300, 2000)), np.resize(Y, 300), np.arange(300) % 5),
    )
    assert isinstance(planned(narrow, Auto()).stages[0].solver, CompositeNewton)
    assert isinstance(planned(many(3000, loss="hinge"), Auto()).stages[0].solver, Newton)
    assert isinstance(planned(wide, Auto()).stages[0].solver, SmoothedLBFGS)


@pytest.mark.slow
def test_more_variables_than_a_matrix_holds_end_certified():
    rng = np.random.default_rng(0)
    rows = scipy.sparse.random_array((400, 1_000_000), density=2e-5, format="csr", rng=rng)
    result = solved(stated(rows, Y, l2=0.01))
    assert result.stop is Stop.CONVERGED


@pytest.mark.slow
def test_where_lbfgs_ends_short_newton_goes_on():
    result = solved(stated(X, Y, loss="hinge", l2=1e-6), tol=1e-10, **ALWAYS_LBFGS)
    assert result.certificate.relative <= 1e-8
    assert result.trace.points[-1].phase == "newton"


def test_the_same_problem_gives_the_same_run():
    first, second = solved(many(30_000)), solved(many(30_000))
    np.testing.assert_array_equal(first.w, second.w)
    assert first.certificate == second.certificate


@pytest.mark.parametrize("most", [1, 2, 5])
def test_iterations_are_no_more_than_allowed(most):
    result = solved(stated(X, Y), tol=1e-12, iterations=most)
    assert result.stop is Stop.ITERATIONS
    assert result.progress.iterations <= most
    assert np.isfinite(result.value)


def test_seconds_are_a_limit():
    problem = many(30_000)
    solved(problem)  # compiles
    result = xrisk.minimize(problem, Auto(1e-13), budget=Budget(seconds=0.02))
    assert result.stop in (Stop.SECONDS, Stop.ROUNDING)
    assert result.progress.seconds < 2.0


SAMPLES = {"least_speedup": 0.0, "least_rows": 100, **ALWAYS_LBFGS}


def test_a_run_that_ends_on_a_sample_has_its_solution():
    problem = many(20_000)
    result = solved(problem, iterations=3, **SAMPLES)
    assert result.value == problem.value(result.w) < problem.value(np.zeros(7))
    assert result.slopes is None
    assert xrisk.certify(problem, result).primal >= result.value


def test_all_rows_are_left_alone_while_a_sample_is_solved(monkeypatch):
    prepared = []

    def counting(problem):
        prepared.append(inner_samples(problem.inner))
        return smoothed_problem(problem)

    monkeypatch.setattr("xrisk.auto.choice.smoothed_problem", counting)
    solved(many(3000), iterations=2, **SAMPLES)
    assert len(prepared) == 1
    assert prepared[0] < 1000


@pytest.mark.parametrize("method", [ALWAYS_LBFGS, {}], ids=["lbfgs", "composite"])
@pytest.mark.parametrize("warm", [False, True])
def test_passes_told_equal_counted_ones(monkeypatch, warm, method):
    made = [0]

    def counting(function, more):
        def counted(*args):
            made[0] += more
            return function(*args)

        return counted

    w0 = solved(stated(X, Y)).w if warm else None
    monkeypatch.setattr(group_passes, "_walk", counting(group_passes._walk, 1))
    monkeypatch.setattr(group_passes, "group_adjoint", counting(group_passes.group_adjoint, 1))
    monkeypatch.setattr(composite, "walk_apart", counting(walk_apart, -1))  # values that are not asked for again
    result = solved(stated(X, Y), tol=1e-6, w0=w0, **method)
    assert result.stop is Stop.CONVERGED
    assert result.progress.oracle_calls == len(X) * made[0]


def test_a_tolerance_that_no_proof_can_reach_ends_at_the_best_point():
    result = solved(stated(X, Y), tol=1e-16)
    assert result.stop is Stop.ROUNDING
    assert result.certificate.relative < 1e-8


def test_the_objective_falls_along_the_trace():
    trace = solved(stated(X, Y), tol=1e-6).trace.points
    assert all(a.seconds <= b.seconds and a.iterations < b.iterations for a, b in itertools.pairwise(trace))
    assert all(a.bound <= b.bound for a, b in itertools.pairwise(trace))
    assert trace[-1].value == min(point.value for point in trace)
    assert trace[-1].bound > -np.inf


def test_the_certificate_is_that_of_the_point():
    problem = stated(X, Y)
    best = xrisk.solvers.exact(problem)
    again = solved(problem, w0=best.w)
    assert problem.value(again.w) <= again.certificate.primal <= problem.value(again.w) * (1.0 + 1e-11)


def test_until_ends_the_search():
    result = xrisk.minimize(stated(X, Y), Auto(1e-9), budget=Budget(iterations=100), until=lambda seen: True)
    assert result.stop is Stop.UNTIL


def test_a_certified_start_is_the_end():
    best = solved(stated(X, Y), tol=1e-6)
    again = solved(stated(X, Y), tol=1e-5, w0=best.w, weights=best.dual)
    assert again.progress.iterations == 0
    assert again.stop is Stop.CONVERGED


SECONDS = 1.6e9 + 3e7 * np.random.default_rng(3).standard_normal(400)
IDENTITIES = np.random.default_rng(4).integers(10**8, 10**9, 400).astype(float)


@pytest.mark.parametrize(
    "column", [SECONDS, IDENTITIES, np.full(400, 7e8), 1e-9 * SECONDS], ids=["seconds", "ids", "constant", "far"]
)
@pytest.mark.parametrize(
    "options", [{}, {"loss": "hinge"}, {"divergence": "kl", "lam": 0.1}, {"divergence": "cvar", "alpha": 0.4}]
)
def test_columns_of_any_scale_and_offset_end_certified(column, options):
    assert solved(stated(np.column_stack([X, column]), Y, **options)).stop is Stop.CONVERGED


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", [{}, {"loss": "hinge"}, {"divergence": "kl"}])
def test_few_columns_of_unlike_scales_end_certified(options, seed):
    rng = np.random.default_rng(seed)
    one, groups = rng.standard_normal(600), rng.integers(0, 4, 600)
    y = np.where(one + 0.5 * rng.standard_normal(600) > 0, 1, -1)
    data = np.column_stack([rng.normal(1.6e9, 3e7, 600), one])  # so few that a Hessian is first made of some rows
    result = solved(stated(data, y, groups, **options))
    assert result.stop is Stop.CONVERGED
    assert result.certificate.relative <= 1e-3


@pytest.mark.parametrize("seed", range(100, 112))
def test_regressions_on_few_columns_of_unlike_scales_end_certified(seed):
    rng = np.random.default_rng(seed)
    data = np.column_stack([rng.standard_normal(300), rng.integers(1e8, 1e9, 300), rng.integers(1e4, 1e5, 300)])
    y = data[:, 0] + (data[:, 0] + 0.5 * rng.standard_normal(300) > 0)
    groups = rng.integers(0, 20, 300)
    assert solved(stated(data, y, groups, loss="squared", divergence="cvar", alpha=0.1)).stop is Stop.CONVERGED


def test_columns_far_from_zero_end_certified_without_a_matrix():
    assert solved(stated(np.column_stack([X, SECONDS]), Y), **ALWAYS_LBFGS).stop is Stop.CONVERGED


@pytest.mark.parametrize("column", [SECONDS, IDENTITIES], ids=["seconds", "ids"])
def test_regressions_on_columns_far_from_zero_end_certified(column):
    data = np.column_stack([X, column])
    assert solved(stated(data, NUMBERS, loss="squared")).stop is Stop.CONVERGED


@pytest.mark.parametrize("columns", [1000, 6000])
def test_wide_tables_end_certified(columns):
    rows = np.random.default_rng(0).standard_normal((100, columns))
    assert solved(stated(rows, np.resize(Y, 100), np.arange(100) % 4)).stop is Stop.CONVERGED


@pytest.mark.parametrize("domain", [fn.Simplex(), fn.Hyperplane(0.5)], ids=str)
def test_a_fixed_sum_is_kept(domain):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    y = X @ np.array([1.0, 0.5, 0.0, 0.0, -1.0]) + 0.1 * rng.standard_normal(300)
    stated = xrisk.group_dro(X, y, np.arange(300) % 3, loss="squared")
    problem = stated._replace(penalty=fn.Restricted(fn.L2(0.1), domain))
    found = xrisk.minimize(problem, xrisk.solvers.Auto(1e-6), budget=xrisk.Budget(iterations=200))
    assert found.certificate.relative <= 1e-6
    assert found.w.sum() == pytest.approx(domain.total)
    with pytest.raises(ValueError, match="SmoothedLBFGS takes no domain with a fixed sum, got Restricted: Newton does"):
        xrisk.minimize(problem, xrisk.solvers.SmoothedLBFGS(), budget=xrisk.Budget(iterations=10))


EIGHTHS = np.round(8.0 * NUMBERS) / 8.0  # sums with a large number are exact


@pytest.mark.parametrize("middle", [1e7, -1e8])
@pytest.mark.parametrize("divergence", ["max", "cvar", "kl", "chi2"])
def test_targets_far_from_zero_are_solved_as_those_near_it(divergence, middle):
    near, far = (stated(X, y, loss="squared", divergence=divergence) for y in (EIGHTHS, EIGHTHS + middle))
    found, expected = solved(far, tol=1e-4), solved(near, tol=1e-6)
    assert found.stop is Stop.CONVERGED
    assert found.certificate.relative <= 1e-4
    assert found.certificate.dual <= expected.certificate.primal
    assert expected.certificate.dual <= found.certificate.primal <= expected.value * (1.0 + 2e-4)


@pytest.mark.parametrize("numbers", [{"ambiguity": "cvar", "alpha": 0.2}, {"ambiguity": "kl", "radius": 0.1}], ids=str)
@pytest.mark.parametrize("middle", [1e7, -1e8])
def test_targets_of_single_rows_may_be_far_from_zero(numbers, middle):
    numbers = {**numbers, "loss": "squared", "l2": 1e-3, "fit_intercept": True}
    found, expected = (solved(xrisk.applications.sample_dro(X, y, **numbers)) for y in (EIGHTHS + middle, EIGHTHS))
    assert found.stop is Stop.CONVERGED
    assert found.certificate.relative <= 1e-3
    assert found.certificate.dual <= expected.certificate.primal
    np.testing.assert_allclose(found.w[:-1], expected.w[:-1], atol=0.3)


def test_a_fit_that_leaves_the_noise_of_far_targets_is_not_perfect():
    """Beside that of zero, its objective is nothing; beside that of a constant, it is not."""
    noisy = np.column_stack([X, np.ones(len(X))])
    result = solved(stated(noisy, EIGHTHS + 1e8, loss="squared", l2=1e-30, fit_intercept=False))
    assert result.stop is not Stop.PERFECT


@pytest.mark.parametrize(
    "solver", [Newton(), SmoothedLBFGS(), CompositeNewton(), Auto()], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_no_full_batch_method_ends_above_its_start(solver, steps):
    problem = stated(X, Y, divergence="max")
    w0 = solved(problem, tol=1e-8).w
    result = xrisk.minimize(problem, solver, w0, budget=Budget(iterations=steps))
    assert result.value <= problem.value(w0) * (1.0 + 1e-12)
    assert problem.value(result.w) == pytest.approx(result.value, rel=1e-12)


def test_a_sample_that_leads_astray_is_not_gone_on_from():
    samples = {"least_rows": 10, "least_speedup": 0.0, "call_seconds": 0.0, "shares": (0.01,)}
    rows = np.random.default_rng(0).standard_normal((20_000, 5))
    staged, solver = Auto(**samples).prepare(stated(rows, np.where(rows[:, 0] > 0, 1.0, -1.0), np.arange(20_000) % 2))
    state = solver.init(staged, np.zeros(6), np.random.default_rng(0))
    assert not staged.stages[0].on_all_rows
    astray = state._replace(w=np.full(6, 1e6), value=np.nan)
    last = next(k for k, stage in enumerate(staged.stages) if stage.on_all_rows)
    begun = staging._begin(staged, astray, last, 1e-3)
    assert begun.value <= state.first * (1.0 + 1e-12)
    assert begun.run.value <= state.first * (1.0 + 1e-12)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_tail_over_few_rows_of_many_columns_does_not_stall(loss):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 150))
    score = rows[:, :5].sum(axis=1) + rng.standard_normal(300)
    y = score if loss == "squared" else np.sign(score)
    numbers = {"ambiguity": "cvar", "alpha": 0.1, "loss": loss, "l2": 1e-3, "fit_intercept": True}
    problem = xrisk.applications.sample_dro(rows, y, **numbers)
    result = xrisk.minimize(problem, Auto(), budget=Budget(iterations=150))
    assert result.stop is Stop.CONVERGED
