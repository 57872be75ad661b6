"""STACO1 and STACO2 against their naive twin, what an iteration touches, where thresholds start, and extreme scores."""

import time

import numpy as np
import pytest

import xrisk
from tests.reference.staco import staco
from tests.reference.two_way import TwoWay
from tests.solvers.cases import two_way
from tests.solvers.running import begin
from xrisk.applications import two_way_partial_auc
from xrisk.compile import uncompiled
from xrisk.inner import exact_values
from xrisk.run.checkpoint import leaves
from xrisk.solvers import (
    SOTA,
    STACO1,
    STACO2,
    ExactThresholds,
    FixedThresholds,
    GradientScaling,
    PrintedScaling,
    SingleLoop,
    SOTAs,
    StageAverage,
    Stagewise,
    TailSONEX,
    TailSONX,
)

STEPS = {"step": 0.05, "dual_step": 0.3, "tail_step": 0.2, "threshold_step": 0.1, "blocks": 7}


def points(solver, steps=50, stated=None):
    """The start, and (w, s, s′) after every iteration; nothing is compiled."""
    problem, solver, state, rng = begin(stated or two_way(), solver, start=0.1)
    start, found = state.w.copy(), []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            found.append((state.w.copy(), state.s.copy(), state.level))
    return start, found


def assert_follows(found, expected):
    for k in range(3):
        np.testing.assert_allclose(
            np.array([x[k] for x in found]), np.array([x[k] for x in expected]), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_the_first_follows_the_naive_twin(first):
    start, found = points(STACO1(**STEPS, batch=5, first=FixedThresholds(first)))
    assert_follows(found, staco(TwoWay(start, 5), 50, np.random.default_rng(0), **STEPS, first=first))


@pytest.mark.parametrize(
    ("scaling", "factor"), [(GradientScaling(), 1.0), (PrintedScaling(), 2.0)], ids=["(8)", "(11)"]
)
def test_the_second_follows_the_naive_twin_in_stages_with_resets(scaling, factor):
    """The share θ₀ of the positives is ½ up to their number being odd."""
    start, found = points(STACO2(**STEPS, strength=0.3, epoch=8, scaling=scaling, batch=5))
    twin = TwoWay(start, 5)
    adjoint = 0.3 if factor == 1.0 else 0.3 / twin.theta0
    assert_follows(found, staco(twin, 50, np.random.default_rng(0), **STEPS, adjoint=adjoint, epoch=8))


def test_a_single_stage_without_a_pull_is_the_first():
    second = points(STACO2(**STEPS, strength=1e-300, epoch=SingleLoop()))[1]
    assert_follows(second, points(STACO1(**STEPS))[1])


HALF = {"blocks": 4, "batch": 5, "first": FixedThresholds(0.5)}


@pytest.mark.parametrize(
    "solver",
    [*(method(**HALF) for method in (STACO1, STACO2, SOTA, TailSONX, TailSONEX)), SOTAs(blocks=4, batch=5)],
    ids=lambda solver: type(solver).__name__,
)
def test_an_iteration_touches_what_it_keeps_of_the_sampled_positives_only(solver):
    problem, solver, state, rng = begin(two_way(), solver)
    before = leaves_of_positives(state)
    with uncompiled():
        state = solver.advance(problem, state, 1, rng)
    others = np.setdiff1d(np.arange(state.order.size), state.order[:4])
    after = leaves_of_positives(state)
    for name in before:
        np.testing.assert_array_equal(after[name][others], before[name][others], err_msg=name)
    assert any((after[name] != before[name]).any() for name in before)


def leaves_of_positives(state):
    """Copies of all that a state holds for each positive, but for the order in which they are drawn."""
    n = state.order.size
    return {name: x.copy() for name, x in leaves(state).items() if x.shape == (n,) and name != "order"}


@pytest.mark.slow
@pytest.mark.parametrize("method", [STACO1, STACO2, SOTA, TailSONX, SOTAs])
def test_the_time_of_an_iteration_does_not_grow_with_the_number_of_positives(method):
    seconds = []
    for n in (10_000, 1_000_000):
        X = np.random.default_rng(0).standard_normal((n + 1000, 4)).astype(np.float32)
        stated = two_way_partial_auc(X, np.where(np.arange(n + 1000) < n, 1, -1), min_tpr=0.5, max_fpr=0.5)
        problem, solver, state, rng = begin(stated, method())
        state = solver.advance(problem, state, 100, rng)
        rounds = []
        for _ in range(5):
            started = time.perf_counter()
            state = solver.advance(problem, state, 2000, rng)
            rounds.append(time.perf_counter() - started)
        seconds.append(min(rounds))
    assert (
        seconds[1] < 20.0 * seconds[0]
    )  # a hundred times as many; what is left are misses of the cache, and a busy machine


def test_exact_thresholds_are_the_minimisers_at_the_first_point():
    stated = two_way("logistic")
    w = np.full(4, 0.2)
    problem, solver = STACO1(first=ExactThresholds()).prepare(stated)
    state = solver.init(problem, w, np.random.default_rng(0))
    X, pairs, k = problem.inner.pairs.rows.X, problem.inner.pairs, problem.inner.top
    losses = np.logaddexp(0.0, -(X[pairs.outer][:, None, :] - X[pairs.inner][None, :, :]) @ w)
    tails = state.s + np.maximum(losses - state.s[:, None], 0.0).sum(axis=1) / k
    exact = np.empty((len(tails), 1))
    exact_values(problem.inner, w, exact)
    np.testing.assert_allclose(tails, exact[:, 0], rtol=1e-12)
    value = state.level + np.maximum(tails - state.level, 0.0).mean() / problem.outer.alpha
    np.testing.assert_allclose(value + 0.05 * w @ w, stated.value(w), rtol=1e-12)


def test_where_thresholds_start_above_all_losses_nothing_moves_at_first():
    """At w = 0 the squared hinge is 1."""
    problem, solver, state, rng = begin(two_way(), STACO1(first=FixedThresholds(2.0)))
    with uncompiled():
        state = solver.advance(problem, state, 1, rng)
    np.testing.assert_array_equal(state.w, 0.0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("solver", [STACO1(), STACO2(epoch=5)], ids=["1", "2"])
def test_scores_of_a_thousand_overflow_nothing(solver, loss):
    X = 1e3 * np.random.default_rng(0).standard_normal((80, 3))
    stated = two_way_partial_auc(X, np.tile([1, -1], 40), min_tpr=0.5, max_fpr=0.5, loss=loss, l2=0.1)
    problem, solver, state, rng = begin(stated, solver._replace(step=1e-8), start=1.0)
    with uncompiled():
        state = solver.advance(problem, state, 10, rng)
    assert all(np.isfinite(part).all() for part in (state.w, state.s, state.y, state.level))


def test_the_mean_of_a_stage_is_reported():
    _, found = points(STACO2(**STEPS, strength=0.3, epoch=8), 20)
    problem, solver, state, rng = begin(two_way(), STACO2(**STEPS, strength=0.3, epoch=8), start=0.1)
    with uncompiled():
        state = solver.advance(problem, state, 20, rng)
    np.testing.assert_allclose(solver.solution(state), np.mean([w for w, _, _ in found[16:]], axis=0), rtol=1e-12)


@pytest.mark.slow
def test_step_sizes_cut_in_stages_come_closer():
    cut = Stagewise(0.05, 0.3, 4000, 1.0)
    steps = {"dual_step": cut, "tail_step": cut, "threshold_step": cut}
    solver = STACO1(cut, **steps, average=StageAverage(cut))
    result = xrisk.minimize(two_way(), solver, budget=xrisk.Budget(iterations=20_000), rng=0)
    assert result.value < 0.62744 + 1e-3  # cvxpy's optimum


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        (STACO1(tail_step=0.0), ValueError, "tail_step must be positive, got 0.0"),
        (STACO1(threshold_step="x"), ValueError, "threshold_step must be a positive number or a schedule"),
        (STACO1(first=3.0), TypeError, r"first must be FixedThresholds\(\) or ExactThresholds\(\), got 3.0"),
        (STACO1(first=FixedThresholds(np.nan)), ValueError, "value must be finite, got nan"),
        (STACO1(batch=0), ValueError, "batch must be at least 1, got 0"),
        (STACO2(strength=-1.0), ValueError, "strength must be positive, got -1.0"),
        (STACO2(epoch=0), ValueError, "epoch must be at least 1, got 0"),
        (STACO2(scaling=1), TypeError, r"scaling must be GradientScaling\(\) or PrintedScaling\(\), got 1"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(solver, error, words):
    with pytest.raises(error, match=words):
        solver.prepare(two_way())


def test_another_problem_is_refused(cvar_problem):
    with pytest.raises(ValueError, match="STACO1 needs a two-way partial AUC, got Groups"):
        STACO1().prepare(cvar_problem)
