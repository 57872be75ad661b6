"""Partial AUC by its definitions, in fractions: a threshold after the other, a pair after the other."""

from fractions import Fraction
from itertools import pairwise


def area(pos, neg, min_tpr, max_fpr, pos_weight=None, neg_weight=None):
    """Share of the region under the curve through all thresholds; borders are cut out of each line by itself."""
    m, phi = Fraction(min_tpr), Fraction(max_fpr)
    a = [Fraction(weight) for weight in (pos_weight or [1] * len(pos))]
    b = [Fraction(weight) for weight in (neg_weight or [1] * len(neg))]
    curve = [(Fraction(0), Fraction(0))]
    for threshold in sorted({*pos, *neg}, reverse=True):
        above = sum(weight for score, weight in zip(pos, a, strict=True) if score >= threshold)
        beside = sum(weight for score, weight in zip(neg, b, strict=True) if score >= threshold)
        curve.append((beside / sum(b), above / sum(a)))
    total = Fraction(0)
    for (f0, t0), (f1, t1) in pairwise(curve):
        if f1 == f0 or f0 >= phi:
            continue
        slope, end = (t1 - t0) / (f1 - f0), min(f1, phi)
        start = f0 if t0 >= m else f0 + (m - t0) / slope if slope > 0 else end
        if start < end:
            total += (end - start) * (slope * ((start + end) / 2 - f0) + t0 - m)
    return float(total / ((1 - m) * phi))


def counts(pos, neg, k1, k2):
    """Mean over the k1 lowest positives and the k2 highest negatives of 1[a > b] + ½ 1[a = b]."""
    low, high = sorted(pos)[:k1], sorted(neg)[len(neg) - k2 :]
    return sum((a > b) + 0.5 * (a == b) for a in low for b in high) / (k1 * k2)
