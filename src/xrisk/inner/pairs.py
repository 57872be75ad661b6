"""Mean losses over pairs of rows: gᵢ(w) = meanⱼ ℓ(side·⟨xᵢ − xⱼ, w⟩), each row i against every row j."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import kernel, specialise
from xrisk.functions.loss import (
    ExponentialLoss,
    HingeLoss,
    Logistic,
    SquaredHinge,
    loss_is_affine,
    loss_lipschitz,
    loss_slope,
    loss_smoothness,
    loss_value,
)
from xrisk.generic import generic
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
    inner_samples,
    inner_size,
    inner_smoothness,
    new_batch,
    uniform_index,
)
from xrisk.inner.rows import (
    Dense,
    WithIntercept,
    add_row,
    add_rows,
    fetch_row,
    row_count,
    row_dot,
    row_dots,
    row_norm,
    row_size,
    rows_dot,
    rows_dots,
)


class PairBatch(NamedTuple):
    """Sampled rows j, and room for their scores."""

    rows: np.ndarray  # (samples,)
    work: np.ndarray  # (samples,)
    work_prev: np.ndarray  # (samples,)


class Pairs(NamedTuple):
    """gᵢ(w) = meanⱼ ℓ(side·⟨xᵢ − xⱼ, w⟩, 1) for i in ``outer``, the mean over j in ``inner``.

    With ``side`` 1 the rows of ``outer`` are to stand above those of ``inner``, with −1 below them. Pairs are never
    stored: exact passes read every row once and go over scores. An intercept would cancel in every difference.
    """

    rows: Any = Dense()
    outer: np.ndarray = np.zeros(0, dtype=np.int64)  # (n,)
    inner: np.ndarray = np.zeros(0, dtype=np.int64)
    loss: Any = Logistic()
    side: float = 1.0

    def check(self) -> None:
        """Refuse what is no loss, rows that are not there, a side that is neither 1 nor −1, and an intercept."""
        if not loss_value.implemented(self.loss):
            raise TypeError(f"loss must be a spec that implements loss_value, got {self.loss!r}")
        if isinstance(self.rows, WithIntercept):
            raise ValueError("rows must have no intercept: it cancels in differences of scores")
        if abs(self.side) != 1.0:
            raise ValueError(f"side must be 1 or −1, got {self.side}")
        n = row_count(self.rows)
        for name, listed in (("outer", self.outer), ("inner", self.inner)):
            if listed.ndim != 1 or listed.size == 0 or listed.min() < 0 or listed.max() >= n:
                raise ValueError(f"{name} must list rows between 0 and {n - 1}, at least one")


@inner_count.of(Pairs)
def _(g):
    return g.outer.size


@inner_samples.of(Pairs)
def _(g):
    return g.outer.size * g.inner.size


@inner_dim.of(Pairs)
def _(g):
    return 1


@inner_size.of(Pairs)
def _(g):
    return row_size(g.rows)


@inner_is_affine.of(Pairs)
def _(g):
    return loss_is_affine(g.loss)


@new_batch.of(Pairs)
def _(g, size):
    return PairBatch(np.empty(size, dtype=np.int64), np.empty(size), np.empty(size))


@draw.of(Pairs)
def _(g, i, rng, batch):
    for b in range(batch.rows.size):
        batch.rows[b] = g.inner[uniform_index(rng, 0, g.inner.size)]
        fetch_row(g.rows, batch.rows[b])
    return batch


@batch_value.of(Pairs)
def _(g, i, w, batch, out):
    own, size = row_dot(g.rows, g.outer[i], w), batch.rows.size
    rows_dot(g.rows, batch.rows, w, batch.work)
    total = 0.0
    for b in range(size):
        total += loss_value(g.loss, g.side * (own - batch.work[b]), 1.0)
    out[0] = total / size


@batch_values.of(Pairs)
def _(g, i, w, w_prev, batch, out, out_prev):
    own, own_prev = row_dots(g.rows, g.outer[i], w, w_prev)
    rows_dots(g.rows, batch.rows, w, w_prev, batch.work, batch.work_prev)
    total, total_prev, size = 0.0, 0.0, batch.rows.size
    for b in range(size):
        total += loss_value(g.loss, g.side * (own - batch.work[b]), 1.0)
        total_prev += loss_value(g.loss, g.side * (own_prev - batch.work_prev[b]), 1.0)
    out[0], out_prev[0] = total / size, total_prev / size


@batch_vjp.of(Pairs)
def _(g, i, w, batch, y, scale, grad):
    if y[0] == 0.0:
        return
    own, part, total = row_dot(g.rows, g.outer[i], w), scale * y[0] * g.side / batch.rows.size, 0.0
    rows_dot(g.rows, batch.rows, w, batch.work)
    for b in range(batch.rows.size):
        slope = part * loss_slope(g.loss, g.side * (own - batch.work[b]), 1.0)
        batch.work[b] = -slope
        total += slope
    add_rows(g.rows, batch.rows, batch.work, grad)
    add_row(g.rows, g.outer[i], total, grad)


@exact_values.of(Pairs)
def _(g, w, out):
    pair_means(g.loss, *pair_scores(g, w), out[:, 0])


@exact_vjp.of(Pairs)
def _(g, w, y, grad):
    ahead, behind = pair_scores(g, w)
    up, down = np.zeros(ahead.size), np.zeros(behind.size)
    specialise(pair_slopes, g.loss)(g.loss, ahead, behind, y[:, 0] / behind.size, up, down)
    pull_pairs(g, up, down, grad)


@inner_lipschitz.of(Pairs)
def _(g):
    return loss_lipschitz(g.loss) * np.sqrt(square_distances(g).max())  # the mean of norms is below that


@inner_smoothness.of(Pairs)
def _(g):
    return loss_smoothness(g.loss) * square_distances(g).max()


def pair_scores(g: Pairs, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores of rows i and rows j, times the side: the margin of a pair is their difference."""
    ahead, behind = np.empty(g.outer.size), np.empty(g.inner.size)
    specialise(listed_scores, g.rows)(g.rows, g.outer, w, g.side, ahead)
    specialise(listed_scores, g.rows)(g.rows, g.inner, w, g.side, behind)
    return ahead, behind


