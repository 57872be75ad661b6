"""Weighted sums of losses over all pairs of two lists of scores, in O(n log n) where the loss allows it."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Loss
from xrisk.compile import kernel, specialise
from xrisk.data.threads import borders, give_way, in_parts
from xrisk.functions.loss import ExponentialLoss, HingeLoss, Squared, SquaredHinge, loss_terms
from xrisk.generic import generic

EPS = float(np.finfo(np.float64).eps)
WORK = 2**22  # pairs that are looked at before a pass gives way: some 50 ms


class PairTerms(NamedTuple):
    """Of losses ℓᵢⱼ = ℓ(aheadᵢ − behindⱼ) and their slopes: sums over j by weight, sums over i by share."""

    values: np.ndarray  # (n,) Σⱼ weightⱼ ℓᵢⱼ
    up: np.ndarray  # (n,) Σⱼ weightⱼ ℓ′ᵢⱼ
    down: np.ndarray  # (m,) Σᵢ shareᵢ ℓ′ᵢⱼ


@generic
def pair_terms(loss, ahead, behind, share, weight):
    """`PairTerms` of scores ``ahead`` (n,) and ``behind`` (m,), with shares (n,) and weights (m,)."""


def sums_by_order(loss: Loss) -> bool:
    """Whether `pair_terms` of a loss take O(n log n), not a look at every pair."""
    return type(loss) in pair_terms.table


@generic
def pair_rounding(loss, n, m):
    """Relative error of these sums of n and m terms, by the sums of absolute values."""


@pair_rounding.otherwise
def _(loss, n, m):
    return EPS * (max(n, m) + 64)


@pair_rounding.of(HingeLoss)
@pair_rounding.of(SquaredHinge)
def _(loss, n, m):
    return 8 * EPS * (n + m + 64)  # a sweep adds to the same sums at every score of either side


@pair_terms.of(HingeLoss)
def _(loss, ahead, behind, share, weight):
    sums, down = gap_sums(ahead, behind, share, weight)
    return PairTerms(sums[1], -sums[0], -down[0])


@pair_terms.of(SquaredHinge)
def _(loss, ahead, behind, share, weight):
    sums, down = gap_sums(ahead, behind, share, weight)
    return PairTerms(sums[2], -2.0 * sums[1], -2.0 * down[1])


@pair_terms.of(Squared)
def _(loss, ahead, behind, share, weight):
    """½(1 − aheadᵢ + behindⱼ)² by means and scatter: no digits are lost where scores share a large offset."""
    short = 1.0 - ahead
    mass, middle = _mean(behind, weight)
    counted, centre = _mean(short, share)
    gaps = short + middle
    values = 0.5 * (mass * gaps**2 + float(weight @ (behind - middle) ** 2))
    return PairTerms(values, -mass * gaps, -counted * (behind + centre))


def _mean(scores: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """The sum of the weights, and the mean of the scores by weight; 0 where nothing counts."""
    total = float(weight.sum())
    return total, float(weight @ scores) / total if total else 0.0


@pair_terms.of(ExponentialLoss)
def _(loss, ahead, behind, share, weight):
    top, low = behind.max(), ahead.min()  # exp overflows at 710
    fall, rise = np.exp(low - ahead), np.exp(behind - top)
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.exp(top - low) * (fall * float(weight @ rise))
        down = -np.exp(top - low) * (rise * float(share @ fall))
    return PairTerms(values, -values, down)


@pair_terms.otherwise
def _(loss, ahead, behind, share, weight):
    values, up = np.empty(ahead.size), np.empty(ahead.size)
    add = specialise(add_losses, loss)

    def part(low: int, high: int) -> np.ndarray:
        down, step = np.zeros(behind.size), max(1, WORK // behind.size)
        for start in range(low, high, step):
            give_way()
            span = slice(start, min(start + step, high))
            add(loss, ahead[span], behind, share[span], weight, (values[span], up[span], down))
        return down

    downs = in_parts(part, borders(ahead.size, 4.0 * behind.size))
    return PairTerms(values, up, sum(downs[1:], downs[0]))


@kernel
def add_losses(loss, ahead, behind, share, weight, into):
    values, up, down = into
    for i in range(ahead.size):
        total, slopes = 0.0, 0.0
        for j in range(behind.size):
            value, slope, _ = loss_terms(loss, ahead[i] - behind[j], 1.0)
            total += weight[j] * value
            slopes += weight[j] * slope
            down[j] += share[i] * slope
        values[i], up[i] = total, slopes


def gap_sums(ahead: Any, behind: Any, share: Any, weight: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of the gaps 1 − aheadᵢ + behindⱼ that are positive: how many, their sum, that of squares.

    By weight over j for every i (3, n), and by share over i for every j (3, m). Both sides are sorted once. A gap is
    the sum of the same two numbers seen from either side: at a kink both must count the same pairs.
    """
    short = 1.0 - ahead
    rising = np.argsort(short)
    give_way()  # a sorting of all scores takes as long as a pass
    falling = np.argsort(-behind)
    give_way()
    sums, down = np.empty((3, short.size)), np.zeros((3, behind.size))
    weigh_gaps(short, rising, behind[falling], weight[falling], sums)
    counted = rising[::-1]
    counted = counted[share[counted] != 0.0]
    if counted.size:
        weigh_gaps(behind, falling[::-1], short[counted], share[counted], down)
    return sums, down


@kernel
def weigh_gaps(ones, rising, others, weight, sums):
    """Gaps only grow along the sweep, so that with positive weights nothing but positive numbers is added up."""
    at, counted, mass, first, second = 0.0, 0, 0.0, 0.0, 0.0
    for i in rising:
        one = ones[i]
        if counted > 0:
            rise = one - at
            second += rise * (2.0 * first + mass * rise)
            first += mass * rise
        at = one
        while counted < others.size and one + others[counted] > 0.0:
            gap = one + others[counted]
            mass += weight[counted]
            first += weight[counted] * gap
            second += weight[counted] * gap * gap
            counted += 1
        sums[0, i], sums[1, i], sums[2, i] = mass, first, second
