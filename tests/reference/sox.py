"""SOX as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sox(p, steps, rng, *, step, track, momentum, blocks, again, old):
    """Iterates x_1, …, x_T; ``again``: the Jacobian has a batch of its own; ``old``: slopes before the update."""
    x, order, v, u, xs = p.x0, np.arange(p.n), None, {}, []
    for _ in range(steps):
        z = []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            rows_grad = p.draw(i, rng) if again else rows
            value = p.value(i, x, rows)
            before = u.get(i, value)
            u[i] = (1 - track) * before + track * value
            z.append(p.jacobian(i, x, rows_grad).T @ p.slope(before if old else u[i]))
        z = np.mean(z, axis=0)
        v = z if v is None else (1 - momentum) * v + momentum * z
        x = p.prox(x - step * v, step)
        xs.append(x)
    return np.array(xs)
