"""Dot products in twice the digits of a float, by error-free transformations (Ogita, Rump and Oishi, 2005)."""

from typing import NamedTuple

import numpy as np

from xrisk.certificate.rounding import EPS, TINY

SPLITTER = 2.0**27 + 1.0  # halves of the digits, whose products are exact


class DoubledScores(NamedTuple):
    """⟨row, w⟩ = high + low up to an error, for each row."""

    high: np.ndarray  # (n,)
    low: np.ndarray  # (n,)
    error: np.ndarray  # (n,)


def plain_scores(rows: np.ndarray, w: np.ndarray) -> DoubledScores:
    """The dot products as they are; rows (n, d) may be sparse."""
    high, size = np.asarray(rows @ w), np.asarray(abs(rows) @ np.abs(w))
    return DoubledScores(high, np.zeros_like(high), EPS * (w.size + 8) * size + w.size * TINY)


def doubled_scores(rows: np.ndarray, w: np.ndarray) -> DoubledScores:
    """The dot products with the errors of all products and sums added up."""
    high, low, size = np.zeros((3, rows.shape[0]))
    for column, weight in zip(np.ascontiguousarray(rows.T, dtype=np.float64), w, strict=True):
        if weight == 0.0:
            continue
        product, lost = _product(column, weight)
        high, rest = _sum(high, product)
        low += rest + lost
        size += np.abs(product)
    return DoubledScores(high, low, 8.0 * (EPS * (w.size + 4)) ** 2 * size + w.size * TINY)


def _product(x: np.ndarray, y: float) -> tuple[np.ndarray, np.ndarray]:
    """x·y rounded, and the rounding error."""
    product, (x1, x2), (y1, y2) = x * y, _halves(x), _halves(y)
    return product, x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)


def _halves(x: np.ndarray | float) -> tuple[np.ndarray | float, np.ndarray | float]:
    wide = SPLITTER * x
    high = wide - (wide - x)
    return high, x - high


def _sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded, and the rounding error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)
