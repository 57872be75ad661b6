"""ALEG against its naive twin, and where it leads."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.aleg import aleg
from tests.solvers.cases import chi2_logistic, cvar, noisy, regrouped, worst
from tests.solvers.running import begin, iterates
from xrisk.compile import uncompiled
from xrisk.solvers import ALEG, LastIterate

CAP = 1.0 / (0.4 * 6)
SETTING = {"step": 0.1, "dual_step": 1.5, "epoch": 7, "anchor": 0.2}


def states(solver, steps=50):
    problem, solver, state, rng = begin(cvar(), solver, start=0.1)
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            yield state


def expected(steps=50):
    return aleg(problems.means(np.full(4, 0.1), 5), steps, np.random.default_rng(0), **SETTING, cap=CAP)


def test_it_follows_the_naive_twin():
    found = [(state.w.copy(), np.exp(state.logq)) for state in states(ALEG(**SETTING, batch=5))]
    xs, qs, _ = expected()
    np.testing.assert_allclose([w for w, _ in found], xs, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose([q for _, q in found], qs, rtol=1e-10, atol=1e-12)


def test_it_reports_the_middle_points():
    solver = ALEG(**SETTING, batch=5, average=LastIterate())
    found = [(solver.solution(state).copy(), state.q_mean.copy()) for state in states(solver)]
    _, _, middle = expected()
    np.testing.assert_allclose([w for w, _ in found], [w for w, _ in middle], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose([q for _, q in found], [q for _, q in middle], rtol=1e-10, atol=1e-12)


def test_the_twin_runs_into_the_cap():
    assert expected()[1].max() == pytest.approx(CAP)


@pytest.mark.slow
@pytest.mark.parametrize("stated", [cvar(), worst()], ids=["cvar", "worst"])
def test_noise_vanishes_under_a_risk_with_a_kink(stated):
    budget = xrisk.Budget(oracle_calls=2400 * 240)  # 2000 iterations: two of values and two of gradients, and passes
    found = xrisk.minimize(stated, ALEG(average=LastIterate()), budget=budget, rng=0)
    assert -1e-8 < found.value - xrisk.solvers.exact(stated).value < 1e-6


@pytest.mark.slow
def test_the_gap_between_the_two_averages_shrinks_like_one_over_t():
    """F(w̄) less the dual function at q̄, which the theorem is about."""
    runs = [xrisk.minimize(worst(), ALEG(), budget=xrisk.Budget(iterations=t), rng=0) for t in (300, 3000)]
    gaps = [run.value - problems.means(run.w, 1).least(run.dual[:, 0] / 6) for run in runs]
    assert gaps[0] > 8 * gaps[1] > 0.0
    assert gaps[1] < 0.001


@pytest.mark.slow
@pytest.mark.usefixtures("plain")
def test_single_rows_have_no_noise():
    rows = regrouped(np.arange(241))
    runs = [iterates(rows, ALEG(epoch=3, batch=1), steps=10, seed=seed)[1] for seed in (1, 2)]
    np.testing.assert_allclose(*runs, rtol=1e-12)


@pytest.mark.usefixtures("plain")
def test_without_noise_and_anchor_it_is_the_extragradient_method():
    """Of one row, in every epoch of one iteration: the middle point is a step from w, and w steps along its slope."""
    row, p = regrouped([0, 1], [17]), problems.means(np.full(4, 0.1), 1)
    p.X, p.y, _ = table()
    k, x = np.array([[17]]), p.x0
    for found in iterates(row, ALEG(0.5, epoch=1, anchor=0.0, batch=1), steps=5)[1]:
        middle = p.prox(x - 0.5 * p.jacobian(0, x, k)[0], 0.5)
        x = p.prox(x - 0.5 * p.jacobian(0, middle, k)[0], 0.5)
        np.testing.assert_allclose(found, x, rtol=1e-12)


@pytest.mark.slow
def test_huge_losses_leave_weights_that_are_weights():
    X, y, groups = table()
    stated = xrisk.group_dro(1e150 * X, y, groups, alpha=0.1, l2=0.1)
    problem, solver, state, rng = begin(stated, ALEG())
    state = solver.advance(problem, state, 100, rng)
    assert np.isfinite(state.logq).all()
    assert np.exp(state.logq).sum() == pytest.approx(1.0, rel=1e-12)


def test_its_choices_are_settled():
    solver = ALEG().prepare(cvar())[1]
    assert (solver.epoch, solver.anchor) == (5, pytest.approx(1 / 6))


@pytest.mark.parametrize("anchor", [-0.1, 1.0, np.nan, "far"])
def test_an_anchor_out_of_range_is_refused(anchor):
    with pytest.raises(ValueError, match="anchor must lie in \\[0, 1\\), got"):
        ALEG(anchor=anchor).prepare(cvar())


def test_an_epoch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="epoch must be at least 1, got 0"):
        ALEG(epoch=0).prepare(cvar())


def test_a_risk_with_a_price_is_refused():
    with pytest.raises(ValueError, match="ALEG needs the maximum or a CVaR of the inner values, got ChiSquareRiskA"):
        ALEG().prepare(chi2_logistic())


def test_what_has_no_full_passes_is_refused():
    with pytest.raises(ValueError, match="ALEG needs"):
        ALEG().prepare(noisy())
