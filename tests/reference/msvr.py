"""MSVR v1 and v2 as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def msvr(p, steps, rng, *, step, track, momentum, correction, blocks, corrected, unit=False):
    """Iterates x_1, …, x_T; ``corrected``: v2, else v1; ``unit``: v is scaled to length one."""
    x, x_prev, order, v, xs = p.x0, p.x0, np.arange(p.n), None, []
    history = [{}, {}]  # u after iterations t − 2 and t − 1
    for _ in range(steps):
        before, u = history[-2], history[-1].copy()
        z, z_prev = [], []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            value, value_prev = p.value(i, x, rows), p.value(i, x_prev, rows)
            if i not in u:
                u[i], value_prev = value, value
            z.append(p.jacobian(i, x, rows).T @ p.slope(u[i]))
            z_prev.append(p.jacobian(i, x_prev, rows).T @ p.slope(before.get(i, u[i])))
            u[i] = (1 - track) * u[i] + track * value + correction * (value - value_prev)
        history.append(u)
        z, z_prev = np.mean(z, axis=0), np.mean(z_prev, axis=0)
        if v is None:
            v = z
        elif corrected:
            v = (1 - momentum) * v + z - (1 - momentum) * z_prev
        else:
            v = (1 - momentum) * v + momentum * z
        s = step / np.linalg.norm(v) if unit else step
        x, x_prev = p.prox(x - s * v, s), x
        xs.append(x)
    return np.array(xs)
