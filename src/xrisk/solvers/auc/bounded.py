"""A bounded surrogate of the two-way partial AUC over the selected pairs, anchored at a model that is good already.

For scores a of positives and b of negatives, the k₁ lowest and the k₂ highest of them,

    B(w) = (1/(k₁k₂)) Σᵢ Σⱼ σ(bⱼ − aᵢ) + (anchor/2) ‖w − w₀‖²,    σ(z) = 1/(1 + exp(−z)),

counts the pairs in the wrong order smoothly: a pair that cannot be put right costs one, however wrong it is. B is not
convex, so what is found is a local optimum near w₀, and nothing is proved of it.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.optimize
from scipy.special import expit

from xrisk.compile import kernel
from xrisk.data.rows import add_row, row_count, row_dot
from xrisk.data.threads import Interrupted, borders, in_parts, one_thread_each
from xrisk.inner.pairs import Pairs
from xrisk.inner.passes import column_sizes

EXACT_PAIRS = 2_000_000  # pairs that are looked at one by one
REACH = 60.0  # scores farther from the middle of the selected ones count as that far: σ is 0 or 1 there
CELLS = 8192  # of the grid between −REACH and REACH


class SigmoidMean(NamedTuple):
    """The mean of σ(bⱼ − aᵢ) over selected scores, and its slopes."""

    value: float
    side_i: np.ndarray  # (k₁,) in a
    side_j: np.ndarray  # (k₂,) in b


def bounded_mean(a: np.ndarray, b: np.ndarray) -> SigmoidMean:
    """The mean of σ(bⱼ − aᵢ) over all pairs: pair by pair where they are few, on a grid where they are many.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.solvers.auc.bounded import bounded_mean
    >>> found = bounded_mean(np.array([1.0]), np.array([1.0, -1.0]))
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


class Step(NamedTuple):
    """A point on the way."""

    w: np.ndarray  # (d,)
    value: float  # B(w)
    score: float  # share of the selected pairs in the right order, ties by half


class Ranking(NamedTuple):
    """The pairs that count: of the positives the lowest, of the negatives the highest."""

    rows: Any  # of both
    positive: np.ndarray  # numbers of rows
    negative: np.ndarray
    lowest: int  # k₁
    highest: int  # k₂
    size: np.ndarray  # (d,) of the columns, in units of which steps are taken

    def scores(self, w: np.ndarray) -> np.ndarray:
        """X w (rows,); zero of rows that are of neither side, which are not read."""
        w, z = np.ascontiguousarray(w, dtype=np.float64), np.zeros(row_count(self.rows))
        for listed in (self.positive, self.negative):
            in_parts(partial(chosen_scores, self.rows, listed, w, z), borders(listed.size, w.size))
        return z

    def adjoint(self, slopes: np.ndarray) -> np.ndarray:
        """Xᵀ slopes (d,), reading the rows whose slope is not zero."""
        listed = np.flatnonzero(slopes)

        def part(low: int, high: int) -> np.ndarray:
            grad = np.zeros(self.size.size)
            chosen_adjoint(self.rows, listed, slopes, grad, low, high)
            return grad

        return sum(in_parts(part, borders(listed.size, self.size.size)), np.zeros(self.size.size))

    def step_at(self, w: np.ndarray) -> Step:
        """What w is worth."""
        z = self.scores(w)
        return Step(w, bounded_objective(self, z)[0], pairs_in_order(self, z))

    def descended(
        self,
        start: np.ndarray,
        anchor: float,
        steps: int,
        watch: Callable[[Step], bool] = lambda step: False,
        begin: np.ndarray | None = None,
    ) -> Step:
        """From ``begin`` down B by L-BFGS; of the points passed, the start among them, that of most pairs in order.

        The anchor is (anchor/2) Σ (size_j (w_j − start_j))²; the descent begins at the start unless told otherwise.
        ``watch`` sees every step, and ends the descent by True; so does a pass that is interrupted.
        """
        ends = (start,) if begin is None or begin is start else (start, begin)
        begin = ends[-1]
        first, best = self.size * start, [max(map(self.step_at, ends), key=lambda step: step.score)]

        def value_and_slope(v: np.ndarray) -> tuple[float, np.ndarray]:
            value, slopes = bounded_objective(self, self.scores(v / self.size))
            away = v - first
            slope = self.adjoint(slopes) / self.size
            return value + 0.5 * anchor * float(away @ away), slope + anchor * away

        def look(intermediate_result: Any) -> None:
            w = intermediate_result.x / self.size
            step = Step(w, float(intermediate_result.fun), pairs_in_order(self, self.scores(w)))
            best[0] = step if step.score >= best[0].score else best[0]
            if watch(step):
                raise StopIteration

        options = {"maxiter": steps, "ftol": 1e-10}
        with (
            one_thread_each(),
            suppress(Interrupted),
        ):  # products of short vectors wait longer for threads than they take
            scipy.optimize.minimize(
                value_and_slope, self.size * begin, jac=True, method="L-BFGS-B", callback=look, options=options
            )
        return best[0]


@kernel
def chosen_scores(rows, listed, w, z, low, high):
    for place in range(low, high):
        z[listed[place]] = row_dot(rows, listed[place], w)


@kernel
def chosen_adjoint(rows, listed, slopes, grad, low, high):
    for place in range(low, high):
        add_row(rows, listed[place], slopes[listed[place]], grad)


def ranking_of(pairs: Pairs, min_tpr: float, max_fpr: float) -> Ranking:
    """The pairs between two rates; at least one positive and one negative, however few there are."""
    lowest = int(np.floor(pairs.outer.size * (1.0 - min_tpr) + 1e-9))
    highest = int(np.floor(pairs.inner.size * max_fpr + 1e-9))
    size = column_sizes(pairs)
    size = np.where(size > 0.0, size, 1.0)
    return Ranking(pairs.rows, pairs.outer, pairs.inner, max(lowest, 1), max(highest, 1), size)


def pairs_in_order(ranking: Ranking, z: np.ndarray) -> float:
    """The two-way partial AUC of the scores z (rows,): the share of the selected pairs in the right order."""
    a = np.partition(z[ranking.positive], ranking.lowest - 1)[: ranking.lowest]
    b = z[ranking.negative]
    b = np.sort(np.partition(b, b.size - ranking.highest)[b.size - ranking.highest :])
    side_j = np.searchsorted(b, a, "left") + np.searchsorted(b, a, "right")
    return float(side_j.mean()) / (2.0 * b.size)


def bounded_objective(ranking: Ranking, z: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean of σ(bⱼ − aᵢ) over the selected pairs at the scores z (rows,), and its slopes (rows,)."""
    a, b = z[ranking.positive], z[ranking.negative]
    low = np.argpartition(a, ranking.lowest - 1)[: ranking.lowest]
    high = np.argpartition(b, b.size - ranking.highest)[b.size - ranking.highest :]
    found, slopes = bounded_mean(a[low], b[high]), np.zeros(z.size)
    slopes[ranking.positive[low]] = found.side_i
    slopes[ranking.negative[high]] = found.side_j
    return found.value, slopes
