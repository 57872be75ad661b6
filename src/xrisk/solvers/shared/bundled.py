"""Bundles of cuts, and which of them are kept."""

import numpy as np

from xrisk.certificate.cuts import Cut, Cuts
from xrisk.certificate.rounding import EPS
from xrisk.solvers.base import copied

RECENT = 3  # the latest cuts, which always stay


def with_cut(cuts: Cuts, share: np.ndarray, cut: Cut, w: np.ndarray, scale: np.ndarray) -> tuple[Cuts, np.ndarray]:
    """The cuts with one more, the last, and their shares (capacity,).

    If the bundle is full, the unused cut with the lowest value at w is dropped; if all are used, the two with the least
    shares are merged, which does not change the bound of the mixture.
    """
    if cuts.filled < share.size:
        return _appended(cuts, np.arange(cuts.filled), cut), share
    old = np.arange(share.size - RECENT)
    idle = old[share[old] == 0.0]
    if idle.size:
        gone = idle[np.argmin(cuts.offsets[idle] + cuts.slopes[idle] @ w)]
    else:
        gone, into = old[np.argsort(share[old], kind="stable")[:2]]
        cuts, share = _merged(cuts, share, int(gone), int(into), scale)
    stay = np.delete(np.arange(share.size), gone)
    return _appended(cuts, stay, cut), np.append(share[stay], 0.0)


def _appended(cuts: Cuts, stay: np.ndarray, cut: Cut) -> Cuts:
    new, filled = copied(cuts), stay.size
    for array, old, last in zip(new[:4], cuts[:4], (cut.slope, cut.offset, cut.slack, cut.spread), strict=True):
        array[:filled], array[filled] = old[stay], last
    return new._replace(filled=filled + 1)


def _merged(cuts: Cuts, share: np.ndarray, gone: int, into: int, scale: np.ndarray) -> tuple[Cuts, np.ndarray]:
    """The cuts with two of them merged into one, weighted by their shares."""
    new, both = copied(cuts), share.copy()
    both[into] += both[gone]
    part = share[gone] / both[into]
    for array, old in zip(new[:4], cuts[:4], strict=True):
        array[into] = part * old[gone] + (1.0 - part) * old[into]
    sizes = np.abs(cuts.slopes[[gone, into]]).max(axis=0)
    new.slacks[into] += 8 * EPS * (new.slacks[into] + np.abs(cuts.offsets[[gone, into]]).max())
    new.spreads[into] += 8 * EPS * (new.spreads[into] + (sizes / scale).max())
    both[gone] = 0.0
    return new, both
