"""Methods for risks over single rows against their naive twins, at extreme losses, and in what they keep."""

import decimal
import time

import numpy as np
import pytest
import scipy.optimize

import xrisk
from tests.conftest import table
from tests.reference import fastdro as plain_fastdro
from tests.reference import scdro as plain_scdro
from tests.reference import weighted_rows as plain_weighted
from tests.reference.single_rows import SingleRows, cvar_worst, kl_worst
from tests.solvers.cases import ball_optimum, masses, row_risk
from tests.solvers.running import begin
from xrisk.compile import uncompiled
from xrisk.functions import (
    L2,
    ChiSquareBallRisk,
    ChiSquareRiskA,
    CVaRRisk,
    KLBallRisk,
    KLRisk,
    Squared,
    WithMasses,
    risk_weights,
)
from xrisk.functions.row_risks import largest_temperature
from xrisk.inner import LinearModel, Samples, SoftmaxModel, as_rows, exact_values
from xrisk.run.checkpoint import leaves
from xrisk.solvers import (
    ASCDRO,
    PGSMD2,
    RECOVER,
    SCDRO,
    SCENT,
    SPD,
    AccMDA,
    Decreasing,
    DualSGM,
    FastDRO,
    FastDROMLMC,
    Lengthening,
    MomentumSGD,
)
from xrisk.solvers.catalogue import CATALOGUE
from xrisk.solvers.dro.accmda import onto_kl_ball
from xrisk.solvers.shared.temperature import storm_scale

RSCDRO, RASCDRO = CATALOGUE["rscdro"], CATALOGUE["rascdro"]
BALL = {"radius": 0.2, "low": 0.05, "first": 0.7}
STEPS = {"step": 0.1, "temperature_step": 0.05, "track": 0.3}


def points(solver, risk, steps=50, fields=("x",)):
    """The start, and what the fields of the state are after every iteration; nothing is compiled."""
    problem, solver, state, rng = begin(row_risk(risk), solver, start=0.1)
    start, found = solver.solution(state)[:4].copy(), []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            found.append(np.concatenate([getattr(state, name) for name in fields]))
    return start, found, state


def assert_follows(found, expected):
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_scdro_follows_its_twin(strength):
    solver = SCDRO(**STEPS, batch=5, temperature=0.7, strength=strength)
    start, found, _ = points(solver, KLBallRisk(0.2, 0.05))
    twin = plain_scdro.scdro(SingleRows(start, 5), 50, np.random.default_rng(0), **STEPS, **BALL, strength=strength)
    assert_follows(found, twin)


def test_scdro_counts_rows_by_their_masses():
    start, found, _ = points(SCDRO(**STEPS, batch=5, temperature=0.7), WithMasses(KLBallRisk(0.2, 0.05), masses()))
    p = SingleRows(start, 5, masses=masses())
    assert_follows(found, plain_scdro.scdro(p, 50, np.random.default_rng(0), **STEPS, **BALL))


@pytest.mark.parametrize("strength", [0.0, 0.3])
def test_ascdro_follows_its_twin(strength):
    solver = ASCDRO(**STEPS, batch=5, temperature=0.7, strength=strength)
    start, found, _ = points(solver, KLBallRisk(0.2, 0.05))
    p = SingleRows(start, 5)
    assert_follows(found, plain_scdro.ascdro(p, 50, np.random.default_rng(0), **STEPS, **BALL, strength=strength)[0])


def test_ascdro_keeps_its_estimate_positive_and_counts():
    steps = {"step": 0.5, "temperature_step": 0.5, "track": 0.02}
    start, found, state = points(ASCDRO(**steps, batch=1, temperature=0.7), KLBallRisk(0.2, 0.05))
    expected, guarded = plain_scdro.ascdro(SingleRows(start, 1), 50, np.random.default_rng(0), **steps, **BALL)
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6, atol=1e-7)  # the twin's s cancels
    assert state.guarded == guarded > 0


