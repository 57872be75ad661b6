"""A bound on the inverse of the Hessian of least squares: a matrix that makes it nearly the identity."""

from typing import NamedTuple

import numpy as np
import scipy.linalg

from xrisk.certificate.rounding import EPS
from xrisk.certificate.squares import Squares

WHITENINGS = 6
NEAR, NEAREST = 0.5, 1e-3  # ‖WᵀHW − I‖ at most, and where no more rounds are needed


class Whitening(NamedTuple):
    """W with ‖Wᵀ(H + spare·11ᵀ)W − I‖ ≤ error_bound < 1."""

    W: np.ndarray
    error_bound: float
    spare: float


def whitening(F: Squares, with_sum: bool = False) -> Whitening | None:
    """W with WᵀHW near I, which proves H to be definite; None where rounding leaves no proof.

    Each round divides by the Cholesky factor of the last round's result (Fukaya and others, 2020, shifted Cholesky QR),
    so that columns may be almost dependent. ``with_sum`` adds a multiple of 11ᵀ, for directions of sum
    zero.
    """
    diagonal = F.factor * F.norms**2 + 0.5 * F.l2
    spare = float(diagonal.max()) if with_sum else 0.0
    if not (np.isfinite(diagonal).all() and (diagonal + spare > 0.0).all()):
        return None
    W, best = np.diag(1.0 / np.sqrt(diagonal + spare)), None
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
    """Wᵀ(H + spare·11ᵀ)W (d, d) and an error bound of each entry."""
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
