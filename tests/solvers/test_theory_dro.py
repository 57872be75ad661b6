"""Settings of the theorems on SCDRO and its relatives: the formulas, and the smoothness they rest on."""

import math

import numpy as np
import pytest
import scipy.special

from tests.conftest import table
from tests.solvers.cases import kl_ball
from xrisk.functions import HingeLoss
from xrisk.inner import inner_lipschitz, inner_smoothness
from xrisk.solvers import theory
from xrisk.solvers.schedules import rate

GIVEN = {"spread": 2.0, "sigma": 1.5, "drop": 0.8, "reach": 3.0}


def smoothness(problem):
    lam = problem.outer.strength
    return float(inner_smoothness(problem.inner) + inner_lipschitz(problem.inner) ** 2 / lam + 1.0 / lam**3)


@pytest.mark.parametrize("seed", range(5))
def test_the_smoothness_bounds_the_hessian(seed):
    """By central differences of the gradient of F in (w, λ), at λ = λ₀."""
    X, y, _ = table(n=60)
    rng, lam = np.random.default_rng(seed), 0.05
    w = 0.3 * rng.standard_normal(4)
    spread = np.ptp(np.logaddexp(0.0, -y * (X @ w)))

    def gradient(x):
        v = np.logaddexp(0.0, -y * (X @ x[:4]))
        p = scipy.special.softmax(v / x[4])
        slopes = (p * -y * scipy.special.expit(-y * (X @ x[:4]))) @ X
        return np.append(slopes, scipy.special.logsumexp(v / x[4]) - np.log(60) - p @ v / x[4])

    x, h = np.append(w, lam), 1e-6
    hessian = np.array([(gradient(x + h * e) - gradient(x - h * e)) / (2 * h) for e in np.eye(5)])
    assert np.linalg.norm(hessian, 2) <= theory.dro_smoothness(kl_ball(), spread=spread) * (1.0 + 1e-6)


def test_scdro_has_the_constants_of_theorem_1():
    problem, eps, sigma, drop = kl_ball(), 50.0, 1.5, 0.8
    L, setting = smoothness(problem), theory.scdro_setting(problem, eps, spread=2.0, sigma=sigma, drop=drop)
    T = setting.iterations
    bound = (624 * sigma**2 + 280 * drop) * L**2 / math.sqrt(T) + 20 * L**2 * drop / T
    assert 0.4 * eps**2 < bound <= eps**2
    assert setting.solver.track == pytest.approx(1 / math.sqrt(T))
    assert setting.solver.step == setting.solver.temperature_step == pytest.approx(setting.solver.track / (20 * L**2))


def test_ascdro_has_the_schedules_of_theorem_2():
    problem, sigma = kl_ball(), 1.5
    L, solver = smoothness(problem), theory.ascdro_setting(problem, 100, spread=2.0, sigma=sigma, alpha=3.0).solver
    k = 3.0 * sigma ** (2 / 3) / L
    omega, c = max(2 * sigma**2, (16 * L**2 * k) ** 3), sigma**2 / (14 * L * k**3) + 130 * L**4
    for t in (0, 10, 10**9):
        eta = k / (omega + t * sigma**2) ** (1 / 3)
        assert rate(solver.step, t) == pytest.approx(eta)
        assert rate(solver.track, t) == pytest.approx(c * eta**2)


def test_restarts_have_the_constants_of_lemmas_4_and_5():
    problem, eps, sigma, drop = kl_ball(), 0.1, 1.5, 0.8
    L = smoothness(problem)
    mu = eps / (2 * (9.0 + min(2.0 / 0.2, 2.0 / math.sqrt(1.6)) ** 2))
    first, second = (
        setting(problem, eps, **GIVEN).solver for setting in (theory.rscdro_setting, theory.rascdro_setting)
    )
    assert first.solver.strength == second.solver.strength == pytest.approx(mu)
    c = 384 * L**2
    assert first.solver.track == pytest.approx(mu * drop / (c * sigma**2))
    assert first.solver.step == pytest.approx(mu * drop / (12 * c * L**2 * sigma**2))
    assert first.length == pytest.approx(384 * c * L**2 * sigma**2 / (mu**2 * drop))
    c = 768 * L**2
    assert second.solver.track == pytest.approx(mu * drop / (c * sigma**2))
    assert second.solver.step == pytest.approx(math.sqrt(mu * drop) / (24 * c * L * sigma))
    assert second.length == pytest.approx(
        192 * c * max(L * sigma / (mu**1.5 * math.sqrt(drop)), L**2 * sigma**2 / (mu * drop), L**2 / mu)
    )


def test_stages_double_until_the_target():
    setting = theory.rscdro_setting(kl_ball(), 0.1, **GIVEN)
    assert setting.iterations == setting.solver.length * (1 + 2 + 4 + 8)


def test_what_is_wrong_is_said_in_one_sentence():
    problem = kl_ball()
    kinked = problem._replace(inner=problem.inner._replace(model=problem.inner.model._replace(loss=HingeLoss())))
    with pytest.raises(ValueError, match="losses must be Lipschitz and smooth"):
        theory.dro_smoothness(kinked, spread=1.0)
    with pytest.raises(ValueError, match="sigma must be positive, got 0"):
        theory.scdro_setting(problem, 0.1, spread=1.0, sigma=0.0, drop=1.0)
    with pytest.raises(ValueError, match=r"alpha must be above 1, got 1.0"):
        theory.ascdro_setting(problem, 10, spread=1.0, sigma=1.0, alpha=1.0)
