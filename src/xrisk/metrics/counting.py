"""Compiled passes over scores: classes, scores between two others, ordered pairs, weights at each distinct score."""

import numpy as np

from xrisk.compile import kernel


@kernel
def classes_apart(scores, positive):
    """The scores with those of positives first, and their number; without branches, as classes come in random order."""
    n = scores.size
    found = np.empty(n, scores.dtype)
    i, j = 0, n - 1
    for k in range(n):
        found[i] = found[j] = scores[k]
        one = np.int64(positive[k])
        i += one
        j -= 1 - one
    return found, i


@kernel
def between(scores, low, high):
    """The scores in (low, high), moved to the front, and how many are > low, ≥ low, > high and ≥ high."""
    inside = above_low = from_low = above_high = from_high = 0
    for k in range(scores.size):
        s = scores[k]
        scores[inside] = s
        inside += np.int64(s > low) * np.int64(s < high)
        above_low += np.int64(s > low)
        from_low += np.int64(s >= low)
        above_high += np.int64(s > high)
        from_high += np.int64(s >= high)
    return scores[:inside], (above_low, from_low), (above_high, from_high)


@kernel
def twice_won(pos, neg):
    """Σ over positives of #{negatives < it} + #{negatives ≤ it}, of sorted scores: two merges, side by side."""
    n_pos, n_neg = pos.size, neg.size
    i = j = a = b = won = 0
    while i < n_pos and j < n_neg and a < n_pos and b < n_neg:
        i, j, won = merged(i, j, won, neg[j] < pos[i])
        a, b, won = merged(a, b, won, neg[b] <= pos[a])
    while i < n_pos and j < n_neg:
        i, j, won = merged(i, j, won, neg[j] < pos[i])
    while a < n_pos and b < n_neg:
        a, b, won = merged(a, b, won, neg[b] <= pos[a])
    return won + (n_pos - i + n_pos - a) * n_neg


@kernel
def merged(i, j, won, is_lower):
    """A merge one score further: past negative j if that is below positive i, else past i, with j below it."""
    one = np.int64(is_lower)
    return i + 1 - one, j + one, won + (1 - one) * j


@kernel
def block_sums(scores, positive, weight, order):
    """The weights of positives and of negatives at each distinct score, the last in ``order`` first."""
    p, q = np.zeros(order.size), np.zeros(order.size)
    block, last = -1, scores[order[-1]]
    for k in range(order.size - 1, -1, -1):
        row = order[k]
        if scores[row] != last or block < 0:
            block, last = block + 1, scores[row]
        one = np.float64(positive[row])
        p[block] += one * weight[row]
        q[block] += (1.0 - one) * weight[row]
    return p[: block + 1], q[: block + 1]
