"""SONX and SONEX for two-way partial AUC as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def tail_sonx(p, steps, rng, *, step, tail_step, threshold_step, track, correction, blocks, nu=None, momentum=1.0):
    """Iterates (w, s, s′)_1, …, _T; with ``nu`` those of SONEX, which draws a second batch."""
    w, w_prev, s, s_prev, level, u = p.x0, p.x0, np.zeros(p.n), np.zeros(p.n), 0.0, {}
    order, v, found = np.arange(p.n), None, []
    for _ in range(steps):
        chosen = list(sampled(order, blocks, rng))
        rows = p.draw(rng)
        again = rows if nu is None else p.draw(rng)
        d, s_new, grad = np.zeros(p.n), s.copy(), 0.0
        for i in chosen:
            value, value_prev = p.value(i, w, s[i], rows), p.value(i, w_prev, s_prev[i], rows)
            if i not in u:
                u[i], value_prev = value, value
            if nu is None:
                d[i] = (u[i] > level) / p.theta0
            u[i] = (1 - track) * u[i] + track * value + correction * (value - value_prev)
            if nu is not None:
                d[i] = np.clip((u[i] - level) / nu, 0.0, 1.0 / p.theta0)
            s_new[i] -= tail_step * d[i] * p.slope(i, w, s[i], again)
            grad += d[i] * p.gradient(i, w, s[i], again) / blocks
        v = grad if v is None else (1 - momentum) * v + momentum * grad
        w, w_prev = p.prox(w - step * v, step), w
        level -= threshold_step * (1.0 - d[chosen].mean())
        s, s_prev = s_new, s
        found.append((w, s, level))
    return found
