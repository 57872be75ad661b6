"""SONEX as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sonex(p, steps, rng, *, step, track, momentum, nu, correction, blocks):
    """Iterates x_1, …, x_T."""
    x, x_prev, order, v, u, xs = p.x0, p.x0, np.arange(p.n), None, {}, []
    for _ in range(steps):
        z = []
        for i in sampled(order, blocks, rng):
            rows, rows_grad = p.draw(i, rng), p.draw(i, rng)
            value, value_prev = p.value(i, x, rows), p.value(i, x_prev, rows)
            if i not in u:
                u[i], value_prev = value, value
            u[i] = (1 - track) * u[i] + track * value + correction * (value - value_prev)
            z.append(p.jacobian(i, x, rows_grad).T @ p.dual_step(u[i], np.zeros(p.m), nu))
        z = np.mean(z, axis=0)
        v = z if v is None else (1 - momentum) * v + momentum * z
        x, x_prev = p.prox(x - step * v, step), x
        xs.append(x)
    return np.array(xs)
