"""Epochs: a full pass at a snapshot, then sampled iterations until the next; what methods with snapshots share."""

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Solver, Spec, State
from xrisk.compile import canonical, specialise
from xrisk.functions.parameters import check_spec, checks, one_or_more, require, whole_from
from xrisk.generic import generic
from xrisk.inner.oracle import inner_dim, inner_samples, uniform_index
from xrisk.problem import Problem, coupled_start
from xrisk.solvers.base import CHOICES, Form, copied, one_of, prepare_coupled
from xrisk.solvers.shared.tracking import assign, average_into


@checks(first=whole_from(1), factor=one_or_more)
class Growing(NamedTuple):
    """Epoch e = 1, 2, … has round(first·factor^(e−1)) iterations.

    Examples
    --------
    >>> from xrisk.solvers.shared.epochs import Growing, epoch_of
    >>> [epoch_of(Growing(5, 1.5), t) for t in (0, 4, 5, 13)]
    [(0, 5), (0, 5), (5, 13), (13, 24)]
    """

    first: int = 5
    factor: float = 1.5


@checks(first=whole_from(1))
class Lengthening(NamedTuple):
    """Epoch e = 1, 2, … has first·e iterations.

    Examples
    --------
    >>> from xrisk.solvers.shared.epochs import Lengthening, epoch_of
    >>> [epoch_of(Lengthening(5), t) for t in (0, 4, 5, 15)]
    [(0, 5), (0, 5), (5, 15), (15, 30)]
    """

    first: int = 100


class SingleLoop(NamedTuple):
    """One epoch without an end: the first full pass is the only one."""


@generic
def epoch_of(epoch, t):
    """(first, after): the epoch of iteration t begins with iteration ``first`` and ends before ``after``."""


@epoch_of.of(int)
def _(epoch, t):
    first = t // epoch * epoch
    return first, first + epoch


@epoch_of.of(Growing)
def _(epoch, t):
    first, length = 0, float(epoch.first)
    while t >= first + round(length):
        first += round(length)
        length *= epoch.factor
    return first, first + round(length)


