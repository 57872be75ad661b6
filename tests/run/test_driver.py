"""Budgets, the clock, traces, interruption, divergence, checkpoints."""

import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numba
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import xrisk
from tests.conftest import table
from xrisk import Budget, Checkpoint, Problem, Stop, Trace, minimize, resume
from xrisk.auto import Auto
from xrisk.data.threads import _blas_threads
from xrisk.functions import L2, Simplex, Tilted
from xrisk.inner.passes import column_sizes
from xrisk.run import LogProgress, ProgressBar
from xrisk.run.clock import now
from xrisk.run.fingerprint import fingerprint
from xrisk.solvers import ALEXR, Newton, SmoothedLBFGS

SOLVER = ALEXR(blocks=2, batch=4)
SLOWLY = Auto(1e-9, composite_steps=np.inf)  # by Newton's method, which takes more iterations
FULL_BATCH = pytest.mark.parametrize("solver", [Newton(), SmoothedLBFGS(), SLOWLY], ids=lambda s: type(s).__name__)
PREPARED = pytest.mark.parametrize("solver", [Newton(), SmoothedLBFGS()], ids=lambda s: type(s).__name__)


@pytest.fixture
def ticking(monkeypatch):
    """A clock on which a second passes whenever somebody looks."""
    clock = itertools.count()
    monkeypatch.setattr("xrisk.run.driver.now", lambda: float(next(clock)))


@pytest.fixture
def pressed_while_preparing(monkeypatch):
    """Ctrl-C while a full-batch method measures columns, as often as there are entries in the list."""
    times = [1]

    def measured(g):
        for _ in times:
            signal.raise_signal(signal.SIGINT)
        return column_sizes(g)

    monkeypatch.setattr("xrisk.solvers.newton.smoothed.column_sizes", measured)
    return times


def test_a_run_starts_in_the_domain_and_no_further(cvar_problem, plain):
    def first(penalty):
        return minimize(cvar_problem._replace(penalty=penalty), SOLVER, budget=Budget(iterations=0)).w

    np.testing.assert_array_equal(first(Tilted(L2(0.1), np.arange(4.0), 1.0)), 0.0)
    np.testing.assert_allclose(first(Simplex(1.0)), 0.25)


def test_iterations_end_a_run(cvar_problem, plain):
    result = minimize(cvar_problem, SOLVER, budget=Budget(iterations=37), rng=0)
    assert (result.progress.iterations, result.stop) == (37, Stop.ITERATIONS)


def test_oracle_calls_are_never_exceeded(cvar_problem, plain):
    result = minimize(cvar_problem, SOLVER, budget=Budget(oracle_calls=100), rng=0)
    assert result.stop is Stop.ORACLE_CALLS
    assert (result.progress.iterations, result.progress.oracle_calls) == (4, 96)


@pytest.mark.usefixtures("plain")
def test_seconds_end_a_run(cvar_problem):
    result = minimize(cvar_problem, SOLVER, budget=Budget(seconds=0.2), rng=0)
    assert result.stop is Stop.SECONDS
    assert result.progress.seconds >= 0.2
    assert result.progress.iterations > 0


@pytest.mark.usefixtures("plain")
def test_the_clock_runs_only_around_the_solver(cvar_problem):
    def sleepy(seen):
        time.sleep(0.05)

    result = minimize(cvar_problem, SOLVER, budget=Budget(iterations=20), rng=0, observers=[sleepy])
    assert result.progress.seconds < 0.5  # the observers take a second


@PREPARED
def test_time_that_is_up_while_preparing_leaves_the_start(cvar_problem, solver, ticking):
    w0 = np.arange(4.0)
    result = minimize(cvar_problem, solver, w0, budget=Budget(seconds=4.0), rng=0)
    assert (result.stop, result.progress.iterations) == (Stop.SECONDS, 0)
    assert result.value == result.trace.value[-1] == cvar_problem.value(w0)
    np.testing.assert_array_equal(result.w, w0)
    assert xrisk.certify(cvar_problem, result).primal >= result.value


@FULL_BATCH
def test_time_that_is_up_while_iterating_leaves_a_point(cvar_problem, solver, ticking):
    result = minimize(cvar_problem, solver, budget=Budget(elapsed=60.0), rng=0)
    assert result.stop is Stop.SECONDS
    assert result.value == pytest.approx(cvar_problem.value(result.w))


