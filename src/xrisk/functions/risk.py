"""Joint risks ρ(u) = max_q ⟨q, u⟩ − ρ*(q) = min_c c + mean_i f(u_i − c) of the values u of n inner functions."""
# mypy: disable-error-code="empty-body"

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Risk
from xrisk.functions.block.joint import in_capped_simplex
from xrisk.functions.outer import ChiSquareA, ChiSquareB, CVaRHinge, Exponential, Scaled, outer_value
from xrisk.functions.parameters import checks, positive, share
from xrisk.functions.simplex import (
    ascending,
    fill_from_top,
    project_capped_simplex,
    project_simplex,
    simplex_threshold,
)
from xrisk.functions.special import xlogx
from xrisk.generic import generic


@generic
def risk_value(rho: Risk, u: np.ndarray) -> float:
    """ρ(u), u of shape (n,)."""


@generic
def risk_threshold(rho: Risk, u: np.ndarray) -> float:
    """A minimiser c of c + mean_i f(u_i − c)."""


@generic
def risk_weights(rho: Risk, u: np.ndarray, q: np.ndarray) -> None:
    """Write a maximiser of ⟨q, u⟩ − ρ*(q) into ``q``."""


@generic
def risk_conjugate(rho: Risk, q: np.ndarray) -> float:
    """ρ*(q); inf outside the dual set (slack 1e-9)."""


@generic
def risk_project(rho: Risk, q: np.ndarray) -> None:
    """Nearest point of the dual set, in place."""


@generic
def risk_outer(rho: Risk, n: int) -> Any:
    """The scalar outer function f of ρ(u) = min_c c + mean_i f(u_i − c)."""


@generic
def risk_cap(rho: Risk, n: int) -> float:
    """Largest weight a single q_i may have."""


@generic
def risk_is_support(rho: Risk) -> bool:
    """Whether ρ* is zero on the dual set, so that ρ(u) is the largest ⟨q, u⟩ over it."""


@generic
def risk_is_capped(rho: Risk) -> bool:
    """Whether the dual set is all of the simplex with q_i ≤ `risk_cap`, and ρ* zero on it."""


class MaxRisk(NamedTuple):
    """ρ(u) = max_i u_i.

    Examples
    --------
    >>> float(risk_value(MaxRisk(), np.array([1.0, 2.0, 3.0, 6.0])))
    6.0
    """


@checks(alpha=share)
class CVaRRisk(NamedTuple):
    """ρ(u) = mean of the largest share α of u, the last one counted fractionally: q_i ≤ 1/(α n).

    Examples
    --------
    >>> round(risk_value(CVaRRisk(0.3), np.array([1.0, 2.0, 3.0, 6.0])), 9)
    5.5
    """

    alpha: float = 0.1


@checks(lam=positive)
class ChiSquareRiskA(NamedTuple):
    """ρ(u) = max_q ⟨q, u⟩ − (λ/n) Σ_i ½ (n q_i − 1)² over the simplex.

    Examples
    --------
    >>> risk_value(ChiSquareRiskA(1.0), np.array([1.0, 2.0, 3.0, 6.0]))
    4.5625
    """

    lam: float = 1.0


@checks(lam=positive)
class ChiSquareRiskB(NamedTuple):
    """ρ(u) = max_q ⟨q, u⟩ − (λ/n) Σ_i (n q_i − 1)² over the simplex.

    Examples
    --------
    >>> risk_value(ChiSquareRiskB(1.0), np.array([1.0, 2.0, 3.0, 6.0]))
    3.875
    """

    lam: float = 1.0


@checks(lam=positive)
class KLRisk(NamedTuple):
    """ρ(u) = λ log mean_i exp(u_i/λ) = max_q ⟨q, u⟩ − λ Σ_i q_i log(n q_i) over the simplex.

    Examples
    --------
    >>> risk_value(KLRisk(2.0), np.array([3.0, 3.0]))
    3.0
    """

    lam: float = 1.0


@risk_cap.of(MaxRisk)
@risk_cap.of(ChiSquareRiskA)
@risk_cap.of(ChiSquareRiskB)
@risk_cap.of(KLRisk)
def _(rho, n):
    return 1.0


@risk_cap.of(CVaRRisk)
def _(rho, n):
    return min(max(1.0 / (rho.alpha * n), 1.0 / n), 1.0)


risk_is_support.otherwise(lambda rho: False)
risk_is_support.of(MaxRisk)(lambda rho: True)
risk_is_support.of(CVaRRisk)(lambda rho: True)
risk_is_capped.otherwise(lambda rho: False)
risk_is_capped.of(MaxRisk)(lambda rho: True)
risk_is_capped.of(CVaRRisk)(lambda rho: True)


@risk_project.of(MaxRisk)
@risk_project.of(ChiSquareRiskA)
@risk_project.of(ChiSquareRiskB)
@risk_project.of(KLRisk)
def _(rho, q):
    project_simplex(q, 1.0)


@risk_project.of(CVaRRisk)
def _(rho, q):
    project_capped_simplex(q, 1.0, risk_cap(rho, q.size))


@risk_outer.of(MaxRisk)
def _(rho, n):
    return CVaRHinge(1.0 / n)


