"""Risks of tensors: ρ(u) = min over c of c + mean f(uᵢ − c) of the values that are known, and a minimising c.

The specs are those of `xrisk.functions`, which has their outer functions f. ``risk_value.of(Spec)`` and
``risk_threshold.of(Spec)`` add your own.
"""

from typing import Any

import torch
from torch import Tensor

from xrisk.functions.parameters import check_spec
from xrisk.functions.risk import ChiSquareRiskA, ChiSquareRiskB, CVaRRisk, KLRisk, MaxRisk
from xrisk.torch.dispatch import by_type


@by_type
def risk_value(rho, u, is_known):
    """ρ (1,) of the values u (n,) under a mask (n,)."""


@by_type
def risk_threshold(rho, u, is_known):
    """A minimiser c (1,)."""


@by_type
def first_dual(rho):
    """Where the duals of groups start: the slope of f for a group of no weight, or of equal weight."""


@by_type
def learns_threshold(rho):
    """Whether steps on c are safe. Otherwise c is the best one for the values at hand."""


first_dual.otherwise(lambda rho: 0.0)
first_dual.of(KLRisk)(lambda rho: 1.0)
learns_threshold.otherwise(lambda rho: True)
learns_threshold.of(KLRisk)(lambda rho: False)  # exp((u − c)/λ) overflows if c lags behind


def _ranked(u: Tensor, is_known: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The known values in descending order, then the largest again; their places 1, 2, …; their number, at least 1."""
    ordered = torch.where(is_known, u, -torch.inf).sort(descending=True).values
    places = torch.arange(1, u.shape[0] + 1, dtype=u.dtype, device=u.device)
    count = is_known.sum(dtype=u.dtype).reshape(1)
    top = torch.where(count > 0, ordered[:1], 0.0)
    return torch.where(places <= count, ordered, top), places, count.clamp(min=1.0)


def _mean(terms: Tensor, is_known: Tensor) -> Tensor:
    return torch.where(is_known, terms, 0.0).sum().reshape(1) / is_known.sum().clamp(min=1)


@risk_value.of(MaxRisk)
@risk_threshold.of(MaxRisk)
def _(rho, u, is_known):
    return _ranked(u, is_known)[0][:1]


@risk_value.of(CVaRRisk)
def _(rho, u, is_known):
    ordered, places, count = _ranked(u, is_known)
    cap = (1.0 / (rho.alpha * count)).clamp(max=1.0)
    weights = torch.minimum(cap, (1.0 - (places - 1.0) * cap).clamp(min=0.0))
    top = ordered[:1]
    return top + (weights * (ordered - top)).sum()


@risk_threshold.of(CVaRRisk)
def _(rho, u, is_known):
    ordered, _, count = _ranked(u, is_known)
    rank = torch.minimum(torch.ceil(rho.alpha * count).clamp(min=1.0), count)
    return ordered.gather(0, rank.long() - 1)


@risk_threshold.of(ChiSquareRiskA)
def _(rho, u, is_known):
    return chi_level(u, is_known, rho.lam) + rho.lam


@risk_threshold.of(ChiSquareRiskB)
def _(rho, u, is_known):
    return chi_level(u, is_known, 2.0 * rho.lam) + 2.0 * rho.lam


risk_value.of(ChiSquareRiskA)(lambda rho, u, is_known: chi_value(u, is_known, rho.lam))
risk_value.of(ChiSquareRiskB)(lambda rho, u, is_known: chi_value(u, is_known, 2.0 * rho.lam))


def chi_level(u: Tensor, is_known: Tensor, lam: float) -> Tensor:
    """η with mean (u − η)₊ = λ, from the largest set of values with a positive term."""
    ordered, places, count = _ranked(u, is_known)
    centred = ordered - ordered[:1]
    levels = (centred.cumsum(0) - lam * count) / places
    positive = ((centred > levels) & (places <= count)).sum().clamp(min=1).reshape(1)
    return ordered[:1] + levels.gather(0, positive - 1)


def chi_value(u: Tensor, is_known: Tensor, lam: float) -> Tensor:
    """η + λ/2 + mean (u − η)₊²/(2λ) at the best η."""
    eta = chi_level(u, is_known, lam)
    return eta + 0.5 * lam + 0.5 * _mean((u - eta).clamp(min=0.0).square(), is_known) / lam


def chi_ball_level(v: Tensor, radius: float, lam: float) -> Tensor:
    """η with q ∝ (v − η)₊ for the worst q in the χ² ball; where a price λ keeps q inside the ball, that of the price.

    Of the k largest values with mean μ and variance σ² it is μ − σ/√(k(1 + 2ρ)/n − 1), for the one k that it fits.
    """
    is_known = torch.ones_like(v, dtype=torch.bool)
    priced = chi_level(v, is_known, lam)
    ordered, k, n = _ranked(v, is_known)
    centred = ordered - ordered[:1]
    mean = centred.cumsum(0) / k
    variance = (centred.square().cumsum(0) / k - mean.square()).clamp(min=0.0)
    slack = k * (1.0 + 2.0 * radius) / n - 1.0
    level = torch.where(slack > 0.0, mean - (variance / slack.clamp(min=1e-12)).sqrt(), torch.inf)
    after = torch.cat([centred[1:], centred.new_full((1,), -torch.inf)])
    fits = (centred > level) & (after <= level)
    eta = ordered[:1] + level.gather(0, fits.to(torch.int8).argmax(0, keepdim=True))
    spread = ((v - eta).clamp(min=0.0).square().mean(0, keepdim=True) / (1.0 + 2.0 * radius)).sqrt()
    return torch.where(fits.any() & (spread > lam), eta, priced)


@risk_value.of(KLRisk)
@risk_threshold.of(KLRisk)
def _(rho, u, is_known):
    # the largest value taken out: exp overflows at 710
    top = _ranked(u, is_known)[0][:1]
    terms = (torch.where(is_known, u - top, -torch.inf) / rho.lam).exp()
    return top + rho.lam * _mean(terms, is_known).clamp(min=torch.finfo(u.dtype).tiny).log()


WORDS: dict[str, Any] = {
    "cvar": lambda alpha, lam: CVaRRisk(alpha),
    "max": lambda alpha, lam: MaxRisk(),
    "chi2": lambda alpha, lam: ChiSquareRiskA(lam),
    "chi2-b": lambda alpha, lam: ChiSquareRiskB(lam),
    "kl": lambda alpha, lam: KLRisk(lam),
}


def risk_of(divergence: Any, alpha: float, lam: float) -> Any:
    """The risk that a word stands for; a spec stands for itself."""
    if isinstance(divergence, str) and divergence in WORDS:
        divergence = WORDS[divergence](alpha, lam)
    if type(divergence) not in risk_value.table:
        raise ValueError(f"divergence must be one of {', '.join(map(repr, WORDS))} or a spec, got {divergence!r}")
    check_spec(divergence)
    return divergence
