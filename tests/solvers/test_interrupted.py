"""Full passes that are interrupted anywhere leave a state from which the run goes on as if nothing had happened."""

import itertools

import numpy as np
import pytest

import xrisk
from tests.solvers.cases import auc_tail, chi2_logistic, cvar
from tests.solvers.running import begin
from xrisk.auto import Auto
from xrisk.data.threads import Interrupted, interruptible
from xrisk.run.checkpoint import leaves
from xrisk.solvers import Bundle, Newton, Restarted, SmoothedLBFGS, SnapshotMSVR
from xrisk.solvers.base import copied, iterations_made

STEPS = 20


def sampled_first():
    table = xrisk.datasets.make_groups(5, n=1500, n_features=4, random_state=0)
    return xrisk.group_dro(*table[:3], divergence="cvar", alpha=0.25, l2=0.01)


AUTO = Auto(0.02, least_speedup=0.0, least_rows=10, newton_steps=1e30, shares=(0.2,))
CASES = {
    "msvr-v3": (chi2_logistic, SnapshotMSVR(epoch=7, blocks=3)),
    "msvr-v3 in stages": (chi2_logistic, Restarted(SnapshotMSVR(epoch=7, blocks=3), 10)),
    "newton": (cvar, Newton()),
    "lbfgs": (cvar, SmoothedLBFGS(memory=3)),
    "bundle": (auc_tail, Bundle(1e-9, cuts=8, memory=3)),
    "auto": (cvar, Auto(1e-9, newton_steps=1e30)),
    "auto from a sample": (sampled_first, AUTO),
}


def assert_same(one, other):
    for name, leaf in leaves(one).items():
        np.testing.assert_array_equal(leaf, leaves(other)[name], err_msg=name)


def after(asks):
    """A question to which the answer is no so many times, and yes from then on."""
    times = itertools.count()
    return lambda: next(times) >= asks


def interrupted(problem, solver, state, rng, asks):
    """The state after at most STEPS iterations, and how many they were; that which was given if a pass was cut."""
    stream, given = rng.bit_generator.state, copied(state)
    try:
        with interruptible(after(asks)):
            state = solver.advance(problem, state, STEPS, rng)
    except Interrupted:
        assert_same(state, given)
        rng.bit_generator.state = stream
        return state, 0
    return state, iterations_made(solver, state, STEPS)


@pytest.mark.parametrize("asks", [0, 1, 2, 3, 5, 8, 12, 20, 40, 60, 80, 86, 88])
@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(name, asks):
    stated, solver = CASES[name]
    problem, prepared, state, rng = begin(stated(), solver)
    whole = prepared.advance(problem, state, STEPS, rng)
    problem, prepared, state, rng = begin(stated(), solver)
    state, made = interrupted(problem, prepared, state, rng, asks)
    assert_same(prepared.advance(problem, state, STEPS - made, rng), whole)
