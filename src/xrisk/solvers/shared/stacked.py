"""What methods share that take g = (g₁, …, gₙ) as one stacked map and look at all n blocks in every iteration."""

from typing import Any

from numba.extending import register_jitable

from xrisk.inner.oracle import Oracles, batch_vjp, inner_count, inner_dim
from xrisk.problem import Problem


def stacked_oracles(problem: Problem, solver: Any, t: int) -> Oracles:
    """Values of all n blocks and gradients of S of them, B samples of each, t times."""
    samples = t * solver.batch * inner_dim(problem.inner)
    return Oracles(values=inner_count(problem.inner) * samples, gradients=solver.blocks * samples)


def linear_oracles(problem: Problem, solver: Any, t: int) -> Oracles:
    """As `stacked_oracles`, and a gradient of each of the m components of all n blocks for `add_jvp`."""
    n, m = inner_count(problem.inner), inner_dim(problem.inner)
    values, gradients = stacked_oracles(problem, solver, t)
    return Oracles(values=values, gradients=gradients + t * n * m * m * solver.batch)


@register_jitable
def add_jvp(g, i, w, batch, direction, room, out):
    """Add Jᵢ(w; batch)·direction to ``out`` (m): a gradient per component, ``room`` is (unit vector (m), (d))."""
    unit, grad = room
    for k in range(out.size):
        unit[k] = 1.0
        for j in range(grad.size):
            grad[j] = 0.0
        batch_vjp(g, i, w, batch, unit, 1.0, grad)
        unit[k] = 0.0
        for j in range(grad.size):
            out[k] += grad[j] * direction[j]
