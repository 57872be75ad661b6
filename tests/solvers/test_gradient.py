"""Batch gradient against its naive twin, its rates and its end."""

import numpy as np
import pytest

import xrisk
from tests.reference import problems
from tests.reference.gradient import gradient
from tests.solvers.cases import chi2_logistic, cvar, squares
from tests.solvers.running import iterates
from xrisk.solvers import BatchGradient, Nesterov, NoAcceleration

RULES = [NoAcceleration(), Nesterov()]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("stated", [chi2_logistic, squares])
def test_it_follows_the_naive_twin(stated, rule):
    x0, xs = iterates(stated(), BatchGradient(0.05, rule))
    naive = problems.chi2(x0, 1) if stated is chi2_logistic else problems.Affine(x0, 1)
    expected = gradient(naive, 50, step=0.05, accelerated=isinstance(rule, Nesterov))
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_where_it_ends_the_gap_is_what_it_claims(rule):
    result = xrisk.minimize(squares(), BatchGradient(0.05, rule, tol=1e-10), budget=xrisk.Budget(iterations=5000))
    assert result.stop is xrisk.Stop.CONVERGED
    assert result.value - xrisk.solvers.exact(squares(), tol=1e-14).value <= 1e-10


@pytest.mark.slow
def test_acceleration_takes_fewer_steps():
    steps = []
    for rule in RULES:
        stated = squares()._replace(penalty=xrisk.functions.L2(1e-3))
        best = xrisk.solvers.exact(stated).value
        run = xrisk.minimize(
            stated,
            BatchGradient(0.05, rule),
            budget=xrisk.Budget(iterations=20_000),
            until=lambda seen, best=best: seen.value - best < 1e-7,
        )
        steps.append(run.progress.iterations)
    assert steps[1] < 0.5 * steps[0]


@pytest.mark.parametrize(
    ("solver", "stated", "error", "words"),
    [
        (BatchGradient(), cvar, ValueError, "batch gradient needs a smooth outer function"),
        (BatchGradient(tol=0.0), squares, ValueError, "tol must be positive, got 0.0"),
        (BatchGradient(step=-1.0), squares, ValueError, "step must be positive, got -1.0"),
        (BatchGradient(acceleration=1.0), squares, TypeError, r"acceleration must be NoAcceleration\(\) or Nesterov"),
    ],
    ids=lambda x: "",
)
def test_what_is_wrong_is_said_in_one_sentence(solver, stated, error, words):
    with pytest.raises(error, match=words):
        solver.prepare(stated())
