"""What the driver asks of a solver."""

from typing import Any, Protocol

import numpy as np

from xrisk.inner.oracle import Oracles
from xrisk.problem import Problem


class Solver(Protocol):
    """A solver is data; the driver owns time, budgets, traces and files.

    States are NamedTuples of arrays, whole numbers and further states. ``advance`` may write into the arrays of the
    state it is given. Advancing by a and then by b must equal advancing by a + b, bit for bit.
    """

    def prepare(self, problem: Problem) -> tuple[Problem, Any]:
        """The problem in the form this solver works on, and the solver with its open choices settled.

        Raises one clear sentence when the two do not fit; nothing is compiled.
        """

    def start(self, problem: Problem, w: np.ndarray) -> np.ndarray:
        """The solver's variable at the parameters ``w`` of the problem as stated."""

    def init(self, problem: Problem, x: np.ndarray, rng: np.random.Generator) -> Any:
        """The state at the variable ``x``."""

    def advance(self, problem: Problem, state: Any, n_steps: int, rng: np.random.Generator) -> Any:
        """The state ``n_steps`` iterations on."""

    def solution(self, state: Any) -> np.ndarray:
        """The variable to report."""

    def dual(self, problem: Problem, state: Any) -> np.ndarray:
        """Dual weights y (n, m) to report, yᵢ in the domain of f*."""

    def oracles(self, problem: Problem, t: int) -> Oracles:
        """Calls of the oracles in the first t iterations, full passes included."""
