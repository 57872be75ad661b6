"""NASA as naive as can be."""

import numpy as np

from tests.reference.problems import everyone


def nasa(p, steps, rng, *, step, a, b, c, blocks):
    """Iterates x_1, …, x_T; ``step(t)`` is τ_t."""
    x, order, v, u, xs = p.x0, np.arange(p.n), None, {}, []
    for t in range(steps):
        gradients, tau = [], step(t - 1) if t > 0 else None
        for i, chosen in everyone(order, blocks, rng):
            rows = p.draw(i, rng)
            value = p.value(i, x, rows)
            old = u.get(i, value)
            if chosen:
                gradients.append(p.jacobian(i, x, rows).T @ p.slope(old))
            u[i] = value if t == 0 else (1 - c * tau) * old + c * tau * value
        z = np.mean(gradients, axis=0)
        v = z if t == 0 else (1 - a * tau) * v + a * tau * z
        x = x + step(t) * (p.prox(x - v / b, 1 / b) - x)
        xs.append(x)
    return np.array(xs)
