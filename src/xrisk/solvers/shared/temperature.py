"""The temperature λ of KL risks: exponentials of losses over λ in the log domain, and its slope."""

import math

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Solver
from xrisk.functions.row_risks import floored, temperature_range
from xrisk.problem import Problem


def with_temperature(problem: Problem, solver: Solver, w: np.ndarray) -> np.ndarray:
    """(w, λ) with the first temperature of the solver, or the one next to it that the risk allows."""
    low, high = temperature_range(floored(problem.outer, solver.floor))
    return np.append(w, min(max(solver.temperature, low), high))


@register_jitable
def largest_loss(losses, factors):
    """The largest loss of a row with mass."""
    top = -np.inf
    for b in range(losses.size):
        if factors[b] > 0.0 and losses[b] > top:
            top = losses[b]
    return top


@register_jitable
def log_mean_exp(losses, factors, lam):
    """log of the mean of exp(v/λ) over the batch, the largest loss taken out: exp overflows at 710."""
    top, total = largest_loss(losses, factors), 0.0
    for b in range(losses.size):
        if factors[b] > 0.0:
            total += factors[b] * math.exp((losses[b] - top) / lam)
    return top / lam + math.log(total / losses.size)


@register_jitable
def log_average(old, new, weight):
    """log( (1 − weight) eᵒˡᵈ + weight eⁿᵉʷ ), the larger one taken out."""
    if weight >= 1.0:
        return new
    top = max(old, new)
    return top + math.log((1.0 - weight) * math.exp(old - top) + weight * math.exp(new - top))


@register_jitable
def tilt(losses, factors, lam, sigma, scales):
    """Scales exp(v/λ − σ)/B of the gradients, and their sum."""
    total = 0.0
    for b in range(losses.size):
        scales[b] = 0.0
        if factors[b] > 0.0:
            scales[b] = factors[b] * math.exp(losses[b] / lam - sigma) / losses.size
        total += scales[b]
    return total


@register_jitable
def mean_loss(losses, scales):
    """Σ scales·v."""
    total = 0.0
    for b in range(losses.size):
        total += scales[b] * losses[b]
    return total


@register_jitable
def temperature_slope(radius, losses, scales, lam, sigma):
    """σ + ρ − Σ scales·v/λ, in an order in which nothing large cancels where the scales have a sum near one."""
    total, rest = 0.0, 1.0
    for b in range(losses.size):
        if scales[b] > 0.0:
            total += scales[b] * (sigma - losses[b] / lam)
            rest -= scales[b]
    return radius + total + sigma * rest


@register_jitable
def storm_scale(m, size, new, old, beta):
    """(m⁺, kept, old, guarded): how STORM's e^m goes on from the log means of one batch at the new and the old point.

    s⁺ = eⁿᵉʷ + (1 − β)(e^m − eᵒˡᵈ) may be negative; it is kept above β eⁿᵉʷ, and ``guarded`` says that it had to be.
    ``kept`` is the factor (1 − β)e^{m − m⁺} of what is tracked with it, and the ``old`` that is returned is such that
    the old point counts (1 − β)e^{v/λ − m⁺}. Where these terms are e³⁰ times s⁺, or what is tracked is of a ``size``
    beyond use, nothing but rounding is left of them: the batch stands alone.
    """
    top, floor = max(new, m, old), math.log(beta) + new
    if beta >= 1.0:
        return new, 0.0, np.inf, 0
    s = math.exp(new - top) + (1.0 - beta) * (math.exp(m - top) - math.exp(old - top))
    after = max(top + math.log(s), floor) if s > 0.0 else floor
    guarded = 0 if s > 0.0 and top + math.log(s) >= floor else 1
    if top - after > 30.0 or not size < 1e100:
        return new, 0.0, np.inf, 1
    return after, (1.0 - beta) * math.exp(m - after), after - math.log1p(-beta), guarded
