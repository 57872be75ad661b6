"""FastDRO, its multilevel form and Dual SGM as naive as can be."""

import numpy as np


def fastdro(p, steps, rng, *, step, inertia, worst):
    """Iterates w_1, …, w_T; ``worst(v, masses)`` are the worst-case weights of a batch."""
    w, V, found = p.w0, 0.0, []
    for _ in range(steps):
        rows = p.draw(rng)
        masses = p.counts(rows) / p.counts(rows).sum()
        g = p.gradient(w, rows, worst(p.losses(w, rows), masses))
        V = inertia * V + g
        w = p.prox(w - step * (g + inertia * V), step / (1.0 - inertia))
        found.append(w)
    return found


def fastdro_mlmc(p, steps, rng, *, step, levels, worst):
    """Iterates w_1, …, w_T, and the rows drawn."""
    w, found, drawn = p.w0, [], 0
    chances = [0.5 ** (j + 1) for j in range(levels)] + [0.5**levels]
    for _ in range(steps):
        uniform = rng.random()
        level = next(j for j in range(levels + 1) if uniform >= 1.0 - sum(chances[: j + 1]) - 1e-12)
        m = p.batch * 2**level
        rows, drawn = p.draw(rng, m), drawn + m

        def slope(part, w=w):
            return p.gradient(w, part, worst(p.losses(w, part), np.full(part.size, 1.0 / part.size)))

        change = slope(rows) - 0.5 * slope(rows[: m // 2]) - 0.5 * slope(rows[m // 2 :])
        w = p.prox(w - step * (slope(rows[: p.batch // 2]) + change / chances[level]), step)
        found.append(w)
    return found, drawn


def dual_sgm(p, steps, rng, *, step, threshold_step, temperature_step, slopes, first, low=1.0, lift=None):
    """Iterates (w, η, λ)_1, …, _T; ``slopes(v, η, λ)`` are the weights of the gradients and g_η, g_λ."""
    w, (eta, lam), found = p.w0, first, []
    for _ in range(steps):
        rows = p.draw(rng)
        v = p.losses(w, rows)
        eta = lift(v, eta, lam) if lift else eta
        weights, g_eta, g_lam = slopes(v, eta, lam)
        w = p.prox(w - step * p.gradient(w, rows, weights), step)
        eta, lam = eta - threshold_step * g_eta, max(lam - temperature_step * g_lam, low)
        found.append(np.append(w, [eta, lam]))
    return found


def momentum_sgd(p, steps, rng, *, step, inertia):
    """Iterates w_1, …, w_T."""
    w, v, found = p.w0, 0.0, []
    for _ in range(steps):
        rows = p.draw(rng)
        v = inertia * v + p.gradient(w, rows, np.full(rows.size, 1.0 / rows.size))
        w = p.prox(w - step * v, step / (1.0 - inertia))
        found.append(w)
    return found
