"""Worst cases over distributions near the observed one: balls of a divergence, with or without a price, and masses."""
# mypy: disable-error-code="empty-body"

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Risk
from xrisk.compile import kernel
from xrisk.functions.block.joint import SLACK, in_capped_simplex
from xrisk.functions.parameters import checks, non_negative, positive
from xrisk.functions.reweighting import (
    UNKNOWN,
    chi_bound,
    chi_reweigh,
    extent,
    kl_reweigh,
    standard,
    tail_level,
    write_tail,
)
from xrisk.functions.risk import (
    ChiSquareRiskA,
    CVaRRisk,
    KLRisk,
    risk_cap,
    risk_conjugate,
    risk_is_support,
    risk_project,
    risk_value,
    risk_weights,
)
from xrisk.generic import generic

EPS = float(np.finfo(np.float64).eps)


@checks(radius=positive, strength=non_negative)
class KLBallRisk(NamedTuple):
    """ρ(u) = max of ⟨q, u⟩ − λ₀ KL(q) over KL(q) = Σ qᵢ log(n qᵢ) ≤ radius.

    It is min over λ ≥ λ₀ of λ log mean exp(u/λ) + (λ − λ₀)·radius; ``strength`` is λ₀, 0 for the ball alone.
    """

    radius: float = 0.5
    strength: float = 0.0


@checks(radius=positive, strength=non_negative)
class ChiSquareBallRisk(NamedTuple):
    """ρ(u) = max of ⟨q, u⟩ − λ₀ χ²(q) over χ²(q) = (1/n) Σ ½ (n qᵢ − 1)² ≤ radius.

    ``strength`` is λ₀, 0 for the ball alone.
    """

    radius: float = 0.5
    strength: float = 0.0


class WithMasses(NamedTuple):
    """A risk of values that occur with unequal probabilities: the uniform weights 1/n become the masses."""

    risk: Risk = KLRisk()
    masses: np.ndarray = np.array([0.25, 0.75])  # (n,) positive or zero, with a sum of one

    def check(self) -> None:
        """Refuse masses that are not a distribution."""
        p = np.asarray(self.masses)
        if p.ndim != 1 or p.size == 0 or not np.isfinite(p).all() or p.min() < 0.0 or abs(p.sum() - 1.0) > 1e-6:
            raise ValueError(f"masses must be non-negative numbers with a sum of one, got {p.sum()!r} as their sum")


@generic
def reweigh(risk: Risk, p: np.ndarray, u: np.ndarray, q: np.ndarray) -> float:
    """Write the worst-case weights of the values u (n,) of masses p into ``q``; ρ(u), within rounding from above."""


@generic
def weights_cost(risk: Risk, p: np.ndarray, q: np.ndarray) -> float:
    """ρ*(q) of q in the simplex with q = 0 where p = 0; inf outside the dual set."""


@generic
def enter_dual(risk: Risk, p: np.ndarray, q: np.ndarray) -> None:
    """Move q in the simplex with q = 0 where p = 0 into the dual set."""


@register_jitable
def tilted_case(u, p, strength, radius, q):
    """(ρ(u), λ) of KL divergence by the dual form λ log E exp(u/λ) + (λ − λ₀)·radius, in which errors of λ cancel."""
    d, top, scale, factor = standard(u, p)
    known = extent(d, p)
    least = min(strength * factor / scale, 1e300) if scale > 0.0 else strength
    lam, found = kl_reweigh(d, p, known, least, radius, UNKNOWN, 0.0, q)
    upper = found.value + (lam - least) * radius if lam > least else found.value
    return (top + scale * min(upper, 0.0)) / factor, multiplier(lam, least, strength, scale / factor)


@register_jitable
def multiplier(lam, least, strength, scale):
    """λ in the scale of the values; exactly the strength where it equals the least value."""
    return lam * scale if lam > least else strength


@reweigh.of(KLRisk)
def _(risk, p, u, q):
    return tilted_case(u, p, risk.lam, np.inf, q)[0]


@reweigh.of(KLBallRisk)
def _(risk, p, u, q):
    return tilted_case(u, p, risk.strength, risk.radius, q)[0]


