"""Small problems in plain NumPy, for the naive twins: nothing of the package is used here but the data."""

import numpy as np
import scipy.optimize

from tests.conftest import table


class Naive:
    """f of the groups' mean logistic losses, less a threshold if there is one, under an l2 penalty.

    ``x`` is (w, c) with a threshold, else w. Batches are drawn row by row from the generator, as the package does.
    """

    affine = False

    def __init__(self, outer, *, threshold, x0, batch, l2=0.1, per_block=1):
        X, y, groups = table()
        order = np.argsort(groups, kind="stable")
        self.X, self.y = X[order], y[order].astype(float)
        self.offsets = np.concatenate(([0], np.cumsum(np.bincount(groups))))
        self.outer, self.threshold, self.x0 = outer, threshold, x0
        self.batch, self.l2, self.per_block = batch, l2, per_block
        self.n, self.m = 6 // per_block, per_block

    def draw(self, i, rng):
        rows = []
        for j in range(i * self.per_block, (i + 1) * self.per_block):
            low, high = self.offsets[j], self.offsets[j + 1]
            rows.append([low + int(rng.random() * (high - low)) for _ in range(self.batch)])
        return np.array(rows)

    def one(self, i, rng):
        """One row of block i; for problems of one group per block."""
        low, high = self.offsets[i], self.offsets[i + 1]
        return np.array([[low + int(rng.random() * (high - low))]])

    def everything(self, i):
        """All rows of block i; for problems of one group per block."""
        return np.arange(self.offsets[i], self.offsets[i + 1])[None, :]

    def first_dual(self):
        """The point of the domain of f* next to 0, or its centre."""
        return self.outer.first_dual(self.m)

    def value(self, i, x, rows):
        w, c = (x[:-1], x[-1]) if self.threshold else (x, 0.0)
        return np.array([np.logaddexp(0.0, -self.y[r] * (self.X[r] @ w)).mean() - c for r in rows])

    def jacobian(self, i, x, rows):
        w = x[:-1] if self.threshold else x
        slopes = [-self.y[r] / (1.0 + np.exp(self.y[r] * (self.X[r] @ w))) for r in rows]
        J = np.array([s @ self.X[r] / len(r) for s, r in zip(slopes, rows, strict=True)])
        return np.column_stack([J, -np.ones(len(rows))]) if self.threshold else J

    def slope(self, u):
        """∂f(u), (m,)."""
        return self.outer.slope(u)

    def dual_step(self, u, y, tau):
        """argmax_y ⟨y, u⟩ − f*(y) − (τ/2)‖y − y₀‖²."""
        return self.outer.dual_step(u, y, tau)

    def least(self, q):
        """min over x of Σ qᵢgᵢ(x) + r(x), for problems without a threshold: the dual function of a risk."""
        rows = [self.everything(i) for i in range(self.n)]

        def weighted(x):
            parts = [(self.value(i, x, r)[0], self.jacobian(i, x, r)[0]) for i, r in enumerate(rows)]
            value = sum(weight * part[0] for weight, part in zip(q, parts, strict=True))
            slope = sum(weight * part[1] for weight, part in zip(q, parts, strict=True))
            return value + 0.5 * self.l2 * x @ x, slope + self.l2 * x

        return scipy.optimize.minimize(weighted, self.x0, jac=True, tol=1e-12).fun

    def prox(self, x, s):
        if self.threshold:
            return np.append(x[:-1] / (1.0 + s * self.l2), x[-1] - s)
        return x / (1.0 + s * self.l2)


class Affine(Naive):
    """As ``cases.squares``: squares of mean residuals, l2 in a ball, or those of single rows, ``cases.single_rows``."""

    affine = True

    def __init__(self, x0, batch, *, single=False):
        super().__init__(Square(), threshold=False, x0=x0, batch=batch, l2=0.05)
        self.X = self.X + 1.0
        if single:
            self.n, self.offsets = 30, np.arange(31)

    def value(self, i, x, rows):
        return np.array([(self.X[r] @ x - self.y[r]).mean() for r in rows])

    def jacobian(self, i, x, rows):
        return np.array([self.X[r].mean(axis=0) for r in rows])

    def prox(self, x, s):
        x = x / (1.0 + s * self.l2)
        return x * min(1.0, 5.0 / np.linalg.norm(x))