def test_recover_follows_its_twin():
    start, found, _ = points(RECOVER(0.1, 0.3, batch=5), KLRisk(0.5), fields=("w",))
    p = SingleRows(start, 5)
    assert_follows(found, plain_scdro.recover(p, 50, np.random.default_rng(0), step=0.1, track=0.3, lam=0.5))


@pytest.mark.parametrize("weights", [None, masses()], ids=["equal", "masses"])
def test_scent_follows_its_twin(weights):
    risk = KLRisk(0.5) if weights is None else WithMasses(KLRisk(0.5), weights)
    start, found, _ = points(SCENT(0.1, 0.3, batch=5), risk, fields=("w",))
    p = SingleRows(start, 5, masses=weights)
    assert_follows(found, plain_scdro.scent(p, 50, np.random.default_rng(0), step=0.1, dual_step=0.3, lam=0.5))


WORST = {
    "kl-ball": (KLBallRisk(0.2, 0.05), lambda v, p: kl_worst(v, p, 0.2, 0.05)),
    "cvar": (CVaRRisk(0.3), lambda v, p: cvar_worst(v, 0.3)),
}


@pytest.mark.parametrize("risk", WORST)
def test_fastdro_follows_its_twin(risk):
    risk, worst = WORST[risk]
    start, found, _ = points(FastDRO(0.1, batch=6, inertia=0.6), risk, fields=("w",))
    p = SingleRows(start, 6)
    assert_follows(found, plain_fastdro.fastdro(p, 50, np.random.default_rng(0), step=0.1, inertia=0.6, worst=worst))


def test_fastdro_counts_rows_by_their_masses():
    risk, worst = WORST["kl-ball"]
    start, found, _ = points(FastDRO(0.1, batch=6, inertia=0.6), WithMasses(risk, masses()), fields=("w",))
    p = SingleRows(start, 6, masses=masses())
    assert_follows(found, plain_fastdro.fastdro(p, 50, np.random.default_rng(0), step=0.1, inertia=0.6, worst=worst))


def test_fastdro_mlmc_follows_its_twin():
    risk, worst = WORST["cvar"]
    start, found, state = points(FastDROMLMC(0.05, batch=4, levels=3), risk, fields=("w",))
    p = SingleRows(start, 4)
    expected, drawn = plain_fastdro.fastdro_mlmc(p, 50, np.random.default_rng(0), step=0.05, levels=3, worst=worst)
    assert_follows(found, expected)
    assert state.rows == drawn


def mean(x):
    return float(np.mean(x))


def kl_slopes(v, eta, lam):
    W = np.exp((v - eta) / lam)
    return W / v.size, 1.0 - mean(W), 0.2 - 1.0 + mean(W * (1.0 - (v - eta) / lam))


def kl_lift(v, eta, lam):
    least = np.log(np.mean(np.exp(v / lam)))
    return lam * least if eta / lam < least - 1.0 else eta


def cvar_slopes(v, eta, lam):
    return (v > eta) / (0.3 * v.size), 1.0 - mean(v > eta) / 0.3, 0.0


def price_slopes(v, eta, lam):
    return np.maximum(v - eta, 0.0) / (0.4 * v.size), 1.0 - mean(np.maximum(v - eta, 0.0)) / 0.4, 0.0


def ball_slopes(v, eta, lam):
    excess = np.maximum(v - eta, 0.0)
    weights = 1.6**0.5 * excess / np.sqrt(np.mean(excess**2))
    return weights / v.size, 1.0 - mean(weights), 0.0


