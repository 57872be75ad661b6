"""Penalties on a domain, with a threshold next to the parameters, with free coordinates, or with a linear term."""
# mypy: disable-error-code="empty-body"

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Domain, Penalty
from xrisk.functions.domain import (
    SLACK,
    Ball,
    Box,
    CappedSimplex,
    NonNegative,
    Simplex,
    inner_product,
    support_point,
)
from xrisk.functions.exposure import Hyperplane, L1Ball, LeveragedBudget, SolidSimplex
from xrisk.functions.parameters import checks, finite, require, whole_from
from xrisk.functions.penalty import (
    L1,
    L2,
    ElasticNet,
    GroupLasso,
    NoPenalty,
    penalty_conjugate,
    penalty_convexity,
    penalty_slope,
    penalty_value,
    prox,
    shrink,
)
from xrisk.functions.special import clip
from xrisk.generic import generic


@generic
def with_ridge(r: Penalty, l2: float) -> Any:
    """The penalty r(w) + (l2/2) ‖w‖², as a spec."""


SEPARABLE = (NoPenalty, L1, L2, ElasticNet)
# where the projection of the prox is the prox over the domain: any sum over coordinates on a product of intervals,
# any sum of norms and squares in a ball, squares anywhere
EXACT = {
    Box: SEPARABLE,
    NonNegative: SEPARABLE,
    Ball: (*SEPARABLE, GroupLasso),
    Simplex: (NoPenalty, L2, ElasticNet),
    CappedSimplex: (NoPenalty, L2, ElasticNet),
    Hyperplane: (NoPenalty, L2),
    L1Ball: (NoPenalty, L2),
    SolidSimplex: (NoPenalty, L2),
    LeveragedBudget: (NoPenalty, L2),
}


class Restricted(NamedTuple):
    """r(w) on the domain, inf outside: the prox is the projection of the penalty's prox.

    Exact for L2 on any domain, for L1 and ElasticNet on Box, Ball and NonNegative, for GroupLasso on Ball; other
    pairs are refused by ``check``.

    Examples
    --------
    >>> w = np.array([6.0, 8.0])
    >>> prox(Restricted(L2(1.0), Ball(1.0)), w, 1.0)
    >>> w.round(9).tolist()
    [0.6, 0.8]
    """

    penalty: Penalty = L2()
    domain: Domain = Ball()

    def check(self) -> None:
        """Refuse pairs for which the projection of the prox is not the prox."""
        pair = f"{type(self.penalty).__name__} on {type(self.domain).__name__}"
        why = "a pair whose prox is the projection of the penalty's prox"
        require(type(self.penalty) in EXACT.get(type(self.domain), ()), "penalty and domain", pair, why)
        mixed = type(self.domain) in (Simplex, CappedSimplex) and getattr(self.penalty, "l1", 0.0) > 0.0
        require(not mixed, "l1", getattr(self.penalty, "l1", 0.0), f"0 on a {type(self.domain).__name__}: {why}")


class WithThreshold(NamedTuple):
    """r(x) = penalty(w) + slope · c for x = (w, c), low ≤ c ≤ high: parameters and a threshold.

    Examples
    --------
    >>> x = np.array([2.0, 5.0])
    >>> prox(WithThreshold(L2(1.0), 1.0, -1.0, 1.0), x, 1.0)
    >>> x.tolist()
    [1.0, 1.0]
    """

    penalty: Penalty = L2()
    slope: float = 1.0
    low: float = -np.inf
    high: float = np.inf

    def check(self) -> None:
        """Refuse a slope that is not finite, or bounds that leave no finite threshold."""
        finite("slope", self.slope)
        require(self.low < np.inf, "low", self.low, "a number below inf")
        require(self.high > -np.inf, "high", self.high, "a number above -inf")
        require(self.low <= self.high, "high", self.high, f"at least low={self.low!r}")


@checks(free=whole_from(0))
class Unpenalised(NamedTuple):
    """r(w) = penalty of all but the last ``free`` coordinates (intercepts).

    Examples
    --------
    >>> penalty_value(Unpenalised(L2(2.0), 1), np.array([3.0, 7.0]))
    9.0
    """

    penalty: Penalty = L2()
    free: int = 1


class Tilted(NamedTuple):
    """r(w) = penalty(w) + ⟨slope, w⟩ + constant.

    Parameters
    ----------
    penalty : spec
        A penalty or a domain.
    slope : array (d,)
        The gradient of the linear term; an array of one number is repeated for every coordinate.
    constant : float
        What is added to the value.

    Examples
    --------
    >>> penalty_value(Tilted(L2(2.0), np.array([1.0, -1.0]), 0.5), np.array([3.0, 1.0]))
    12.5
    """

    penalty: Penalty = L2()
    slope: np.ndarray = np.zeros(1)
    constant: float = 0.0

    def check(self) -> None:
        """Refuse a slope that is not a vector, and numbers that are not finite."""
        shape = np.shape(self.slope)
        require(len(shape) == 1 and shape[0] > 0, "slope", shape, "of shape (d,)")
        require(bool(np.isfinite(self.slope).all()), "slope", self.slope, "finite")
        finite("constant", self.constant)


