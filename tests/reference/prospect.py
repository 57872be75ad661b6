"""Prospect as naive as can be: tables of whole gradients, summed anew in every iteration."""

import numpy as np

from tests.reference.problems import sampled


def prospect(p, weights, steps, rng, *, step, blocks):
    """Iterates x_1, …, x_T; ``weights(u)`` are those of the risk at the groups' values u."""
    sizes = np.diff(p.offsets)
    group = np.repeat(np.arange(p.n), sizes)

    def see(k, x):
        row = np.array([[k]])
        return p.value(group[k], x, row)[0], p.jacobian(group[k], x, row)[0]

    def group_means(table):
        return np.add.reduceat(table, p.offsets[:-1]) / sizes

    x, order, xs = p.x0, np.arange(p.n), []
    losses, grads = (np.array(column) for column in zip(*(see(k, x) for k in range(group.size)), strict=True))
    rho = weights(group_means(losses))[group]
    for _ in range(steps):
        q = weights(group_means(losses))
        drawn = [k for i in sampled(order, blocks, rng) for k in p.draw(i, rng)[0]]
        full = np.sum((rho / sizes[group])[:, None] * grads, axis=0)
        now = [(k, *see(k, x)) for k in drawn]
        v = full + np.mean([p.n * (q[group[k]] * grad - rho[k] * grads[k]) for k, _, grad in now], axis=0)
        for k, loss, grad in now:
            losses[k], grads[k], rho[k] = loss, grad, q[group[k]]
        x = p.prox(x - step * v, step)
        xs.append(x)
    return np.array(xs)
