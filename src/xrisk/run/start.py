"""Where a run starts, and a substitute for a solver that could not be prepared in time."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.inner.oracle import Oracles, inner_count, inner_dim, inner_size
from xrisk.problem import Problem, apply_prox


def first_point(problem: Problem, w0: np.ndarray | None) -> np.ndarray:
    """A copy of ``w0``, or zero moved into the domain."""
    d = inner_size(problem.inner)
    if w0 is None:
        w = np.zeros(d)
        apply_prox(problem.penalty, w, 0.0)  # only into the domain: a linear term would move it further
        return w
    try:
        w = np.array(w0, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"w0 must be an array of numbers of shape ({d},), got {type(w0).__name__}") from error
    if w.shape != (d,) or not np.isfinite(w).all():
        raise ValueError(f"w0 must be finite and of shape ({d},), got shape {w.shape}")
    return w


def generator(rng: Any) -> np.random.Generator:
    """The generator of a seed."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise TypeError(f"rng must be None, a whole number from 0 on or a Generator, got {rng!r}") from error


class StartState(NamedTuple):
    """The start, as the state of a run whose solver could not be prepared in time."""

    w: np.ndarray  # (d,) parameters


class Start(NamedTuple):
    """The substitute for that solver."""

    def solution(self, state: StartState) -> np.ndarray:
        return state.w

    def dual(self, problem: Problem, state: StartState) -> np.ndarray:
        return np.ones((inner_count(problem.inner), inner_dim(problem.inner)))

    def oracles(self, problem: Problem, t: int) -> Oracles:
        return Oracles(0, 0)
