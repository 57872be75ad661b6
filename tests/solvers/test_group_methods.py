"""OOA, SMD and NOL: their twins, what they have in common, and what becomes of huge losses."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.nol import nol
from tests.reference.ooa import ooa
from tests.reference.smd import smd
from tests.solvers.cases import chi2_logistic, cvar, regrouped, tasks, worst
from tests.solvers.running import begin, iterates, kernel_of
from xrisk.compile import uncompiled
from xrisk.functions import MaxOuter, MaxRisk
from xrisk.inner import inner_count
from xrisk.solvers import NOL, OOA, SGD, SMD, DrawnGroup, EveryGroup, UpweightedSGD

CAP = 1.0 / (0.4 * 6)
SETTING = {"step": 0.05, "dual_step": 1.5}


def weights(stated, solver, steps=50):
    """q_1, …, q_T."""
    problem, solver, state, rng = begin(stated, solver, start=0.1)
    qs = []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            qs.append(np.exp(state.logq))
    return np.array(qs)


def assert_follows(stated, solver, twin, batch, **setting):
    x0, xs = iterates(stated, solver)
    expected, qs = twin(problems.means(x0, batch), 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weights(stated, solver), qs, rtol=1e-9, atol=1e-12)


def test_ooa_follows_the_naive_twin():
    assert_follows(cvar(), OOA(**SETTING, blocks=3, batch=5), ooa, 5, **SETTING, blocks=3, cap=CAP)


def test_the_twins_run_into_the_cap():
    assert weights(cvar(), OOA(**SETTING, blocks=3, batch=5)).max() == pytest.approx(CAP)
    assert weights(cvar(), SMD(**SETTING, batch=5)).max() == pytest.approx(CAP)


@pytest.mark.parametrize(("gradient", "single"), [(EveryGroup(), False), (DrawnGroup(), True)], ids=["every", "drawn"])
def test_smd_follows_the_naive_twin(gradient, single):
    solver = SMD(**SETTING, batch=5, gradient=gradient)
    assert_follows(cvar(), solver, smd, 5, **SETTING, cap=CAP, single=single)


def test_nol_follows_the_naive_twin():
    """Some of the losses are above the scale."""
    setting = {"step": 0.05, "dual_step": 0.1, "scale": 0.8}
    assert_follows(worst(), NOL(**setting, batch=3), nol, 3, **setting)


def test_one_group_makes_smd_plain_sgd():
    one = regrouped([0, 240])
    np.testing.assert_array_equal(iterates(one, SMD(batch=7))[1], iterates(one, SGD(batch=7))[1])


@pytest.mark.parametrize("solver", [OOA(0.05, batch=7), NOL(0.05, batch=7)], ids=["ooa", "nol"])
def test_one_group_makes_it_plain_sgd(solver):
    """On the stream of UpweightedSGD, which draws the group as well."""
    one = regrouped([0, 240])
    np.testing.assert_allclose(iterates(one, solver)[1], iterates(one, UpweightedSGD(0.05, batch=7))[1], rtol=1e-12)


@pytest.mark.parametrize("method", [OOA, NOL, SMD, UpweightedSGD])
def test_one_row_makes_it_gradient_descent(method):
    row = regrouped([0, 1], [17])
    np.testing.assert_allclose(iterates(row, method(0.05))[1], iterates(row, SGD(0.05))[1], rtol=1e-12)


@pytest.mark.slow
def test_smd_with_a_full_batch_has_no_noise():
    rows = regrouped(np.arange(241))
    runs = [iterates(rows, SMD(), steps=10, seed=seed)[1] for seed in (1, 2)]
    np.testing.assert_array_equal(*runs)


def test_ooa_on_all_groups_has_the_weights_of_smd_but_uses_the_new_ones():
    rows, p = regrouped(np.arange(241)), problems.means(np.full(4, 0.1), 1)
    first = {type(s): iterates(rows, s, steps=1)[1][0] for s in (OOA(0.05, 0.3, blocks=240), SMD(0.05, 0.3))}
    q = weights(rows, SMD(0.05, 0.3), steps=1)[0]
    np.testing.assert_allclose(weights(rows, OOA(0.05, 0.3, blocks=240), steps=1)[0], q, rtol=1e-12)
    grads = np.array([p.jacobian(0, p.x0, np.array([[k]]))[0] for k in range(240)])
    np.testing.assert_allclose(first[SMD], p.prox(p.x0 - 0.05 * grads.mean(axis=0), 0.05), rtol=1e-12)
    np.testing.assert_allclose(first[OOA], p.prox(p.x0 - 0.05 * q @ grads, 0.05), rtol=1e-12)


def test_the_cvar_of_everything_makes_ooa_the_mean_of_the_groups():
    whole = cvar()._replace(outer=cvar().outer._replace(alpha=1.0))
    expected = iterates(whole, UpweightedSGD(0.05, blocks=3))[1]
    np.testing.assert_allclose(iterates(whole, OOA(0.05, 0.3, blocks=3))[1], expected, rtol=1e-12)
    assert (np.abs(weights(whole, OOA(0.05, 0.3, blocks=3)) - 1 / 6) < 1e-15).all()


@pytest.mark.slow
def test_the_certified_gap_of_smd_shrinks():
    stated = cvar()
    runs = [xrisk.minimize(stated, SMD(), budget=xrisk.Budget(iterations=t), rng=0) for t in (100, 500, 5000)]
    gaps = [xrisk.certify(stated, run).gap for run in runs]
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
    assert gaps[2] < 0.002


def test_the_duals_are_weights_of_the_dual_set():
    result = xrisk.minimize(cvar(), SMD(dual_step=3.0), budget=xrisk.Budget(iterations=300), rng=0)
    assert result.dual.shape == (6, 1)
    assert result.dual.mean() == pytest.approx(1.0, rel=1e-12)
    assert result.dual.max() <= 6 * CAP * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [OOA(blocks=3), SMD(), NOL()], ids=lambda s: type(s).__name__)
def test_the_gap_between_the_two_averages_shrinks(solver):
    """F(w̄) less the dual function at q̄, which the theorems are about."""
    runs = [xrisk.minimize(worst(), solver, budget=xrisk.Budget(iterations=t), rng=0) for t in (300, 30000)]
    gaps = [run.value - problems.means(run.w, 1).least(run.dual[:, 0] / 6) for run in runs]
    assert gaps[0] > 4 * gaps[1] > 0.0
    assert gaps[1] < 0.02


@pytest.mark.parametrize("solver", [OOA(blocks=3), SMD(), NOL()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("size", [1e20, 1e100, 1e150])
def test_huge_losses_leave_weights_that_are_weights(solver, size):
    X, y, groups = table()
    stated = xrisk.group_dro(size * X, y, groups, alpha=0.1, l2=0.1)
    problem, solver, state, rng = begin(stated, solver)
    state = solver.advance(problem, state, 100, rng)
    assert all(np.isfinite(leaf).all() for leaf in state)
    assert np.exp(state.logq).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("solver", [OOA(), SMD()], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("stated", [chi2_logistic(), tasks(MaxOuter())], ids=["chi2", "tasks"])
def test_other_risks_and_outer_functions_are_refused(solver, stated):
    sentence = (
        f"{type(solver).__name__} needs the maximum or a CVaR of the inner values, got {type(stated.outer).__name__}"
    )
    with pytest.raises(ValueError, match=sentence):
        xrisk.minimize(stated, solver, budget=xrisk.Budget(iterations=1))


@pytest.mark.parametrize("stated", [chi2_logistic(), cvar(), tasks(MaxOuter())], ids=["chi2", "cvar", "tasks"])
def test_nol_takes_the_maximum_alone(stated):
    with pytest.raises(ValueError, match="NOL needs the maximum of the inner values, or a CVaR of 1/n of them, got"):
        NOL().prepare(stated)


@pytest.mark.parametrize("alpha", [0.1, 1 / 6])
def test_nol_knows_a_maximum_when_it_sees_one(alpha):
    NOL().prepare(cvar()._replace(outer=cvar().outer._replace(alpha=alpha)))
    NOL().prepare(cvar()._replace(outer=MaxRisk()))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, None, "large"])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ValueError, match=f"scale must be (positive|finite), got {scale!r}"):
        NOL(scale=scale).prepare(worst())


@pytest.mark.parametrize("solver", [OOA(blocks=3), SMD(), NOL()], ids=lambda s: type(s).__name__)
def test_chunks_add_up_without_a_compiler_too(solver):
    """exp of NumPy and exp of Python may differ in the last digit."""
    problem, solver = solver.prepare(worst())
    steps = kernel_of(solver).py_func
    runs = []
    for chunks in ((20,), (7, 13)):
        state, rng = solver.init(problem, np.full(4, 0.1), np.random.default_rng(0)), np.random.default_rng(0)
        for chunk in chunks:
            state = steps(problem, state, solver, chunk, rng)
        runs.append(state)
    np.testing.assert_array_equal(runs[0].w, runs[1].w)
    np.testing.assert_array_equal(runs[0].logq, runs[1].logq)


def test_a_gradient_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"gradient must be EveryGroup\(\) or DrawnGroup\(\), got 'one'"):
        SMD(gradient="one").prepare(cvar())


def test_one_gradient_per_step_is_counted_as_one():
    problem, solver = SMD(gradient=DrawnGroup()).prepare(cvar())
    assert solver.oracles(problem, 10) == (10 * inner_count(problem.inner) * 8, 10 * 8)
    assert (solver.card().values, solver.card().gradients) == ("nB", "B")
