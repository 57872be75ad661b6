"""Sums of squares of the original data: values and slopes at a point, each with an error bound.

F(w) = factor·Σₖ shareₖ tₖ(w)² + ⟨linear, w⟩ + (l2/2)‖w‖²,    t affine in w with rows Aₖ.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from xrisk.certificate.rounding import EPS, TINY
from xrisk.data.threads import give_way

BLOCK = 1024  # rows that are added up together


class Residuals(NamedTuple):
    """t at a point, and the linear term."""

    value: np.ndarray  # (n,)
    error: np.ndarray  # (n,)
    linear: float
    linear_error: float


class Squares(NamedTuple):
    """F of the original data; ``rows`` and ``share`` are as computed."""

    rows: Callable[[int, int], Any]  # rows from one to another (b, d), dense or sparse
    share: np.ndarray  # (n,) with errors of a few roundings each
    factor: float
    l2: float
    linear: np.ndarray  # (d,)
    linear_error: np.ndarray  # (d,) error bound of it
    norms: np.ndarray  # (d,) of the columns, √(Σ share row²)
    loose: np.ndarray  # (d,) the same of the errors of the rows
    residuals: Callable[[np.ndarray, bool], Residuals]  # at a point; whether in twice the digits

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """The rows, block after block."""
        for low in range(0, self.share.size, BLOCK):
            give_way()
            part = slice(low, min(low + BLOCK, self.share.size))
            yield part, self.rows(part.start, part.stop)

    def rounding(self) -> float:
        """Relative error of a sum over all rows."""
        return sum_rounding(self.share.size)


class SquaresPoint(NamedTuple):
    """A point and what is known of F there."""

    w: np.ndarray
    value: float
    error: float  # bound of that of the value
    squares: float  # an upper bound on factor·Σ share t²
    slope: np.ndarray  # (d,) of all but the ridge
    error_bound: np.ndarray  # (d,) of it


def columns_of(F: Squares, kept: np.ndarray) -> Squares:
    """F on some of its columns, the others zero; its residuals are not to be used."""
    if kept.all():
        return F
    return F._replace(
        rows=lambda low, high: F.rows(low, high)[:, kept], linear=F.linear[kept],
        linear_error=F.linear_error[kept], norms=F.norms[kept], loose=F.loose[kept],
    )  # fmt: skip


def sum_rounding(n: int) -> float:
    """Relative error of a sum over n rows, block after block."""
    return EPS * (min(n, BLOCK) + n // BLOCK + 32)


def column_norms(
    share: np.ndarray, blocks: Iterator[tuple[slice, Any]], d: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the columns √(Σ share x²), Σ share x and Σ share |x|, each (d,)."""
    squares, means, sizes = np.zeros((3, d))
    for part, rows in blocks:
        squares += (rows * rows).T @ share[part]
        means += rows.T @ share[part]
        sizes += abs(rows).T @ share[part]
    return np.sqrt(squares) * (1.0 + sum_rounding(share.size)), means, sizes


def evaluate(F: Squares, w: np.ndarray, doubled: bool) -> SquaresPoint:
    """F and its slope at w, each with its error; ``doubled``: residuals in twice the digits."""
    t, error, linear, linear_error = F.residuals(w, doubled)
    adjoint, each = np.zeros(w.size), F.rounding()
    for part, rows in F.blocks():
        adjoint += rows.T @ (F.share[part] * t[part])
    most, error_bound = (float(np.sqrt(F.share @ x**2)) * (1.0 + each) for x in (t, error))
    squares, ridge = F.factor * float(F.share @ t**2), 0.5 * F.l2 * float(w @ w)
    error_bound_of_squares = F.factor * (each * most**2 + 2.0 * most * error_bound + error_bound**2) * (1.0 + each)
    error_bound_of_squares += TINY * t.size
    value = squares + linear + ridge
    wide = EPS * (w.size + 8) * ridge + 4.0 * EPS * (abs(value) + squares + abs(linear)) + TINY
    wrong = (each * most + error_bound) * F.norms + (most + error_bound) * F.loose
    slope_error = 2.0 * F.factor * wrong * (1.0 + 8.0 * EPS) + F.linear_error
    slope = 2.0 * F.factor * adjoint + F.linear
    slope_error += 4.0 * EPS * (np.abs(slope) + np.abs(F.linear)) + TINY
    value_error = error_bound_of_squares + linear_error + wide
    return SquaresPoint(w, value, value_error, squares + error_bound_of_squares, slope, slope_error)


def gradient_at(F: Squares, at: SquaresPoint) -> tuple[np.ndarray, np.ndarray]:
    """Gradient (d,) of F, and its error bound."""
    gradient = at.slope + F.l2 * at.w
    return gradient, at.error_bound + 2.0 * EPS * (np.abs(gradient) + F.l2 * np.abs(at.w))
