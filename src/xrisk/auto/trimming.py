"""Rows of the largest losses set aside in rounds, each a fit of the other rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Risk
from xrisk.certificate import NOTHING_PROVED
from xrisk.certificate.rounding import base_weights
from xrisk.data.rows import frozen
from xrisk.functions import CVaRRisk, WithMasses
from xrisk.inner.oracle import inner_count
from xrisk.problem import Problem, inner_values
from xrisk.run import Result, Runs, Stop

ROUNDS = 20  # at most


class Trimmed(NamedTuple):
    """What the last round has found."""

    result: Result  # of the rows that were left
    outliers: np.ndarray  # numbers of the rows that were set aside


def minimize_trimmed(
    problem: Problem,
    share: float,
    fit: Callable[[Problem, np.ndarray | None], Result],
    runs: Runs,
    tol: float,
) -> Trimmed:
    """Alternate between a fit and setting aside the ``share`` of rows with the largest losses [1]_.

    Each round minimises a convex problem, over the rows that the last one has left. The first one fits the average of
    all rows. Rounds end where the same rows are left, or where the objective falls by no more than ``tol`` of it. For
    fixed rows the objective does not rise, and for fixed parameters the rows of largest loss are the best ones to set
    aside, so that it falls from round to round; what is found is a local optimum of the choice of rows.

    Parameters
    ----------
    problem : Problem
        Losses of single rows under a risk.
    share : float
        Of the mass of all rows, below one half.
    fit : function of a Problem and a start → Result
        The run of a round, one of ``runs``.
    runs : Runs
        The time that is left.
    tol : float
        Relative.

    References
    ----------
    .. [1] Zhai, Dan, Kolter and Ravikumar, DORO: distributional and outlier robust optimization, 2021.
    """
    masses = base_weights(problem.outer, inner_count(problem.inner))
    risk = getattr(problem.outer, "risk", problem.outer)
    result = fit(_weighed(problem, CVaRRisk(1.0), masses), None)
    result = replace(result, certificate=NOTHING_PROVED)  # it is of the average
    left, outliers, value = np.zeros(0), np.zeros(0, dtype=np.int64), np.inf
    for _ in range(ROUNDS):
        before, left = left, without_worst(inner_values(problem, result.w)[:, 0], masses, share)
        if np.array_equal(before, left) or (stop := runs.over()) is Stop.INTERRUPTED:
            break
        if stop:
            return Trimmed(replace(result, stop=stop), outliers)
        outliers = np.flatnonzero((left == 0.0) & (masses > 0.0))
        result = fit(_weighed(problem, risk, left), result.w)
        if not value - result.value > tol * abs(result.value):
            break
        value = result.value
    return Trimmed(result, outliers)


def _weighed(problem: Problem, risk: Risk, masses: np.ndarray) -> Problem:
    """The problem under a risk of rows with these masses."""
    return problem._replace(outer=WithMasses(risk, frozen(masses)))


def without_worst(losses: np.ndarray, masses: np.ndarray, share: float) -> np.ndarray:
    """The masses as a distribution without the ``share`` of largest loss, the last row in part."""
    order = np.argsort(-losses, kind="stable")
    before = np.cumsum(masses[order]) - masses[order]
    left = masses.copy()
    left[order] -= np.clip(share - before, 0.0, masses[order])
    left[left < 1e-9 * masses] = 0.0  # what rounding leaves of a row
    return left / left.sum()
