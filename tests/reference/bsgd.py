"""BSGD as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def bsgd(p, steps, rng, *, step, blocks):
    """Iterates x_1, …, x_T."""
    x, order, xs = p.x0, np.arange(p.n), []
    for _ in range(steps):
        z = []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            z.append(p.jacobian(i, x, rows).T @ p.slope(p.value(i, x, rows)))
        x = p.prox(x - step * np.mean(z, axis=0), step)
        xs.append(x)
    return np.array(xs)
