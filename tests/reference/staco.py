"""STACO1 and STACO2 as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def staco(p, steps, rng, *, step, dual_step, tail_step, threshold_step, blocks, adjoint=0.0, epoch=None, first=0.0):
    """Iterates (w, s, s′)_1, …, _T; with ``epoch``, in stages that begin at the means of the last one."""
    w, y, s, level, order, found = p.x0, np.ones(p.n), np.full(p.n, first), first, np.arange(p.n), []
    w_bar, s_bar = w, s
    for t in range(steps):
        if epoch and t > 0 and t % epoch == 0:
            w, s, level = (np.mean([x[k] for x in found[-epoch:]], axis=0) for k in range(3))
            y, w_bar, s_bar = np.ones(p.n), w, s
        chosen = list(sampled(order, blocks, rng))
        rows, again = p.draw(rng), p.draw(rng)
        y, s_new, grad = y.copy(), s.copy(), 0.0
        for i in chosen:
            y[i] = np.clip(y[i] + dual_step / p.theta0 * (p.value(i, w, s[i], rows) - level), 0.0, 1.0)
            s_new[i] -= tail_step * (y[i] / p.theta0 * p.slope(i, w, s[i], again) + adjoint * (s[i] - s_bar[i]))
            grad += y[i] * p.gradient(i, w, s[i], again) / (p.theta0 * blocks)
        w = p.prox(w - step * (grad + adjoint * (w - w_bar)), step)
        level = level - threshold_step * (1.0 - y[chosen].mean() / p.theta0)
        s = s_new
        found.append((w, s, level))
    return found
