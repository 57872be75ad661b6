"""The solver without step sizes: certified or honest on every kind of data, with and without Newton's method."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse

import xrisk
from tests.conftest import table
from xrisk import Budget, Stop, auto, datasets
from xrisk.datasets import make_groups
from xrisk.functions import MaxRisk
from xrisk.solvers import ALEXR

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


@pytest.fixture
def only_sampling(monkeypatch):
    """As if every problem were too large for Newton's method."""
    monkeypatch.setattr(auto, "NEWTON_AT_ONCE", 0.0)
    monkeypatch.setattr(auto, "newton_work", lambda problem: np.inf)


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_data_ends_certified(name):
    data, y, options = CASES[name]
    solution = auto.auto(stated(data, y, **options), rng=0)
    assert solution.stop is Stop.CONVERGED
    assert solution.certificate.relative <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("scale", [[1e6] * 5, [1e6, 1, 1, 1, 1]], ids=["all columns", "one column"])
def test_unscaled_columns_end_certified_whatever_the_seed(scale, loss, seed):
    data, y, groups = table(n=400, d=5, groups=5, seed=seed)
    assert auto.auto(stated(data * np.array(scale), y, groups, loss=loss), rng=0).stop is Stop.CONVERGED


@pytest.mark.parametrize("n_groups", [2, 10, 100, 1000])
def test_any_number_of_groups_ends_certified(n_groups):
    many = make_groups(n_groups, n=max(500, 4 * n_groups), n_features=4, random_state=0)
    assert auto.auto(stated(*many[:3], divergence="cvar", alpha=0.1), rng=0).certificate.relative <= 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("divergence", ["cvar", "max"])
def test_ten_thousand_groups_end_certified(divergence):
    many = make_groups(10_000, n=50_000, random_state=0)
    assert auto.auto(stated(*many[:3], divergence=divergence), rng=0).certificate.relative <= 1e-3


@here
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.15, 0.2, 0.25])
def test_adult_ends_certified(alpha):
    adult = datasets.load_adult()
    assert auto.auto(stated(*adult[:3], divergence="cvar", alpha=alpha), rng=0).certificate.relative <= 1e-3


@woods
@pytest.mark.slow
def test_covertype_by_wilderness_area_ends_certified():
    trees = datasets.load_covtype()
    y = np.unique(trees.y, return_inverse=True)[1]
    problem = stated(trees.X, np.where(y == 1, 1, -1), trees.groups)
    assert auto.auto(problem, rng=0).certificate.relative <= 1e-3


def test_without_a_penalty_the_end_is_honest():
    solution = auto.auto(stated(X, Y, l2=0.0), rng=0)
    assert solution.stop is Stop.ROUNDING
    assert solution.certificate.relative > 1e-3


def test_a_perfect_fit_is_good_enough():
    solution = auto.auto(stated(X, np.full(len(X), 2.0), loss="squared"), rng=0)
    assert solution.stop is Stop.CONVERGED
    assert solution.value < 1e-10


