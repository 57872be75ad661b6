"""Outer functions that join the inner values of a block: the duals live on a simplex."""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions.block.generics import (
    block_conjugate,
    block_dual_step,
    block_entropy_step,
    block_is_monotone,
    block_is_smooth,
    block_lipschitz,
    block_max_smoothness,
    block_project,
    block_slope,
    block_smoothness,
    block_start,
    block_value,
)
from xrisk.functions.parameters import checks, positive, whole_from
from xrisk.functions.simplex import ascending, descending_order, project_capped_simplex, project_simplex
from xrisk.functions.special import wright_omega, xlogx

SLACK = 1e-9  # relative, of Σ y = total and 0 ≤ y ≤ cap in the conjugates


class MaxOuter(NamedTuple):
    """f(u) = max_k u_k.

    Examples
    --------
    >>> float(block_value(MaxOuter(), np.array([1.0, 3.0, 2.0])))
    3.0
    """


@checks(beta=positive)
class LogSumExp(NamedTuple):
    """f(u) = β⁻¹ log Σ_k exp(β u_k).

    Examples
    --------
    >>> round(block_value(LogSumExp(2.0), np.zeros(4)), 6)
    0.693147
    """

    beta: float = 1.0


@checks(k=whole_from(1))
class TopSum(NamedTuple):
    """f(u) = sum of the k largest u_j.

    Examples
    --------
    >>> block_value(TopSum(2), np.array([1.0, 3.0, 2.0]))
    5.0
    """

    k: int = 1


@block_is_monotone.of(MaxOuter)
@block_is_monotone.of(LogSumExp)
@block_is_monotone.of(TopSum)
@block_is_smooth.of(LogSumExp)
def _(f):
    return True


@block_is_smooth.of(MaxOuter)
@block_is_smooth.of(TopSum)
def _(f):
    return False


@block_lipschitz.of(MaxOuter)
@block_lipschitz.of(LogSumExp)
def _(f, upper, m):
    return 1.0


@block_lipschitz.of(TopSum)
def _(f, upper, m):
    return math.sqrt(f.k)


@block_smoothness.of(MaxOuter)
@block_smoothness.of(TopSum)
@block_max_smoothness.of(MaxOuter)
def _(f, upper):
    return np.inf


@block_smoothness.of(LogSumExp)
def _(f, upper):
    return 0.5 * f.beta


@block_max_smoothness.of(LogSumExp)
def _(f, upper):
    return f.beta  # hᵀ∇²f h = β Var(h) under the weights y, for |h_k| ≤ 1


@block_start.of(MaxOuter)
@block_start.of(LogSumExp)
def _(f, y):
    y[:] = 1.0 / y.size


@block_project.of(MaxOuter)
@block_project.of(LogSumExp)
def _(f, y):
    project_simplex(y, 1.0)


@register_jitable
def in_capped_simplex(y, total, cap):
    """Whether Σ y = total and 0 ≤ y ≤ cap, up to the relative slack 1e-9."""
    mass = 0.0
    for k in range(y.size):
        if y[k] < -SLACK * total or y[k] > cap + SLACK * total:
            return False
        mass += y[k]
    return abs(mass - total) <= SLACK * total


@register_jitable
def normalise_logs(logy):
    """log(y / Σ y) in place, from log y."""
    top = logy.max()
    total = 0.0
    for k in range(logy.size):
        logy[k] -= top  # shifted by the largest: exp overflows at 710
        total += math.exp(logy[k])
    shift = math.log(total)
    for k in range(logy.size):
        logy[k] -= shift


@register_jitable
def add_shifted(u, y0, tau, y):
    """y₀ + (u − max u)/τ into ``y``: u/τ itself may overflow; values that no simplex reaches are clipped at −1e290."""
    top = float(u.max())
    for k in range(u.size):
        y[k] = max(y0[k] + (float(u[k]) - top) / tau, -1e290)


@block_value.of(MaxOuter)
def _(f, u):
    return u.max()


