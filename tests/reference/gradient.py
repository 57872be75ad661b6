"""Batch gradient as naive as can be."""

import numpy as np

from tests.reference.compositional_svrg import snapshot


def gradient(p, steps, *, step, accelerated):
    """Iterates x_1, …, x_T."""
    x, before, length, xs = p.x0, p.x0, 1.0, []
    for _ in range(steps):
        longer = (1 + np.sqrt(1 + 4 * length**2)) / 2
        at = x + (length - 1) / longer * (x - before) if accelerated else x
        x, before, length = p.prox(at - step * snapshot(p, at)[2], step), x, longer
        xs.append(x)
    return np.array(xs)
