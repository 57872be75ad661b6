"""Smoothed L-BFGS: its direction is that of the matrix it stands for, and knowing the coupling saves steps."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from xrisk.inner.passes import has_gradients
from xrisk.solvers import SmoothedLBFGS, lbfgs
from xrisk.solvers.newton.coupling import coupling_slopes


def state_after(problem, steps):
    task, solver = SmoothedLBFGS().prepare(problem)
    state = solver.init(task, np.zeros(4), np.random.default_rng(0))
    return task, solver.advance(task, state, steps, None)


def inverse(state):
    """B⁻¹, column by column."""
    return np.stack([lbfgs.remembered_inverse(state, e) for e in np.eye(state.x.size)], axis=1)


@pytest.mark.parametrize("divergence", ["cvar", "max", "kl"])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_a_direction_solves_with_the_hessian_of_the_coupling(divergence, steps, plain):
    task, state = state_after(xrisk.group_dro(*table(), divergence=divergence, l2=0.1), steps)
    A, B = lbfgs.coupling_rows(task, state), np.linalg.inv(inverse(state))
    assert A.shape[0] > 0
    np.testing.assert_allclose(lbfgs.remembered_gram(state, A), A @ inverse(state) @ A.T, rtol=1e-8, atol=1e-12)
    expected = np.linalg.solve(B + A.T @ A, state.grad)
    np.testing.assert_allclose(lbfgs.direction(task, state), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(("diagonal", "told"), [(1e-40, False), (-2.0, True)], ids=["nearly singular", "indefinite"])
def test_a_matrix_that_rounding_has_spoiled_is_no_warning_and_no_error(diagonal, told, plain, monkeypatch):
    task, state = state_after(xrisk.group_dro(*table(), divergence="max", l2=0.1), 1)
    k = lbfgs.coupling_rows(task, state).shape[0]
    spoiled = np.diag([1e20] * (k - 1) + [diagonal])
    monkeypatch.setattr(lbfgs, "remembered_gram", lambda state, A: spoiled)
    plain_step = lbfgs.remembered_inverse(state, state.grad)
    assert np.array_equal(lbfgs.direction(task, state), plain_step) == told


@pytest.mark.parametrize("divergence", ["max", "kl"])
def test_rows_of_the_coupling_make_its_hessian(divergence, plain):
    """By differences of the gradient of the coupling, the gradients of the inner functions staying as they are."""
    task, state = state_after(xrisk.group_dro(*table(), divergence=divergence, l2=0.1), 1)
    A, J = lbfgs.coupling_rows(task, state), state.inner.slopes
    u = np.array([state.sums[:, 0]])
    v = np.array([0.3, -0.2, 0.1, 0.4])

    def adjoint(t):
        y, curve, shift = np.zeros(u.shape), np.zeros(u.shape), state.shift.copy()
        mu = state.theta * task.size / (u.size / task.n)
        coupling_slopes(task.coupling, u + t * (J @ v), mu, shift, y, curve)
        return y[0] @ J / task.n

    expected = (adjoint(1e-5) - adjoint(-1e-5)) / 2e-5
    np.testing.assert_allclose(A.T @ (A @ v), expected, rtol=2e-2, atol=1e-3 * np.abs(expected).max())


def test_knowing_the_coupling_saves_steps(monkeypatch):
    problem = xrisk.group_dro(*table(n=600, d=8, groups=20), divergence="max", l2=0.01)

    def steps():
        result = xrisk.minimize(problem, SmoothedLBFGS(tol=1e-4), budget=xrisk.Budget(iterations=2000))
        assert result.stop is xrisk.Stop.CONVERGED
        return result.progress.iterations

    known = steps()
    monkeypatch.setattr(lbfgs, "has_gradients", lambda g: False)
    assert known < 0.8 * steps()


def test_rows_that_stand_alone_keep_no_gradients():
    X, y, _ = table()
    problem = xrisk.group_dro(X, y, np.arange(len(y)), divergence="cvar", alpha=0.2, l2=0.1)
    assert not has_gradients(problem.inner)
    result = xrisk.minimize(problem, SmoothedLBFGS(tol=1e-3), budget=xrisk.Budget(iterations=2000))
    assert result.value == pytest.approx(xrisk.solvers.exact(problem).value, rel=1e-3)
