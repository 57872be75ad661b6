"""SPDC as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def spdc(p, steps, rng, *, step, dual_step, theta, blocks):
    """Iterates x_1, …, x_T."""
    x, x_bar, y, order, xs = p.x0, p.x0, np.tile(p.first_dual(), (p.n, 1)), np.arange(p.n), []
    for _ in range(steps):
        old, U = y.copy(), np.mean([p.jacobian(i, x, p.everything(i)).T @ y[i] for i in range(p.n)], axis=0)
        for i in sampled(order, blocks, rng):
            y[i] = p.dual_step(p.value(i, x_bar, p.draw(i, rng)), y[i], 1.0 / dual_step)
        delta = sum(p.jacobian(i, x, p.everything(i)).T @ (y[i] - old[i]) for i in range(p.n))
        x_new = p.prox(x - step * (U + delta / blocks), step)
        x, x_bar = x_new, x_new + theta * (x_new - x)
        xs.append(x)
    return np.array(xs)
