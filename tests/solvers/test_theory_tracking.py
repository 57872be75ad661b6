"""Settings of the methods that track inner values: formulas, refusals, and promises kept where constants are known."""

import math

import numpy as np
import pytest

import xrisk
from tests.solvers.running import begin
from xrisk.applications import hard_nonsmooth, hard_smooth
from xrisk.functions import L2, Square, outer_slope
from xrisk.inner import NoisyCoordinates
from xrisk.solvers import MSVR, SONEX, SONX, SOX, LastIterate, Restarted, TheoryCorrection, UnitStep, theory

SMOOTH = theory.Constants(8, 1.5, 2.0, 1.2, 0.7, 0.9, 0.4, 0.6, 0.1, 1.0, 1.0)
KINKED = SMOOTH._replace(smoothness_f=math.inf)


def smooth():
    return hard_smooth(8, eps=0.005).problem


def kinked():
    return hard_nonsmooth(8, eps=0.05).problem


def test_sox_has_the_corrected_constants_of_theorem_5_1():
    eps, S, B, n = 0.05, 2, 4, 8
    setting = theory.sox_setting(smooth(), eps, drop=1.0, constants=SMOOTH, solver=SOX(blocks=S, batch=B))
    sigma2 = 1.5**2 * 0.4 / (S * B) + 0.6 * (n - S) / (S * (n - 1))
    total = 1.5 * 0.7 + 1.2**2 * 2.0
    c1, c2, c3 = 8 * 1.2**2 * 2.0**2, 4 * total**2 + 2, 2 * 1.2**2
    beta = eps**2 / (4 * sigma2)
    gamma = min(eps**2 * B / (128 * 1.2**2 * 2.0**2 * 0.9), n * eps / (2 * S * 1.2 * 2.0 * math.sqrt(0.9 / B)))
    step = min(1 / (2 * total), beta / (2 * math.sqrt(c2)), S * gamma / (n * math.sqrt(32 * c1 * c3)))
    assert setting.solver.momentum == pytest.approx(beta)
    assert setting.solver.track == pytest.approx(gamma)
    assert setting.solver.step == pytest.approx(step)
    assert setting.iterations == math.ceil(4 / (setting.solver.step * eps**2))


