"""Worst-case weights of n values by equations in one unknown, O(n) a step: tilts, excesses over a level, capped tails.

Masses p (n,) need not sum to one; an array of size 0 stands for equal ones. Values are taken relative to the largest.
"""

import math
from typing import NamedTuple

import numpy as np

from xrisk.compile import inlined, kernel
from xrisk.functions.special import branch_free, fast_exp
from xrisk.lanes import LANES, at_least, at_most, clip_from, lanes, lanes_sum, more_than, ones, pack, unpack

STEPS = 400  # of a safeguarded iteration; five to ten are usual, more if values differ by 1e-200 of their range
LARGEST_NEGATIVE = -5e-324  # the largest number below zero
UNKNOWN = math.nan  # no earlier solution to start from


class Extent(NamedTuple):
    """Where the values lie, relative to the largest of positive mass."""

    top: float
    low: float  # smallest − top
    mean: float  # mean − top
    total: float  # of the masses
    at: float  # mass of the largest value


class Tilt(NamedTuple):
    """Facts on weights q ∝ p exp(v/λ)."""

    divergence: float  # KL(q)
    variance: float  # of v/λ under q
    mean: float  # E_q[v] − top
    value: float  # λ log E_p[exp(v/λ)] − top
    total: float  # of the written weights
    noise: float  # rounding of the divergence


class Excess(NamedTuple):
    """Weights q = p max(1 + (v − top − level)/λ, 0)."""

    level: float
    lam: float
    mass: float  # share of the masses where q > 0
    spare: float  # (1 + 2 radius)·mass − 1 on the ball, 0 inside of it


@kernel
def extent(v, p):
    """`Extent` of values v (n,)."""
    if p.size > 0 and p.size != v.size:
        raise ValueError("masses must be as many as the values")
    top, low = -np.inf, np.inf
    for i in range(v.size):
        if p.size == 0 or p[i] > 0.0:
            top, low = max(top, v[i]), min(low, v[i])
    total, first, at = extent_sums(v, p, top)
    return Extent(top, low - top, max(first / total, low - top), total, at)


@branch_free
def masses_at(p, n, i):
    """Lanes of the masses of values i, i + 1, …, zero beyond the last of n."""
    return pack(p, i) if p.size > 0 else ones(n - i)


@inlined
def extent_sums(v, p, top):
    """Σ p, Σ p (v − top), Σ p where v = top."""
    total, first, at = lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(0, v.size, LANES):
        m = masses_at(p, v.size, i)
        d = at_most(pack(v, i) - top, 0.0)
        total += m
        first += m * d
        at += at_least(d, 0.0, m)
    return lanes_sum(total), lanes_sum(first), lanes_sum(at)


@kernel
def standard(u, p):
    """(d, top, scale, factor): u = (top + scale·d)/factor with −1 ≤ d ≤ 0 where masses are positive, at any scale."""
    if p.size > 0 and p.size != u.size:
        raise ValueError("masses must be as many as the values")
    top, low = -np.inf, np.inf
    for i in range(u.size):
        if p.size == 0 or p[i] > 0.0:
            top, low = max(top, u[i]), min(low, u[i])
    factor = 0.25 if max(abs(top), abs(low)) > 1e300 else 1.0  # differences must not overflow
    top *= factor
    scale = top - low * factor
    d = np.empty(u.size)
    for i in range(u.size):
        gap = u[i] * factor - top
        d[i] = max(min(gap / scale, 0.0), -1.0) if scale > 0.0 else 0.0
    return d, top, scale, factor


@kernel
def spread_evenly(v, p, known, edge, q):
    """q ∝ p on the values above top + ``edge``."""
    total = 0.0
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        q[i] = m if v[i] - known.top > edge else 0.0
        total += q[i]
    q /= total


