"""MSVR v3 as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def msvr_snapshot(p, steps, rng, *, step, track, momentum, correction, epoch, blocks):
    """Iterates x_1, …, x_T."""
    x, x_prev, order, v, xs = p.x0, p.x0, np.arange(p.n), None, []
    start = {i: p.value(i, x, p.everything(i)) for i in range(p.n)}
    history = [start, start]  # u after iterations t − 2 and t − 1
    for t in range(steps):
        before, u = history[-2], history[-1].copy()
        if t % epoch == 0:
            x_hat, y_hat = x, {i: p.slope(u[i]) for i in u}
            means = {i: p.value(i, x, p.everything(i)) for i in u}
            full = np.mean([p.jacobian(i, x, p.everything(i)).T @ y_hat[i] for i in u], axis=0)
        z, z_prev, z_hat = [], [], []
        for i in sampled(order, blocks, rng):
            rows = p.draw(i, rng)
            value, value_prev = p.value(i, x, rows), p.value(i, x_prev, rows)
            z.append(p.jacobian(i, x, rows).T @ p.slope(u[i]))
            z_prev.append(p.jacobian(i, x_prev, rows).T @ p.slope(before[i]))
            z_hat.append(p.jacobian(i, x_hat, rows).T @ y_hat[i])
            reduced = value - p.value(i, x_hat, rows) + means[i]
            u[i] = (1 - track) * u[i] + track * reduced + correction * (value - value_prev)
        history.append(u)
        z, z_prev, z_hat = np.mean(z, axis=0), np.mean(z_prev, axis=0), np.mean(z_hat, axis=0)
        reduced = z - z_hat + full
        v = reduced if v is None else (1 - momentum) * (v + z - z_prev) + momentum * reduced
        x, x_prev = p.prox(x - step * v, step), x
        xs.append(x)
    return np.array(xs)
