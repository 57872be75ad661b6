"""Settings of the methods that look at all blocks: formulas, refusals, and promises kept."""

import numpy as np
import pytest

import xrisk
from tests.solvers.cases import cvar
from tests.solvers.test_theory import smooth_constants
from xrisk.applications import hard_smooth
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
