"""SPD, PG-SMD2 and AccMDA as naive as can be: a weight for every row."""

import numpy as np

from tests.reference.single_rows import kl_worst, onto_simplex


def mirror_step(q, gains, kappa, radius, price, least):
    """argmax ⟨q, κ·gains + log q₀⟩ − (1 + κ price) KL(q) over the ball, none below least/n."""
    uniform = np.full(q.size, 1.0 / q.size)
    new = kl_worst(kappa * gains + np.log(q), uniform, radius, 1.0 + kappa * price)
    return raised(new, least)


def raised(q, least):
    """No weight below least/n."""
    q = np.maximum(q, least / q.size)
    return q / q.sum()


def spd(p, steps, rng, *, step, dual_step, least, radius, price):
    """Iterates (w, weights)_1, …, _T."""
    w, q, found = p.w0, np.full(p.n, 1.0 / p.n), []
    for _ in range(steps):
        rows = np.array([np.searchsorted(np.cumsum(q), rng.random(), side="right") for _ in range(p.batch)])
        gains = np.zeros(p.n)
        np.add.at(gains, rows, p.losses(w, rows) / (q[rows] * p.batch))
        w = p.prox(w - step * p.gradient(w, rows, np.full(p.batch, 1.0 / p.batch)), step)
        q = mirror_step(q, gains, dual_step / p.n, radius, price, least)
        found.append(np.append(w, q))
    return found


def pgsmd2(p, steps, rng, *, step, dual_step, strength, first, least, radius, price):
    """Iterates (w, weights)_1, …, _T."""
    w, found, stage, left = p.w0, [], 0, 0
    uniform, everyone = np.full(p.n, 1.0 / p.n), np.arange(p.n)
    for _ in range(steps):
        if left == 0:
            w = np.mean([x[: w.size] for x in found[-first * stage :]], axis=0) if stage else w
            q = raised(kl_worst(p.losses(w, everyone), uniform, radius, price), least)
            anchor, stage = w, stage + 1
            left = first * stage
        rows, s, gains, left = p.draw(rng), step / stage, np.zeros(p.n), left - 1
        np.add.at(gains, rows, p.n * p.losses(w, rows) / p.batch)
        g = p.gradient(w, rows, p.n * q[rows] / p.batch)
        w = p.prox((w / s + strength * anchor - g) / (1.0 / s + strength), 1.0 / (1.0 / s + strength))
        q = mirror_step(q, gains, dual_step / (p.n * stage), radius, price, least)
        found.append(np.append(w, q))
    return found


def accmda(p, steps, rng, *, step, dual_step, k, m, decay, least, price):
    """Iterates (w, weights)_1, …, _T, without a ball."""
    w, q, v, y, found = p.w0, np.full(p.n, 1.0 / p.n), np.zeros(p.w0.size), np.zeros(p.n), []

    def slopes(w, q, rows):
        gains = -price * (np.log(p.n * q) + 1.0)
        np.add.at(gains, rows, p.n * p.losses(w, rows) / p.batch)
        return p.gradient(w, rows, p.n * q[rows] / p.batch), gains

    for t in range(steps):
        a = k / (m + t) ** (1 / 3)
        before = w, q
        w = (1.0 - a) * w + a * p.prox(w - step * v, step)
        q = (1.0 - a) * q + a * (onto_simplex(q + dual_step / p.n * y - least / p.n, 1.0 - least) + least / p.n)
        rows = p.draw(rng)
        new, old = slopes(w, q, rows), slopes(*before, rows)
        v, y = (g + (1.0 - decay * a**2) * (x - o) for g, x, o in zip(new, (v, y), old, strict=True))
        found.append(np.append(w, q))
    return found
