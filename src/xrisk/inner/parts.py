"""Samples of an inner function taken in order, part after part, by methods that keep a table of them."""

import numpy as np
from numba.extending import register_jitable

from xrisk.data.rows import fetch_row
from xrisk.generic import generic
from xrisk.inner.groups import Groups, row_at, weight_at


@generic
def sample_counts(g):
    """Number of samples (n,) of every gᵢ, of one component each."""


@generic
def draw_part(g, i, first, batch):
    """Write the samples first, first + 1, … of gᵢ into ``batch`` and return it; places beyond the last weigh nothing.

    For a batch of B, gᵢ is the sum of gᵢ(w; part) over the parts that begin at 0, B, 2B, …, times B over the number of
    its samples.
    """


@sample_counts.of(Groups)
def _(g):
    return g.offsets[1:] - g.offsets[:-1]


@draw_part.of(Groups)
def _(g, i, first, batch):
    size = batch.rows.size // g.dim
    for j in range(g.dim):
        low, high = g.offsets[i * g.dim + j], g.offsets[i * g.dim + j + 1]
        for b in range(size):
            place, p = j * size + b, min(low + first + b, high - 1)
            batch.rows[place] = row_at(g.index, p)
            batch.target[place] = g.model.target[batch.rows[place]]
            batch.weights[place] = weight_at(g.weight, p) / size if low + first + b < high else 0.0
            fetch_row(g.model.rows, batch.rows[place])
    return batch


@register_jitable
def in_parts(g, size, count):
    """The ``count`` parts of ``size`` samples: whose they are, their first samples, ``size`` over all samples there."""
    counts = sample_counts(g)
    group, first, share = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64), np.empty(count)
    c = 0
    for i in range(counts.size):
        for start in range(0, counts[i], size):
            group[c], first[c], share[c] = i, start, size / counts[i]
            c += 1
    return group, first, share


def part_count(g: Groups, size: int) -> int:
    """Number of parts of ``size`` samples; the last one of every gᵢ may be shorter."""
    return int((-(-sample_counts(g) // size)).sum())
