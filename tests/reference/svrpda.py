"""SVRPDA-I and SVRPDA-II as naive as can be."""

import numpy as np


def svrpda(p, steps, rng, *, step, dual_step, epoch, keeps_jacobians, random_restart=False):
    """Iterates x_1, …, x_T; with ``keeps_jacobians`` those of SVRPDA-I."""
    x, y, xs, history, place = p.x0, np.tile(p.first_dual(), (p.n, 1)), [], [], 0
    for t in range(steps):
        if t % epoch == 0:
            x, y = history[place] if history and random_restart else (x, y)
            snap, history = x, []
            means = np.array([p.value(i, snap, p.everything(i)) for i in range(p.n)])
            jacobians = np.array([p.jacobian(i, snap, p.everything(i)) for i in range(p.n)])
            U = np.mean([jacobians[i].T @ y[i] for i in range(p.n)], axis=0)
            place = int(rng.random() * epoch) if random_restart else 0
        i = int(rng.random() * p.n)
        rows = p.draw(i, rng)
        value = p.value(i, x, rows) - p.value(i, snap, rows) + means[i]
        moved = p.dual_step(value, y[i], 1.0 / dual_step)
        change, y = moved - y[i], np.concatenate([y[:i], [moved], y[i + 1 :]])
        rows = None if keeps_jacobians else p.draw(i, rng)
        U = U + (jacobians[i] if keeps_jacobians else p.jacobian(i, snap, rows)).T @ change / p.n
        v = U
        if not p.affine:
            i = int(rng.random() * p.n)
            rows = p.draw(i, rng)
            v = U + (p.jacobian(i, x, rows) - p.jacobian(i, snap, rows)).T @ y[i]
        x = p.prox(x - step * v, step)
        history.append((x, y))
        xs.append(x)
    return np.array(xs)
