"""Least squares of many rows as a problem with as many rows as columns, without losing digits for good fits."""

import numpy as np
import scipy.linalg

from xrisk.annotations import Domain, Rows
from xrisk.applications.quadratic import PART, least_eigenvalue, squared_norm
from xrisk.data.products import row_adjoint, row_gram, row_scores
from xrisk.data.rows import CSR, Dense, frozen, row_count, row_size
from xrisk.data.threads import one_thread_each
from xrisk.functions import Tilted
from xrisk.functions.restricted import with_ridge
from xrisk.problem import Problem

MOST_COLUMNS = 2000
PERFECT = 1e-20  # of the mean square of the targets: what is left of a fit without residual
CANCELLED = 1e-18  # of the mean square of the terms of a residual: what is left where most digits have cancelled
ASTRAY = 1e-6  # of the same at ŵ less the minimiser: times 2⁻⁵² that is no part of the value


def squares_about_minimiser(
    rows: Dense | CSR, targets: np.ndarray, share: np.ndarray, *, l2: float, domain: Domain
) -> Problem | None:
    """F(w) = Σₖ shareₖ (⟨rowₖ, w⟩ − targetₖ)² + (l2/2)‖w‖² on a domain, written about its minimiser ŵ on all of Rᵈ.

    With H the half of the Hessian, RᵀR = H − (μ/2)·I and s = −½∇F(ŵ), zero but for rounding,

        F(w) = ‖R(w − ŵ)‖² + (μ/2)‖w‖² − ⟨μŵ + 2s, w⟩ + F(ŵ) + (μ/2)‖ŵ‖² + 2⟨s, ŵ⟩.

    Near ŵ each term has the size of F(ŵ), however good the fit, and the ridge in the penalty makes r* finite, so that a
    certificate can close. None if F should not be rewritten: if there are more columns than rows or too many columns,
    if H may be singular, or if the fit is perfect.
    """
    if row_size(rows) > min(row_count(rows), MOST_COLUMNS) or not with_ridge.implemented(domain):
        return None
    try:
        return _about_minimiser(rows, targets, share, l2, domain)
    except scipy.linalg.LinAlgError:  # H is singular to rounding
        return None


def _about_minimiser(
    rows: Dense | CSR, targets: np.ndarray, share: np.ndarray, l2: float, domain: Domain
) -> Problem | None:
    with one_thread_each(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        H = row_gram(rows, share) + 0.5 * l2 * np.eye(row_size(rows))
        size = float(np.diag(H).max())
        if not (0.0 < size < np.inf and np.isfinite(H).all()):
            return None
        curvature = size * least_eigenvalue(H / size)  # squares of very large or small numbers would leave the range
        centre = _solved(H, row_adjoint(rows, (share * targets)[:, None])[0])
        centre += _solved(H, _at(centre, rows, targets, share, l2)[0])  # H has lost half of the digits
        s, value = _at(centre, rows, targets, share, l2)
        half = float(min(PART * curvature, value / (centre @ centre)))
        constant = value + half * float(centre @ centre) + 2.0 * float(s @ centre)
        if not (half > 0.0 and value > PERFECT * float(share @ targets**2) and np.isfinite(constant)):
            return None
        # R is off by a rounding of H, which counts with the square of the way from ŵ to the minimiser
        if not value > max(CANCELLED * _terms(H, centre), ASTRAY * _terms(H, _solved(H, s))):
            return None
        R = scipy.linalg.cholesky(H - half * np.eye(centre.size))
    penalty = Tilted(with_ridge(domain, 2.0 * half), frozen(-2.0 * (half * centre + s)), constant)
    return squared_norm(R, R @ centre, penalty)


def _terms(H: np.ndarray, w: np.ndarray) -> float:
    """A bound on the mean square of Σⱼ |rowⱼ wⱼ|, whatever the scales of the columns."""
    return w.size * float(np.diag(H) @ w**2)


def _solved(H: np.ndarray, h: np.ndarray) -> np.ndarray:
    """H⁻¹h, by the Cholesky factor of H with its diagonal scaled to one."""
    scale = 1.0 / np.sqrt(np.diag(H))
    factor = scipy.linalg.cho_factor(H * scale * scale[:, None], check_finite=False)
    return scale * scipy.linalg.cho_solve(factor, scale * h, check_finite=False)


def _at(w: np.ndarray, rows: Rows, targets: np.ndarray, share: np.ndarray, l2: float) -> tuple[np.ndarray, float]:
    """−½∇F(w) (d,) and F(w)."""
    residuals = targets - row_scores(rows, w[None, :])[:, 0]
    weighed = share * residuals
    s = row_adjoint(rows, weighed[:, None])[0] - 0.5 * l2 * w
    return s, float(weighed @ residuals) + 0.5 * l2 * float(w @ w)
