"""Points of the dual set: the weights that a certificate tries."""

import math
from collections.abc import Iterator

import numpy as np

from xrisk.annotations import Outer, Risk
from xrisk.certificate.rounding import (
    EPS,
    Weights,
    base_weights,
    project_blocks,
    risk_terms,
    risk_upper,
)
from xrisk.compile import kernel, worthwhile
from xrisk.functions import block_start, risk_conjugate, risk_project, risk_weights
from xrisk.problem import Problem, block_slopes, is_risk


def weight_candidates(problem: Problem, u: np.ndarray, given: np.ndarray | None) -> Iterator[Weights]:
    """Weights to try, one after another: those given, and those of the worst case at the values u (n, m)."""
    f, usable = problem.outer, 0
    if given is not None and np.shape(given) != u.shape:
        raise ValueError(f"dual must have shape {u.shape}, got {np.shape(given)}")
    project = _of_risk if is_risk(f) else of_blocks
    for candidate in (lambda: np.array(given, dtype=np.float64), lambda: _worst(f, u))[given is None :]:
        y = candidate()
        if np.isfinite(y).all():
            usable += 1
            yield project(f, y)
    if not usable:
        yield project(f, _central(f, u.shape))
    if is_risk(f) and risk_upper(f, np.zeros(len(u))) < np.inf:
        # ρ* is zero at the base, so a large λ costs no digits
        yield Weights(base_weights(f, len(u))[:, None], 0.0, 0.0, 16 * EPS)


def _worst(f: Outer, u: np.ndarray) -> np.ndarray:
    if not np.isfinite(u).all():
        return np.full_like(u, np.nan)
    if is_risk(f):
        q = np.empty(u.shape[0])
        worthwhile(weigh, q.size, f)(f, np.ascontiguousarray(u[:, 0]), q)
        return u.shape[0] * q[:, None]
    return block_slopes(f, u)


def _central(f: Outer, shape: tuple[int, ...]) -> np.ndarray:
    y = np.ones(shape)
    for row in () if is_risk(f) else y:
        block_start(f, row)
    return y


def _of_risk(rho: Risk, y: np.ndarray) -> Weights:
    q, n = np.maximum(y[:, 0], 0.0), y.shape[0]
    total = float(q.sum())
    q = q / total if 0.0 < total < np.inf else np.full(n, 1.0 / n)
    conjugate = float(worthwhile(project_weights, n, rho)(rho, q))
    defect = abs(math.fsum(q) - 1.0) + 16 * EPS
    return Weights(q[:, None], conjugate, 2 * abs(conjugate) + risk_terms(rho, n), defect)


@kernel
def weigh(rho, u, q):
    risk_weights(rho, u, q)


@kernel
def project_weights(rho, q):
    """Move q into the dual set; ρ*(q)."""
    risk_project(rho, q)
    return risk_conjugate(rho, q)


def of_blocks(f: Outer, y: np.ndarray) -> Weights:
    """The weights of an outer function that y (n, m) is moved to."""
    n, m = y.shape
    conjugates, sizes = np.empty((2, n))
    worthwhile(project_blocks, y.size, f)(f, y, conjugates, sizes)
    defect = 4 * EPS * (m + 8) * float(np.abs(y).sum() / n)
    return Weights(y / n, float(conjugates.mean()), float(sizes.mean()), defect)


def smaller_weights(problem: Problem, weights: Weights, share: np.ndarray) -> Weights:
    """The weights of an outer function times a share (n·m,), or one for all; an infinite conjugate refuses that."""
    f, n, m = problem.outer, *weights.q.shape
    wanted = n * weights.q * share.reshape(-1, m if share.size > 1 else 1)
    y, zero = wanted.copy(), np.zeros((1, m))
    smaller, nothing = of_blocks(f, y), of_blocks(f, zero)
    if zero.any() or not np.allclose(y, wanted, rtol=4 * EPS, atol=0.0):  # the domain of f* does not allow it
        return smaller._replace(conjugate=np.inf)
    # f* is convex: a part of the way to zero weights costs at most that part of the whole way
    return smaller._replace(size=smaller.size + abs(nothing.conjugate) + nothing.size, loose=weights.loose)