@register_jitable
def excess_case(u, p, strength, radius, q):
    """(ρ(u), λ) of χ² divergence, by the dual form."""
    d, top, scale, factor = standard(u, p)
    known = extent(d, p)
    least = min(strength * factor / scale, 1e300) if scale > 0.0 else strength
    found, _, _ = chi_reweigh(d, p, known, least, radius, UNKNOWN, q)
    upper = 0.0
    if known.low < 0.0 and found.lam > 0.0:
        upper = chi_bound(d, p, known, found.level, found.lam)
        upper += (found.lam - least) * radius if found.lam > least else 0.0
    return (top + scale * min(upper, 0.0)) / factor, multiplier(found.lam, least, strength, scale / factor)


@reweigh.of(ChiSquareRiskA)
def _(risk, p, u, q):
    return excess_case(u, p, risk.lam, np.inf, q)[0]


@reweigh.of(ChiSquareBallRisk)
def _(risk, p, u, q):
    return excess_case(u, p, risk.strength, risk.radius, q)[0]


@register_jitable
def tail_case(u, p, alpha, q):
    """(CVaR, the level from which on values have a weight)."""
    d, top, scale, factor = standard(u, p)
    total = p.sum() if p.size > 0 else float(u.size)
    level = tail_level(d, p, alpha * total)
    upper = level + write_tail(d, p, total, alpha, level, q)
    return (top + scale * upper) / factor, (top + scale * level) / factor


@reweigh.of(CVaRRisk)
def _(risk, p, u, q):
    return tail_case(u, p, risk.alpha, q)[0]


@kernel
def kl_divergence(p, q):
    """Σ p φ(q/p) with φ(r) = r log r − r + 1, which is KL(q) of weights that sum to one, to relative precision."""
    total, carry, base = (p.sum() if p.size > 0 else float(q.size)), 0.0, 0.0
    for i in range(q.size):
        m = (p[i] if p.size > 0 else 1.0) / total
        if m > 0.0:
            x = q[i] / m - 1.0
            small = x * x * (0.5 - x * (1.0 / 6.0 - x * (1.0 / 12.0 - 0.05 * x)))
            phi = small if abs(x) < 1e-4 else (1.0 + x) * math.log1p(x) - x if x > -1.0 else 1.0
            term = m * phi - carry  # compensated: n plain additions would cost n roundings
            after = base + term
            carry = (after - base) - term
            base = after
    return base


@kernel
def chi_divergence(p, q):
    """Σ p (q/p − 1)²/2."""
    total, carry, base = (p.sum() if p.size > 0 else float(q.size)), 0.0, 0.0
    for i in range(q.size):
        m = (p[i] if p.size > 0 else 1.0) / total
        if m > 0.0:
            x = q[i] / m - 1.0
            term = 0.5 * m * x * x - carry
            after = base + term
            carry = (after - base) - term
            base = after
    return base


@kernel
def mix_with_base(p, q, divergence, radius):
    """Mix q with the masses until its divergence, convex and zero there, is at most the radius, rounding included."""
    total = p.sum() if p.size > 0 else float(q.size)
    upper = divergence + EPS * ((64.0 + 2.0 * p.size) * divergence + 64.0 * math.sqrt(divergence))
    if upper > radius:
        keep = radius / upper * (1.0 - 4.0 * EPS)
        for i in range(q.size):
            m = (p[i] if p.size > 0 else 1.0) / total
            q[i] = m + keep * (q[i] - m)


@register_jitable
def within(divergence, radius):
    return divergence <= radius * (1.0 + 1e-9) + 1e-14


@weights_cost.of(KLRisk)
def _(risk, p, q):
    return risk.lam * kl_divergence(p, q)


@weights_cost.of(ChiSquareRiskA)
def _(risk, p, q):
    return risk.lam * chi_divergence(p, q)


@weights_cost.of(KLBallRisk)
def _(risk, p, q):
    divergence = kl_divergence(p, q)
    return risk.strength * divergence if within(divergence, risk.radius) else np.inf


@weights_cost.of(ChiSquareBallRisk)
def _(risk, p, q):
    divergence = chi_divergence(p, q)
    return risk.strength * divergence if within(divergence, risk.radius) else np.inf


