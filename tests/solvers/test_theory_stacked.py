"""Settings of the methods that look at all blocks and of ALEXR-DL: formulas, refusals, and promises kept."""

import numpy as np
import pytest

import xrisk
from tests.solvers.cases import cvar, tasks
from tests.solvers.running import begin, kernel_of
from tests.solvers.test_alexr_dl import distance_from_stationary
from tests.solvers.test_theory import smooth_constants
from xrisk.applications import hard_smooth
from xrisk.functions import L2, MaxOuter, Softplus
from xrisk.inner import Callables
from xrisk.problem import Problem
from xrisk.solvers import LastIterate, theory
from xrisk.solvers.schedules import rate


def quiet(n=8):
    """Constants without noise and with curved inner functions."""
    return smooth_constants(n)._replace(noise_value=0.0, smoothness_g=0.5)


def test_sapd_without_noise_meets_its_matrix_inequality_with_equality():
    c = quiet()
    setting = theory.sapd_setting(hard_smooth(8).problem, 0.01, constants=c)
    theta, mu_y, l_yx = setting.solver.theta, 1 / (c.n * c.smoothness_f), c.lipschitz_g / np.sqrt(c.n)
    l_xx = c.lipschitz_f * c.smoothness_g
    assert (c.mu * theta / (1 - theta) - l_xx) * mu_y / (1 - theta) == pytest.approx(l_yx**2)


def test_sapd_has_the_steps_of_the_text():
    c = quiet()
    solver = theory.sapd_setting(hard_smooth(8).problem, 0.01, constants=c).solver
    sigma_y = (1 - solver.theta) / (solver.theta / (c.n * c.smoothness_f))
    assert solver.step == pytest.approx((1 - solver.theta) / (c.mu * solver.theta))
    assert solver.dual_step == pytest.approx(sigma_y / c.n)
    assert solver.average == LastIterate()


def test_copies_of_the_blocks_do_not_speed_sapd_up():
    c = quiet()
    one, two = (
        theory.sapd_setting(hard_smooth(n).problem, 0.01, constants=c._replace(n=n, mu=0.1, omega=float(n)))
        for n in (8, 16)
    )
    assert one.solver.theta == pytest.approx(two.solver.theta)
    assert one.iterations == two.iterations


def test_noise_pushes_theta_of_sapd_up_with_the_target():
    c = smooth_constants()
    first, second = (theory.sapd_setting(hard_smooth(8).problem, eps, constants=c) for eps in (1e-3, 1e-4))
    assert (1 - first.solver.theta) / (1 - second.solver.theta) == pytest.approx(10.0)


@pytest.mark.slow
def test_sapd_reaches_its_target():
    eps, instance = 0.005, hard_smooth(8, eps=0.005)
    c = smooth_constants(8, instance.problem.inner.nu)
    setting = theory.sapd_setting(instance.problem, eps, constants=c, blocks=2, batch=4)
    budget = xrisk.Budget(iterations=setting.iterations)
    runs = [xrisk.minimize(setting.problem, setting.solver, budget=budget, rng=seed) for seed in range(5)]
    assert np.mean([c.mu / 2 * np.sum((run.w - instance.w) ** 2) for run in runs]) <= eps


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mu": 0.0}, "needs a strongly convex penalty"),
        ({"smoothness_f": np.inf}, "needs a smooth outer function"),
        ({"smoothness_g": np.inf}, "needs smooth inner functions"),
        ({"lipschitz_g": np.inf}, "need Lipschitz functions"),
    ],
    ids=lambda x: next(iter(x)) if isinstance(x, dict) else "",
)
def test_sapd_refuses_what_its_theorem_does_not_cover(change, message):
    with pytest.raises(ValueError, match=message):
        theory.sapd_setting(hard_smooth(8).problem, 0.1, constants=quiet()._replace(**change))


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf])
def test_sapd_refuses_a_target_that_is_not_positive(eps):
    with pytest.raises(ValueError, match="eps must be"):
        theory.sapd_setting(hard_smooth(8).problem, eps, constants=quiet())


@pytest.mark.parametrize(
    ("setting", "power"), [(theory.scgd_strongly_convex, 2 / 3), (theory.ascpg_strongly_convex, 4 / 5)]
)
def test_strongly_convex_exponents_are_those_of_the_texts(setting, power):
    problem = hard_smooth(8).problem
    solver = setting(problem, blocks=2)
    k = np.array([1, 2, 10, 1000])
    np.testing.assert_allclose([rate(solver.step, int(t)) for t in k - 1], 16.0 / k)
    np.testing.assert_allclose([rate(solver.track, int(t)) for t in k - 1], k**-power)
    assert solver.blocks == 2


