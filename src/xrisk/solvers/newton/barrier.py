"""Penalties and domains as Newton's method needs them: ridges, smoothed norms, and logarithmic barriers."""

from typing import NamedTuple

import numpy as np

from xrisk.functions import (
    L1,
    L2,
    Ball,
    Box,
    CappedSimplex,
    ElasticNet,
    GroupLasso,
    Hyperplane,
    L1Ball,
    LeveragedBudget,
    NonNegative,
    NoPenalty,
    Restricted,
    Simplex,
    SolidSimplex,
    Tilted,
    Unpenalised,
)
from xrisk.generic import generic


class Barrier(NamedTuple):
    """r(w) = ½ Σ l2ⱼ wⱼ² + ⟨linear, w⟩ + Σ strength·‖w_g‖ within low ≤ w ≤ high, ‖w‖ ≤ radius, Σ w = total.

    Ball, sum and norms are of the first ``covered`` coordinates; ``total`` is NaN where the sum is free.
    """

    l2: np.ndarray  # (d,)
    strength: float  # of every norm
    size: int  # coordinates in a norm
    low: np.ndarray  # (d,)
    high: np.ndarray  # (d,)
    radius: float
    total: float
    covered: int
    linear: np.ndarray  # (d,)


@generic
def barrier_of(penalty, d):
    """The barriers of a penalty or domain on d coordinates."""


def _open(d: int) -> Barrier:
    return Barrier(np.zeros(d), 0.0, 1, np.full(d, -np.inf), np.full(d, np.inf), np.inf, np.nan, d, np.zeros(d))


barrier_of.of(NoPenalty)(lambda r, d: _open(d))
barrier_of.of(L1)(lambda r, d: _open(d)._replace(strength=r.l1))
barrier_of.of(L2)(lambda r, d: _open(d)._replace(l2=np.full(d, r.l2)))
barrier_of.of(ElasticNet)(lambda r, d: _open(d)._replace(strength=r.l1, l2=np.full(d, r.l2)))
barrier_of.of(Box)(lambda r, d: _open(d)._replace(low=np.full(d, r.low), high=np.full(d, r.high)))
barrier_of.of(NonNegative)(lambda r, d: _open(d)._replace(low=np.zeros(d)))
barrier_of.of(Ball)(lambda r, d: _open(d)._replace(radius=r.radius))
barrier_of.of(Simplex)(lambda r, d: _open(d)._replace(low=np.zeros(d), total=r.total))
barrier_of.of(Hyperplane)(lambda r, d: _open(d)._replace(total=r.total))


@barrier_of.of(GroupLasso)
def _(r, d):
    return _open(d)._replace(strength=r.strength, size=int(r.size), l2=np.full(d, r.l2))


@barrier_of.of(CappedSimplex)
def _(r, d):
    return _open(d)._replace(low=np.zeros(d), high=np.full(d, r.cap), total=r.total)


@barrier_of.of(L1Ball)
@barrier_of.of(SolidSimplex)
@barrier_of.of(LeveragedBudget)
def _(domain, d):
    raise ValueError(
        f"Auto, Newton and L-BFGS do not take the domain {type(domain).__name__}: Faces() does for least squares such "
        "as those of quadratic(), and a sampled method such as ALEXR() for other problems"
    )


@barrier_of.of(Restricted)
def _(r, d):
    penalty, domain = barrier_of(r.penalty, d), barrier_of(r.domain, d)
    return domain._replace(l2=penalty.l2, strength=penalty.strength, size=penalty.size)


@barrier_of.of(Unpenalised)
def _(r, d):
    inside = barrier_of(r.penalty, d - r.free)
    return inside._replace(
        l2=np.append(inside.l2, np.zeros(r.free)),
        low=np.append(inside.low, np.full(r.free, -np.inf)),
        high=np.append(inside.high, np.full(r.free, np.inf)),
        linear=np.append(inside.linear, np.zeros(r.free)),
    )


@barrier_of.of(Tilted)
def _(r, d):
    inside = barrier_of(r.penalty, d)
    return inside._replace(linear=inside.linear + r.slope)


