"""RowNewton, alone and under Auto: gradients and Hessians by differences, minima against cvxpy, bounds that hold."""

import cvxpy as cp
import numpy as np
import pytest

import xrisk
from xrisk.applications import sample_dro
from xrisk.auto import Auto, planned, staging
from xrisk.functions import L2, Ball, ChiSquareBallRisk, ChiSquareRiskA, CVaRRisk, KLBallRisk, KLRisk, WithMasses
from xrisk.inner import LinearModel, Samples, as_rows
from xrisk.inner.passes import scores_at
from xrisk.solvers import RowNewton
from xrisk.solvers.newton import row_point
from xrisk.solvers.newton import rows as newton_rows
from xrisk.solvers.newton.row_point import at_rows, evaluate, gradient, hessian, solve_with
from xrisk.solvers.newton.rows import row_task

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal((N, 3)) * [1.0, 2.0, 0.5] + [0.0, 1.0, 0.0]
Y = np.where(X[:, 0] + RNG.standard_normal(N) > 0, 1.0, -1.0)
NUMBERS = X[:, 0] + RNG.standard_t(3, N)
MASSES = RNG.dirichlet(np.ones(N))
RISKS = [CVaRRisk(0.7), KLRisk(0.7), ChiSquareRiskA(0.7), KLBallRisk(0.3), ChiSquareBallRisk(0.4, 0.01)]
RISKS += [WithMasses(risk, MASSES) for risk in RISKS]
every_risk = pytest.mark.parametrize("risk", RISKS, ids=lambda risk: type(getattr(risk, "risk", risk)).__name__)


def stated(risk, loss="logistic", **options):
    y = {"logistic": Y, "multinomial": np.arange(N) % 3, "hinge": Y}.get(loss, NUMBERS)
    return sample_dro(X, y, ambiguity=risk, loss=loss, **{"l2": 0.05, "fit_intercept": True, **options})


def solved(problem, tol=1e-6, **options):
    """The result of `Auto`, which leaves rows to the method, proves it and starts on a sample of many."""
    solver = Auto(tol, **options)
    assert isinstance(planned(problem, solver).stages[-1].solver, RowNewton)
    return xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=300))


def objective(task, x, theta):
    """The smoothed objective."""
    point = evaluate(task, x, scores_at(task.inner, x), theta, ())
    return point.case.smoothed + 0.5 * float(task.barrier.l2 @ x**2) + 0.5 * theta * float(task.ridge @ x**2)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
