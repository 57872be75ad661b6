"""Methods that look at all blocks in every iteration: against their naive twins, and what they are special cases of."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.ascpg import ascpg
from tests.reference.nasa import nasa
from tests.reference.sapd import sapd
from tests.reference.scgd import scgd
from tests.reference.ssd import nssd, ssd
from tests.solvers.cases import chi2_logistic, cvar, squares, tasks
from tests.solvers.running import begin, iterates, plain_iterates
from xrisk.functions import L2, Ball, ChiSquareA, Identity, LogSumExp, NoPenalty, Restricted
from xrisk.problem import Problem
from xrisk.solvers import (
    ALEXR,
    ASCPG,
    NASA,
    NSSD,
    SAPD,
    SCGD,
    SOX,
    SSD,
    Conjugate,
    Decreasing,
    LastIterate,
    OldValue,
)
from xrisk.solvers.card import SMOOTH_OUTER
from xrisk.solvers.coupled.ascpg import ascpg_steps
from xrisk.solvers.schedules import rate

FAST, SLOW = Decreasing(0.9, 5.0, 0.5), Decreasing(0.1, 20.0, 0.75)


def fast(t):
    return rate(FAST, t) if t > 0 else 1.0


def slow(t):
    return rate(SLOW, t)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_scgd_follows_the_naive_twin():
    x0, xs = iterates(chi2_logistic(), SCGD(SLOW, FAST, blocks=2, batch=5))
    close(xs, scgd(problems.chi2(x0, 5), 50, np.random.default_rng(0), step=slow, track=fast, blocks=2))


def test_scgd_follows_the_naive_twin_with_vector_blocks():
    xs = plain_iterates(tasks(LogSumExp(2.0)), SCGD(SLOW, FAST, blocks=2, batch=3))
    p = problems.lse(np.full(4, 0.1), 3)
    close(xs, scgd(p, 50, np.random.default_rng(0), step=slow, track=fast, blocks=2))


def test_ascpg_follows_the_naive_twin():
    x0, xs = iterates(chi2_logistic(), ASCPG(SLOW, FAST, blocks=2, batch=5))
    p = problems.chi2(x0, 5)
    close(xs, ascpg(p, 50, np.random.default_rng(0), step=slow, track=lambda t: rate(FAST, t), blocks=2))


def test_nasa_follows_the_naive_twin():
    x0, xs = iterates(chi2_logistic(), NASA(FAST._replace(initial=0.4), 3.0, 2.0, 1.5, blocks=2, batch=5))
    setting = {"step": lambda t: rate(FAST._replace(initial=0.4), t), "b": 3.0, "a": 2.0, "c": 1.5, "blocks": 2}
    close(xs, nasa(problems.chi2(x0, 5), 50, np.random.default_rng(0), **setting))


def test_sapd_follows_the_naive_twin():
    setting = {"step": 0.05, "dual_step": 0.2, "theta": 0.7, "blocks": 2}
    x0, xs = iterates(cvar(), SAPD(**setting, batch=5))
    close(xs, sapd(problems.cvar(x0, 5), 50, np.random.default_rng(0), **setting)[0])


def test_ssd_follows_the_naive_twin():
    setting = {"track_point": 0.4, "theta": 0.7, "blocks": 2}
    x0, xs = iterates(chi2_logistic(), SSD(SLOW, FAST, **setting, batch=5))
    close(xs, ssd(problems.chi2(x0, 5), 50, np.random.default_rng(0), step=slow, track=fast, **setting))


def test_ssd_follows_the_naive_twin_with_vector_blocks():
    setting = {"track_point": 0.4, "theta": 0.7, "blocks": 2}
    xs = plain_iterates(tasks(LogSumExp(2.0)), SSD(SLOW, FAST, **setting, batch=3))
    p = problems.lse(np.full(4, 0.1), 3)
    close(xs, ssd(p, 50, np.random.default_rng(0), step=slow, track=fast, **setting))


def test_nssd_follows_the_naive_twin():
    setting = {"step": 0.05, "dual_step": 0.2, "theta": 0.7, "blocks": 2}
    x0, xs = iterates(cvar(), NSSD(**setting, batch=5))
    close(xs, nssd(problems.cvar(x0, 5), 50, np.random.default_rng(0), **setting))


def test_scgd_with_all_blocks_sampled_is_sox_without_momentum():
    a = plain_iterates(chi2_logistic(), SCGD(0.05, 0.3, blocks=6))
    close(a, plain_iterates(chi2_logistic(), SOX(0.05, 0.3, blocks=6)))


def test_scgd_with_one_inner_function_is_the_classical_two_timescale_method():
    X, y, _ = table(n=40)
    problem = Problem(xrisk.group_dro(X, y, np.zeros(40, dtype=int)).inner, ChiSquareA(), L2(0.1))
    xs = plain_iterates(problem, SCGD(0.05, 0.3, batch=1))
    rng, x, u = np.random.default_rng(0), np.full(4, 0.1), None
    for k in range(50):
        rng.random()  # which block: there is one
        row, other = (int(rng.random() * 40) for _ in range(2))
        value = np.logaddexp(0.0, -y[row] * (X[row] @ x))
        u = value if u is None else 0.7 * u + 0.3 * value
        gradient = -y[other] / (1.0 + np.exp(y[other] * (X[other] @ x))) * X[other] * max(u + 1.0, 0.0)
        x = (x - 0.05 * gradient) / (1.0 + 0.05 * 0.1)
        close(xs[k], x)


def test_nasa_with_all_blocks_sampled_and_no_penalty_is_sox_at_the_old_values():
    """s = τ/b, γ = c τ and β = a τ; the first of NASA's updates of u and v falls into the iteration before."""
    problem = tasks(LogSumExp(2.0))._replace(penalty=NoPenalty())
    a = plain_iterates(problem, NASA(0.2, curvature=4.0, gradient_factor=2.0, value_factor=3.0, blocks=3))
    b = plain_iterates(problem, SOX(0.05, track=0.6, momentum=0.4, blocks=3, pairing=OldValue()))
    close(a, b)


