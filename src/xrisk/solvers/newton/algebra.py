"""Solves with a Hessian."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class Solve(NamedTuple):
    """Solves with a factored Hessian for the coordinates that can move, without changing a sum that is fixed."""

    factor: Any
    scale: np.ndarray
    free: np.ndarray  # (d,) mask of coordinates that can move
    summed: np.ndarray  # (d,) 1 where a coordinate counts in a fixed sum
    normal: np.ndarray  # H⁻¹ summed

    def __call__(self, g: np.ndarray) -> np.ndarray:
        x = self.back(g)
        weight = self.summed @ self.normal
        for _ in range(2 if weight > 0.0 else 0):  # twice: the rounding of the sum would add up over the steps
            x -= self.normal * ((self.summed @ x) / weight)
        return x

    def back(self, g: np.ndarray) -> np.ndarray:
        return np.where(self.free, self.scale * cho_solve(self.factor, self.scale * g, check_finite=False), 0.0)


def factored(H: np.ndarray, fixed: np.ndarray, summed: np.ndarray) -> Solve:
    """Factor H (d, d), which is overwritten; ``fixed`` coordinates stay, and so does the sum of the ``summed`` ones."""
    H[fixed, :] = 0.0
    H[:, fixed] = 0.0
    scale = 1.0 / np.sqrt(positive_or_one(np.diag(H)))
    H *= scale
    H *= scale[:, None]
    summed = np.where(fixed, 0.0, summed)
    solve = Solve(_cholesky(H), scale, ~fixed, summed, np.zeros(scale.size))
    return solve._replace(normal=solve.back(summed)) if summed.any() else solve


def positive_or_one(sizes: np.ndarray) -> np.ndarray:
    """The sizes, with one in the place of zero, to divide by."""
    return np.where(sizes > 0.0, sizes, 1.0)


def _cholesky(H: np.ndarray) -> Any:
    """Factor of H, whose diagonal is one, with the least ridge that makes it definite in floating point."""
    for ridge in 10.0 ** np.arange(-14, 0):
        np.fill_diagonal(H, 1.0 + ridge)
        try:
            return cho_factor(H, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return np.eye(H.shape[0]), True
