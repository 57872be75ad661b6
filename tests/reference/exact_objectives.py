"""Training objectives in decimals of eighty digits, from the floats that an estimator was given, and better points."""

import decimal
from decimal import Decimal

import numpy as np

decimal.getcontext().prec = 80
decimal.getcontext().Emin, decimal.getcontext().Emax = -(10**8), 10**8
NEAR = Decimal("1e-60")  # relative: what eighty digits leave of a sum


def decimals(array):
    return [decimals(part) for part in array] if np.ndim(array) else Decimal(float(array))


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Decimal(0))


def softplus(x):
    return max(x, Decimal(0)) + (1 + (-abs(x)).exp()).ln()


def huber(r):
    return r * r / 2 if abs(r) <= 1 else abs(r) - Decimal(1) / 2


LOSSES = {
    "logistic": lambda z, y: softplus(-y * z),
    "exponential": lambda z, y: (-y * z).exp(),
    "hinge": lambda z, y: max(1 - y * z, Decimal(0)),
    "squared_hinge": lambda z, y: max(1 - y * z, Decimal(0)) ** 2,
    "squared": lambda z, y: (z - y) ** 2 / 2,
    "absolute": lambda z, y: abs(z - y),
    "huber": lambda z, y: huber(z - y),
}


def mean(values, masses=None):
    masses = [Decimal(1)] * len(values) if masses is None else masses
    return dot(masses, values) / sum(masses)


def cvar(values, alpha):
    left, total, share = Decimal(1), Decimal(0), 1 / (Decimal(float(alpha)) * len(values))
    for value in sorted(values, reverse=True):
        total += min(share, left) * value
        left -= min(share, left)
    return total


def kl(values, lam):
    top = max(values)
    return top + lam * mean([((value - top) / lam).exp() for value in values]).ln()


def chi2(values, lam):
    """max ⟨q, u⟩ − (λ/n) Σ ½(nq − 1)²: nq = (1 + (u − c)/λ)₊ with mean one."""
    n, ordered = len(values), sorted(values, reverse=True)
    for k in range(1, n + 1):
        c = mean(ordered[:k]) + lam - lam * n / k
        if k == n or 1 + (ordered[k] - c) / lam <= 0:
            t = [max(1 + (value - c) / lam, Decimal(0)) for value in values]
            return mean([a * b for a, b in zip(t, values, strict=True)]) - lam * mean([(a - 1) ** 2 / 2 for a in t])
    raise AssertionError


def ball(cost, values, radius, strength):
    """min over λ ≥ strength of cost(λ) + (λ − strength)·radius, convex in λ."""

    def at(lam):
        return cost(values, strength + lam) + lam * radius

    with decimal.localcontext(prec=30):
        low, high = by_thirds(at, Decimal("1e-12"), Decimal("1e6"), Decimal("1e-7"))
    found = polished(at, (low + high) / 2)
    return min(found, cost(values, strength) if strength else max(values))


def polished(function, x):
    """The least value met in steps of Newton's method, derivatives by differences; each doubles the digits of x."""
    best = function(x)
    for _ in range(3):
        h = x * Decimal("1e-15")
        here, above, below = function(x), function(x + h), function(x - h)
        slope, curvature = (above - below) / (2 * h), (above - 2 * here + below) / (h * h)
        if not curvature > 0:
            return best
        x = min(max(x - slope / curvature, x / 2), 2 * x)
        best = min(best, function(x))
    return best


def by_thirds(function, low, high, near):
    """Ends of an interval of relative length ``near`` about the minimiser, on a scale of logarithms."""
    while high / low > 1 + near:
        a, b = low * (high / low) ** (Decimal(1) / 3), low * (high / low) ** (Decimal(2) / 3)
        low, high = (low, b) if function(a) <= function(b) else (a, high)
    return low, high


RISKS = {
    "max": lambda u, o: max(u),
    "cvar": lambda u, o: cvar(u, o["alpha"]),
    "kl": lambda u, o: kl(u, Decimal(float(o["lam"]))),
    "chi2": lambda u, o: chi2(u, Decimal(float(o["lam"]))),
    "kl-ball": lambda u, o: ball(kl, u, Decimal(float(o["radius"])), Decimal(float(o.get("strength", 0.0)))),
    "chi2-ball": lambda u, o: ball(chi2, u, Decimal(float(o["radius"])), Decimal(float(o.get("strength", 0.0)))),
}


def penalty(w, l1, l2):
    return Decimal(float(l1)) * sum(map(abs, w)) + Decimal(float(l2)) / 2 * dot(w, w)


def linear(X, y, loss):
    """w → losses of the rows, the last of w an intercept."""
    rows, y, of = decimals(X), decimals(y), LOSSES[loss]
    return lambda w: [of(dot(row, w[:-1]) + w[-1], target) for row, target in zip(rows, y, strict=True)]


def pairs(X, y, loss):
    """w → the table of losses ℓ(sᵢ − sⱼ) of positives i and negatives j."""
    positive, negative, of = decimals(X[y > 0]), decimals(X[y < 0]), LOSSES[loss]

    def table(w):
        above, below = ([dot(row, w) for row in side] for side in (positive, negative))
        return [[of(s - t, Decimal(1)) for t in below] for s in above]

    return table


def better(F, w, steps=4):
    """A point no worse than w by Newton's method in decimals, derivatives by differences; F may have kinks."""
    w, value = decimals(w), F(decimals(w))
    h, wide = Decimal("1e-25"), Decimal("1e-12")
    for _ in range(steps):
        g = [(F(moved(w, j, h)) - F(moved(w, j, -h))) / (2 * h) for j in range(len(w))]
        step = newton(F, w, g, wide)
        for part in (Decimal(1), Decimal("0.5"), Decimal("0.1")):
            there = [a - part * b for a, b in zip(w, step, strict=True)]
            found = F(there)
            if found < value:
                w, value = there, found
                break
        else:
            return w, value
    return w, value


def moved(w, j, h):
    return [x + h if k == j else x for k, x in enumerate(w)]


def newton(F, w, g, h):
    d, here = len(w), F(w)
    H = np.empty((d, d))
    for j in range(d):
        for k in range(j + 1):
            there = F(moved(moved(w, j, h), k, h)) - F(moved(w, j, h)) - F(moved(w, k, h)) + here
            H[j, k] = H[k, j] = float(there / (h * h))
    scale = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    found = np.linalg.lstsq(H * scale * scale[:, None], scale * np.array([float(x) for x in g]), rcond=1e-13)[0]
    return decimals(scale * found)
