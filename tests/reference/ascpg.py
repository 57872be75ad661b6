"""ASC-PG as naive as can be, in the order of the paper: x, then z, then u."""

import numpy as np

from tests.reference.problems import everyone


def ascpg(p, steps, rng, *, step, track, blocks):
    """Iterates x_1, …, x_T; ``step(t)`` and ``track(t)`` are α_t and β_t."""
    x, z, order, u, xs = p.x0, p.x0, np.arange(p.n), {}, []
    for t in range(steps):
        gradients = []
        for i, chosen in everyone(order, blocks, rng):
            value = p.value(i, z, p.draw(i, rng))
            beta = track(t - 1) if t > 0 else 1.0
            u[i] = (1 - beta) * u.get(i, 0.0) + beta * value
            if chosen:
                gradients.append(p.jacobian(i, x, p.draw(i, rng)).T @ p.slope(u[i]))
        x_next = p.prox(x - step(t) * np.mean(gradients, axis=0), step(t))
        z = (1 - 1 / track(t)) * x + (1 / track(t)) * x_next
        x = x_next
        xs.append(x)
    return np.array(xs)
