"""Smoothed worst cases of many values, with their curvature, for full-batch methods on risks over rows."""
# mypy: disable-error-code="empty-body"

import math
from typing import NamedTuple

import numpy as np

from xrisk.annotations import Risk
from xrisk.compile import kernel
from xrisk.functions.ambiguity import ChiSquareBallRisk, KLBallRisk, WithMasses
from xrisk.functions.reweighting import (
    UNKNOWN,
    Extent,
    cap_reweigh,
    chi_reweigh,
    extent,
    kl_reweigh,
    standard,
    tail_level,
    write_tail,
)
from xrisk.functions.risk import ChiSquareRiskA, CVaRRisk, KLRisk
from xrisk.generic import generic

LOOSE = 1e-12  # relative, of the radius of a ball: the next call begins where this one ended
LEAST_RANGE, MOST_RANGE = 1e-100, 1e100  # squares of values in between are numbers


class Worst(NamedTuple):
    """Worst-case weights of values v, for ρ_μ(v) = max of ⟨q, v⟩ − ρ*(q) − μ D(q), and the Hessian of ρ_μ.

    D is the divergence of the risk: Kullback–Leibler or χ², for CVaR χ². The Hessian is
    diag(curvature) − Σₖ scales[k] vectors[k] vectors[k]ᵀ; where μ = 0 leaves a kink, it is zero.
    """

    weights: np.ndarray  # (n,) the maximiser q
    value: float  # ⟨q, v⟩ − ρ*(q): not above ρ(v), equal to it for μ = 0
    smoothed: float  # ρ_μ(v)
    curvature: np.ndarray  # (n,)
    vectors: np.ndarray  # (k, n)
    scales: np.ndarray  # (k,)
    near: tuple[float, ...]  # where the next call begins


class Standard(NamedTuple):
    """Values v = (top + scale·values)/factor whose squares are numbers."""

    values: np.ndarray
    known: Extent
    top: float
    scale: float
    factor: float


@generic
def worst(rho: Risk, v: np.ndarray, mu: float, near: tuple[float, ...] = ()) -> Worst:
    """The worst case of ρ at values v (n,), smoothed by μ ≥ 0; ``near`` of an earlier answer makes it faster.

    A safeguarded Newton method solves an equation in one unknown in a few steps of O(n) operations each.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.functions import CVaRRisk, worst
    >>> found = worst(CVaRRisk(0.5), np.array([0.0, 1.0, 2.0, 3.0]), 0.1)
    >>> found.weights.round(3).tolist(), round(found.value, 3)
    ([0.0, 0.0, 0.5, 0.5], 2.5)
    """


