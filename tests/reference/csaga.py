"""C-SAGA as naive as can be, with tables of values and Jacobians as in the paper."""

import numpy as np


def csaga(p, steps, rng, *, step, batch):
    """Iterates x_1, …, x_T."""
    x, xs = p.x0, []
    values = np.array([[p.sample_value(i, j, x) for i in range(p.n)] for j in range(p.N)])
    jacobians = np.array([[p.sample_gradient(i, j, x) for i in range(p.n)] for j in range(p.N)])
    for _ in range(steps):
        chosen = [int(rng.random() * p.N) for _ in range(batch)]
        new_values = {j: np.array([p.sample_value(i, j, x) for i in range(p.n)]) for j in chosen}
        new_jacobians = {j: np.array([p.sample_gradient(i, j, x) for i in range(p.n)]) for j in chosen}
        u = values.mean(axis=0) + np.mean([new_values[j] - values[j] for j in chosen], axis=0)
        Z = jacobians.mean(axis=0) + np.mean([new_jacobians[j] - jacobians[j] for j in chosen], axis=0)
        for j in chosen:
            values[j], jacobians[j] = new_values[j], new_jacobians[j]
        x = p.prox(x - step * Z.T @ p.slope(u) / p.n, step)
        xs.append(x)
    return np.array(xs)