@pytest.mark.slow
def test_sox_reaches_its_target():
    """E‖∇F‖² ≤ ε² on the average over the run."""
    eps, instance, n = 0.15, hard_smooth(8, eps=0.005), 8
    problem, nu = instance.problem, instance.problem.inner.nu
    c = theory.Constants(n, 1 + nu, 1.0, 1.0, 0.0, 1.0, 0.0, (1 + nu) ** 2, 1 / (2 * n), 1.0, 1.0)
    drop = problem.value(np.full(n, 0.5)) - instance.value
    setting = theory.sox_setting(problem, eps, drop=drop, constants=c, solver=SOX(blocks=4, batch=64))
    problem, solver, state, rng = begin(problem, setting.solver, start=0.5)
    squares = []
    for _ in range(100):
        state = solver.advance(problem, state, setting.iterations // 100, rng)
        slopes = np.array([outer_slope(problem.outer, float(x)) for x in state.w])
        squares.append(np.sum((slopes / n + state.w / (2 * n)) ** 2))
    assert squares[0] > eps**2
    assert np.mean(squares) <= eps**2


@pytest.mark.parametrize(
    ("correction", "c", "track", "step", "iterations"),
    [
        (0.0, KINKED, "ε**4*B/v", "S*ε**6*B/(n*v)", "n*v/(S*B*ε**8)"),
        (0.0, SMOOTH, "ε**2*B/v", "S*ε**3*B/(n*v)", "n*v/(S*B*ε**5)"),
        (0.5, KINKED, "ε**4*B/v", "S*B**.5*ε**4/(n*v**.5)", "n*v**.5/(S*B**.5*ε**6)"),
        (0.5, SMOOTH, "ε**2*B/v", "S*B**.5*ε**2/(n*v**.5)", "n*v**.5/(S*B**.5*ε**4)"),
    ],
    ids=["v1", "v1 smooth", "v2", "v2 smooth"],
)
def test_sonx_has_the_orders_of_its_table(correction, c, track, step, iterations):
    table = {"ε": 0.3, "S": 2, "B": 4, "n": 8, "v": 0.9}
    setting = theory.sonx_setting(kinked(), 0.3, constants=c, solver=SONX(correction=correction, blocks=2, batch=4))
    assert setting.solver.track == pytest.approx(eval(track, table))
    assert setting.solver.step == pytest.approx(eval(step, table))
    assert setting.iterations == math.ceil(eval(iterations, table))


def test_sonx_takes_the_correction_of_the_theory_in_v2_only():
    v1, v2 = (theory.sonx_setting(kinked(), 0.3, constants=KINKED, solver=SONX(correction=c)) for c in (0.0, 0.5))
    assert v1.solver.correction == 0.0
    assert isinstance(v2.solver.correction, TheoryCorrection)


@pytest.mark.parametrize(("correction", "most"), [(0.0, 1.0), (0.5, 0.5)], ids=["v1", "v2"])
def test_without_noise_nothing_is_averaged(correction, most):
    c = KINKED._replace(noise_value=0.0)
    setting = theory.sonx_setting(kinked(), 0.3, constants=c, solver=SONX(correction=correction))
    assert setting.solver.track == most


@pytest.mark.parametrize(
    ("correction", "bound", "iterations"),
    [(0.0, "S*ε**5*B/(n*v)", "n*v/(S*B*ε**7)"), (0.5, "S*ε**3*B**.5/(n*v**.5)", "n*v**.5/(S*B**.5*ε**5)")],
    ids=["v1", "v2"],
)
def test_sonex_has_the_orders_of_its_theorems(correction, bound, iterations):
    table, c = {"ε": 0.3, "S": 2, "B": 4, "n": 8, "v": 0.9}, KINKED._replace(noise_gradient=0.0, spread=0.0)
    setting = theory.sonex_setting(kinked(), 0.3, constants=c, solver=SONEX(correction=correction, blocks=2, batch=4))
    assert (setting.solver.nu, setting.solver.momentum) == (0.3, 1.0)
    assert setting.solver.step == pytest.approx(eval(bound, table))
    assert setting.iterations == math.ceil(eval(iterations, table))


def test_sonex_slows_down_for_the_noise_of_the_gradient():
    c = KINKED._replace(spread=100.0)
    setting = theory.sonex_setting(kinked(), 0.3, constants=c, solver=SONEX(blocks=2, batch=4))
    sigma2 = 1.5**2 * 0.4 / 8 + 100.0 * 6 / (2 * 7)
    assert setting.solver.momentum == pytest.approx(0.09 / sigma2)
    assert setting.solver.step == pytest.approx(0.3 * 0.09 / sigma2)


def test_msvr_has_the_orders_of_its_theorem():
    setting = theory.msvr_setting(smooth(), 0.1, constants=SMOOTH, solver=MSVR(blocks=2, batch=4))
    T, n, S = math.ceil(8 * math.sqrt(0.9) / (2 * 2 * 0.1**3)), 8, 2
    assert setting.iterations == T
    assert setting.solver.track == pytest.approx(n ** (2 / 3) / (S ** (2 / 3) * T ** (2 / 3)))
    assert setting.solver.momentum == pytest.approx(n ** (2 / 3) * S ** (1 / 3) / T ** (2 / 3))
    assert setting.solver.step == pytest.approx(S ** (1 / 3) / (n ** (1 / 3) * T ** (2 / 3)))
    assert type(setting.solver.scaling) is UnitStep


def boost(eps):
    """mean xᵢ² + ½‖x‖² from x₀ = (1, 1, 1, 1), where F = 3; |xᵢ| ≤ 1 on the way down."""
    problem = xrisk.Problem(NoisyCoordinates(4, nu=0.3), Square(), L2(1.0))
    c = theory.Constants(4, 2.0, 2.0, 1.0, 0.0, 1.0, 0.0, 4.0, 1.0, 2.0, 1.0)
    return theory.sox_boost_setting(problem, eps, drop=3.0, constants=c, solver=SOX(blocks=2, batch=16))


def test_sox_boost_has_the_constants_of_the_text():
    setting, first = boost(0.5), 1.5
    V = 2 * 2.0**2 / 16 + 2 * 2.0**2 / 16 + 2.0**2
    beta = 2 * 1.0 * first / (8 * V)
    step = beta / (4 * math.sqrt(2.0**2 + 4 * 2.0**2))
    assert setting.solver.solver.momentum == pytest.approx(beta)
    assert setting.solver.solver.step == pytest.approx(step)
    assert setting.solver.length == math.ceil(8 * max(1 / beta, 1 / step))
    assert setting.iterations == setting.solver.length * (1 + 2 + 4)  # log₂(3/0.5) stages, rounded up
    assert isinstance(setting.solver, Restarted)


@pytest.mark.slow
def test_sox_boost_reaches_its_target():
    setting = boost(0.05)
    budget = xrisk.Budget(iterations=setting.iterations)
    runs = [xrisk.minimize(setting.problem, setting.solver, np.ones(4), budget=budget, rng=seed) for seed in range(3)]
    assert np.mean([result.value for result in runs]) <= 0.05


def test_sox_boost_refuses_a_slope_that_is_not_linear():
    with pytest.raises(ValueError, match="needs an outer function of linear slope, got HardSmooth"):
        theory.sox_boost_setting(smooth(), 0.1, drop=1.0, constants=SMOOTH)


def test_sox_boost_refuses_a_merely_convex_problem():
    with pytest.raises(ValueError, match="needs a strongly convex penalty"):
        theory.sox_boost_setting(smooth(), 0.1, drop=1.0, constants=SMOOTH._replace(mu=0.0))


SETTINGS = [
    (theory.sox_setting, {"drop": 1.0}),
    (theory.sonx_setting, {}),
    (theory.sonex_setting, {}),
    (theory.msvr_setting, {}),
    (theory.sox_boost_setting, {"drop": 1.0}),
]
each = pytest.mark.parametrize(("setting", "options"), SETTINGS, ids=lambda value: getattr(value, "__name__", ""))


@each
@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_not_positive_is_refused(setting, options, eps):
    with pytest.raises(ValueError, match="eps must be"):
        setting(smooth(), eps, constants=SMOOTH, **options)


@pytest.mark.parametrize("setting", [theory.sox_setting, theory.sox_boost_setting])
@pytest.mark.parametrize("drop", [0.0, np.nan, np.inf])
def test_a_drop_that_is_not_positive_is_refused(setting, drop):
    problem = xrisk.Problem(NoisyCoordinates(8, nu=0.3), Square(), L2(1.0))
    with pytest.raises(ValueError, match="drop must be"):
        setting(problem, 0.1, drop=drop, constants=SMOOTH)


@pytest.mark.parametrize(("setting", "options"), [s for s in SETTINGS if s[0] is not theory.sonx_setting])
def test_inner_functions_with_kinks_are_refused(setting, options):
    with pytest.raises(ValueError, match="needs smooth inner functions"):
        setting(smooth(), 0.1, constants=SMOOTH._replace(smoothness_g=math.inf), **options)


def test_an_outer_function_with_a_kink_is_sent_to_sonx():
    with pytest.raises(ValueError, match="use sonx_setting"):
        theory.sox_setting(kinked(), 0.1, drop=1.0, constants=KINKED)


@each
def test_random_iterates_are_those_of_the_run(setting, options):
    problem = xrisk.Problem(NoisyCoordinates(8, nu=0.3), Square(), L2(1.0))
    found = setting(problem, 0.2, constants=SMOOTH, **options).solver
    assert type(getattr(found, "solver", found).average) is LastIterate
