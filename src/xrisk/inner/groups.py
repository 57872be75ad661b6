"""Mean losses of groups of rows: gᵢ(w) = Σₖ aₖ ℓₖ(w) / Σₖ aₖ over the rows k of group i."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.data.products import scaled_norms
from xrisk.data.rows import fetch_row, row_size
from xrisk.generic import generic
from xrisk.inner.models import (
    LinearModel,
    add_batch_grads,
    batch_loss_pairs,
    batch_losses,
    model_is_affine,
    model_lipschitz,
    model_rows,
    model_size,
    model_smoothness,
)
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
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
    uniform_index,
)


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


class Partitioned(NamedTuple):
    """The rows of a group are listed, every row once; X is left as it is."""

    rows: np.ndarray = np.zeros(0, dtype=np.int32)  # (rows,) group after group
    codes: np.ndarray = np.zeros(0, dtype=np.int32)  # (rows,) the group of every row


class Equal(NamedTuple):
    """Every row weighs one."""


class Weighted(NamedTuple):
    """Weights by position, and again by row where every row stands in one group."""

    weights: np.ndarray = np.zeros(0)
    by_row: np.ndarray = np.zeros(0)


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
        codes = getattr(self.index, "codes", None)
        if codes is not None and not (positions == codes.size == rows and np.array_equal(codes[listed], self.groups())):
            raise ValueError("index must list every row once, and codes must name the groups of the rows")
        if self.model.target.shape != (rows,):
            raise ValueError(
                f"y must have one entry for each of the {rows} rows of X, got shape {self.model.target.shape}"
            )
        weights = getattr(self.weight, "weights", None)
        if weights is None:
            return
        if weights.shape != (positions,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError("weights must be finite and non-negative, one for each position")
        by_row = getattr(self.weight, "by_row", weights)
        if codes is not None and not (by_row.size == rows and np.array_equal(by_row[listed], weights)):
            raise ValueError("weights must be the same by row as by position")

    def groups(self) -> np.ndarray:
        """The group (positions,) of every position."""
        return np.repeat(np.arange(self.offsets.size - 1, dtype=np.int32), np.diff(self.offsets))


@row_at.of(InOrder)
def _(index, p):
    return p


@row_at.of(Partitioned)
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


@inner_pooled.of(Groups)
def _(g):
    return Groups(g.model, np.array([0, g.offsets[-1]]), pooled_index(g.index), g.weight, 1)


@generic
def pooled_index(index):
    """The index of all rows as one group."""


@pooled_index.otherwise
def _(index):
    return index


@pooled_index.of(Partitioned)
def _(index):
    return Partitioned(index.rows, np.zeros_like(index.codes))


@inner_shares.of(Groups)
def _(g):
    return (np.diff(g.offsets) / g.offsets[-1]).reshape(-1, g.dim)


@inner_lipschitz.of(Groups)
def _(g):
    return _largest_block(g, model_lipschitz(g.model) * _row_norms(g))


@sample_lipschitz.of(Groups)
def _(g):
    sizes = _by_weight(g, model_lipschitz(g.model) * _row_norms(g))
    largest = np.maximum.reduceat(sizes, g.offsets[:-1])
    return float(np.linalg.norm(largest.reshape(-1, g.dim), axis=1).max())


@inner_smoothness.of(Groups)
def _(g):
    return _largest_block(g, model_smoothness(g.model) * _row_norms(g) ** 2)


def _row_norms(g: Groups) -> np.ndarray:
    return scaled_norms(g.model.rows, np.ones(row_size(g.model.rows)))


def _largest_block(g: Groups, sizes: np.ndarray) -> float:
    """The largest norm over a block of the group means of what is known of every row."""
    means = np.add.reduceat(_by_weight(g, sizes), g.offsets[:-1]) / np.diff(g.offsets)
    return float(np.linalg.norm(means.reshape(-1, g.dim), axis=1).max())


def _by_weight(g: Groups, sizes: np.ndarray) -> np.ndarray:
    """What is known of every row, times the weight of every position it stands in."""
    sizes = by_position(g, sizes)
    return sizes * g.weight.weights if isinstance(g.weight, Weighted) else sizes


def by_position(g: Groups, values: np.ndarray) -> np.ndarray:
    """What is known of every row (rows, …), of every position of the groups."""
    listed = getattr(g.index, "rows", None)
    return values if listed is None else values[listed]
