"""Mean losses of groups of rows: gᵢ(w) = Σₖ aₖ ℓₖ(w) / Σₖ aₖ over the rows k of group i."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.compile import kernel, specialise
from xrisk.generic import generic
from xrisk.inner.models import (
    LinearModel,
    add_batch_grads,
    add_sample_grad,
    batch_loss_pairs,
    batch_losses,
    model_is_affine,
    model_rows,
    model_size,
    sample_lipschitz,
    sample_loss,
    sample_smoothness,
)
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_pooled,
    inner_samples,
    inner_shares,
    inner_size,
    inner_smoothness,
    new_batch,
    uniform_index,
)
from xrisk.inner.rows import fetch_row


@generic
def row_at(index, p):
    """Row at position p, positions counted group after group."""


@generic
def weight_at(weight, p):
    """Weight of position p; weights average to one in every group."""


class InOrder(NamedTuple):
    """The rows of a group stand together, groups one after another."""


class Indexed(NamedTuple):
    """The rows of a group are listed, so a row may stand in several groups and X is left as it is."""

    rows: np.ndarray = np.zeros(0, dtype=np.int64)


class Equal(NamedTuple):
    """Every row weighs one."""


class Weighted(NamedTuple):
    """Weights by position."""

    weights: np.ndarray = np.zeros(0)


class GroupBatch(NamedTuple):
    """Sampled rows of a block, component after component, and room to work on them."""

    rows: np.ndarray  # (places,)
    target: np.ndarray  # (places,)
    weights: np.ndarray  # (places,) over the number of samples
    work: np.ndarray  # (places,)
    work_prev: np.ndarray  # (places,)


class Groups(NamedTuple):
    """Mean loss of a model in each group; block i holds the ``dim`` groups from i·dim on."""

    model: Any = LinearModel()
    offsets: np.ndarray = np.zeros(1, dtype=np.int64)  # (groups + 1,): group i is positions offsets[i]:offsets[i+1]
    index: Any = InOrder()
    weight: Any = Equal()
    dim: int = 1

    def check(self) -> None:
        """Refuse groups without rows, positions outside the data, and weights that are not weights."""
        sizes = np.diff(self.offsets)
        if sizes.size == 0 or self.offsets[0] != 0:
            raise ValueError(f"offsets must start at 0 and end one group later or more, got {self.offsets}")
        if (sizes <= 0).any():
            raise ValueError(f"every group must hold at least one row, group {int(np.argmax(sizes <= 0))} is empty")
        if self.dim < 1 or sizes.size % self.dim:
            raise ValueError(f"dim must divide the number of groups, {sizes.size}, got {self.dim}")
        positions, rows = int(self.offsets[-1]), model_rows(self.model)
        listed = getattr(self.index, "rows", None)
        if listed is None and positions != rows:
            raise ValueError(f"offsets must end at the number of rows, {rows}, got {positions}")
        if listed is not None and (listed.size != positions or listed.min() < 0 or listed.max() >= rows):
            raise ValueError(f"index must list {positions} rows between 0 and {rows - 1}")
        if self.model.target.shape != (rows,):
            raise ValueError(
                f"y must have one entry for each of the {rows} rows of X, got shape {self.model.target.shape}"
            )
        weights = getattr(self.weight, "weights", np.ones(positions))
        if weights.shape != (positions,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError("weights must be finite and non-negative, one for each position")


@generic
def group_form(g):
    """The same inner functions as group means of a linear model, for what looks at all rows: `exact`, `certify`.

    Inner functions that are none are returned as they are.
    """


@group_form.otherwise
def _(g):
    return g


@row_at.of(InOrder)
def _(index, p):
    return p


@row_at.of(Indexed)
def _(index, p):
    return index.rows[p]


@weight_at.of(Equal)
def _(weight, p):
    return 1.0


@weight_at.of(Weighted)
def _(weight, p):
    return weight.weights[p]


@inner_count.of(Groups)
def _(g):
    return (g.offsets.size - 1) // g.dim


@inner_dim.of(Groups)
def _(g):
    return g.dim


@inner_size.of(Groups)
def _(g):
    return model_size(g.model)


@inner_samples.of(Groups)
def _(g):
    return int(g.offsets[-1])


@inner_is_affine.of(Groups)
def _(g):
    return model_is_affine(g.model)


@new_batch.of(Groups)
def _(g, size):
    places = size * g.dim
    rows = np.empty(places, dtype=np.int64)
    target = np.empty(places, dtype=g.model.target.dtype)
    return GroupBatch(rows, target, np.empty(places), np.empty(places), np.empty(places))


@draw.of(Groups)
def _(g, i, rng, batch):
    size = batch.rows.size // g.dim
    for j in range(g.dim):
        low, high = g.offsets[i * g.dim + j], g.offsets[i * g.dim + j + 1]
        for b in range(j * size, (j + 1) * size):
            p = uniform_index(rng, low, high)
            batch.rows[b] = row_at(g.index, p)
            batch.target[b] = g.model.target[batch.rows[b]]
            batch.weights[b] = weight_at(g.weight, p) / size
            fetch_row(g.model.rows, batch.rows[b])
    return batch


@batch_value.of(Groups)
def _(g, i, w, batch, out):
    batch_losses(g.model, batch.rows, batch.target, w, batch.work)
    weighted_sums(batch.weights, batch.work, out)


@batch_values.of(Groups)
def _(g, i, w, w_prev, batch, out, out_prev):
    batch_loss_pairs(g.model, batch.rows, batch.target, w, w_prev, batch.work, batch.work_prev)
    weighted_sums(batch.weights, batch.work, out)
    weighted_sums(batch.weights, batch.work_prev, out_prev)


@batch_vjp.of(Groups)
def _(g, i, w, batch, y, scale, grad):
    size = batch.rows.size // g.dim
    used = 0  # places up to the last component of some weight: a block of none has no gradient to add
    for j in range(g.dim):
        used = (j + 1) * size if y[j] != 0.0 else used
        for b in range(j * size, (j + 1) * size):
            batch.work_prev[b] = scale * y[j] * batch.weights[b]
    add_batch_grads(g.model, batch.rows[:used], batch.target, w, batch.work_prev, batch.work[:used], grad)


@register_jitable
def weighted_sums(weights, losses, out):
    """Sums of as many stretches as ``out`` has places."""
    size = weights.size // out.size
    for j in range(out.size):
        total = 0.0
        for b in range(j * size, (j + 1) * size):
            total += weights[b] * losses[b]
        out[j] = total


@exact_values.of(Groups)
def _(g, w, out):
    specialise(group_means, g)(g, w, out)


@exact_vjp.of(Groups)
def _(g, w, y, grad):
    specialise(group_vjp, g)(g, w, y, grad)


@kernel
def group_means(g, w, out):
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        total, lost = 0.0, 0.0  # compensated: certificates count on the last digits of a million terms
        for p in range(low, high):
            term = weight_at(g.weight, p) * sample_loss(g.model, row_at(g.index, p), w) - lost
            raised = total + term
            lost = (raised - total) - term if abs(raised) < np.inf else 0.0  # infinity less infinity would be NaN
            total = raised
        out[i // g.dim, i % g.dim] = total / (high - low)


@kernel
def group_vjp(g, w, y, grad):
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        part = y[i // g.dim, i % g.dim] / (high - low)
        if part != 0.0:
            for p in range(low, high):
                add_sample_grad(g.model, row_at(g.index, p), w, part * weight_at(g.weight, p), grad)


@inner_pooled.of(Groups)
def _(g):
    return Groups(g.model, np.array([0, g.offsets[-1]]), g.index, g.weight, 1)


@inner_shares.of(Groups)
def _(g):
    return (np.diff(g.offsets) / g.offsets[-1]).reshape(-1, g.dim)


@inner_lipschitz.of(Groups)
def _(g):
    return specialise(largest_mean, g)(g, np.array([0.0, 0.0]))[0]


@inner_smoothness.of(Groups)
def _(g):
    return specialise(largest_mean, g)(g, np.array([0.0, 0.0]))[1]


@kernel
def largest_mean(g, largest):
    """Largest group mean of the samples' Lipschitz and smoothness constants."""
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        slope, curve = 0.0, 0.0
        for p in range(low, high):
            k = row_at(g.index, p)
            slope += weight_at(g.weight, p) * sample_lipschitz(g.model, k)
            curve += weight_at(g.weight, p) * sample_smoothness(g.model, k)
        largest[0] = max(largest[0], slope / (high - low))
        largest[1] = max(largest[1], curve / (high - low))
    return largest
