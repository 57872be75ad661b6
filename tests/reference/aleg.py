"""ALEG as naive as can be."""

import numpy as np

from tests.reference.capped import kl_capped


def aleg(p, steps, rng, *, step, dual_step, epoch, anchor, cap):
    """Iterates x_1, …, x_T and weights q_1, …, q_T, and the middle points x′ and q′ of every iteration."""
    groups, x, q, middle = range(p.n), p.x0, np.full(p.n, 1.0 / p.n), []
    xs, qs = [x], [q]
    for t in range(steps):
        if t % epoch == 0:
            last = epoch if t > 0 else 1
            x_hat, q_hat, logq_bar = (np.mean(z[-last:], axis=0) for z in (xs, qs, np.log(qs)))
            u = np.array([p.value(i, x_hat, p.everything(i))[0] for i in groups])
            full = sum(q_hat[i] * p.jacobian(i, x_hat, p.everything(i))[0] for i in groups)
        x, q = (1 - anchor) * x + anchor * x_hat, np.exp((1 - anchor) * np.log(q) + anchor * logq_bar)
        x_mid, q_mid = p.prox(x - step * full, step), kl_capped(q * np.exp(dual_step * u), cap)
        rows = [p.draw(i, rng) for i in groups]
        change = sum(
            q_mid[i] * p.jacobian(i, x_mid, rows[i])[0] - q_hat[i] * p.jacobian(i, x_hat, rows[i])[0] for i in groups
        )
        h = u + [p.value(i, x_mid, rows[i])[0] - p.value(i, x_hat, rows[i])[0] for i in groups]
        x, q = p.prox(x - step * (full + change), step), kl_capped(q * np.exp(dual_step * h), cap)
        xs.append(x)
        qs.append(q)
        middle.append((x_mid, q_mid))
    return np.array(xs[1:]), np.array(qs[1:]), middle