@risk_outer.of(CVaRRisk)
def _(rho, n):
    return CVaRHinge(max(rho.alpha, 1.0 / n))  # less than one value is the maximum, with slopes of at most n


risk_outer.of(ChiSquareRiskA)(lambda rho, n: ChiSquareA(rho.lam))
risk_outer.of(ChiSquareRiskB)(lambda rho, n: ChiSquareB(rho.lam))


@risk_outer.of(KLRisk)
def _(rho, n):
    return Scaled(Exponential(rho.lam), 1.0, 1.0, 0.0, -rho.lam)


@register_jitable
def tail_mean(u, cap):
    """Σ of the largest u with weight ``cap`` each, until the weights sum to one."""
    values = ascending(u)
    top = float(values[-1])
    left = 1.0
    deficit = 0.0
    for r in range(u.size - 1, -1, -1):
        weight = min(cap, left)
        if weight <= 0.0:
            break
        deficit += weight * (float(values[r]) - top)
        left -= weight
    return top + deficit


@risk_value.of(MaxRisk)
@risk_threshold.of(MaxRisk)
def _(rho, u):
    return u.max()


@risk_weights.of(MaxRisk)
def _(rho, u, q):
    fill_from_top(u, 1.0, 1.0, q)


@risk_conjugate.of(MaxRisk)
def _(rho, q):
    return 0.0 if in_capped_simplex(q, 1.0, 1.0) else np.inf


@risk_value.of(CVaRRisk)
def _(rho, u):
    return tail_mean(u, risk_cap(rho, u.size))


@risk_threshold.of(CVaRRisk)
def _(rho, u):
    rank = min(max(math.ceil(rho.alpha * u.size), 1), u.size)
    return ascending(u)[u.size - rank]


@risk_weights.of(CVaRRisk)
def _(rho, u, q):
    fill_from_top(u, 1.0, risk_cap(rho, u.size), q)


@risk_conjugate.of(CVaRRisk)
def _(rho, q):
    return 0.0 if in_capped_simplex(q, 1.0, risk_cap(rho, q.size)) else np.inf


@register_jitable
def chi_square_value(u, f, lift):
    """top + (c + mean f(u − top − c)) with c = θ + lift; around top, since λ may be rounded away beside u."""
    top, theta = simplex_threshold(u, u.size * lift)
    c = theta + lift
    total = 0.0
    for i in range(u.size):
        total += outer_value(f, float(u[i]) - top - c)
    return top + (c + total / u.size)


@register_jitable
def chi_square_weights(u, lift, q):
    """(u − top − θ)₊, divided by their sum n·lift."""
    top, theta = simplex_threshold(u, u.size * lift)
    for i in range(u.size):
        q[i] = max(float(u[i]) - top - theta, 0.0) / (u.size * lift)


@register_jitable
def chi_square_distance(q):
    """mean of (n q_i − 1)², inf outside the simplex."""
    if not in_capped_simplex(q, 1.0, 1.0):
        return np.inf
    total = 0.0
    for i in range(q.size):
        total += (q.size * q[i] - 1.0) * (q.size * q[i] - 1.0)
    return total / q.size


@risk_value.of(ChiSquareRiskA)
def _(rho, u):
    return chi_square_value(u, ChiSquareA(rho.lam), rho.lam)


@risk_threshold.of(ChiSquareRiskA)
def _(rho, u):
    top, theta = simplex_threshold(u, u.size * rho.lam)
    return top + (theta + rho.lam)


@risk_weights.of(ChiSquareRiskA)
def _(rho, u, q):
    chi_square_weights(u, rho.lam, q)


@risk_conjugate.of(ChiSquareRiskA)
def _(rho, q):
    return 0.5 * rho.lam * chi_square_distance(q)


@risk_value.of(ChiSquareRiskB)
def _(rho, u):
    return chi_square_value(u, ChiSquareB(rho.lam), 2.0 * rho.lam)


@risk_threshold.of(ChiSquareRiskB)
def _(rho, u):
    top, theta = simplex_threshold(u, u.size * 2.0 * rho.lam)
    return top + (theta + 2.0 * rho.lam)


@risk_weights.of(ChiSquareRiskB)
def _(rho, u, q):
    chi_square_weights(u, 2.0 * rho.lam, q)


@risk_conjugate.of(ChiSquareRiskB)
def _(rho, q):
    return rho.lam * chi_square_distance(q)


@risk_value.of(KLRisk)
@risk_threshold.of(KLRisk)
def _(rho, u):
    # shifted by the largest value: exp overflows at 710
    top = float(u.max())
    total = 0.0
    for i in range(u.size):
        total += math.exp((float(u[i]) - top) / rho.lam)
    return top + rho.lam * math.log(total / u.size)


@risk_weights.of(KLRisk)
def _(rho, u, q):
    top = float(u.max())
    for i in range(u.size):
        q[i] = math.exp((float(u[i]) - top) / rho.lam)
    q /= q.sum()


@risk_conjugate.of(KLRisk)
def _(rho, q):
    if not in_capped_simplex(q, 1.0, 1.0):
        return np.inf
    total = math.log(q.size)
    for i in range(q.size):
        total += xlogx(q[i])
    return rho.lam * total
