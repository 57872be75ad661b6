"""Room for what comes next: each future kind of method or problem as a sketch outside the engine.

The sketches are small but whole: they run compiled, through `minimize`, and reach the optimum of their problem.
``docs/decisions/0004-room.md`` argues from them.
"""

from typing import Any, NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

import xrisk
from tests.conftest import table
from xrisk import Budget, Problem, minimize
from xrisk.compile import kernel, specialise
from xrisk.data.products import row_block
from xrisk.data.rows import add_row, row_count, row_size
from xrisk.functions import (
    L2,
    CVaRHinge,
    CVaRRisk,
    HingeLoss,
    Identity,
    Logistic,
    WithThreshold,
    loss_slope,
    loss_value,
    prox,
    risk_project,
    risk_value,
    risk_weights,
)
from xrisk.functions.smoothing import plain_loss, smooth_loss
from xrisk.generic import REGISTRATIONS, generic
from xrisk.inner import (
    Dense,
    Oracles,
    Shifted,
    as_rows,
    batch_value,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_samples,
    inner_size,
    new_batch,
    row_dot,
    uniform_index,
)
from xrisk.inner.models import row_loss, row_vjp
from xrisk.inner.passes import (
    EPS,
    Walk,
    column_sizes,
    pass_loss,
    pass_rows,
    values_by_walk,
    vjp_by_walk,
    walk,
    walk_rounding,
    with_loss,
)
from xrisk.inner.visitors import DualTerms, LossBounds, SmoothedTerms, asks_factors, visit
from xrisk.solvers import ALEXR, ALEXRDL, Auto, Newton, SmoothedLBFGS
from xrisk.solvers.base import copied

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


# A geometry whose samples weigh what their losses make them weigh: a CVaR over the negatives of each positive


class TailPairs(NamedTuple):
    """gᵢ(w) = mean of the worst share β of ℓ(⟨xᵢ − xⱼ, w⟩) over the m negatives j, the last one fractionally.

    That is the largest Σⱼ pⱼ ℓⱼ over the weights p with 0 ≤ pⱼ ≤ 1/(βm) and Σ p = 1: its samples have such weights.
    """

    rows: Any = Dense()
    positives: np.ndarray = np.zeros(0, dtype=np.int64)  # (n,)
    negatives: np.ndarray = np.zeros(0, dtype=np.int64)  # (m,) all different
    loss: Any = Logistic()
    beta: float = 0.33


inner_count.of(TailPairs)(lambda g: g.positives.size)
inner_dim.of(TailPairs)(lambda g: 1)
inner_size.of(TailPairs)(lambda g: row_size(g.rows))
inner_samples.of(TailPairs)(lambda g: g.positives.size * g.negatives.size)
inner_is_affine.of(TailPairs)(lambda g: False)
pass_rows.of(TailPairs)(lambda g: g.rows)
pass_loss.of(TailPairs)(lambda g: g.loss)
with_loss.of(TailPairs)(lambda g, loss: g._replace(loss=loss))
exact_values.of(TailPairs)(values_by_walk)
exact_vjp.of(TailPairs)(vjp_by_walk)


@column_sizes.of(TailPairs)
def _(g):
    differences = row_block(g.rows, g.positives)[:, None] - row_block(g.rows, g.negatives)
    return np.sqrt((differences**2).mean(axis=(0, 1)))


@walk.of(TailPairs)
def _(g, visitor, at, share):
    done, j = Walk(np.zeros((g.positives.size, 4)), np.zeros((1, row_count(g.rows)))), g.negatives
    for k, i in enumerate(g.positives):
        factor = at.factor[k] if asks_factors(visitor) else 1.0
        z, direction = at.z[i, 0] - at.z[j, 0], factor * (at.direction[i, 0] - at.direction[j, 0])
        samples = np.column_stack(
            [z, direction, at.error_bound[i] + at.error_bound[j], at.free_entry[i] - at.free_entry[j]]
        ).tolist()
        seen = np.array([visit(visitor, g.loss, *sample, 1.0) for sample in samples])
        p = tail_weights(g, z, getattr(visitor, "mu", 0.0))
        done.sums[k] = tail_sums(visitor, g, p, seen[:, :4])
        if share.size:
            done.coefs[0, i] += share[k] * (p @ seen[:, 4])
            done.coefs[0, j] -= share[k] * p * seen[:, 4]
    return done


