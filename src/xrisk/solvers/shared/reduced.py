"""Values of inner functions with the noise of a sample taken out by a snapshot, and full passes that make one."""

import numpy as np
from numba.extending import register_jitable

from xrisk.functions import block_dual_step
from xrisk.inner.oracle import batch_values, exact_jacobians, exact_values, inner_count, inner_dim, inner_size
from xrisk.problem import Problem


@register_jitable(forceinline=True)  # called, it would count references to all arrays it is given
def reduced_value(g, i, w, w_hat, batch, means, value, value_hat):
    """Write gᵢ(w; 𝓑) − gᵢ(ŵ; 𝓑) + gᵢ(ŵ) into ``value`` (m); ``means`` (n, m) is g(ŵ), ``value_hat`` (m) is room."""
    batch_values(g, i, w, w_hat, batch, value, value_hat)
    for k in range(value.size):
        value[k] += means[i, k] - value_hat[k]


@register_jitable(forceinline=True)  # called, it would count references to all arrays it is given
def move_dual(f, value, y, tau, change):
    """Move a dual block y (m) by argmax ⟨y, value⟩ − f*(y) − (τ/2)‖y − y₀‖², and write how far into ``change`` (m)."""
    for k in range(y.size):
        change[k] = -y[k]
    block_dual_step(f, value, y, tau, y)
    for k in range(y.size):
        change[k] += y[k]


@register_jitable(forceinline=True)  # called, it would count references to all arrays it is given
def add_jacobian(jacobian, y, scale, grad):
    """Add scale·Jᵀy to ``grad`` (d), J of shape (m, d)."""
    for k in range(y.size):
        part = scale * y[k]
        if part != 0.0:
            for j in range(grad.size):
                grad[j] += part * jacobian[k, j]


def values_at(problem: Problem, w: np.ndarray) -> np.ndarray:
    """g(w), (n, m), by a full pass."""
    means = np.empty((inner_count(problem.inner), inner_dim(problem.inner)))
    exact_values(problem.inner, w, means)
    return means


def jacobians_at(problem: Problem, w: np.ndarray) -> np.ndarray:
    """Jᵢ(w) of all i, (n, m, d), by a full pass."""
    g = problem.inner
    jacobians = np.zeros((inner_count(g), inner_dim(g), inner_size(g)))
    exact_jacobians(g, w, jacobians)
    return jacobians


def mean_vjp(jacobians: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(1/n) Σ Jᵢᵀ yᵢ."""
    return np.tensordot(y, jacobians, axes=2) / y.shape[0]
