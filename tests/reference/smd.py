"""SMD as naive as can be."""

import numpy as np

from tests.reference.capped import kl_capped


def smd(p, steps, rng, *, step, dual_step, cap, single):
    """Iterates x_1, …, x_T and weights q_1, …, q_T; ``single``: the gradient of one group that is drawn by q."""
    x, q, xs, qs = p.x0, np.full(p.n, 1.0 / p.n), [], []
    for _ in range(steps):
        share = np.eye(p.n)[np.searchsorted(np.cumsum(q), rng.random(), side="right")] if single else q
        rows = [p.draw(i, rng) for i in range(p.n)]
        h = np.array([p.value(i, x, rows[i])[0] for i in range(p.n)])
        x = p.prox(x - step * sum(share[i] * p.jacobian(i, x, rows[i])[0] for i in range(p.n)), step)
        q = kl_capped(q * np.exp(dual_step * h), cap)
        xs.append(x)
        qs.append(q)
    return np.array(xs), np.array(qs)
