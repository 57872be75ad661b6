"""LSVRG as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def lsvrg(p, weights, steps, rng, *, step, epoch, blocks):
    """Iterates x_1, …, x_T; ``weights(u)`` are those of the risk at the blocks' values u."""
    x, order, xs = p.x0, np.arange(p.n), []
    for t in range(steps):
        if t % epoch == 0:
            x_hat = x
            q = weights(np.array([p.value(i, x, p.everything(i))[0] for i in range(p.n)]))
            full = sum(q[i] * p.jacobian(i, x, p.everything(i))[0] for i in range(p.n))
        changes = []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            changes.append(p.n * q[i] * (p.jacobian(i, x, rows)[0] - p.jacobian(i, x_hat, rows)[0]))
        x = p.prox(x - step * (np.mean(changes, axis=0) + full), step)
        xs.append(x)
    return np.array(xs)
