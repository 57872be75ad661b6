"""OOA as naive as can be."""

import numpy as np

from tests.reference.capped import kl_capped
from tests.reference.problems import sampled


def ooa(p, steps, rng, *, step, dual_step, blocks, cap):
    """Iterates x_1, …, x_T and weights q_1, …, q_T."""
    x, q, order, xs, qs = p.x0, np.full(p.n, 1.0 / p.n), np.arange(p.n), [], []
    for _ in range(steps):
        h, rows = np.zeros(p.n), {}
        for i in sampled(order, blocks, rng):
            rows[i] = p.draw(i, rng)
            h[i] = p.n / blocks * p.value(i, x, rows[i])[0]
        q = kl_capped(q * np.exp(dual_step * h), cap)
        x = p.prox(x - step * p.n / blocks * sum(q[i] * p.jacobian(i, x, rows[i])[0] for i in rows), step)
        xs.append(x)
        qs.append(q)
    return np.array(xs), np.array(qs)
