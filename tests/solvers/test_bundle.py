"""Bundle: minima against cvxpy, bounds that are never wrong, collapse to zero, and what it refuses."""

from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse

import xrisk
from tests.functions.test_penalty import solve
from tests.solvers.cases import cvar
from xrisk.applications import partial_auc, top_push, two_way_partial_auc
from xrisk.auto import Auto
from xrisk.certificate import Cuts, cut_at
from xrisk.certificate.mixture import best_mixture, kinked_mixture
from xrisk.certificate.optimum_box import box_lower_bound, box_of, narrowed
from xrisk.solvers import Bundle
from xrisk.solvers.base import known_stop

MODELS = {
    "hinge": lambda t: cp.pos(1 - t),
    "squared_hinge": lambda t: cp.square(cp.pos(1 - t)),
    "logistic": lambda t: cp.logistic(-t),
}
VALUES = {
    "hinge": lambda t: np.maximum(1 - t, 0),
    "squared_hinge": lambda t: np.maximum(1 - t, 0) ** 2,
    "logistic": lambda t: np.logaddexp(np.longdouble(0), -t),
    "exponential": lambda t: np.exp(-t),
    "smoothed_hinge": lambda t: np.where(t < 0, 0.5 - t, 0.5 * np.maximum(1 - t, 0) ** 2),
}


def run(problem, tol=1e-7, w0=None, **options):
    return xrisk.minimize(problem, Bundle(tol, **options), w0, budget=xrisk.Budget(iterations=1000))


class Drawn:
    """A small problem with ties, copies of rows, columns that repeat or differ in scale, one row of a side."""

    def __init__(self, seed, losses=tuple(VALUES), most=60):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(3, most)), int(rng.integers(1, 7))
        X = rng.standard_normal((n, d))
        y = np.where(rng.choice([0, 1, 3]) * X[:, 0] + rng.standard_normal(n) > rng.choice([0.0, 0.5, 1.0]), 1, -1)
        spoil = [
            lambda: np.round(X),
            lambda: X[rng.integers(0, max(2, n // 3), n)],
            lambda: X * 10.0 ** rng.uniform(-2, 2, d),
            lambda: np.where(np.arange(d) == d - 1, X[:, :1], X),
            lambda: X,
        ]
        self.X, y[0], y[1] = spoil[seed % 5](), 1, -1
        alone = rng.random()
        self.y = np.where(np.arange(n) == 0, 1, -1) if alone < 0.15 else np.where(np.arange(n) == 1, -1, 1)
        self.y = y if alone >= 0.3 else self.y
        self.P, self.N = self.X[self.y > 0], self.X[self.y < 0]
        self.low, self.top = int(rng.integers(1, len(self.P) + 1)), int(rng.integers(1, len(self.N) + 1))
        self.loss = losses[seed % len(losses)]
        self.l1, self.l2 = float(rng.choice([0.0, 0.02, 0.1])), 10.0 ** rng.uniform(-3, 0)

    def problem(self):
        share = 1.0 - self.low / len(self.P), self.top / len(self.N)
        penalty = {"l1": self.l1, "l2": self.l2}
        return two_way_partial_auc(self.X, self.y, min_tpr=share[0], max_fpr=share[1], loss=self.loss, **penalty)

    def value(self, w):
        """The objective by its definition, in extended precision."""
        w = w.astype(np.longdouble)
        pairs = VALUES[self.loss]((self.P @ w)[:, None] - self.N @ w)
        inner = np.sort(pairs, axis=1)[:, -self.top :].mean(axis=1)
        return np.sort(inner)[-self.low :].mean() + self.l1 * np.abs(w).sum() + self.l2 / 2 * (w @ w)


@pytest.mark.parametrize("seed", range(18))
def test_the_minimum_is_that_of_cvxpy(seed):
    drawn = Drawn(seed, tuple(MODELS), most=16)
    w = cp.Variable(drawn.X.shape[1])
    inner = [cp.sum_largest(MODELS[drawn.loss]((x - drawn.N) @ w), drawn.top) / drawn.top for x in drawn.P]
    risk = cp.sum_largest(cp.hstack(inner), drawn.low) / drawn.low
    model = cp.Problem(cp.Minimize(risk + drawn.l1 * cp.norm1(w) + drawn.l2 / 2 * cp.sum_squares(w)))
    solve(model)
    result = run(drawn.problem())
    assert result.stop is xrisk.Stop.CONVERGED
    assert result.certificate.dual - 1e-6 <= model.value <= result.certificate.primal + 1e-6


def assert_never_wrong(seed):
    drawn = Drawn(seed)
    problem, solver = Bundle(1e-8).prepare(drawn.problem())
    rng = np.random.default_rng(0)
    state = solver.init(problem, np.zeros(drawn.X.shape[1]), rng)
    bounds = []
    while known_stop(solver, state) is None and state.t < 300:
        state = solver.advance(problem, state, 1, rng)
        assert drawn.value(state.w) <= state.primal
        bounds.append(state.dual)
    assert max(bounds, default=-np.inf) <= drawn.value(state.w)
    assert state.primal - state.dual <= 1e-6 * abs(state.primal)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_never_wrong(seed):
    assert_never_wrong(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 300))
def test_bounds_are_never_wrong_on_more_problems(seed):
    assert_never_wrong(seed)


def far_apart(shift, n=300, **options):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 4 == 0, 1, -1)
    X = rng.standard_normal((n, 3)) + shift * y[:, None] * [1.0, 0.5, 0.0]
    return X, y, two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.2, **{"l2": 0.01, **options})


