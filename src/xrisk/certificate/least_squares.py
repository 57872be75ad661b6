"""Proofs for least squares from the data themselves, where a rewritten objective would not be theirs.

    F(w) = factor·Σₖ shareₖ tₖ(w)² + ⟨linear, w⟩ + (l2/2)‖w‖²,    t affine in w with rows Aₖ,

is at every w + δ its value and slope at w and δᵀHδ with H = factor·AᵀPA + (l2/2)·I. What is computed comes with how far
it may be from what the numbers of the data stand for; a bound on H⁻¹ is that of a matrix W with WᵀHW near I.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from xrisk.certificate.bounds import NOTHING_PROVED, Certificate, between
from xrisk.certificate.penalties import bound_conjugate, distance_above
from xrisk.certificate.rounding import EPS, TINY
from xrisk.compile import worthwhile
from xrisk.data.threads import give_way, one_thread_each
from xrisk.functions import Hyperplane, L1Ball, LeveragedBudget, NonNegative, NoPenalty
from xrisk.generic import generic
from xrisk.problem import apply_prox

BLOCK = 1024  # rows that are added up together
WHITENINGS = 6
MOST_COLUMNS = 2000  # of which the curvature is looked at
STEPS = 3  # of Newton's method that a proof may make
NEAR, NEAREST = 0.5, 1e-3  # of ‖WᵀHW − I‖, at most, and where it is near enough


class Residuals(NamedTuple):
    """t at a point, and the linear term."""

    value: np.ndarray  # (n,)
    error: np.ndarray  # (n,)
    linear: float
    linear_error: float


class Squares(NamedTuple):
    """F as the data have it; ``rows`` and ``share`` are as computed."""

    rows: Callable[[int, int], Any]  # rows from one to another (b, d), dense or sparse
    share: np.ndarray  # (n,) off by a few roundings each
    factor: float
    l2: float
    linear: np.ndarray  # (d,)
    linear_off: np.ndarray  # (d,)
    norms: np.ndarray  # (d,) of the columns, √(Σ share row²)
    loose: np.ndarray  # (d,) the same of what the rows may be off by
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


class Look(NamedTuple):
    """What is known of F at a point."""

    w: np.ndarray
    value: float
    error: float
    squares: float  # a bound on factor·Σ share t² from above
    slope: np.ndarray  # (d,) of all but the ridge
    error_bound: np.ndarray  # (d,) by which that may be off


class Whitening(NamedTuple):
    """W with ‖Wᵀ(H + spare·11ᵀ)W − I‖ ≤ off < 1."""

    W: np.ndarray
    error_bound: float
    spare: float


class ProvedPoint(NamedTuple):
    """A point, F there and what is proved."""

    w: np.ndarray
    value: float
    certificate: Certificate


Below = Callable[[Look], float]


class Flat(NamedTuple):
    """Columns that a minimiser moves freely in, and what its entries sum to there."""

    columns: np.ndarray  # mask (d,)
    total: float | None = None


@generic
def flat_of(domain: Any, F: Squares, seen: Look) -> Flat | None:
    """A flat that holds the face of w; None where there is no use in leaving the domain."""


@flat_of.otherwise
def _(domain, F, seen):
    return None


@flat_of.of(NoPenalty)
@flat_of.of(L1Ball)
def _(domain, F, seen):
    return Flat(np.ones(seen.w.size, dtype=bool))


@flat_of.of(Hyperplane)
@flat_of.of(LeveragedBudget)
def _(domain, F, seen):
    return Flat(np.ones(seen.w.size, dtype=bool), float(domain.total))


@flat_of.of(NonNegative)
def _(domain, F, seen):
    # of w and its slope one is zero at the minimiser: the smaller of the two is meant to be
    held = 2.0 * F.factor * F.norms**2
    return Flat((seen.w > 0.0) & ((held * seen.w > seen.slope) | (seen.slope <= 4.0 * seen.error_bound)))


def certify_squares(F: Squares, domain: Any, below: Below, w: np.ndarray, *, tol: float, steps: int = 0) -> ProvedPoint:
    """The point and its certificate; w is looked at in twice the digits where the gap is above ``tol`` otherwise.

    ``below`` bounds the optimum by what is seen at a point, without the curvature. With ``steps`` Newton's steps on the
    face of w lead to the digits that the data have, where those of a rewritten problem have ended.
    """
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
        return _certified(F, domain, below, w, tol, steps)


def _certified(F: Squares, domain: Any, below: Below, w: np.ndarray, tol: float, steps: int) -> ProvedPoint:
    found, white = ProvedPoint(w, np.nan, NOTHING_PROVED), None
    for attempt in range(2 + steps):
        seen = look_at(F, w, doubled=attempt > 0)
        found = _with(F, domain, found, seen, below(seen))
        flat = flat_of(domain, F, seen)
        if found.certificate.relative <= tol or flat is None or not 0 < flat.columns.sum() <= MOST_COLUMNS:
            if found.certificate.relative <= tol or attempt:
                break
            continue
        part = columns_of(F, flat.columns)
        if white is None or white.W.shape[0] != part.linear.size:
            white = whitening(part, flat.total is not None)
        if white is None:
            continue
        found = _with(F, domain, found, seen, _curved(F, below, flat, seen, white))
        if found.certificate.relative <= tol:
            break
        w = _moved(part, domain, flat, seen, white) if attempt and steps else w
    return found


def _with(F: Squares, domain: Any, found: ProvedPoint, seen: Look, dual: float) -> ProvedPoint:
    """The better of two points, with the better of two bounds."""
    primal, known = objective_above(F, seen, domain), found.certificate
    if primal < known.primal:
        found = ProvedPoint(seen.w, seen.value, known)
    return found._replace(certificate=between(min(primal, known.primal), max(dual, known.dual)))


def _curved(F: Squares, below: Below, flat: Flat, seen: Look, white: Whitening) -> float:
    """A bound by the curvature of F; of some columns that of a point at which the others pull no way they may go."""
    if flat.columns.all():
        return curved_below(F, seen, white, flat.total)
    if F.l2 > 0.0:
        return -np.inf  # the ridge has bounded it
    above = seen.w.copy()
    short = 8.0 * seen.error_bound[flat.columns] - seen.slope[flat.columns]
    above[flat.columns] += 0.5 * (white.W @ (white.W.T @ short))
    return below(look_at(F, above, doubled=True))


def _moved(part: Squares, domain: Any, flat: Flat, seen: Look, white: Whitening) -> np.ndarray:
    """Newton's step on the flat, moved back into the domain."""
    held, w = flat.columns, np.zeros(seen.w.size)
    here = seen._replace(w=seen.w[held], slope=seen.slope[held], error_bound=seen.error_bound[held])
    w[held] = newton_step(part, here, white, flat.total)
    apply_prox(domain, w, 1.0)
    return w


