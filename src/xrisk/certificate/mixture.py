"""The mixture of cuts that proves most: a quadratic program over the simplex."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

ACCURACY = 1e-11  # of the slopes, relative to their terms
INTERIOR_STEPS = 60
MOST = 4  # changes of the support, for each item


def best_mixture(Q: np.ndarray, c: np.ndarray, start: np.ndarray) -> np.ndarray:
    """A minimiser of ½ λᵀQλ + ⟨c, λ⟩ over λ ≥ 0 with Σ λ = 1, by active sets from the support of ``start``.

    Q (m, m) is positive semidefinite. With rounding, the result is a point of the simplex that is nearly a minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.certificate.mixture import best_mixture
    >>> best_mixture(np.diag([1.0, 3.0]), np.zeros(2), np.zeros(2))
    array([0.75, 0.25])
    """
    share = np.maximum(start, 0.0)
    if not share.any():
        share[np.argmin(c + 0.5 * np.diag(Q))] = 1.0
    share /= share.sum()
    kept = share > 0.0
    for _ in range(MOST * c.size):
        share = _settled(Q, c, share, kept)
        slopes = Q @ share + c
        entering = int(np.argmin(slopes))
        short = float(share @ slopes) - float(slopes[entering])
        kept = share > 0.0
        if kept[entering] or short <= ACCURACY * float(share @ (np.abs(slopes) + np.abs(c))):
            break
        kept[entering] = True
    return share


def _settled(Q: np.ndarray, c: np.ndarray, share: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The minimiser on the face of the support; items that would be negative are dropped, one after another."""
    kept = kept.copy()
    while True:
        aim = np.zeros(c.size)
        aim[kept] = _on_face(Q[np.ix_(kept, kept)], c[kept])
        if not (aim < 0.0).any():
            return aim / aim.sum()
        falling = aim < 0.0
        parts = np.where(falling, share / np.where(falling, share - aim, 1.0), np.inf)
        first = int(np.argmin(parts))
        share = np.maximum(share + float(parts[first]) * (aim - share), 0.0)
        share[first], kept[first] = 0.0, False
        share /= share.sum()


def _on_face(Q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The stationary point of the quadratic where Σ λ = 1."""
    ridge = 1e-13 * (float(np.diag(Q).max()) or 1.0)  # cuts may be equal
    return bordered(Q + ridge * np.eye(c.size), c.mean() - c, 1.0)[0]  # a constant changes the digits only


def bordered(Q: np.ndarray, right: np.ndarray, total: float) -> tuple[np.ndarray, float]:
    """x (m,) and t with Q x + t = right and Σ x = total; the nearest to it where there is none."""
    m, size = right.size, float(np.abs(np.diag(Q)).max()) or 1.0
    system = np.full((m + 1, m + 1), size)
    system[:m, :m], system[m, m] = Q, 0.0
    wanted = np.append(right, size * total)
    try:
        found = np.linalg.solve(system, wanted)
    except np.linalg.LinAlgError:
        found = np.linalg.lstsq(system, wanted, rcond=None)[0]
    return found[:m], size * float(found[m])


class Interior(NamedTuple):
    """A point of the interior-point method: minimise ‖Gᵀλ + u‖²/(2 ridge) − ⟨c, λ⟩ over the simplex and |u| ≤ kink."""

    share: np.ndarray  # (m,) λ
    u: np.ndarray  # (d,) what the kink takes off the slope
    slack: np.ndarray  # (m,) multipliers of λ ≥ 0
    upper: np.ndarray  # (d,) of u ≤ kink
    lower: np.ndarray  # (d,) of u ≥ −kink
    level: float  # of Σ λ = 1


def kinked_mixture(
    slopes: np.ndarray, offsets: np.ndarray, kink: float | np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """The λ (m,) of the simplex with the largest ⟨offsets, λ⟩ − r*(−Σ λₖ slopesₖ), r = kink‖·‖₁ + ridge/2 ‖·‖².

    And the minimiser (d,) of the largest cut plus r, which belongs to it. ``kink`` may be one for each coordinate.

    A primal-dual interior-point method: the part of a slope that the kink absorbs is a variable in a box. Weights
    that end near zero are set to zero.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.certificate.mixture import kinked_mixture
    >>> kinked_mixture(np.array([[-3.0], [1.0]]), np.array([2.0, 1.0]), kink=0.5, ridge=1.0)[0].round(4)
    array([0.4375, 0.5625])
    """
    m, d = slopes.shape
    far = np.abs(slopes.mean(axis=0)) / ridge
    size = max(float(np.ptp(offsets)), 1e-3 * float(np.abs(offsets).max()), 1e-300)
    mu = max(size / m, float((kink * far).max()), 0.5 * ridge * float(far @ far) / m)
    bounds = np.full(d, mu / kink)
    at = Interior(np.full(m, 1.0 / m), np.zeros(d), np.full(m, m * mu), bounds, bounds, float(offsets.max()))
    for _ in range(INTERIOR_STEPS):
        left = float(at.share @ at.slack + at.upper @ (kink - at.u) + at.lower @ (kink + at.u))
        if left <= 1e-10 * max(size, float(((at.share @ slopes + at.u) ** 2).sum()) / ridge):
            break
        nearer = _interior_step(at, slopes, offsets, kink, ridge, 0.1 * left / (m + 2 * d))
        if not np.isfinite(nearer.share.sum() + nearer.u.sum()):  # rounding has ended progress
            break
        at = nearer
    share = np.where(at.share < 1e-10 * at.share.max(), 0.0, at.share)
    w = -(at.share @ slopes + at.u) / ridge
    small = kink - np.abs(at.u) > np.abs(w) * (kink / max(float(np.abs(w).max()), 1e-300))
    return share / share.sum(), np.where(small, 0.0, w)


def _interior_step(
    at: Interior, G: np.ndarray, c: np.ndarray, kink: float | np.ndarray, ridge: float, mu: float
) -> Interior:
    """A Newton step towards the central point of ``mu``; u and its multipliers are eliminated."""
    to_upper, to_lower = kink - at.u, kink + at.u
    w = -(at.share @ G + at.u) / ridge
    E = 1.0 / ridge + at.upper / to_upper + at.lower / to_lower
    residual_u, residual_share = -w + mu / to_upper - mu / to_lower, -(G @ w) - c + at.level - mu / at.share
    Q = (G * ((1.0 - 1.0 / (ridge * E)) / ridge)) @ G.T + np.diag(at.slack / at.share)
    share, level = bordered(Q, G @ (residual_u / E) / ridge - residual_share, 1.0 - float(at.share.sum()))
    u = -(residual_u + share @ G / ridge) / E
    slack = (mu - at.slack * share) / at.share - at.slack
    upper, lower = (mu + at.upper * u) / to_upper - at.upper, (mu - at.lower * u) / to_lower - at.lower
    t = _longest_step((at.share, to_upper, to_lower, *at[2:5]), (share, -u, u, slack, upper, lower))
    steps = (share, u, slack, upper, lower, level)
    return Interior(*(old + t * step for old, step in zip(at, steps, strict=True)))


def _longest_step(sizes: Iterable[np.ndarray], steps: Iterable[np.ndarray]) -> float:
    """The part of the steps, at most 1, that keeps all sizes positive."""
    most = max(float((-step / size).max()) for size, step in zip(sizes, steps, strict=True))
    return 1.0 if most <= 0.0 else min(1.0, 0.99 / most)
