"""Mean losses of groups of rows: gᵢ(w) = Σₖ aₖ ℓₖ(w) / Σₖ aₖ over the rows k of group i."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Spec
from xrisk.data.products import scaled_norms
from xrisk.data.rows import fetch_row, row_size
from xrisk.inner.layout import Equal, InOrder, check_index, check_weight, pooled_index, row_at, weight_at
from xrisk.inner.models import (
    LinearModel,
    model_is_affine,
    model_lipschitz,
    model_rows,
    model_size,
    model_smoothness,
    row_slopes,
    rows_loss,
    rows_losses,
    rows_vjp,
    slopes_vjp,
)
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    draw_part,
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
    sample_lipschitz,
    sample_range,
    sample_share,
    sample_slopes,
    sample_smoothness,
    sample_vjp,
    uniform_index,
)


class RowBatch(NamedTuple):
    """Rows that were drawn, of a block component after component, and memory to work on them."""

    rows: np.ndarray  # (places,)
    target: np.ndarray  # (places,)
    weights: np.ndarray  # (places,) what each counts
    losses: np.ndarray  # (places,)
    scales: np.ndarray  # (places,) what each gradient is multiplied by
    work: np.ndarray  # (places,)


@register_jitable
def new_rows(model, places):
    """Memory for a batch of rows of a model."""
    rows, target = np.empty(places, dtype=np.int64), np.empty(places, dtype=model.target.dtype)
    return RowBatch(rows, target, np.empty(places), np.empty(places), np.empty(places), np.empty(places))


class Groups(NamedTuple):
    """Mean loss of a model in each group; block i holds the ``dim`` groups from i·dim on."""

    model: Spec = LinearModel()
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
        rows = model_rows(self.model)
        check_index(self.index, self.groups(), rows)
        if self.model.target.shape != (rows,):
            raise ValueError(
                f"y must have one entry for each of the {rows} rows of X, got shape {self.model.target.shape}"
            )
        check_weight(self.weight, self.index, int(self.offsets[-1]))

    def groups(self) -> np.ndarray:
        """The group (positions,) of every position."""
        return np.repeat(np.arange(self.offsets.size - 1, dtype=np.int32), np.diff(self.offsets))


@inner_count.of(Groups)
def _(g):
    return (g.offsets.size - 1) // g.dim


inner_dim.of(Groups)(lambda g: g.dim)
inner_size.of(Groups)(lambda g: model_size(g.model))


@inner_samples.of(Groups)
def _(g):
    return int(g.offsets[-1])


inner_is_affine.of(Groups)(lambda g: model_is_affine(g.model))


@new_batch.of(Groups)
def _(g, size):
    return new_rows(g.model, size * g.dim)


@register_jitable(forceinline=True)
def place_row(g, p, size, batch, b):
    """Make the row at position p the b-th of the batch, as one of ``size`` samples."""
    batch.rows[b] = row_at(g.index, p)
    batch.target[b] = g.model.target[batch.rows[b]]
    batch.weights[b] = weight_at(g.weight, p) / size
    fetch_row(g.model.rows, batch.rows[b])


@draw.of(Groups)
def _(g, i, rng, batch):
    size = batch.rows.size // g.dim
    for j in range(g.dim):
        low, high = g.offsets[i * g.dim + j], g.offsets[i * g.dim + j + 1]
        for b in range(j * size, (j + 1) * size):
            place_row(g, uniform_index(rng, low, high), size, batch, b)


@draw_part.of(Groups)
def _(g, i, first, batch):
    size = batch.rows.size // g.dim
    for j in range(g.dim):
        low, high = g.offsets[i * g.dim + j], g.offsets[i * g.dim + j + 1]
        for b in range(size):
            place_row(g, min(low + first + b, high - 1), size, batch, j * size + b)
            if low + first + b >= high:
                batch.weights[j * size + b] = 0.0


@batch_value.of(Groups)
def _(g, i, w, batch, out):
    rows_loss(g.model, batch.rows, batch.target, w, batch.losses)
    weighted_sums(batch.weights, batch.losses, out)


@batch_values.of(Groups)
def _(g, i, w, w_prev, batch, out, out_prev):
    rows_losses(g.model, batch.rows, batch.target, w, w_prev, batch.losses, batch.work)
    weighted_sums(batch.weights, batch.losses, out)
    weighted_sums(batch.weights, batch.work, out_prev)


@batch_vjp.of(Groups)
def _(g, i, w, batch, y, scale, grad):
    size = batch.rows.size // g.dim
    used = 0  # places up to the last component of some weight: a block of none has no gradient to add
    for j in range(g.dim):
        used = (j + 1) * size if y[j] != 0.0 else used
        for b in range(j * size, (j + 1) * size):
            batch.scales[b] = scale * y[j] * batch.weights[b]
    rows_vjp(g.model, batch.rows[:used], batch.target, w, batch.scales, batch.work[:used], grad)


@sample_range.of(Groups)
def _(g, i):
    return g.offsets[i], g.offsets[i + 1]


@sample_share.of(Groups)
def _(g, i, p):
    return weight_at(g.weight, p) / (g.offsets[i + 1] - g.offsets[i])


@sample_slopes.of(Groups)
def _(g, p, w, slopes):
    return row_slopes(g.model, row_at(g.index, p), w, slopes)


@sample_vjp.of(Groups)
def _(g, p, slopes, scale, grad):
    slopes_vjp(g.model, row_at(g.index, p), slopes, scale, grad)


@register_jitable
def weighted_sums(weights, losses, out):
    """Sums of as many stretches as ``out`` has places."""
    size = weights.size // out.size
    for j in range(out.size):
        total = 0.0
        for b in range(j * size, (j + 1) * size):
            total += weights[b] * losses[b]
        out[j] = total


@inner_pooled.of(Groups)
def _(g):
    return Groups(g.model, np.array([0, g.offsets[-1]]), pooled_index(g.index), g.weight, 1)


@inner_shares.of(Groups)
def _(g):
    return (np.diff(g.offsets) / g.offsets[-1]).reshape(-1, g.dim)


@inner_lipschitz.of(Groups)
def _(g):
    return _largest_block(g, model_lipschitz(g.model) * _row_norms(g))


@inner_smoothness.of(Groups)
def _(g):
    return _largest_block(g, model_smoothness(g.model) * _row_norms(g) ** 2)


@sample_lipschitz.of(Groups)
def _(g):
    return _largest_sample(g, model_lipschitz(g.model) * _row_norms(g))


@sample_smoothness.of(Groups)
def _(g):
    return _largest_sample(g, model_smoothness(g.model) * _row_norms(g) ** 2)


def _largest_sample(g: Groups, sizes: np.ndarray) -> float:
    """The largest norm over a block of what is known of single rows, one of every component."""
    largest = np.maximum.reduceat(_weighed(g, sizes), g.offsets[:-1])
    return float(np.linalg.norm(largest.reshape(-1, g.dim), axis=1).max())


def _row_norms(g: Groups) -> np.ndarray:
    return scaled_norms(g.model.rows, np.ones(row_size(g.model.rows)))


def _largest_block(g: Groups, sizes: np.ndarray) -> float:
    """The largest norm over a block of the group means of what is known of every row."""
    means = np.add.reduceat(_weighed(g, sizes), g.offsets[:-1]) / np.diff(g.offsets)
    return float(np.linalg.norm(means.reshape(-1, g.dim), axis=1).max())


def _weighed(g: Groups, sizes: np.ndarray) -> np.ndarray:
    """What is known of every row, of every position, times its weight."""
    positions = np.arange(g.offsets[-1])
    return sizes[row_at(g.index, positions)] * weight_at(g.weight, positions)