@generic
def worst_under(risk: Risk, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    """`worst` of values with masses p (n,), or with equal ones (size 0)."""


@worst.of(KLRisk)
@worst.of(KLBallRisk)
@worst.of(ChiSquareRiskA)
@worst.of(ChiSquareBallRisk)
@worst.of(CVaRRisk)
def _(rho: Risk, v: np.ndarray, mu: float, near: tuple[float, ...] = ()) -> Worst:
    return worst_under(rho, np.empty(0), v, float(mu), near)


@worst.of(WithMasses)
def _(rho: WithMasses, v: np.ndarray, mu: float, near: tuple[float, ...] = ()) -> Worst:
    return worst_under(rho.risk, rho.masses, v, float(mu), near)


def _standard(v: np.ndarray, p: np.ndarray) -> Standard:
    """The values, rescaled only if their range is extreme."""
    known = extent(v, p)
    if known.low == 0.0 or LEAST_RANGE < -known.low < MOST_RANGE:
        return Standard(v, known, 0.0, 1.0, 1.0)
    values, top, scale, factor = standard(v, p)
    return Standard(values, extent(values, p), top, scale, factor)


def _scaled(strength: float, at: Standard) -> float:
    return min(strength * at.factor / at.scale, 1e300)


def _answer(at: Standard, found: Worst) -> Worst:
    """The answer for the given values, from that for standard ones."""
    if at.scale == 1.0:
        return found

    def back(value: float) -> float:
        return (at.top + at.scale * value) / at.factor

    grow = at.factor / at.scale
    return found._replace(
        value=back(found.value),
        smoothed=back(found.smoothed),
        curvature=found.curvature * grow,
        scales=found.scales * grow,
    )


def _first(near: tuple[float, ...]) -> float:
    return near[0] if near else UNKNOWN


@worst_under.of(KLRisk)
def _(risk: KLRisk, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    return _tilted(v, p, (risk.lam, mu, np.inf), near)


@worst_under.of(KLBallRisk)
def _(risk: KLBallRisk, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    return _tilted(v, p, (risk.strength, mu, risk.radius), near)


def _tilted(v: np.ndarray, p: np.ndarray, parts: tuple[float, float, float], near: tuple[float, ...]) -> Worst:
    """Hessian (diag q − q qᵀ)/λ, on the ball less s sᵀ/(λ Var(v/λ)) with s = q∘(v − E v)/λ."""
    at = _standard(v, p)
    v, known, vectors = at.values, at.known, np.empty((1 if parts[2] == np.inf else 2, v.size))
    q = vectors[0]
    strength, mu, radius = _scaled(parts[0], at), _scaled(parts[1], at), parts[2]
    least = strength + mu
    lam, found = kl_reweigh(v, p, known, least, radius, _first(near) * at.factor / at.scale, LOOSE, q)
    value = known.top + (found.mean - strength * found.divergence)
    smoothed = known.top + (found.mean - least * found.divergence)
    on_ball = lam > least and found.variance > 0.0
    if on_ball:
        write_slant(v, q, known.top + found.mean, lam, vectors[1])
    curvature = q / lam if lam > 0.0 else np.zeros(v.size)
    scales = np.array([1.0 / lam if lam > 0.0 else 0.0, 1.0 / (lam * found.variance) if on_ball else 0.0])
    vectors, scales = vectors[: 1 + on_ball], scales[: 1 + on_ball]
    back = (lam * at.scale / at.factor,)
    return _answer(at, Worst(q, float(value), float(smoothed), curvature, vectors, scales, back))


@kernel
def write_slant(v, q, mean, lam, slant):
    for i in range(v.size):
        slant[i] = q[i] * ((v[i] - mean) / lam) if q[i] > 0.0 else 0.0


@worst_under.of(ChiSquareRiskA)
def _(risk: ChiSquareRiskA, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    return _excess(v, p, (risk.lam, mu, np.inf), near)


@worst_under.of(ChiSquareBallRisk)
def _(risk: ChiSquareBallRisk, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    return _excess(v, p, (risk.strength, mu, risk.radius), near)


def _excess(v: np.ndarray, p: np.ndarray, parts: tuple[float, float, float], near: tuple[float, ...]) -> Worst:
    """With a = p where q > 0, P its sum: Hessian (diag a − a aᵀ/P)/λ, on the ball less a multiple of (q − a/P)(…)ᵀ."""
    at = _standard(v, p)
    v, known, q = at.values, at.known, np.empty(v.size)
    strength, mu, radius = _scaled(parts[0], at), _scaled(parts[1], at), parts[2]
    least = strength + mu
    found, divergence, mean = chi_reweigh(v, p, known, least, radius, _first(near) * at.factor / at.scale, q)
    value = known.top + (mean - strength * divergence)
    smoothed = known.top + (mean - least * divergence)
    count = 2 if found.spare > 0.0 else 1
    curvature, vectors, scales = np.zeros(v.size), np.zeros((count, v.size)), np.zeros(count)
    if found.lam > 0.0:
        write_support(p, q, known.total, (found.mass, found.lam), curvature, vectors)
        scales[0] = 1.0 / (found.lam * found.mass)
        scales[1:] = found.mass / (found.lam * found.spare) if count == 2 else 0.0
    back = ((found.level - found.lam) * at.scale / at.factor,)
    return _answer(at, Worst(q, float(value), float(smoothed), curvature, vectors, scales, back))


@kernel
def write_support(p, q, total, found, curvature, vectors):
    mass, lam = found
    for i in range(q.size):
        a = (p[i] if p.size > 0 else 1.0) / total if q[i] > 0.0 else 0.0
        curvature[i] = a / lam
        vectors[0, i] = a
    for k in range(1, vectors.shape[0]):
        for i in range(q.size):
            vectors[k, i] = q[i] - vectors[0, i] / mass


@worst_under.of(CVaRRisk)
def _(risk: CVaRRisk, p: np.ndarray, v: np.ndarray, mu: float, near: tuple[float, ...]) -> Worst:
    """q = p clip((v − η)/μ, 0, 1/α); with a = p between the ends: Hessian (diag a − a aᵀ/Σ a)/μ."""
    at = _standard(v, p)
    v, known, q, mu = at.values, at.known, np.empty(v.size), _scaled(mu, at)
    curvature, vectors, scales = np.zeros(v.size), np.zeros((1, v.size)), np.zeros(1)
    back = near
    if mu == 0.0:
        level = tail_level(v, p, risk.alpha * known.total) if p.size > 0 else _rank_level(v, risk.alpha)
        write_tail(v, p, known.total, risk.alpha, level, q)
    else:
        edge, share = cap_reweigh(v, p, known, risk.alpha, mu, _first(near) * at.factor / at.scale, q)
        write_between(v, p, known, (edge, mu, mu / risk.alpha), curvature, vectors)
        scales[0] = 1.0 / (mu * share) if share > 0.0 else 0.0
        back = (edge * at.scale / at.factor,)
    mean, divergence = tail_facts(v, p, q, known)
    value, smoothed = known.top + mean, known.top + (mean - mu * divergence)
    return _answer(at, Worst(q, float(value), float(smoothed), curvature, vectors, scales, back))


def _rank_level(v: np.ndarray, alpha: float) -> float:
    """`tail_level` of equal masses; NumPy's selection is several times faster."""
    rank = min(max(math.ceil(alpha * v.size), 1), v.size)
    return float(np.partition(v, v.size - rank)[v.size - rank])


@kernel
def write_between(v, p, known, ends, curvature, vectors):
    edge, mu, width = ends
    for i in range(v.size):
        d = v[i] - known.top - edge
        if 0.0 < d < width:
            vectors[0, i] = (p[i] if p.size > 0 else 1.0) / known.total
            curvature[i] = vectors[0, i] / mu


@kernel
def tail_facts(v, p, q, known):
    """E_q[v] − top and χ²(q)."""
    mean, divergence = 0.0, 0.0
    for i in range(v.size):
        if q[i] > 0.0:
            m = (p[i] if p.size > 0 else 1.0) / known.total
            mean += q[i] * (v[i] - known.top)
            divergence += 0.5 * q[i] * (q[i] / m)
    return mean, max(divergence - 0.5, 0.0)
