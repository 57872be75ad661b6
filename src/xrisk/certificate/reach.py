"""Columns that a ridge does not hold: cuts bound where the optimum can be, and so what the rounding of a slope costs.

A slope is known up to the rounding of sums over all rows. Where a column is large that is a large number, and
r*(−slope) of a ridge that hardly holds its coordinate makes it larger still: the error counts by its square over the
ridge. But all w with F(w) + r(w) ≤ primal satisfy, for a mixture offset + ⟨s, w⟩ of cuts and any t > 0,

    primal ≥ offset + ⟨s − t e_j, w⟩ + r(w) + t w_j ≥ D + t w_j,    so that w_j ≤ (primal − D)/t,

D being the bound of the mixture tilted by t. With |w_j| ≤ reach_j known of some coordinates, r* is that over a box, and
an error of the slope costs reach_j times it: bounds and reaches improve each other.
"""

from typing import NamedTuple

import numpy as np

from xrisk.certificate.cuts import Cuts
from xrisk.certificate.mixture import best_mixture, kinked_mixture
from xrisk.certificate.rounding import EPS, TINY
from xrisk.functions import L2, ElasticNet
from xrisk.generic import generic

LOOSE = 1e-12  # a ridge below that, over the square of the scale, does not hold its column
HOLD = 1e-9  # what stands for such a ridge where mixtures are chosen
LEAST_KINK = 1e-4  # in units of the square root of that: an interior-point method needs some room
MOST = 16  # columns that reaches are found for
TILT = 0.01  # of the largest slope
LESS = 1e-6  # columns that are almost the same allow no larger one,
FINER = 1e-4  # and mixtures in which less of them is left
ROUNDS = 60


@generic
def kink_size(r):
    """The strength of ‖w‖₁ in a penalty that is a ridge beside it."""


kink_size.of(L2)(lambda r: 0.0)
kink_size.of(ElasticNet)(lambda r: r.l1)


class Reach(NamedTuple):
    """The penalty kink‖w‖₁ + ridge/2 ‖w‖², and what is known of where the optimum is."""

    ridge: float
    kink: float
    scale: np.ndarray  # (d,) of the columns
    hold: np.ndarray  # (d,) the ridge by which mixtures are chosen
    loose: np.ndarray  # the columns that the ridge does not hold
    reach: np.ndarray  # (d,) a bound on |w_j| at the optimum; inf where none is known


def box_of(ridge: float, kink: float, scale: np.ndarray) -> Reach:
    """The box of a penalty before anything is known of the optimum."""
    size = scale**2 / ridge if ridge else np.zeros(scale.size)
    loose = np.flatnonzero(size * LOOSE > 1.0)
    loose = loose[np.argsort(-size[loose], kind="stable")[:MOST]]
    hold = np.full(scale.size, ridge)
    hold[loose] = HOLD * scale[loose] ** 2
    return Reach(ridge, kink, scale, hold, loose, np.full(scale.size, np.inf))


def mixed(box: Reach, slopes: np.ndarray, offsets: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mixture (m,) of cuts that proves most were ``hold`` the ridge, and the minimiser (d,) that it belongs to."""
    size = np.sqrt(box.hold)
    scaled = slopes / size
    if box.kink:
        kink = box.kink / size
        kink[box.loose] = np.maximum(kink[box.loose], LEAST_KINK)
        share, aim = kinked_mixture(scaled, offsets, kink, 1.0)
        return share, aim / size
    share = best_mixture(scaled @ scaled.T, -offsets, start)
    return share, -(share @ scaled) / size


def boxed_below(box: Reach, cuts: Cuts, share: np.ndarray, tilt: np.ndarray) -> float:
    """A lower bound on F + r − ⟨tilt, w⟩ over the box by a mixture of the cuts; ``share`` (m,) is not negative."""
    total = float(share.sum())
    if not 0.0 < total < np.inf:
        return -np.inf
    q, slopes, offsets = share / total, cuts.slopes[: share.size], cuts.offsets[: share.size]
    each = EPS * (2 * share.size + 32)
    error_bound = each * (q @ np.abs(slopes) + np.abs(tilt)) + TINY
    error_bound += (1.0 + each) * float(q @ cuts.spreads[: share.size]) * box.scale
    vjp = np.maximum(np.abs(q @ slopes - tilt) + error_bound - box.kink * (1.0 - 4 * EPS), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        costs = np.minimum(0.5 * vjp**2 / box.ridge, np.where(np.isinf(box.reach), np.inf, box.reach * vjp))
        cost = float(costs.sum()) * (1.0 + EPS * (2 * vjp.size + 32)) + vjp.size * TINY
        slack = (1.0 + each) * float(q @ cuts.slacks[: share.size]) + each * float(q @ np.abs(offsets))
        bound = float(q @ offsets) - cost - slack - 4 * EPS * cost - TINY
    return bound if np.isfinite(bound) else -np.inf


def held_below(box: Reach, cuts: Cuts, primal: float) -> float:
    """The best lower bound on F + r that cuts prove, alone or mixed, once they have proved where the optimum can be."""
    if not cuts.held:
        return -np.inf
    box, hold = narrowed(box, cuts, primal), box.hold.copy()
    hold[box.loose] *= FINER
    box = narrowed(box._replace(hold=hold), cuts, primal, LESS)
    share = mixed(box, cuts.slopes[: cuts.held], cuts.offsets[: cuts.held], np.zeros(cuts.held))[0]
    return max(boxed_below(box, cuts, each, np.zeros(box.scale.size)) for each in (share, *np.eye(cuts.held)))


def promised(box: Reach, cuts: Cuts, share: np.ndarray) -> float:
    """What a mixture (m,) would prove were slopes exact and ``hold`` the ridge."""
    vjp = np.maximum(np.abs(share @ cuts.slopes[: share.size]) - box.kink, 0.0)
    return float(share @ cuts.offsets[: share.size]) - 0.5 * float((vjp**2 / box.hold).sum())


def narrowed(box: Reach, cuts: Cuts, primal: float, part: float = TILT) -> Reach:
    """The box with the reaches that the cuts prove, ``primal`` being above the optimum.

    Tilts are a ``part`` of the largest slope.
    """
    tilts = _tilts(box, cuts, part)
    for _ in range(ROUNDS):
        reach = box.reach.copy()
        for j in {j for j, _, _ in tilts}:
            ends = [
                (primal - boxed_below(box, cuts, share, tilt)) / abs(float(tilt[j])) * (1.0 + 16 * EPS)
                for column, tilt, share in tilts
                if column == j
            ]
            reach[j] = min(reach[j], max(*ends, 0.0))
        better = (reach < 0.5 * box.reach).any()
        box = box._replace(reach=reach)
        if not better:
            break
    return box


def _tilts(box: Reach, cuts: Cuts, part: float) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Of every loose column, either side: the tilt (d,), and the mixture of cuts that proves most under it."""
    slopes, offsets, found = cuts.slopes[: cuts.held], cuts.offsets[: cuts.held], []
    for j in box.loose.tolist():
        for side in (-1.0, 1.0):
            tilt = np.zeros(box.scale.size)
            tilt[j] = side * part * float(np.abs(slopes[:, j]).max())
            if tilt[j] != 0.0:
                found.append((j, tilt, mixed(box, slopes - tilt, offsets, np.zeros(cuts.held))[0]))
    return found
