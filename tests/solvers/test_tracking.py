"""What the methods that track inner values become where there is nothing to track."""

import numpy as np
import pytest

import xrisk
from tests.conftest import table
from tests.reference import problems
from tests.reference.problems import sampled
from tests.solvers.cases import CASES, compiled
from tests.solvers.running import begin, iterates, kernel_of
from xrisk.functions import Identity
from xrisk.solvers import BSGD, MSVR, SONEX, SONX, AveragedGradient, SnapshotMSVR


def uncompiled(solver, steps=30):
    """The start and the iterates on the mean of the groups' risks: an identity outside."""
    stated = xrisk.group_dro(*table(), l2=0.1)._replace(outer=Identity())
    problem, solver, state, rng = begin(stated, solver, start=0.1)
    xs = [state.w.copy()]
    for _ in range(steps):
        state = kernel_of(solver).py_func(problem, state, solver, 1, rng)
        xs.append(state.w.copy())
    return xs[0], np.array(xs[1:])


@pytest.mark.parametrize(
    "solver",
    [
        SONX(0.05, 0.2, 0.6, blocks=3),
        MSVR(0.05, 0.2, 1.0, blocks=3),
        MSVR(0.05, 0.2, 1.0, blocks=3, gradient=AveragedGradient()),
    ],
    ids=["sonx", "msvr-v2", "msvr-v1"],
)
def test_under_an_identity_they_are_stochastic_gradients(solver):
    expected = uncompiled(BSGD(0.05, blocks=3))[1]
    np.testing.assert_allclose(uncompiled(solver)[1], expected, rtol=1e-12, atol=1e-12)


class Linear:
    def slope(self, u):
        return np.ones(1)


def test_under_an_identity_msvr_v2_is_storm():
    x0, xs = uncompiled(MSVR(0.05, 0.2, 0.3, blocks=3))
    p, rng, order = problems.Naive(Linear(), threshold=False, x0=x0, batch=8), np.random.default_rng(0), np.arange(6)
    x, x_prev, v = x0, x0, None
    for found in xs:
        rows = {i: p.draw(i, rng) for i in sampled(order, 3, rng)}
        here, before = (np.mean([p.jacobian(i, z, rows[i])[0] for i in rows], axis=0) for z in (x, x_prev))
        v = here if v is None else here + 0.7 * (v - before)
        x, x_prev = p.prox(x - 0.05 * v, 0.05), x
        np.testing.assert_allclose(found, x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("divergence", "solver"),
    [
        ("cvar", SONX(0.05, 0.3, 0.5, blocks=6, batch=1)),
        ("cvar", SONEX(0.05, 0.3, blocks=6, batch=1)),
        ("chi2", BSGD(0.05, blocks=6, batch=1)),
        ("chi2", MSVR(0.05, blocks=6, batch=1)),
        ("chi2", SnapshotMSVR(0.05, blocks=6, batch=1)),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_whole_blocks_have_no_noise(divergence, solver):
    """Groups of one row, all of them in every iteration: every seed gives the same run."""
    X, y, _ = table(n=6)
    problem = xrisk.group_dro(X, y, np.array([1, 0, 2, 3, 4, 5]), divergence=divergence, alpha=0.4, lam=1.0, l2=0.1)
    runs = [iterates(problem, solver, seed=seed)[1] for seed in (0, 1)]
    np.testing.assert_allclose(*runs, rtol=1e-9, atol=1e-12)


def named(*beginnings):
    return [case for case in CASES if case.name.startswith(beginnings)]


def found(case):
    return xrisk.minimize(case.problem(), case.solver, budget=xrisk.Budget(iterations=case.iterations), rng=0)


@pytest.mark.parametrize("case", compiled(named("bsgd", "msvr")), indirect=True)
def test_averaged_slopes_are_near_the_optimal_duals(case):
    np.testing.assert_allclose(found(case).dual, xrisk.solvers.exact(case.problem()).dual, atol=0.02)


@pytest.mark.parametrize("case", compiled(named("son")), indirect=True)
def test_averaged_slopes_at_a_kink_are_weights(case):
    """Each in [0, 1/α]; their mean is one, which makes the threshold optimal."""
    y = found(case).dual
    assert y.min() >= 0.0
    assert y.max() <= 2.5
    assert y.mean() == pytest.approx(1.0, abs=0.02)
