"""Room for what comes next: each future kind of method or problem as a sketch outside the engine.

The sketches are small but whole: they run compiled, through `minimize`, and reach the optimum of their problem.
``docs/decisions/0004-room.md`` argues from them.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import xrisk
from tests.conftest import table
from xrisk import Budget, Problem, minimize
from xrisk.compile import kernel, specialise
from xrisk.data.rows import add_row
from xrisk.functions import L2, CVaRHinge, Logistic, WithThreshold, loss_slope, loss_value, prox
from xrisk.inner import (
    Dense,
    Oracles,
    Shifted,
    batch_value,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_size,
    new_batch,
    row_dot,
    uniform_index,
)
from xrisk.inner.models import add_sample_grad, sample_loss
from xrisk.solvers import ALEXR, ALEXRDL

# Pairwise inner functions over positives and negatives: gᵢ(w) = mean_j ℓ(⟨xⱼ − xᵢ, w⟩)


class PairsSketch(NamedTuple):
    positives: np.ndarray
    negatives: np.ndarray
    loss: Any = Logistic()


@inner_count.of(PairsSketch)
def _(g):
    return g.positives.shape[0]


@inner_dim.of(PairsSketch)
def _(g):
    return 1


@inner_size.of(PairsSketch)
def _(g):
    return g.positives.shape[1]


@inner_is_affine.of(PairsSketch)
def _(g):
    return False


@new_batch.of(PairsSketch)
def _(g, size):
    return np.empty(size, dtype=np.int64)


@draw.of(PairsSketch)
def _(g, i, rng, batch):
    for b in range(batch.size):
        batch[b] = uniform_index(rng, 0, g.negatives.shape[0])
    return batch


@batch_value.of(PairsSketch)
def _(g, i, w, batch, out):
    out[0] = 0.0
    score = row_dot(Dense(g.positives), i, w)
    for j in batch:
        out[0] += loss_value(g.loss, row_dot(Dense(g.negatives), j, w) - score, -1.0) / batch.size


@batch_vjp.of(PairsSketch)
def _(g, i, w, batch, y, scale, grad):
    score = row_dot(Dense(g.positives), i, w)
    for j in batch:
        slope = loss_slope(g.loss, row_dot(Dense(g.negatives), j, w) - score, -1.0)
        add_row(Dense(g.negatives), j, scale * y[0] * slope / batch.size, grad)
        add_row(Dense(g.positives), i, -scale * y[0] * slope / batch.size, grad)


@exact_values.of(PairsSketch)
def _(g, w, out):
    differences = (g.negatives @ w)[None, :] - (g.positives @ w)[:, None]
    out[:, 0] = np.logaddexp(0.0, differences).mean(axis=1)


def test_pairwise_inner_functions_are_a_file_of_their_own():
    """Partial AUC with TPR ≥ ½: the mean loss of the worst half of the positives."""
    X, y, _ = table(n=80)
    inner = PairsSketch(X[y > 0], X[y < 0])
    problem = Problem(Shifted(inner), CVaRHinge(0.5), WithThreshold(L2(0.2)))
    result = minimize(problem, ALEXR(0.05, 0.1, blocks=4), budget=Budget(iterations=30_000), rng=0)
    smooth = scipy_minimize(problem.value, np.zeros(5), method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
    assert result.value <= smooth.fun + 5e-3


# Primal thresholds per block: an iteration touches only the sampled ones


class BlockThresholdsState(NamedTuple):
    w: np.ndarray
    thresholds: np.ndarray  # (n,) νᵢ
    w_mean: np.ndarray
    t: int


class BlockThresholds(NamedTuple):
    """min over w, ν of mean_i [ νᵢ + mean_k (ℓ_k(w) − νᵢ)₊/β ]: a CVaR inside each block, its threshold a variable."""

    step: float = 0.1
    beta: float = 0.5

    def prepare(self, problem):
        return problem, self

    def start(self, problem, w):
        return w

    def init(self, problem, x, rng):
        return BlockThresholdsState(x.copy(), np.zeros(inner_count(problem.inner)), x.copy(), 0)

    def advance(self, problem, state, n_steps, rng):
        return specialise(block_thresholds_steps, problem, self)(problem, state, self, n_steps, rng)

    def solution(self, state):
        return state.w_mean

    def dual(self, problem, state):
        return np.ones((state.thresholds.size, 1))

    def oracles(self, problem, t):
        return Oracles(t, t)


@kernel
def block_thresholds_steps(problem, state, solver, n_steps, rng):
    w, thresholds, w_mean, t0 = state
    g, grad = problem.inner, np.empty(state.w.size)
    room, value, one = new_batch(g, 1), np.empty(1), np.ones(1)
    for t in range(t0, t0 + n_steps):
        i = uniform_index(rng, 0, thresholds.size)
        batch = draw(g, i, rng, room)
        batch_value(g, i, w, batch, value)
        active = 1.0 / solver.beta if value[0] > thresholds[i] else 0.0
        for j in range(grad.size):
            grad[j] = 0.0
        batch_vjp(g, i, w, batch, one, active, grad)
        step = solver.step / np.sqrt(1.0 + t / 100.0)
        thresholds[i] -= step * (1.0 - active)
        for j in range(w.size):
            w[j] -= step * grad[j]
        prox(problem.penalty, w, step)
        for j in range(w.size):
            w_mean[j] += (w[j] - w_mean[j]) * 4.0 / (t + 4.0)
    return BlockThresholdsState(w, thresholds, w_mean, t0 + n_steps)


def test_thresholds_per_block_move_only_when_sampled():
    problem = xrisk.group_dro(*table(), l2=0.1)
    solver, rng = BlockThresholds(), np.random.default_rng(0)
    state = solver.init(problem, np.zeros(4), rng)
    for _ in range(20):
        before = state.thresholds.copy()
        state = solver.advance(problem, state, 1, rng)
        assert (state.thresholds != before).sum() <= 1


def test_thresholds_per_block_reach_the_optimum():
    X, y, groups = table()
    problem = xrisk.group_dro(X, y, groups, l2=0.1)
    result = minimize(problem, BlockThresholds(), budget=Budget(iterations=60_000), rng=0)

    def objective(w):
        losses = np.logaddexp(0.0, -y * (X @ w))
        worst = [_upper_mean(losses[groups == i], 0.5) for i in range(6)]
        return np.mean(worst) + 0.05 * w @ w

    best = scipy_minimize(objective, result.w, method="Powell", options={"xtol": 1e-10, "ftol": 1e-14})
    assert objective(result.w) <= best.fun + 5e-3


def _upper_mean(values, beta):
    values, k = np.sort(values)[::-1], beta * values.size
    full = int(k)
    rest = (k - full) * values[full] if k > full else 0.0
    return (values[:full].sum() + rest) / k


# Joint variables (w, λ) with a state in the log domain: KL-constrained DRO


class LogTrackedState(NamedTuple):
    x: np.ndarray  # (w, λ)
    log_u: float  # log of the tracked mean of exp(ℓ/λ): the mean itself overflows for small λ
    x_mean: np.ndarray
    t: int


class LogTracked(NamedTuple):
    """min over w, λ ≥ floor of λ log mean_k exp(ℓ_k(w)/λ) + radius·λ + r(w), over the rows of one group."""

    step: float = 0.05
    track: float = 0.05
    radius: float = 0.1
    floor: float = 0.05

    def prepare(self, problem):
        return problem, self

    def start(self, problem, w):
        return np.append(w, 1.0)

    def init(self, problem, x, rng):
        return LogTrackedState(x.copy(), 0.0, x.copy(), 0)

    def advance(self, problem, state, n_steps, rng):
        return specialise(log_tracked_steps, problem, self)(problem, state, self, n_steps, rng)

    def solution(self, state):
        return state.x_mean

    def dual(self, problem, state):
        return np.ones((1, 1))

    def oracles(self, problem, t):
        return Oracles(t, t)


@kernel
def log_tracked_steps(problem, state, solver, n_steps, rng):
    x, log_u, x_mean, t0 = state
    model, grad = problem.inner.model, np.empty(state.x.size)
    for t in range(t0, t0 + n_steps):
        w, lam = x[:-1], x[-1]
        k = uniform_index(rng, 0, model.target.size)
        loss = sample_loss(model, k, w)
        track, step = solver.track / (1.0 + t / 1000.0) ** 0.5, solver.step / (1.0 + t / 1000.0) ** 0.5
        log_u = np.logaddexp(np.log1p(-track) + log_u, np.log(track) + loss / lam)
        weight = np.exp(loss / lam - log_u)
        for j in range(grad.size):
            grad[j] = 0.0
        add_sample_grad(model, k, w, weight, grad[:-1])
        grad[-1] = solver.radius + log_u - weight * loss / lam
        for j in range(x.size):
            x[j] -= step * grad[j]
        prox(problem.penalty, x[:-1], step)
        x[-1] = max(x[-1], solver.floor)
        for j in range(x.size):
            x_mean[j] += (x[j] - x_mean[j]) * 4.0 / (t + 4.0)
    return LogTrackedState(x, log_u, x_mean, t0 + n_steps)


def test_joint_variables_with_a_state_in_the_log_domain():
    X, y, _ = table()
    problem = xrisk.group_dro(X, y, np.zeros(y.size), l2=0.1)
    result = minimize(problem, LogTracked(), budget=Budget(iterations=100_000), rng=0)

    def objective(x):
        w, lam = x[:-1], np.exp(x[-1])
        scaled = np.logaddexp(0.0, -y * (X @ w)) / lam
        return lam * (np.log(np.mean(np.exp(scaled - scaled.max()))) + scaled.max() + 0.1) + 0.05 * w @ w

    best = scipy_minimize(objective, np.zeros(5), method="BFGS")
    reached = objective(np.append(result.w, np.log(result.x[-1])))
    assert reached <= best.fun + 5e-3


# Snapshots and full passes: SVRPDA-I for squares of affine inner functions


class SnapshotState(NamedTuple):
    w: np.ndarray
    y: np.ndarray  # (n, 1)
    snapshot: np.ndarray
    means: np.ndarray  # (n, 1) g at the snapshot
    combined: np.ndarray  # (1/n) Σ Jᵢᵀ yᵢ at the snapshot
    t: int


class Snapshots(NamedTuple):
    """A full pass at the start of every epoch; steps in between correct the pass by samples."""

    step: float = 0.01
    dual_step: float = 0.2
    epoch: int = 200

    def prepare(self, problem):
        return problem, self

    def start(self, problem, w):
        return w

    def init(self, problem, x, rng):
        n = inner_count(problem.inner)
        return SnapshotState(x.copy(), np.zeros((n, 1)), x.copy(), np.zeros((n, 1)), np.zeros(x.size), 0)

    def advance(self, problem, state, n_steps, rng):
        end = state.t + n_steps
        while state.t < end:
            if state.t % self.epoch == 0:
                state = self.pass_over(problem, state)
            steps = min(end, (state.t // self.epoch + 1) * self.epoch) - state.t
            state = specialise(snapshot_steps, problem, self)(problem, state, self, steps, rng)
        return state

    def pass_over(self, problem, state):
        combined = np.zeros(state.w.size)
        exact_values(problem.inner, state.w, state.means)
        exact_vjp(problem.inner, state.w, state.y / state.y.size, combined)
        return state._replace(snapshot=state.w.copy(), combined=combined)

    def solution(self, state):
        return state.w

    def dual(self, problem, state):
        return state.y

    def oracles(self, problem, t):
        rows = int(problem.inner.offsets[-1])
        passes = -(-t // self.epoch)
        return Oracles(2 * t + passes * rows, 2 * t + passes * rows)


@kernel
def snapshot_steps(problem, state, solver, n_steps, rng):
    w, y, snapshot, means, combined, t0 = state
    g, n = problem.inner, y.shape[0]
    room, here, there, one, grad = new_batch(g, 1), np.empty(1), np.empty(1), np.ones(1), np.empty(w.size)
    for _ in range(n_steps):
        i = uniform_index(rng, 0, n)
        batch = draw(g, i, rng, room)
        batch_value(g, i, w, batch, here)
        batch_value(g, i, snapshot, batch, there)
        value = here[0] - there[0] + means[i, 0]
        new = (y[i, 0] + solver.dual_step * value) / (1.0 + solver.dual_step / 2.0)  # f = u²
        batch_vjp(g, i, snapshot, draw(g, i, rng, room), one, (new - y[i, 0]) / n, combined)  # SVRPDA-II's fresh sample
        y[i, 0] = new
        i = uniform_index(rng, 0, n)
        batch = draw(g, i, rng, room)
        for j in range(w.size):
            grad[j] = combined[j]
        batch_vjp(g, i, w, batch, y[i], 1.0, grad)
        batch_vjp(g, i, snapshot, batch, y[i], -1.0, grad)
        for j in range(w.size):
            w[j] -= solver.step * grad[j]
        prox(problem.penalty, w, solver.step)
    return SnapshotState(w, y, snapshot, means, combined, t0 + n_steps)


def squares():
    from tests.solvers.cases import squares as problem

    return problem()


def test_snapshots_and_full_passes():
    problem = squares()
    best = xrisk.solvers.exact(problem).value
    result = minimize(problem, Snapshots(), budget=Budget(iterations=20_000), rng=0)
    assert result.value - best < 1e-3
    assert result.progress.oracle_calls == 2 * (2 * 20_000 + 100 * 240)


def test_budgets_count_full_passes():
    result = minimize(squares(), Snapshots(), budget=Budget(oracle_calls=1000), rng=0)
    assert result.progress.iterations == 130
    assert result.progress.oracle_calls <= 1000


def test_runs_with_full_passes_are_resumed_bit_for_bit(tmp_path):
    problem, solver, path = squares(), Snapshots(), tmp_path / "run"
    whole = minimize(problem, solver, budget=Budget(iterations=700), rng=0)
    minimize(problem, solver, budget=Budget(iterations=333), rng=0, checkpoint=xrisk.Checkpoint(path))
    np.testing.assert_array_equal(xrisk.resume(problem, solver, path, budget=Budget(iterations=700)).w, whole.w)


# Stages and proximal-point outer loops: ALEXR inside r + (ρ/2)‖· − x_k‖², by now in the package


@pytest.mark.parametrize("cut", [499, 500, 777])
def test_nested_states_are_resumed_bit_for_bit(cut, tmp_path):
    problem, solver, path = xrisk.group_dro(*table(), l2=0.1), ALEXRDL(length=500), tmp_path / "run"
    whole = minimize(problem, solver, budget=Budget(iterations=1200), rng=0)
    minimize(problem, solver, budget=Budget(iterations=cut), rng=0, checkpoint=xrisk.Checkpoint(path))
    np.testing.assert_array_equal(xrisk.resume(problem, solver, path, budget=Budget(iterations=1200)).w, whole.w)