@penalty_value.of(Restricted)
def _(r, w):
    return penalty_value(r.penalty, w) + penalty_value(r.domain, w)


@prox.of(Restricted)
def _(r, w, s):
    prox(r.penalty, w, s)
    prox(r.domain, w, s)


@penalty_conjugate.of(Restricted)
def _(r, v):
    # evaluated at its maximiser: the projection of shrink(v)/l2, or the support point of shrink(v) when l2 = 0
    w = v.copy()
    shrink(r.penalty, w, 1.0)
    convexity = penalty_convexity(r.penalty)
    if convexity > 0.0:
        w /= convexity
        prox(r.domain, w, 1.0)
    else:
        support_point(r.domain, w)
    largest = inner_product(v, w)
    return largest if largest == np.inf else largest - penalty_value(r.penalty, w)


@penalty_slope.of(Restricted)
def _(r, w, out):
    penalty_slope(r.penalty, w, out)


penalty_convexity.of(Restricted)(lambda r: penalty_convexity(r.penalty))


@penalty_value.of(WithThreshold)
def _(r, x):
    c = float(x[-1])
    if c < r.low - SLACK * abs(r.low) or c > r.high + SLACK * abs(r.high):
        return np.inf
    return penalty_value(r.penalty, x[:-1]) + r.slope * c


@prox.of(WithThreshold)
def _(r, x, s):
    prox(r.penalty, x[:-1], s)
    x[-1] = clip(x[-1] - s * r.slope, r.low, r.high)


@penalty_conjugate.of(WithThreshold)
def _(r, v):
    rest = penalty_conjugate(r.penalty, v[:-1])
    t = float(v[-1]) - r.slope
    if t == 0.0 or rest == np.inf:
        return rest
    return rest + t * (r.high if t > 0.0 else r.low)


@penalty_slope.of(WithThreshold)
def _(r, x, out):
    penalty_slope(r.penalty, x[:-1], out[:-1])
    out[-1] = r.slope


penalty_convexity.of(WithThreshold)(lambda r: 0.0)


@penalty_value.of(Unpenalised)
def _(r, w):
    return penalty_value(r.penalty, w[: w.size - r.free])


@prox.of(Unpenalised)
def _(r, w, s):
    prox(r.penalty, w[: w.size - r.free], s)


@penalty_conjugate.of(Unpenalised)
def _(r, v):
    penalised = v.size - r.free
    for j in range(penalised, v.size):
        if v[j] != 0.0:
            return np.inf
    return penalty_conjugate(r.penalty, v[:penalised])


@penalty_slope.of(Unpenalised)
def _(r, w, out):
    penalised = w.size - r.free
    penalty_slope(r.penalty, w[:penalised], out[:penalised])
    out[penalised:] = 0.0


@penalty_convexity.of(Unpenalised)
def _(r):
    return 0.0 if r.free > 0 else penalty_convexity(r.penalty)


@register_jitable
def slope_stride(r, w):
    """The stride in the slope from one coordinate of w to the next: 0 if one number is for all."""
    if r.slope.size != w.size and r.slope.size != 1:
        raise ValueError("slope must have as many entries as there are coordinates, or one for all")
    return 1 if r.slope.size == w.size else 0


@penalty_value.of(Tilted)
def _(r, w):
    stride, total = slope_stride(r, w), 0.0
    for j in range(w.size):
        total += float(r.slope[j * stride]) * float(w[j])
    return penalty_value(r.penalty, w) + total + r.constant


@prox.of(Tilted)
def _(r, w, s):
    stride = slope_stride(r, w)
    for j in range(w.size):
        w[j] -= s * r.slope[j * stride]
    prox(r.penalty, w, s)


@penalty_conjugate.of(Tilted)
def _(r, v):
    stride, shifted = slope_stride(r, v), np.empty(v.size)
    for j in range(v.size):
        shifted[j] = v[j] - r.slope[j * stride]
    return penalty_conjugate(r.penalty, shifted) - r.constant


@penalty_slope.of(Tilted)
def _(r, w, out):
    penalty_slope(r.penalty, w, out)
    stride = slope_stride(r, w)
    for j in range(w.size):
        out[j] += r.slope[j * stride]


penalty_convexity.of(Tilted)(lambda r: penalty_convexity(r.penalty))


@shrink.of(Tilted)
def _(r, w, s):
    shrink(r.penalty, w, s)


with_ridge.of(NoPenalty)(lambda r, l2: L2(l2))
with_ridge.of(L1)(lambda r, l2: ElasticNet(r.l1, l2))
for _ridged in (L2, ElasticNet, GroupLasso):
    with_ridge.of(_ridged)(lambda r, l2: r._replace(l2=r.l2 + l2))
for _domain in EXACT:
    with_ridge.of(_domain)(lambda r, l2: Restricted(L2(l2), r))
for _wrapped in (Restricted, Tilted):
    with_ridge.of(_wrapped)(lambda r, l2: r._replace(penalty=with_ridge(r.penalty, l2)))
