"""The share of selected pairs in the wrong order, smoothed by a sigmoid: bounded, and not convex.

For scores a of the k₁ lowest positives and b of the k₂ highest negatives,

    g(w) = (1/(k₁k₂)) Σᵢ Σⱼ σ(bⱼ − aᵢ),    σ(z) = 1/(1 + exp(−z)):

a pair that no model can put in order costs at most one, however wrong it is.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.fft
from scipy.special import expit

from xrisk.compile import kernel
from xrisk.data.rows import add_row, row_count, row_dot
from xrisk.data.threads import borders, in_parts
from xrisk.inner.oracle import (
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_samples,
    inner_size,
)
from xrisk.inner.pairs import Pairs
from xrisk.inner.passes import column_sizes

EXACT_PAIRS = 2_000_000  # pairs that are looked at one by one
REACH = 60.0  # scores farther from the middle of the selected ones count as that far: σ is 0 or 1 there
CELLS = 8192  # of the grid between −REACH and REACH


class SigmoidPairs(NamedTuple):
    """g(w) = mean of σ(sⱼ − sᵢ) over the ``lowest`` rows i of ``pairs.outer`` and the ``highest`` rows j of ``inner``.

    Full passes only: which rows are selected depends on all scores. The loss of the pairs is not used.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.data.rows import as_rows
    >>> from xrisk.inner import Pairs
    >>> from xrisk.inner.sigmoid_pairs import SigmoidPairs, pairs_in_order
    >>> g = SigmoidPairs(Pairs(as_rows(np.array([[0.0], [1.0], [2.0], [3.0]])), np.array([1, 3]), np.array([0, 2])))
    >>> pairs_in_order(g, np.ones(1))  # the positive at 1 stands below the negative at 2
    0.0
    """

    pairs: Pairs = Pairs()
    lowest: int = 1  # k₁
    highest: int = 1  # k₂

    def check(self) -> None:
        """Refuse numbers of rows that are not there."""
        for name, most in (("lowest", self.pairs.outer.size), ("highest", self.pairs.inner.size)):
            if isinstance(getattr(self, name), bool) or getattr(self, name) not in range(1, most + 1):
                raise ValueError(f"{name} must be a whole number from 1 to {most}, got {getattr(self, name)!r}")


class Selected(NamedTuple):
    """The selected rows and their scores."""

    rows_i: np.ndarray  # (k₁,)
    rows_j: np.ndarray  # (k₂,)
    a: np.ndarray  # (k₁,) scores of the rows i
    b: np.ndarray  # (k₂,) scores of the rows j


inner_count.of(SigmoidPairs)(lambda g: 1)
inner_dim.of(SigmoidPairs)(lambda g: 1)
inner_size.of(SigmoidPairs)(lambda g: inner_size(g.pairs))
inner_samples.of(SigmoidPairs)(lambda g: inner_samples(g.pairs))
inner_is_affine.of(SigmoidPairs)(lambda g: False)
column_sizes.of(SigmoidPairs)(lambda g: column_sizes(g.pairs))


@exact_values.of(SigmoidPairs)
def _(g, w, out):
    found = selected(g, w)
    out[0, 0] = sigmoid_mean(found.a, found.b).value


@exact_vjp.of(SigmoidPairs)
def _(g, w, y, grad):
    found = selected(g, w)
    mean, slopes = sigmoid_mean(found.a, found.b), np.zeros(row_count(g.pairs.rows))
    slopes[found.rows_i], slopes[found.rows_j] = y[0, 0] * mean.side_i, y[0, 0] * mean.side_j
    listed = np.flatnonzero(slopes)

    def part(low: int, high: int) -> np.ndarray:
        out = np.zeros(grad.size)
        chosen_adjoint(g.pairs.rows, listed, slopes, out, low, high)
        return out

    grad += sum(in_parts(part, borders(listed.size, grad.size)), np.zeros(grad.size))


def selected(g: SigmoidPairs, w: np.ndarray) -> Selected:
    """The rows that count at w. Rows of neither side are not read."""
    w, z = np.ascontiguousarray(w, dtype=np.float64), np.zeros(row_count(g.pairs.rows))
    for listed in (g.pairs.outer, g.pairs.inner):
        in_parts(partial(chosen_scores, g.pairs.rows, listed, w, z), borders(listed.size, w.size))
    a, b = z[g.pairs.outer], z[g.pairs.inner]
    del z  # a number for each row
    low = np.argpartition(a, g.lowest - 1)[: g.lowest]
    high = np.argpartition(b, b.size - g.highest)[b.size - g.highest :]
    return Selected(g.pairs.outer[low], g.pairs.inner[high], a[low], b[high])


def between_rates(pairs: Pairs, min_tpr: float, max_fpr: float) -> SigmoidPairs:
    """The pairs between two rates: at least one positive and one negative, however few there are."""
    lowest = int(np.floor(pairs.outer.size * (1.0 - min_tpr) + 1e-9))
    highest = int(np.floor(pairs.inner.size * max_fpr + 1e-9))
    return SigmoidPairs(pairs, max(lowest, 1), max(highest, 1))


def pairs_in_order(g: SigmoidPairs, w: np.ndarray) -> float:
    """The two-way partial AUC at w: the share of the selected pairs in the right order, ties by half."""
    found = selected(g, w)
    b = np.sort(found.b)
    before = np.searchsorted(b, found.a, "left") + np.searchsorted(b, found.a, "right")
    return float(before.mean()) / (2.0 * b.size)


@kernel
def chosen_scores(rows, listed, w, z, low, high):
    for place in range(low, high):
        z[listed[place]] = row_dot(rows, listed[place], w)


@kernel
def chosen_adjoint(rows, listed, slopes, grad, low, high):
    for place in range(low, high):
        add_row(rows, listed[place], slopes[listed[place]], grad)


class SigmoidMean(NamedTuple):
    """The mean of σ(bⱼ − aᵢ) over selected scores, and its slopes."""

    value: float
    side_i: np.ndarray  # (k₁,) in a
    side_j: np.ndarray  # (k₂,) in b


def sigmoid_mean(a: np.ndarray, b: np.ndarray) -> SigmoidMean:
    """The mean of σ(bⱼ − aᵢ) over all pairs: pair by pair where they are few, on a grid where they are many.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.inner.sigmoid_pairs import sigmoid_mean
    >>> found = sigmoid_mean(np.array([1.0]), np.array([1.0, -1.0]))
    >>> bool(np.isclose(found.value, (0.5 + 1 / (1 + np.exp(2.0))) / 2))
    True
    """
    return _pair_by_pair(a, b) if a.size * b.size <= EXACT_PAIRS else _on_grid(a, b)


def _pair_by_pair(a: np.ndarray, b: np.ndarray) -> SigmoidMean:
    wrong = expit(b[None, :] - a[:, None])
    slopes = wrong * (1.0 - wrong) / wrong.size
    return SigmoidMean(float(wrong.mean()), -slopes.sum(axis=1), slopes.sum(axis=0))


class Placed(NamedTuple):
    """Where scores lie between the points of the grid."""

    cell: np.ndarray  # of the point below
    part: np.ndarray  # of the way to the next one
    inside: np.ndarray  # whether the score is within reach


def _on_grid(a: np.ndarray, b: np.ndarray) -> SigmoidMean:
    """Scores shared between the two points next to them: σ is so smooth that this errs by 1e-6 at the most."""
    middle = 0.5 * (float(np.median(a)) + float(np.median(b)))
    width = 2.0 * REACH / CELLS
    placed_a, placed_b = _placed(a - middle, width), _placed(b - middle, width)
    differences = width * np.arange(-CELLS, CELLS + 1)
    missed = _crossed(_shares(placed_b) / b.size, expit(differences))  # by a positive at each point
    passed = _crossed(_shares(placed_a) / a.size, expit(-differences))
    value = float(_shares(placed_a) @ missed) / a.size
    return SigmoidMean(value, _slopes(placed_a, missed, width) / a.size, _slopes(placed_b, passed, width) / b.size)


def _placed(scores: np.ndarray, width: float) -> Placed:
    inside = np.abs(scores) < REACH
    at = (np.clip(scores, -REACH, REACH) + REACH) / width
    cell = np.minimum(at.astype(np.int64), CELLS - 1)
    return Placed(cell, at - cell, inside)


def _shares(placed: Placed) -> np.ndarray:
    counts = np.bincount(placed.cell, 1.0 - placed.part, CELLS + 1)
    return counts + np.bincount(placed.cell + 1, placed.part, CELLS + 1)


def _crossed(shares: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Σ_q shares[q]·kernel(q − p) at every point p; ``kernel`` is of differences −CELLS, …, CELLS."""
    size = scipy.fft.next_fast_len(3 * CELLS + 1, real=True)
    product = scipy.fft.rfft(shares, size) * scipy.fft.rfft(kernel[::-1], size)
    return scipy.fft.irfft(product, size)[CELLS : 2 * CELLS + 1]


def _slopes(placed: Placed, heights: np.ndarray, width: float) -> np.ndarray:
    return np.where(placed.inside, np.diff(heights)[placed.cell], 0.0) / width
