"""SGD on the pool of rows, and with an equal weight for every group, as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sgd(p, steps, rng, *, step, batch):
    """Iterates x_1, …, x_T."""
    x, xs, total = p.x0, [], p.offsets[-1]
    for _ in range(steps):
        rows = np.array([[int(rng.random() * total) for _ in range(batch)]])
        x = p.prox(x - step * p.jacobian(0, x, rows)[0], step)
        xs.append(x)
    return np.array(xs)


def upweighted_sgd(p, steps, rng, *, step, blocks):
    """Iterates x_1, …, x_T."""
    x, xs, order = p.x0, [], np.arange(p.n)
    for _ in range(steps):
        x = p.prox(
            x - step * np.mean([p.jacobian(i, x, p.draw(i, rng))[0] for i in sampled(order, blocks, rng)], axis=0), step
        )
        xs.append(x)
    return np.array(xs)


def pair_sgd(X, above, below, x, steps, rng, *, step, batch, l2):
    """Iterates of SGD on the mean logistic loss of all pairs (i above j)."""
    xs = []
    for _ in range(steps):
        chosen = [(above[int(rng.random() * len(above))], below[int(rng.random() * len(below))]) for _ in range(batch)]
        D = np.array([X[i] - X[j] for i, j in chosen])
        x = (x + step * (1.0 / (1.0 + np.exp(D @ x))) @ D / batch) / (1.0 + step * l2)
        xs.append(x)
    return np.array(xs)


def oversampled_cross_entropy(X, y, x, steps, rng, *, step, half, l2):
    """Iterates of SGD on the logistic loss with ``half`` rows of either class per batch."""
    xs, order, classes = [], np.arange(2), [np.flatnonzero(y < 0), np.flatnonzero(y > 0)]
    for _ in range(steps):
        rows = []
        for side in sampled(order, 2, rng):
            rows += [classes[side][int(rng.random() * len(classes[side]))] for _ in range(half)]
        Z = y[rows, None] * X[rows]
        x = (x + step * (1.0 / (1.0 + np.exp(Z @ x))) @ Z / (2 * half)) / (1.0 + step * l2)
        xs.append(x)
    return np.array(xs)
