"""Shared by methods that take g = (g₁, …, gₙ) as one stacked map and sample all n blocks in every iteration."""

from numba.extending import register_jitable

from xrisk.inner.oracle import batch_vjp


@register_jitable
def add_jvp(g, i, w, batch, direction, workspace, out):
    """Add Jᵢ(w; batch)·direction to ``out`` (m): a gradient per component, ``workspace`` is (m) and (d)."""
    unit, grad = workspace
    for k in range(out.size):
        unit[k] = 1.0
        for j in range(grad.size):
            grad[j] = 0.0
        batch_vjp(g, i, w, batch, unit, 1.0, grad)
        unit[k] = 0.0
        for j in range(grad.size):
            out[k] += grad[j] * direction[j]
