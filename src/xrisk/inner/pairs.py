"""Mean losses over pairs of rows: gᵢ(w) = meanⱼ ℓ(side·⟨xᵢ − xⱼ, w⟩), each row i against every row j."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Loss, Rows
from xrisk.data.products import row_adjoint, row_scores, scaled_norms, with_intercept
from xrisk.data.rows import (
    Dense,
    add_row,
    add_rows,
    fetch_row,
    row_count,
    row_dot,
    row_dots,
    row_size,
    rows_dot,
    rows_dots,
)
from xrisk.functions.loss import (
    Logistic,
    loss_is_affine,
    loss_lipschitz,
    loss_slope,
    loss_smoothness,
    loss_value,
)
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    draw_part,
    has_parts,
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
    sample_smoothness,
    shares_batch,
    uniform_index,
)


class BatchEach(NamedTuple):
    """Every sampled row i is compared with a batch of its own."""


class BatchForAll(NamedTuple):
    """One batch of rows j is compared with all rows i of an iteration: S + B rows are read, not S + S·B."""


shares_batch.of(BatchEach)(lambda sampling: False)
shares_batch.of(BatchForAll)(lambda sampling: True)


class PairBatch(NamedTuple):
    """Sampled rows j, or rows i, and memory for what is computed of each."""

    rows: np.ndarray  # (size,)
    scores: np.ndarray  # (size,)
    coefs: np.ndarray  # (size,) what each row is multiplied by in a gradient
    work: np.ndarray  # (size,)


class Pairs(NamedTuple):
    """gᵢ(w) = meanⱼ ℓ(side·⟨xᵢ − xⱼ, w⟩, 1) for i in ``outer``, the mean over j in ``inner``.

    With ``side`` 1 the rows of ``outer`` are to stand above those of ``inner``, with −1 below them. Pairs are never
    stored: exact passes read every row once and go over scores. An intercept would cancel in every difference.

    ``sampling`` says whether each row i of an iteration has a batch of rows j of its own, `BatchEach`, or all of them
    the same one, `BatchForAll`: the sampling of S positives and B negatives of the ALEXR paper, section 9.2. Samples of
    different i then depend on each other, which theorems about the sampling of blocks do not allow for.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import partial_auc
    >>> from xrisk.inner import BatchForAll
    >>> problem = partial_auc(np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1], min_tpr=0.5)
    >>> shared = problem._replace(inner=problem.inner._replace(sampling=BatchForAll()))
    >>> shared.value(np.ones(1)) == problem.value(np.ones(1))
    True
    """

    rows: Rows = Dense()
    outer: np.ndarray = np.zeros(0, dtype=np.int64)  # (n,)
    inner: np.ndarray = np.zeros(0, dtype=np.int64)
    loss: Loss = Logistic()
    side: float = 1.0
    sampling: Any = BatchEach()

    def check(self) -> None:
        """Refuse what is no loss, rows that are not there, a side that is neither 1 nor −1, and an intercept."""
        if not loss_value.implemented(self.loss):
            raise TypeError(f"loss must be a spec that implements loss_value, got {self.loss!r}")
        if with_intercept(self.rows):
            raise ValueError("rows must have no intercept: it cancels in differences of scores")
        if abs(self.side) != 1.0:
            raise ValueError(f"side must be 1 or −1, got {self.side}")
        if type(self.sampling) not in (BatchEach, BatchForAll):
            raise TypeError(f"sampling must be BatchEach() or BatchForAll(), got {self.sampling!r}")
        n = row_count(self.rows)
        for name, listed in (("outer", self.outer), ("inner", self.inner)):
            if listed.ndim != 1 or listed.size == 0 or listed.min() < 0 or listed.max() >= n:
                raise ValueError(f"{name} must list rows between 0 and {n - 1}, at least one")


inner_count.of(Pairs)(lambda g: g.outer.size)


@inner_samples.of(Pairs)
def _(g):
    return g.outer.size * g.inner.size


inner_dim.of(Pairs)(lambda g: 1)
inner_size.of(Pairs)(lambda g: row_size(g.rows))
inner_is_affine.of(Pairs)(lambda g: loss_is_affine(g.loss))
shares_batch.of(Pairs)(lambda g: shares_batch(g.sampling))


@new_batch.of(Pairs)
def _(g, size):
    return PairBatch(np.empty(size, dtype=np.int64), np.empty(size), np.empty(size), np.empty(size))


@draw.of(Pairs)
def _(g, i, rng, batch):
    for b in range(batch.rows.size):
        batch.rows[b] = g.inner[uniform_index(rng, 0, g.inner.size)]
        fetch_row(g.rows, batch.rows[b])


@sample_range.of(Pairs)
def _(g, i):
    return i * g.inner.size, (i + 1) * g.inner.size


@has_parts.of(Pairs)
def _(g, size):  # a batch has no weights: places beyond the last sample could not be left out
    return size == 1


@draw_part.of(Pairs)
def _(g, i, first, batch):
    batch.rows[0] = g.inner[first]
    fetch_row(g.rows, batch.rows[0])


@batch_value.of(Pairs)
def _(g, i, w, batch, out):
    own, size = row_dot(g.rows, g.outer[i], w), batch.rows.size
    rows_dot(g.rows, batch.rows, w, batch.scores)
    total = 0.0
    for b in range(size):
        total += loss_value(g.loss, g.side * (own - batch.scores[b]), 1.0)
    out[0] = total / size


@batch_values.of(Pairs)
def _(g, i, w, w_prev, batch, out, out_prev):
    own, own_prev = row_dots(g.rows, g.outer[i], w, w_prev)
    rows_dots(g.rows, batch.rows, w, w_prev, batch.scores, batch.work)
    total, total_prev, size = 0.0, 0.0, batch.rows.size
    for b in range(size):
        total += loss_value(g.loss, g.side * (own - batch.scores[b]), 1.0)
        total_prev += loss_value(g.loss, g.side * (own_prev - batch.work[b]), 1.0)
    out[0], out_prev[0] = total / size, total_prev / size


@batch_vjp.of(Pairs)
def _(g, i, w, batch, y, scale, grad):
    if y[0] == 0.0:
        return
    own, part, total = row_dot(g.rows, g.outer[i], w), scale * y[0] * g.side / batch.rows.size, 0.0
    rows_dot(g.rows, batch.rows, w, batch.coefs)  # scores, whose places their coefficients take
    for b in range(batch.rows.size):
        slope = part * loss_slope(g.loss, g.side * (own - batch.coefs[b]), 1.0)
        batch.coefs[b] = -slope
        total += slope
    add_rows(g.rows, batch.rows, batch.coefs, grad)
    add_row(g.rows, g.outer[i], total, grad)


@inner_lipschitz.of(Pairs)
def _(g):
    return loss_lipschitz(g.loss) * np.sqrt(square_distances(g).max())  # the mean of norms is below that


@inner_smoothness.of(Pairs)
def _(g):
    return loss_smoothness(g.loss) * square_distances(g).max()


@sample_lipschitz.of(Pairs)
def _(g):
    return loss_lipschitz(g.loss) * _largest_distance(g)


@sample_smoothness.of(Pairs)
def _(g):
    return loss_smoothness(g.loss) * _largest_distance(g) ** 2


def _largest_distance(g: Pairs) -> float:
    """A bound on ‖xᵢ − xⱼ‖ over all pairs, by way of the mean of the xⱼ."""
    distances = np.sqrt(_distances(g.rows, _centre(g)))
    return float(distances[g.outer].max() + distances[g.inner].max())


def square_distances(g: Pairs) -> np.ndarray:
    """Mean over j of ‖xᵢ − xⱼ‖², for every i (n,): around the mean of the xⱼ both squares add up."""
    squares = _distances(g.rows, _centre(g))
    return squares[g.outer] + squares[g.inner].mean()


def _centre(g: Pairs) -> np.ndarray:
    """The mean of the xⱼ."""
    return row_adjoint(g.rows, np.bincount(g.inner, minlength=row_count(g.rows))[:, None] / g.inner.size)[0]


def _distances(rows: Rows, centre: np.ndarray) -> np.ndarray:
    """‖x − centre‖² of every row."""
    squares = scaled_norms(rows, np.ones(centre.size)) ** 2
    return np.maximum(squares - 2.0 * row_scores(rows, centre[None, :])[:, 0] + float(centre @ centre), 0.0)


class PooledPairs(NamedTuple):
    """g(w) = mean over all pairs of ℓ(side·⟨xᵢ − xⱼ, w⟩, 1): one inner function, whose samples are pairs (i, j)."""

    pairs: Pairs = Pairs()


class PooledBatch(NamedTuple):
    """Sampled rows i and j."""

    outer: np.ndarray  # (samples,)
    inner: np.ndarray  # (samples,)


inner_pooled.of(Pairs)(lambda g: PooledPairs(g))


@inner_shares.of(Pairs)
def _(g):
    return np.full((g.outer.size, 1), 1.0 / g.outer.size)


@inner_count.of(PooledPairs)
@inner_dim.of(PooledPairs)
def _(g):
    return 1


inner_size.of(PooledPairs)(lambda g: inner_size(g.pairs))
inner_samples.of(PooledPairs)(lambda g: inner_samples(g.pairs))
inner_is_affine.of(PooledPairs)(lambda g: inner_is_affine(g.pairs))


@new_batch.of(PooledPairs)
def _(g, size):
    return PooledBatch(np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64))


@draw.of(PooledPairs)
def _(g, i, rng, batch):
    for b in range(batch.outer.size):
        batch.outer[b] = g.pairs.outer[uniform_index(rng, 0, g.pairs.outer.size)]
        batch.inner[b] = g.pairs.inner[uniform_index(rng, 0, g.pairs.inner.size)]


@batch_value.of(PooledPairs)
def _(g, i, w, batch, out):
    rows, loss, side, total = g.pairs.rows, g.pairs.loss, g.pairs.side, 0.0
    for b in range(batch.outer.size):
        margin = side * (row_dot(rows, batch.outer[b], w) - row_dot(rows, batch.inner[b], w))
        total += loss_value(loss, margin, 1.0)
    out[0] = total / batch.outer.size


@batch_vjp.of(PooledPairs)
def _(g, i, w, batch, y, scale, grad):
    rows, loss, side, part = g.pairs.rows, g.pairs.loss, g.pairs.side, scale * y[0] * g.pairs.side / batch.outer.size
    for b in range(batch.outer.size):
        margin = side * (row_dot(rows, batch.outer[b], w) - row_dot(rows, batch.inner[b], w))
        slope = part * loss_slope(loss, margin, 1.0)
        add_row(rows, batch.outer[b], slope, grad)
        add_row(rows, batch.inner[b], -slope, grad)
