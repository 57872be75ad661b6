"""GDRO with its two bandits: their twins, the weights they lead to, and what they refuse."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.gdro import exp3p, gdro, tinf
from tests.solvers.cases import chi2_logistic, cvar, regrouped, tasks, worst
from tests.solvers.running import begin, iterates
from xrisk.compile import uncompiled
from xrisk.functions import MaxOuter
from xrisk.solvers import EXP3P, GDRO, SGD, TINF, UpweightedSGD
from xrisk.solvers.groups.gdro import bandit_weights

CAP = 1.0 / (0.4 * 6)
BANDITS = {"exp3p": EXP3P(), "tinf": TINF(1.5)}

each_bandit = pytest.mark.parametrize("bandit", BANDITS.values(), ids=list(BANDITS))


def present_weights(solver, state):
    q = np.empty_like(state.mirror)
    bandit_weights(solver.bandit, state.mirror, q)
    return q


def weights(stated, solver, steps=50):
    """q_1, …, q_T."""
    problem, solver, state, rng = begin(stated, solver, start=0.1)
    qs = []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            qs.append(present_weights(solver, state))
    return np.array(qs)


@pytest.mark.parametrize(
    ("stated", "bandit", "learn", "dual_step"),
    [
        (worst, EXP3P(0.05, 0.1), exp3p(0.05, 0.1, 1.0), 0.1),
        (cvar, EXP3P(0.05, 0.1), exp3p(0.05, 0.1, CAP), 0.3),
        (worst, TINF(0.9), tinf(0.9), 0.2),
    ],
    ids=["exp3p", "exp3p-capped", "tinf"],
)
def test_it_follows_the_naive_twin(stated, bandit, learn, dual_step):
    """Some of the losses are above the top of TINF."""
    setting = {"step": 0.05, "dual_step": dual_step}
    solver = GDRO(**setting, bandit=bandit, batch=3)
    x0, xs = iterates(stated(), solver)
    expected, qs = gdro(problems.means(x0, 3), learn, 50, np.random.default_rng(0), **setting)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(weights(stated(), solver), qs, rtol=1e-9, atol=1e-12)


def test_the_twin_runs_into_the_cap():
    found = weights(cvar(), GDRO(0.05, 0.3, EXP3P(0.05, 0.0), batch=3))
    assert found.max() == pytest.approx(CAP)


@pytest.mark.slow
@each_bandit
def test_the_gap_between_the_two_averages_shrinks(bandit):
    """F(w̄) less the dual function at q̄."""
    solver = GDRO(bandit=bandit)
    runs = [xrisk.minimize(worst(), solver, budget=xrisk.Budget(iterations=t), rng=0) for t in (300, 30000)]
    gaps = [run.value - problems.means(run.w, 1).least(run.dual[:, 0] / 6) for run in runs]
    assert gaps[0] > 4 * gaps[1] > 0.0
    assert gaps[1] < 0.02


@pytest.mark.slow
def test_the_duals_are_weights_of_the_dual_set():
    result = xrisk.minimize(cvar(), GDRO(dual_step=0.05), budget=xrisk.Budget(iterations=2000), rng=0)
    assert result.dual.mean() == pytest.approx(1.0, rel=1e-12)
    assert result.dual.max() <= 6 * CAP * (1 + 1e-12)


@each_bandit
def test_one_group_makes_it_plain_sgd(bandit):
    """On the stream of UpweightedSGD, which draws the group as well."""
    one = regrouped([0, 240])
    expected = iterates(one, UpweightedSGD(0.05, batch=7))[1]
    np.testing.assert_allclose(iterates(one, GDRO(0.05, bandit=bandit, batch=7))[1], expected, rtol=1e-12)


@each_bandit
def test_one_row_makes_it_gradient_descent(bandit):
    row = regrouped([0, 1], [17])
    np.testing.assert_allclose(iterates(row, GDRO(0.05, bandit=bandit))[1], iterates(row, SGD(0.05))[1], rtol=1e-12)


@pytest.mark.parametrize("bandit", [EXP3P(), EXP3P(0.0, 0.0), TINF()], ids=["exp3p", "exp3", "tinf"])
@pytest.mark.parametrize("size", [1e20, 1e100, 1e150])
def test_huge_losses_leave_weights_that_are_weights(bandit, size):
    X, y, groups = table()
    stated = xrisk.group_dro(size * X, y, groups, alpha=0.1, l2=0.1)
    problem, solver, state, rng = begin(stated, GDRO(bandit=bandit))
    state = solver.advance(problem, state, 100, rng)
    assert all(np.isfinite(leaf).all() for leaf in state)
    assert present_weights(solver, state).sum() == pytest.approx(1.0, rel=1e-12)


def test_losses_far_below_the_top_leave_weights_of_tinf_that_are_weights():
    found = weights(worst(), GDRO(0.05, 10.0, TINF(1e6)))
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
    assert (found > 0.0).all()


@pytest.mark.parametrize("stated", [chi2_logistic(), tasks(MaxOuter())], ids=["chi2", "tasks"])
def test_other_risks_and_outer_functions_are_refused(stated):
    sentence = f"GDRO needs the maximum or a CVaR of the inner values, got {type(stated.outer).__name__}"
    with pytest.raises(ValueError, match=sentence):
        GDRO().prepare(stated)


def test_tinf_takes_the_maximum_alone():
    with pytest.raises(ValueError, match="GDRO needs the maximum of the inner values, or a CVaR of 1/n of them, got"):
        GDRO(bandit=TINF()).prepare(cvar())


@pytest.mark.parametrize(
    ("bandit", "sentence"),
    [
        (EXP3P(bias=-0.1), "bias must be finite and not negative, got -0.1"),
        (EXP3P(bias=np.nan), "bias must be finite and not negative, got nan"),
        (EXP3P(exploration=1.5), "exploration must lie between 0 and 1, got 1.5"),
        (TINF(top=0.0), "top must be positive, got 0.0"),
    ],
    ids=str,
)
def test_numbers_that_make_no_bandit_are_refused(bandit, sentence):
    with pytest.raises(ValueError, match=sentence):
        GDRO(bandit=bandit).prepare(worst())


def test_a_bandit_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"bandit must be EXP3P\(\) or TINF\(\), got 'ucb'"):
        GDRO(bandit="ucb").prepare(worst())
