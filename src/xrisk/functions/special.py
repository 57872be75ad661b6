"""Special functions of one number, accurate at every size; they run in Python and inside kernels."""

import math

import numpy as np
from numba.extending import register_jitable

from xrisk.generic import INLINED
from xrisk.lanes import fused

TINY = float(np.finfo(np.float64).tiny)
EXP_LIMIT = 709.782712893384  # log of the largest float64

# without branches and calls, a loop over an array becomes vector instructions
branch_free = register_jitable(**INLINED)

LOG2_E = 1.4426950408889634
LOG_2 = 0.693147180369123816  # its first 32 bits: its product with an exponent is exact
LOG_2_REST = 1.90821492927058770e-10
ROUND = 6755399441055744.0  # 1.5·2⁵²: adding it leaves a whole number in the last bits


@register_jitable
def exp(x):
    """exp(x), inf where it overflows (``math.exp`` raises an error)."""
    return np.inf if x > EXP_LIMIT else math.exp(x)


@branch_free
def line(a, b, x):
    """a + b·x."""
    return fused(b, x, a)


@branch_free
def fast_exp(x):
    """exp(x) within 1.1 units in the last place, including inf, 0 and NaN.

    exp(x) = 2ⁿ exp(r) with |r| ≤ log(2)/2, where a polynomial of degree 11 is off by 2e-17. The power of two
    is applied in two factors, for results below 2⁻¹⁰²² and next to overflow.

    Examples
    --------
    >>> fast_exp(0.0), fast_exp(-800.0), fast_exp(800.0)
    (1.0, 0.0, inf)
    """
    x = -746.0 if x < -746.0 else float(x)
    x = 710.0 if x > 710.0 else x
    whole = np.float64(fused(LOG2_E, x, ROUND))
    n = float(whole) - ROUND
    half = np.float64(fused(0.5, n, ROUND))
    r = fused(-LOG_2_REST, n, fused(-LOG_2, n, x))
    s = r * r
    a = fused(s, line(0.04166666666662412, 0.008333333333322208, r), line(0.5000000000000001, 0.16666666666666674, r))
    b = fused(
        s,
        line(2.4801521293745646e-05, 2.755724234223733e-06, r),
        line(0.0013888888917215384, 0.00019841269886586277, r),
    )
    c = line(2.7620089361777497e-07, 2.5110047746466714e-08, r)
    q = 1.0 + fused(s, fused(s * s, fused(s * s, c, b), a), r)
    return q * _power_of_two(half.view(np.int64)) * _power_of_two(whole.view(np.int64) - half.view(np.int64))


@branch_free
def _power_of_two(n):
    """2ⁿ for −1022 ≤ n ≤ 1023, of which only the last 11 bits are used."""
    return float(np.int64((n + 1023) << 52).view(np.float64))


@branch_free
def fast_log1p(x):
    """log(1 + x) for −½ ≤ x ≤ 1, within 1.2 units in the last place: an odd polynomial of s = x/(2 + x)."""
    s = x / (2.0 + x)
    v = s * s
    q = v * v
    a = fused(q, line(0.28571428566944046, 0.22222222732703933, v), line(0.6666666666666666, 0.4000000000001527, v))
    b = fused(q, line(0.13313860694524396, 0.1200360376485126, v), line(0.1818178872662601, 0.1538558857182529, v))
    c = line(0.08788555915244822, 0.16188476499378662, v)
    # 2s = x − sx: small x are returned exactly, also subnormal ones
    return fused(-s, fused(-v, fused(q * q, fused(q * q, c, b), a), x), x)