@walk_rounding.of(TailPairs)
def _(g):
    """That of the sums, and how far p may be from a point that exactly satisfies its constraints."""
    return EPS * (4.0 * g.negatives.size**2 / g.beta + 64)


def tail_weights(g, z, mu):
    """The p (m,) with the largest Σ pⱼ ℓⱼ − `tail_bend`, losses smoothed by ``mu`` too; a worst case if that is 0.

    Any p within the constraints proves a lower bound, so that certificates take the p of every smoothing.
    """
    p, m = np.empty(z.size), z.size
    if mu == 0.0:
        risk_weights(CVaRRisk(g.beta), np.array([loss_value(plain_loss(g.loss), t, 1.0) for t in z.tolist()]), p)
    else:
        p[:] = [1.0 / m + smooth_loss(g.loss, t, 1.0, mu)[0] / (mu * m) for t in z.tolist()]
        risk_project(CVaRRisk(g.beta), p)
    return p


def tail_curvature(p, mu):
    """(μm/2)‖p − 1/m‖², which makes the CVaR smooth and is at most μ(1/β − 1)/2."""
    return 0.5 * mu * p.size * float(((p - 1.0 / p.size) ** 2).sum())


@generic
def tail_sums(visitor, g, p, seen):
    """The four sums of a block, of its weights and of what the visitor returned (m, 4)."""


@tail_sums.otherwise
def _(visitor, g, p, seen):
    return p @ seen


@tail_sums.of(LossBounds)
@tail_sums.of(DualTerms)
def _(visitor, g, p, seen):
    """Errors and sizes are those of the largest sample: it bounds them for every p, those nearby included."""
    return p @ seen[:, 0], seen[:, 1].max(), seen[:, 2].max(), 0.0


@tail_sums.of(SmoothedTerms)
def _(visitor, g, p, seen):
    value, _, lower, along = p @ seen
    return value - tail_curvature(p, visitor.mu), risk_value(CVaRRisk(g.beta), seen[:, 1].copy()), lower, along


def tail_problem(loss):
    X, y, _ = table(n=90)
    return Problem(
        TailPairs(as_rows(X), np.flatnonzero(y > 0)[:15], np.flatnonzero(y < 0)[:40], loss), Identity(), L2(0.1)
    )


def tail_losses(problem, w):
    """The losses (n, m) of all pairs, by brute force."""
    g, scores = problem.inner, problem.inner.rows.X @ w
    margins = scores[g.positives][:, None] - scores[g.negatives]
    return np.logaddexp(0.0, -margins) if type(g.loss) is Logistic else np.maximum(1.0 - margins, 0.0)


def tail_optimum(problem):
    """The optimum by CVXPY: a threshold for each positive, and what losses exceed it by."""
    g, X = problem.inner, problem.inner.rows.X
    n, m = g.positives.size, g.negatives.size
    w, thresholds = cp.Variable(X.shape[1]), cp.Variable(n)
    margins = (X[g.positives][:, None] - X[g.negatives]).reshape(n * m, -1) @ w
    losses = cp.logistic(-margins) if type(g.loss) is Logistic else cp.pos(1.0 - margins)
    above = cp.pos(losses - np.repeat(np.eye(n), m, axis=0) @ thresholds)
    objective = (cp.sum(thresholds) + cp.sum(above) / (g.beta * m)) / n + 0.5 * problem.penalty.l2 * cp.sum_squares(w)
    precision = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-7)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL, **precision)