def test_nasa_with_one_inner_function_is_sox_at_the_old_values():
    X, y, _ = table(n=40)
    problem = Problem(xrisk.group_dro(X, y, np.zeros(40, dtype=int)).inner, ChiSquareA(), NoPenalty())
    a = plain_iterates(problem, NASA(0.2, curvature=4.0, gradient_factor=2.0, value_factor=3.0, batch=2))
    close(a, plain_iterates(problem, SOX(0.05, track=0.6, momentum=0.4, batch=2, pairing=OldValue())))


def rows_as_blocks(n=12):
    """Blocks of one row each: a batch of one is a full batch."""
    X, y, _ = table(n=12)
    return Problem(xrisk.group_dro(X[:n], y[:n], np.arange(n)).inner, ChiSquareA(1.0), L2(0.5))


def test_without_noise_the_stored_difference_of_sapd_is_that_of_alexr():
    a = plain_iterates(rows_as_blocks(), SAPD(0.05, 0.2, theta=0.9, blocks=12, batch=1))
    close(a, plain_iterates(rows_as_blocks(), ALEXR(0.05, 0.2, theta=0.9, blocks=12, batch=1)))


def test_with_one_block_and_no_noise_sapd_is_alexr():
    a = plain_iterates(rows_as_blocks(1), SAPD(0.05, 0.2, batch=1))
    close(a, plain_iterates(rows_as_blocks(1), ALEXR(0.05, 0.2, batch=1)))


def test_with_noise_the_stored_difference_is_another():
    a = plain_iterates(cvar(), SAPD(0.05, 0.2, blocks=6), steps=3)
    b = plain_iterates(cvar(), ALEXR(0.05, 0.2, blocks=6), steps=3)
    close(a[0], b[0])
    assert (a[2] != b[2]).any()


def test_on_affine_inner_functions_ssd_is_alexr_in_the_geometry_of_f():
    """Linearised at any point they are themselves; γ = 1/(1 + τ). Both track from zero."""
    a = plain_iterates(squares(), SSD(0.01, 0.2, 0.4, theta=0.8, blocks=6), t=1)
    close(a, plain_iterates(squares(), ALEXR(0.01, 0.25, theta=0.8, blocks=6, mirror=Conjugate())))


def test_on_affine_inner_functions_nssd_is_alexr():
    a = plain_iterates(squares(), NSSD(0.01, 0.25, theta=0.8, blocks=6))
    close(a, plain_iterates(squares(), ALEXR(0.01, 0.25, theta=0.8, blocks=6)))


@pytest.mark.parametrize(
    "solver",
    [SCGD(0.05, 0.3, blocks=6), SSD(0.05, 0.3, 1.0, 0.0, blocks=6), SAPD(0.05, blocks=6), NSSD(0.05, blocks=6)],
    ids=lambda solver: type(solver).__name__,
)
def test_identity_outer_is_proximal_sgd(solver):
    """As ALEXR is, which is tested against plain NumPy."""
    problem = Problem(xrisk.group_dro(*table()).inner, Identity(), L2(0.1))
    close(plain_iterates(problem, solver), plain_iterates(problem, ALEXR(0.05, theta=0.0, blocks=6)))


