"""Portfolios and policies in rational arithmetic: objectives as the data have them, and their optima."""

import itertools
from fractions import Fraction
from typing import NamedTuple


class Quadratic(NamedTuple):
    """wᵀHw − 2⟨b, w⟩ + c."""

    H: list
    b: list
    c: Fraction

    def value(self, w):
        w = rationals(w)
        Hw = [dot(row, w) for row in self.H]
        return dot(w, Hw) - 2 * dot(self.b, w) + self.c

    def on(self, held):
        """On some of the variables, the others zero."""
        return Quadratic([[self.H[j][k] for k in held] for j in held], [self.b[j] for j in held], self.c)


def rationals(numbers):
    return [number if isinstance(number, Fraction) else Fraction(float(number)) for number in numbers]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def solved(A, b):
    """The solution of A x = b by Gauss's elimination; None where A is singular."""
    n, rows = len(b), [[*row, right] for row, right in zip(A, b, strict=True)]
    for i in range(n):
        pivot = next((r for r in range(i, n) if rows[r][i] != 0), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i], strict=True)]
    return [row[n] for row in rows]


def squares(rows, targets, share, l2=0.0):
    """Σ share (⟨row, w⟩ − target)² + (l2/2)‖w‖²."""
    d = len(rows[0])
    H = [[sum(p * row[j] * row[k] for p, row in zip(share, rows, strict=True)) for k in range(d)] for j in range(d)]
    for j in range(d):
        H[j][j] += Fraction(float(l2)) / 2
    b = [sum(p * row[j] * t for p, row, t in zip(share, rows, targets, strict=True)) for j in range(d)]
    return Quadratic(H, b, sum(p * t * t for p, t in zip(share, targets, strict=True)))


def portfolio(returns, risk_aversion, l2=0.0, weight=None):
    """The objective of MeanVariancePortfolio."""
    R = [rationals(row) for row in returns]
    masses = rationals([1.0] * len(R) if weight is None else weight)
    share = [a / sum(masses) for a in masses]
    mean = [sum(p * row[j] for p, row in zip(share, R, strict=True)) for j in range(len(R[0]))]
    deviations = [[x - m for x, m in zip(row, mean, strict=True)] for row in R]
    found = squares(deviations, [Fraction(0)] * len(R), share)
    H = [[Fraction(float(risk_aversion)) * x for x in row] for row in found.H]
    for j in range(len(H)):
        H[j][j] += Fraction(float(l2)) / 2
    return Quadratic(H, [m / 2 for m in mean], Fraction(0))


def bellman(features, P, reward, discount, l2=0.0, weight=None):
    """The objective of PolicyEvaluator on a matrix of transitions and rewards of the states."""
    phi, P = [rationals(row) for row in features], [rationals(row) for row in P]
    P = [[p / (sum(row) or 1) for p in row] for row in P]
    gamma = Fraction(float(discount))
    rows = [
        [x - gamma * sum(p * after[j] for p, after in zip(row, phi, strict=True)) for j, x in enumerate(here)]
        for here, row in zip(phi, P, strict=True)
    ]
    masses = rationals([1.0] * len(phi) if weight is None else weight)
    return squares(rows, rationals(reward), [a / sum(masses) for a in masses], l2)


def stationary(F, sums):
    """The stationary point of F on Σ aⱼwⱼ = total for every (a, total) in ``sums``; None where it is not unique."""
    d = len(F.b)
    A = [[2 * F.H[j][k] for k in range(d)] + [a[j] for a, _ in sums] for j in range(d)]
    A += [[*a, *([Fraction(0)] * len(sums))] for a, _ in sums]
    found = solved(A, [2 * x for x in F.b] + [total for _, total in sums])
    return None if found is None else found[:d]


def best(F, long_only=False, budget=None, leverage=None):
    """The least value of F over the domain, by all of its faces."""
    d, values, free = len(F.b), [], not (long_only or leverage)
    faces = [(1,) * d] if free else itertools.product((0, 1) if long_only else (-1, 0, 1), repeat=d)
    for signs in faces:
        held = [j for j in range(d) if signs[j]]
        ones, gross = [Fraction(1)] * len(held), [Fraction(signs[j]) for j in held]
        total = [] if budget is None else [(ones, Fraction(float(budget)))]
        limit = [] if leverage is None else [(gross, Fraction(float(leverage)))]
        for sums in ([*total], [*total, *limit]) if limit else ([*total],):
            w = stationary(F.on(held), independent(sums)) if held else []
            if w is None or any(dot(a, w) != b for a, b in sums):
                continue
            inside = leverage is None or sum(abs(x) for x in w) <= Fraction(float(leverage))
            signed = free or all(x * signs[j] >= 0 for x, j in zip(w, held, strict=True))
            if inside and signed and (budget is None or sum(w) == Fraction(float(budget))):
                values.append(F.on(held).value(w))
    return min(values)


def independent(sums):
    """Without a sum that is the other one or its opposite."""
    if len(sums) == 2 and sums[0][0] in (sums[1][0], [-x for x in sums[1][0]]):
        return sums[:1]
    return sums