def test_a_run_that_did_not_begin_is_not_saved(cvar_problem, ticking, tmp_path):
    path = tmp_path / "run"
    minimize(cvar_problem, Newton(), budget=Budget(elapsed=4.0), rng=0, checkpoint=Checkpoint(path))
    assert not path.exists()


def test_preparing_is_on_the_clock(cvar_problem, ticking):
    trace = minimize(cvar_problem, Newton(), budget=Budget(iterations=1), rng=0).trace
    assert trace.seconds[0] > 1.0


@pytest.fixture
def slow_objective(monkeypatch):
    """A clock on which evaluating the objective takes a second, and nothing else takes any time."""
    clock, value = [0.0], Problem.value

    def slow(problem, w):
        clock[0] += 1.0
        return value(problem, w)

    monkeypatch.setattr(Problem, "value", slow)
    monkeypatch.setattr("xrisk.run.driver.now", lambda: clock[0])
    return clock


def test_evaluations_are_part_of_the_time_that_elapses(cvar_problem, slow_objective):
    result = minimize(cvar_problem, SOLVER, budget=Budget(elapsed=5.5, iterations=10**6), rng=0)
    assert result.stop is Stop.SECONDS
    assert (slow_objective[0], result.progress.seconds) == (6.0, 0.0)


def test_a_point_is_evaluated_once(cvar_problem, slow_objective):
    watch = [LogProgress(every=0.0)]
    until = {"until": lambda seen: seen.value < -np.inf}
    result = minimize(cvar_problem, SOLVER, budget=Budget(iterations=40), rng=0, observers=watch, **until)
    assert slow_objective[0] == len(result.trace)


def test_compiling_is_not_on_the_clock():
    def fresh(x):
        return x + 1.0

    started, clock = time.perf_counter(), now()
    numba.njit(fresh)(1.0)
    assert now() - clock < 0.5 * (time.perf_counter() - started)


@PREPARED
def test_ctrl_c_while_preparing_leaves_the_start(cvar_problem, solver, pressed_while_preparing):
    before = signal.getsignal(signal.SIGINT)
    result = minimize(cvar_problem, solver, budget=Budget(iterations=100), rng=0)
    assert (result.stop, result.value) == (Stop.INTERRUPTED, cvar_problem.value(np.zeros(4)))
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_the_first_iteration_of_auto_leaves_the_start(cvar_problem, pressed_while_preparing):
    result = minimize(cvar_problem, Auto(), budget=Budget(iterations=100), rng=0)
    assert (result.stop, result.value) == (Stop.INTERRUPTED, cvar_problem.value(np.zeros(4)))


@FULL_BATCH
def test_the_second_ctrl_c_raises(cvar_problem, solver, pressed_while_preparing):
    pressed_while_preparing.append(2)
    with pytest.raises(KeyboardInterrupt):
        minimize(cvar_problem, solver, budget=Budget(iterations=100), rng=0)


def test_ctrl_c_while_a_run_is_resumed_raises(cvar_problem, tmp_path, request):
    path = tmp_path / "run"
    minimize(cvar_problem, Newton(), budget=Budget(iterations=2), rng=0, checkpoint=Checkpoint(path))
    request.getfixturevalue("pressed_while_preparing")
    with pytest.raises(KeyboardInterrupt):
        resume(cvar_problem, Newton(), path, budget=Budget(iterations=9))


@FULL_BATCH
def test_a_full_batch_stops_before_an_iteration_that_costs_too_much(cvar_problem, solver):
    whole = minimize(cvar_problem, solver, budget=Budget(iterations=6), rng=0).trace.points[3]
    result = minimize(cvar_problem, solver, budget=Budget(oracle_calls=whole.oracle_calls), rng=0)
    assert result.stop is Stop.ORACLE_CALLS
    assert (result.progress.iterations, result.progress.oracle_calls) == (whole.iterations, whole.oracle_calls)


