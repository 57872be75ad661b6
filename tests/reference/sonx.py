"""SONX as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sonx(p, steps, rng, *, step, track, correction, blocks):
    """Iterates x_1, …, x_T."""
    x, x_prev, order, u, xs = p.x0, p.x0, np.arange(p.n), {}, []
    for _ in range(steps):
        z = []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            value, value_prev = p.value(i, x, rows), p.value(i, x_prev, rows)
            if i not in u:
                u[i], value_prev = value, value
            z.append(p.jacobian(i, x, rows).T @ p.slope(u[i]))
            u[i] = (1 - track) * u[i] + track * value + correction * (value - value_prev)
        x, x_prev = p.prox(x - step * np.mean(z, axis=0), step), x
        xs.append(x)
    return np.array(xs)
