"""Losses of a vector of scores, one per class."""

import math
from typing import NamedTuple

import numpy as np

from xrisk.functions.loss.generics import (
    scores_conjugate,
    scores_lipschitz,
    scores_slope,
    scores_smoothness,
    scores_value,
)
from xrisk.functions.special import xlogx

SLACK = 1e-9  # of Σ p = 1 and p ≥ 0 in the conjugate: p = v + e_k carries the rounding of v


class Multinomial(NamedTuple):
    """ℓ(z, k) = log Σ_j exp(z_j) − z_k.

    Its conjugate at v is Σ p log p with p = v + e_k in the simplex. |Σ p − 1| ≤ 1e-9 and p ≥ −1e-9 count as
    inside (v is known up to rounding); the negative entries count as 0.

    Examples
    --------
    >>> round(scores_value(Multinomial(), np.zeros(4), 2), 6)
    1.386294
    """


@scores_value.of(Multinomial)
def _(loss, z, k):
    # shifted by the largest score: exp overflows at 710; its own term is the 1 of log1p
    top = 0
    for j in range(z.size):
        if z[j] > z[top]:
            top = j
    total = 0.0
    for j in range(z.size):
        if j != top:
            total += math.exp(float(z[j]) - float(z[top]))
    return math.log1p(total) + (float(z[top]) - float(z[k]))


@scores_slope.of(Multinomial)
def _(loss, z, k, out):
    top = float(z.max())
    total = 0.0
    for j in range(z.size):
        out[j] = math.exp(float(z[j]) - top)
        total += out[j]
    for j in range(z.size):
        out[j] /= total
    # 1 − p_k as the sum of the others: subtracting would cancel when class k has nearly all the mass
    others = 0.0
    for j in range(z.size):
        if j != k:
            others += out[j]
    out[k] = -others


@scores_conjugate.of(Multinomial)
def _(loss, v, k):
    total = 0.0
    value = 0.0
    for j in range(v.size):
        p = v[j] + 1.0 if j == k else v[j]
        if p < -SLACK:
            return np.inf
        total += p
        value += xlogx(p)
    return value if abs(total - 1.0) <= SLACK else np.inf


@scores_lipschitz.of(Multinomial)
def _(loss):
    return math.sqrt(2.0)


scores_smoothness.of(Multinomial)(lambda loss: 0.5)