def pull_pairs(g: Pairs, up: np.ndarray, down: np.ndarray, grad: np.ndarray) -> None:
    """Add side·(Σ up[i] xᵢ − Σ down[j] xⱼ) to ``grad``."""
    specialise(add_listed, g.rows)(g.rows, g.outer, up, g.side, grad)
    specialise(add_listed, g.rows)(g.rows, g.inner, down, -g.side, grad)


def square_distances(g: Pairs) -> np.ndarray:
    """Mean over j of ‖xᵢ − xⱼ‖², for every i (n,): around the mean of the xⱼ both squares add up."""
    centre = np.zeros(row_size(g.rows))
    specialise(add_listed, g.rows)(g.rows, g.inner, np.full(g.inner.size, 1.0 / g.inner.size), 1.0, centre)
    outer, inner = np.empty(g.outer.size), np.empty(g.inner.size)
    specialise(listed_distances, g.rows)(g.rows, g.outer, centre, outer)
    specialise(listed_distances, g.rows)(g.rows, g.inner, centre, inner)
    return outer + inner.mean()


@generic
def pair_means(loss, ahead, behind, out):
    """Write meanⱼ ℓ(ahead[i] − behind[j], 1) into ``out`` (n,)."""


@pair_means.otherwise
def _(loss, ahead, behind, out):
    specialise(pair_loop, loss)(loss, ahead, behind, out)


@pair_means.of(ExponentialLoss)
def _(loss, ahead, behind, out):
    top = behind.max()  # exp overflows at 710
    with np.errstate(over="ignore"):
        out[:] = np.exp(top - ahead) * np.exp(behind - top).mean()


@pair_means.of(HingeLoss)
def _(loss, ahead, behind, out):
    out[:] = _gap_sums(ahead, behind)[0] / behind.size


@pair_means.of(SquaredHinge)
def _(loss, ahead, behind, out):
    out[:] = _gap_sums(ahead, behind)[1] / behind.size


def _gap_sums(ahead: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """Sums over j of (1 − ahead[i] + behind[j])₊ and of its square, (2, n), by sorting both."""
    order, sums = np.argsort(-ahead), np.empty((2, ahead.size))
    gap_sweep(ahead, order, -np.sort(-behind), sums)
    return sums


@kernel
def gap_sweep(ahead, order, behind, sums):
    """Gaps only grow along the sweep, so that nothing but positive numbers is added up."""
    at, held, first, second = 0.0, 0, 0.0, 0.0
    for i in order:
        short = 1.0 - ahead[i]
        if held > 0:
            rise = short - at
            second += rise * (2.0 * first + held * rise)
            first += held * rise
        at = short
        while held < behind.size and short + behind[held] > 0.0:
            gap = short + behind[held]
            first += gap
            second += gap * gap
            held += 1
        sums[0, i], sums[1, i] = first, second


@kernel
def pair_loop(loss, ahead, behind, out):
    for i in range(ahead.size):
        total, lost = 0.0, 0.0  # compensated, as group means are
        for j in range(behind.size):
            term = loss_value(loss, ahead[i] - behind[j], 1.0) - lost
            raised = total + term
            lost = (raised - total) - term if abs(raised) < np.inf else 0.0
            total = raised
        out[i] = total / behind.size


@kernel
def pair_slopes(loss, ahead, behind, share, up, down):
    """Add share[i] times the slopes of the pairs to ``up`` (n,) and ``down``."""
    for i in range(ahead.size):
        if share[i] != 0.0:
            total = 0.0
            for j in range(behind.size):
                slope = share[i] * loss_slope(loss, ahead[i] - behind[j], 1.0)
                total += slope
                down[j] += slope
            up[i] += total


@kernel
def listed_scores(rows, listed, w, scale, out):
    rows_dot(rows, listed, w, out)
    for p in range(out.size):
        out[p] *= scale


@kernel
def add_listed(rows, listed, scales, scale, grad):
    for p in range(listed.size):
        add_row(rows, listed[p], scale * scales[p], grad)


@kernel
def listed_norms(rows, listed, out):
    for p in range(listed.size):
        out[p] = row_norm(rows, listed[p])


@kernel
def listed_distances(rows, listed, centre, out):
    """‖x − centre‖² of the listed rows."""
    length = 0.0
    for j in range(centre.size):
        length += centre[j] * centre[j]
    for p in range(listed.size):
        k = listed[p]
        out[p] = max(row_norm(rows, k) ** 2 - 2.0 * row_dot(rows, k, centre) + length, 0.0)