def barrier_count(barrier: Barrier) -> int:
    """Number of smoothed norms and barriers."""
    norms = -(-barrier.covered // barrier.size) if barrier.strength > 0.0 else 0
    bounds = int(np.isfinite(barrier.low).sum() + np.isfinite(barrier.high).sum())
    return norms + bounds + int(np.isfinite(barrier.radius))


def barrier_gradient(barrier: Barrier, w: np.ndarray, mu: float) -> np.ndarray:
    """Gradient (d) of the penalty, its norms smoothed and its domain behind barriers, both by ``mu``."""
    grad = barrier.l2 * w + barrier.linear
    if _bounded(barrier):
        grad += mu / (barrier.high - w) - mu / (w - barrier.low)
    inside = w[: barrier.covered]
    if barrier.strength > 0.0:
        grad[: barrier.covered] += _norm_slopes(barrier, inside, mu)
    if np.isfinite(barrier.radius):
        grad[: barrier.covered] += 2.0 * mu / _ball_slack(barrier, inside) * inside
    return grad


def _bounded(barrier: Barrier) -> bool:
    """Whether any coordinate has a bound; without one, divisions would take as long as a product with the rows."""
    return bool(np.isfinite(barrier.low).any() or np.isfinite(barrier.high).any())


def barrier_diagonal(barrier: Barrier, w: np.ndarray, mu: float) -> np.ndarray:
    """Diagonal (d) of the Hessian of the same; of norms of several coordinates the curvature across them."""
    diagonal, inside = barrier.l2.copy(), w[: barrier.covered]
    if _bounded(barrier):
        diagonal += mu / (w - barrier.low) ** 2 + mu / (barrier.high - w) ** 2
    if np.isfinite(barrier.radius):
        slack = _ball_slack(barrier, inside)
        diagonal[: barrier.covered] += 2.0 * mu / slack + 4.0 * mu / slack**2 * inside**2
    if barrier.strength > 0.0:
        square, root = barrier.strength**2, np.hypot(mu, barrier.strength * _norms(barrier, inside))
        diagonal[: barrier.covered] += square * (mu if barrier.size == 1 else root) / ((mu + root) * root)
    return diagonal


def add_barrier_hessian(barrier: Barrier, w: np.ndarray, mu: float, H: np.ndarray) -> None:
    """Add the Hessian of the same to H (d, d)."""
    inside, covered = w[: barrier.covered], barrier.covered
    H[np.diag_indices_from(H)] += barrier_diagonal(barrier, w, mu)
    if np.isfinite(barrier.radius):
        coupling = 4.0 * mu / _ball_slack(barrier, inside) ** 2 * np.outer(inside, inside)
        np.fill_diagonal(coupling, 0.0)
        H[:covered, :covered] += coupling
    if barrier.strength > 0.0 and barrier.size > 1:
        root = np.hypot(mu, barrier.strength * _norms(barrier, inside))
        _add_norm_blocks(barrier, inside, -((barrier.strength**2 / (mu + root)) ** 2) / root, H)


def _add_norm_blocks(barrier: Barrier, inside: np.ndarray, factor: np.ndarray, H: np.ndarray) -> None:
    """Correct the diagonal: along w_g the curvature of ‖w_g‖ is smaller than across it."""
    for start in range(0, barrier.covered, barrier.size):
        part = inside[start : start + barrier.size]
        H[start : start + part.size, start : start + part.size] += factor[start] * np.outer(part, part)


def barrier_norms(barrier: Barrier, w: np.ndarray, mu: float) -> float:
    """The norms of the penalty, smoothed: √(μ² + s²r²) − μ − μ log((μ + √(μ² + s²r²))/2μ), summed over them."""
    if not barrier.strength > 0.0:
        return 0.0
    root = np.hypot(mu, barrier.strength * _norms(barrier, w[: barrier.covered])[:: barrier.size])
    return float((root - mu - (mu * np.log((mu + root) / (2.0 * mu)) if mu > 0.0 else 0.0)).sum())


def barrier_short(barrier: Barrier, w: np.ndarray, mu: float) -> float:
    """By how much ⟨slope, w⟩ − r*(slope) falls short of r(w) at the slopes of norms and barriers."""
    inside = w[: barrier.covered]
    short = 0.0
    if barrier.strength > 0.0:
        norms = _norms(barrier, inside)[:: barrier.size]
        root = np.hypot(mu, barrier.strength * norms)
        # s r − s² r²/(μ + R) without the difference of large numbers
        short += float(
            (barrier.strength * norms * mu / (mu + root) * (1.0 + mu / (root + barrier.strength * norms))).sum()
        )
    # of barriers an upper bound: where a point only seems stationary, slack and slope of a barrier may both be wrong
    barriers = int((np.isfinite(barrier.low) | np.isfinite(barrier.high)).sum()) + int(np.isfinite(barrier.radius))
    return short + mu * barriers


def ridge_cost(barrier: Barrier, grad: np.ndarray) -> float:
    """½ Σ grad²/l2 over coordinates with a ridge: what a gradient that is not zero costs the dual point."""
    ridged = barrier.l2 > 0.0
    return 0.5 * float((grad[ridged] ** 2 / barrier.l2[ridged]).sum())


def gradient_cost(barrier: Barrier, grad: np.ndarray, sizes: np.ndarray, value: float) -> float:
    """About how much a gradient that is not zero costs the dual point, on all coordinates.

    ``sizes`` (d,) are those of the terms that the gradient adds up. Where neither a ridge nor a bound helps, slopes
    are made smaller until they balance, and the objective of the losses, ``value``, shrinks with them.
    """
    ridged, width = barrier.l2 > 0.0, barrier.high - barrier.low
    bounded = ~ridged & np.isfinite(width)
    cost = ridge_cost(barrier, grad) + float((np.abs(grad[bounded]) * width[bounded]).sum())
    if np.isfinite(barrier.radius):
        return cost + barrier.radius * float(np.linalg.norm(grad[: barrier.covered]))
    loose = ~ridged & ~bounded
    if not loose.any():
        return cost
    sizes[: barrier.covered] = np.maximum(barrier.strength, 1e-3 * sizes[: barrier.covered])
    share = float((np.abs(grad) / np.maximum(sizes, 1e-300))[loose].max())
    return cost + min(share, 1.0) * value


def linear_size(barrier: Barrier, curvatures: np.ndarray) -> float:
    """About how much the linear term can lower the objective, whose Hessian has a diagonal (d,) of ``curvatures``.

    Without barriers, g²ⱼ/(2 hⱼ) is a lower bound for every j (Cauchy and Schwarz); a barrier may be nearer.
    """
    g, width = barrier.linear.copy(), np.minimum(barrier.high - barrier.low, 2.0 * barrier.radius)
    if np.isfinite(barrier.total):  # the sum does not change
        g[: barrier.covered] -= g[: barrier.covered].mean()
        width = np.minimum(width, abs(barrier.total) or 1.0)
    if not g.any():
        return 0.0
    curvatures = curvatures + barrier.l2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        free = np.where(curvatures > 0.0, np.abs(g) / curvatures, np.inf)
        decreases = np.where(g == 0.0, 0.0, np.abs(g) * np.minimum(0.5 * free, width))
    return float(decreases[np.isfinite(decreases)].max(initial=0.0))


def longest_step(barrier: Barrier, w: np.ndarray, dw: np.ndarray) -> float:
    """The largest t with w + t dw inside the barriers; inf if there is no barrier on the way."""
    top = np.inf
    if _bounded(barrier):
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(dw < 0.0, (barrier.low - w) / dw, np.inf)
            up = np.where(dw > 0.0, (barrier.high - w) / dw, np.inf)
        top = float(min(down.min(), up.min()))
    if np.isfinite(barrier.radius):
        inside, along = w[: barrier.covered], dw[: barrier.covered]
        a, b, slack = along @ along, inside @ along, _ball_slack(barrier, inside)
        if a > 0.0:
            root = np.sqrt(b * b + a * slack)
            top = min(top, float(slack / (b + root) if b > 0.0 else (root - b) / a))
    return top


def fix_points(barrier: Barrier) -> tuple[Barrier, np.ndarray, np.ndarray]:
    """The barriers of the coordinates that can move, the mask of those that cannot, and where these are."""
    fixed, place = barrier.high <= barrier.low, barrier.low.copy()
    if np.isfinite(barrier.total) and barrier.covered == 1:
        fixed[0], place[0] = True, barrier.total
        barrier = barrier._replace(total=np.nan)
    elif np.isfinite(barrier.total) and np.isfinite(barrier.low[: barrier.covered]).all():
        most = np.minimum(barrier.high, barrier.total)[: barrier.covered]
        if most.sum() <= barrier.total * (1.0 + 1e-12):
            fixed[: barrier.covered], place[: barrier.covered] = True, most
            barrier = barrier._replace(total=np.nan)
        else:  # a cap above the sum of all is no bound
            barrier = barrier._replace(high=np.where(barrier.high < barrier.total, barrier.high, np.inf))
    low, high = np.where(fixed, -np.inf, barrier.low), np.where(fixed, np.inf, barrier.high)
    return barrier._replace(low=low, high=high), fixed, place


def interior_start(barrier: Barrier, unit: np.ndarray, near: np.ndarray) -> np.ndarray:
    """A point (d) well inside, as near to ``near`` (d) as possible; ``unit`` (d) is a distance close to a barrier."""
    if np.isfinite(barrier.total):
        w = near.copy()
        w[: barrier.covered] = barrier.total / barrier.covered
        return w
    margin = np.minimum(unit, 0.25 * (barrier.high - barrier.low))
    w = np.clip(near, barrier.low + margin, barrier.high - margin)
    length = float(np.linalg.norm(w[: barrier.covered]))
    if length > 0.9 * barrier.radius:
        w[: barrier.covered] *= 0.9 * barrier.radius / length
    return w


def _ball_slack(barrier: Barrier, inside: np.ndarray) -> float:
    norm = float(np.linalg.norm(inside))
    return (barrier.radius - norm) * (barrier.radius + norm)


def _norms(barrier: Barrier, inside: np.ndarray) -> np.ndarray:
    """‖w_g‖, repeated for every coordinate of its group."""
    if barrier.size == 1:
        return np.abs(inside)
    starts = np.arange(0, inside.size, barrier.size)
    norms = np.sqrt(np.add.reduceat(inside**2, starts))
    return np.repeat(norms, np.diff(np.append(starts, inside.size)))


def _norm_slopes(barrier: Barrier, inside: np.ndarray, mu: float) -> np.ndarray:
    root = np.hypot(mu, barrier.strength * _norms(barrier, inside))
    return barrier.strength**2 * inside / (mu + root)
