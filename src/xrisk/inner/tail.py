"""Losses of pairs in the tail: gᵢ(w) = mean of the k largest over j of ℓ(side·⟨xᵢ − xⱼ, w⟩).

As ℓ does not increase with the margin, the k rows j of largest loss are those of highest score for every row i. All gᵢ
share them: a full pass chooses them once and goes over pairs with them as `Pairs` would, by sorting both sides where
the loss allows it (`xrisk.inner.sorted_pairs`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Loss
from xrisk.data.products import row_adjoint
from xrisk.data.rows import add_rows, fetch_row, row_count, rows_dot
from xrisk.functions.loss import loss_domain, loss_lipschitz, loss_slope, loss_value
from xrisk.functions.special import fast_exp
from xrisk.inner.oracle import (
    add_soft_slopes,
    add_tail_slopes,
    batch_scores,
    batch_scores_vjp,
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
    place_block,
    sample_lipschitz,
    shares_batch,
    soft_value,
    tail_share,
    tail_value,
)
from xrisk.inner.pairs import Pairs
from xrisk.inner.passes import column_sizes, pass_loss, pass_rows, scores_at, with_loss
from xrisk.inner.sorted_pairs import PairTerms, pair_terms
from xrisk.lanes import array_sum


class Tail(NamedTuple):
    """gᵢ(w) = mean of the ``top`` largest over j of ℓ(side·⟨xᵢ − xⱼ, w⟩, 1), pairs (i, j) those of ``pairs``.

    The loss must not increase with the margin. Samples are drawn from all rows j: the mean of a batch is no estimate
    of gᵢ, so that `draw` is all that sampled methods get; those that know the threshold of gᵢ go on from there.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import two_way_partial_auc
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [-1, 1, -1, 1]
    >>> two_way_partial_auc(X, y, min_tpr=0.0, max_fpr=0.5).inner.top
    1
    """

    pairs: Pairs = Pairs()
    top: int = 1

    def check(self) -> None:
        """Refuse a number of rows j that are not there, and a loss that may increase; `Pairs` checks itself."""
        most, loss = self.pairs.inner.size, self.pairs.loss
        if isinstance(self.top, bool) or self.top not in range(1, most + 1):
            raise ValueError(f"top must be a whole number from 1 to {most}, got {self.top!r}")
        if not (loss_domain.implemented(loss) and loss_domain(loss, 1.0)[1] <= 0.0):
            raise ValueError(f"loss must not increase with the margin, and say so by loss_domain, got {loss!r}")


EPS = float(np.finfo(np.float64).eps)


class Chosen(NamedTuple):
    """The rows j in the tail at a point: the highest, equal ones at the edge sharing what is left."""

    places: np.ndarray  # where they stand in ``inner``
    weight: np.ndarray  # what each counts, summing to one


inner_count.of(Tail)(lambda g: inner_count(g.pairs))
inner_dim.of(Tail)(lambda g: 1)
inner_size.of(Tail)(lambda g: inner_size(g.pairs))
inner_samples.of(Tail)(lambda g: inner_samples(g.pairs))
inner_is_affine.of(Tail)(lambda g: False)
shares_batch.of(Tail)(lambda g: shares_batch(g.pairs))
new_batch.of(Tail)(lambda g, size: new_batch(g.pairs, size))


@draw.of(Tail)
def _(g, i, rng, batch):
    draw(g.pairs, i, rng, batch)


@tail_share.of(Tail)
def _(g):
    return g.top / g.pairs.inner.size


@place_block.of(Tail)
def _(g, i, batch, b):
    batch.rows[b] = g.pairs.outer[i]
    fetch_row(g.pairs.rows, batch.rows[b])


@batch_scores.of(Tail)
def _(g, w, batch):
    rows_dot(g.pairs.rows, batch.rows, w, batch.scores)
    for b in range(batch.coefs.size):
        batch.coefs[b] = 0.0


@batch_scores_vjp.of(Tail)
def _(g, batch, grad):
    add_rows(g.pairs.rows, batch.rows, batch.coefs, grad)


@tail_value.of(Tail)
def _(g, score, batch, s):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, batch.scores, batch.work
    for b in range(work.size):
        excess = loss_value(loss, sign * (score - scores[b]), 1.0) - s
        work[b] = excess if excess > 0.0 else 0.0
    return s + array_sum(work) / (tail_share(g) * work.size)


@add_tail_slopes.of(Tail)
def _(g, batch_i, a, batch_j, s, scale):
    if scale == 0.0:
        return 0.0
    loss, sign, scores, coefs, work = g.pairs.loss, g.pairs.side, batch_j.scores, batch_j.coefs, batch_j.work
    score, part, hits = batch_i.scores[a], scale * g.pairs.side / (tail_share(g) * batch_j.work.size), 0
    for b in range(work.size):
        margin = sign * (score - scores[b])
        hit = loss_value(loss, margin, 1.0) > s
        work[b] = part * loss_slope(loss, margin, 1.0) if hit else 0.0
        coefs[b] -= work[b]
        hits += hit
    batch_i.coefs[a] += array_sum(work)
    return hits / work.size


@soft_value.of(Tail)
def _(g, score, batch, lam):
    loss, sign, scores, work = g.pairs.loss, g.pairs.side, batch.scores, batch.work
    for b in range(work.size):
        work[b] = loss_value(loss, sign * (score - scores[b]), 1.0) / lam
    top = work[0]
    for b in range(1, work.size):
        top = max(top, work[b])
    for b in range(work.size):  # shifted by the largest: exp overflows at 710
        work[b] = fast_exp(work[b] - top)
    return top + math.log(array_sum(work) / work.size)


@add_soft_slopes.of(Tail)
def _(g, batch_i, a, batch_j, lam, log_u, log_scale):
    loss, sign, scores, coefs, work = g.pairs.loss, g.pairs.side, batch_j.scores, batch_j.coefs, batch_j.work
    score = batch_i.scores[a]
    for b in range(work.size):
        margin = sign * (score - scores[b])
        weight = fast_exp((loss_value(loss, margin, 1.0) / lam - log_u) + log_scale) / work.size
        work[b] = weight * sign * loss_slope(loss, margin, 1.0)
        coefs[b] -= work[b]
    batch_i.coefs[a] += array_sum(work)


@inner_lipschitz.of(Tail)
@sample_lipschitz.of(Tail)
def _(g):
    return sample_lipschitz(g.pairs) if loss_lipschitz(g.pairs.loss) < np.inf else np.inf


inner_smoothness.of(Tail)(lambda g: np.inf)
pass_rows.of(Tail)(lambda g: g.pairs.rows)
pass_loss.of(Tail)(lambda g: g.pairs.loss)


@with_loss.of(Tail)
def _(g, loss):
    return g._replace(pairs=g.pairs._replace(loss=loss))


column_sizes.of(Tail)(lambda g: column_sizes(g.pairs))


@exact_values.of(Tail)
def _(g, w, out):
    if not w.any():  # as of `Pairs`
        exact_values(g.pairs, w, out)
        return
    out[:, 0] = tail_terms(g, *tail_scores(g, scores_at(g, w)), np.zeros(out.shape[0]))[0].values


@exact_vjp.of(Tail)
def _(g, w, y, grad):
    """Any one of the subgradients where rows j tie: that in which equal ones share alike."""
    share = np.ascontiguousarray(y[:, 0], dtype=np.float64)
    terms, chosen = tail_terms(g, *tail_scores(g, scores_at(g, w)), share)
    down = np.zeros(g.pairs.inner.size)
    down[chosen.places] = chosen.weight * terms.down
    grad += row_adjoint(g.pairs.rows, pair_coefs(g.pairs, share * terms.up, down)[:, None])[0]


def tail_scores(g: Tail, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n,) of the rows i and (m,) of the rows j, of those z (rows, 1) of all: their difference is the margin."""
    return g.pairs.side * z[g.pairs.outer, 0], g.pairs.side * z[g.pairs.inner, 0]


