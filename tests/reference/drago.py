"""Drago as naive as can be."""

import numpy as np


def drago(p, weights, steps, rng, *, step, track, theta, batch):
    """Iterates x_1, …, x_T and weights q_1, …, q_T; ``weights(z)`` are those of the risk at the values z."""
    groups = [p.everything(i) for i in range(p.n)]
    parts = [(i, r[:, a : a + batch]) for i, r in enumerate(groups) for a in range(0, r.size, batch)]
    count = len(parts)

    def loss(c, x):
        """What a part adds to the values of the groups."""
        i, rows = parts[c]
        return np.eye(p.n)[i] * rows.size / groups[i].size * p.value(i, x, rows)[0]

    def slope(c, x, q):
        """What it adds to the gradient."""
        i, rows = parts[c]
        return q[i] * rows.size / groups[i].size * p.jacobian(i, x, rows)[0]

    x, z, xs, qs = p.x0, np.zeros(p.n), [], []
    q = weights(z)
    losses, slopes = [loss(c, x) for c in range(count)], [slope(c, x, q) for c in range(count)]
    slopes_before = slopes.copy()
    for t in range(steps):
        i, j, k = int(rng.random() * count), int(rng.random() * count), t % count
        x = p.prox(x - step * (sum(slopes) + theta * count * (slope(i, x, q) - slopes_before[i])), step)
        losses_before, losses[k] = losses.copy(), loss(k, x)
        h = sum(losses) + theta * count * (loss(j, x) - losses_before[j])
        z = (1 - track) * z + track * h
        q = weights(z)
        slopes_before, slopes[k] = slopes.copy(), slope(k, x, q)
        xs.append(x)
        qs.append(q)
    return np.array(xs), np.array(qs)
