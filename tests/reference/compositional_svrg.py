"""Compositional-SVRG-1, -2 and ASCVRG as naive as can be."""

import numpy as np


def snapshot(p, x):
    """Inner values, Jacobians and gradient of f(g) at x, on all samples."""
    means = np.array([p.value(i, x, p.everything(i)) for i in range(p.n)])
    jacobians = np.array([p.jacobian(i, x, p.everything(i)) for i in range(p.n)])
    return means, jacobians, np.mean([jacobians[i].T @ p.slope(means[i]) for i in range(p.n)], axis=0)


def reduced_slope(p, i, x, snap, means, rng):
    """∇f at the reduced value of gᵢ."""
    rows = p.draw(i, rng)
    return p.slope(p.value(i, x, rows) - p.value(i, snap, rows) + means[i])


def second_form(p, x, snap, means, jacobians, full, rng):
    """The direction of Compositional-SVRG-2."""
    i = int(rng.random() * p.n)
    y = reduced_slope(p, i, x, snap, means, rng)
    J = jacobians[i]
    if not p.affine:
        rows = p.draw(i, rng)
        J = J + p.jacobian(i, x, rows) - p.jacobian(i, snap, rows)
    return J.T @ y - jacobians[i].T @ p.slope(means[i]) + full


def csvrg1(p, steps, rng, *, step, epoch):
    """Iterates x_1, …, x_T."""
    x, xs = p.x0, []
    for t in range(steps):
        if t % epoch == 0:
            snap, (means, _, full) = x, snapshot(p, x)
        i = int(rng.random() * p.n)
        y = reduced_slope(p, i, x, snap, means, rng)
        row = p.one(i, rng)
        v = p.jacobian(i, x, row).T @ y - p.jacobian(i, snap, row).T @ p.slope(means[i]) + full
        x = p.prox(x - step * v, step)
        xs.append(x)
    return np.array(xs)


def csvrg2(p, steps, rng, *, step, epoch):
    """Iterates x_1, …, x_T, A = B."""
    x, xs = p.x0, []
    for t in range(steps):
        if t % epoch == 0:
            snap, (means, jacobians, full) = x, snapshot(p, x)
        x = p.prox(x - step * second_form(p, x, snap, means, jacobians, full, rng), step)
        xs.append(x)
    return np.array(xs)


def ascvrg(p, steps, rng, *, step, passes):
    """Iterates x_1, …, x_T, A = B, epochs of 5, 8, 11, 17, … iterations."""
    x, xs, ends, length = p.x0, [], [0], 5.0
    while ends[-1] < steps:
        ends.append(ends[-1] + round(length))
        length *= 1.5
    for t in range(steps):
        if t in ends:
            began = ends[max(ends.index(t) - 1, 0)]
            snap = np.mean(xs[began:t], axis=0) if t else x
            means, jacobians, full = snapshot(p, snap)
        T = passes * p.n
        s = step * np.sqrt(T / (2 * T - min(t, T)))
        x = p.prox(x - s * second_form(p, x, snap, means, jacobians, full, rng), s)
        xs.append(x)
    return np.array(xs)
