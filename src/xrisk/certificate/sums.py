"""What the bounds need of the inner functions: their values and what a choice of slopes adds up to, with rounding."""

from typing import NamedTuple

import numpy as np

from xrisk.certificate.rounding import EPS, TINY
from xrisk.certificate.samples import (
    CHUNK,
    combine,
    conjugate_means,
    dual_width,
    feasible_slopes,
    kink_distance,
    means_with_error,
    pulls,
    slopes_at,
)
from xrisk.compile import specialise
from xrisk.functions import loss_is_affine, loss_kink
from xrisk.functions.special import norm
from xrisk.generic import generic
from xrisk.inner.groups import Groups
from xrisk.inner.models import model_is_affine
from xrisk.inner.oracle import inner_count, inner_size

# widths tried for the duals of losses with a kink, relative to the mean distance of scores from it
SMOOTHING = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)


class Weights(NamedTuple):
    """A point q of the dual set, known up to rounding, and the conjugate there."""

    q: np.ndarray  # (n, m)
    conjugate: float
    size: float  # of the terms of the conjugate
    defect: float  # a point that is exactly in the set is this near, in the sum of absolute values
    loose: float = 0.0  # of weights made smaller to balance a coordinate: those that do exactly are so near, relatively


class Sums(NamedTuple):
    """What a choice of slopes v adds up to."""

    mean: np.ndarray  # (n, m) of ℓ*(v)
    size: np.ndarray  # (n, m) of its terms
    pull: np.ndarray  # Σᵢ qᵢ mean v⊗x on the coordinates that are penalised
    off: float  # by which every entry of it may be off


@generic
def values_with_error(g, w):
    """The inner values and a bound on their errors, both (n, m)."""


@generic
def slope_candidates(g, w, known):
    """Slopes of the losses to try, in the domain of ℓ*: a list of what `dual_sums` takes."""


@generic
def dual_sums(g, weights, v, free):
    """What the slopes v add up to, the last ``free`` coordinates left out of the pull: `Sums`."""


@generic
def sum_rounding(g):
    """Relative error of sums over the samples, of weights, and of slopes that balance an intercept."""


@generic
def scaled_slopes(g, v, share):
    """The slopes times ``share``, of one entry or one for each sample."""


@generic
def balancing_slopes(g, q, v, free):
    """The share of each slope at which the last ``free`` coordinates have no pull."""


@generic
def balancing_weights(g, q, v, free):
    """The share of each weight at which the last ``free`` coordinates have no pull.

    And how near, relatively, are weights that balance them without rounding.
    """


@values_with_error.of(Groups)
def _(g, w):
    u, error = np.empty((2, inner_count(g), g.dim))
    # a dot product errs by d roundings; a projection leaves w outside by about as many
    specialise(means_with_error, g)(g, w, EPS * (2 * w.size + 16) * norm(w), u, error)
    return u, error


@slope_candidates.of(Groups)
def _(g, w, known):
    shape = (int(g.offsets[-1]), dual_width(g.model))
    candidates = []
    if known is not None:
        if np.shape(known) not in (shape, shape[:1]):
            raise ValueError(f"slopes must have shape {shape}, got {np.shape(known)}")
        candidates.append(np.array(known, dtype=np.float64).reshape(shape))
    for width in _widths(g, w) if known is None else (0.0,):
        v = np.empty(shape)
        specialise(slopes_at, g)(g, w, width, v)
        candidates.append(v)
    for v in candidates:
        specialise(feasible_slopes, g)(g, v)
    return candidates[:1] if model_is_affine(g.model) else candidates  # an affine loss has one slope


def _widths(g: Groups, w: np.ndarray) -> tuple[float, ...]:
    loss = g.model.loss
    if type(loss) not in loss_kink.table or loss_is_affine(loss):
        return (0.0,)
    scale = specialise(kink_distance, g)(g, w)
    return (0.0, *(scale * share for share in SMOOTHING))


@sum_rounding.of(Groups)
def _(g):
    return EPS * (CHUNK + float(g.offsets[-1]) / CHUNK + g.offsets.size + 512)


@dual_sums.of(Groups)
def _(g, weights, v, free):
    mean, size, spread = np.empty((3, *weights.q.shape))
    specialise(conjugate_means, g)(g, v, mean, size, spread)
    pull = np.zeros(inner_size(g))
    specialise(combine, g)(g, weights.q, v, pull)
    off = (sum_rounding(g) + weights.loose) * float((np.abs(weights.q) * spread).sum())
    off += weights.defect * float(spread.max())
    return Sums(mean, size, pull[: pull.size - free], off + TINY if off > 0.0 else 0.0)


@scaled_slopes.of(Groups)
def _(g, v, share):
    return v * share[:, None]


@balancing_slopes.of(Groups)
def _(g, q, v, free):
    return _balance(_free_pull(g, q, v), free) if free > 0 else np.ones(1)


@balancing_weights.of(Groups)
def _(g, q, v, free):
    if free == 0:
        return np.ones(1), 0.0
    parts = _free_pull(g, q, v)
    sums, size = np.add.reduceat(parts, g.offsets[:-1]), float(np.abs(parts).sum())
    left = float(np.abs(sums).sum())
    cancelled = size / left if left > 0.0 else np.inf if size > 0.0 else 1.0
    return _balance(sums, free), EPS * (float(np.diff(g.offsets).max()) + 512) * cancelled


def _free_pull(g: Groups, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What every position adds to the pull of a free coordinate, the last one."""
    last, parts = np.zeros(inner_size(g)), np.empty(v.shape[0])
    last[-1] = 1.0
    specialise(pulls, g)(g, q, v, last, parts)
    return parts


def _balance(parts: np.ndarray, free: int) -> np.ndarray:
    """By how much to shrink the parts on the heavier side so that their sum is zero; for several sums, to nothing."""
    if free > 1:
        return np.zeros(parts.size)
    above, below = float(parts[parts > 0].sum()), float(-parts[parts < 0].sum())
    up, down = (below / above, 1.0) if above > below else (1.0, above / below if below > 0.0 else 1.0)
    return np.where(parts > 0, up, np.where(parts < 0, down, 1.0))
