"""Penalties and domains as Newton's method wants them: ridges, smoothed norms, and logarithmic walls."""

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


class Walls(NamedTuple):
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
def walls_of(penalty, d):
    """The walls of a penalty or domain on d coordinates."""


def _open(d: int) -> Walls:
    return Walls(np.zeros(d), 0.0, 1, np.full(d, -np.inf), np.full(d, np.inf), np.inf, np.nan, d, np.zeros(d))


@walls_of.of(NoPenalty)
def _(r, d):
    return _open(d)


@walls_of.of(L1)
def _(r, d):
    return _open(d)._replace(strength=r.l1)


@walls_of.of(L2)
def _(r, d):
    return _open(d)._replace(l2=np.full(d, r.l2))


@walls_of.of(ElasticNet)
def _(r, d):
    return _open(d)._replace(strength=r.l1, l2=np.full(d, r.l2))


@walls_of.of(GroupLasso)
def _(r, d):
    return _open(d)._replace(strength=r.strength, size=int(r.size), l2=np.full(d, r.l2))


@walls_of.of(Box)
def _(r, d):
    return _open(d)._replace(low=np.full(d, r.low), high=np.full(d, r.high))


@walls_of.of(NonNegative)
def _(r, d):
    return _open(d)._replace(low=np.zeros(d))


@walls_of.of(Ball)
def _(r, d):
    return _open(d)._replace(radius=r.radius)


@walls_of.of(Simplex)
def _(r, d):
    return _open(d)._replace(low=np.zeros(d), total=r.total)


@walls_of.of(Hyperplane)
def _(r, d):
    return _open(d)._replace(total=r.total)


@walls_of.of(CappedSimplex)
def _(r, d):
    return _open(d)._replace(low=np.zeros(d), high=np.full(d, r.cap), total=r.total)


@walls_of.of(L1Ball)
@walls_of.of(SolidSimplex)
@walls_of.of(LeveragedBudget)
def _(domain, d):
    raise ValueError(
        f"Auto, Newton and L-BFGS do not take the domain {type(domain).__name__}: Faces() does for least squares such "
        "as those of quadratic(), and a sampled method such as ALEXR() for other problems"
    )


@walls_of.of(Restricted)
def _(r, d):
    penalty, domain = walls_of(r.penalty, d), walls_of(r.domain, d)
    return domain._replace(l2=penalty.l2, strength=penalty.strength, size=penalty.size)


@walls_of.of(Unpenalised)
def _(r, d):
    inside = walls_of(r.penalty, d - r.free)
    return inside._replace(
        l2=np.append(inside.l2, np.zeros(r.free)),
        low=np.append(inside.low, np.full(r.free, -np.inf)),
        high=np.append(inside.high, np.full(r.free, np.inf)),
        linear=np.append(inside.linear, np.zeros(r.free)),
    )


@walls_of.of(Tilted)
def _(r, d):
    inside = walls_of(r.penalty, d)
    return inside._replace(linear=inside.linear + r.slope)