@every_risk
def test_gradient_and_hessian_are_those_of_the_smoothed_objective(risk, loss):
    task = row_task(stated(risk, loss))
    x, theta, step = np.linspace(-0.4, 0.5, task.columns.size), 0.2, 1e-5
    point = evaluate(task, x, scores_at(task.inner, x), theta, ())
    grad, H = gradient(task, point), hessian(task, point)
    for way in np.random.default_rng(1).standard_normal((3, x.size)):
        rise = objective(task, x + step * way, theta) - objective(task, x - step * way, theta)
        assert grad @ way == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-8)
        ends = [gradient(task, evaluate(task, there := x + s * way, scores_at(task.inner, there), theta, ())) for s in
                (step, -step)]  # fmt: skip
        np.testing.assert_allclose(H @ way, (ends[0] - ends[1]) / (2 * step), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_conjugate_gradients_find_the_direction_of_the_factorisation(loss, monkeypatch):
    task = row_task(stated(KLBallRisk(0.3), loss))
    x = np.linspace(-0.4, 0.5, task.columns.size)
    point = evaluate(task, x, scores_at(task.inner, x), 0.1, ())
    grad = gradient(task, point)
    dense = solve_with(task, point)(grad)
    monkeypatch.setattr(row_point, "MAX_VARIABLES", 1)
    found = solve_with(task, point)(grad)
    assert np.linalg.norm(found - dense) <= 0.2 * np.linalg.norm(dense)


def test_a_thinned_hessian_weighs_as_much():
    curvature = np.random.default_rng(0).random(5000)
    kept, factor = row_point._thinned(curvature, 500.0)
    assert np.count_nonzero(kept) <= 501
    assert kept.sum() == pytest.approx(curvature.sum(), rel=1e-2)
    np.testing.assert_allclose(factor * curvature, kept)


def worst_of(risk, losses):
    """The risk in cvxpy: its conjugate form over weights is left to the solver where it is a maximum."""
    p = getattr(risk, "masses", np.full(N, 1.0 / N))
    risk = getattr(risk, "risk", risk)
    if isinstance(risk, CVaRRisk):
        c = cp.Variable()
        return c + p @ cp.pos(losses - c) / risk.alpha
    if isinstance(risk, KLRisk):
        return risk.lam * cp.log_sum_exp(losses / risk.lam + np.log(p))
    if isinstance(risk, ChiSquareRiskA):
        c = cp.Variable()
        return c + 0.5 * risk.lam + p @ cp.square(cp.pos(losses - c)) / (2 * risk.lam)
    radius, strength = risk
    if isinstance(risk, KLBallRisk):  # min over λ of λ log Σ p exp(ℓ/λ) + (λ − λ₀)·radius, through exponential cones
        lam, c, t = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(N)
        cone = cp.ExpCone(losses - c, cp.multiply(np.ones(N), lam), t)
        return (c + (lam - strength) * radius, [cone, p @ t <= lam, lam >= strength])
    lam, c, t = cp.Variable(nonneg=True), cp.Variable(), cp.Variable(N)
    over = cp.Variable(N, nonneg=True)
    squares = [cp.quad_over_lin(over[i], lam) <= t[i] for i in range(N)]
    value = c + 0.5 * lam + 0.5 * (p @ t) + (lam - strength) * radius
    return (value, [*squares, over >= losses - c, lam >= strength])


def optimum(risk, loss, l2=0.05, l1=0.0):
    w, b = cp.Variable(3), cp.Variable()
    z = X @ w + b
    losses = {
        "logistic": cp.logistic(cp.multiply(-Y, z)),
        "squared": 0.5 * cp.square(z - NUMBERS),
        "absolute": cp.abs(z - NUMBERS),
        "hinge": cp.pos(1 - cp.multiply(Y, z)),
    }[loss]
    upper = cp.Variable(N)
    found = worst_of(risk, upper)
    value, limits = found if isinstance(found, tuple) else (found, [])
    problem = cp.Problem(
        cp.Minimize(value + 0.5 * l2 * cp.sum_squares(w) + l1 * cp.norm1(w)), [upper >= losses, *limits]
    )
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@every_risk
def test_the_minimum_is_that_of_cvxpy_and_is_certified(risk, loss):
    result, truth = solved(stated(risk, loss)), optimum(risk, loss)
    assert result.stop is xrisk.Stop.CONVERGED
    assert result.value == pytest.approx(truth, rel=2e-5, abs=1e-7)
    assert result.certificate.dual <= truth * (1 + 1e-6)
    assert result.certificate.primal >= truth * (1 - 1e-6)


@every_risk
def test_alone_it_ends_on_its_own_estimate_at_the_same_minimum(risk):
    problem = stated(risk)
    result = xrisk.minimize(problem, RowNewton(1e-6), budget=xrisk.Budget(iterations=300))
    assert result.stop is xrisk.Stop.CONVERGED
    assert result.certificate is None
    assert result.gap <= 1e-6 * result.value
    assert xrisk.certify(problem, result).relative <= 1e-5
    assert result.value == pytest.approx(solved(problem).value, rel=2e-6)


@pytest.mark.parametrize("risk", [CVaRRisk(0.3), KLBallRisk(0.3)], ids=["cvar", "kl-ball"])
@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_losses_with_a_kink(risk, loss):
    result = solved(stated(risk, loss), tol=1e-4)
    assert result.certificate.relative <= 1e-4
    assert result.value == pytest.approx(optimum(risk, loss), rel=2e-4)


def test_a_penalty_with_a_kink():
    result = solved(stated(KLRisk(0.7), l1=0.05), tol=1e-5)
    assert result.certificate.relative <= 1e-5
    assert result.value == pytest.approx(optimum(KLRisk(0.7), "logistic", l1=0.05), rel=2e-5)


def test_the_weights_are_those_of_the_worst_case():
    result = solved(stated(KLRisk(0.7)))
    losses = np.log1p(np.exp(-Y * (X @ result.w[:-1] + result.w[-1])))
    weights = np.exp(losses / 0.7)
    np.testing.assert_allclose(result.dual[:, 0] / N, weights / weights.sum(), rtol=1e-3)


def test_many_rows_begin_with_a_sample_of_them():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50_000, 2))
    y = np.where(rows[:, 0] + rng.standard_normal(50_000) > 0, 1.0, -1.0)
    problem = sample_dro(rows, y, ambiguity="kl", strength=1.0, l2=0.01)
    sampled = solved(problem, tol=1e-4)
    assert sampled.certificate.relative <= 1e-4
    assert sampled.progress.gradients < solved(problem, tol=1e-4, shares=()).progress.gradients


