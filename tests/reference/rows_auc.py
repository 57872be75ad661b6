"""PAUCI, AUCM and cross-entropy as naive as can be: gradients by differences of complex numbers, no formula twice."""

import numpy as np

from tests.reference.problems import sampled


def gradient(function, x):
    """The gradient of an analytic function, by an imaginary step."""
    steps = 1e-30j * np.eye(x.size)
    return np.array([function(x + h).imag / 1e-30 for h in steps])


def logistic(z):
    return 1.0 / (1.0 + np.exp(-z))


def pauci_value(z, gamma, above, below, theta, kappa, omega):
    """The min-max objective without penalty at z = (w, c, a, b, s, s₂, θ_a, θ_b)."""
    c, a, b, s, s2, ta, tb = z[-7:]
    f, h = logistic(above @ z[:-7] + c), logistic(below @ z[:-7] + c)
    high, low = (f - a) ** 2 - 2.0 * (1.0 + gamma) * f - s, (h - b) ** 2 + 2.0 * (1.0 + gamma) * h - s2
    tails = (np.log(1.0 + np.exp(kappa * x)).mean() / (kappa * t) for x, t in zip((high, low), theta, strict=True))
    return s + s2 + sum(tails) - (1.0 + omega) * gamma**2 - tb * (b - 1.0 - gamma) + ta * (a + gamma)


def pauci(p, steps, rng, *, step, dual_step, scale, delay, decay, dual_decay, kappa, omega, blocks):
    """Iterates (x, γ)_1, …, _T."""
    low, high = [-np.inf, 0, 0, -4, 0, 0, 0], [np.inf, 1, 1, 1, 5, 1e9, 1e9]
    z = np.append(p.x0, [0, 0.5, 0.5, 0.5, 0.5, 0, 0, 1.0])  # γ stands last
    z_prev, v, order, found = z, None, np.arange(p.n), []
    for t in range(steps):
        above, below = p.above[list(sampled(order, blocks, rng))], p.below[p.draw(rng)]

        def value(z, above=above, below=below):
            return pauci_value(z[:-1], z[-1], above, below, (p.theta0, p.theta1), kappa, omega)

        keep = 1.0 - np.append(np.full(z.size - 1, decay), dual_decay) * scale**2 / (delay + t - 1) ** (2 / 3)
        v = gradient(value, z) + (0.0 if v is None else keep * (v - gradient(value, z_prev)))
        moved = z - step * v
        moved = np.concatenate([p.prox(moved[:-8], step), np.clip(moved[-8:-1], low, high), moved[-1:]])
        moved[-1] = np.clip(z[-1] + dual_step * v[-1], -1.0, 1.0)
        z, z_prev = z + scale / (delay + t) ** (1 / 3) * (moved - z), z
        found.append(z)
    return np.array(found)


def aucm(p, steps, rng, *, step, margin, strength, momentum, epoch, blocks):
    """Iterates (w, a, b, α)_1, …, _T."""
    x, alpha, v, order, found = np.append(p.x0, [0.0, 0.0]), 0.0, None, np.arange(p.n), []
    x_bar = x
    for t in range(steps):
        if t > 0 and t % epoch == 0:
            x_bar = np.mean([z[:-1] for z in found[-epoch:]], axis=0)
        above, below = p.above[list(sampled(order, blocks, rng))], p.below[p.draw(rng)]

        def value(x, alpha=alpha, above=above, below=below):
            h, b = above @ x[:-2], below @ x[:-2]
            return ((h - x[-2]) ** 2).mean() + ((b - x[-1]) ** 2).mean() + 2 * alpha * (b.mean() - h.mean())

        grad = gradient(value, x) + strength * (x - x_bar)
        v = grad if v is None else (1 - momentum) * v + momentum * grad
        gap = margin + (below @ x[:-2]).mean() - (above @ x[:-2]).mean()
        x, alpha = x - step * v, max(alpha + step * (2.0 * gap - 2.0 * alpha), 0.0)
        x[:-2] = p.prox(x[:-2], step)
        found.append(np.append(x, alpha))
    return np.array(found)


def cross_entropy(p, steps, rng, *, step, weight, blocks):
    """Iterates (w, c)_1, …, _T; ``weight`` is that of the positives."""
    x, order, found = np.append(p.x0, 0.0), np.arange(p.n), []
    for _ in range(steps):
        above, below = p.above[list(sampled(order, blocks, rng))], p.below[p.draw(rng)]

        def value(x, above=above, below=below):
            high, low = np.log(1 + np.exp(-above @ x[:-1] - x[-1])), np.log(1 + np.exp(below @ x[:-1] + x[-1]))
            return weight * high.mean() + (1 - weight) * low.mean()

        x = x - step * gradient(value, x)
        x[:-1] = p.prox(x[:-1], step)
        found.append(x)
    return np.array(found)
