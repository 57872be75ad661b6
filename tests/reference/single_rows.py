"""Risks over single rows in plain NumPy, for the naive twins: nothing of the package is used here but the data."""

import numpy as np
import scipy.optimize

from tests.conftest import table


class SingleRows:
    """Logistic losses of 60 rows, l2 = 0.1; batches are drawn row by row from the generator, as the package does."""

    def __init__(self, w0, batch, l2=0.1, masses=None):
        X, y, _ = table(n=60)
        self.X, self.y, self.n, self.w0, self.batch, self.l2 = X, y.astype(float), 60, w0, batch, l2
        self.masses = np.full(60, 1.0 / 60.0) if masses is None else masses

    def draw(self, rng, size=None):
        return np.array([int(rng.random() * self.n) for _ in range(size or self.batch)])

    def counts(self, rows):
        """How often each row of a batch counts."""
        return self.n * self.masses[rows]

    def losses(self, w, rows):
        return np.logaddexp(0.0, -self.y[rows] * (self.X[rows] @ w))

    def gradient(self, w, rows, weights):
        """Σ weights·∇v."""
        slopes = -self.y[rows] / (1.0 + np.exp(self.y[rows] * (self.X[rows] @ w)))
        return (weights * slopes) @ self.X[rows]

    def prox(self, w, step):
        return w / (1.0 + step * self.l2)


def kl(q, p):
    return float(np.sum(q[p > 0.0] * np.log(q[p > 0.0] / p[p > 0.0])))


def kl_worst(v, p, radius, price):
    """argmax ⟨q, v⟩ − price·KL(q, p) over KL(q, p) ≤ radius, by a root in λ."""

    def weights(lam):
        e = p * np.exp((v - v.max()) / lam)
        return e / e.sum()

    if price > 0.0 and kl(weights(price), p) <= radius:
        return weights(price)
    root = scipy.optimize.brentq(
        lambda s: kl(weights(np.exp(s)), p) - radius, np.log(max(price, 1e-2)), 20.0, xtol=1e-15, rtol=1e-14
    )
    return weights(np.exp(root))


def cvar_worst(v, alpha):
    """The largest values first, 1/(α·size) each."""
    q, left = np.zeros(v.size), 1.0
    for i in np.argsort(-v):
        q[i] = min(1.0 / (alpha * v.size), left)
        left -= q[i]
    return q


def onto_simplex(q, total):
    """The nearest point of {q ≥ 0, Σ q = total}."""
    level = scipy.optimize.brentq(
        lambda c: np.maximum(q - c, 0.0).sum() - total, q.min() - total, q.max(), xtol=1e-16, rtol=1e-15
    )
    return np.maximum(q - level, 0.0)
