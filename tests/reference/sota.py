"""SOTA and SOTA-s as naive as can be."""

import numpy as np

from tests.reference.problems import sampled


def sota(p, steps, rng, *, step, dual_step, tail_step, threshold_step, strength, epoch, blocks, every):
    """Iterates (w, s, s′)_1, …, _T; ``every`` says whether all thresholds are pulled to their anchors."""
    w, s, level, y, order, found = p.x0, np.zeros(p.n), 0.0, np.ones(p.n), np.arange(p.n), []
    w_bar, s_bar, level_bar, eta2 = w, s, level, p.n * tail_step
    for t in range(steps):
        if t > 0 and t % epoch == 0:
            w, s, level, y = (np.mean([x[k] for x in found[-epoch:]], axis=0) for k in range(4))
            w_bar, s_bar, level_bar = w, s, level
        chosen, rows = list(sampled(order, blocks, rng)), p.draw(rng)
        Gw, Gs, y_new = 0.0, np.zeros(p.n), y.copy()
        for i in chosen:
            Gw += y[i] * p.gradient(i, w, s[i], rows) / (p.theta0 * blocks)
            Gs[i] = y[i] / (p.n * p.theta0) * p.slope(i, w, s[i], rows)
            y_new[i] = np.clip(y[i] + dual_step / p.theta0 * (p.value(i, w, s[i], rows) - level), 0.0, 1.0)
        slope = 1.0 - y[chosen].mean() / p.theta0
        moved = np.arange(p.n) if every else chosen
        s_new = s.copy()
        s_new[moved] = ((s / eta2 + strength * s_bar - Gs) / (1.0 / eta2 + strength))[moved]
        total = 1.0 / step + strength
        w = p.prox((w / step + strength * w_bar - Gw) / total, 1.0 / total)
        level = (level / threshold_step + strength * level_bar - slope) / (1.0 / threshold_step + strength)
        s, y = s_new, y_new
        found.append((w, s, level, y))
    return found


def sota_s(p, steps, rng, *, step, lam, outer_lam, track, outer_track, momentum, blocks):
    """Iterates w_1, …, w_T, without logarithms."""
    w, order, u, v, m, ws = p.x0, np.arange(p.n), {}, None, None, []
    for _ in range(steps):
        chosen, rows, grad = list(sampled(order, blocks, rng)), p.draw(rng), 0.0
        for i in chosen:
            value = np.exp(p.losses(i, w, rows) / lam).mean()
            u[i] = (1 - track) * u[i] + track * value if i in u else value
        value = np.mean([u[i] ** (lam / outer_lam) for i in chosen])
        v = value if v is None else (1 - outer_track) * v + outer_track * value
        for i in chosen:
            weights = np.exp(p.losses(i, w, rows) / lam) * u[i] ** (lam / outer_lam - 1.0) / v
            grad += weights @ p.gradients(i, w, rows) / (len(rows) * blocks)
        m = grad if m is None else (1 - momentum) * m + momentum * grad
        w = p.prox(w - step * m, step)
        ws.append(w)
    return np.array(ws)
