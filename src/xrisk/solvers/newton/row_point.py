"""A risk over single rows at one point: losses, the worst case among them, gradient, Hessian, estimated gap."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner
from xrisk.data.products import row_bytes, row_gram, row_work
from xrisk.data.rows import frozen
from xrisk.functions import ChiSquareBallRisk, ChiSquareRiskA, CVaRRisk, KLBallRisk, KLRisk, WithMasses
from xrisk.functions.smoothed_worst import Worst, worst
from xrisk.generic import generic
from xrisk.inner.oracle import inner_samples
from xrisk.inner.passes import Scores, add_hessian, adjoint, from_centred, pass_rows, score_count, scores_at, walk
from xrisk.inner.visitors import SmoothedTerms
from xrisk.problem import Problem, penalty_at
from xrisk.solvers.newton.algebra import factored
from xrisk.solvers.newton.barrier import (
    Barrier,
    barrier_diagonal,
    barrier_gradient,
    barrier_norms,
    barrier_short,
    gradient_cost,
)
from xrisk.solvers.newton.hessian import sampled
from xrisk.solvers.newton.points import has_kinks

MAX_VARIABLES = 5000  # of a dense Hessian
HESSIAN_ROWS = 50  # for each variable, at the least
READ_RATE, PRODUCT_RATE = 1e10, 2.5e10  # bytes and operations in a second
SOLVES = 8  # products with the Hessian that conjugate gradients are expected to take
MOST_SOLVES = 200
MOST_DIVERGENCE = 10.0  # of weights from equal ones: log n of 20,000 rows
NONE = np.zeros(0)


class RowTask(NamedTuple):
    """What stays the same while the smoothing vanishes."""

    problem: Problem
    inner: Inner  # `Samples` with a loss that can be smoothed, columns centred
    barrier: Barrier
    columns: np.ndarray  # (d,) root mean squares
    centre: np.ndarray  # (d,) what the intercept absorbs; zero where nothing does
    size: float  # of the losses
    ridge: np.ndarray  # (d,) times the smoothing: on coordinates that nothing else holds
    passes: np.ndarray  # (2,) full passes made so far, for values and for gradients
    prepared: np.ndarray  # (2,) those of preparing it


class RowPoint(NamedTuple):
    """A point and everything known of it."""

    x: np.ndarray
    z: np.ndarray  # (rows, scores)
    losses: np.ndarray  # (rows,)
    slopes: np.ndarray  # (scores, rows) of the smoothed losses
    curvature: np.ndarray  # (rows,) of the smoothed losses, of one score
    case: Worst
    proven: float  # Σ qᵢ·(what the slopes prove of the loss) − ρ*(q)
    theta: float  # smoothing, relative to the size of the losses


@generic
def risk_smoothing(rho, amount, n):
    """The strength by which a risk over n rows is smoothed, such that it costs about ``amount`` at most."""


risk_smoothing.of(CVaRRisk)(lambda rho, amount, n: 2.0 * max(rho.alpha, 1.0 / n) * amount)  # divergence ≤ 1/(2α)
risk_smoothing.of(KLRisk)(lambda rho, amount, n: max(amount / MOST_DIVERGENCE - rho.lam, 0.0))
risk_smoothing.of(ChiSquareRiskA)(lambda rho, amount, n: max(amount - rho.lam, 0.0))
risk_smoothing.of(WithMasses)(lambda rho, amount, n: risk_smoothing(rho.risk, amount, n))


@risk_smoothing.of(KLBallRisk)
@risk_smoothing.of(ChiSquareBallRisk)
def _(rho, amount, n):
    return max(amount / min(max(rho.radius, 1e-3), MOST_DIVERGENCE) - rho.strength, 0.0)


@generic
def at_rows(rho, chosen):
    """The risk over the chosen rows alone."""


at_rows.otherwise(lambda rho, chosen: rho)


@at_rows.of(WithMasses)
def _(rho, chosen):
    masses = rho.masses[chosen]
    total = float(masses.sum())
    return WithMasses(rho.risk, frozen(masses / total if total > 0.0 else np.full(masses.size, 1.0 / masses.size)))


def evaluate(task: RowTask, x: np.ndarray, z: np.ndarray, theta: float, near: tuple[float, ...]) -> RowPoint:
    """The point x of scores z at smoothing ``theta``."""
    n, scores = z.shape
    sums, coefs = walk(task.inner, *_visit_of(task, z, theta), np.broadcast_to(1.0, n))
    task.passes[1] += 1
    smooth = np.ascontiguousarray(sums[:, 0])
    losses, proved = (sums[:, 1].copy(), sums[:, 2].copy()) if has_kinks(task.inner) else (smooth, smooth)
    del sums  # as large as four columns of the data
    slopes, curvature = coefs[:scores], coefs[scores] if coefs.shape[0] > scores else NONE
    if not np.isfinite(smooth).all():  # a step too long for exp
        nowhere = Worst(np.zeros(n), np.inf, np.inf, np.zeros(n), np.zeros((0, n)), NONE, near)
        return RowPoint(x, z, losses, slopes, curvature, nowhere, -np.inf, theta)
    case = worst(task.problem.outer, smooth, risk_smoothing(task.problem.outer, theta * task.size, n), near)
    proven = case.value + (float(case.weights @ (proved - smooth)) if proved is not smooth else 0.0)
    return RowPoint(x, z, losses, slopes, curvature, case, proven, theta)


def _visit_of(task: RowTask, z: np.ndarray, theta: float) -> tuple[SmoothedTerms, Scores]:
    return SmoothedTerms(theta * task.size), Scores(z, z, z[:, 0], z[:, 0], NONE)


def _penalty_gradient(task: RowTask, point: RowPoint) -> np.ndarray:
    return barrier_gradient(task.barrier, point.x, point.theta * task.size) + point.theta * task.ridge * point.x


def gradient(task: RowTask, point: RowPoint) -> np.ndarray:
    """Gradient (d,) of the smoothed objective."""
    return _penalty_gradient(task, point) + adjoint(task.inner, point.case.weights * point.slopes)


def along(task: RowTask, point: RowPoint, dx: np.ndarray, dz: np.ndarray) -> float:
    """The derivative of the smoothed objective along dx, which changes the scores by dz (rows, scores)."""
    if not np.isfinite(point.case.smoothed):
        return np.inf
    return float(_penalty_gradient(task, point) @ dx) + sum(
        float((point.case.weights * slope) @ change) for slope, change in zip(point.slopes, dz.T, strict=True)
    )


def value_at(task: RowTask, point: RowPoint) -> float:
    """The objective, nothing smoothed."""
    plain = worst(task.problem.outer, point.losses, 0.0, point.case.near)
    return plain.value + penalty_at(task.problem.penalty, from_centred(task.centre, point.x))


def smoothed_at(task: RowTask, point: RowPoint) -> float:
    """The smoothed objective, that of which `gradient` is the gradient."""
    barrier, mu = task.barrier, point.theta * task.size
    ridge = 0.5 * float((barrier.l2 + point.theta * task.ridge) @ point.x**2)
    return point.case.smoothed + ridge + barrier_norms(barrier, point.x, mu)


def smoothing_gap(task: RowTask, point: RowPoint, value: float) -> float:
    """By how much the dual point would fall short of the objective were the point stationary."""
    penalty = penalty_at(task.problem.penalty, from_centred(task.centre, point.x))
    short = value - penalty - point.proven + barrier_short(task.barrier, point.x, point.theta * task.size)
    return max(short + point.theta * float(task.ridge @ point.x**2), 0.0)


def slope_gap(task: RowTask, point: RowPoint, grad: np.ndarray) -> float:
    """About how much the dual point loses because the gradient is not zero."""
    sizes = float(np.abs(point.case.weights * point.slopes).sum()) * task.columns
    return gradient_cost(task.barrier, grad, sizes, float(point.case.weights @ np.abs(point.losses)))


def solve_with(task: RowTask, point: RowPoint) -> Any:
    """g ↦ H⁻¹g, by a factorisation or by conjugate gradients, whichever costs less."""
    rows, scores, d = pass_rows(task.inner), score_count(task.inner), point.x.size
    live = np.count_nonzero(point.case.weights) / point.z.shape[0]
    gram = row_work(rows) * scores**2 * live * min(1.0, _most_rows(task, d) / point.z.shape[0]) + d**3 / 3.0
    products = 2.0 * SOLVES * row_bytes(rows) * scores
    if d <= MAX_VARIABLES and gram / PRODUCT_RATE <= products / READ_RATE:
        return factored(hessian(task, point), np.zeros(d, dtype=bool), np.zeros(d))
    return partial(_by_conjugate_gradients, task, point)


def _most_rows(task: RowTask, d: int) -> float:
    """Rows that a Hessian is made of: enough to be as good as all, and as many as take no longer than the passes."""
    return max(HESSIAN_ROWS * d, 60.0 * inner_samples(task.inner) / d)


def hessian(task: RowTask, point: RowPoint) -> np.ndarray:
    """Hessian (d, d) of the smoothed objective: only rows with a weight enter."""
    H, case, scores = np.zeros((point.x.size,) * 2), point.case, score_count(task.inner)
    share: Any = 1.0
    if scores == 1:
        curvature = point.slopes[0] ** 2
        curvature *= case.curvature
        curvature += case.weights * point.curvature
        curvature, share = _thinned(curvature, _most_rows(task, point.x.size))
        H += row_gram(pass_rows(task.inner), curvature)
    else:
        add_hessian(task.inner, *_visit_of(task, point.z, point.theta), NONE, case.weights, H)
        _add_squares(task, case.curvature, point.slopes, H)
    for scale, vector in zip(case.scales, case.vectors, strict=True):
        vjp = adjoint(task.inner, vector * share * point.slopes)
        H -= scale * np.outer(vjp, vjp)
    mu = point.theta * task.size
    H[np.diag_indices_from(H)] += barrier_diagonal(task.barrier, point.x, mu) + point.theta * task.ridge
    return H


def _add_squares(task: RowTask, c: np.ndarray, slopes: np.ndarray, H: np.ndarray) -> None:
    """Add Σ cₖ ∇ℓₖ ∇ℓₖᵀ for rows of many scores."""
    d = H.shape[0] // slopes.shape[0]
    for a, first in enumerate(slopes):
        for b, second in enumerate(slopes[: a + 1]):
            block = row_gram(pass_rows(task.inner), c * first * second)
            H[a * d : (a + 1) * d, b * d : (b + 1) * d] += block
            if a != b:
                H[b * d : (b + 1) * d, a * d : (a + 1) * d] += block


def _thinned(curvature: np.ndarray, most: float) -> tuple[np.ndarray, Any]:
    """A sample of about ``most`` rows by their curvature, with the same sum, and the factor each was raised by."""
    if np.count_nonzero(curvature) <= 2.0 * most:
        return curvature, 1.0
    kept = sampled(curvature.copy(), most)
    return kept, np.divide(kept, curvature, out=np.zeros(curvature.size), where=curvature > 0.0)


def _by_conjugate_gradients(task: RowTask, point: RowPoint, grad: np.ndarray) -> np.ndarray:
    """H⁻¹ grad to a tenth, scaled by the columns: every product reads the rows twice."""
    case, mu = point.case, point.theta * task.size
    diagonal = barrier_diagonal(task.barrier, point.x, mu) + point.theta * task.ridge
    vjps = [adjoint(task.inner, vector * point.slopes) for vector in case.vectors]
    mean_curvature = float(case.weights.sum() + (case.curvature * (point.slopes**2).sum(axis=0)).sum())
    scale = diagonal + mean_curvature * task.columns**2

    def times(v: np.ndarray) -> np.ndarray:
        task.passes[:] += 1
        out = diagonal * v + adjoint(task.inner, _slope_changes(point, scores_at(task.inner, v)))
        for factor, vjp in zip(case.scales, vjps, strict=True):
            out -= factor * float(vjp @ v) * vjp
        return out

    x, left = np.zeros_like(grad), grad.copy()
    rest = left / scale
    direction, size = rest, float(left @ rest)
    first = size
    for _ in range(MOST_SOLVES):
        product = times(direction)
        curve = float(direction @ product)
        if not curve > 0.0:
            break
        x, left = x + size / curve * direction, left - size / curve * product
        rest = left / scale
        size, before = float(left @ rest), size
        if size <= 1e-2 * min(1.0, first) * first:
            break
        direction = rest + size / before * direction
    return x if x.any() else grad / scale


def _slope_changes(point: RowPoint, dz: np.ndarray) -> np.ndarray:
    """How the weighted slopes (scores, rows) change with scores that change by dz (rows, scores)."""
    case, slopes = point.case, point.slopes
    changes = case.curvature * (slopes * dz.T).sum(axis=0) * slopes
    if slopes.shape[0] == 1:
        return changes + case.weights * point.curvature * dz.T
    p = np.exp(point.z - point.z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return changes + case.weights * (p * (dz - (p * dz).sum(axis=1, keepdims=True))).T
