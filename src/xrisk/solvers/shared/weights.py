"""Weights q of the groups, kept as logarithms, so that no loss can overflow them or set one to zero for good."""

import math

import numpy as np
from numba.extending import register_jitable

FAR = 1e300  # sums of logarithms beyond it would soon be infinite, and their differences NaN


@register_jitable
def raised(logq, increase):
    """log q + increase, kept finite."""
    return min(max(logq + increase, -FAR), FAR)


@register_jitable
def pick(q, rng):
    """A group i drawn with probability q[i]."""
    left, chosen = rng.random(), 0
    for i in range(q.size):
        if q[i] > 0.0:  # the last group that can be drawn, if rounding leaves a rest
            chosen = i
            left -= q[i]
            if left < 0.0:
                break
    return chosen


@register_jitable
def write_weights(logq, q):
    """q = exp(log q)."""
    for i in range(q.size):
        q[i] = math.exp(logq[i])


def equal_logs(n: int) -> np.ndarray:
    """log q of equal weights, (n,)."""
    return np.full(n, -math.log(n))
