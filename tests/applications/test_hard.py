"""The instances of the lower bounds: their optima, what the bounds say, and whom they bind."""

import numpy as np
import pytest
import scipy.stats

import xrisk
from xrisk.applications import hard_gradient, hard_nonsmooth, hard_smooth
from xrisk.solvers import SAPD, SGD, LastIterate


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sizes", [(0.01, 1.0, 1.0), (0.003, 0.2, 2.0)], ids=str)
def test_the_optimum_of_the_gradient_instance_is_where_it_says(sign, sizes):
    eps, mu, sigma = sizes
    instance = hard_gradient(eps=eps, mu=mu, sigma=sigma, sign=sign)
    assert instance.problem.value(instance.w) == pytest.approx(-2.0 * eps, rel=1e-12)
    around = [instance.problem.value(instance.w + step) for step in (-1e-4, 1e-4)]
    assert around == pytest.approx([-2.0 * eps + mu / 2 * 1e-8] * 2, rel=1e-9)


def test_sampled_gradients_have_a_variance_below_sigma():
    rows = hard_gradient(eps=0.002, mu=0.7, sigma=1.3).problem.inner.model.rows
    assert 0.8 * 1.3 < np.std(np.asarray(rows)) <= 1.3


@pytest.mark.parametrize("eps", [0.01, 0.001, 0.0001])
def test_no_method_beats_the_gradient_bound(eps):
    """The best of all estimates, the posterior mean, has an error of at least ε on average over the two signs."""
    q = round(1.0 / (2.0 * np.sqrt(eps)) - 1e-9)
    samples = int(3 * q**2 / 16)
    up = np.arange(samples + 1)
    one, other = (scipy.stats.binom.pmf(up, samples, (1 + sign / q) / 2) for sign in (1, -1))
    mean = (one - other) / (one + other)
    least = 2.0 * eps * float(np.sum((one + other) / 2 * (1.0 - mean**2)))
    assert least >= eps
    assert samples == pytest.approx(3.0 / (64.0 * eps), rel=0.2)


@pytest.mark.slow
def test_sgd_needs_more_iterations_than_the_gradient_bound():
    """With the steps 1/(μ(t + 1)), whose iterate is the mean of the samples."""
    eps, errors = 0.001, []
    for sign in (1, -1):
        instance = hard_gradient(eps=eps, sign=sign)
        for seed in range(20):
            solver = SGD(step=xrisk.solvers.Decreasing(1.0, 1.0, 1.0), batch=1, average=LastIterate())
            found = xrisk.minimize(instance.problem, solver, budget=xrisk.Budget(iterations=45), rng=seed)
            errors.append(found.value - instance.value)
    assert np.mean(errors) > eps


def test_the_gradient_instance_refuses_what_has_no_bound():
    with pytest.raises(ValueError, match=r"eps must be at most sigma²/\(16 mu\), 0.0625, got 0.07"):
        hard_gradient(eps=0.07)
    with pytest.raises(ValueError, match="sign must be 1 or -1, got 0"):
        hard_gradient(sign=0)
    with pytest.raises(ValueError, match="mu must be positive, got 0"):
        hard_gradient(mu=0.0)


@pytest.mark.slow
def test_a_method_that_reads_all_values_is_not_bound_by_the_abstract_scheme():
    eps, n = 1e-4, 256
    instance, bound = hard_smooth(n, eps=eps), n / (72 * eps)
    solver = SAPD(step=0.15, dual_step=5e-4, theta=0.0, blocks=1, batch=1, average=LastIterate())
    budget = xrisk.Budget(iterations=5_000)
    runs = [xrisk.minimize(instance.problem, solver, budget=budget, rng=seed) for seed in range(3)]
    assert budget.iterations < bound / 7
    assert np.mean([np.sum((run.w - instance.w) ** 2) / (4 * n) for run in runs]) < 0.6 * eps


@pytest.mark.parametrize("function", [hard_smooth, hard_nonsmooth])
def test_the_docstring_names_the_methods_that_are_bound(function):
    assert "methods of the abstract scheme need" in function.__doc__
    assert "no method" not in function.__doc__
