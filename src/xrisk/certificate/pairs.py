"""Both sides of a certificate for pairs of rows, in passes over pairs that keep nothing of a single pair."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate.rounding import EPS, TINY
from xrisk.certificate.samples import smoothed_slope
from xrisk.certificate.sums import (
    SMOOTHING,
    Sums,
    balancing_slopes,
    balancing_weights,
    dual_sums,
    scaled_slopes,
    slope_candidates,
    sum_rounding,
    values_with_error,
)
from xrisk.compile import kernel, specialise
from xrisk.functions import (
    Logistic,
    loss_conjugate,
    loss_domain,
    loss_is_affine,
    loss_kink,
    loss_lipschitz,
    loss_value,
)
from xrisk.functions.special import norm
from xrisk.generic import generic
from xrisk.inner.oracle import inner_size
from xrisk.inner.pairs import Pairs, listed_norms, pair_scores, pull_pairs


class PairSlopes(NamedTuple):
    """Slopes v of the losses of all pairs, by the scores they are computed from: n + m numbers, not n·m.

    vᵢⱼ = scale·(slope of ``loss``, smoothed by ``width``, at ahead[i] − behind[j], moved by share[i] times its change).
    """

    loss: Any = Logistic()
    ahead: np.ndarray = np.zeros(1)  # (n,) scores of the rows i, times the side
    behind: np.ndarray = np.zeros(1)  # (m,) scores of the rows j, times the side
    ahead_move: np.ndarray = np.zeros(1)  # (n,) their changes in the last step
    behind_move: np.ndarray = np.zeros(1)  # (m,)
    share: np.ndarray = np.zeros(1)  # (n,)
    width: float = 0.0
    scale: float = 1.0


@generic
def pair_slope(loss, margin, move, width):
    """Slope of the loss smoothed by ``width``, to first order after the margin has moved on by ``move``."""


@pair_slope.otherwise
def _(loss, margin, move, width):
    return smoothed_slope(loss, margin, 1.0, width)


def slopes_there(g: Pairs, w: np.ndarray, width: float = 0.0) -> PairSlopes:
    """The slopes at w."""
    ahead, behind = pair_scores(g, w)
    n, m = np.zeros(ahead.size), np.zeros(behind.size)
    return PairSlopes(g.loss, ahead, behind, n, m, n, width, 1.0)


def _norms(g: Pairs) -> tuple[np.ndarray, np.ndarray]:
    outer, inner = np.empty(g.outer.size), np.empty(g.inner.size)
    specialise(listed_norms, g.rows)(g.rows, g.outer, outer)
    specialise(listed_norms, g.rows)(g.rows, g.inner, inner)
    return outer, inner


@values_with_error.of(Pairs)
def _(g, w):
    u, error = np.empty((2, g.outer.size, 1))
    # a score errs by d roundings of the sizes of w and of its row, not of the difference of two rows
    reach = EPS * (2 * w.size + 16) * norm(w)
    outer, inner = _norms(g)
    ahead, behind = pair_scores(g, w)
    specialise(pair_means_with_error, g.loss)(g.loss, ahead, behind, reach * outer, reach * inner, u[:, 0], error[:, 0])
    return u, error


@slope_candidates.of(Pairs)
def _(g, w, known):
    if known is not None:
        if not isinstance(known, PairSlopes) or (known.ahead.size, known.behind.size) != (g.outer.size, g.inner.size):
            raise ValueError(f"slopes of {g.outer.size} × {g.inner.size} pairs must be the PairSlopes of as many rows")
        return [known, slopes_there(g, w)]
    return [slopes_there(g, w, width) for width in _widths(g, w)]


def _widths(g: Pairs, w: np.ndarray) -> tuple[float, ...]:
    if type(g.loss) not in loss_kink.table or loss_is_affine(g.loss):
        return (0.0,)
    ahead, behind = pair_scores(g, w)
    spread = float(np.abs(ahead - np.median(behind) - loss_kink(g.loss, 1.0)[2]).mean())
    return (0.0, *(spread * share for share in SMOOTHING))


@scaled_slopes.of(Pairs)
def _(g, v, share):
    return v._replace(scale=float(share[0]) * v.scale)


@balancing_slopes.of(Pairs)
@balancing_weights.of(Pairs)
def _(g, q, v, free):
    return np.full(1, 1.0 if free == 0 else 0.0)


@sum_rounding.of(Pairs)
def _(g):
    return EPS * (2 * (g.outer.size + g.inner.size) + 512)


@dual_sums.of(Pairs)
def _(g, weights, v, free):
    mean, size, spread = np.empty((3, *weights.q.shape))
    up, down, pull = np.zeros(g.outer.size), np.zeros(g.inner.size), np.zeros(inner_size(g))
    q = np.ascontiguousarray(weights.q[:, 0])
    specialise(pair_conjugates, g.loss, v)(g.loss, v, *_norms(g), q, mean[:, 0], size[:, 0], spread[:, 0], up, down)
    pull_pairs(g, up, down, pull)
    off = sum_rounding(g) * float((np.abs(weights.q) * spread).sum()) + weights.defect * float(spread.max())
    return Sums(mean, size, pull[: pull.size - free], off + TINY if off > 0.0 else 0.0)


@kernel
def pair_means_with_error(loss, ahead, behind, off_ahead, off_behind, u, error):
    """Means over j, and by how much they may be off: by rounding, and by that of the scores."""
    steepest = loss_lipschitz(loss)
    for i in range(ahead.size):
        total, lost, off, size = 0.0, 0.0, 0.0, 0.0
        for j in range(behind.size):
            margin, reach = ahead[i] - behind[j], off_ahead[i] + off_behind[j]
            value = loss_value(loss, margin, 1.0)
            rise = steepest * reach
            if not rise < np.inf:
                above = max(loss_value(loss, margin - reach, 1.0), loss_value(loss, margin + reach, 1.0))  # ℓ is convex
                rise = above - value
            off += rise
            size += 2.0 * abs(value) + rise
            term = value - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
        u[i] = total / behind.size
        error[i] = (off * (1.0 + EPS * behind.size) + 16.0 * EPS * size) / behind.size


@kernel
def pair_conjugates(loss, slopes, norm_ahead, norm_behind, q, mean, size, spread, up, down):
    """Means over j of ℓ*(v), of its terms and of ‖v (xᵢ − xⱼ)‖; sums of q v over j and over i."""
    s, count = slopes, slopes.behind.size
    low, high = loss_domain(loss, 1.0)
    for i in range(s.ahead.size):
        total, lost, terms, length, pull = 0.0, 0.0, 0.0, 0.0, 0.0
        share = q[i] / count
        for j in range(count):
            move = s.share[i] * (s.ahead_move[i] - s.behind_move[j])
            v = pair_slope(s.loss, s.ahead[i] - s.behind[j], move, s.width)
            v = s.scale * min(max(v, low), high)
            value = loss_conjugate(loss, v, 1.0)
            terms += abs(value) + 2.0 * abs(v)
            length += abs(v) * (norm_ahead[i] + norm_behind[j])
            pull += v
            down[j] += share * v
            term = value - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
        mean[i], size[i], spread[i], up[i] = total / count, terms / count, length / count, share * pull