def columns_of(F: Squares, held: np.ndarray) -> Squares:
    """F on some of its columns, the others zero; of its residuals nothing is known."""
    if held.all():
        return F
    parts = {name: getattr(F, name)[held] for name in ("linear", "linear_off", "norms", "loose")}
    return F._replace(rows=lambda low, high: F.rows(low, high)[:, held], **parts)


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


def look_at(F: Squares, w: np.ndarray, doubled: bool) -> Look:
    """F and its slope at w, each with its error."""
    t, error, linear, linear_error = F.residuals(w, doubled)
    adjoint, each = np.zeros(w.size), F.rounding()
    for part, rows in F.blocks():
        adjoint += rows.T @ (F.share[part] * t[part])
    most, error_bound = (float(np.sqrt(F.share @ x**2)) * (1.0 + each) for x in (t, error))
    squares, ridge = F.factor * float(F.share @ t**2), 0.5 * F.l2 * float(w @ w)
    squares_error_bound = (
        F.factor * (each * most**2 + 2.0 * most * error_bound + error_bound**2) * (1.0 + each) + TINY * t.size
    )
    value = squares + linear + ridge
    wide = EPS * (w.size + 8) * ridge + 4.0 * EPS * (abs(value) + squares + abs(linear)) + TINY
    far = (each * most + error_bound) * F.norms + (most + error_bound) * F.loose
    slope_off = 2.0 * F.factor * far * (1.0 + 8.0 * EPS) + F.linear_off
    slope = 2.0 * F.factor * adjoint + F.linear
    slope_off += 4.0 * EPS * (np.abs(slope) + np.abs(F.linear)) + TINY
    return Look(w, value, squares_error_bound + linear_error + wide, squares + squares_error_bound, slope, slope_off)


