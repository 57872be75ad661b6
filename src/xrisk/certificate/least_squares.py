"""Proofs for least squares from the original data, from which a rewritten objective differs by rounding.

    F(w) = factor·Σₖ shareₖ tₖ(w)² + ⟨linear, w⟩ + (l2/2)‖w‖²,    t affine in w with rows Aₖ,

at w + δ is the sum of its value and slope at w and δᵀHδ, with H = factor·AᵀPA + (l2/2)·I. Every computed number has
a bound on its error; H⁻¹ is bounded by a matrix W with WᵀHW near I.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Domain, Penalty
from xrisk.certificate.bounds import NOTHING_PROVED, Certificate, between
from xrisk.certificate.penalties import bound_conjugate, distance_upper
from xrisk.certificate.rounding import EPS, TINY
from xrisk.certificate.squares import Squares, SquaresPoint, columns_of, evaluate, gradient_at
from xrisk.certificate.whitening import Whitening, whitening
from xrisk.compile import worthwhile
from xrisk.data.threads import one_thread_each
from xrisk.functions import Hyperplane, L1Ball, LeveragedBudget, NonNegative, NoPenalty
from xrisk.generic import generic
from xrisk.problem import apply_prox

MOST_COLUMNS = 2000  # for which the curvature is computed
STEPS = 3  # of Newton's method that a proof may make


class ProvedPoint(NamedTuple):
    """A point, F there and what is proved."""

    w: np.ndarray
    value: float
    certificate: Certificate


LowerBound = Callable[[SquaresPoint], float]  # on the optimum


class Flat(NamedTuple):
    """Columns that a minimiser moves freely in, and the sum of its entries there."""

    columns: np.ndarray  # mask (d,)
    total: float | None = None


@generic
def flat_of(domain: Domain, F: Squares, at: SquaresPoint) -> Flat | None:
    """A flat that contains the face of w; None if leaving the domain does not help."""


flat_of.otherwise(lambda domain, F, at: None)


@flat_of.of(NoPenalty)
@flat_of.of(L1Ball)
def _(domain, F, at):
    return Flat(np.ones(at.w.size, dtype=bool))


@flat_of.of(Hyperplane)
@flat_of.of(LeveragedBudget)
def _(domain, F, at):
    return Flat(np.ones(at.w.size, dtype=bool), float(domain.total))


@flat_of.of(NonNegative)
def _(domain, F, at):
    # at the minimiser w or its slope is zero in each coordinate: the smaller of the two stands for zero
    curvature = 2.0 * F.factor * F.norms**2
    return Flat((at.w > 0.0) & ((curvature * at.w > at.slope) | (at.slope <= 4.0 * at.error_bound)))


def certify_squares(
    F: Squares, domain: Domain, lower: LowerBound, w: np.ndarray, *, tol: float, steps: int = 0
) -> ProvedPoint:
    """The point and its certificate, in twice the digits where the gap is above ``tol`` otherwise.

    ``lower`` bounds the optimum by what is known at a point, without the curvature. With ``steps`` Newton's steps on
    the face of w find the digits that a rewritten problem has lost.
    """
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore"):  # infinities are bounds as well
        return _certified(F, domain, lower, w, tol, steps)


def _certified(F: Squares, domain: Domain, lower: LowerBound, w: np.ndarray, tol: float, steps: int) -> ProvedPoint:
    found, white = ProvedPoint(w, np.nan, NOTHING_PROVED), None
    for attempt in range(2 + steps):
        at = evaluate(F, w, doubled=attempt > 0)
        found = _better(F, domain, found, at, lower(at))
        flat = flat_of(domain, F, at)
        if found.certificate.relative <= tol or flat is None or not 0 < flat.columns.sum() <= MOST_COLUMNS:
            if found.certificate.relative <= tol or attempt:
                break
            continue
        part = columns_of(F, flat.columns)
        if white is None or white.W.shape[0] != part.linear.size:
            white = whitening(part, flat.total is not None)
        if white is None:
            continue
        found = _better(F, domain, found, at, _lower_by_curvature(F, lower, flat, at, white))
        if found.certificate.relative <= tol:
            break
        w = _newton_point(part, domain, flat, at, white) if attempt and steps else w
    return found


def _better(F: Squares, domain: Domain, found: ProvedPoint, at: SquaresPoint, dual: float) -> ProvedPoint:
    """The better of two points, with the better of two bounds."""
    primal, known = objective_upper_bound(F, at, domain), found.certificate
    if primal < known.primal:
        found = ProvedPoint(at.w, at.value, known)
    return found._replace(certificate=between(min(primal, known.primal), max(dual, known.dual)))


def _lower_by_curvature(F: Squares, lower: LowerBound, flat: Flat, at: SquaresPoint, white: Whitening) -> float:
    """A bound by the curvature; on some columns only, ``lower`` where the slope on them has become positive."""
    if flat.columns.all():
        return curvature_lower_bound(F, at, white, flat.total)
    if F.l2 > 0.0:
        return -np.inf  # the ridge has bounded it
    w, missing = at.w.copy(), 8.0 * at.error_bound[flat.columns] - at.slope[flat.columns]
    w[flat.columns] += 0.5 * (white.W @ (white.W.T @ missing))
    return lower(evaluate(F, w, doubled=True))


def _newton_point(part: Squares, domain: Domain, flat: Flat, at: SquaresPoint, white: Whitening) -> np.ndarray:
    """The end of Newton's step on the flat, projected on the domain."""
    kept, w = flat.columns, np.zeros(at.w.size)
    inside = at._replace(w=at.w[kept], slope=at.slope[kept], error_bound=at.error_bound[kept])
    w[kept] = newton_step(part, inside, white, flat.total)
    apply_prox(domain, w, 1.0)
    return w


