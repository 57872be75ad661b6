"""Faces of domains: a minimiser that lies on a face also minimises the objective on the plane of that face."""
# mypy: disable-error-code="empty-body"

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Domain, Penalty
from xrisk.functions.domain import NonNegative, Simplex
from xrisk.functions.exposure import Hyperplane, L1Ball, LeveragedBudget, SolidSimplex
from xrisk.functions.penalty import L2, NoPenalty
from xrisk.functions.restricted import Restricted, Tilted
from xrisk.generic import generic

NEAR = 1e-12  # relative, of a bound that holds with equality


class Face(NamedTuple):
    """The part of a domain with the same zeros and signs: A w = totals on the coordinates that move."""

    moving: np.ndarray  # (d,) mask
    A: np.ndarray  # (sums, d)
    totals: np.ndarray  # (sums,)


@generic
def face_of(domain: Domain, w: np.ndarray) -> Face:
    """The face of the domain that w (d,) lies on."""


@generic
def domain_of(penalty: Penalty) -> Any:
    """The domain of a penalty that is a ridge and a linear term on a domain; else the part that is neither."""


@generic
def linear_of(penalty: Penalty, d: int) -> np.ndarray:
    """The linear term (d,) of the penalty."""


@linear_of.otherwise
def _(penalty, d):
    return np.zeros(d)


@linear_of.of(Tilted)
def _(penalty, d):
    return linear_of(penalty.penalty, d) + penalty.slope


domain_of.otherwise(lambda penalty: penalty)
domain_of.of(L2)(lambda penalty: NoPenalty())
domain_of.of(Tilted)(lambda penalty: domain_of(penalty.penalty))


@domain_of.of(Restricted)
def _(penalty):
    inside = domain_of(penalty.penalty)
    return penalty.domain if type(inside) is NoPenalty else inside


def _sums(moving: np.ndarray, *sums: tuple[np.ndarray, float]) -> Face:
    kept = [(row, total) for row, total in sums if row[moving].any()]
    return Face(moving, np.array([row for row, _ in kept]).reshape(-1, moving.size), np.array([b for _, b in kept]))


@face_of.of(NoPenalty)
def _(domain, w):
    return _sums(np.ones(w.size, dtype=bool))


@face_of.of(NonNegative)
def _(domain, w):
    return _sums(w > 0.0)


@face_of.of(Hyperplane)
def _(domain, w):
    return _sums(np.ones(w.size, dtype=bool), (np.ones(w.size), domain.total))


@face_of.of(Simplex)
def _(domain, w):
    return _sums(w > 0.0, (np.ones(w.size), domain.total))


@face_of.of(SolidSimplex)
def _(domain, w):
    tight = [(np.ones(w.size), domain.total)] if w.sum() >= domain.total * (1.0 - NEAR) else []
    return _sums(w > 0.0, *tight)


@face_of.of(L1Ball)
def _(domain, w):
    if np.abs(w).sum() < domain.radius * (1.0 - NEAR):
        return _sums(np.ones(w.size, dtype=bool))
    return _sums(w != 0.0, (np.sign(w), domain.radius))


@face_of.of(LeveragedBudget)
def _(domain, w):
    if np.abs(w).sum() < domain.gross * (1.0 - NEAR):
        return _sums(np.ones(w.size, dtype=bool), (np.ones(w.size), domain.total))
    long, short = 0.5 * (domain.gross + domain.total), 0.5 * (domain.gross - domain.total)
    return _sums(w != 0.0, ((w > 0.0).astype(float), long), ((w < 0.0).astype(float), -short))