def objective_above(F: Squares, seen: Look, domain: Any) -> float:
    """A bound on F at w from above, and at a point of the domain, where rounding has left w outside."""
    far = float(distance_above(domain, seen.w))
    gradient, error_bound = _gradient(F, seen)
    steepest = float((np.abs(gradient) + error_bound).max())
    curvature = F.factor * float(((F.norms + F.loose) ** 2).max()) + 0.5 * F.l2
    above = seen.value + seen.error + (far * steepest + far * far * curvature) * (1.0 + 16.0 * EPS)
    above += 4.0 * EPS * abs(above)
    return above if np.isfinite(above) else np.inf


def conjugate_below(seen: Look, penalty: Any) -> float:
    """A bound on the optimum where t is linear: −factor·Σ share t² − r*(−slope), r the ridge on the domain."""
    above = float(worthwhile(bound_conjugate, seen.w.size, penalty)(penalty, -seen.slope, seen.error_bound))
    below = -seen.squares - above - 4.0 * EPS * (seen.squares + abs(above)) - TINY
    return below if np.isfinite(below) else -np.inf


def curved_below(F: Squares, seen: Look, white: Whitening, total: float | None = None) -> float:
    """A bound on the optimum of F over all w, or over Σ w = total: F − ¼ gᵀH⁻¹g, g the gradient less any κ·1."""
    gradient, error_bound = _gradient(F, seen)
    if total is None:
        return _less(seen, white, gradient, error_bound, 0.0)
    shift, here = _multiplier(white, gradient), math.fsum([total, *(-seen.w)])
    gradient = gradient - shift
    error_bound = error_bound + EPS * (np.abs(gradient) + abs(shift))
    moved = shift * here - 4.0 * EPS * abs(shift * here) - white.spare * here**2 * (1.0 + 8.0 * EPS)
    return _less(seen, white, gradient, error_bound, moved)


def _less(seen: Look, white: Whitening, gradient: np.ndarray, error_bound: np.ndarray, moved: float) -> float:
    """F + moved − ¼ gᵀH⁻¹g from below."""
    W = np.abs(white.W)
    reach = np.abs(white.W.T @ gradient) + (error_bound + EPS * (W.shape[0] + 8) * np.abs(gradient)) @ W
    fall = float(reach @ reach) * (1.0 + EPS * (2 * W.shape[0] + 16)) / (4.0 * (1.0 - white.error_bound))
    below = seen.value - seen.error - fall + moved
    below -= 8.0 * EPS * (abs(seen.value) + fall + abs(moved)) + TINY
    return float(below) if np.isfinite(below) else -np.inf


def ridge_below(F: Squares, seen: Look) -> float:
    """A bound on the optimum over all w, without a linear term: zero, or by the ridge F − ‖gradient‖²/(2·l2)."""
    if not F.l2 > 0.0:
        return 0.0
    gradient, error_bound = _gradient(F, seen)
    fall = float(((np.abs(gradient) + error_bound) ** 2).sum()) * (1.0 + EPS * (error_bound.size + 16)) / (2.0 * F.l2)
    below = seen.value - seen.error - fall - 8.0 * EPS * (abs(seen.value) + fall) - TINY
    return max(float(below), 0.0) if np.isfinite(below) else 0.0