@pytest.mark.parametrize(
    "solver",
    [
        SCGD(0.2, 0.5, blocks=12, batch=1),
        ASCPG(0.2, 0.5, blocks=12, batch=1),
        NASA(0.5, 2.0, blocks=12, batch=1),
        SAPD(0.2, 0.5, blocks=12, batch=1),
        SSD(0.2, 0.5, 0.5, blocks=12, batch=1),
        NSSD(0.2, 0.5, blocks=12, batch=1),
    ],
    ids=lambda solver: type(solver).__name__,
)
def test_a_full_batch_has_no_noise_and_converges_linearly(solver):
    problem = rows_as_blocks()
    best = xrisk.solvers.exact(problem).value
    xs = plain_iterates(problem, solver._replace(average=LastIterate()), steps=150)
    gaps = [problem.value(xs[t]) - best for t in (20, 50, 149)]
    assert gaps[1] < 0.1 * gaps[0]
    assert gaps[2] < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("solver", [SCGD(), ASCPG(), NASA(), SSD()], ids=lambda solver: type(solver).__name__)
def test_every_block_is_looked_at_in_every_iteration(solver):
    problem, solver, state, rng = begin(chi2_logistic(), solver._replace(batch=4), start=0.1)
    state = solver.advance(problem, state, 3, rng)
    before = state.u.copy()
    state = solver.advance(problem, state, 1, rng)
    assert (state.u != before).all()


def test_the_point_ahead_of_ascpg_leaves_the_domain_and_the_iterate_does_not():
    stated = squares()._replace(penalty=Restricted(L2(0.05), Ball(0.3)))
    solver = ASCPG(Decreasing(0.2, 20.0, 5 / 7), Decreasing(1.0, 1.0, 4 / 7), blocks=2)
    problem, solver, state, rng = begin(stated, solver)
    iterate, ahead = [], []
    for _ in range(300):
        state = ascpg_steps.py_func(problem, state, solver, 1, rng)
        iterate.append(np.linalg.norm(state.w))
        ahead.append(np.linalg.norm(state.ahead))
    assert max(iterate) <= 0.3 * (1 + 1e-12)
    assert max(ahead) > 0.6
    assert stated.value(solver.solution(state)) - xrisk.solvers.exact(stated).value < 0.02


@pytest.mark.parametrize("solver", [SCGD(), ASCPG(), NASA()], ids=lambda solver: type(solver).__name__)
def test_a_kink_is_taken_although_the_theory_asks_for_a_smooth_outer_function(solver):
    xs = plain_iterates(cvar(), solver, steps=5)
    assert np.isfinite(xs).all()
    assert SMOOTH_OUTER in solver.card().theory
    assert not SMOOTH_OUTER.met(cvar())


def test_ssd_refuses_a_kink():
    with pytest.raises(ValueError, match=r"SSD needs a smooth outer function \(NSSD runs without one\), got CVaRRisk"):
        SSD().prepare(cvar())


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (NASA(step=1.5), r"step must be at most 1/max\(1, gradient_factor, value_factor\), 1.0, got 1.5"),
        (NASA(step=0.5, value_factor=4.0), "step must be at most .*, 0.25, got 0.5"),
        (NASA(curvature=0.0), "curvature must be positive, got 0.0"),
        (NASA(gradient_factor=np.nan), "gradient_factor must be finite, got nan"),
        (SAPD(theta=1.5), "theta must lie between 0 and 1, got 1.5"),
        (SSD(theta=np.nan), "theta must lie between 0 and 1, got nan"),
        (NSSD(theta=-0.1), "theta must lie between 0 and 1, got -0.1"),
        (SSD(track_point=2.0), r"track_point must lie in \(0, 1\], got 2.0"),
        (SCGD(track=2.0), r"track must lie in \(0, 1\], got 2.0"),
        (ASCPG(blocks=7), "blocks must lie between 1 and the number of inner functions, 6, got 7"),
        (SCGD(blocks=0), "blocks must lie between 1 and the number of inner functions, 6, got 0"),
        (SCGD(batch=0), "batch must be at least 1, got 0"),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, tuple) else "",
)
def test_parameters_out_of_range_are_refused(solver, message):
    with pytest.raises(ValueError, match=message):
        solver.prepare(chi2_logistic())
