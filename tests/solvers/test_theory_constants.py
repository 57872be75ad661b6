"""The constants of a problem: bounds that hold, in the norms of the theorems, and a name for what is only measured."""

import numpy as np
import pytest

import xrisk
from tests.solvers.cases import chi2, chi2_logistic, cvar, squares, tasks
from xrisk.applications import hard_smooth, multi_task
from xrisk.functions import L2, Identity, LogSumExp, MaxOuter, Softplus, block_slope, block_value
from xrisk.inner import Callables, exact_vjp
from xrisk.problem import Problem, coupled_start, inner_values
from xrisk.solvers import Conjugate, Entropy, theory
from xrisk.solvers.theory.constants import map_convexity


def many_groups():
    """Two tasks of 16 groups with rows that hardly differ: the gradients of all components point the same way."""
    rng = np.random.default_rng(0)
    X = np.array([1.0, 0.5, -0.5]) + 0.1 * rng.standard_normal((640, 3))
    labels = np.arange(640)
    return multi_task(X, np.where(labels % 5, 1, -1), labels % 2, labels // 2 % 16, outer="log-sum-exp", l2=0.1)


def jacobian(problem, w, i):
    """J (m, d) of block i."""
    shape = inner_values(problem, w).shape
    rows = np.zeros((shape[1], w.size))
    for j, row in enumerate(rows):
        y = np.zeros(shape)
        y[i, j] = 1.0
        exact_vjp(problem.inner, w, y, row)
    return rows


def test_lipschitz_and_smoothness_of_g_are_those_of_the_whole_block():
    problem = many_groups()
    c = theory.estimate_constants(problem)
    one, two = jacobian(problem, np.array([-3.0, -1.0, 1.0]), 0), jacobian(problem, np.array([-3.1, -1.0, 1.0]), 0)
    assert np.linalg.norm(one, axis=1).max() < 2.0 < np.linalg.norm(one, 2) <= c.lipschitz_g
    one, two = jacobian(problem, np.zeros(3), 0), jacobian(problem, np.array([0.1, 0.0, 0.0]), 0)
    moved = np.linalg.norm(one - two, 2) / 0.1
    assert np.linalg.norm(one - two, axis=1).max() / 0.1 < 0.5 < moved <= c.smoothness_g


def test_lipschitz_of_a_separable_f_is_that_of_the_whole_block():
    y = np.empty(2)
    block_slope(Softplus(), np.full(2, 30.0), y)
    assert theory.estimate_constants(tasks(Softplus())).lipschitz_f >= np.linalg.norm(y) > 1.4


def opposite():
    """g = (ζw, −ζw) with ζ of variance one: the noises of the two gradients cancel in their sum."""
    return Callables(
        n=2,
        d=1,
        sample=lambda i, rng, size: rng.choice([-1.0, 1.0], size),
        value=lambda i, w, z: np.array([1.0, -1.0]) * z.mean() * w[0],
        vjp=lambda i, w, z, y: np.array([(y[0] - y[1]) * z.mean()]),
        exact=lambda i, w: np.zeros(2),
        m=2,
        affine=True,
        lipschitz=0.0,
        smoothness=0.0,
    )


def test_noise_of_the_jacobian_counts_every_component():
    c = theory.estimate_constants(Problem(opposite(), MaxOuter(), L2(1.0)), distance=1.0, samples=200)
    assert c.noise_gradient == pytest.approx(2.0, rel=0.05)


def relative_entropy(a, b):
    return float(np.sum(a * np.log(a / b)))


def bregman_of_conjugate(f, a, b):
    """D_{f*}(y_a, y_b) = f(b) − f(a) − ⟨y_a, b − a⟩ at y = ∇f."""
    y = np.empty(a.size)
    block_slope(f, a, y)
    return block_value(f, b) - block_value(f, a) - y @ (b - a)


def test_rho_of_the_entropy_map_is_below_the_ratio_of_the_divergences():
    f, rng = LogSumExp(4.0), np.random.default_rng(0)
    c = theory.estimate_constants(tasks(f), mirror=Entropy())
    a, b, y, z = rng.normal(size=2), rng.normal(size=2), np.empty(2), np.empty(2)
    block_slope(f, a, y)
    block_slope(f, b, z)
    ratio = bregman_of_conjugate(f, a, b) / relative_entropy(y, z)
    assert ratio == pytest.approx(1 / 4.0)
    assert map_convexity(Entropy(), c.smoothness_f) <= ratio * (1 + 1e-9)


@pytest.mark.parametrize("theorem", [theory.theorem_5_7, theory.theorem_3, theory.theorem_20, theory.theorem_18])
def test_settings_for_the_entropy_map_have_its_smoothness(theorem):
    problem = tasks(LogSumExp(4.0))
    estimated = theorem(problem, 0.01, mirror=Entropy())
    c = theory.estimate_constants(problem, mirror=Entropy())
    assert c.smoothness_f == 4.0
    given = theorem(problem, 0.01, mirror=Entropy(), constants=c)
    assert (estimated.solver, estimated.iterations) == (given.solver, given.iterations)


def test_a_smoothness_in_another_norm_is_refused_under_the_entropy_map():
    problem = tasks(LogSumExp(4.0))
    c = theory.estimate_constants(problem)
    assert c.smoothness_f == 2.0
    with pytest.raises(ValueError, match=r"smoothness_f must be at least 4.0 under Entropy\(\)"):
        theory.theorem_5_7(problem, 0.01, mirror=Entropy(), constants=c)


def test_omega_of_the_entropy_map_is_that_of_the_uniform_start():
    c = theory.estimate_constants(tasks(MaxOuter()), mirror=Entropy())
    assert c.omega == pytest.approx(3 * np.log(2.0))


def test_omega_of_the_conjugate_map_bounds_the_divergence_at_the_optimum():
    problem = squares()
    u = inner_values(problem, xrisk.solvers.exact(problem).w)[:, 0]
    omega = theory.estimate_constants(problem, mirror=Conjugate()).omega
    assert omega >= sum(bregman_of_conjugate(problem.outer, np.array([x]), np.zeros(1)) for x in u)


@pytest.mark.parametrize(
    "build", [lambda: hard_smooth(8).problem, squares, lambda: tasks(LogSumExp(2.0)), chi2_logistic]
)
def test_the_distance_is_a_bound(build):
    problem = build()
    assert theory.estimate_constants(problem).distance >= np.linalg.norm(xrisk.solvers.exact(problem).w)


def test_the_distance_of_a_risk_counts_its_threshold():
    problem = cvar()
    best = coupled_start(problem, xrisk.solvers.exact(problem).w)
    start = coupled_start(problem, np.zeros(4))
    assert theory.estimate_constants(problem).distance >= np.linalg.norm(best - start)


def test_the_distance_of_a_threshold_is_refused_where_inner_values_may_change_without_bound():
    with pytest.raises(
        ValueError, match="distance must be given: the inner functions have no known Lipschitz constant"
    ):
        theory.estimate_constants(chi2())


def down(f):
    """f(−w), which nothing known bounds from below."""
    inner = Callables(
        n=1,
        d=1,
        sample=lambda i, rng, size: None,
        value=lambda i, w, batch: -w[0],
        vjp=lambda i, w, batch, y: -y,
        exact=lambda i, w: -w[0],
        affine=True,
        lipschitz=1.0,
        smoothness=0.0,
    )
    return Problem(inner, f, L2(0.5))


@pytest.mark.parametrize("w0", [0.0, 1.0, -1.0], ids=str)
def test_a_distance_is_refused_where_no_lower_bound_is_known(w0):
    """F(w) = −w + w²/4 is 0 at 0, below at 1 and above at −1; its minimum is at 2."""
    with pytest.raises(ValueError, match="distance must be given: no lower bound of the objective is known"):
        theory.estimate_constants(down(Identity()), w0=np.array([w0]))


@pytest.mark.parametrize("w0", [np.zeros(4), np.ones(4)], ids=["zeros", "ones"])
def test_constants_of_f_hold_in_the_whole_ball(w0):
    """Squares of affine values, unbounded slopes: the largest value on the sphere is along a row."""
    problem = squares()._replace(penalty=L2(0.05))
    c = theory.estimate_constants(problem, w0=w0)
    rows = [jacobian(problem, w0, i)[0] for i in range(c.n)]
    ends = [w0 + sign * c.distance * row / np.linalg.norm(row) for row in rows for sign in (-1.0, 1.0)]
    attained = max(2.0 * np.abs(inner_values(problem, x)).max() for x in ends)
    seen = 2.0 * np.abs(inner_values(problem, w0)).max()
    assert seen < attained <= c.lipschitz_f


def test_constants_that_f_has_everywhere_are_taken():
    problem = tasks(Softplus())
    assert theory.estimate_constants(problem, distance=1e-9).lipschitz_f == pytest.approx(np.sqrt(2.0))
    assert theory.estimate_constants(problem, distance=1e-9).smoothness_f == 0.25


def test_what_is_measured_is_named():
    c = theory.estimate_constants(cvar())
    assert c.measured == ("noise_value", "noise_gradient", "spread")
    assert theory.Constants(8, *[1.0] * 10).measured == ()


def test_a_given_weak_convexity_is_that_of_each_component():
    """ρ_F = √m·C_f·ρ_g, and C_f·L_g with the smoothness of the block."""
    problem = tasks(LogSumExp(1.0))
    c = theory.estimate_constants(problem)
    own = theory.alexr_dl_setting(problem, 0.3, gap=1.0, constants=c).solver.strength
    given = theory.alexr_dl_setting(problem, 0.3, gap=1.0, constants=c, weak_convexity=0.5).solver.strength
    assert own == pytest.approx(2.0 * c.lipschitz_f * c.smoothness_g)
    assert given == pytest.approx(2.0 * np.sqrt(2.0) * c.lipschitz_f * 0.5)
