"""SOX against its naive twin, and what it is a special case of."""

import numpy as np
import pytest

from tests.reference import problems
from tests.reference.sox import sox
from tests.solvers.cases import chi2_logistic, cvar, tasks
from tests.solvers.running import begin, iterates
from xrisk.functions import LogSumExp
from xrisk.solvers import ALEXR, SOX, Conjugate, FreshBatch, LastIterate, OldValue, SameBatch

pytestmark = pytest.mark.usefixtures("plain")


@pytest.mark.parametrize(
    ("pairing", "again", "old"),
    [(FreshBatch(), True, False), (OldValue(), False, True), (SameBatch(), False, False)],
    ids=["fresh", "old", "same"],
)
def test_it_follows_the_naive_twin(pairing, again, old):
    setting = {"step": 0.05, "track": 0.3, "momentum": 0.2, "blocks": 3}
    x0, xs = iterates(cvar(), SOX(**setting, batch=5, pairing=pairing))
    expected = sox(problems.cvar(x0, 5), 50, np.random.default_rng(0), **setting, again=again, old=old)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_vector_blocks_follow_the_naive_twin():
    setting = {"step": 0.05, "track": 0.3, "momentum": 0.2, "blocks": 2}
    x0, xs = iterates(tasks(LogSumExp(2.0)), SOX(**setting, batch=4))
    expected = sox(problems.lse(x0, 4), 50, np.random.default_rng(0), **setting, again=True, old=False)
    np.testing.assert_allclose(xs, expected, rtol=1e-10, atol=1e-12)


def test_without_momentum_it_is_alexr_without_extrapolation_in_the_geometry_of_f():
    """θ = 0, ψ = f* and γ = 1/(1 + τ)."""
    alexr = ALEXR(0.05, 0.25, theta=0.0, blocks=3, mirror=Conjugate(), average=LastIterate())
    problem, solver, state, rng = begin(chi2_logistic(), SOX(0.05, 1.0 / (1.0 + 4.0), blocks=3), start=0.1)
    state = state._replace(seen=np.ones(6, dtype=bool))  # ALEXR's tracked values start at 0, too
    xs = []
    for _ in range(50):
        state = solver.advance(problem, state, 1, rng)
        xs.append(state.w.copy())
    np.testing.assert_allclose(xs, iterates(chi2_logistic(), alexr)[1], rtol=1e-10, atol=1e-12)


def test_a_pairing_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="pairing must be"):
        SOX(pairing="old").prepare(cvar())


@pytest.mark.parametrize("field", ["track", "momentum"])
def test_weights_above_one_are_refused(field):
    with pytest.raises(ValueError, match=rf"{field} must lie in \(0, 1\], got 1.5"):
        SOX(**{field: 1.5}).prepare(cvar())