def tail_terms(g: Tail, ahead: np.ndarray, behind: np.ndarray, share: np.ndarray) -> tuple[PairTerms, Chosen]:
    """What the pairs (i, j in the tail) add up to, ``share`` (n,) being what each row i counts in sums over i."""
    weight = top_weights(behind, g.top)
    places = np.flatnonzero(weight)
    chosen = Chosen(places, weight[places])
    return pair_terms(g.pairs.loss, ahead, behind[places], share, chosen.weight), chosen


def pair_coefs(g: Pairs, up: np.ndarray, down: np.ndarray) -> np.ndarray:
    """What every row (rows,) is multiplied by in side·(Σ upᵢ xᵢ − Σ downⱼ xⱼ)."""
    coefs = np.zeros(row_count(g.rows))
    np.add.at(coefs, g.outer, g.side * up)
    np.subtract.at(coefs, g.inner, g.side * down)
    return coefs


def top_weights(u: np.ndarray, size: float) -> np.ndarray:
    """Weights (n,) whose ⟨weights, u⟩ is the mean of the ``size`` largest u, equal ones at the edge sharing alike.

    The size need not be whole: the last one counts in part.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.inner.tail import top_weights
    >>> top_weights(np.array([3.0, 1.0, 2.0, 2.0]), 2)
    array([0.5 , 0.  , 0.25, 0.25])
    """
    if abs(size - round(size)) <= 8 * EPS * size:  # 10·(3/10) may be above 3
        size = round(size)
    rank = min(max(int(np.ceil(size)), 1), u.size)
    edge = np.partition(u, u.size - rank)[u.size - rank]
    upper, equal = u > edge, u == edge
    left = max(1.0 - np.count_nonzero(upper) / size, 0.0)
    return upper / size + equal * (left / max(int(np.count_nonzero(equal)), 1))


