"""Special functions of one number, accurate at every size; they run in Python and inside kernels."""

import math

import numpy as np
from numba.extending import register_jitable

EXP_LIMIT = 709.782712893384  # log of the largest float64


@register_jitable
def exp(x):
    """exp(x), with inf where it overflows (``math.exp`` raises there)."""
    return np.inf if x > EXP_LIMIT else math.exp(x)


@register_jitable
def power(x, p):
    """x^p for x ≥ 0, with inf where it overflows (``**`` raises there)."""
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
def negative_entropy(p):
    """p log p + (1 − p) log(1 − p) on [0, 1], inf outside."""
    if p < 0.0 or p > 1.0:
        return np.inf
    return xlogx(p) + ((1.0 - p) * math.log1p(-p) if p < 1.0 else 0.0)


@register_jitable
def clip(x, low, high):
    """The point of [low, high] nearest to x."""
    return min(max(x, low), high)


@register_jitable
def wright_omega(z):
    """ω with ω + log ω = z.

    Newton on log ω left of 1, where ω may underflow, and on ω right of it; both start on the side from which
    the iterates are monotone.
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
