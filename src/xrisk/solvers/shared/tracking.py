"""Shared by methods that track inner values: the filter of uᵢ, its correction γ′, and averages.

    uᵢ ← (1 − γ) uᵢ + γ g(x_t; 𝓑) + γ′ (g(x_t; 𝓑) − g(x_{t−1}; 𝓑))

With γ′ = 0 this is the moving average of SOX, with γ′ > 0 the filter of MSVR, with γ′ = 1 − γ that of STORM.
"""

import numbers
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.functions import block_start
from xrisk.functions.parameters import check_spec, checks, non_negative, number, require
from xrisk.functions.special import norm
from xrisk.generic import generic
from xrisk.inner.oracle import inner_count, inner_dim, uniform_index
from xrisk.problem import Problem
from xrisk.solvers.base import CHOICES
from xrisk.solvers.schedules import Decreasing, Stagewise, rate


@generic
def corrects(correction):
    """Whether the filter uses the previous iterate, too."""


@generic
def correction_weight(correction, track, n, blocks):
    """γ′ for the weight γ of the new value and ``blocks`` of n inner functions per iteration."""


@checks(cap=number("be positive", lambda x: x > 0.0))
class TheoryCorrection(NamedTuple):
    """γ′ = min{ (n − S)/(S (1 − γ)) + 1 − γ, cap }: the theorem's weight [1]_, which asks for γ ≤ ½.

    It compensates for the n/S iterations between two updates of a block. Large weights add noise; in practice a
    ``cap`` of one or less does better.

    References
    ----------
    .. [1] Jiang, Li, Wang, Zhang and Yang, Multi-block-single-probe variance reduced estimator for coupled
       compositional optimization, 2022.

    Examples
    --------
    >>> from xrisk.solvers import TheoryCorrection
    >>> from xrisk.solvers.shared.tracking import correction_weight
    >>> correction_weight(TheoryCorrection(), 0.5, 6, 3)
    2.5
    >>> correction_weight(TheoryCorrection(cap=1.0), 0.5, 6, 3)
    1.0
    """

    cap: float = np.inf


@corrects.of(float)
def _(correction):
    return correction != 0.0


corrects.of(TheoryCorrection)(lambda correction: True)
correction_weight.of(float)(lambda correction, track, n, blocks: correction)


@correction_weight.of(TheoryCorrection)
def _(correction, track, n, blocks):
    return min((n - blocks) / (blocks * (1.0 - track)) + 1.0 - track, correction.cap)


CHOICES.append(corrects)


def check_correction(correction: Spec, track: float | Decreasing | Stagewise) -> None:
    """Refuse a γ′ that is neither a non-negative number nor the theory's, which is infinite at γ = 1."""
    if isinstance(correction, numbers.Real):
        non_negative("correction", correction)
    elif not corrects.implemented(correction):
        raise TypeError(f"correction must be a number or TheoryCorrection(), got {correction!r}")
    else:
        check_spec(correction)
        require(rate(track, 0) < 1.0, "track", track, f"below 1 for {correction!r}")


def first_duals(problem: Problem) -> np.ndarray:
    """First duals of all blocks, (n, m)."""
    first = np.empty(inner_dim(problem.inner))
    block_start(problem.outer, first)
    return np.tile(first, (inner_count(problem.inner), 1))


@register_jitable
def next_block(order, a, rng):
    """The a-th block of a sample without replacement; ``order`` is a permutation whose head is the sample."""
    b = uniform_index(rng, a, order.size)
    order[a], order[b] = order[b], order[a]
    return order[a]


@register_jitable
def first_value(u, value, value_prev):
    """Initialise uᵢ by the first sample of a block, without a correction."""
    for j in range(u.size):
        u[j] = value[j]
        value_prev[j] = value[j]


@register_jitable
def update_tracker(u, value, value_prev, track, correction):
    """The filter of uᵢ; without correction ``value_prev`` is not read."""
    for j in range(u.size):
        u[j] += track * (value[j] - u[j])
        if correction != 0.0:
            u[j] += correction * (value[j] - value_prev[j])


@register_jitable
def average_into(mean, new, weight):
    """mean ← mean + weight (new − mean)."""
    for j in range(mean.size):
        mean[j] += weight * (new[j] - mean[j])


@register_jitable
def visit_weight(weight, n, blocks):
    """Weight of a block's slope in the mean of its slopes, ``weight`` being that of an iterate in theirs.

    A block is sampled in one of n/S iterations, so its mean has n/S times fewer terms.
    """
    return min(weight * n / blocks, 1.0)


@register_jitable
def assign(target, source):
    """target ← source."""
    for j in range(target.size):
        target[j] = source[j]


@register_jitable
def fill_zero(x):
    """x ← 0."""
    for j in range(x.size):
        x[j] = 0.0


@register_jitable
def descend(x, step, v):
    """x ← x − step·v, as far as x goes."""
    for j in range(x.size):
        x[j] -= step * v[j]


@register_jitable
def shorten(z, longest):
    """z, no longer than ``longest``, in place."""
    length = norm(z)
    if length > longest:
        for j in range(z.size):
            z[j] *= longest / length
