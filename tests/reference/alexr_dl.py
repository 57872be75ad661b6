"""ALEXR-DL as naive as can be: one run of the twin of ALEXR after another, the duals kept."""

import numpy as np

from tests.reference.alexr import alexr


def alexr_dl(p, stages, rng, *, strength, length, step, dual_step, theta, blocks, momentum=1.0, outer_step=1.0):
    """x_1, …, x_K; z is the mean of a stage's iterates with weights (t+1)(t+2)(t+3); the duals start at 0."""
    center, y, v, xs = p.x0, {i: np.zeros(p.m) for i in range(p.n)}, None, []
    weights = np.array([(t + 1) * (t + 2) * (t + 3) for t in range(length)])

    def dual_step_of(i, g, tau):
        y[i] = p.dual_step(g, y[i], tau)
        return y[i]

    def prox(v, s):
        """argmin of r(x) + (ρ̄/2)‖x − center‖² + ‖x − v‖²/(2s)."""
        return p.prox((v + s * strength * center) / (1 + s * strength), s / (1 + s * strength))

    oracle = {"draw": p.draw, "value": p.value, "jacobian": p.jacobian, "dual_step_of": dual_step_of, "prox": prox}
    for _ in range(stages):
        inner, _ = alexr(
            center, p.n, length, step=step, dual_step=dual_step, theta=theta, blocks=blocks, rng=rng, **oracle
        )
        way = center - weights @ inner / weights.sum()
        v = (1.0 - momentum) * v + momentum * way if xs else way
        center = center - outer_step * v
        xs.append(center)
    return np.array(xs)
