"""SAPD as naive as can be."""

import numpy as np

from tests.reference.problems import everyone


def sapd(p, steps, rng, *, step, dual_step, theta, blocks):
    """Iterates x_1, …, x_T, and the last duals by block; the duals start at 0."""
    x, order, y, old, xs = p.x0, np.arange(p.n), {}, {}, []
    for _ in range(steps):
        gradients = []
        for i, chosen in everyone(order, blocks, rng):
            value = p.value(i, x, p.draw(i, rng))
            difference = value - old.get(i, value)
            old[i] = value
            y[i] = p.dual_step(value + theta * difference, y.get(i, np.zeros(p.m)), 1 / dual_step)
            if chosen:
                gradients.append(p.jacobian(i, x, p.draw(i, rng)).T @ y[i])
        x = p.prox(x - step * np.mean(gradients, axis=0), step)
        xs.append(x)
    return np.array(xs), y