@inlined
def tilted_sums(v, q, top, lam):
    """Σ q, Σ q s, Σ q s² with s = (v − top)/λ."""
    total, first, second = lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(0, v.size, LANES):
        w = pack(q, i)
        s = clip_from(at_most(pack(v, i) - top, 0.0) / lam, -800.0)
        total += w
        first += w * s
        second += w * s * s
    return lanes_sum(total), lanes_sum(first), lanes_sum(second)


@kernel
def tilt(v, p, known, lam, q):
    """Write p exp((v − top)/λ) into ``q``."""
    for i in range(v.size):
        q[i] = fast_exp(max((v[i] - known.top) / lam, -800.0))  # of −inf · 0 there would be NaN
    for i in range(p.size):
        q[i] = q[i] * p[i] if p[i] > 0.0 else 0.0
    total, first, second = tilted_sums(v, q, known.top, lam)
    mean, logs = first / total, math.log(total / known.total)
    variance = max(second / total - mean * mean, 0.0)
    return Tilt(max(mean - logs, 0.0), variance, lam * mean, lam * logs, total, 1e-15 * (1.0 - logs))


@inlined
def gentle_sums(v, p, centre, lam, q):
    """q = p eˢ with s = (v − centre)/λ, |s| ≤ 1/2; Σ p (eˢ − 1 − s), Σ p s(eˢ − 1), Σ q s², Σ q."""
    small, product, second, total = lanes(0.0), lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(0, v.size, LANES):
        m = masses_at(p, v.size, i)
        s = more_than(m, 0.0, (pack(v, i) - centre) / lam)
        r = s * s * series(s)
        small += m * r
        product += m * (s * (s + r))
        w = m * (1.0 + (s + r))
        second += w * s * s
        total += w
        unpack(w, q, i)
    return lanes_sum(small), lanes_sum(product), lanes_sum(second), lanes_sum(total)


@branch_free
def series(s):
    """(eˢ − 1 − s)/s² for |s| ≤ 1/2."""
    a = 1.0 / 720.0 + s * (1.0 / 5040.0 + s * (1.0 / 40320.0 + s * (1.0 / 362880.0 + s * (1.0 / 3628800.0))))
    b = 2.505210838544172e-08 + s * (2.08767569878681e-09 + s * (1.6059043836821613e-10 + s * 1.1470745597729725e-11))
    a += (s * s) * (s * s) * s * b
    return 0.5 + s * (1.0 / 6.0 + s * (1.0 / 24.0 + s * (1.0 / 120.0 + s * a)))


@kernel
def tilt_gently(v, p, known, lam, q):
    """`tilt` for λ large relative to the values: about the mean, the 1 in exp(s) = 1 + s + … costs no digits."""
    small, product, second, total = gentle_sums(v, p, known.top + known.mean, lam, q)
    small, product = small / known.total, product / known.total
    mean, logs = product / (1.0 + small), math.log1p(small)
    divergence, variance = max(mean - logs, 0.0), max(second / total - mean * mean, 0.0)
    return Tilt(divergence, variance, known.mean + lam * mean, known.mean + lam * logs, total, 1e-15 * divergence)


@kernel
def tilt_at(v, p, known, lam, q):
    if known.low >= -0.25 * lam:
        return tilt_gently(v, p, known, lam, q)
    return tilt(v, p, known, lam, q)


@kernel
def next_multiplier(lam, radius, found, low, high):
    """Newton on √(2 KL) = √(2 radius), nearly linear in 1/λ, kept between the bounds."""
    now = math.sqrt(2.0 * found.divergence)
    factor = 16.0
    if found.variance > 0.0:
        factor = 1.0 + (math.sqrt(2.0 * radius) - now) * now / found.variance
    following = lam / min(max(factor, 0.0625), 16.0)
    if low < following < high:
        return following
    return math.sqrt(low) * math.sqrt(high) if low > 0.0 else 0.0625 * high


