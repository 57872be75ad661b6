"""The dual side of a certificate: what weights and slopes prove."""

from collections.abc import Iterator

import numpy as np

from xrisk.certificate.cuts import Cuts, Line
from xrisk.certificate.optimum_box import OptimumBox, box_of, kink_size
from xrisk.certificate.passes import Candidate, Measured, Sums, dual_sums, shares_of_slopes, shares_of_weights
from xrisk.certificate.penalties import bound_conjugate
from xrisk.certificate.rounding import EPS, Weights
from xrisk.certificate.weights import smaller_weights
from xrisk.compile import worthwhile
from xrisk.functions import penalty_convexity
from xrisk.inner.oracle import inner_is_affine, inner_size
from xrisk.inner.passes import score_count, score_size, scores_at
from xrisk.problem import is_risk

SOME_ROWS = 2000  # enough to tell columns that are almost the same
SAME = 1e-12

Choice = tuple[Weights, Candidate]


def line_of(known: Measured, weights: Weights, slopes: Candidate) -> Line:
    """The line that weights and slopes prove; slopes are reduced where r* would be infinite.

    The domain of ℓ* allows this. An affine loss has a single slope: then the weights are reduced, if the domain of f*
    allows it.
    """
    problem = known.problem
    by_weights = inner_is_affine(problem.inner) and not is_risk(problem.outer)
    if known.free and by_weights:
        share, loose = shares_of_weights(known, weights.q, slopes)
        weights = smaller_weights(problem, weights._replace(loose=loose), share)
    elif known.free:
        slopes = slopes.times(*shares_of_slopes(known, weights.q, slopes))
    sums = dual_sums(known, weights, slopes)
    if not np.isfinite(sums.vjp.sum() + sums.error_bound.sum()):
        return Line(-np.inf, sums.vjp, sums.error_bound, np.inf)
    part = _finite_share(known, sums)
    if part < 1.0:
        if by_weights:
            weights = smaller_weights(problem, weights, np.full(1, part))
        else:
            slopes = slopes.times(part, part)
        sums = dual_sums(known, weights, slopes)
    q, n = weights.q, weights.q.shape[0]
    slack = (16 * EPS * (n + 16) + weights.loose) * weights.size
    slack += (known.rounding + weights.loose) * float((np.abs(q) * sums.size).sum())
    slack += weights.defect * float(sums.size.max())
    return Line(float(-weights.conjugate - (q * sums.mean).sum()), sums.vjp, sums.error_bound, slack)


def _finite_share(known: Measured, sums: Sums) -> float:
    """The largest part of the adjoint, up to all of it, at which r* is finite."""
    upper = worthwhile(bound_conjugate, sums.error_bound.size, known.penalty)

    def is_finite(part: float) -> bool:
        return bool(upper(known.penalty, -part * sums.vjp, 4 * part * sums.error_bound) < np.inf)

    if is_finite(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_finite(middle) else (low, middle)
    return low


def penalised_box(known: Measured) -> OptimumBox:
    """The coordinates that are penalised, and those of them with a negligible ridge."""
    r, g = known.penalty, known.problem.inner
    ridge = float(penalty_convexity(r)) if kink_size.implemented(r) else 0.0
    scale = np.tile(known.scale, score_count(g))[: inner_size(g) - known.free]
    return box_of(ridge, float(kink_size(r)) if ridge else 0.0, scale)


def neighbours(known: Measured, box: OptimumBox, choice: Choice) -> Iterator[Choice]:
    """The candidate, and those with the slopes on either side of it along the columns with a negligible ridge."""
    (weights, candidate), g = choice, known.problem.inner
    for step in _steps(known, box):
        change = scores_at(g, step)
        for z in (candidate.slopes.z - change, candidate.slopes.z + change):
            yield weights, candidate._replace(slopes=candidate.slopes._replace(z=z))


def _steps(known: Measured, box: OptimumBox) -> np.ndarray:
    """Steps (., d) along the columns with a negligible ridge, as large as scores are, and orthogonal in them.

    The small difference of almost equal columns is a direction of its own.
    """
    g = known.problem.inner
    units = np.zeros((box.loose.size, inner_size(g)))
    units[np.arange(box.loose.size), box.loose] = 1.0 / box.scale[box.loose]
    every = max(known.sizes.size // SOME_ROWS, 1)
    changes = np.stack([scores_at(g, unit)[::every].reshape(-1) for unit in units])
    directions, sizes, _ = np.linalg.svd(changes, full_matrices=False)
    apart = sizes > SAME * sizes[0]
    return (directions[:, apart] * (score_size(g) * np.sqrt(changes.shape[1]) / sizes[apart])).T @ units


def as_cuts(lines: list[Line], scale: np.ndarray) -> Cuts:
    """The lines that prove something, as cuts."""
    kept = [line for line in lines if np.isfinite(line.offset - line.slack)]
    spreads = np.array([float((line.error_bound / scale).max()) * (1.0 + 4 * EPS) for line in kept])
    offsets, slacks = np.array([line.offset for line in kept]), np.array([line.slack for line in kept])
    return Cuts(np.array([line.slope for line in kept]), offsets, slacks, spreads, len(kept))
