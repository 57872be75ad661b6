"""ALEXR against its naive twin, and its special cases."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference.alexr import alexr
from tests.solvers.cases import tasks
from tests.solvers.running import begin
from xrisk.applications import hard_smooth, p_norm_push
from xrisk.functions import L2, AffineLoss, Identity, LogSumExp, MaxOuter, Square
from xrisk.inner import BatchEach, BatchForAll, Groups, LinearModel, as_rows
from xrisk.problem import Problem, coupled
from xrisk.solvers import (
    ALEXR,
    ALEXRDL,
    Conjugate,
    Entropy,
    FreshBatch,
    LastIterate,
    OldValue,
    Quadratic,
    SameBatch,
    ThresholdBounds,
    UniformAverage,
)

STEPS = 50


def run(problem, solver, steps=STEPS, seed=0):
    """The iterates x_1, …, x_T and the last state."""
    stated = problem
    problem, solver = solver.prepare(stated)
    rng = np.random.default_rng(seed)
    w = np.zeros(xrisk.inner.inner_size(stated.inner))
    state = solver.init(problem, solver.start(stated, w), rng)
    xs = []
    for _ in range(steps):
        state = solver.advance(problem, state, 1, rng)
        xs.append(state.w.copy())
    return np.array(xs), state, problem, solver


class Naive:
    """Group means of a logistic model less a threshold, in plain NumPy."""

    def __init__(self, X, y, groups, batch, per_block=1):
        order = np.argsort(groups, kind="stable")
        self.X, self.y = X[order], y[order].astype(float)
        self.offsets = np.concatenate(([0], np.cumsum(np.bincount(groups))))
        self.batch, self.per_block = batch, per_block

    def draw(self, i, rng):
        rows = []
        for j in range(i * self.per_block, (i + 1) * self.per_block):
            low, high = self.offsets[j], self.offsets[j + 1]
            rows.append([low + int(rng.random() * (high - low)) for _ in range(self.batch)])
        return np.array(rows)

    def losses(self, i, w, rows):
        return np.array([np.logaddexp(0.0, -self.y[r] * (self.X[r] @ w)).mean() for r in rows])

    def gradients(self, i, w, rows):
        slope = [-self.y[r] / (1.0 + np.exp(self.y[r] * (self.X[r] @ w))) for r in rows]
        return np.array([s @ self.X[r] / len(r) for s, r in zip(slope, rows, strict=True)])


@pytest.mark.parametrize(
    ("pairing", "again", "bounds"),
    [
        (FreshBatch(), True, ThresholdBounds()),
        (SameBatch(), False, ThresholdBounds()),
        (FreshBatch(), True, ThresholdBounds(0, 0.6)),
    ],
    ids=["fresh", "same", "bounds"],
)
@pytest.mark.usefixtures("plain")
def test_cvar_follows_the_naive_twin_on_the_same_stream(pairing, again, bounds):
    X, y, groups = table()
    alpha, l2, theta, batch, blocks, step, dual_step = 0.4, 0.1, 0.7, 5, 3, 0.05, 0.2
    problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=alpha, l2=l2)
    xs, state, _, _ = run(
        problem, ALEXR(step, dual_step, theta, blocks, batch, average=LastIterate(), pairing=pairing, threshold=bounds)
    )
    naive, duals = Naive(X, y, groups, batch), np.zeros(6)

    def dual_step_of(i, g, tau):
        duals[i] = np.clip(duals[i] + g[0] / tau, 0.0, 1.0 / alpha)
        return duals[i]

    def prox(x, s):
        return np.append(x[:-1] / (1.0 + s * l2), np.clip(x[-1] - s, *bounds))

    expected, _ = alexr(
        np.append(np.zeros(4), min(np.log(2.0), bounds.high)),
        6,
        STEPS,
        step=step,
        dual_step=dual_step,
        theta=theta,
        blocks=blocks,
        draw=naive.draw,
        value=lambda i, x, rows: naive.losses(i, x[:-1], rows) - x[-1],
        jacobian=lambda i, x, rows: np.column_stack([naive.gradients(i, x[:-1], rows), [-1.0]]),
        dual_step_of=dual_step_of,
        prox=prox,
        rng=np.random.default_rng(0),
        again=again,
    )
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(state.z[:, 0], duals, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("outer", "mirror"), [(MaxOuter(), Entropy()), (LogSumExp(2.0), Entropy()), (LogSumExp(2.0), Conjugate())]
)
@pytest.mark.usefixtures("plain")
def test_vector_blocks_follow_the_naive_twin(outer, mirror):
    X, y, groups = table()
    step, dual_step, theta, batch = 0.05, 0.3, 1.0, 3
    solver = ALEXR(step, dual_step, theta, 2, batch, mirror, LastIterate())
    xs, _, _, _ = run(tasks(outer), solver)
    naive = Naive(X, y, groups, batch, per_block=2)
    logs, tracked = np.full((3, 2), -np.log(2.0)), np.zeros((3, 2))

    def softmax(v):
        return np.exp(v - v.max()) / np.exp(v - v.max()).sum()

    def dual_step_of(i, g, tau):
        if isinstance(mirror, Conjugate):
            tracked[i] = (tau * tracked[i] + g) / (1.0 + tau)
            return softmax(2.0 * tracked[i])
        scores = logs[i] + g / tau if isinstance(outer, MaxOuter) else (g + tau * logs[i]) / (0.5 + tau)
        y = softmax(scores)
        logs[i] = np.log(y)
        return y

    expected, _ = alexr(
        np.zeros(4),
        3,
        STEPS,
        step=step,
        dual_step=dual_step,
        theta=theta,
        blocks=2,
        draw=naive.draw,
        value=naive.losses,
        jacobian=naive.gradients,
        dual_step_of=dual_step_of,
        prox=lambda x, s: x / (1.0 + s * 0.1),
        rng=np.random.default_rng(0),
    )
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("plain")
def test_the_hard_instance_follows_the_naive_twin_with_one_noise_for_all_blocks():
    instance = hard_smooth(5, eps=0.005)
    nu, sigma = instance.problem.inner.nu, 1.0
    p = nu**2 / sigma**2
    xs, _, _, _ = run(instance.problem, ALEXR(0.1, 0.2, 1.0, 2, 3, Quadratic(), LastIterate()))
    duals = np.zeros(5)

    def dual_step_of(i, g, tau):
        duals[i] = np.clip((g[0] + tau * duals[i] + nu) / (1.0 + tau), nu - 1.0, nu + 1.0)
        return duals[i]

    def noise(i, rng):
        return np.mean([nu * (1 - p) / p if rng.random() < p else -nu for _ in range(3)])

    expected, _ = alexr(
        np.zeros(5),
        5,
        STEPS,
        step=0.1,
        dual_step=0.2,
        theta=1.0,
        blocks=2,
        draw=noise,
        value=lambda i, x, batch: np.array([x[i] + batch]),
        jacobian=lambda i, x, batch: np.eye(5)[[i]],
        dual_step_of=dual_step_of,
        prox=lambda x, s: np.clip(x / (1.0 + s / 10.0), -1.0, 1.0),
        rng=np.random.default_rng(0),
        shared=True,
    )
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("sampling", "shared"), [(BatchEach(), False), (BatchForAll(), True)], ids=["each", "all"])
@pytest.mark.usefixtures("plain")
def test_pairs_follow_the_naive_twin_with_one_batch_of_negatives_for_each_positive_or_for_all(sampling, shared):
    X, y, _ = table(n=60)
    above, below, step, duals = np.flatnonzero(y > 0), np.flatnonzero(y < 0), 0.05, np.zeros((y > 0).sum())
    stated = p_norm_push(X, y, p=2, outer="positives", loss="logistic", l2=0.1)
    stated = stated._replace(inner=stated.inner._replace(sampling=sampling))
    xs, _, _, _ = run(stated, ALEXR(step, 0.2, 0.7, 3, 5, average=LastIterate()))

    def dual_step_of(i, g, tau):
        duals[i] = max((g[0] + tau * duals[i]) / (0.5 + tau), 0.0)
        return duals[i]

    def jacobian(i, x, rows):
        D = X[above[i]] - X[rows]
        return -(1.0 / (1.0 + np.exp(D @ x)))[None, :] @ D / len(rows)

    expected, _ = alexr(
        np.zeros(4),
        above.size,
        STEPS,
        step=step,
        dual_step=0.2,
        theta=0.7,
        blocks=3,
        draw=lambda i, rng: below[[int(rng.random() * below.size) for _ in range(5)]],
        value=lambda i, x, rows: np.array([np.logaddexp(0.0, -(X[above[i]] - X[rows]) @ x).mean()]),
        jacobian=jacobian,
        dual_step_of=dual_step_of,
        prox=lambda x, s: x / (1.0 + s * 0.1),
        rng=np.random.default_rng(0),
        shared=shared,
    )
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("pairing", [OldValue(), "same"])
def test_a_pairing_of_another_kind_is_refused(pairing):
    with pytest.raises(TypeError, match=r"pairing must be FreshBatch\(\) or SameBatch\(\), got"):
        ALEXR(pairing=pairing).prepare(tasks(MaxOuter()))


def test_bounds_of_a_threshold_that_is_not_there_are_refused():
    with pytest.raises(ValueError, match=r"threshold must be ThresholdBounds\(\) unless .* for MaxOuter"):
        ALEXR(threshold=ThresholdBounds(0.0)).prepare(tasks(MaxOuter()))
    with pytest.raises(ValueError, match="threshold must have low ≤ high"):
        ALEXR(threshold=ThresholdBounds(1.0, 0.0)).prepare(xrisk.group_dro(*table()))


@pytest.mark.usefixtures("plain")
def test_the_double_loop_keeps_the_bounds_of_its_inner_method():
    solver = ALEXRDL(ALEXR(average=LastIterate(), threshold=ThresholdBounds(0.65)), length=5)
    problem, solver, state, rng = begin(xrisk.group_dro(*table(), l2=0.1), solver)
    assert solver.advance(problem, state, 20, rng).inner.w[-1] >= 0.65


def test_plain_python_functions_give_the_iterates_of_the_compiled_problem():
    X, y, groups = table()
    problem = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.4, l2=0.1)
    naive = Naive(X, y, groups, 5)
    work = coupled(problem)
    inner = xrisk.inner.Callables(
        n=6,
        d=5,
        sample=lambda i, rng, size: naive.draw(i, rng),
        value=lambda i, x, rows: naive.losses(i, x[:-1], rows) - x[-1],
        vjp=lambda i, x, rows, dual: np.append(naive.gradients(i, x[:-1], rows)[0], -1.0) * dual,
        exact=lambda i, x: 0.0,
    )
    solver = ALEXR(0.05, 0.2, 0.7, 3, 5, average=LastIterate())
    compiled, _, _, _ = run(problem, solver)
    stated, settled = solver.prepare(Problem(inner, work.outer, work.penalty))
    rng = np.random.default_rng(0)
    state = settled.init(stated, np.append(np.zeros(4), np.log(2.0)), rng)
    state = settled.advance(stated, state, STEPS, rng)
    np.testing.assert_allclose(state.w, compiled[-1], rtol=1e-10)


@pytest.mark.usefixtures("plain")
def test_unsampled_dual_blocks_do_not_move():
    _, state, problem, solver = run(tasks(MaxOuter()), ALEXR(blocks=1), steps=3)
    before = state.z.copy()
    state = solver.advance(problem, state, 1, np.random.default_rng(5))
    assert (before != state.z).any(axis=1).sum() == 1


@pytest.mark.usefixtures("plain")
def test_the_mean_of_iterates_is_what_is_reported():
    problem = xrisk.group_dro(*table(), divergence="cvar", alpha=0.4, l2=0.1)
    xs, state, _, solver = run(problem, ALEXR(average=UniformAverage()))
    np.testing.assert_allclose(solver.solution(state), xs.mean(axis=0), rtol=1e-12)


@pytest.mark.parametrize(
    "average",
    [
        UniformAverage(),
        LastIterate(),
        xrisk.solvers.PolynomialAverage(3),
        xrisk.solvers.GeometricAverage(0.9),
        xrisk.solvers.StageAverage(xrisk.solvers.Stagewise(0.1, 0.5, 10, 2.0)),
    ],
    ids=lambda a: type(a).__name__,
)
@pytest.mark.usefixtures("plain")
def test_averaged_duals_equal_the_running_average_of_all_blocks(average):
    from xrisk.solvers.schedules import average_weight

    stated = xrisk.group_dro(*table(), divergence="cvar", alpha=0.4, l2=0.1)
    problem, solver = ALEXR(blocks=2, average=average).prepare(stated)
    rng = np.random.default_rng(0)
    state = solver.init(problem, solver.start(stated, np.zeros(4)), rng)
    mean = state.z.copy()
    for t in range(45):
        state = solver.advance(problem, state, 1, rng)
        mean += average_weight(average, t) * (state.z - mean)
    np.testing.assert_allclose(solver.dual(problem, state), mean, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("plain")
def test_identity_outer_is_proximal_sgd():
    X, y, groups = table()
    inner = xrisk.group_dro(X, y, groups).inner
    problem = Problem(inner, Identity(), L2(0.1))
    xs, _, _, _ = run(problem, ALEXR(0.05, 0.3, 1.0, 3, 4, average=LastIterate()))
    naive, rng, x, order = Naive(X, y, groups, 4), np.random.default_rng(0), np.zeros(4), np.arange(6)
    for _ in range(STEPS):
        gradient = np.zeros(4)
        for a in range(3):
            b = a + int(rng.random() * (6 - a))
            order[[a, b]] = order[[b, a]]
            naive.draw(order[a], rng)
            gradient += naive.gradients(order[a], x, naive.draw(order[a], rng))[0] / 3
        x = (x - 0.05 * gradient) / (1.0 + 0.05 * 0.1)
    np.testing.assert_allclose(xs[-1], x, rtol=1e-10)


@pytest.mark.usefixtures("plain")
def test_conjugate_and_quadratic_maps_agree_for_a_square_with_matched_steps():
    X, y, groups = table()
    base = xrisk.group_dro(X, y, groups).inner
    model = LinearModel(as_rows(X), base.model.target, AffineLoss())
    problem = Problem(Groups(model, base.offsets, base.index), Square(2.0), L2(0.1))
    a, _, _, _ = run(problem, ALEXR(0.01, 1 / 3.0, mirror=Conjugate(), average=LastIterate()))
    b, _, _, _ = run(problem, ALEXR(0.01, 4 / 3.0, mirror=Quadratic(), average=LastIterate()))
    np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_a_full_batch_has_no_noise_and_converges_linearly():
    """Blocks of one row, all of them each time: no noise is left, and r is strongly convex."""
    X, y, _ = table(n=30)
    inner = xrisk.group_dro(X, y, np.arange(30)).inner
    problem = Problem(inner, xrisk.functions.ChiSquareA(1.0), L2(0.5))
    best = xrisk.solvers.exact(problem).value
    solver = ALEXR(0.1, 0.5, theta=0.9, blocks=30, batch=1, average=LastIterate())
    gaps = [
        xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=t), rng=0).value - best for t in (20, 60, 300)
    ]
    assert gaps[1] < 0.1 * gaps[0]
    assert gaps[2] < 1e-9
