"""ALEXR, Algorithm 1, as naive as can be: plain NumPy on arrays, no kernels of ours.

``value(i, x, batch)`` and ``jacobian(i, x, batch)`` are those of gᵢ on the batch, ``draw(i)`` draws a batch,
``dual_step(i, g, tau)`` returns the new yᵢ, ``prox(x, s)`` the proximal point.
"""

import numpy as np


def alexr(
    x, n, T, *, step, dual_step, theta, blocks, draw, value, jacobian, dual_step_of, prox, rng, shared=False, again=True
):
    x, x_prev, order = x.copy(), x.copy(), np.arange(n)
    xs, ys = [], {}
    for _ in range(T):
        sampled, pairs = [], {}
        gradients = []
        for a in range(blocks):
            b = a + int(rng.random() * (n - a))
            order[[a, b]] = order[[b, a]]
            i = int(order[a])
            sampled.append(i)
            pairs[i] = pairs[sampled[0]] if shared and a > 0 else [draw(i, rng) for _ in range(1 + again)]
            first, second = pairs[i][0], pairs[i][-1]
            g = value(i, x, first) + theta * (value(i, x, first) - value(i, x_prev, first))
            ys[i] = dual_step_of(i, g, 1.0 / dual_step)
            gradients.append(jacobian(i, x, second).T @ np.atleast_1d(ys[i]))
        x, x_prev = prox(x - step * np.mean(gradients, axis=0), step), x
        xs.append(x)
    return np.array(xs), ys