class Pushed:
    """As ``cases.pushed``: squares of mean logistic losses of pairs, l2 = 0.1; sample j of gᵢ is row j of ``below``."""

    def __init__(self, x0, above, below):
        self.x0, self.above, self.below, self.n, self.N = x0, above, below, len(above), len(below)

    def margin(self, i, j, x):
        return (self.above[i] - self.below[j]) @ x

    def sample_value(self, i, j, x):
        return np.logaddexp(0.0, -self.margin(i, j, x))

    def sample_gradient(self, i, j, x):
        return -(self.above[i] - self.below[j]) / (1.0 + np.exp(self.margin(i, j, x)))

    def slope(self, u):
        return 2.0 * np.maximum(u, 0.0)

    def prox(self, x, s):
        return x / (1.0 + 0.1 * s)


class SharedBellman:
    """Policy evaluation with one inner map: Gⱼ = (…, φᵢᵀx, S·P_ij(r_ij + γφⱼᵀx), …), Fᵢ(z) = (z_{2i−1} − z_{2i})²."""

    def __init__(self, x0, P, reward, features, discount):
        self.x0, self.P, self.reward, self.features, self.discount = x0, P, reward, features, discount
        self.N, self.n = len(P), 2 * len(P)

    def sample_value(self, k, j, x):
        i, second = divmod(k, 2)
        later = self.N * self.P[i, j] * (self.reward[i, j] + self.discount * self.features[j] @ x)
        return later if second else self.features[i] @ x

    def sample_gradient(self, k, j, x):
        i, second = divmod(k, 2)
        return self.N * self.P[i, j] * self.discount * self.features[j] if second else self.features[i]

    def slope(self, z):
        """∇ΣFᵢ(z), twice: the twin divides by the 2S components, the mean is over S states."""
        residuals = z[::2] - z[1::2]
        return 4.0 * np.column_stack([residuals, -residuals]).reshape(-1)

    def prox(self, x, s):
        return x


class Square:
    """f(u) = u²."""

    def slope(self, u):
        return 2.0 * u

    def dual_step(self, u, y, tau):
        return (u + tau * y) / (0.5 + tau)

    def first_dual(self, m):
        return np.zeros(m)


class Hinge:
    """CVaR: f(u) = (u)₊/α."""

    def __init__(self, alpha=0.4):
        self.top = 1.0 / alpha

    def slope(self, u):
        return self.top * (u > 0.0)

    def dual_step(self, u, y, tau):
        return np.clip(y + u / tau, 0.0, self.top)


class ChiSquare:
    """χ², convention A, strength 1: f(u) = ½(u+1)₊² − ½."""

    def slope(self, u):
        return np.maximum(u + 1.0, 0.0)

    def dual_step(self, u, y, tau):
        return np.maximum((u + tau * y + 1.0) / (1.0 + tau), 0.0)

    def first_dual(self, m):
        return np.zeros(m)


class LogSumExp:
    """f(u) = β⁻¹ log Σ exp(β uⱼ)."""

    def __init__(self, beta=2.0):
        self.beta = beta

    def slope(self, u):
        e = np.exp(self.beta * (u - u.max()))
        return e / e.sum()


def cvar(x0, batch):
    """As ``cases.cvar``."""
    return Naive(Hinge(), threshold=True, x0=x0, batch=batch)


def chi2(x0, batch):
    """As ``cases.chi2_logistic``."""
    return Naive(ChiSquare(), threshold=True, x0=x0, batch=batch)


def lse(x0, batch):
    """As ``cases.tasks(LogSumExp(2.0))``: three tasks of two groups each."""
    return Naive(LogSumExp(), threshold=False, x0=x0, batch=batch, per_block=2)


def means(x0, batch):
    """The groups' mean losses themselves, for methods that weigh them."""
    return Naive(None, threshold=False, x0=x0, batch=batch)


def sampled(order, blocks, rng):
    """Blocks without replacement, one at a time, so that batches are drawn in between."""
    for a in range(blocks):
        b = a + int(rng.random() * (order.size - a))
        order[[a, b]] = order[[b, a]]
        yield int(order[a])


def everyone(order, blocks, rng):
    """All blocks, one at a time, and whether they are of the sample of ``blocks`` that comes first."""
    yield from ((i, True) for i in sampled(order, blocks, rng))
    yield from ((int(i), False) for i in order[blocks:])
