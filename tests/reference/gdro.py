"""GDRO-EXP3P and GDRO-TINF as naive as can be."""

import numpy as np
import scipy.optimize

from tests.reference.capped import kl_capped


def exp3p(bias, exploration, cap):
    """Weights q to draw by and the bandit's memory, after group i had this loss."""

    def learn(memory, q, i, loss, dual_step):
        gains = (loss * np.eye(q.size)[i] + bias) / q
        memory = kl_capped(memory * np.exp(dual_step * gains), cap)
        return (1.0 - exploration) * memory + exploration / q.size, memory

    return learn


def tinf(top):
    def learn(memory, q, i, loss, dual_step):
        x = 1.0 / np.sqrt(q) + dual_step * np.eye(q.size)[i] * (top - min(max(loss, 0.0), top)) / q
        shift = scipy.optimize.brentq(lambda s: np.sum((x + s) ** -2.0) - 1.0, 1.0 - x.min(), 1e-9, xtol=1e-15)
        return (x + shift) ** -2.0, memory

    return learn


def gdro(p, learn, steps, rng, *, step, dual_step):
    """Iterates x_1, …, x_T and weights q_1, …, q_T."""
    x, q, memory, xs, qs = p.x0, np.full(p.n, 1.0 / p.n), np.full(p.n, 1.0 / p.n), [], []
    for _ in range(steps):
        i = int(np.searchsorted(np.cumsum(q), rng.random(), side="right"))
        rows = p.draw(i, rng)
        q, memory = learn(memory, q, i, p.value(i, x, rows)[0], dual_step)
        x = p.prox(x - step * p.jacobian(i, x, rows)[0], step)
        xs.append(x)
        qs.append(q)
    return np.array(xs), np.array(qs)
