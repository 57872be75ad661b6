"""SSD and nSSD as naive as can be."""

import numpy as np

from tests.reference.problems import everyone


def ssd(p, steps, rng, *, step, track, track_point, theta, blocks):
    """Iterates x_1, …, x_T; ``step(t)`` and ``track(t)`` are s_t and γ_t."""
    x, x_old, point, order, u, xs = p.x0, p.x0, p.x0, np.arange(p.n), {}, []
    for t in range(steps):
        ahead, gradients = x + theta * (x - x_old), []
        point = (1 - track_point) * point + track_point * ahead
        for i, chosen in everyone(order, blocks, rng):
            rows = p.draw(i, rng)
            value = p.value(i, point, rows) + p.jacobian(i, point, rows) @ (ahead - point)
            u[i] = (1 - track(t)) * u.get(i, value) + track(t) * value
            if chosen:
                gradients.append(p.jacobian(i, point, p.draw(i, rng)).T @ p.slope(u[i]))
        x, x_old = p.prox(x - step(t) * np.mean(gradients, axis=0), step(t)), x
        xs.append(x)
    return np.array(xs)


def nssd(p, steps, rng, *, step, dual_step, theta, blocks):
    """Iterates x_1, …, x_T; the duals start at 0."""
    x, x_old, order, y, xs = p.x0, p.x0, np.arange(p.n), {}, []
    for _ in range(steps):
        gradients = []
        for i, chosen in everyone(order, blocks, rng):
            rows = p.draw(i, rng)
            value = p.value(i, x, rows) + p.jacobian(i, x, rows) @ (theta * (x - x_old))
            y[i] = p.dual_step(value, y.get(i, np.zeros(p.m)), 1 / dual_step)
            if chosen:
                gradients.append(p.jacobian(i, x, p.draw(i, rng)).T @ y[i])
        x, x_old = p.prox(x - step * np.mean(gradients, axis=0), step), x
        xs.append(x)
    return np.array(xs)
