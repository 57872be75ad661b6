"""SONX and SONEX for two-way partial AUC against their naive twin, and what they are special cases of."""

import numpy as np
import pytest

from tests.reference.tail_sonx import tail_sonx
from tests.reference.two_way import TwoWay
from tests.solvers.cases import two_way
from tests.solvers.running import begin
from xrisk.compile import uncompiled
from xrisk.solvers import TailSONEX, TailSONX, TheoryCorrection

STEPS = {"step": 0.05, "tail_step": 0.2, "threshold_step": 0.1, "track": 0.6, "blocks": 7}


def points(solver, steps=50):
    """The start, and (w, s, s′) after every iteration; nothing is compiled."""
    problem, solver, state, rng = begin(two_way(), solver, start=0.1)
    start, found = state.w.copy(), []
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            found.append((state.w.copy(), state.tails.s.copy(), state.level))
    return start, found


def assert_follows(found, expected):
    for k in range(3):
        np.testing.assert_allclose(
            np.array([x[k] for x in found]), np.array([x[k] for x in expected]), rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("correction", [0.0, 0.4], ids=["v1", "v2"])
def test_sonx_follows_the_naive_twin(correction):
    start, found = points(TailSONX(**STEPS, correction=correction, batch=5))
    assert_follows(found, tail_sonx(TwoWay(start, 5), 50, np.random.default_rng(0), **STEPS, correction=correction))


@pytest.mark.parametrize("correction", [0.0, 0.4], ids=["v1", "v2"])
def test_sonex_follows_the_naive_twin(correction):
    options = {"correction": correction, "nu": 0.2, "momentum": 0.4}
    start, found = points(TailSONEX(**STEPS, **options, batch=5))
    assert_follows(found, tail_sonx(TwoWay(start, 5), 50, np.random.default_rng(0), **STEPS, **options))


def test_the_correction_of_the_theorem_is_a_number():
    n = sum(1 for _ in TwoWay(np.zeros(4), 1).above)
    weight = (n - 7) / (7 * 0.4) + 0.4
    theory = points(TailSONX(**STEPS, correction=TheoryCorrection()), 20)[1]
    assert_follows(theory, points(TailSONX(**STEPS, correction=weight), 20)[1])


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (TailSONX(correction=-1.0), "correction must be finite and not negative, got -1.0"),
        (TailSONX(track=2.0), r"track must lie in \(0, 1\], got 2.0"),
        (TailSONX(tail_step=-1.0), "tail_step must be positive, got -1.0"),
        (TailSONEX(nu=0.0), "nu must be positive, got 0.0"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said_in_one_sentence(solver, words):
    with pytest.raises(ValueError, match=words):
        solver.prepare(two_way())
