"""What makes a spec a full-batch method: its iteration, and the members that follow from the fields of its state."""
# mypy: disable-error-code="empty-body"

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xrisk.annotations import Solver, Spec, State
from xrisk.data.threads import one_thread_each
from xrisk.generic import generic
from xrisk.inner.oracle import Oracles, inner_samples
from xrisk.inner.passes import Slopes
from xrisk.problem import Problem
from xrisk.solvers.base import PointToProve, Stop, known_slopes, register_full_batch
from xrisk.solvers.method import register

METHOD_OF: dict[type, Any] = {}  # the method, with its defaults, that a state belongs to


@generic
def points_to_prove(solver: Solver, task: Spec, state: State) -> Iterator[PointToProve]:
    """What to certify of a state, one after another until a proof is good enough."""


@points_to_prove.otherwise
def _(solver, task, state):
    yield PointToProve(state.w, solver.dual(task, state), known_slopes(solver, state))


def full_batch(
    named: dict[str, Any], state: type, endings: tuple[Stop | None, ...], phase: str, least: Oracles
) -> Callable[[Callable], Callable]:
    """Make a function of (task, solver, state) the iteration of a method, and add the members that its class lacks.

    The class has ``card``, ``prepare`` and ``first``, the state at a first point. A task, the problem as ``prepare``
    leaves it, has ``passes`` (2,), the full passes made so far for values and gradients, and ``prepared`` (2,), those
    of preparing it. A state has ``w``, ``value``, ``gap``, ``ended``, ``values``, ``gradients`` and ``t``, and ``y``
    unless the class has ``dual``; the last three are counted here.

    Parameters
    ----------
    named : dict
        The method with its defaults and its variants, by the names they are raced under.
    state : type
        Of its states.
    endings : tuple of Stop
        Why it may end; ``ended`` is a place in it, 0 while running.
    phase : str
        What a trace says that the method is doing.
    least : Oracles
        Full passes that an iteration makes at the least.
    """
    (cls,) = {type(solver) for solver in named.values()}
    METHOD_OF[state] = next(iter(named.values()))
    register(named)
    register_full_batch(cls, endings, phase)
    if "z" in state.__annotations__:
        known_slopes.of(cls)(_slopes)

    def attach(step: Callable) -> Callable:
        defaults = {
            "start": lambda self, problem, w: w,
            "init": lambda self, task, x, rng: _init(self, task, x),
            "advance": lambda self, task, state, n_steps, rng: iterated(self, task, state, n_steps, step),
            "solution": lambda self, state: state.w,
            "dual": lambda self, task, state: state.y,
            "oracles": lambda self, task, t: _least(least, task, t),
        }
        for name, default in defaults.items():
            if name not in vars(cls):
                setattr(cls, name, default)
        return step

    return attach


def _init(solver: Solver, task: Spec, x: np.ndarray) -> Any:
    state = first_state(solver, task, x)
    values, gradients = task.prepared.tolist()
    return state._replace(values=state.values + values, gradients=state.gradients + gradients)


def first_state(solver: Solver, task: Spec, x: np.ndarray) -> Any:
    """The state at a first point; of the passes only those since the task was prepared are counted."""
    before = task.passes.copy()
    state = solver.first(task, x)
    values, gradients = (task.passes - before).tolist()
    return state._replace(values=values, gradients=gradients)


def iterated(solver: Solver, task: Spec, state: State, n_steps: int, step: Callable) -> Any:
    """The state ``n_steps`` iterations on, or where it has ended."""
    with one_thread_each():
        for _ in range(n_steps):
            if state.ended:
                return state
            before, t = task.passes.copy(), state.t + 1
            new = step(task, solver, state)
            values, gradients = (task.passes - before).tolist()
            state = new._replace(values=state.values + values, gradients=state.gradients + gradients, t=t)
    return state


def _least(least: Oracles, task: Problem, t: int) -> Oracles:
    samples = inner_samples(task.inner)
    return Oracles(least.values * t * samples, least.gradients * t * samples)


def _slopes(solver: Solver, state: State) -> Slopes:
    """The slopes at the scores of the state, where it keeps no others."""
    if "slopes" in state._fields:
        return state.slopes
    return Slopes(state.z, state.z, np.zeros(state.y.size), getattr(state, "mu", 0.0))