@pytest.mark.parametrize(
    ("risk", "slopes", "low", "lift"),
    [
        (KLBallRisk(0.2, 0.05), kl_slopes, 0.05, kl_lift),
        (CVaRRisk(0.3), cvar_slopes, 1.0, None),
        (ChiSquareRiskA(0.4), price_slopes, 1.0, None),
        (ChiSquareBallRisk(0.3), ball_slopes, 1.0, None),
    ],
    ids=["kl-ball", "cvar", "chi2", "chi2-ball"],
)
def test_dual_sgm_follows_its_twin(risk, slopes, low, lift):
    steps = {"step": 0.1, "threshold_step": 0.07, "temperature_step": 0.05}
    start, found, _ = points(DualSGM(**steps, batch=5, threshold=0.2), risk)
    p = SingleRows(start, 5)
    twin = plain_fastdro.dual_sgm(
        p, 50, np.random.default_rng(0), **steps, slopes=slopes, first=(0.2, 1.0), low=low, lift=lift
    )
    assert_follows(found, twin)


def test_sgd_with_momentum_follows_its_twin():
    start, found, _ = points(MomentumSGD(0.05, batch=5, inertia=0.7), CVaRRisk(0.3), fields=("w",))
    p = SingleRows(start, 5)
    assert_follows(found, plain_fastdro.momentum_sgd(p, 50, np.random.default_rng(0), step=0.05, inertia=0.7))


def test_spd_follows_its_twin():
    start, found, _ = points(SPD(0.1, 0.5, 0.1, batch=3), KLBallRisk(0.2, 0.05), fields=("w", "p"))
    settings = {"step": 0.1, "dual_step": 0.5, "least": 0.1, "radius": 0.2, "price": 0.05}
    assert_follows(found, plain_weighted.spd(SingleRows(start, 3), 50, np.random.default_rng(0), **settings))


def test_pg_smd2_follows_its_twin():
    solver = PGSMD2(0.3, 5.0, 0.2, Lengthening(6), least=0.1, batch=3)
    start, found, _ = points(solver, KLBallRisk(0.2, 0.05), fields=("w", "p"))
    settings = {"step": 0.3, "dual_step": 5.0, "strength": 0.2, "first": 6, "least": 0.1, "radius": 0.2, "price": 0.05}
    assert_follows(found, plain_weighted.pgsmd2(SingleRows(start, 3), 50, np.random.default_rng(0), **settings))


def test_accmda_follows_its_twin():
    k, m = 1.0, 50.0
    mixing = Decreasing(k / m ** (1 / 3), m, 1 / 3)
    start, found, _ = points(AccMDA(0.5, 0.4, mixing, 2.0, 0.1, batch=3), KLRisk(0.5), fields=("w", "p"))
    settings = {"step": 0.5, "dual_step": 0.4, "k": k, "m": m, "decay": 2.0, "least": 0.1, "price": 0.5}
    assert_follows(found, plain_weighted.accmda(SingleRows(start, 3), 50, np.random.default_rng(0), **settings))


@pytest.mark.parametrize("radius", [0.05, 0.5, 1.0])
def test_weights_are_projected_on_a_kl_ball_as_a_solver_does(radius):
    q, found = np.random.default_rng(1).exponential(size=12) ** 2, np.empty(12)
    q /= q.sum()
    onto_kl_ball(q, radius, found)
    limits = [
        {"type": "eq", "fun": lambda p: p.sum() - 1.0},
        {"type": "ineq", "fun": lambda p: radius - np.sum(p * np.log(12 * p))},
    ]
    best = scipy.optimize.minimize(
        lambda p: np.sum((p - q) ** 2), np.full(12, 1 / 12), bounds=[(1e-12, 1)] * 12, constraints=limits, tol=1e-14
    )
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.sum(found * np.log(12 * found)), radius, rtol=1e-8)
    np.testing.assert_allclose(np.sum((found - q) ** 2), best.fun, rtol=1e-6)


def hard_rows(size, n=40):
    """Regression with losses of the given size at the start."""
    X = np.random.default_rng(0).standard_normal((n, 3))
    y = np.sqrt(size) * np.where(np.arange(n) % 4 == 0, 1.0, 0.5) * np.sign(X[:, 0])
    return Samples(LinearModel(as_rows(X), y, Squared()))