def test_masses_of_a_sample_are_a_distribution():
    part = at_rows(WithMasses(KLRisk(), MASSES), np.array([3, 5, 7]))
    assert part.masses.sum() == pytest.approx(1.0)
    assert part.masses[1] / part.masses[0] == pytest.approx(MASSES[5] / MASSES[3])


def test_domains_with_a_barrier_are_refused():
    problem = xrisk.Problem(Samples(LinearModel(as_rows(X), Y)), KLRisk(), Ball(1.0))
    with pytest.raises(ValueError, match="row Newton needs a risk over single rows"):
        RowNewton().prepare(problem)


def test_losses_that_overflow_are_refused():
    problem = xrisk.Problem(
        Samples(LinearModel(as_rows(X), np.full(N, 1e200), xrisk.functions.Squared())), KLRisk(), L2()
    )
    with pytest.raises(ValueError, match="the losses overflow near w = 0"):
        RowNewton().prepare(problem)


def with_far_rows(seed, n=4000):
    """A table in which six rows are fifty times as far from the centre as others, on the wrong side; columns scaled."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, 4))
    y = np.where(rows[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)
    far = rng.choice(n, 6, replace=False)
    rows[far] *= 50.0
    y[far] = -np.sign(rows[far, 0])
    return (rows - rows.mean(axis=0)) / rows.std(axis=0), y


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "numbers", [{"ambiguity": "kl", "strength": 1.0}, {"ambiguity": "cvar", "alpha": 0.1}], ids=str
)
def test_far_rows_outside_the_sample_do_not_lead_astray(numbers, seed):
    rows, y = with_far_rows(seed)
    result = solved(sample_dro(rows, y, **numbers, l2=1e-3, fit_intercept=True), 1e-3, least_rows=100)
    assert result.stop is xrisk.Stop.CONVERGED
    assert result.value <= np.log(2.0) * (1.0 + 1e-12)


def begun_on_all_rows(problem, w):
    """The state of `Auto` at the beginning of the stage on all rows, at the solution w of a sample."""
    auto = Auto()
    staged = planned(problem, auto)
    state = auto.init(staged, np.zeros(w.size), RNG)._replace(w=w, value=np.nan)
    return auto, staged, staging._begin(staged, state, len(staged.stages) - 1, 1e-2)


def test_a_sample_whose_solution_is_worse_than_zero_is_not_begun_with():
    problem = stated(KLRisk(1.0))
    _, _, state = begun_on_all_rows(problem, np.full(4, 1e6))
    assert state.run.value <= problem.value(np.zeros(4)) * (1.0 + 1e-12)


@pytest.mark.parametrize(("first", "ended"), [(np.inf, xrisk.Stop.CONVERGED), (0.0, None)])
def test_a_best_point_that_is_certified_ends_the_run_unless_it_is_the_start(first, ended):
    """Where the method is now may be a little worse than the best point before."""
    problem = stated(KLRisk(1.0))
    best = solved(problem)
    auto, staged, state = begun_on_all_rows(problem, 0.9 * best.w)
    run = state.run._replace(ended=1)
    state = state._replace(w=best.w, value=best.value, first=first, run=run)
    assert run.value > best.value
    found = staging._followed(staged, auto._replace(tol=0.5), state)
    assert staging.ENDINGS[found.ended] is ended


def test_a_step_does_not_rise_where_the_slope_at_its_end_is_small():
    """Two lines, falling by 1 and soon rising by 0.4: at w = 1 most of the slope is gone, and the value is higher."""
    problem = sample_dro([[1.0], [0.4]], [10.01, -10.0], ambiguity="kl", strength=1e-3, loss="absolute", l2=1e-9)
    task, solver = RowNewton(1e-6, smoothing=1e-6).prepare(problem)
    state = solver.init(task, np.zeros(1), RNG)
    point = evaluate(task, state.x, state.z, state.theta, ())
    slope, level = float(state.grad[0]), newton_rows.smoothed_at(task, point)
    assert slope < 0.0
    end = evaluate(task, state.x + 1.0, scores_at(task.inner, state.x + 1.0), state.theta, ())
    assert abs(float(gradient(task, end)[0])) < 0.5 * abs(slope)
    assert newton_rows.smoothed_at(task, end) > level + 0.3
    found = newton_rows._searched(
        task, state, newton_rows.SearchDirection(np.ones(1), slope, level, np.zeros(0), state.theta)
    )
    assert newton_rows.smoothed_at(task, found) < level