@pytest.mark.parametrize("divergence", ["cvar", "max", "chi2", "kl"])
def test_sampling_alone_reaches_a_gap_of_a_hundredth(only_sampling, divergence):
    many = make_groups(12, n=3000, n_features=6, random_state=0)
    problem = stated(*many[:3], divergence=divergence, alpha=0.25, l2=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = auto.auto(problem, tol=1e-2, max_iter=300_000, rng=0)
    assert solution.stop is Stop.CONVERGED
    assert solution.certificate.relative <= 1e-2
    assert {point.phase for point in solution.trace} <= {"start", "race", "stage"}


@here
@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_sampling_alone_reaches_a_gap_of_a_hundredth_on_adult(only_sampling, alpha):
    problem = stated(*datasets.load_adult()[:3], divergence="cvar", alpha=alpha)
    assert auto.auto(problem, tol=1e-2, rng=0).stop is Stop.CONVERGED


def test_the_same_seed_gives_the_same_sampling(only_sampling):
    problem = stated(X, Y)
    first, second = (auto.auto(problem, tol=1e-9, max_iter=9000, rng=5) for _ in range(2))
    np.testing.assert_array_equal(first.w, second.w)
    assert first.certificate == second.certificate


@pytest.mark.parametrize("most", [1, 500, 3000, 9001])
def test_iterations_are_no_more_than_allowed(only_sampling, most):
    solution = auto.auto(stated(X, Y), tol=1e-12, max_iter=most, rng=0)
    assert solution.stop is Stop.ITERATIONS
    assert solution.iterations <= most
    assert np.isfinite(solution.certificate.primal)


def test_seconds_are_a_limit(only_sampling):
    auto.auto(stated(X, Y), tol=1e-12, max_iter=2000, rng=0)  # compiles
    solution = auto.auto(stated(X, Y), tol=1e-12, max_seconds=0.05, rng=0)
    assert solution.stop is Stop.SECONDS
    assert solution.trace[-1].seconds < 2.0


@pytest.mark.parametrize("name", ["unscaled", "tiny", "squared, large targets"])
def test_candidates_that_diverge_are_left_behind_in_silence(only_sampling, name):
    data, y, options = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem = stated(data, y, **options)
        solution = auto.auto(problem, tol=1e-9, max_iter=9000, rng=0)
    assert solution.stop is Stop.ITERATIONS
    assert solution.value <= problem.value(np.zeros(6))


def test_losses_without_a_bound_on_their_curvature_are_raced(only_sampling):
    problem = stated(10 * X, Y, loss="exponential")
    solution = auto.auto(problem, tol=1e-9, max_iter=9000, rng=0)
    assert solution.value < problem.value(np.zeros(6))


def test_sampling_for_a_share_that_is_no_whole_number_of_iterations_goes_on_to_newton(monkeypatch):
    monkeypatch.setattr(auto, "NEWTON_AT_ONCE", 0.0)
    problem = xrisk.group_dro(X, Y, cells, l2=1e-2)
    work = 12_000.7 / auto.SHARE * auto.stochastic_work(problem)
    monkeypatch.setattr(auto, "newton_work", lambda problem: work)
    found = auto.auto(problem, tol=1e-8, max_seconds=60.0, rng=0)
    assert found.stop is Stop.CONVERGED
    sampled = [point.iterations for point in found.trace if point.phase == "stage"]
    assert sampled[-1] == 12_000
    assert len(set(sampled)) == len(sampled)


def test_sampling_before_newton_ends_certified(monkeypatch):
    monkeypatch.setattr(auto, "NEWTON_AT_ONCE", 0.0)
    solution = auto.auto(stated(X, Y), tol=1e-6, rng=0)
    assert solution.stop is Stop.CONVERGED
    assert [point.phase for point in solution.trace][:2] == ["start", "race"]
    assert solution.trace[-1].phase == "newton"


def test_the_bounds_close_along_the_trace():
    trace = auto.auto(stated(X, Y), tol=1e-6, rng=0).trace
    assert all(a.primal >= b.primal and a.dual <= b.dual for a, b in itertools.pairwise(trace))
    assert all(a.seconds <= b.seconds and a.iterations <= b.iterations for a, b in itertools.pairwise(trace))


def test_until_ends_the_search():
    solution = auto.auto(stated(X, Y), tol=1e-9, rng=0, until=lambda: True)
    assert solution.stop is Stop.INTERRUPTED


def test_a_certified_start_is_the_end():
    best = auto.auto(stated(X, Y), tol=1e-6, rng=0)
    again = auto.auto(stated(X, Y), best.w, best.dual, tol=1e-5, rng=0)
    assert again.iterations == 0
    assert again.stop is Stop.CONVERGED


@pytest.mark.slow
@pytest.mark.parametrize("outer", [("cvar", 0.2), ("cvar", 0.5), (MaxRisk(), 1.0)], ids=["cvar 0.2", "cvar 0.5", "max"])
def test_sampling_is_never_worse_than_the_best_step_sizes_of_the_papers_grid(only_sampling, outer):
    """Race and stages together get ten times the oracle calls of each of the 81 cells; a tie is within 1e-5."""
    many = make_groups(20, n=4000, n_features=10, random_state=3)
    problem = stated(*many[:3], divergence=outer[0], alpha=outer[1], l2=0.01, fit_intercept=False)
    steps = [digit * 10.0**-power for digit in (2, 5, 10) for power in (1, 2, 3)]
    budget = 3000
    cells_of_grid = [
        xrisk.minimize(problem, ALEXR(step, dual), budget=Budget(iterations=budget), rng=0).value
        for step, dual in itertools.product(steps, steps)
    ]
    solution = auto.auto(problem, tol=1e-12, max_iter=10 * budget, rng=0)
    assert solution.value <= min(cells_of_grid) * (1 + 1e-5)