KL_METHODS = [
    SCDRO(1e-3, 1e-3),
    ASCDRO(1e-3, 1e-3),
    ASCDRO(0.5, 1e-3, 0.01, batch=1),
    RSCDRO._replace(solver=SCDRO(1e-3, 1e-3, strength=0.1), length=7),
    RASCDRO._replace(solver=ASCDRO(1e-3, 1e-3, strength=0.1), length=7),
    FastDRO(1e-3, batch=8),
    FastDROMLMC(1e-3, batch=4),
    DualSGM(1e-3, 1e-3, 1e-3),
    SPD(1e-3),
    PGSMD2(1e-3, epoch=Lengthening(5)),
    AccMDA(1e-3, 1e-3),
]
PRICE_METHODS = [RECOVER(1e-3), RECOVER(0.5, 0.01, batch=1), SCENT(1e-3), SCENT(1e-3, 1e-8)]


@pytest.mark.parametrize("size", [1e2, 1e4])
@pytest.mark.parametrize(
    ("solver", "risk"),
    [(solver, risk) for solver in KL_METHODS for risk in (KLBallRisk(0.5, 1e-3), KLRisk(1e-3))]
    + [(solver, KLRisk(1e-3)) for solver in PRICE_METHODS],
    ids=lambda value: type(value).__name__,
)
def test_losses_a_hundred_thousand_times_the_temperature_overflow_nothing(solver, risk, size):
    """λ₀ = 1e-3, losses of 100 and of 10,000; warnings are errors."""
    problem, solver, state, rng = begin(xrisk.Problem(hard_rows(size), risk, L2(0.1)), solver)
    with uncompiled():
        state = solver.advance(problem, state, 30, rng)
    assert all(np.isfinite(leaf).all() for leaf in leaves(state).values())
    assert np.isfinite(solver.dual(problem, state)).all()


def test_scdro_equals_sixty_digits():
    """Algorithm 1 with its exponentials as they stand, where v/λ goes beyond 10,000."""
    decimal.getcontext().prec = 60
    D = decimal.Decimal
    steps, stated = {"step": 1e-4, "temperature_step": 1e-5, "track": 0.25}, hard_rows(100.0)
    problem, solver, state, rng = begin(
        xrisk.Problem(stated, KLBallRisk(0.5, 1e-3), L2(0.1)), SCDRO(**steps, batch=3, temperature=2e-3)
    )
    X, y, stream = stated.model.rows.X, stated.model.target, np.random.default_rng(0)
    w, lam, beta, rho = [D(0)] * 3, D(2e-3), D(0.25), D(0.5)
    for t in range(12):
        with uncompiled():
            state = solver.advance(problem, state, 1, rng)
        rows = [int(stream.random() * 40) for _ in range(3)]
        gaps = [sum(D(X[k, j]) * w[j] for j in range(3)) - D(y[k]) for k in rows]
        v = [gap * gap / 2 for gap in gaps]
        e = [(loss / lam).exp() for loss in v]
        s = sum(e) / 3 if t == 0 else (1 - beta) * s + beta * sum(e) / 3  # noqa: F821
        pairs = list(zip(e, gaps, rows, strict=True))
        grad = [sum(x / s * gap * D(X[k, j]) for x, gap, k in pairs) / 3 for j in range(3)]
        slope = s.ln() + rho - sum(x / s * loss for x, loss in zip(e, v, strict=True)) / (3 * lam)
        V = grad if t == 0 else [(1 - beta) * a + beta * b for a, b in zip(V, grad, strict=True)]  # noqa: F821
        U = slope if t == 0 else (1 - beta) * U + beta * slope  # noqa: F821
        w = [(w[j] - D(1e-4) * V[j]) / (1 + D(1e-4) * D(0.1)) for j in range(3)]
        lam = max(lam - D(1e-5) * min(max(U, rho - D(np.log(40.0))), rho), D(1e-3))
    assert max(v) / lam > 10_000
    np.testing.assert_allclose(state.sigma, float(s.ln()), rtol=1e-11)
    np.testing.assert_allclose(state.x, [float(x) for x in [*w, lam]], rtol=1e-9)
    np.testing.assert_allclose(state.z, [float(x) for x in [*V, U]], rtol=1e-7)


