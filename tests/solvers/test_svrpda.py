"""SVRPDA-I and -II against their naive twin, their rates, their memory and their special cases."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.svrpda import svrpda
from tests.solvers.cases import chi2_logistic, cvar, single_rows, squares
from tests.solvers.running import begin, iterates
from xrisk.applications import bellman
from xrisk.inner import exact_vjp
from xrisk.run.checkpoint import leaves
from xrisk.solvers import SVRPDAI, SVRPDAII, Growing, LastPoint, MeanPoint, RandomPoint, SingleLoop

SETTING = {"step": 0.05, "dual_step": 0.4, "epoch": 7}
METHODS = {"I": (SVRPDAI, True), "II": (SVRPDAII, False)}
both = pytest.mark.parametrize(("solver", "keeps_jacobians"), METHODS.values(), ids=METHODS)


@both
@pytest.mark.parametrize("restart", [LastPoint(), RandomPoint()], ids=str)
def test_it_follows_the_naive_twin(solver, keeps_jacobians, restart):
    x0, xs = iterates(chi2_logistic(), solver(**SETTING, batch=3, restart=restart))
    expected = svrpda(
        problems.chi2(x0, 3),
        50,
        np.random.default_rng(0),
        **SETTING,
        keeps_jacobians=keeps_jacobians,
        random_restart=isinstance(restart, RandomPoint),
    )
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@both
def test_of_affine_inner_functions_it_follows_the_twin_too(solver, keeps_jacobians):
    x0, xs = iterates(squares(), solver(**SETTING, batch=3))
    expected = svrpda(problems.Affine(x0, 3), 50, np.random.default_rng(0), **SETTING, keeps_jacobians=keeps_jacobians)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def mdp(l2=0.05, states=30, d=5):
    rng = np.random.default_rng(0)
    P = rng.random((states, states))
    P /= P.sum(axis=1, keepdims=True)
    return bellman(P, rng.random((states, states)), rng.random((states, d)), l2=l2, sampling="uniform")


def closed_form(problem, l2):
    A, b = problem.inner.mean_rows, problem.inner.mean_reward
    n, d = A.shape
    return np.linalg.solve(2.0 * A.T @ A / n + l2 * np.eye(d), 2.0 * A.T @ b / n)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [SVRPDAI(0.05, 1.0), SVRPDAII(0.05, 1.0, epoch=60)], ids=["I", "II"])
def test_the_gap_falls_by_the_same_factor_again_and_again_down_to_1e_10(solver):
    """Straight in the logarithm: the second half of the way takes as long as the first."""
    stated = mdp()
    best = stated.value(closed_form(stated, 0.05))
    problem, solver, state, rng = begin(stated, solver)
    gaps = []
    while not gaps or (gaps[-1] > 1e-10 and len(gaps) < 200):
        state = solver.advance(problem, state, 500, rng)
        gaps.append(problem.value(state.w) - best)
    assert gaps[-1] <= 1e-10
    half = next(k for k, gap in enumerate(gaps) if gap <= np.sqrt(gaps[0] * 1e-10))
    assert len(gaps) <= 3 * (half + 1)


@pytest.mark.slow
@both
def test_without_a_penalty_the_mdp_of_the_paper_is_solved_to_1e_12(solver, keeps_jacobians):
    """The supplement's step sizes for ten states: neither is the penalty strongly convex nor the square Lipschitz."""
    rng = np.random.default_rng(3)
    P = rng.random((10, 10))
    P /= P.sum(axis=1, keepdims=True)
    stated = bellman(P, rng.random((10, 10)), rng.random((10, 5)), sampling="uniform")
    chosen = solver(0.1, 0.25, 150) if keeps_jacobians else solver(0.5, 1.25, 15)
    best = stated.value(np.linalg.lstsq(stated.inner.mean_rows, stated.inner.mean_reward)[0])
    result = xrisk.minimize(stated, chosen, budget=xrisk.Budget(iterations=60_000), rng=0)
    assert result.value - best < 1e-12


