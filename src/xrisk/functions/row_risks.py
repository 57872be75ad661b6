"""What methods that sample single rows ask about a risk: the masses of the rows, a ball, the temperature λ of KL."""

import math

import numpy as np

from xrisk.functions.ambiguity import KLBallRisk, WithMasses
from xrisk.functions.risk import KLRisk
from xrisk.generic import generic


@generic
def mass_factor(rho, k, n):
    """n·p_k: how often row k counts where all n rows are drawn alike."""


@generic
def bare_risk(rho):
    """The risk without the masses of the rows."""


@generic
def ball_radius(rho):
    """Radius of a KL ball; 0 of a KL risk without one, where it plays no part."""


@generic
def temperature_range(rho):
    """(low, high): where the temperature λ of a KL risk may lie."""


@generic
def floored(rho, floor):
    """The risk with a price on KL: ``floor`` where it has none, without which λ has no bound below."""


@generic
def softened(rho, kappa):
    """The risk that has the price KL + κ times its own on the weights."""


@generic
def divergence_limit(rho, n):
    """The largest KL divergence that any weights of n rows have: log n, or log 1/p of the least mass p > 0."""


mass_factor.otherwise(lambda rho, k, n: 1.0)


@mass_factor.of(WithMasses)
def _(rho, k, n):
    return n * rho.masses[k]


bare_risk.otherwise(lambda rho: rho)
bare_risk.of(WithMasses)(lambda rho: rho.risk)
ball_radius.of(KLRisk)(lambda rho: 0.0)
ball_radius.of(KLBallRisk)(lambda rho: rho.radius)
ball_radius.of(WithMasses)(lambda rho: ball_radius(rho.risk))


@temperature_range.of(KLRisk)
def _(rho):
    return rho.lam, rho.lam


@temperature_range.of(KLBallRisk)
def _(rho):
    return rho.strength, np.inf


temperature_range.of(WithMasses)(lambda rho: temperature_range(rho.risk))
floored.otherwise(lambda rho, floor: rho)


@floored.of(KLBallRisk)
def _(rho, floor):
    return rho if rho.strength > 0.0 else rho._replace(strength=floor)


@floored.of(WithMasses)
def _(rho, floor):
    return rho._replace(risk=floored(rho.risk, floor))


@softened.of(KLRisk)
def _(rho, kappa):
    return KLRisk(1.0 + kappa * rho.lam)


@softened.of(KLBallRisk)
def _(rho, kappa):
    return KLBallRisk(rho.radius, 1.0 + kappa * rho.strength)


@divergence_limit.otherwise
def _(rho, n):
    return math.log(n)


@divergence_limit.of(WithMasses)
def _(rho, n):
    return -math.log(float(rho.masses[rho.masses > 0.0].min()))


def largest_temperature(radius: float, spread: float) -> float:
    """A bound on the λ that is optimal for a KL ball and losses within ``spread`` of each other.

    min( spread/ρ, spread/√(8ρ) ): KL(p_λ) ≤ spread²/(8λ²), and λ·KL(p_λ) ≤ largest − mean loss.
    """
    return min(spread / radius, spread / math.sqrt(8.0 * radius))
