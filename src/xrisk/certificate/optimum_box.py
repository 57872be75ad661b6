"""Columns with a negligible ridge: cuts bound where the optimum can be, which bounds the cost of rounding a slope.

A slope is known up to the rounding of sums over all rows, which is large for a large column. If the ridge is
negligible for that column, r*(−slope) amplifies the error: it enters by its square over the ridge.
But all w with F(w) + r(w) ≤ primal satisfy, for a mixture offset + ⟨s, w⟩ of cuts and any t > 0,

    primal ≥ offset + ⟨s − t e_j, w⟩ + r(w) + t w_j ≥ D + t w_j,    so that w_j ≤ (primal − D)/t,

D being the bound of the mixture tilted by t. Once |w_j| ≤ radius_j is known for some coordinates, r* is that over a
box, and an error of the slope costs radius_j times its size. So bounds and radii improve each other.
"""

from typing import NamedTuple

import numpy as np

from xrisk.certificate.cuts import Cuts, mixed
from xrisk.certificate.mixture import best_mixture, kinked_mixture
from xrisk.certificate.rounding import EPS, TINY
from xrisk.functions import L2, ElasticNet
from xrisk.generic import generic

LOOSE = 1e-12  # a ridge below that, over the square of the scale, is negligible for its column
WORKING = 1e-9  # what stands for such a ridge where mixtures are chosen
LEAST_KINK = 1e-4  # in units of the square root of that: an interior-point method needs an interior
MOST = 16  # columns for which radii are found
TILT = 0.01  # of the largest slope
SMALL_TILT = 1e-6  # columns that are almost the same allow no larger one,
FINER = 1e-4  # and mixtures of a smaller working ridge
ROUNDS = 60


@generic
def kink_size(r):
    """The strength of ‖w‖₁ in a penalty whose other part is a ridge."""


kink_size.of(L2)(lambda r: 0.0)
kink_size.of(ElasticNet)(lambda r: r.l1)


class OptimumBox(NamedTuple):
    """The penalty kink‖w‖₁ + ridge/2 ‖w‖², and what is known of where the optimum is."""

    ridge: float
    kink: float
    scale: np.ndarray  # (d,) of the columns
    working: np.ndarray  # (d,) the ridge by which mixtures are chosen
    loose: np.ndarray  # the columns with a negligible ridge
    radius: np.ndarray  # (d,) a bound on |w_j| at the optimum; inf where none is known


def box_of(ridge: float, kink: float, scale: np.ndarray) -> OptimumBox:
    """The box of a penalty before anything is known of the optimum."""
    size = scale**2 / ridge if ridge else np.zeros(scale.size)
    loose = np.flatnonzero(size * LOOSE > 1.0)
    loose = loose[np.argsort(-size[loose], kind="stable")[:MOST]]
    working = np.full(scale.size, ridge)
    working[loose] = WORKING * scale[loose] ** 2
    return OptimumBox(ridge, kink, scale, working, loose, np.full(scale.size, np.inf))


def strongest_mixture(
    box: OptimumBox, slopes: np.ndarray, offsets: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mixture (m,) of cuts that proves most under the ``working`` ridge, and the minimiser (d,) of the model."""
    size = np.sqrt(box.working)
    scaled = slopes / size
    if box.kink:
        kink = box.kink / size
        kink[box.loose] = np.maximum(kink[box.loose], LEAST_KINK)
        share, aim = kinked_mixture(scaled, offsets, kink, 1.0)
        return share, aim / size
    share = best_mixture(scaled @ scaled.T, -offsets, start)
    return share, -(share @ scaled) / size


def box_lower_bound(box: OptimumBox, cuts: Cuts, share: np.ndarray, tilt: np.ndarray) -> float:
    """A lower bound on F + r − ⟨tilt, w⟩ over the box by a mixture of the cuts; ``share`` (m,) is not negative."""
    mix = mixed(cuts, share, box.scale, tilt)
    slope = np.maximum(np.abs(mix.slope) + mix.error_bound - box.kink * (1.0 - 4 * EPS), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        in_box = np.where(np.isinf(box.radius), np.inf, box.radius * slope)
        costs = np.minimum(0.5 * slope**2 / box.ridge, in_box)
        return mix.bound_by(float(costs.sum()) * (1.0 + EPS * (2 * slope.size + 32)) + slope.size * TINY)


def best_lower_bound(box: OptimumBox, cuts: Cuts, primal: float) -> float:
    """The best lower bound on F + r that cuts prove, alone or mixed, once they have proved where the optimum can be."""
    if not cuts.filled:
        return -np.inf
    box, working = narrowed(box, cuts, primal), box.working.copy()
    working[box.loose] *= FINER
    box = narrowed(box._replace(working=working), cuts, primal, SMALL_TILT)
    share = strongest_mixture(box, cuts.slopes[: cuts.filled], cuts.offsets[: cuts.filled], np.zeros(cuts.filled))[0]
    return max(box_lower_bound(box, cuts, each, np.zeros(box.scale.size)) for each in (share, *np.eye(cuts.filled)))


def predicted_bound(box: OptimumBox, cuts: Cuts, share: np.ndarray) -> float:
    """What a mixture (m,) would prove with exact slopes and the ``working`` ridge."""
    vjp = np.maximum(np.abs(share @ cuts.slopes[: share.size]) - box.kink, 0.0)
    return float(share @ cuts.offsets[: share.size]) - 0.5 * float((vjp**2 / box.working).sum())


def narrowed(box: OptimumBox, cuts: Cuts, primal: float, part: float = TILT) -> OptimumBox:
    """The box with the radii that the cuts prove, given an upper bound ``primal`` on the optimum.

    Tilts are a ``part`` of the largest slope.
    """
    tilts = _tilts(box, cuts, part)
    for _ in range(ROUNDS):
        radius = box.radius.copy()
        for j in {j for j, _, _ in tilts}:
            ends = [
                (primal - box_lower_bound(box, cuts, share, tilt)) / abs(float(tilt[j])) * (1.0 + 16 * EPS)
                for column, tilt, share in tilts
                if column == j
            ]
            radius[j] = min(radius[j], max(*ends, 0.0))
        better = (radius < 0.5 * box.radius).any()
        box = box._replace(radius=radius)
        if not better:
            break
    return box


def _tilts(box: OptimumBox, cuts: Cuts, part: float) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of every loose column, either side: the tilt (d,), and the mixture of cuts that proves most under it."""
    slopes, offsets, found = cuts.slopes[: cuts.filled], cuts.offsets[: cuts.filled], []
    for j in box.loose.tolist():
        for side in (-1.0, 1.0):
            tilt = np.zeros(box.scale.size)
            tilt[j] = side * part * float(np.abs(slopes[:, j]).max())
            if tilt[j] != 0.0:
                found.append((j, tilt, strongest_mixture(box, slopes - tilt, offsets, np.zeros(cuts.filled))[0]))
    return found