def away_from_the_snapshot(solver, seed, steps=200):
    """U less what it stands for, after steps that move duals while the parameters stay where they are, far off."""
    problem, ready, state, rng = begin(chi2_logistic(), solver, seed)
    state = ready.advance(problem, state, 1, rng)
    state = ready.advance(problem, state._replace(w=state.w + 1.0), steps, rng)
    exact = np.zeros(state.w.size)
    exact_vjp(problem.inner, state.w_hat, state.y / len(state.y), exact)
    return state.full - exact


def test_the_first_keeps_u_exact():
    solver = SVRPDAI(1e-12, 0.4, epoch=10**6, batch=3)
    np.testing.assert_allclose(away_from_the_snapshot(solver, 0), 0.0, atol=1e-13)


@pytest.mark.slow
def test_the_second_keeps_an_unbiased_estimate_of_u():
    """With the samples of the dual step in U, as printed, the mean is twenty standard errors from zero here."""
    solver = SVRPDAII(1e-12, 0.4, epoch=10**6, batch=3)
    errors = np.array([away_from_the_snapshot(solver, seed) for seed in range(20)])
    assert np.abs(errors).max() > 1e-4
    assert (np.abs(errors.mean(axis=0)) <= 4.0 * errors.std(axis=0) / np.sqrt(len(errors))).all()


def held(solver, states, d):
    """Bytes of a state."""
    _, _, state, _ = begin(mdp(states=states, d=d), solver)
    return sum(np.asarray(leaf).nbytes for leaf in leaves(state).values())


def test_the_second_keeps_two_numbers_for_each_block_and_no_jacobian():
    """Duals and inner values of n blocks, three vectors of parameters, three numbers."""
    for states, d in ((20, 5), (40, 5), (20, 10)):
        assert held(SVRPDAII(), states, d) == 8 * (2 * states + 3 * d + 3)


def test_the_first_keeps_a_jacobian_for_each_block():
    assert held(SVRPDAI(), 20, 10) - held(SVRPDAII(), 20, 10) == 8 * 20 * 10


def test_a_single_loop_makes_one_pass():
    stated = single_rows()
    problem, solver = SVRPDAI(0.02, 0.5, SingleLoop()).prepare(stated)
    assert solver.oracles(problem, 1000) == xrisk.inner.Oracles(30 + 2 * 1000, 30)


def test_of_affine_functions_of_one_sample_passes_change_nothing_but_rounding():
    """Then g(x; j) − g(x̃; j) + g(x̃) is g(x) wherever the snapshot is."""
    short = iterates(single_rows(), SVRPDAI(0.02, 0.5, epoch=9))[1]
    single = iterates(single_rows(), SVRPDAI(0.02, 0.5, SingleLoop()))[1]
    np.testing.assert_allclose(short, single, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_kink_is_no_obstacle():
    stated = cvar()
    result = xrisk.minimize(stated, SVRPDAI(0.02, 0.2), budget=xrisk.Budget(iterations=20_000), rng=0)
    assert result.value - xrisk.solvers.exact(stated).value < 1e-3


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"epoch": 0}, ValueError, "epoch must be at least 1, got 0"),
        ({"epoch": 2.5}, ValueError, "epoch must be a whole number, got 2.5"),
        ({"epoch": Growing(0)}, ValueError, "first must be at least 1, got 0"),
        ({"epoch": Growing(5, 0.5)}, ValueError, "factor must be at least 1, got 0.5"),
        ({"restart": 3}, TypeError, r"restart must be LastPoint\(\), RandomPoint\(\) or MeanPoint\(\), got 3"),
        (
            {"restart": MeanPoint(), "epoch": SingleLoop()},
            ValueError,
            r"restart must be LastPoint\(\) in a single loop",
        ),
        ({"batch": 0}, ValueError, "batch must be at least 1, got 0"),
        ({"dual_step": -1.0}, ValueError, "dual_step must be positive, got -1"),
        ({"epoch": 10**30}, ValueError, "epoch must be at most 9223372036854775807, got 1000"),
    ],
    ids=str,
)
@both
def test_what_is_wrong_is_said_in_one_sentence(solver, keeps_jacobians, change, error, words):
    with pytest.raises(error, match=words):
        solver(**change).prepare(chi2_logistic())


def test_epochs_may_double():
    Growing(5, 2).check()
