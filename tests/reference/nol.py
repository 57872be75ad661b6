"""NOL as naive as can be."""

import numpy as np


def nol(p, steps, rng, *, step, dual_step, scale):
    """Iterates x_1, …, x_T and weights q_1, …, q_T."""
    x, lost, q, xs, qs = p.x0, np.zeros(p.n), np.full(p.n, 1.0 / p.n), [], []
    for _ in range(steps):
        i = int(np.searchsorted(np.cumsum(q), rng.random(), side="right"))
        rows = p.draw(i, rng)
        loss = min(max(p.value(i, x, rows)[0] / scale, 0.0), 1.0)
        lost[i] += (1.0 - loss) / (q[i] + dual_step / 2.0)
        q = np.exp(-dual_step * (lost - lost.min()))
        q /= q.sum()
        x = p.prox(x - step * p.jacobian(i, x, rows)[0], step)
        xs.append(x)
        qs.append(q)
    return np.array(xs), np.array(qs)
