"""Two-way partial AUC in plain NumPy, for the naive twins: nothing of the package is used here but the data."""

import numpy as np

from tests.conftest import table


class TwoWay:
    """As ``cases.two_way``: squared hinge of pairs, half of the positives against half of the negatives, l2 = 0.1."""

    def __init__(self, x0, batch):
        X, y, _ = table(n=60)
        self.above, self.below, self.x0, self.batch, self.l2 = X[y == 1], X[y == -1], x0, batch, 0.1
        self.n = len(self.above)
        self.theta0, self.theta1 = self.n // 2 / self.n, len(self.below) // 2 / len(self.below)

    def draw(self, rng):
        return np.array([int(rng.random() * len(self.below)) for _ in range(self.batch)])

    def losses(self, i, w, rows):
        return np.maximum(1.0 - (self.above[i] - self.below[rows]) @ w, 0.0) ** 2

    def gradients(self, i, w, rows):
        """Gradients of the losses, one below the other."""
        apart = self.above[i] - self.below[rows]
        return -2.0 * np.maximum(1.0 - apart @ w, 0.0)[:, None] * apart

    def value(self, i, w, s, rows):
        return s + np.maximum(self.losses(i, w, rows) - s, 0.0).mean() / self.theta1

    def slope(self, i, w, s, rows):
        """∂gᵢ/∂s."""
        return 1.0 - (self.losses(i, w, rows) > s).mean() / self.theta1

    def gradient(self, i, w, s, rows):
        """∂gᵢ/∂w."""
        hit = self.losses(i, w, rows) > s
        return (hit[:, None] * self.gradients(i, w, rows)).mean(axis=0) / self.theta1

    def prox(self, w, step):
        return w / (1.0 + step * self.l2)