@pytest.mark.parametrize("loss", [Logistic(), HingeLoss()])
def test_means_of_worst_shares_over_negatives_are_those_of_sorted_losses(loss):
    problem, w = tail_problem(loss), np.array([0.5, -1.0, 2.0, 0.3])
    worst = [_upper_mean(row, problem.inner.beta) for row in tail_losses(problem, w)]
    np.testing.assert_allclose(problem.value(w), np.mean(worst) + 0.05 * w @ w, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [SmoothedLBFGS(tol=1e-5), Auto(), Auto(tol=1e-5)])
@pytest.mark.parametrize("loss", [Logistic(), HingeLoss()])
def test_full_batch_methods_and_certificates_take_weights_inside_blocks_as_they_are(loss, solver):
    problem = tail_problem(loss)
    result, best = minimize(problem, solver, budget=Budget(iterations=500)), tail_optimum(problem)
    found = result.certificate or xrisk.certify(problem, result)
    assert found.relative <= 1e-3
    assert found.dual - 1e-7 <= best <= found.primal + 1e-7
    np.testing.assert_allclose(result.value, best, rtol=1e-3)


def test_newton_refuses_a_geometry_without_a_hessian():
    with pytest.raises(ValueError, match=r"^Newton knows no Hessian of TailPairs: SmoothedLBFGS needs none$"):
        minimize(tail_problem(Logistic()), Newton(), budget=Budget(iterations=1))


def test_a_geometry_implements_no_verb_of_certificates_or_solvers():
    verbs = {entry.verb for entry in REGISTRATIONS if entry.cls is TailPairs or __name__ in entry.homes}
    assert verbs == {"xrisk.inner.oracle", "xrisk.inner.passes", __name__}


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
    batch, value, one = new_batch(g, 1), np.empty(1), np.ones(1)
    for t in range(t0, t0 + n_steps):
        i = uniform_index(rng, 0, thresholds.size)
        draw(g, i, rng, batch)
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


@pytest.mark.slow
def test_thresholds_per_block_move_only_when_sampled():
    problem = xrisk.group_dro(*table(), l2=0.1)
    solver, rng = BlockThresholds(), np.random.default_rng(0)
    state = solver.init(problem, np.zeros(4), rng)
    for _ in range(20):
        before = state.thresholds.copy()
        state = solver.advance(problem, state, 1, rng)
        assert (state.thresholds != before).sum() <= 1


@pytest.mark.slow
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
        loss = row_loss(model, k, w)
        track, step = solver.track / (1.0 + t / 1000.0) ** 0.5, solver.step / (1.0 + t / 1000.0) ** 0.5
        log_u = np.logaddexp(np.log1p(-track) + log_u, np.log(track) + loss / lam)
        weight = np.exp(loss / lam - log_u)
        for j in range(grad.size):
            grad[j] = 0.0
        row_vjp(model, k, w, weight, grad[:-1])
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
        end, state = state.t + n_steps, copied(state)  # a pass may be interrupted
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
    batch, here, there, one, grad = new_batch(g, 1), np.empty(1), np.empty(1), np.ones(1), np.empty(w.size)
    for _ in range(n_steps):
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
        batch_value(g, i, w, batch, here)
        batch_value(g, i, snapshot, batch, there)
        value = here[0] - there[0] + means[i, 0]
        new = (y[i, 0] + solver.dual_step * value) / (1.0 + solver.dual_step / 2.0)  # f = u²
        draw(g, i, rng, batch)
        batch_vjp(g, i, snapshot, batch, one, (new - y[i, 0]) / n, combined)  # SVRPDA-II's fresh sample
        y[i, 0] = new
        i = uniform_index(rng, 0, n)
        draw(g, i, rng, batch)
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


@pytest.mark.slow
def test_snapshots_and_full_passes():
    problem = squares()
    best = xrisk.solvers.exact(problem).value
    result = minimize(problem, Snapshots(), budget=Budget(iterations=20_000), rng=0)
    assert result.value - best < 1e-3
    assert result.progress.oracle_calls == 2 * (2 * 20_000 + 100 * 240)


@pytest.mark.slow
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
