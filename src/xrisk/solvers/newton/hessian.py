"""Hessians of full-batch methods: the rows that matter, and what the coupling adds."""

import numpy as np

from xrisk.data.products import scaled_norms, with_intercept
from xrisk.inner.passes import pass_rows, score_count
from xrisk.solvers.newton.algebra import positive_or_one
from xrisk.solvers.newton.coupling import coupling_is_constrained
from xrisk.solvers.newton.points import SmoothedProblem

SPARE = 1e-2  # part of the ridge by which the Hessian may err: rows that matter less are left out


def rows_that_matter(task: SmoothedProblem, curvatures: np.ndarray, most: float) -> np.ndarray:
    """The curvatures of the rows that a Hessian is made of: all that matter, or a sample of about ``most`` rows."""
    if score_count(task.inner) > 1 or not curvatures.any():
        return curvatures
    return sampled(curvatures, most) if curvatures.size > 2.0 * most else _without_least(task, curvatures)


def sampled(h: np.ndarray, most: float) -> np.ndarray:
    """About ``most`` rows by size, in even steps along the sum of all, with the same sum; in place: rows are many."""
    steps = np.cumsum(h)
    total = float(steps[-1])
    steps *= most / total
    steps += 0.5
    np.floor(steps, out=steps)
    h[0] = steps[0]
    np.subtract(steps[1:], steps[:-1], out=h[1:])
    h *= total / most
    return h


def _without_least(task: SmoothedProblem, h: np.ndarray) -> np.ndarray:
    """Without rows that together change the Hessian by less than a part of the ridge."""
    l2, rows = task.barrier.l2, pass_rows(task.inner)
    ridge = float((l2[:-1] if with_intercept(rows) and l2[-1] == 0.0 else l2).min())
    if ridge == 0.0 or not np.count_nonzero(h < 1e-3 * h.max()) > 0.2 * h.size:
        return h
    lengths = scaled_norms(rows, np.ones(l2.size)) ** 2
    return np.where(h * lengths <= min(SPARE * ridge, 0.01 * h.sum()) / lengths.size, 0.0, h)


def add_coupling(task: SmoothedProblem, curve: np.ndarray, J: np.ndarray, H: np.ndarray) -> None:
    """Add JᵀCJ to H (d, d), C being the Hessian of the coupling with curvatures ``curve``; J is overwritten."""
    if coupling_is_constrained(task.coupling):  # the weights of a block have a fixed sum
        blocks = J.reshape(*task.shape, H.shape[0])
        total = positive_or_one(curve.sum(axis=1))[:, None]
        blocks -= np.einsum("ij,ijk->ik", curve / total, blocks)[:, None, :]
    J *= np.sqrt(curve.reshape(-1) / task.n)[:, None]
    H += J.T @ J
