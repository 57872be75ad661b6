"""Samples by their number, one at a time or in parts: for methods that remember something of every sample."""

from typing import Any

import numpy as np
from numba.extending import register_jitable

from xrisk.data.rows import add_row, fetch_row, row_dot, row_size
from xrisk.functions.loss import loss_slope, loss_value, scores_slope, scores_value
from xrisk.generic import generic
from xrisk.inner.groups import Groups, row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel
from xrisk.inner.oracle import inner_count, inner_dim
from xrisk.inner.pairs import Pairs
from xrisk.inner.shifted import Shifted


@generic
def sample_range(g, i):
    """(low, high): the samples of gᵢ are low, …, high − 1."""


@generic
def sample_share(g, i, p):
    """What sample p counts in gᵢ; the shares of its samples sum to one."""


@generic
def sample_slopes(g, p, w, slopes):
    """The loss of sample p; its slopes in the scores of the sample are written into ``slopes`` (scores)."""


@generic
def add_sample(g, p, slopes, scale, grad):
    """Add scale·(gradient of the loss of sample p) to ``grad``, from its slopes."""


@generic
def draw_part(g, i, first, batch):
    """Write the samples first, first + 1, … of gᵢ into ``batch`` and return it; places beyond the last weigh nothing.

    For a batch of B, gᵢ is the sum of gᵢ(w; part) over the parts that begin at 0, B, 2B, …, times B over the number of
    its samples.
    """


@generic
def draw_sample(g, i, j, batch):
    """Write sample j = 0, 1, … of gᵢ into ``batch``, which has one place for each component, and return it."""


@draw_sample.otherwise
def _(g, i, j, batch):
    return draw_part(g, i, j, batch)


@generic
def has_parts(g):
    """Whether samples can be taken in parts: whether `draw_part` is implemented, for what ``g`` is made of too."""


@has_parts.otherwise
def _(g):
    return draw_part.implemented(g)


@generic
def row_slopes(model, k, w, slopes):
    """`sample_slopes` of row k."""


@generic
def add_slopes(model, k, slopes, scale, grad):
    """`add_sample` of row k."""


@sample_range.of(Groups)
def _(g, i):
    return g.offsets[i], g.offsets[i + 1]


@sample_range.of(Pairs)
def _(g, i):
    return i * g.inner.size, (i + 1) * g.inner.size


@draw_sample.of(Pairs)
def _(g, i, j, batch):
    batch.rows[0] = g.inner[j]
    fetch_row(g.rows, batch.rows[0])
    return batch


@sample_range.of(Shifted)
def _(g, i):
    return sample_range(g.inner, i)


@draw_sample.of(Shifted)
def _(g, i, j, batch):
    return draw_sample(g.inner, i, j, batch)


@sample_share.of(Groups)
def _(g, i, p):
    return weight_at(g.weight, p) / (g.offsets[i + 1] - g.offsets[i])


@sample_slopes.of(Groups)
def _(g, p, w, slopes):
    return row_slopes(g.model, row_at(g.index, p), w, slopes)


@add_sample.of(Groups)
def _(g, p, slopes, scale, grad):
    add_slopes(g.model, row_at(g.index, p), slopes, scale, grad)


@row_slopes.of(LinearModel)
def _(model, k, w, slopes):
    z = row_dot(model.rows, k, w)
    slopes[0] = loss_slope(model.loss, z, model.target[k])
    return loss_value(model.loss, z, model.target[k])


@add_slopes.of(LinearModel)
def _(model, k, slopes, scale, grad):
    add_row(model.rows, k, scale * slopes[0], grad)


@row_slopes.of(SoftmaxModel)
def _(model, k, w, slopes):
    d = row_size(model.rows)
    for c in range(slopes.size):
        slopes[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])
    z = slopes.copy()
    scores_slope(model.loss, z, model.target[k], slopes)
    return scores_value(model.loss, z, model.target[k])


@add_slopes.of(SoftmaxModel)
def _(model, k, slopes, scale, grad):
    d = row_size(model.rows)
    for c in range(slopes.size):
        add_row(model.rows, k, scale * slopes[c], grad[c * d : (c + 1) * d])


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
def sample_parts(g, size, count):
    """The ``count`` parts of ``size`` samples: whose they are, their first samples, ``size`` over all samples there."""
    group, first, share = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64), np.empty(count)
    c = 0
    for i in range(inner_count(g)):
        low, high = sample_range(g, i)
        for start in range(0, high - low, size):
            group[c], first[c], share[c] = i, start, size / (high - low)
            c += 1
    return group, first, share


def shared_count(g: Any) -> int:
    """Number of samples of each gᵢ where all have as many, so that the j-th of every one is a sample of g; else 0.

    0 as well where samples cannot be had by their numbers, and of blocks of several components.
    """
    by_number = type(g) in draw_sample.table or has_parts(g)
    if not (by_number and sample_range.implemented(g) and inner_dim(g) == 1):
        return 0
    counts = {int(high - low) for low, high in (sample_range(g, i) for i in range(inner_count(g)))}
    return counts.pop() if len(counts) == 1 else 0


def part_count(g: Groups, size: int) -> int:
    """Number of parts of ``size`` samples; the last one of every gᵢ may be shorter."""
    ranges = (sample_range(g, i) for i in range(inner_count(g)))
    return sum(-(-int(high - low) // size) for low, high in ranges)
