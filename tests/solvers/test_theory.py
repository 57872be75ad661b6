"""The theorems' settings: formulas, refusals, and the promise kept on problems with a known optimum."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.solvers.cases import tasks
from xrisk import Budget
from xrisk.applications import hard_nonsmooth, hard_smooth
from xrisk.functions import LogSumExp
from xrisk.problem import inner_values
from xrisk.solvers import ALEXR, SOX, Conjugate, Entropy, Quadratic, theory
from xrisk.solvers.schedules import GeometricAverage, LastIterate, UniformAverage

STRONG = [theory.theorem_3, theory.theorem_5_7, theory.theorem_20]
CONVEX = [theory.theorem_6, theory.theorem_22, theory.theorem_5_8, theory.theorem_5_9]


def smooth_constants(n=8, nu=0.3, sigma=1.0):
    distance = 2 * nu / 3 * np.sqrt(n)
    return theory.Constants(n, 1 + nu, 1.0, 1.0, 0.0, sigma**2, 0.0, 0.0, 1 / (2 * n), distance, n * (nu / 3) ** 2 / 2)


def test_theorem_5_7_ties_the_dual_step_to_the_first_entry_when_it_binds():
    problem, eps, c = hard_smooth(8, eps=0.005).problem, 0.001, smooth_constants()
    setting = theory.theorem_5_7(problem, eps, constants=c, blocks=2, batch=1)
    a = eps / (24 * c.smoothness_f * c.noise_value)
    left = 1 - setting.solver.theta
    assert left == pytest.approx(a / (1 + a) * 2 / 8)
    assert setting.solver.dual_step == pytest.approx(a * c.smoothness_f)
    assert setting.solver.step == pytest.approx(left / (setting.solver.theta * c.mu))


def test_theorem_5_7_ties_the_primal_step_to_the_second_entry_when_it_binds():
    c = smooth_constants()._replace(spread=50.0, noise_value=0.01)
    setting = theory.theorem_5_7(hard_smooth(8).problem, 1e-3, constants=c, blocks=2, batch=1)
    sigma2 = 50.0 * 6 / (2 * 7)
    assert setting.solver.step == pytest.approx(1e-3 / (3 * sigma2))


def test_theorem_3_has_the_corrected_contraction():
    """θ (τ + ρ) = τ + ρ (1 − S/n), the equality that the printed τ misses."""
    setting = theory.theorem_3(hard_smooth(20, eps=0.005).problem, 1e-3, constants=smooth_constants(20), blocks=4)
    tau, theta, rho = 1 / setting.solver.dual_step, setting.solver.theta, 1.0
    assert theta * (tau + rho) == pytest.approx(tau + rho * (1 - 4 / 20))


def test_theorem_20_has_the_corrected_contraction():
    """v (τ + ρ (1 − S/(2n))) = τ + ρ (1 − S/n)."""
    setting = theory.theorem_20(hard_smooth(20, eps=0.005).problem, 1e-3, constants=smooth_constants(20), blocks=4)
    tau, rho = 1 / setting.solver.dual_step, 1.0
    rate = (tau + rho * (1 - 4 / 20)) / (tau + rho * (1 - 4 / 40))
    left = setting.solver.step * (1 / 40) / (1 + setting.solver.step / 40)
    assert 1 - rate == pytest.approx(left)
    assert setting.solver.theta == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("theorem", STRONG, ids=lambda t: t.__name__)
def test_strongly_convex_settings_reach_their_target(theorem):
    eps, instance = 0.005, hard_smooth(8, eps=0.005)
    c = smooth_constants(8, instance.problem.inner.nu)
    setting = theorem(instance.problem, eps, constants=c, blocks=2, batch=4)
    errors = [c.mu / 2 * np.sum((run(setting, seed).w - instance.w) ** 2) for seed in range(5)]
    assert np.mean(errors) <= eps


@pytest.mark.parametrize("theorem", CONVEX, ids=lambda t: t.__name__)
def test_convex_settings_reach_their_target(theorem):
    eps, instance = 0.05, hard_nonsmooth(4, eps=0.05)
    nu, beta = instance.problem.inner.nu, 1.0
    c = theory.Constants(4, beta, np.inf, 1.0, 0.0, 1.0, 0.0, beta**2, 0.0, 2 * nu, 4 * beta**2 / 2)
    setting = theorem(instance.problem, eps, constants=c, blocks=2, batch=16)
    assert isinstance(setting.solver.average, UniformAverage)
    gaps = [run(setting, seed).value - instance.value for seed in range(3)]
    assert np.mean(gaps) <= eps


def run(setting, seed):
    budget = xrisk.Budget(iterations=min(setting.iterations, 400_000))
    return xrisk.minimize(setting.problem, setting.solver, budget=budget, rng=seed)


@pytest.mark.parametrize("theorem", CONVEX, ids=lambda t: t.__name__)
def test_convex_theorems_ask_for_the_quadratic_map(theorem):
    with pytest.raises(ValueError, match=r"mirror must be Quadratic\(\) for this theorem, got Conjugate"):
        theorem(hard_smooth(8).problem, 0.1, constants=smooth_constants(), mirror=xrisk.solvers.Conjugate())


def test_theorem_18_asks_theorem_3_for_the_target_of_its_proof():
    c, problem, eps = smooth_constants()._replace(mu=0.0), hard_smooth(8).problem, 0.1
    setting = theory.theorem_18(problem, eps, constants=c, blocks=2)
    inner = theory.theorem_3(problem, eps**2, constants=c._replace(mu=eps), blocks=2)
    assert setting.solver.theta == inner.solver.theta


@pytest.mark.slow
def test_theorem_18_runs_on_the_regularised_problem():
    instance = hard_smooth(4, eps=0.01)
    setting = theory.theorem_18(instance.problem, 0.05, constants=smooth_constants(4)._replace(mu=0.0), blocks=2)
    assert isinstance(setting.solver.average, GeometricAverage)
    w = np.ones(4)
    assert setting.problem.value(w) - instance.problem.value(w) == pytest.approx(0.05 / 2 * 4)
    assert instance.problem.value(run(setting, 0).w) - instance.value < 0.05


def test_constants_are_estimated_from_data():
    problem = xrisk.group_dro(*table(), divergence="chi2", lam=1.0, l2=0.5)
    c = theory.estimate_constants(problem)
    X = table()[0]
    assert c.n == 6
    assert c.lipschitz_g <= np.hypot(np.linalg.norm(X, axis=1).max(), 1.0)
    assert c.lipschitz_g >= 1.0
    assert 0 < c.noise_value < 100
    assert 0 < c.noise_gradient < 100
    assert c.distance > np.linalg.norm(xrisk.solvers.exact(problem).w)


@pytest.mark.slow
def test_estimated_settings_solve_a_group_problem():
    problem = xrisk.group_dro(*table(), divergence="chi2", lam=1.0, l2=0.5)
    setting = theory.theorem_5_9(problem, 0.5)
    result = xrisk.minimize(problem, setting.solver, budget=xrisk.Budget(iterations=50_000), rng=0)
    assert result.value - xrisk.solvers.exact(problem).value < 0.5


def test_last_iterates_are_reported_where_the_theorem_says_so():
    setting = theory.theorem_5_7(hard_smooth(8).problem, 1e-3, constants=smooth_constants())
    assert isinstance(setting.solver.average, LastIterate)


@pytest.mark.parametrize("theorem", STRONG + CONVEX + [theory.theorem_18], ids=lambda t: t.__name__)
@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf])
def test_a_target_that_is_not_positive_is_refused(theorem, eps):
    with pytest.raises(ValueError, match="must be positive, got"):
        theorem(hard_smooth(8).problem, eps, constants=smooth_constants())


@pytest.mark.parametrize("theorem", STRONG, ids=lambda t: t.__name__)
def test_a_merely_convex_problem_is_refused(theorem):
    with pytest.raises(ValueError, match="needs a strongly convex penalty"):
        theorem(hard_smooth(8).problem, 0.1, constants=smooth_constants()._replace(mu=0.0))


@pytest.mark.parametrize("theorem", STRONG, ids=lambda t: t.__name__)
def test_an_outer_function_with_a_kink_is_refused(theorem):
    with pytest.raises(ValueError, match="needs a smooth outer function"):
        theorem(hard_smooth(8).problem, 0.1, constants=smooth_constants()._replace(smoothness_f=np.inf))


def test_a_distance_that_cannot_be_estimated_is_asked_for():
    problem = xrisk.group_dro(*table(), divergence="cvar")
    with pytest.raises(ValueError, match="distance must be given"):
        theory.theorem_6(problem, 0.1)


@pytest.mark.usefixtures("plain")
def test_the_realised_omega_of_a_cvar_counts_the_groups_above_the_threshold():
    X, y, groups = table()
    w = np.array([0.3, -0.2, 0.5, 0.1])
    losses = np.logaddexp(0.0, -y * (X @ w))
    risks = np.array([losses[groups == i].mean() for i in range(6)])
    above = (risks > np.sort(risks)[-3]).sum()  # 0.4 of six groups: two and a part of the third, the threshold
    stated = xrisk.group_dro(X, y, groups, divergence="cvar", alpha=0.4, l2=0.1)
    assert theory.realised_omega(stated, w) == pytest.approx(0.5 * above / 0.4**2)


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("mirror", [Quadratic(), Entropy(), Conjugate()])
def test_the_trace_of_alexr_tells_its_omega(mirror):
    stated, solver = tasks(LogSumExp(2.0)), ALEXR(mirror=mirror)
    result = xrisk.minimize(stated, solver, budget=Budget(iterations=2000), rng=0)
    assert result.trace.omega[0] == pytest.approx(0.0, abs=1e-12)
    assert result.trace.omega[-1] == pytest.approx(theory.realised_omega(stated, result.w, mirror=mirror), rel=0.3)
    assert np.isinf(xrisk.minimize(stated, SOX(), budget=Budget(iterations=5), rng=0).trace.omega).all()


@pytest.mark.usefixtures("plain")
def test_the_realised_omega_is_the_divergence_of_its_mirror_map():
    stated, w = tasks(LogSumExp(2.0)), np.array([0.3, -0.2, 0.5, 0.1])
    u = inner_values(stated, w)
    q = np.exp(2.0 * u) / np.exp(2.0 * u).sum(axis=1, keepdims=True)
    from_centre = (q * np.log(2.0 * q)).sum()
    assert theory.realised_omega(stated, w, mirror=Entropy()) == pytest.approx(from_centre, rel=1e-10)
    assert theory.realised_omega(stated, w, mirror=Conjugate()) == pytest.approx(from_centre / 2.0, rel=1e-10)
    assert theory.realised_omega(stated, w) == pytest.approx(0.5 * ((q - 0.5) ** 2).sum(), rel=1e-10)
