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
    pull: np.ndarray  # (size,) what each of the rows is multiplied by in a gradient
    work: np.ndarray  # (size,)


@generic
def new_side(g, size):
    """Room for ``size`` rows."""


@generic
def tail_share(g):
    """θ, the share of the rows j that are in a tail."""


@generic
def rival_count(g):
    """Number of rows j."""


@generic
def place_block(g, i, above, a):
    """Make the row of block i the a-th of ``above``."""


@generic
def draw_side(g, rng, below):
    """Draw rows j into ``below``, with replacement."""


@generic
def read_scores(g, w, side):
    """Write the scores of the rows of a side, and let nothing pull at them yet."""


@generic
def tail_value(g, score, below, s):
    """gᵢ(w, s; below) of the row with that score."""


@generic
def tail_pull(g, above, a, below, s, scale):
    """Let scale·∂gᵢ(w, s; below)/∂w pull at the a-th row of ``above`` and at those of ``below``.

    Returns the share of losses that are above s, which is θ (1 − ∂gᵢ/∂s).
    """


@generic
def soft_value(g, score, below, lam):
    """log meanⱼ exp(ℓ/λ) of the row with that score."""


@generic
def soft_pull(g, above, a, below, lam, log_u, log_scale):
    """As `tail_pull`, with the gradients of the losses weighed by exp(ℓ/λ − log_u + log_scale)."""


@generic
def add_pairs(g, side, grad):
    """Add what pulls at the rows of a side to ``grad`` (d)."""


@generic
def add_losses(g, side, grad):
    """The same where every row has a loss of its own, whose gradient this is."""


@new_side.of(Tail)
def _(g, size):
    return Side(np.empty(size, dtype=np.int64), np.empty(size), np.empty(size), np.empty(size))


@tail_share.of(Tail)
def _(g):
    return g.top / g.pairs.inner.size


@rival_count.of(Tail)
def _(g):
    return g.pairs.inner.size


@place_block.of(Tail)
def _(g, i, above, a):
    above.rows[a] = g.pairs.outer[i]
    fetch_row(g.pairs.rows, above.rows[a])


@draw_side.of(Tail)
def _(g, rng, below):
    for b in range(below.rows.size):
        below.rows[b] = g.pairs.inner[uniform_index(rng, 0, g.pairs.inner.size)]
        fetch_row(g.pairs.rows, below.rows[b])


@read_scores.of(Tail)
def _(g, w, side):
    rows_dot(g.pairs.rows, side.rows, w, side.scores)
    for b in range(side.pull.size):
        side.pull[b] = 0.0


@tail_value.of(Tail)
def _(g, score, below, s):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, below.scores, below.work
    for b in range(work.size):
        excess = loss_value(loss, sign * (score - scores[b]), 1.0) - s
        work[b] = excess if excess > 0.0 else 0.0
    return s + array_sum(work) / (tail_share(g) * work.size)


@tail_pull.of(Tail)
def _(g, above, a, below, s, scale):
    if scale == 0.0:
        return 0.0
    loss, sign, scores, pull, work = g.pairs.loss, g.pairs.side, below.scores, below.pull, below.work
    score, part, hits = above.scores[a], scale * g.pairs.side / (tail_share(g) * below.work.size), 0
    for b in range(work.size):
        margin = sign * (score - scores[b])
        hit = loss_value(loss, margin, 1.0) > s
        work[b] = part * loss_slope(loss, margin, 1.0) if hit else 0.0
        pull[b] -= work[b]
        hits += hit
    above.pull[a] += array_sum(work)
    return hits / work.size


@soft_value.of(Tail)
def _(g, score, below, lam):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, below.scores, below.work
    for b in range(work.size):
        work[b] = loss_value(loss, sign * (score - scores[b]), 1.0) / lam
    top = work[0]
    for b in range(1, work.size):
        top = max(top, work[b])
    for b in range(work.size):  # shifted by the largest: exp overflows at 710
        work[b] = fast_exp(work[b] - top)
    return top + math.log(array_sum(work) / work.size)


@soft_pull.of(Tail)
def _(g, above, a, below, lam, log_u, log_scale):
    loss, sign, scores, pull, work = g.pairs.loss, g.pairs.side, below.scores, below.pull, below.work
    score = above.scores[a]
    for b in range(work.size):
        margin = sign * (score - scores[b])
        weight = fast_exp((loss_value(loss, margin, 1.0) / lam - log_u) + log_scale) / work.size
        work[b] = weight * sign * loss_slope(loss, margin, 1.0)
        pull[b] -= work[b]
    above.pull[a] += array_sum(work)


@add_pairs.of(Tail)
@add_losses.of(Tail)
def _(g, side, grad):
    add_rows(g.pairs.rows, side.rows, side.pull, grad)