def wall_count(walls: Walls) -> int:
    """Number of smoothed norms and walls."""
    norms = -(-walls.covered // walls.size) if walls.strength > 0.0 else 0
    bounds = int(np.isfinite(walls.low).sum() + np.isfinite(walls.high).sum())
    return norms + bounds + int(np.isfinite(walls.radius))


def wall_gradient(walls: Walls, w: np.ndarray, mu: float) -> np.ndarray:
    """Gradient (d) of the penalty, its norms smoothed and its domain walled off with weight ``mu``."""
    grad = walls.l2 * w + walls.linear
    if _bounded(walls):
        grad += mu / (walls.high - w) - mu / (w - walls.low)
    inside = w[: walls.covered]
    if walls.strength > 0.0:
        grad[: walls.covered] += _norm_slopes(walls, inside, mu)
    if np.isfinite(walls.radius):
        grad[: walls.covered] += 2.0 * mu / _ball_slack(walls, inside) * inside
    return grad


def _bounded(walls: Walls) -> bool:
    """Whether any coordinate has a bound; divisions for those that have none would take as long as a product."""
    return bool(np.isfinite(walls.low).any() or np.isfinite(walls.high).any())


def _bound_curvatures(walls: Walls, w: np.ndarray, mu: float) -> np.ndarray:
    if not _bounded(walls):
        return walls.l2.copy()
    return walls.l2 + mu / (w - walls.low) ** 2 + mu / (walls.high - w) ** 2


def add_wall_hessian(walls: Walls, w: np.ndarray, mu: float, H: np.ndarray) -> None:
    """Add the Hessian of the same to H (d, d)."""
    diagonal = _bound_curvatures(walls, w, mu)
    inside, covered = w[: walls.covered], walls.covered
    if np.isfinite(walls.radius):
        slack = _ball_slack(walls, inside)
        diagonal[:covered] += 2.0 * mu / slack
        H[:covered, :covered] += 4.0 * mu / slack**2 * np.outer(inside, inside)
    if walls.strength > 0.0:
        square = walls.strength**2
        root = np.hypot(mu, walls.strength * _norms(walls, inside))
        if walls.size == 1:
            diagonal[:covered] += square * mu / ((mu + root) * root)
        else:
            diagonal[:covered] += square / (mu + root)
            _add_norm_blocks(walls, inside, -((square / (mu + root)) ** 2) / root, H)
    H[np.diag_indices_from(H)] += diagonal


def _add_norm_blocks(walls: Walls, inside: np.ndarray, factor: np.ndarray, H: np.ndarray) -> None:
    """Along w_g the curvature of ‖w_g‖ is smaller than across it."""
    for start in range(0, walls.covered, walls.size):
        part = inside[start : start + walls.size]
        H[start : start + part.size, start : start + part.size] += factor[start] * np.outer(part, part)


def wall_norms(walls: Walls, w: np.ndarray, mu: float) -> float:
    """The norms of the penalty, smoothed: √(μ² + s²r²) − μ − μ log((μ + √(μ² + s²r²))/2μ), summed over them."""
    if not walls.strength > 0.0:
        return 0.0
    root = np.hypot(mu, walls.strength * _norms(walls, w[: walls.covered])[:: walls.size])
    return float((root - mu - (mu * np.log((mu + root) / (2.0 * mu)) if mu > 0.0 else 0.0)).sum())


def wall_short(walls: Walls, w: np.ndarray, mu: float) -> float:
    """By how much ⟨slope, w⟩ − r*(slope) falls short of r(w), the slopes being those of norms and walls."""
    inside = w[: walls.covered]
    short = 0.0
    if walls.strength > 0.0:
        norms = _norms(walls, inside)[:: walls.size]
        root = np.hypot(mu, walls.strength * norms)
        # s r − s² r²/(μ + R) without the difference of large numbers
        short += float((walls.strength * norms * mu / (mu + root) * (1.0 + mu / (root + walls.strength * norms))).sum())
    # of walls the bound: the slack and push of a wall may both be off at a point that only seems stationary
    walled = int((np.isfinite(walls.low) | np.isfinite(walls.high)).sum()) + int(np.isfinite(walls.radius))
    return short + mu * walled


def linear_size(walls: Walls, curvatures: np.ndarray) -> float:
    """About how much the linear term can lower the objective, whose Hessian has a diagonal (d,) of ``curvatures``.

    Were there no walls, g²ⱼ/(2 hⱼ) would be a lower bound for every j (Cauchy and Schwarz); a wall may be nearer.
    """
    g, reach = walls.linear.copy(), np.minimum(walls.high - walls.low, 2.0 * walls.radius)
    if np.isfinite(walls.total):  # along the sum nothing moves
        g[: walls.covered] -= g[: walls.covered].mean()
        reach = np.minimum(reach, abs(walls.total) or 1.0)
    if not g.any():
        return 0.0
    held = curvatures + walls.l2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        free = np.where(held > 0.0, np.abs(g) / held, np.inf)
        gains = np.where(g == 0.0, 0.0, np.abs(g) * np.minimum(0.5 * free, reach))
    return float(gains[np.isfinite(gains)].max(initial=0.0))


def longest_step(walls: Walls, w: np.ndarray, dw: np.ndarray) -> float:
    """The largest t with w + t dw inside the walls; inf if there is none in the way."""
    top = np.inf
    if _bounded(walls):
        with np.errstate(divide="ignore", invalid="ignore"):
            down = np.where(dw < 0.0, (walls.low - w) / dw, np.inf)
            up = np.where(dw > 0.0, (walls.high - w) / dw, np.inf)
        top = float(min(down.min(), up.min()))
    if np.isfinite(walls.radius):
        inside, along = w[: walls.covered], dw[: walls.covered]
        a, b, slack = along @ along, inside @ along, _ball_slack(walls, inside)
        if a > 0.0:
            root = np.sqrt(b * b + a * slack)
            top = min(top, float(slack / (b + root) if b > 0.0 else (root - b) / a))
    return top


def fix_points(walls: Walls) -> tuple[Walls, np.ndarray, np.ndarray]:
    """Walls without those that leave a coordinate no room, the mask of coordinates so fixed, and where they are."""
    fixed, place = walls.high <= walls.low, walls.low.copy()
    if np.isfinite(walls.total) and walls.covered == 1:
        fixed[0], place[0] = True, walls.total
        walls = walls._replace(total=np.nan)
    elif np.isfinite(walls.total) and np.isfinite(walls.low[: walls.covered]).all():
        most = np.minimum(walls.high, walls.total)[: walls.covered]
        if most.sum() <= walls.total * (1.0 + 1e-12):
            fixed[: walls.covered], place[: walls.covered] = True, most
            walls = walls._replace(total=np.nan)
        else:  # no weight can reach a cap above the sum of all
            walls = walls._replace(high=np.where(walls.high < walls.total, walls.high, np.inf))
    low, high = np.where(fixed, -np.inf, walls.low), np.where(fixed, np.inf, walls.high)
    return walls._replace(low=low, high=high), fixed, place


def interior_start(walls: Walls, unit: np.ndarray, near: np.ndarray) -> np.ndarray:
    """A point (d) well inside, near ``near`` (d) where it may be; ``unit`` (d) says what is close to a wall."""
    if np.isfinite(walls.total):
        w = near.copy()
        w[: walls.covered] = walls.total / walls.covered
        return w
    margin = np.minimum(unit, 0.25 * (walls.high - walls.low))
    w = np.clip(near, walls.low + margin, walls.high - margin)
    length = float(np.linalg.norm(w[: walls.covered]))
    if length > 0.9 * walls.radius:
        w[: walls.covered] *= 0.9 * walls.radius / length
    return w


def wall_diagonal(walls: Walls, w: np.ndarray, mu: float) -> np.ndarray:
    """Diagonal (d) of the Hessian of the same, but for what couples coordinates."""
    diagonal = _bound_curvatures(walls, w, mu)
    inside = w[: walls.covered]
    if np.isfinite(walls.radius):
        slack = _ball_slack(walls, inside)
        diagonal[: walls.covered] += 2.0 * mu / slack + 4.0 * mu / slack**2 * inside**2
    if walls.strength > 0.0:
        square = walls.strength**2
        root = np.hypot(mu, walls.strength * _norms(walls, inside))
        diagonal[: walls.covered] += square * (mu if walls.size == 1 else root) / ((mu + root) * root)
    return diagonal


def _ball_slack(walls: Walls, inside: np.ndarray) -> float:
    norm = float(np.linalg.norm(inside))
    return (walls.radius - norm) * (walls.radius + norm)


def _norms(walls: Walls, inside: np.ndarray) -> np.ndarray:
    """‖w_g‖, repeated for every coordinate of its group."""
    if walls.size == 1:
        return np.abs(inside)
    starts = np.arange(0, inside.size, walls.size)
    norms = np.sqrt(np.add.reduceat(inside**2, starts))
    return np.repeat(norms, np.diff(np.append(starts, inside.size)))


def _norm_slopes(walls: Walls, inside: np.ndarray, mu: float) -> np.ndarray:
    root = np.hypot(mu, walls.strength * _norms(walls, inside))
    return walls.strength**2 * inside / (mu + root)