@pytest.mark.parametrize("l1", [0.0, 0.01])
@pytest.mark.parametrize("loss", VALUES)
def test_where_hard_pairs_cannot_be_separated_the_solution_is_exactly_zero(loss, l1):
    problem = far_apart(0.05, loss=loss, l1=l1)[2]
    result = run(problem, 1e-4)
    assert not result.w.any()
    assert result.value == pytest.approx(problem.value(np.zeros(3)))
    assert result.certificate.relative <= 1e-4


def test_a_start_that_is_worse_than_zero_is_left_for_it():
    assert not run(far_apart(0.05)[2], 1e-4, np.ones(3)).w.any()


def test_a_good_start_takes_fewer_passes():
    problem = far_apart(1.0)[2]
    cold = run(problem, 1e-4)
    warm = run(problem, 1e-4, cold.w)
    assert warm.progress.oracle_calls < cold.progress.oracle_calls


def test_storage_does_not_matter():
    X, y, problem = far_apart(1.0)
    sparse = two_way_partial_auc(scipy.sparse.csr_matrix(X), y, min_tpr=0.5, max_fpr=0.2, l2=0.01)
    assert run(sparse).value == pytest.approx(run(problem).value, rel=1e-6)


def test_rows_far_from_the_origin_are_certified():
    X, y, _ = far_apart(1.0)
    far = two_way_partial_auc(X + 1e4, y, min_tpr=0.5, max_fpr=0.2, l2=0.01)
    assert run(far, 1e-3).certificate.relative <= 1e-3


def test_a_point_whose_scores_overflow_is_no_cut():
    problem, _ = Bundle().prepare(far_apart(1.0)[2])
    found = cut_at(problem.inner, problem.sizes, problem.problem.outer, np.full(3, 1e308))
    assert (found.value, found.offset) == (np.inf, -np.inf)


def test_with_an_l1_penalty_coordinates_are_exactly_zero():
    assert (run(far_apart(1.0, l1=0.1)[2]).w == 0.0).tolist() == [False, False, True]


@pytest.mark.parametrize("memory", [1, 40])
@pytest.mark.parametrize("cuts", [6, 200])
def test_the_room_for_cuts_and_steps_does_not_change_the_minimum(cuts, memory):
    problem = far_apart(1.0)[2]
    found = run(problem, 1e-5, cuts=cuts, memory=memory)
    assert found.value == pytest.approx(run(problem).value, rel=2e-5)


