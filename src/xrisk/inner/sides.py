"""Sampled pairs under thresholds: some rows i, a batch of rows j that all of them are compared with, scores of both.

gᵢ(w) = min over s of gᵢ(w, s), where gᵢ(w, s) = s + meanⱼ (ℓ(side·⟨xᵢ − xⱼ, w⟩) − s)₊/θ and θ is the share of the rows
j in a tail. For a threshold s that a method keeps for every i, samples of gᵢ(w, s) are unbiased; of gᵢ(w) there are
none.
"""

import math
from typing import NamedTuple

import numpy as np

from xrisk.data.rows import add_rows, fetch_row, rows_dot
from xrisk.functions.loss import loss_slope, loss_value
from xrisk.functions.special import fast_exp
from xrisk.generic import generic
from xrisk.inner.oracle import uniform_index
from xrisk.inner.tail import Tail
from xrisk.lanes import array_sum


class Side(NamedTuple):
    """Sampled rows of one side of the pairs."""

    rows: np.ndarray  # (size,)
    scores: np.ndarray  # (size,)
    coef: np.ndarray  # (size,) what each of the rows is multiplied by in a gradient
    work: np.ndarray  # (size,)


@generic
def new_side(g, size):
    """Room for ``size`` rows."""


@generic
def tail_share(g):
    """θ, the share of the rows j that are in a tail."""


@generic
def count_j(g):
    """Number of rows j."""


@generic
def place_block(g, i, side_i, a):
    """Make the row of block i the a-th of ``side_i``."""


@generic
def draw_side(g, rng, side_j):
    """Draw rows j into ``side_j``, with replacement."""


@generic
def read_scores(g, w, side):
    """Write the scores of the rows of a side, and set their coefficients to zero."""


@generic
def tail_value(g, score, side_j, s):
    """gᵢ(w, s; side_j) of the row with that score."""


@generic
def add_tail_slopes(g, side_i, a, side_j, s, scale):
    """Add scale·∂gᵢ(w, s; side_j)/∂w to the coefficients of the a-th row of ``side_i`` and of those of ``side_j``.

    Returns the share of losses that are above s, which is θ (1 − ∂gᵢ/∂s).
    """


@generic
def soft_value(g, score, side_j, lam):
    """log meanⱼ exp(ℓ/λ) of the row with that score."""


@generic
def add_soft_slopes(g, side_i, a, side_j, lam, log_u, log_scale):
    """As `add_tail_slopes`, with the gradients of the losses weighed by exp(ℓ/λ − log_u + log_scale)."""


@generic
def add_pairs(g, side, grad):
    """Add the rows of a side, times their coefficients, to ``grad`` (d)."""


@generic
def add_losses(g, side, grad):
    """The same where every row has a loss of its own, whose gradient this is."""


@new_side.of(Tail)
def _(g, size):
    return Side(np.empty(size, dtype=np.int64), np.empty(size), np.empty(size), np.empty(size))


@tail_share.of(Tail)
def _(g):
    return g.top / g.pairs.inner.size


@count_j.of(Tail)
def _(g):
    return g.pairs.inner.size


@place_block.of(Tail)
def _(g, i, side_i, a):
    side_i.rows[a] = g.pairs.outer[i]
    fetch_row(g.pairs.rows, side_i.rows[a])


@draw_side.of(Tail)
def _(g, rng, side_j):
    for b in range(side_j.rows.size):
        side_j.rows[b] = g.pairs.inner[uniform_index(rng, 0, g.pairs.inner.size)]
        fetch_row(g.pairs.rows, side_j.rows[b])


@read_scores.of(Tail)
def _(g, w, side):
    rows_dot(g.pairs.rows, side.rows, w, side.scores)
    for b in range(side.coef.size):
        side.coef[b] = 0.0


@tail_value.of(Tail)
def _(g, score, side_j, s):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, side_j.scores, side_j.work
    for b in range(work.size):
        excess = loss_value(loss, sign * (score - scores[b]), 1.0) - s
        work[b] = excess if excess > 0.0 else 0.0
    return s + array_sum(work) / (tail_share(g) * work.size)


@add_tail_slopes.of(Tail)
def _(g, side_i, a, side_j, s, scale):
    if scale == 0.0:
        return 0.0
    loss, sign, scores, coef, work = g.pairs.loss, g.pairs.side, side_j.scores, side_j.coef, side_j.work
    score, part, hits = side_i.scores[a], scale * g.pairs.side / (tail_share(g) * side_j.work.size), 0
    for b in range(work.size):
        margin = sign * (score - scores[b])
        hit = loss_value(loss, margin, 1.0) > s
        work[b] = part * loss_slope(loss, margin, 1.0) if hit else 0.0
        coef[b] -= work[b]
        hits += hit
    side_i.coef[a] += array_sum(work)
    return hits / work.size


@soft_value.of(Tail)
def _(g, score, side_j, lam):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, side_j.scores, side_j.work
    for b in range(work.size):
        work[b] = loss_value(loss, sign * (score - scores[b]), 1.0) / lam
    top = work[0]
    for b in range(1, work.size):
        top = max(top, work[b])
    for b in range(work.size):  # shifted by the largest: exp overflows at 710
        work[b] = fast_exp(work[b] - top)
    return top + math.log(array_sum(work) / work.size)


@add_soft_slopes.of(Tail)
def _(g, side_i, a, side_j, lam, log_u, log_scale):
    loss, sign, scores, coef, work = g.pairs.loss, g.pairs.side, side_j.scores, side_j.coef, side_j.work
    score = side_i.scores[a]
    for b in range(work.size):
        margin = sign * (score - scores[b])
        weight = fast_exp((loss_value(loss, margin, 1.0) / lam - log_u) + log_scale) / work.size
        work[b] = weight * sign * loss_slope(loss, margin, 1.0)
        coef[b] -= work[b]
    side_i.coef[a] += array_sum(work)


@add_pairs.of(Tail)
@add_losses.of(Tail)
def _(g, side, grad):
    add_rows(g.pairs.rows, side.rows, side.coef, grad)