@block_slope.of(MaxOuter)
def _(f, u, y):
    y[:] = 0.0
    y[u.argmax()] = 1.0


@block_conjugate.of(MaxOuter)
def _(f, y):
    return 0.0 if in_capped_simplex(y, 1.0, 1.0) else np.inf


@block_dual_step.of(MaxOuter)
def _(f, u, y0, tau, y):
    add_shifted(u, y0, tau, y)
    project_simplex(y, 1.0)


@block_entropy_step.of(MaxOuter)
def _(f, u, logy, tau):
    top = float(u.max())
    for k in range(u.size):
        logy[k] += (float(u[k]) - top) / tau
    normalise_logs(logy)


@block_value.of(LogSumExp)
def _(f, u):
    top = float(u.max())
    total = 0.0
    for k in range(u.size):
        total += math.exp(f.beta * (float(u[k]) - top))
    return top + math.log(total) / f.beta


@block_slope.of(LogSumExp)
def _(f, u, y):
    top = float(u.max())
    total = 0.0
    for k in range(u.size):
        y[k] = math.exp(f.beta * (float(u[k]) - top))
        total += y[k]
    for k in range(u.size):
        y[k] /= total


@block_conjugate.of(LogSumExp)
def _(f, y):
    if not in_capped_simplex(y, 1.0, 1.0):
        return np.inf
    total = 0.0
    for k in range(y.size):
        total += xlogx(y[k])
    return total / f.beta


@block_entropy_step.of(LogSumExp)
def _(f, u, logy, tau):
    top = float(u.max())
    weight = 1.0 / f.beta + tau
    for k in range(u.size):
        logy[k] = (float(u[k]) - top + tau * logy[k]) / weight
    normalise_logs(logy)


@block_dual_step.of(LogSumExp)
def _(f, u, y0, tau, y):
    # b log y_k + τ y_k = w_k + c with c such that Σ y = 1: Σ y is convex in c, Newton decreases from y_max = 1
    b = 1.0 / f.beta
    add_shifted(u, y0, tau, y)
    w = np.empty_like(y)
    top = y.max()
    for k in range(y.size):
        w[k] = tau * (y[k] - top)
    c = tau
    for _ in range(200):
        mass, slope = fill_omega(w, c, (tau, b), y)
        step = (mass - 1.0) / slope
        c -= step
        if step <= 1e-16 * (tau + b):
            break
    mass, slope = fill_omega(w, c, (tau, b), y)
    for k in range(y.size):
        y[k] /= mass


@register_jitable
def fill_omega(w, c, weights, y):
    """Write the roots of b log y_k + τ y_k = w_k + c into ``y``; return their sum and its derivative in c."""
    tau, b = weights
    mass, slope = 0.0, 0.0
    shift = math.log(tau) - math.log(b)
    for k in range(w.size):
        x = (float(w[k]) + c) / b
        y[k] = math.exp(x) if x + shift < -40.0 else b / tau * wright_omega(x + shift)
        mass += y[k]
        slope += y[k] / (b + tau * y[k])
    return mass, slope


@block_value.of(TopSum)
def _(f, u):
    return float(ascending(u)[u.size - f.k :].sum())


@block_slope.of(TopSum)
def _(f, u, y):
    y[:] = 0.0
    order = descending_order(u)
    for r in range(f.k):
        y[order[r]] = 1.0


@block_conjugate.of(TopSum)
def _(f, y):
    return 0.0 if in_capped_simplex(y, 1.0 * f.k, 1.0) else np.inf


@block_dual_step.of(TopSum)
def _(f, u, y0, tau, y):
    add_shifted(u, y0, tau, y)
    project_capped_simplex(y, 1.0 * f.k, 1.0)


@block_start.of(TopSum)
def _(f, y):
    y[:] = f.k / y.size


@block_project.of(TopSum)
def _(f, y):
    project_capped_simplex(y, 1.0 * f.k, 1.0)
