"""SCGD as naive as can be."""

import numpy as np

from tests.reference.problems import everyone


def scgd(p, steps, rng, *, step, track, blocks):
    """Iterates x_1, …, x_T; ``step(t)`` and ``track(t)`` are α_t and β_t."""
    x, order, u, xs = p.x0, np.arange(p.n), {}, []
    for t in range(steps):
        gradients = []
        for i, chosen in everyone(order, blocks, rng):
            value = p.value(i, x, p.draw(i, rng))
            u[i] = (1 - track(t)) * u.get(i, value) + track(t) * value
            if chosen:
                gradients.append(p.jacobian(i, x, p.draw(i, rng)).T @ p.slope(u[i]))
        x = p.prox(x - step(t) * np.mean(gradients, axis=0), step(t))
        xs.append(x)
    return np.array(xs)
