"""Settings of the theorems on weights of groups: formulas, refusals, and the promise kept on a small problem."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.solvers.cases import chi2_logistic, regrouped, worst
from xrisk.solvers import NOL, OOA, SMD, UniformAverage
from xrisk.solvers.theory import nol_setting, ooa_setting, smd_setting

SETTINGS = [smd_setting, ooa_setting, nol_setting]
KNOWN = {"radius": 2.0, "gradient": 3.0, "scale": 1.5}
each_setting = pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.__name__)


def test_smd_has_the_steps_of_the_theorem():
    """With losses in [0, 1], as it is stated."""
    found = smd_setting(worst(), 0.5, radius=2.0, gradient=3.0)
    T, k2 = found.iterations, 2.0 * 9.0 + np.log(6)
    assert 2 * np.sqrt(10 * k2 / T) == pytest.approx(0.5, rel=1e-3)
    assert found.solver.step == pytest.approx(2.0 * np.sqrt(8 / (5 * T * k2)))
    assert found.solver.dual_step == pytest.approx(np.log(6) * np.sqrt(8 / (5 * T * k2)))


def test_smd_in_other_units_is_the_same_method():
    """Losses and gradients tenfold: ten times smaller steps to a tenfold gap."""
    one = smd_setting(worst(), 0.1, radius=2.0, gradient=3.0, scale=1.0)
    ten = smd_setting(worst(), 1.0, radius=2.0, gradient=30.0, scale=10.0)
    assert ten.iterations == one.iterations
    assert ten.solver.step == pytest.approx(one.solver.step / 10)
    assert ten.solver.dual_step == pytest.approx(one.solver.dual_step / 10)


def test_ooa_on_all_groups_has_the_setting_of_smd():
    ooa, smd = ooa_setting(worst(), 0.1, **KNOWN, solver=OOA(blocks=6)), smd_setting(worst(), 0.1, **KNOWN)
    assert ooa.iterations == smd.iterations
    assert (ooa.solver.step, ooa.solver.dual_step) == pytest.approx((smd.solver.step, smd.solver.dual_step))


def test_ooa_on_one_group_takes_n_squared_as_many_iterations():
    ooa, smd = ooa_setting(worst(), 0.1, **KNOWN, solver=OOA(blocks=1)), smd_setting(worst(), 0.1, **KNOWN)
    assert ooa.iterations == pytest.approx(36 * smd.iterations, rel=1e-3)


def test_nol_has_the_steps_of_the_theorem():
    found = nol_setting(worst(), 0.1, **KNOWN)
    T = found.iterations
    assert found.solver.step == pytest.approx(2 * np.sqrt(2.0) / (3.0 * np.sqrt(5 * T)), rel=1e-4)
    assert found.solver.dual_step == pytest.approx(np.sqrt(np.log(6) / (6 * T)), rel=1e-4)
    assert found.solver.scale == 1.5
    regret = 2 * np.sqrt(5) * np.sqrt(2.0) * 3.0 + 2 * 1.5 * np.sqrt(6 * np.log(6))
    assert regret == pytest.approx(0.1 * np.sqrt(T), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("setting", "solver"), [(smd_setting, SMD(batch=1)), (nol_setting, NOL(batch=1))])
def test_the_gap_between_the_averages_reaches_its_target(setting, solver):
    """The start is not good enough; gradients and losses are bounded for all w no longer than the optimum."""
    stated, eps, norm = worst(), 0.05, np.linalg.norm(table()[0], axis=1).max()
    radius = np.linalg.norm(xrisk.solvers.exact(stated).w)
    known = {"radius": radius, "gradient": norm, "scale": np.log1p(np.exp(radius * norm))}
    found = setting(stated, eps, **known, solver=solver)
    result = xrisk.minimize(stated, found.solver, budget=xrisk.Budget(iterations=found.iterations), rng=0)
    assert result.value - problems.means(result.w, 1).least(result.dual[:, 0] / 6) <= eps
    assert stated.value(np.zeros(4)) - result.value > eps


@each_setting
def test_uniform_averages_are_reported(setting):
    assert setting(worst(), 0.1, **KNOWN).solver.average == UniformAverage()


def test_other_fields_of_the_solver_are_kept():
    assert smd_setting(worst(), 0.1, **KNOWN, solver=SMD(batch=3)).solver.batch == 3


@each_setting
def test_one_group_has_a_setting(setting):
    found = setting(regrouped([0, 240]), 0.1, **KNOWN)
    assert found.solver.prepare(regrouped([0, 240]))
    assert found.iterations > 0


@each_setting
@pytest.mark.parametrize("name", ["eps", "radius", "gradient", "scale"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_constants_that_are_not_positive_are_refused(setting, name, value):
    arguments = {"eps": 0.1, **KNOWN, name: value}
    with pytest.raises(ValueError, match=f"{name} must be positive, got {value}"):
        setting(worst(), **arguments)


@each_setting
def test_a_problem_the_method_does_not_take_is_refused(setting):
    with pytest.raises(ValueError, match="needs the maximum"):
        setting(chi2_logistic(), 0.1, **KNOWN)