CONSTANT = [SCDRO(), ASCDRO(), RSCDRO, FastDRO(), FastDROMLMC(), DualSGM(), SCENT(), RECOVER()]


@pytest.mark.parametrize("solver", CONSTANT, ids=lambda solver: type(solver).__name__)
def test_the_size_of_a_state_does_not_depend_on_the_number_of_rows(solver):
    sizes = []
    for n in (50, 5000):
        _, _, state, _ = begin(xrisk.Problem(hard_rows(1.0, n), KLRisk(0.5), L2(0.1)), solver)
        sizes.append(sum(leaf.nbytes for leaf in leaves(state).values()))
    assert sizes[0] == sizes[1] < 500


@pytest.mark.slow
def test_the_time_of_an_iteration_does_not_grow_with_the_number_of_rows():
    seconds = []
    for n in (10_000, 1_000_000):
        X = np.random.default_rng(0).standard_normal((n, 4)).astype(np.float32)
        stated = xrisk.Problem(
            Samples(LinearModel(as_rows(X), np.where(X[:, 0] > 0, 1.0, -1.0))), KLBallRisk(0.5), L2(0.1)
        )
        problem, solver, state, rng = begin(stated, SCDRO())
        state, rounds = solver.advance(problem, state, 100, rng), []
        for _ in range(5):
            started = time.perf_counter()
            state = solver.advance(problem, state, 2000, rng)
            rounds.append(time.perf_counter() - started)
        seconds.append(min(rounds))
    assert seconds[1] < 3.0 * seconds[0]  # a hundred times as many; what is left are misses of the cache


def softmax_rows():
    X, _, group = table(n=60)
    return Samples(SoftmaxModel(as_rows(X), (group % 3).astype(np.int64), 3))


@pytest.mark.parametrize("inner", [softmax_rows(), hard_rows(2.0)], ids=["multinomial", "regression"])
@pytest.mark.parametrize("solver", [*CONSTANT, SPD(), PGSMD2(), AccMDA()], ids=lambda solver: type(solver).__name__)
def test_many_classes_and_regression_are_taken(solver, inner, plain):
    problem = xrisk.Problem(inner, KLRisk(1.0), L2(0.1))
    result = xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=60), rng=0)
    assert result.value < 0.99 * problem.value(np.zeros(result.w.size))


@pytest.mark.slow
@pytest.mark.parametrize("inner", [softmax_rows(), hard_rows(2.0)], ids=["multinomial", "regression"])
def test_scdro_converges_for_many_classes_and_regression(inner):
    problem = xrisk.Problem(inner, KLRisk(1.0), L2(0.1))
    result = xrisk.minimize(problem, SCDRO(), budget=xrisk.Budget(iterations=5000), rng=0)
    assert result.value < xrisk.solvers.exact(problem).value + 2e-3


EQUAL = np.full(60, 1.0 / 60.0)


@pytest.mark.parametrize("solver", [*CONSTANT[:-1], RASCDRO], ids=lambda solver: type(solver).__name__)
def test_equal_masses_are_none(solver, plain):
    risks = KLRisk(0.5), WithMasses(KLRisk(0.5), EQUAL)
    runs = [xrisk.minimize(row_risk(risk), solver, budget=xrisk.Budget(iterations=15), rng=0) for risk in risks]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-12)
    np.testing.assert_allclose(runs[0].dual, runs[1].dual, rtol=1e-12)