@epoch_of.of(Lengthening)
def _(epoch, t):
    done = int((math.isqrt(8 * (t // epoch.first) + 1) - 1) // 2)  # epochs before that of t
    first = epoch.first * done * (done + 1) // 2
    return first, first + epoch.first * (done + 1)


@epoch_of.of(SingleLoop)
def _(epoch, t):
    return 0, sys.maxsize


def settled_epoch(epoch: Spec, problem: Problem, sampled: int) -> Any:
    """The checked epoch; by default its iterations, of ``sampled`` samples each, draw as many as a pass reads."""
    if epoch is None:
        return -(-inner_samples(problem.inner) // sampled)
    if isinstance(epoch, tuple) and epoch_of.implemented(epoch):
        check_spec(epoch)
        return canonical(epoch)
    whole_from(1)("epoch", epoch)
    require(epoch <= sys.maxsize, "epoch", epoch, f"at most {sys.maxsize}")
    return int(epoch)


def prepare_epochs(problem: Problem, solver: Solver) -> tuple[Problem, Any]:
    """`prepare_coupled`, with the epoch and the restart settled; an iteration samples a batch of one block."""
    problem, ready = prepare_coupled(problem, solver)
    ready = ready._replace(epoch=settled_epoch(solver.epoch, problem, ready.batch * inner_dim(problem.inner)))
    check_restart(ready.restart, ready.epoch)
    return problem, ready


EPOCHS = Form(prepare_epochs, coupled_start)


def epochs_begun(epoch: Spec, t: int) -> int:
    """Number of epochs, and so of full passes, that the first t iterations begin."""
    if isinstance(epoch, int):
        return -(-t // epoch)
    begun, first = 0, 0
    while first < t:
        begun, first = begun + 1, epoch_of(epoch, first)[1]
    return begun


def advance_by_epochs(
    solver: Solver, problem: Problem, state: State, n_steps: int, rng: np.random.Generator, steps: Callable
) -> Any:
    """``n_steps`` iterations of the kernel ``steps``, with ``solver.pass_over`` at the beginning of every epoch."""
    end = state.t + n_steps
    if n_steps and epoch_of(solver.epoch, end - 1) != epoch_of(solver.epoch, state.t):
        state = copied(state)  # the iterations before a pass must not be lost if it is interrupted
    iterate = specialise(steps, problem, solver)
    while True:
        first, after = epoch_of(solver.epoch, state.t)
        if state.t < end and state.t == first:
            state = solver.pass_over(problem, state, rng)
        state = iterate(problem, state, solver, min(end, after) - state.t, rng)
        if state.t == end:
            return state


class LastPoint(NamedTuple):
    """The next snapshot is the last iterate of an epoch (Option I)."""


class RandomPoint(NamedTuple):
    """The next epoch begins at a uniformly drawn point of the last one (Option II)."""


class MeanPoint(NamedTuple):
    """The next snapshot is the mean of the iterates of an epoch."""


class Kept(NamedTuple):
    """What an epoch keeps for the next one."""

    w: np.ndarray  # (d,) empty if nothing is kept
    y: np.ndarray  # (n, m) duals, empty if the method has none
    first: int  # iterations done when the epoch began
    place: int  # iterations done at the point that is kept


@generic
def restart_keeps(restart):
    """Whether an epoch keeps a point for the next one."""


@generic
def keep_point(restart, kept, w, y, t):
    """Look at the iterate after t iterations, and keep it if it is needed."""


@generic
def restart_point(restart, kept, w, y):
    """(w, y) at which the next epoch begins, in new arrays."""


restart_keeps.of(LastPoint)(lambda restart: False)
restart_keeps.of(RandomPoint)(lambda restart: True)
restart_keeps.of(MeanPoint)(lambda restart: True)


@keep_point.of(LastPoint)
def _(restart, kept, w, y, t):
    pass


@keep_point.of(RandomPoint)
def _(restart, kept, w, y, t):
    if t == kept.place:
        assign(kept.w, w)
        kept.y[:] = y


@keep_point.of(MeanPoint)
def _(restart, kept, w, y, t):
    average_into(kept.w, w, 1.0 / (t - kept.first))


@restart_point.of(LastPoint)
def _(restart, kept, w, y):
    return w.copy(), y.copy()


@restart_point.of(RandomPoint)
def _(restart, kept, w, y):
    return kept.w.copy(), kept.y.copy()


@restart_point.of(MeanPoint)
def _(restart, kept, w, y):
    return kept.w.copy(), y.copy()


NO_DUALS = np.zeros((0, 0))


def first_kept(restart: Spec, w: np.ndarray, y: np.ndarray = NO_DUALS) -> Kept:
    """What is kept before the first epoch: its start."""
    return Kept(w.copy(), y.copy(), 0, 0) if restart_keeps(restart) else Kept(np.zeros(0), NO_DUALS.copy(), 0, 0)


def kept_ahead(solver: Solver, kept: Kept, t: int, rng: np.random.Generator) -> Kept:
    """What the epoch that begins after t iterations is to keep."""
    if not restart_keeps(solver.restart):
        return kept
    first, after = epoch_of(solver.epoch, t)
    return Kept(kept.w.copy(), kept.y.copy(), first, uniform_index(rng, first + 1, after + 1))


def check_restart(restart: Spec, epoch: Spec) -> None:
    """Refuse an unknown restart, and one that needs the end of an endless epoch."""
    _check_kind("restart", restart)
    if restart_keeps(restart) and isinstance(epoch, SingleLoop):
        raise ValueError(f"restart must be LastPoint() in a single loop, got {restart!r}")


_check_kind = one_of(restart_keeps)
CHOICES.append(epoch_of)