@pytest.mark.parametrize("setting", [theory.scgd_strongly_convex, theory.ascpg_strongly_convex])
def test_strongly_convex_exponents_need_a_modulus(setting):
    with pytest.raises(ValueError, match=r"mu must be positive, got 0.0"):
        setting(cvar())
    with pytest.raises(ValueError, match=r"delay must be positive, got 0.0"):
        setting(cvar(), mu=0.1, delay=0.0)


@pytest.mark.parametrize(
    ("setting", "power"), [(theory.scgd_strongly_convex, 2 / 3), (theory.ascpg_strongly_convex, 4 / 5)]
)
def test_with_strongly_convex_exponents_the_squared_distance_falls_as_fast_as_promised(setting, power):
    instance = hard_smooth(4, eps=0.005)
    errors = []
    for seed in range(1, 4):
        problem, solver, state, rng = begin(instance.problem, setting(instance.problem, delay=10.0), seed)
        for steps in (200, 1800):
            state = kernel_of(solver).py_func(problem, state, solver, steps, rng)
            errors.append(np.sum((state.w - instance.w) ** 2))
    early, late = np.mean(errors[::2]), np.mean(errors[1::2])
    assert late < early * 10.0**-power


def waves():
    """f(cos w) and f(sin w), without noise: C_g = L_g = 1, C_f = 1, L_f = ¼."""
    value = (np.cos, np.sin)
    slope = (lambda w: -np.sin(w), np.cos)
    inner = Callables(
        n=2,
        d=1,
        sample=lambda i, rng, size: None,
        value=lambda i, w, batch: value[i](w[0]),
        vjp=lambda i, w, batch, y: slope[i](w) * y,
        exact=lambda i, w: value[i](w[0]),
    )
    constants = theory.Constants(2, 1.0, 0.25, 1.0, 1.0, 0.0, 0.0, 0.0, 0.01, 1.0, 1.0)
    return Problem(inner, Softplus(), L2(0.01)), constants


def test_alexr_dl_has_stages_of_twice_the_weak_convexity_with_the_parameters_of_theorem_5_7():
    problem, c = waves()
    setting = theory.alexr_dl_setting(problem, 0.3, gap=1.0, constants=c)
    stage = theory.theorem_5_7(problem, 0.3**2, constants=c._replace(mu=1.01))
    assert setting.solver.solver == stage.solver
    assert (setting.solver.strength, setting.solver.length) == (2.0, stage.iterations)
    assert setting.iterations == stage.iterations * 45  # 4 / 0.09


def test_alexr_dl_reaches_a_nearly_stationary_point():
    problem, c = waves()
    setting = theory.alexr_dl_setting(problem, 0.3, gap=1.0, constants=c)
    budget, start = xrisk.Budget(iterations=setting.iterations), np.array([-0.5])
    result = xrisk.minimize(problem, setting.solver, start, budget=budget, rng=0)
    assert distance_from_stationary(problem, start, 2.0) > 0.3
    assert distance_from_stationary(problem, result.w, 2.0) < 0.3


def test_alexr_dl_smooths_a_kink_by_the_target():
    c = quiet()._replace(smoothness_f=np.inf)
    setting = theory.alexr_dl_setting(cvar(), 0.2, gap=1.0, constants=c)
    assert setting.solver.smoothing == 0.2


def test_alexr_dl_asks_for_a_weak_convexity_where_the_smoothness_does_not_bound_it():
    c = quiet()._replace(smoothness_g=np.inf)
    with pytest.raises(ValueError, match=r"weak_convexity must make .* positive and finite, got inf"):
        theory.alexr_dl_setting(cvar(), 0.2, gap=1.0, constants=c)
    with pytest.raises(ValueError, match="smoothing must be None for an outer function of several values"):
        theory.alexr_dl_setting(
            tasks(MaxOuter()), 0.2, gap=1.0, weak_convexity=1.0, constants=c._replace(smoothness_f=np.inf)
        )
    with pytest.raises(ValueError, match=r"gap must be positive, got -1.0"):
        theory.alexr_dl_setting(cvar(), 0.2, gap=-1.0, constants=c)