@pytest.mark.parametrize(
    ("one", "other"),
    [(Auto(shares=(0.1,)), Auto(shares=(0.2,))), (Auto(shares=(0.1, 0.2)), Auto(shares=(0.1,))), (((1,), 2), (1, 2))],
)
def test_tuples_are_part_of_a_fingerprint(one, other):
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(), "budget must limit"),
        (Budget(iterations=-1), "iterations must not be negative, got -1"),
        (Budget(seconds=float("nan")), "seconds must not be negative, got nan"),
        (Budget(seconds=float("inf")), "budget must be finite"),
    ],
)
def test_wrong_budgets_are_refused(cvar_problem, budget, message):
    with pytest.raises(ValueError, match=message):
        minimize(cvar_problem, SOLVER, budget=budget, rng=0)


def test_no_iterations_return_the_start(cvar_problem):
    w0 = np.arange(4.0)
    result = minimize(cvar_problem, SOLVER, w0, budget=Budget(iterations=0), rng=0)
    np.testing.assert_array_equal(result.w, w0)
    assert result.value == cvar_problem.value(w0)


def test_the_trace_holds_start_and_end_and_is_the_exact_objective(cvar_problem):
    result = minimize(cvar_problem, SOLVER, budget=Budget(iterations=500), rng=0)
    trace = result.trace
    assert trace.iterations[0] == 0
    assert trace.iterations[-1] == 500
    assert (np.diff(trace.iterations) > 0).all()
    assert trace.value[-1] == result.value == cvar_problem.value(result.w)
    assert trace.oracle_calls[-1] == result.progress.oracle_calls


def test_the_trace_does_not_depend_on_timing(cvar_problem):
    def run(pause):
        return minimize(
            cvar_problem, SOLVER, budget=Budget(iterations=300), rng=0, observers=[lambda seen: time.sleep(pause)]
        )

    np.testing.assert_array_equal(run(0.0).trace.value, run(0.002).trace.value)


def test_until_ends_a_run(cvar_problem):
    goal = cvar_problem.value(np.zeros(4)) - 0.05
    result = minimize(
        cvar_problem, SOLVER, budget=Budget(iterations=10**6), rng=0, until=lambda seen: seen.value < goal
    )
    assert result.stop is Stop.UNTIL
    assert result.value < goal


def test_divergence_is_a_reason_and_not_a_nan(plain):
    X, y, groups = table()
    problem = xrisk.group_dro(1e3 * X, y, groups, divergence="chi2", loss="squared_hinge")
    result = minimize(problem, ALEXR(step=1e6, dual_step=1e6), budget=Budget(iterations=10_000), rng=0)
    assert result.stop is Stop.DIVERGED
    assert np.isfinite(result.value)
    assert np.isfinite(result.w).all()
    assert "diverged" in str(result.stop)


def test_ctrl_c_returns_the_best_point_so_far(cvar_problem):
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=1), rng=0)
    before = signal.getsignal(signal.SIGINT)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    result = minimize(cvar_problem, SOLVER, budget=Budget(seconds=60), rng=0)
    assert result.stop is Stop.INTERRUPTED
    assert result.value == result.trace.value.min() == cvar_problem.value(result.w)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_in_another_thread_needs_no_signals(cvar_problem):
    results = []
    thread = threading.Thread(
        target=lambda: results.append(minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0))
    )
    thread.start()
    thread.join()
    assert results[0].stop is Stop.ITERATIONS


@pytest.mark.parametrize("w0", [np.zeros(3), np.full(4, np.nan), np.zeros((4, 1))])
def test_a_wrong_start_is_refused(cvar_problem, w0):
    with pytest.raises(ValueError, match=r"w0 must be finite and of shape \(4,\)"):
        minimize(cvar_problem, SOLVER, w0, budget=Budget(iterations=1), rng=0)


def test_a_start_outside_the_domain_is_refused(plain):
    problem = xrisk.applications.hard_smooth(4, eps=0.01).problem
    with pytest.raises(ValueError, match="w0 must have a finite objective"):
        minimize(problem, SOLVER, np.full(4, 7.0), budget=Budget(iterations=1), rng=0)


