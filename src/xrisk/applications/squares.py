"""Least squares of many rows, as a problem of as many rows as columns that loses no digits to a good fit."""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from xrisk.applications.quadratic import least_eigenvalue
from xrisk.data.rows import frozen
from xrisk.functions import Identity, Squared, Tilted
from xrisk.functions.restricted import with_ridge
from xrisk.inner import Groups, LinearModel, as_rows
from xrisk.problem import Problem

MOST_COLUMNS = 2000
PERFECT = 1e-20  # of the mean square of the targets: what is left of a fit without residual
PART = 0.25  # of the least curvature that the penalty takes over


def squares_about_minimiser(
    rows: Any, targets: np.ndarray, share: np.ndarray, *, l2: float, domain: Any
) -> Problem | None:
    """F(w) = Σₖ shareₖ (⟨rowₖ, w⟩ − targetₖ)² + (l2/2)‖w‖² on a domain, written about its minimiser ŵ on all of Rᵈ.

    With H the half of the Hessian, RᵀR = H − (μ/2)·I and s = −½∇F(ŵ), zero but for rounding,

        F(w) = ‖R(w − ŵ)‖² + (μ/2)‖w‖² − ⟨μŵ + 2s, w⟩ + F(ŵ) + (μ/2)‖ŵ‖² + 2⟨s, ŵ⟩.

    Each term is of the size of F(ŵ) near ŵ, however good the fit, and the ridge, which the penalty gets, makes r*
    finite: a certificate closes. None where F is better left as it is: where there are more columns than rows, or
    too many, where H may be singular, and where the fit is perfect.
    """
    n, d = rows.shape
    if d > min(n, MOST_COLUMNS) or not with_ridge.implemented(domain):
        return None
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        H = _gram(rows, share) + 0.5 * l2 * np.eye(d)
        if not np.isfinite(H).all() or not (curvature := least_eigenvalue(H)) > 0.0:
            return None
        centre = _minimiser(H, rows, targets, share, l2)
        s, value = _at(centre, rows, targets, share, l2)
        half = float(min(PART * curvature, value / (centre @ centre)))
        constant = value + half * float(centre @ centre) + 2.0 * float(s @ centre)
    if not (half > 0.0 and value > PERFECT * float(share @ targets**2) and np.isfinite(constant)):
        return None
    R = np.sqrt(2.0 * d) * scipy.linalg.cholesky(H - half * np.eye(d))
    model = LinearModel(as_rows(R), frozen(R @ centre), Squared())
    penalty = Tilted(with_ridge(domain, 2.0 * half), frozen(-2.0 * (half * centre + s)), constant)
    problem = Problem(Groups(model, frozen(np.array([0, d]))), Identity(), penalty)
    problem.check()
    return problem


def _gram(rows: Any, share: np.ndarray) -> np.ndarray:
    """Σₖ shareₖ·rowₖ rowₖᵀ (d, d)."""
    if scipy.sparse.issparse(rows):
        return (rows.T @ (rows * share[:, None])).toarray()
    if not share.strides[0]:  # all are the same
        return share[0] * (rows.T @ rows)
    root = np.sqrt(share)[:, None] * rows
    return root.T @ root


def _minimiser(H: np.ndarray, rows: Any, targets: np.ndarray, share: np.ndarray, l2: float) -> np.ndarray:
    """ŵ, by the Cholesky factor of H with its diagonal scaled to one, refined once with residuals of the rows."""
    scale = 1.0 / np.sqrt(np.diag(H))
    factor = scipy.linalg.cho_factor(H * scale * scale[:, None], check_finite=False)
    centre = np.zeros(scale.size)
    for _ in range(2):
        s, _ = _at(centre, rows, targets, share, l2)
        centre += scale * scipy.linalg.cho_solve(factor, scale * s, check_finite=False)
    return centre


def _at(w: np.ndarray, rows: Any, targets: np.ndarray, share: np.ndarray, l2: float) -> tuple[np.ndarray, float]:
    """−½∇F(w) (d,) and F(w)."""
    residuals = targets - rows @ w
    weighed = share * residuals
    return rows.T @ weighed - 0.5 * l2 * w, float(weighed @ residuals) + 0.5 * l2 * float(w @ w)