@kernel
def kl_reweigh(v, p, known, least, radius, near, loose, q):
    """(λ, `Tilt`) of the maximiser of ⟨q, v⟩ − least·KL(q) over KL(q) ≤ radius, written into ``q`` with sum one.

    λ ≥ least solves KL(q) = radius, or is ``least``; ``near`` is a λ to begin with, ``loose`` a relative tolerance.
    """
    if known.low == 0.0:
        spread_evenly(v, p, known, -np.inf, q)
        return least, Tilt(0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    most = math.log(known.total / known.at)
    if least == 0.0 and most <= radius:
        spread_evenly(v, p, known, LARGEST_NEGATIVE, q)
        return 0.0, Tilt(most, 0.0, 0.0, 0.0, 1.0, 0.0)
    low, high, lam = 0.0, np.inf, least
    if radius < np.inf:
        high = min(-known.low / math.sqrt(8.0 * radius), -known.mean / radius)
        lam = max(min(near, high) if near > 0.0 else high, least)
        high = max(high * (1.0 + 1e-9), lam)
    found = tilt_at(v, p, known, lam, q)
    for _ in range(STEPS):
        if lam == least and found.divergence <= radius:
            break
        if abs(found.divergence - radius) <= loose * radius + found.noise or high - low <= 4e-16 * high:
            break
        if found.divergence > radius:
            low = lam
        else:
            high = lam
        lam = max(next_multiplier(lam, radius, found, low, high), least)
        found = tilt_at(v, p, known, lam, q)
    if found.divergence > radius * (1.0 + 1e-10) + found.noise and lam < high:  # no number lies between low and high
        lam = high
        found = tilt_at(v, p, known, lam, q)
    q /= found.total
    return lam, found


@inlined
def excess_sums(v, p, top, edge, centre, size):
    """Σ p, Σ p s, Σ p s² with s = (d − centre)/size over d = v − top > edge."""
    mass, first, second = lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(0, v.size, LANES):
        d = at_most(pack(v, i) - top, 0.0)
        m = more_than(d, edge, masses_at(p, v.size, i))
        s = more_than(m, 0.0, (d - centre) / size)
        mass += m
        first += m * s
        second += m * s * s
    return lanes_sum(mass), lanes_sum(first), lanes_sum(second)


@kernel
def chi_penalised(v, p, known, lam, near):
    """`Excess` of the maximiser of ⟨q, v⟩ − λ χ²(q): the edge with Σ p (d − edge)₊ = λ Σ p, by Newton, finite.

    The equation is convex, so the edges increase from below the solution. Sums of d ≤ 0 lose no digits at any scale of
    λ.
    """
    least = max(known.mean - lam, -lam * (known.total / known.at))  # the solution is not below
    edge = near if least < near < 0.0 else least
    level, mass, last = known.mean, known.total, -1.0
    for _ in range(STEPS):
        mass, first, _ = excess_sums(v, p, known.top, edge, 0.0, 1.0)
        level = (first - lam * max(known.total - mass, 0.0)) / mass
        if mass == last:
            break
        edge, last = max(level - lam, least), mass
    return Excess(level, lam, mass / known.total, 0.0)


@kernel
def spread(v, p, top, edge, centre, size):
    """(mass, mean, standard deviation) of the values above an edge, the last two less top.

    ``centre`` and ``size`` are estimates of the mean and of its size. If they are too inaccurate for the variance,
    which may be below the smallest number, the mean is computed first.
    """
    mass, first, second = excess_sums(v, p, top, edge, centre, size)
    if mass <= 0.0:
        return mass, 0.0, 0.0
    shift = first / mass
    if shift * shift > 1e6 * (second / mass - shift * shift):
        centre = excess_sums(v, p, top, edge, 0.0, 1.0)[1] / mass
        if centre == 0.0:
            return mass, 0.0, 0.0
        size = -centre
        mass, first, second = excess_sums(v, p, top, edge, centre, size)
        shift = first / mass
    deviation = math.sqrt(max(second / mass - shift * shift, 0.0))
    return mass, min(centre + size * shift, 0.0), size * deviation


@kernel
def chi_bounded(v, p, known, radius, near):
    """`Excess` of the maximiser of ⟨q, v⟩ over χ²(q) ≤ radius, for more mass than the top's: safeguarded, finite.

    Given an edge below the solution, the edge that is exact for the values above it is closer and still below.
    """
    low, high, last = 2.0 * known.low, 0.0, -1.0
    edge = near if low < near < 0.0 else low
    centre, width, found = known.mean, 0.0, Excess(low, 0.0, 1.0, 2.0 * radius)
    for _ in range(STEPS):
        mass, mean, deviation = spread(v, p, known.top, edge, centre, -centre if centre < 0.0 else 1.0)
        spare = (2.0 * radius * mass - (known.total - mass)) / known.total
        if mass <= 0.0 or spare <= 0.0:
            high, last, edge = edge, -1.0, 0.5 * (low + edge)
            continue
        share, centre, width = mass / known.total, mean, deviation / math.sqrt(spare)
        found = Excess(centre - width * (1.0 - share) if width > 0.0 else edge, share * width, share, spare)
        if mass == last or width == 0.0 or high - low <= -2e-16 * low:
            break
        if width > centre - edge:
            high = edge
        else:
            low = edge
        following, last = centre - width, mass
        edge = following if low <= following < high else 0.5 * (low + high)
    return found


@kernel
def chi_reweigh(v, p, known, least, radius, near, q):
    """(`Excess`, χ²(q), E_q[v] − top) of the maximiser of ⟨q, v⟩ − least·χ²(q) over χ²(q) ≤ radius, into ``q``."""
    if known.low == 0.0:
        spread_evenly(v, p, known, -np.inf, q)
        return Excess(0.0, least, 1.0, 0.0), 0.0, 0.0
    most = 0.5 * (known.total / known.at - 1.0)
    if least == 0.0 and most <= radius:
        spread_evenly(v, p, known, LARGEST_NEGATIVE, q)
        return Excess(0.0, 0.0, known.at / known.total, 0.0), most, 0.0
    found = Excess(0.0, 0.0, 1.0, 0.0)
    if most > radius:
        found = chi_bounded(v, p, known, radius, near)
    if found.lam < least or most <= radius:
        found = chi_penalised(v, p, known, least, near)
    if found.lam <= 0.0:  # the values above the edge are one
        spread_evenly(v, p, known, found.level, q)
        return found, 0.5 * (1.0 / found.mass - 1.0), 0.0
    divergence, mean = write_excess(v, p, known, found, q)
    if divergence > radius * (1.0 + 1e-10):  # by rounding, where a few values of tiny mass are far from the others
        keep = math.sqrt(radius / divergence)
        mix_evenly(p, known.total, keep, q)
        divergence, mean = radius, keep * mean + (1.0 - keep) * known.mean
    return found, divergence, mean


@kernel
def mix_evenly(p, total, keep, q):
    """q ← keep·q + (1 − keep)·p."""
    for i in range(q.size):
        m = (p[i] if p.size > 0 else 1.0) / total
        q[i] = m + keep * (q[i] - m)


@kernel
def write_excess(v, p, known, found, q):
    """The weights into ``q``; χ²(q) and E_q[v] − top."""
    total, drift, second, mean = 0.0, 0.0, 0.0, 0.0
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        d = v[i] - known.top
        change = max((d - found.level) / found.lam, -1.0) if m > 0.0 else -1.0
        q[i] = m * (1.0 + change)
        total += q[i]
        drift += m * change
        second += m * change * change
        mean += q[i] * d if q[i] > 0.0 else 0.0
    q /= total
    drift /= known.total  # of the sum of the weights from one: rounding, which the division has just removed
    return 0.5 * max(second / known.total - drift * drift, 0.0) / ((1.0 + drift) * (1.0 + drift)), mean / total


@kernel
def chi_bound(v, p, known, level, lam):
    """level + E_p[λ f((v − top − level)/λ)] with f(s) = s + s²/2 from −1 on: the penalised value from above."""
    total = 0.0
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        s = max((v[i] - known.top - level) / lam, -1.0)
        total += m * (lam * (s + 0.5 * s * s))
    return level + total / known.total


@kernel
def tail_level(v, p, share):
    """The value down to which the largest values have the mass ``share``, by selection, O(n)."""
    values, masses = v.copy(), p.copy()
    low, high, wanted = 0, v.size, share
    while high - low > 1:
        a, b, c = values[low], values[(low + high) // 2], values[high - 1]
        pivot = max(min(a, b), min(max(a, b), c))
        beyond, equal, start, stop, i = 0.0, 0.0, low, high, low
        while i < stop:  # larger ones to the front, smaller ones to the back
            m = masses[i] if p.size > 0 else 1.0
            if values[i] > pivot:
                values[i], values[start] = values[start], values[i]
                if p.size > 0:
                    masses[i], masses[start] = masses[start], masses[i]
                beyond, start, i = beyond + m, start + 1, i + 1
            elif values[i] < pivot:
                stop -= 1
                values[i], values[stop] = values[stop], values[i]
                if p.size > 0:
                    masses[i], masses[stop] = masses[stop], masses[i]
            else:
                equal, i = equal + m, i + 1
        if wanted < beyond:
            high = start
        elif wanted <= beyond + equal or stop == high:
            return pivot
        else:
            wanted, low = wanted - beyond - equal, stop
    return values[low]


@kernel
def write_tail(v, p, total, alpha, level, q):
    """q = p/alpha above the level, the rest on it; E_q[v] − level."""
    beyond, at, excess = 0.0, 0.0, 0.0
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        if v[i] > level:
            beyond += m
            excess += m * (v[i] - level)
        elif v[i] == level:
            at += m
    left = min(max(alpha * total - beyond, 0.0) / at, 1.0) if at > 0.0 else 0.0
    whole = beyond + left * at
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        q[i] = m / whole if v[i] > level else (m * left / whole if v[i] == level else 0.0)
    return excess / (alpha * total) if beyond > 0.0 else 0.0


@inlined
def clipped_sums(v, p, top, edge, width):
    """Σ p where 0 < v − top − edge < width, Σ p (v − top − edge) there, Σ p from the width on."""
    inside, first, full = lanes(0.0), lanes(0.0), lanes(0.0)
    for i in range(0, v.size, LANES):
        m = masses_at(p, v.size, i)
        d = at_most(pack(v, i) - top, 0.0) - edge
        part = more_than(width - d, 0.0, more_than(d, 0.0, m))
        inside += part
        first += part * d
        full += at_least(d, width, m)
    return lanes_sum(inside), lanes_sum(first), lanes_sum(full)


@kernel
def cap_reweigh(v, p, known, alpha, mu, near, q):
    """(edge, share between) of q = p clip((v − top − edge)/μ, 0, 1/α) with sum one, into ``q``."""
    low, high = known.low - mu, 0.0
    width = min(mu / alpha, -2.0 * low)  # no value is farther from the edge
    edge, wanted, inside = near if low < near < 0.0 else low, mu * known.total, 0.0
    for _ in range(STEPS):
        inside, first, full = clipped_sums(v, p, known.top, edge, width)
        missing = wanted - first - width * full
        if abs(missing) <= 4e-16 * wanted or high - low <= -2e-16 * low:
            break
        if missing < 0.0:
            low = edge
        else:
            high = edge
        following = edge - missing / inside if inside > 0.0 else np.inf
        if following == edge:
            break
        edge = following if low < following < high else 0.5 * (low + high)
    total = 0.0
    for i in range(v.size):
        m = p[i] if p.size > 0 else 1.0
        q[i] = m * min(max(v[i] - known.top - edge, 0.0), width)
        total += q[i]
    q /= total
    return edge, inside / known.total