@pytest.mark.parametrize("make", [lambda *rows, **r: partial_auc(*rows, min_tpr=0.5, **r), top_push])
def test_pairs_without_a_tail_are_taken_as_well(make):
    X, y, _ = far_apart(1.0)
    problem = make(X, y, loss="logistic", l2=0.01)
    assert run(problem).value == pytest.approx(xrisk.solvers.exact(problem).value, rel=1e-6)


def test_auto_leaves_tails_to_it():
    problem = far_apart(1.0)[2]
    result = xrisk.minimize(problem, Auto(1e-4), budget=xrisk.Budget(iterations=1000))
    np.testing.assert_array_equal(result.w, run(problem, 1e-4).w)
    assert result.certificate.relative <= 1e-4


def many_pairs(n, loss="squared_hinge", **penalty):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 5 == 0, 1, -1)
    X = rng.standard_normal((n, 4)) + 0.5 * (y > 0)[:, None]
    return partial_auc(X, y, min_tpr=0.5, loss=loss, **(penalty or {"l2": 0.01}))


@pytest.mark.parametrize(
    ("problem", "taken"),
    [
        (many_pairs(1000), True),
        (many_pairs(1000, "hinge", l1=0.01, l2=0.01), True),
        (many_pairs(400), False),
        (many_pairs(1000, "logistic"), False),  # its sums take a look at every pair
        (many_pairs(1000, l1=0.01), False),
    ],
    ids=["many pairs", "and l1", "few pairs", "logistic", "no ridge"],
)
def test_auto_leaves_many_pairs_to_it_where_their_sums_take_a_sorting(problem, taken):
    assert (type(Auto().prepare(problem)[1]) is Bundle) == taken


@pytest.mark.slow
def test_auto_certifies_many_pairs_and_ends_at_the_minimum():
    problem = many_pairs(1000)
    result = xrisk.minimize(problem, Auto(1e-6), budget=xrisk.Budget(iterations=1000))
    assert result.certificate.relative <= 1e-6
    assert result.value == pytest.approx(xrisk.solvers.exact(problem).value, rel=2e-6)


def test_a_run_of_auto_on_a_tail_can_be_resumed(tmp_path):
    problem, solver = far_apart(1.0)[2], Auto(1e-6)
    whole = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=12))
    saved = xrisk.Checkpoint(tmp_path / "run")
    xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=5), checkpoint=saved)
    parts = xrisk.resume(problem, solver, tmp_path / "run", budget=xrisk.Budget(iterations=12))
    np.testing.assert_array_equal(whole.w, parts.w)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kink", [1e-12, 0.1])
def test_no_mixture_is_better_than_the_best(kink, seed):
    rng = np.random.default_rng(seed)
    G, c, others = rng.standard_normal((7, 3)), rng.random(7), rng.dirichlet(np.full(7, 0.3), 300)

    def proved(share):
        return share @ c - (np.maximum(np.abs(share @ G) - kink, 0.0) ** 2).sum(axis=-1) / 0.4

    found = kinked_mixture(G, c, kink, 0.2)[0] if kink > 1e-6 else best_mixture(G @ G.T / 0.2, -c, np.zeros(7))
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    assert proved(found) >= proved(others).max() - 1e-9


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (far_apart(1.0, l2=0.0)[2], {}, "bundle needs an L2 or ElasticNet ridge, got NoPenalty"),
        (far_apart(1.0, l2=0.0, l1=0.1)[2], {}, "bundle needs an L2 or ElasticNet ridge, got L1"),
        (cvar(), {}, "bundle needs a CVaR of falling losses of pairs, got Groups"),
        (far_apart(1.0)[2], {"tol": 0.0}, "tol must be positive, got 0.0"),
        (far_apart(1.0)[2], {"cuts": 5}, "cuts must be at least 6, got 5"),
        (far_apart(1.0)[2], {"memory": 0}, "memory must be at least 1, got 0"),
    ],
)
def test_what_it_cannot_do_is_said(problem, options, message):
    with pytest.raises(ValueError, match=message):
        run(problem, **options)


