"""Runs of solvers step by step, for tests."""

import importlib

import numpy as np

from xrisk.compile import uncompiled
from xrisk.inner import inner_size


def begin(stated, solver, seed=0, start=0.0):
    """Problem, solver, state and generator of a fresh run."""
    problem, solver = solver.prepare(stated)
    w = np.full(inner_size(stated.inner), start)
    rng = np.random.default_rng(seed)
    return problem, solver, solver.init(problem, solver.start(stated, w), rng), rng


def iterates(stated, solver, steps=50, seed=0):
    """The start x_0 and the iterates x_1, …, x_T; not from zero, where every risk stands on the kink of CVaR.

    Nothing is compiled: the contract compares compiled runs with these.
    """
    problem, solver, state, rng = begin(stated, solver, seed, start=0.1)
    xs = [state.w.copy()]
    with uncompiled():
        for _ in range(steps):
            state = solver.advance(problem, state, 1, rng)
            xs.append(state.w.copy())
    return xs[0], np.array(xs[1:])


def kernel_of(solver):
    """The kernel of a solver, by its name; two methods of one iteration, I and II or 1 and 2, share theirs."""
    module, name = importlib.import_module(type(solver).__module__), type(solver).__name__.lower()
    return vars(module).get(f"{name}_steps") or getattr(module, f"{name.rstrip('i12')}_steps")


def plain_iterates(stated, solver, steps=50, seed=0, **changes):
    """The iterates x_1, …, x_T from a state with ``changes``; nothing is compiled but what the kernel calls."""
    problem, solver, state, rng = begin(stated, solver, seed, start=0.1)
    advance, state, xs = kernel_of(solver).py_func, state._replace(**changes), []
    for _ in range(steps):
        state = advance(problem, state, solver, 1, rng)
        xs.append(state.w.copy())
    return np.array(xs)