def test_observers_see_progress_and_cannot_stop(cvar_problem, caplog):
    bar = ProgressBar(Budget(iterations=200), disable=True)
    with caplog.at_level(logging.INFO, logger="xrisk"):
        result = minimize(
            cvar_problem,
            SOLVER,
            budget=Budget(iterations=200),
            rng=0,
            observers=[bar, LogProgress(every=0.0), lambda s: True],
        )
    assert result.progress.iterations == 200
    assert "oracle calls" in caplog.text


def test_a_trace_ratio_of_one_is_refused():
    with pytest.raises(ValueError, match=r"ratio must be greater than 1, got 1.0"):
        Trace(ratio=1.0)


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64])
def test_every_generator_is_resumed_bit_for_bit(cvar_problem, tmp_path, bits):
    path = tmp_path / "run"
    whole = minimize(cvar_problem, SOLVER, budget=Budget(iterations=60), rng=np.random.Generator(bits(5)))
    minimize(
        cvar_problem,
        SOLVER,
        budget=Budget(iterations=30),
        rng=np.random.Generator(bits(5)),
        checkpoint=Checkpoint(path),
    )
    parts = resume(cvar_problem, SOLVER, path, budget=Budget(iterations=60))
    np.testing.assert_array_equal(whole.w, parts.w)


def test_a_checkpoint_of_another_run_is_refused(cvar_problem, tmp_path):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    with pytest.raises(ValueError, match="problem and solver must be those of the checkpoint"):
        resume(cvar_problem, ALEXR(step=0.1), path, budget=Budget(iterations=9))


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, 0.99])
def test_a_damaged_checkpoint_is_refused(cvar_problem, tmp_path, keep):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=5), rng=0, checkpoint=Checkpoint(path))
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(keep * len(whole))])
    with pytest.raises(ValueError, match="path must be a checkpoint"):
        resume(cvar_problem, SOLVER, path, budget=Budget(iterations=9))


def test_no_checkpoint_is_said_so(cvar_problem, tmp_path):
    with pytest.raises(FileNotFoundError):
        resume(cvar_problem, SOLVER, tmp_path / "none", budget=Budget(iterations=9))


KILLED = """
import sys
import xrisk
from tests.conftest import table
problem = xrisk.group_dro(*table(), divergence="cvar", alpha=0.4, l2=0.1)
checkpoint = xrisk.Checkpoint(sys.argv[1], every=0.0)
solver, budget = xrisk.solvers.ALEXR(blocks=2, batch=4), xrisk.Budget(iterations=10**9)
xrisk.minimize(problem, solver, budget=budget, rng=11, checkpoint=checkpoint)
"""


def test_a_killed_run_is_resumed_bit_for_bit(cvar_problem, tmp_path):
    path = tmp_path / "run"
    minimize(cvar_problem, SOLVER, budget=Budget(iterations=1), rng=0)  # compiled before the other process starts
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(0.3)
    process.kill()
    process.wait()
    saved = int(np.load(path)["state.t"])
    more = Budget(iterations=saved + 1000)
    parts = resume(cvar_problem, SOLVER, path, budget=more)
    whole = minimize(cvar_problem, SOLVER, budget=more, rng=11)
    assert saved > 0
    np.testing.assert_array_equal(parts.w, whole.w)
    np.testing.assert_array_equal(parts.dual, whole.dual)
    assert [f.name for f in tmp_path.iterdir() if f.name == "run"] == ["run"]


def test_the_trace_given_is_the_one_that_is_kept(cvar_problem):
    trace = xrisk.Trace(ratio=10.0)
    result = xrisk.minimize(cvar_problem, ALEXR(), budget=Budget(iterations=150), rng=0, trace=trace)
    assert result.trace is trace
    assert trace.iterations.tolist() == [0, 1, 10, 100, 150]


def test_a_solver_is_prepared_with_one_thread_of_the_blas(plain, cvar_problem):
    """Products of long vectors by several threads have other last bits."""
    seen = []

    class Curious(ALEXR):
        def prepare(self, problem):
            seen.extend(_blas_threads())
            return super().prepare(problem)

        def init(self, problem, x, rng):
            seen.extend(_blas_threads())
            return super().init(problem, x, rng)

    with threadpool_limits(limits=2, user_api="blas"):
        minimize(cvar_problem, Curious(), budget=Budget(iterations=1), rng=0)
    assert set(seen) == {1}
