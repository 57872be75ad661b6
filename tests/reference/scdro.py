"""SCDRO, ASCDRO, RECOVER and SCENT as naive as can be: exponentials as they stand."""

import numpy as np


def scdro(p, steps, rng, *, step, temperature_step, track, radius, low, first, strength=0.0):
    """Iterates (w, λ)_1, …, _T of Algorithm 1, s as it stands, λ kept above ``low``."""
    w, lam, found, limit = p.w0, first, [], -np.log(p.masses[p.masses > 0.0].min())
    for t in range(steps):
        beta, rows = track if t else 1.0, p.draw(rng)
        v, a = p.losses(w, rows), p.counts(rows)
        g = np.mean(a * np.exp(v / lam))
        s = (1.0 - beta) * s + beta * g if t else g  # noqa: F821
        P = a * np.exp(v / lam) / s
        grad = p.gradient(w, rows, P / rows.size) + strength * w
        slope = np.log(s) + radius - np.mean(P * v) / lam + strength * lam
        V = (1.0 - beta) * V + beta * grad if t else grad  # noqa: F821
        U = (1.0 - beta) * U + beta * slope if t else slope  # noqa: F821
        adjoint = np.clip(U - strength * lam, radius - limit, radius) + strength * lam
        w, lam = p.prox(w - step * V, step), max(lam - temperature_step * adjoint, low)
        found.append(np.append(w, lam))
    return found


def ascdro(p, steps, rng, *, step, temperature_step, track, radius, low, first, strength=0.0):
    """Iterates (w, λ)_1, …, _T of Algorithm 2 with our guards, and how often s had to be kept positive."""
    w, lam, w_prev, lam_prev, found, guarded, steepest = p.w0, first, p.w0, first, [], 0, 0.0
    s, V, U = 0.0, 0.0, 0.0

    def batch_means(w, lam, rows):
        v = p.losses(w, rows)
        e = p.counts(rows) * np.exp(v / lam) / rows.size
        return e.sum(), p.gradient(w, rows, e) / lam, -np.sum(e * v) / lam**2

    for t in range(steps):
        beta, rows = track if t else 1.0, p.draw(rng)
        now, old = batch_means(w, lam, rows), batch_means(w_prev, lam_prev, rows)
        s, V, U = (new + (1.0 - beta) * (kept - was) for new, kept, was in zip(now, (s, V, U), old, strict=True))
        guarded, s = guarded + (s < beta * now[0]), max(s, beta * now[0])
        steepest = max(steepest, np.linalg.norm(lam * now[1] / now[0]))
        z = lam * V / s
        z = z * min(1.0, steepest / np.linalg.norm(z)) + strength * w
        adjoint = np.clip(lam * U / s + np.log(s) + radius, radius - np.log(p.n), radius) + strength * lam
        w_prev, lam_prev = w, lam
        w, lam = p.prox(w - step * z, step), max(lam - temperature_step * adjoint, low)
        found.append(np.append(w, lam))
    return found, guarded


def recover(p, steps, rng, *, step, track, lam):
    """Iterates w_1, …, w_T: ASCDRO where λ stays."""
    still = {"temperature_step": 0.0, "radius": 0.0, "low": lam, "first": lam}
    return [x[:-1] for x in ascdro(p, steps, rng, step=step, track=track, **still)[0]]


def scent(p, steps, rng, *, step, dual_step, lam):
    """Iterates w_1, …, w_T; u = e^ν."""
    w, found = p.w0, []
    for t in range(steps):
        rows = p.draw(rng)
        v, a = p.losses(w, rows), p.counts(rows)
        mean = np.mean(a * np.exp(v / lam))
        u = u * (1.0 + dual_step * mean) / (1.0 + dual_step * u) if t else mean  # noqa: F821
        w = p.prox(w - step * p.gradient(w, rows, a * np.exp(v / lam) / (u * rows.size)), step)
        found.append(w)
    return found
