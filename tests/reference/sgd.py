"""SGD on the pool of rows, and with an equal weight for every group, as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sgd(p, steps, rng, *, step, batch):
    """Iterates x_1, …, x_T."""
    x, xs, total = p.x0, [], p.offsets[-1]
    for _ in range(steps):
        rows = np.array([[int(rng.random() * total) for _ in range(batch)]])
        x = p.prox(x - step * p.jacobian(0, x, rows)[0], step)
        xs.append(x)
    return np.array(xs)


def upweighted_sgd(p, steps, rng, *, step, blocks):
    """Iterates x_1, …, x_T."""
    x, xs, order = p.x0, [], np.arange(p.n)
    for _ in range(steps):
        x = p.prox(
            x - step * np.mean([p.jacobian(i, x, p.draw(i, rng))[0] for i in sampled(order, blocks, rng)], axis=0), step
        )
        xs.append(x)
    return np.array(xs)