@branch_free
def fast_log(x):
    """log(x) for positive x with all their digits, within 2 units in the last place where |log(x)| ≥ 1/3."""
    bits = np.float64(x).view(np.int64)
    m = float(np.int64((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000).view(np.float64))
    is_large = m > 1.4142135623730951
    m = 0.5 * m if is_large else m
    n = float((bits >> 52) - (1022 if is_large else 1023))
    return fused(n, LOG_2, fused(n, LOG_2_REST, fast_log1p(m - 1.0)))


@branch_free
def negative_entropy(p):
    """p log p + (1 − p) log(1 − p) on [0, 1], inf outside.

    Examples
    --------
    >>> round(negative_entropy(0.5), 12), negative_entropy(1.0), negative_entropy(1.5)
    (-0.69314718056, 0.0, inf)
    """
    rest = 1.0 - p
    inside = max(p, TINY)  # numbers below it have fewer digits, and their product with the logarithm is negligible
    other = fast_log1p(-min(p, 0.5)) if p <= 0.5 else fast_log(max(rest, TINY))
    value = fused(p, fast_log(inside), rest * other)
    return np.inf if p < 0.0 or p > 1.0 else value


@branch_free
def logistic_terms(m):
    """log(1 + exp(−m)), σ(−m) and σ(m) σ(−m): the logistic loss of a margin, its slope's size, its curvature.

    They share one exponential. Each has a relative error of at most 7e-16, also in the tails; a result below
    2⁻¹⁰²² is off by at most one of its units. A loop over an array takes an eighth of the time that exp and
    log1p of libm take.

    Examples
    --------
    >>> loss, slope, curvature = logistic_terms(0.0)
    >>> round(loss, 12), slope, curvature
    (0.69314718056, 0.5, 0.25)
    """
    e = fast_exp(-abs(m))
    share = 1.0 / (1.0 + e)
    return max(-m, 0.0) + fast_log1p(e), (e * share if m >= 0.0 else share), e * share * share


@register_jitable
def power(x, p):
    """x^p for x ≥ 0, inf where it overflows (``**`` raises an error)."""
    if x == 0.0:
        return 1.0 if p == 0.0 else (0.0 if p > 0.0 else np.inf)
    return np.inf if p * math.log(x) > EXP_LIMIT else x**p


@register_jitable
def log1pexp(x):
    """log(1 + exp(x)); exp(−|x|) cannot overflow."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@register_jitable
def sigmoid(x):
    """1 / (1 + exp(−x)), accurate relatively in both tails."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@register_jitable
def sigmoid_slope(x):
    """σ(x) σ(−x), without the cancellation of 1 − σ."""
    e = math.exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


@register_jitable
def xlogx(p):
    """p log p, continued by 0 at 0."""
    return p * math.log(p) if p > 0.0 else 0.0


@register_jitable
def exp_conjugate(p):
    """p log p − p on p ≥ 0, inf outside; as one product, which is inf and not NaN at inf."""
    if p <= 0.0:
        return 0.0 if p == 0.0 else np.inf
    return p * (math.log(p) - 1.0)


@register_jitable
def clip(x, low, high):
    """The point of [low, high] nearest to x."""
    return min(max(x, low), high)


@register_jitable
def wright_omega(z):
    """ω with ω + log ω = z.

    Newton's method on log ω for ω < 1, which may underflow, else on ω; both start on the side from which the iterates
    are monotone.
    """
    if z < -40.0:
        return math.exp(z)  # off by a factor 1 + exp(−40)
    if z > 1e18:
        return z  # log z is below half a unit in the last place
    if z <= 1.0:
        x = z
        for _ in range(30):
            e = math.exp(x)
            step = (e + (x - z)) / (1.0 + e)
            x -= step
            if abs(step) <= 1e-16 * (1.0 + abs(x)):
                break
        return math.exp(x)
    omega = z - math.log(z)
    for _ in range(30):
        step = omega * ((omega - z) + math.log(omega)) / (1.0 + omega)
        omega -= step
        if abs(step) <= 2e-16 * omega:
            break
    return omega


@register_jitable
def logit_root(w, tau):
    """x with x + τ σ(x) = w, by reflection onto its convex half x ≤ 0."""
    if math.isinf(w):
        return w
    if w > 0.5 * tau:
        return -_left_logit_root(tau - w, tau)
    return _left_logit_root(w, tau)


@register_jitable
def _left_logit_root(w, tau):
    # σ(x) ≥ exp(x)/2 on x ≤ 0 gives a start right of the root and within log 2 of it; Newton then decreases
    half = math.log(0.5 * tau)
    omega = wright_omega(w + half)
    x = min(0.0, w if w + half < -40.0 else math.log(omega) - half)
    for _ in range(60):
        s = sigmoid(x)
        step = (x - w + tau * s) / (1.0 + tau * s * (1.0 - s))
        x -= step
        if abs(step) <= 1e-16 * (1.0 + abs(x)):
            break
    return x


@register_jitable
def power_root(p, w, tau):
    """(z, p z^(p−1)) with z + τ p z^(p−1) = w, for w > 0 and p > 1.

    Solved in z for p ≥ 2 and in z^(p−1) for p < 2: the equation a x^q + b x = w is then convex, and Newton
    decreases from the smaller of the two roots of its one-term halves, where nothing can overflow.
    """
    if p >= 2.0:
        z = _convex_root(tau * p, p - 1.0, 1.0, w)
        return z, p * power(z, p - 1.0)
    t = _convex_root(1.0, 1.0 / (p - 1.0), tau * p, w)
    return power(t, 1.0 / (p - 1.0)), p * t


@register_jitable
def _convex_root(a, q, b, w):
    x = min(power(w / a, 1.0 / q), w / b)
    for _ in range(100):
        if x <= 0.0:
            return 0.0
        term = a * power(x, q)
        step = (term - w + b * x) / (q * (term / x) + b)
        x -= step
        if step <= 1e-16 * x:
            break
    return x


@register_jitable
def norm(w):
    """‖w‖₂; scaled by the largest entry when the squares would overflow or vanish."""
    total = 0.0
    largest = 0.0
    for j in range(w.size):
        a = abs(float(w[j]))
        total += a * a
        largest = max(largest, a)
    if 1e-280 < total < 1e300 or largest == 0.0 or math.isinf(largest):
        return math.sqrt(total)
    total = 0.0
    for j in range(w.size):
        a = float(w[j]) / largest
        total += a * a
    return largest * math.sqrt(total)