class Corner(NamedTuple):
    """The mean loss of the hardest pairs, and its slopes in all scores."""

    value: float
    up: np.ndarray  # (n,) in the scores of the rows i, at most 0
    down: np.ndarray  # (m,) minus those in the scores of the rows j
    share: np.ndarray  # (n,) what each row i counts, summing to one


def corner(loss: Loss, ahead: np.ndarray, behind: np.ndarray, low: float, top: float) -> Corner:
    """Mean of ℓ(aheadᵢ − behindⱼ) over the ``low`` lowest i and the ``top`` highest j, a number of either in part.

    As ℓ does not increase, these are the weights qᵢ pⱼ of the worst case: F = Σ qᵢ pⱼ ℓᵢⱼ. O(n log n) for hinges, O(n)
    for the square, of which it is the worst case where no margin is above 1: beyond it increases.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.functions import HingeLoss
    >>> from xrisk.inner.tail import corner
    >>> found = corner(HingeLoss(), np.array([0.5, 3.0]), np.array([0.0, 1.0]), low=1, top=1)
    >>> found.value, found.up.tolist(), found.down.tolist()
    (1.5, [-1.0, 0.0], [0.0, -1.0])
    """
    q, p = top_weights(-ahead, low), top_weights(behind, top)
    i, j = np.flatnonzero(q), np.flatnonzero(p)
    terms = pair_terms(loss, ahead[i], behind[j], q[i], p[j])
    up, down = np.zeros(ahead.size), np.zeros(behind.size)
    up[i], down[j] = q[i] * terms.up, p[j] * terms.down
    return Corner(float(q[i] @ terms.values), up, down, q)


def tail_of(pairs: Pairs, top: int) -> Any:
    """The pairs themselves where the tail is all of them."""
    return pairs if top == pairs.inner.size else Tail(pairs, top)