@pytest.mark.parametrize("risk", [CVaRRisk(0.3), ChiSquareRiskA(0.4), ChiSquareBallRisk(0.3), KLBallRisk(0.2, 0.05)])
@pytest.mark.parametrize("solver", [FastDRO(), FastDROMLMC(), DualSGM()], ids=lambda solver: type(solver).__name__)
def test_rows_without_mass_have_no_part_in_a_run(solver, risk, plain):
    """Their labels may be turned: nothing changes."""
    runs = []
    for sign in (1.0, -1.0):
        stated = row_risk(WithMasses(risk, masses()))
        model = stated.inner.model
        turned = model._replace(target=np.where(masses() == 0.0, sign, 1.0) * model.target)
        problem = stated._replace(inner=Samples(turned))
        runs.append(xrisk.minimize(problem, solver, budget=xrisk.Budget(iterations=15), rng=0))
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].dual, runs[1].dual)


def chi_ball_optimum(radius):
    """min over w and η of η + ((1 + 2ρ) mean (v − η)₊²)^½ + r(w), by an interior-point method."""
    import cvxpy as cp

    X, y, _ = table(n=60)
    w, eta = cp.Variable(4), cp.Variable()
    excess = cp.norm(cp.pos(cp.logistic(-cp.multiply(y, X @ w)) - eta)) * np.sqrt((1.0 + 2.0 * radius) / 60.0)
    return cp.Problem(cp.Minimize(eta + excess + 0.05 * cp.sum_squares(w))).solve()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "gap"),
    [(PGSMD2(), 2e-3), (AccMDA(), 2e-3), (SPD(), 5e-3), (FastDROMLMC(), 2e-3), (RASCDRO, 1e-3)],
    ids=lambda value: type(value).__name__,
)
def test_the_optimum_over_a_kl_ball_is_reached(solver, gap):
    stated = row_risk(KLBallRisk(0.2, 0.05))
    result = xrisk.minimize(stated, solver, budget=xrisk.Budget(oracle_calls=1e6), rng=0)
    assert -1e-8 < result.value - ball_optimum(stated) < gap


@pytest.mark.slow
@pytest.mark.parametrize("solver", [FastDRO(batch=256), FastDROMLMC(), DualSGM()], ids=lambda s: type(s).__name__)
def test_the_optimum_over_a_chi_square_ball_is_reached(solver):
    stated = row_risk(ChiSquareBallRisk(0.3))
    result = xrisk.minimize(stated, solver, budget=xrisk.Budget(oracle_calls=1e6), rng=0)
    assert -1e-6 < result.value - chi_ball_optimum(0.3) < 2e-3


@pytest.mark.slow
def test_masses_are_rows_that_stand_repeatedly():
    """What SCDRO converges to, against the same rows listed as often as they weigh."""
    counts = np.arange(60) % 3
    stated = row_risk(WithMasses(KLRisk(0.5), counts / counts.sum()))
    model, listed = stated.inner.model, np.repeat(np.arange(60), counts)
    repeated = LinearModel(as_rows(np.asarray(model.rows.X)[listed]), model.target[listed])
    best = xrisk.solvers.exact(xrisk.Problem(Samples(repeated), KLRisk(0.5), stated.penalty)).w
    with uncompiled():
        result = xrisk.minimize(stated, SCDRO(batch=16), budget=xrisk.Budget(iterations=2000), rng=0)
    np.testing.assert_allclose(result.w, best, atol=0.03)
    assert (result.dual[counts == 0] == 0.0).all()