class Point(NamedTuple):
    """A point that nothing else is known of."""

    w: np.ndarray


@pytest.mark.parametrize("loss", MODELS)
@pytest.mark.parametrize("away", [0.0, 0.05, 3.0])
def test_a_certificate_of_any_point_holds(loss, away):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) < 15, 1, -1)
    X = np.round(rng.standard_normal((60, 3)) + 1.2 * (y > 0)[:, None], 1)
    problem = two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.4, loss=loss, l1=0.01, l2=0.05)
    best = run(problem)
    w = best.w + away * rng.standard_normal(3)
    known = xrisk.certify(problem, Point(w))
    assert known.dual <= best.certificate.primal
    assert known.primal >= problem.value(w)


def test_the_certificate_of_a_smooth_minimiser_is_tight():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) < 60, 1, -1)
    X = rng.standard_normal((300, 3)) + 1.5 * (y > 0)[:, None]
    problem = two_way_partial_auc(X, y, min_tpr=0.0, max_fpr=0.99, loss="squared_hinge", l2=0.05)
    assert xrisk.certify(problem, Point(run(problem).w)).relative < 1e-3


def test_without_a_ridge_a_cut_proves_nothing():
    problem = two_way_partial_auc(np.eye(4), [1, -1, 1, -1], min_tpr=0.0, max_fpr=0.5)
    assert xrisk.certify(problem, Point(np.ones(4))).dual == -np.inf


@pytest.mark.parametrize("loss", MODELS)
def test_exact_takes_tails(loss):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) < 10, 1, -1)
    X = rng.standard_normal((40, 3)) + 1.2 * (y > 0)[:, None]
    problem = two_way_partial_auc(X, y, min_tpr=0.5, max_fpr=0.5, loss=loss, l2=0.05)
    assert xrisk.solvers.exact(problem, tol=1e-7).certificate.relative <= 1e-7


def unheld(seed, l1=0.0, loss="hinge"):
    """A problem with two columns that the ridge does not hold."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(100) % 4 == 0, 1, -1)
    X = rng.standard_normal((100, 4)) + y[:, None] * [0.6, 0.4, 0.3, 0.0]
    X[:, :2] = [1e9, -1e12] + X[:, :2] * [10.0 ** rng.integers(5, 8), 10.0 ** rng.integers(8, 12)]
    return two_way_partial_auc(X, y, min_tpr=0.3, max_fpr=0.5, loss=loss, l1=l1, l2=10.0 ** -rng.integers(1, 5))


@pytest.mark.parametrize("l1", [0.0, pytest.param(1e-4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("seed", range(2))
def test_bounds_of_columns_that_no_ridge_holds_are_never_above_the_optimum(seed, loss, l1):
    problem = unheld(seed, l1, loss)
    found, best = run(problem, 1e-3), run(problem, 1e-4)
    assert found.certificate.relative <= 1e-3
    assert found.certificate.dual <= best.certificate.primal
    assert best.certificate.dual <= found.certificate.primal


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_is_within_the_box_that_cuts_prove(seed):
    problem, rng = unheld(seed), np.random.default_rng(seed)
    task, _ = Bundle().prepare(problem)
    best = run(problem, 1e-5).w
    points = [10.0 * rng.standard_normal(4) / task.sizes.scale for _ in range(40)]
    cut = [cut_at(task.inner, task.sizes, problem.outer, w) for w in (best, np.zeros(4), *points)]
    numbers = [np.array([getattr(one, name) for one in cut]) for name in ("slope", "offset", "slack", "spread")]
    cuts, value = Cuts(*numbers, len(cut)), problem.value(best)
    box = narrowed(box_of(problem.penalty.l2, 0.0, task.sizes.scale), cuts, value)
    assert box.loose.size == 2
    assert (np.abs(best) <= box.radius).all()
    assert box_lower_bound(box, cuts, np.ones(len(cut)), np.zeros(4)) <= value