def objective_upper_bound(F: Squares, at: SquaresPoint, domain: Domain) -> float:
    """An upper bound on F at w, or at a point of the domain if rounding has left w outside."""
    distance = float(distance_upper(domain, at.w))
    gradient, error_bound = gradient_at(F, at)
    steepest = float((np.abs(gradient) + error_bound).max())
    curvature = F.factor * float(((F.norms + F.loose) ** 2).max()) + 0.5 * F.l2
    upper = at.value + at.error + (distance * steepest + distance * distance * curvature) * (1.0 + 16.0 * EPS)
    upper += 4.0 * EPS * abs(upper)
    return upper if np.isfinite(upper) else np.inf


def conjugate_lower_bound(at: SquaresPoint, penalty: Penalty) -> float:
    """A bound on the optimum where t is linear: −factor·Σ share t² − r*(−slope), r the ridge on the domain."""
    conjugate = float(worthwhile(bound_conjugate, at.w.size, penalty)(penalty, -at.slope, at.error_bound))
    return _finite(-at.squares - conjugate - 4.0 * EPS * (at.squares + abs(conjugate)) - TINY)


def curvature_lower_bound(F: Squares, at: SquaresPoint, white: Whitening, total: float | None = None) -> float:
    """A bound on the optimum of F over all w, or over Σ w = total: F − ¼ gᵀH⁻¹g, g the gradient less any κ·1."""
    (gradient, error_bound), change = gradient_at(F, at), 0.0
    if total is not None:
        shift, rest = _multiplier(white, gradient), math.fsum([total, *(-at.w)])
        gradient = gradient - shift
        error_bound = error_bound + EPS * (np.abs(gradient) + abs(shift))
        change = shift * rest - 4.0 * EPS * abs(shift * rest) - white.spare * rest**2 * (1.0 + 8.0 * EPS)
    W = np.abs(white.W)
    size = np.abs(white.W.T @ gradient) + (error_bound + EPS * (W.shape[0] + 8) * np.abs(gradient)) @ W
    decrease = float(size @ size) * (1.0 + EPS * (2 * W.shape[0] + 16)) / (4.0 * (1.0 - white.error_bound))
    lower = at.value - at.error - decrease + change
    return _finite(lower - 8.0 * EPS * (abs(at.value) + decrease + abs(change)) - TINY)


def ridge_lower_bound(F: Squares, at: SquaresPoint) -> float:
    """A bound on the optimum over all w, without a linear term: zero, or by the ridge F − ‖gradient‖²/(2·l2)."""
    if not F.l2 > 0.0:
        return 0.0
    gradient, error_bound = gradient_at(F, at)
    norm = float(((np.abs(gradient) + error_bound) ** 2).sum())
    decrease = norm * (1.0 + EPS * (error_bound.size + 16)) / (2.0 * F.l2)
    return max(_finite(at.value - at.error - decrease - 8.0 * EPS * (abs(at.value) + decrease) - TINY), 0.0)


def _finite(lower: float) -> float:
    return float(lower) if np.isfinite(lower) else -np.inf


def newton_step(F: Squares, at: SquaresPoint, white: Whitening, total: float | None = None) -> np.ndarray:
    """The minimiser (d,) of F over all w, or over Σ w = total, up to the rounding of one step."""
    gradient = gradient_at(F, at)[0]
    if total is not None:
        gradient = gradient - _multiplier(white, gradient)
    w = at.w - 0.5 * (white.W @ (white.W.T @ gradient))
    if total is not None:
        ones = white.W @ white.W.sum(axis=0)
        w = w + ones * ((total - w.sum()) / ones.sum())
    return w


def _multiplier(white: Whitening, gradient: np.ndarray) -> float:
    """κ for which gᵀH⁻¹g is smallest."""
    ones = white.W.sum(axis=0)
    return float(ones @ (white.W.T @ gradient) / (ones @ ones))