def test_the_duals_are_the_worst_case_at_the_solution():
    stated = row_risk(KLBallRisk(0.2, 0.05))
    with uncompiled():
        result = xrisk.minimize(stated, SCDRO(), budget=xrisk.Budget(iterations=20), rng=0)
    u, q = np.empty((60, 1)), np.empty(60)
    exact_values(stated.inner, result.w, u)
    risk_weights(stated.outer, u[:, 0].copy(), q)
    np.testing.assert_allclose(result.dual[:, 0], 60 * q, rtol=1e-12)
    np.testing.assert_allclose(
        q @ u[:, 0] - 0.05 * np.sum(q * np.log(60 * q)), result.value - 0.05 * result.w @ result.w
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_optimal_temperature_is_above_its_bound(seed):
    rng = np.random.default_rng(seed)
    v, radius = rng.exponential(size=30) ** 2, float(rng.uniform(0.05, 2.0))
    lam = scipy.optimize.brentq(lambda s: divergence(v, np.exp(s)) - radius, -12.0, 12.0)
    assert np.exp(lam) <= largest_temperature(radius, v.max() - v.min()) * (1.0 + 1e-9)


def divergence(v, lam):
    e = np.exp((v - v.max()) / lam)
    q = e / e.sum()
    return float(np.sum(q * np.log(np.maximum(v.size * q, 1e-300))))


@pytest.mark.parametrize(("m", "here", "there"), [(0.0, 0.1, 0.2), (-3.0, 2.0, 1.9), (5.0, 4.0, 4.2)])
def test_the_scaled_recursion_is_the_plain_one(m, here, there):
    after, kept, shift, guarded = storm_scale(m, 1.0, here, there, 0.1)
    s = np.exp(here) + 0.9 * (np.exp(m) - np.exp(there))
    np.testing.assert_allclose([np.exp(after), kept, np.exp(-shift)], [s, 0.9 * np.exp(m) / s, 0.9 / s], rtol=1e-13)
    assert guarded == 0


def test_where_nothing_but_rounding_is_left_the_batch_stands_alone():
    assert storm_scale(1e5, 1.0, 1.0, 1e5, 0.1) == (1.0, 0.0, np.inf, 1)
    assert storm_scale(1.0, 1e120, 1.0, 1.0, 0.1) == (1.0, 0.0, np.inf, 1)


@pytest.mark.parametrize(
    ("solver", "risk", "words"),
    [
        (SCDRO(), CVaRRisk(0.3), "SCDRO needs a KL risk, got CVaRRisk"),
        (RASCDRO, CVaRRisk(0.3), "ASCDRO needs a KL risk"),
        (SCENT(), KLBallRisk(), "SCENT needs KLRisk, got KLBallRisk"),
        (RECOVER(), WithMasses(KLRisk(), masses()), "RECOVER needs equal masses, got WithMasses"),
        (SPD(), WithMasses(KLRisk(), masses()), "SPD needs equal masses, got WithMasses"),
        (MomentumSGD(), WithMasses(KLRisk(), masses()), "SGD with momentum needs equal masses"),
        (SCDRO(temperature_step=0.0), KLRisk(), "temperature_step must be positive, got 0.0"),
        (SCDRO(strength=-1.0), KLRisk(), "strength must be finite and not negative, got -1.0"),
        (DualSGM(slack=0.0), KLRisk(), "slack must be positive, got 0.0"),
        (FastDRO(inertia=1.0), KLRisk(), r"inertia must lie in \[0, 1\), got 1.0"),
        (FastDROMLMC(batch=5), KLRisk(), "batch must be even, got 5"),
        (FastDROMLMC(levels=0), KLRisk(), "levels must be at least 1, got 0"),
        (SPD(least=1.0), KLRisk(), "least must lie strictly between 0 and 1, got 1.0"),
        (RSCDRO._replace(step_factor=2.0), KLRisk(), r"step_factor must lie in \(0, 1\], got 2.0"),
        (AccMDA(mixing=2.0), KLRisk(), r"mixing must lie in \(0, 1\], got 2.0"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(solver, risk, words):
    with pytest.raises(ValueError, match=words):
        solver.prepare(row_risk(risk))


def test_groups_are_refused(cvar_problem):
    with pytest.raises(ValueError, match="FastDRO needs single rows, got Groups"):
        FastDRO().prepare(cvar_problem)