@weights_cost.of(CVaRRisk)
def _(risk, p, q):
    total = p.sum() if p.size > 0 else float(q.size)
    for i in range(q.size):
        m = (p[i] if p.size > 0 else 1.0) / total
        if q[i] * risk.alpha > m * (1.0 + 1e-9) + 1e-9 * risk.alpha:
            return np.inf
    return 0.0


@enter_dual.of(KLRisk)
@enter_dual.of(ChiSquareRiskA)
def _(risk, p, q):
    pass


@enter_dual.of(KLBallRisk)
def _(risk, p, q):
    mix_with_base(p, q, kl_divergence(p, q), risk.radius)


@enter_dual.of(ChiSquareBallRisk)
def _(risk, p, q):
    mix_with_base(p, q, chi_divergence(p, q), risk.radius)


@enter_dual.of(CVaRRisk)
def _(risk, p, q):
    under_caps(p, risk.alpha, q)


@kernel
def under_caps(p, alpha, q):
    """Clip q at p/alpha, and distribute what was clipped in proportion to what is left below the caps."""
    total, spare, kept = (p.sum() if p.size > 0 else float(q.size)), 0.0, 0.0
    for i in range(q.size):
        cap = min((p[i] if p.size > 0 else 1.0) / total / alpha, 1.0)
        q[i] = min(q[i], cap)
        kept += q[i]
        spare += cap - q[i]
    part = min(max(1.0 - kept, 0.0) / spare, 1.0) if spare > 0.0 else 0.0
    for i in range(q.size):
        cap = min((p[i] if p.size > 0 else 1.0) / total / alpha, 1.0)
        q[i] = min(q[i] + part * (cap - q[i]), cap)


@kernel
def onto_base(p, q):
    """Turn q into a distribution that is zero where the masses are zero."""
    total = 0.0
    for i in range(q.size):
        q[i] = max(q[i], 0.0) if p.size == 0 or p[i] > 0.0 else 0.0
        total += q[i]
    for i in range(q.size):
        if total > 0.0:
            q[i] /= total
        else:
            q[i] = p[i] / p.sum() if p.size > 0 else 1.0 / q.size


@register_jitable
def cost_of_weights(risk, p, q):
    """ρ*(q); inf off the simplex and where q > 0 on zero mass."""
    if not in_capped_simplex(q, 1.0, 1.0):
        return np.inf
    for i in range(p.size):
        if p[i] <= 0.0 and q[i] > SLACK:
            return np.inf
    return weights_cost(risk, p, q)


@risk_value.of(KLBallRisk)
@risk_value.of(ChiSquareBallRisk)
def _(rho, u):
    return reweigh(rho, np.empty(0), u, np.empty(u.size))


@risk_weights.of(KLBallRisk)
@risk_weights.of(ChiSquareBallRisk)
def _(rho, u, q):
    reweigh(rho, np.empty(0), u, q)


@risk_conjugate.of(KLBallRisk)
@risk_conjugate.of(ChiSquareBallRisk)
def _(rho, q):
    return cost_of_weights(rho, np.empty(0), q)


@risk_project.of(KLBallRisk)
@risk_project.of(ChiSquareBallRisk)
def _(rho, q):
    onto_base(np.empty(0), q)
    enter_dual(rho, np.empty(0), q)


@risk_value.of(WithMasses)
def _(rho, u):
    return reweigh(rho.risk, rho.masses, u, np.empty(u.size))


@risk_weights.of(WithMasses)
def _(rho, u, q):
    reweigh(rho.risk, rho.masses, u, q)


risk_conjugate.of(WithMasses)(lambda rho, q: cost_of_weights(rho.risk, rho.masses, q))


@risk_project.of(WithMasses)
def _(rho, q):
    onto_base(rho.masses, q)
    enter_dual(rho.risk, rho.masses, q)


@risk_cap.of(KLBallRisk)
@risk_cap.of(ChiSquareBallRisk)
def _(rho, n):
    return 1.0


@risk_cap.of(WithMasses)
def _(rho, n):
    return min(risk_cap(rho.risk, n) * n * rho.masses.max(), 1.0)


risk_is_support.of(KLBallRisk)(lambda rho: rho.strength == 0.0)
risk_is_support.of(ChiSquareBallRisk)(lambda rho: rho.strength == 0.0)
risk_is_support.of(WithMasses)(lambda rho: risk_is_support(rho.risk))
