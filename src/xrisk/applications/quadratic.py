"""A convex quadratic with a penalty, in the form that `Auto` solves and `certify` proves."""

import contextlib
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, eigh

from xrisk.annotations import Penalty
from xrisk.applications.arguments import as_number, mean_loss
from xrisk.data.rows import as_numbers, as_rows, frozen
from xrisk.functions import NoPenalty, Squared, Tilted, penalty_convexity, prox
from xrisk.functions.restricted import with_ridge
from xrisk.inner import LinearModel
from xrisk.problem import Problem

EPS = float(np.finfo(np.float64).eps)
PART = 0.25  # of the least curvature that the penalty takes over
INVERSE_STEPS = 12
ASYMMETRY = 1e-10  # relative to the largest entry


def quadratic(second: Any, first: Any, constant: float = 0.0, *, penalty: Penalty = NoPenalty()) -> Problem:
    """wᵀ second w − 2⟨first, w⟩ + constant + penalty(w).

    Parameters
    ----------
    second : array (d, d)
        Symmetric and positive semi-definite; eigenvalues that rounding has made negative count as zero.
    first : array (d,)
        Minus half the linear term. For least squares ‖Aw − b‖², ``second`` is AᵀA and ``first`` is Aᵀb.
    constant : float
        What is added to the value.
    penalty : penalty or domain spec
        Such as ``L2(0.1)`` or ``Simplex(1.0)``.

    Returns
    -------
    Problem
        One group of at most d rows under a squared loss, the linear term in the penalty (`xrisk.functions.Tilted`).

    Notes
    -----
    Where the least eigenvalue of ``second`` is known to be positive, a part of it is the ridge of the penalty, not of
    the rows: the function is the same, and r* is finite everywhere, so that a dual point is never far. The certificate
    is of the rows and penalty of the problem; they are ``second`` up to rounding, c·2⁻⁵²·‖second‖‖w‖².

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import quadratic
    >>> from xrisk.solvers import exact
    >>> exact(quadratic([[2.0, 0.0], [0.0, 1.0]], [1.0, 3.0])).w.round(6)
    array([0.5, 3. ])
    """
    H, b = _symmetric(second), as_numbers("first", first).astype(np.float64)
    if b.shape != H.shape[:1] or not np.isfinite(b).all():
        raise ValueError(f"first must be finite and of shape ({H.shape[0]},), got shape {b.shape}")
    if not prox.implemented(penalty):
        raise TypeError(f"penalty must be a penalty or domain spec such as L2(0.1), got {penalty!r}")
    mu, rows = _split(H, with_ridge.implemented(penalty) and penalty_convexity(penalty) == 0.0)
    ridged = with_ridge(penalty, mu) if mu > 0.0 else penalty
    return squared_norm(rows, np.zeros(len(rows)), Tilted(ridged, frozen(-2.0 * b), as_number("constant", constant)))


def squared_norm(R: np.ndarray, b: np.ndarray, penalty: Penalty) -> Problem:
    """‖Rw − b‖² + penalty(w), as a mean of ½(z − y)² over the rows of R."""
    k = np.sqrt(2.0 * len(R))
    return mean_loss(LinearModel(as_rows(k * R), frozen(k * b), Squared()), penalty)


def _symmetric(second: Any) -> np.ndarray:
    H = as_numbers("second", second).astype(np.float64)
    if H.ndim != 2 or H.shape[0] != H.shape[1] or not H.size:
        raise ValueError(f"second must be a square matrix, got shape {H.shape}")
    if not np.isfinite(H).all():
        raise ValueError("second must be finite, it holds NaN or infinity")
    size = float(np.abs(H).max())
    if not float(np.abs(H - H.T).max()) <= ASYMMETRY * size:
        raise ValueError(f"second must be symmetric, entries differ by up to {np.abs(H - H.T).max():g}")
    return 0.5 * (H + H.T)


def _split(H: np.ndarray, ridge_is_wanted: bool) -> tuple[float, np.ndarray]:
    """(μ, R) with RᵀR + (μ/2)·I = H; μ = 0 where no eigenvalue is known to be above zero.

    That H − (μ/2)·I has a Cholesky factor is what makes it semi-definite, not how well its least eigenvalue is known.
    """
    half = PART * least_eigenvalue(H) if ridge_is_wanted else 0.0
    for share in (half, 0.1 * half, 0.0):
        with contextlib.suppress(LinAlgError):
            return 2.0 * share, cholesky(H - share * np.eye(H.shape[0]), check_finite=False)
    return 0.0, _root(H)


def least_eigenvalue(H: np.ndarray) -> float:
    """About the least eigenvalue of H (d, d), by inverse iteration; 0 where rounding leaves no digits of it.

    The digits are those of H with its diagonal scaled to one: columns of unlike scales cost none.
    """
    d, diagonal = H.shape[0], np.diag(H)
    if not diagonal.min() > 0.0:
        return 0.0
    scale = 1.0 / np.sqrt(diagonal)
    try:
        factor = cho_factor(H * scale * scale[:, None], lower=True, check_finite=False)
    except LinAlgError:
        return 0.0
    if not _inverse_iteration(factor, np.ones(d)) > 4.0 * EPS * d * d:
        return 0.0
    most = float(diagonal.max())  # squares of what is far from one would overflow
    return most * _inverse_iteration(factor, np.sqrt(most) * scale)


def _inverse_iteration(factor: Any, scale: np.ndarray) -> float:
    """About the least eigenvalue of D⁻¹SD⁻¹, of the Cholesky factor of S and the diagonal of D."""
    v, length = np.random.default_rng(0).standard_normal(scale.size), 1.0
    for _ in range(INVERSE_STEPS):
        v = scale * cho_solve(factor, scale * (v / np.linalg.norm(v)), check_finite=False)
        length = float(np.linalg.norm(v))
    return 1.0 / length if length > 0.0 else np.inf


def _root(H: np.ndarray) -> np.ndarray:
    """R with RᵀR = H, negative eigenvalues clipped; no more rows than there are positive ones."""
    values, vectors = eigh(H, check_finite=False)
    if values[0] < -1e-8 * max(abs(values[-1]), 1e-300) * len(values):
        raise ValueError(f"second must be positive semi-definite, its least eigenvalue is {values[0]:g}")
    kept = values > 0.0
    kept[-1] = True
    return np.sqrt(np.maximum(values[kept], 0.0))[:, None] * vectors[:, kept].T
