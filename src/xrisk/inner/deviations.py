"""Deviations from the mean: gᵢ(w) = ⟨rᵢ − r̄, w⟩, of which a sample is the difference of two rows."""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from xrisk.data.rows import Dense, frozen
from xrisk.functions.loss import AffineLoss
from xrisk.inner.affine import affine_batches
from xrisk.inner.groups import Groups
from xrisk.inner.models import LinearModel
from xrisk.inner.oracle import (
    draw,
    draw_part,
    inner_count,
    inner_samples,
    inner_size,
    sample_lipschitz,
    sample_range,
    uniform_index,
)
from xrisk.inner.passes import as_linear_groups

ALL_PAIRS = 4000  # rows at the most of which every difference is looked at


@affine_batches
class Deviations(NamedTuple):
    """gᵢ(w) = mean_j ⟨rᵢ − rⱼ, w⟩ = ⟨rᵢ − r̄, w⟩, one inner function for each of n rows, each with n samples.

    Built by `xrisk.applications.mean_variance`. With f(u) = u² the mean of f(gᵢ) is the variance of ⟨r, w⟩.

    Parameters
    ----------
    rows : array (n, d)
        rᵢ − r̄; the differences of these are those of the rᵢ.
    """

    rows: np.ndarray = np.zeros((1, 1))


inner_count.of(Deviations)(lambda g: g.rows.shape[0])


@inner_samples.of(Deviations)
def _(g):
    return g.rows.shape[0] * g.rows.shape[0]


inner_size.of(Deviations)(lambda g: g.rows.shape[1])


@sample_lipschitz.of(Deviations)
def _(g):
    if g.rows.shape[0] <= ALL_PAIRS:
        return float(pdist(g.rows).max(initial=0.0))  # a sample is a difference of two rows
    return float(np.sort(np.linalg.norm(g.rows, axis=1))[-2:].sum())


@draw.of(Deviations)
def _(g, i, rng, batch):
    row = batch.row
    for j in range(row.size):
        row[j] = g.rows[i, j]
    for _ in range(batch.size):
        k = uniform_index(rng, 0, g.rows.shape[0])
        for j in range(row.size):
            row[j] -= g.rows[k, j] / batch.size
    batch.shift[0] = 0.0


@sample_range.of(Deviations)
def _(g, i):
    return i * g.rows.shape[0], (i + 1) * g.rows.shape[0]


@draw_part.of(Deviations)
def _(g, i, first, batch):
    row, last = batch.row, min(first + batch.size, g.rows.shape[0])
    for j in range(row.size):
        row[j] = (last - first) * g.rows[i, j] / batch.size
    for k in range(first, last):
        for j in range(row.size):
            row[j] -= g.rows[k, j] / batch.size
    batch.shift[0] = 0.0


@as_linear_groups.of(Deviations)
def _(g):
    n = g.rows.shape[0]
    return Groups(LinearModel(Dense(g.rows), frozen(np.zeros(n)), AffineLoss()), frozen(np.arange(n + 1)))
