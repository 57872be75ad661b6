"""SOTA and SOTA-s against their naive twins, and SOTA-s at extreme scores and temperatures."""

import numpy as np
import pytest

from tests.reference.sota import sota, sota_s
from tests.reference.two_way import TwoWay
from tests.solvers.cases import two_way
from tests.solvers.running import begin, iterates
from xrisk.applications import two_way_partial_auc
from xrisk.compile import uncompiled
from xrisk.solvers import SOTA, AllThresholds, SampledThresholds, SOTAs

STEPS = {
    "step": 0.05,
    "dual_step": 0.3,
    "tail_step": 0.2,
    "threshold_step": 0.1,
    "strength": 0.3,
    "epoch": 8,
    "blocks": 7,
}
SOFT = {"step": 0.05, "lam": 0.7, "outer_lam": 1.3, "track": 0.6, "outer_track": 0.5, "momentum": 0.4, "blocks": 7}


@pytest.mark.parametrize("coordinates", [SampledThresholds(), AllThresholds()], ids=str)
def test_sota_follows_the_naive_twin(coordinates):
    problem, solver, state, rng = begin(two_way(), SOTA(**STEPS, batch=5, coordinates=coordinates), start=0.1)
    every = isinstance(coordinates, AllThresholds)
    expected = sota(TwoWay(state.w.copy(), 5), 50, np.random.default_rng(0), **STEPS, every=every)
    for w, s, level, y in expected:
        with uncompiled():
            state = solver.advance(problem, state, 1, rng)
        np.testing.assert_allclose(state.w, w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.s, s, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.y, y, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.level, level, rtol=1e-10, atol=1e-12)


def test_sota_s_follows_the_naive_twin():
    x0, ws = iterates(two_way(), SOTAs(**SOFT, batch=5))
    expected = sota_s(TwoWay(x0, 5), 50, np.random.default_rng(0), **SOFT)
    np.testing.assert_allclose(ws, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("lam", [1e-3, 1.0])
@pytest.mark.parametrize("outer_lam", [1e-3, 10.0])
def test_no_score_and_no_temperature_overflows(loss, lam, outer_lam):
    X = 1e3 * np.random.default_rng(0).standard_normal((80, 3))
    stated = two_way_partial_auc(X, np.tile([1, -1], 40), min_tpr=0.5, max_fpr=0.5, loss=loss, l2=0.1)
    solver = SOTAs(step=1e-12, lam=lam, outer_lam=outer_lam, track=0.1, outer_track=0.1)
    problem, solver, state, rng = begin(stated, solver, start=1.0)
    with uncompiled():
        state = solver.advance(problem, state, 3, rng)
    assert all(np.isfinite(part).all() for part in (state.w, state.log_u, state.log_v, state.m))


@pytest.mark.parametrize(
    ("solver", "error", "words"),
    [
        (SOTA(coordinates=1), TypeError, r"coordinates must be SampledThresholds\(\) or AllThresholds\(\), got 1"),
        (SOTA(strength=0.0), ValueError, "strength must be positive, got 0.0"),
        (SOTAs(lam=0.0), ValueError, "lam must be positive, got 0.0"),
        (SOTAs(outer_lam=np.inf), ValueError, "outer_lam must be finite, got inf"),
        (SOTAs(outer_track=1.5), ValueError, r"outer_track must lie in \(0, 1\], got 1.5"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(solver, error, words):
    with pytest.raises(error, match=words):
        solver.prepare(two_way())