def newton_step(F: Squares, seen: Look, white: Whitening, total: float | None = None) -> np.ndarray:
    """The minimiser (d,) of F over all w, or over Σ w = total, up to the rounding of one step."""
    gradient = _gradient(F, seen)[0]
    if total is not None:
        gradient = gradient - _multiplier(white, gradient)
    w = seen.w - 0.5 * (white.W @ (white.W.T @ gradient))
    if total is not None:
        ones = white.W @ white.W.sum(axis=0)
        w = w + ones * ((total - w.sum()) / ones.sum())
    return w


def _gradient(F: Squares, seen: Look) -> tuple[np.ndarray, np.ndarray]:
    gradient = seen.slope + F.l2 * seen.w
    return gradient, seen.error_bound + 2.0 * EPS * (np.abs(gradient) + F.l2 * np.abs(seen.w))


def _multiplier(white: Whitening, gradient: np.ndarray) -> float:
    """κ that leaves the least of gᵀH⁻¹g."""
    ones = white.W.sum(axis=0)
    return float(ones @ (white.W.T @ gradient) / (ones @ ones))


def whitening(F: Squares, with_sum: bool = False) -> Whitening | None:
    """W with WᵀHW near I, which proves H to be definite; None where rounding leaves no proof.

    Each round divides by the Cholesky factor of what the last one has left (Fukaya and others, 2020, shifted Cholesky
    QR), so that columns may be almost dependent. ``with_sum`` adds a multiple of 11ᵀ, for directions of sum zero.
    """
    held = F.factor * F.norms**2 + 0.5 * F.l2
    spare = float(held.max()) if with_sum else 0.0
    if not (np.isfinite(held).all() and (held + spare > 0.0).all()):
        return None
    W, best = np.diag(1.0 / np.sqrt(held + spare)), None
    for _ in range(WHITENINGS):
        M, wrong = _whitened(F, W, spare)
        error_bound = float((np.abs(M - np.eye(len(M))) + wrong).sum(axis=1).max())
        if error_bound <= NEAR and (best is None or error_bound < best.error_bound):
            best = Whitening(W, error_bound, spare)
        factor = _shifted_factor(M) if error_bound > NEAREST else None
        if factor is None or (best is not None and best.W is not W):
            return best
        W = scipy.linalg.solve_triangular(factor, W.T, lower=True, check_finite=False).T
    return best


def _shifted_factor(M: np.ndarray) -> np.ndarray | None:
    shift = EPS * float(np.abs(np.diag(M)).max()) * len(M)
    for more in (0.0, 4.0, 1e2, 1e4, 1e8):
        try:
            return np.linalg.cholesky(M + more * shift * np.eye(len(M)))
        except np.linalg.LinAlgError:
            continue
    return None


def _whitened(F: Squares, W: np.ndarray, spare: float) -> tuple[np.ndarray, np.ndarray]:
    """Wᵀ(H + spare·11ᵀ)W (d, d) and how far each entry may be off."""
    M, d = np.zeros_like(W), len(W)
    for part, rows in F.blocks():
        Z = rows @ W
        M += Z.T @ (F.share[part, None] * Z)
    M *= F.factor
    lengths, root = np.sqrt(np.maximum(np.diag(M), 0.0)), np.sqrt(F.factor)
    size = np.abs(W)
    wrong = root * (EPS * (d + 8) * F.norms + F.loose) @ size
    error = np.outer(wrong, lengths) + np.outer(lengths, wrong) + np.outer(wrong, wrong)
    error += F.rounding() * np.outer(lengths, lengths)
    sums = np.sqrt(spare) * W.sum(axis=0)
    wrong = np.sqrt(spare) * EPS * (d + 8) * size.sum(axis=0)
    error += np.outer(wrong, np.abs(sums)) + np.outer(np.abs(sums), wrong) + np.outer(wrong, wrong)
    error += EPS * (2 * d + 8) * 0.5 * F.l2 * (size.T @ size)
    M = M + 0.5 * F.l2 * (W.T @ W) + np.outer(sums, sums)
    return 0.5 * (M + M.T), error * (1.0 + 4.0 * F.rounding()) + 4.0 * EPS * np.abs(M)
