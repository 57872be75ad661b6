"""Bundles of cuts: which of them are kept, and the mixture that is best, a quadratic program over the simplex."""

import numpy as np

from xrisk.certificate.cuts import Cut, Cuts
from xrisk.certificate.rounding import EPS

RECENT = 3  # cuts that stay, whatever they bring
ACCURACY = 1e-11  # of the slopes, beside the largest of them
MOST = 4  # changes of the support, for each item


def best_mixture(Q: np.ndarray, c: np.ndarray, start: np.ndarray) -> np.ndarray:
    """A minimiser of ½ λᵀQλ + ⟨c, λ⟩ over λ ≥ 0 with Σ λ = 1, by active sets from the support of ``start``.

    Q (m, m) is positive semidefinite. What rounding leaves is a point of the simplex that is nearly a minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.solvers.shared.mixture import best_mixture
    >>> best_mixture(np.diag([1.0, 3.0]), np.zeros(2), np.zeros(2))
    array([0.75, 0.25])
    """
    share = np.maximum(start, 0.0)
    if not share.any():
        share[np.argmin(c + 0.5 * np.diag(Q))] = 1.0
    share /= share.sum()
    held = share > 0.0
    for _ in range(MOST * c.size):
        share = _settled(Q, c, share, held)
        slopes = Q @ share + c
        entering = int(np.argmin(slopes))
        short = float(share @ slopes) - float(slopes[entering])
        held = share > 0.0
        if held[entering] or short <= ACCURACY * float(np.abs(slopes).max()):
            break
        held[entering] = True
    return share


def _settled(Q: np.ndarray, c: np.ndarray, share: np.ndarray, held: np.ndarray) -> np.ndarray:
    """The minimiser on the face of what is held; what would be negative there is dropped, one after another."""
    held = held.copy()
    while True:
        aim = np.zeros(c.size)
        aim[held] = _on_face(Q[np.ix_(held, held)], c[held])
        if not (aim < 0.0).any():
            return aim / aim.sum()
        falling = aim < 0.0
        parts = np.where(falling, share / np.where(falling, share - aim, 1.0), np.inf)
        first = int(np.argmin(parts))
        share = np.maximum(share + float(parts[first]) * (aim - share), 0.0)
        share[first], held[first] = 0.0, False
        share /= share.sum()


def _on_face(Q: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The stationary point of the quadratic where Σ λ = 1."""
    m, size = c.size, max(float(np.diag(Q).max()), 1e-300)
    system = np.full((m + 1, m + 1), size)
    system[:m, :m] = Q
    system[np.arange(m), np.arange(m)] += 1e-13 * size  # cuts may be equal
    system[m, m] = 0.0
    wanted = np.append(-c, size)
    try:
        return np.linalg.solve(system, wanted)[:m]
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(system, wanted, rcond=None)[0][:m]


def with_cut(cuts: Cuts, share: np.ndarray, cut: Cut, w: np.ndarray, scale: np.ndarray) -> tuple[Cuts, np.ndarray]:
    """The cuts with one more, the last, and their shares (room,).

    Where there is no room, the lowest at w of those without a share is dropped; if all have one, the two of least share
    are merged, which leaves what the mixture proves as it was.
    """
    if cuts.held < share.size:
        return _appended(cuts, np.arange(cuts.held), cut), share
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
    new = Cuts(*(np.zeros_like(array) for array in cuts[:4]), stay.size + 1)
    for array, old, last in zip(new[:4], cuts[:4], (cut.slope, cut.offset, cut.slack, cut.spread), strict=True):
        array[: stay.size], array[stay.size] = old[stay], last
    return new


def _merged(cuts: Cuts, share: np.ndarray, gone: int, into: int, scale: np.ndarray) -> tuple[Cuts, np.ndarray]:
    """The cuts with one of two in the place of the other, mixed by their shares."""
    new, both = Cuts(*(array.copy() for array in cuts[:4]), cuts.held), share.copy()
    both[into] += both[gone]
    part = share[gone] / both[into]
    for array, old in zip(new[:4], cuts[:4], strict=True):
        array[into] = part * old[gone] + (1.0 - part) * old[into]
    sizes = np.abs(cuts.slopes[[gone, into]]).max(axis=0)
    new.slacks[into] += 8 * EPS * (new.slacks[into] + np.abs(cuts.offsets[[gone, into]]).max())
    new.spreads[into] += 8 * EPS * (new.spreads[into] + (sizes / scale).max())
    both[gone] = 0.0
    return new, both
