"""Snapshots x̃ that take the noise of a sample out of inner values, and Jacobians there: kept for all blocks or sampled.

A method with a snapshot keeps one of two specs in its state. `KeptJacobians` needs n·m·d numbers and gives J̄ᵢ = Jᵢ(x̃)
itself; `SampledJacobians` needs none and gives Jᵢ(x̃; 𝓑) of a new batch 𝓑.
"""
# mypy: disable-error-code="empty-body"

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.functions import block_dual_step
from xrisk.generic import generic
from xrisk.inner.oracle import (
    batch_values,
    batch_vjp,
    draw,
    exact_jacobians,
    exact_values,
    exact_vjp,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_size,
)
from xrisk.problem import Problem


class KeptJacobians(NamedTuple):
    """Jᵢ(x̃) of all blocks, computed by a full pass."""

    at: np.ndarray  # (n, m, d)


class SampledJacobians(NamedTuple):
    """Jᵢ(x̃; 𝓑) of a new batch 𝓑, whenever it is needed."""


@generic
def mean_vjp_at(jacobians: Any, problem: Problem, w: np.ndarray, y: np.ndarray) -> tuple[Any, np.ndarray]:
    """The Jacobians of a snapshot at w, and (1/n) Σ Jᵢ(w)ᵀ yᵢ, by a full pass."""


@generic
def add_vjp(jacobians, g, i, w_hat, batch, y, scale, rng, out):
    """Add scale·Jᵢ(x̃)ᵀy to ``out`` (d); what is sampled is read into ``batch``."""


@generic
def add_reduced_vjp(jacobians, g, i, w, w_hat, batch, y, y_hat, rng, out):
    """Add Jᵢ(w)ᵀy − Jᵢ(x̃)ᵀŷ to ``out`` (d), both on one batch 𝓑 that is read into ``batch``.

    Kept Jacobians take the noise out of the first term: (Jᵢ(w; 𝓑) − Jᵢ(x̃; 𝓑) + J̄ᵢ)ᵀy − J̄ᵢᵀŷ.
    """


@mean_vjp_at.of(KeptJacobians)
def _(jacobians, problem, w, y):
    at = jacobians_at(problem, w)
    return KeptJacobians(at), np.tensordot(y, at, axes=2) / y.shape[0]


@mean_vjp_at.of(SampledJacobians)
def _(jacobians, problem, w, y):
    mean = np.zeros(w.size)
    exact_vjp(problem.inner, w, y / y.shape[0], mean)
    return jacobians, mean


@add_vjp.of(KeptJacobians)
def _(jacobians, g, i, w_hat, batch, y, scale, rng, out):
    add_jacobian(jacobians.at[i], y, scale, out)


@add_vjp.of(SampledJacobians)
def _(jacobians, g, i, w_hat, batch, y, scale, rng, out):
    draw(g, i, rng, batch)
    batch_vjp(g, i, w_hat, batch, y, scale, out)


@add_reduced_vjp.of(KeptJacobians)
def _(jacobians, g, i, w, w_hat, batch, y, y_hat, rng, out):
    if not inner_is_affine(g):  # else the two terms cancel
        draw(g, i, rng, batch)
        batch_vjp(g, i, w, batch, y, 1.0, out)
        batch_vjp(g, i, w_hat, batch, y, -1.0, out)
    add_jacobian(jacobians.at[i], y, 1.0, out)
    add_jacobian(jacobians.at[i], y_hat, -1.0, out)


@add_reduced_vjp.of(SampledJacobians)
def _(jacobians, g, i, w, w_hat, batch, y, y_hat, rng, out):
    draw(g, i, rng, batch)
    batch_vjp(g, i, w, batch, y, 1.0, out)
    batch_vjp(g, i, w_hat, batch, y_hat, -1.0, out)


@register_jitable(forceinline=True)  # a call would count references to all of its arrays
def reduced_value(g, i, w, w_hat, batch, means, value, value_hat):
    """Write gᵢ(w; 𝓑) − gᵢ(ŵ; 𝓑) + gᵢ(ŵ) into ``value`` (m); ``means`` (n, m) is g(ŵ), ``value_hat`` (m) workspace."""
    batch_values(g, i, w, w_hat, batch, value, value_hat)
    for k in range(value.size):
        value[k] += means[i, k] - value_hat[k]


@register_jitable(forceinline=True)  # a call would count references to all of its arrays
def move_dual(f, value, y, tau, change):
    """Move a dual block y (m) by argmax ⟨y, value⟩ − f*(y) − (τ/2)‖y − y₀‖², and write how far into ``change`` (m)."""
    for k in range(y.size):
        change[k] = -y[k]
    block_dual_step(f, value, y, tau, y)
    for k in range(y.size):
        change[k] += y[k]


@register_jitable(forceinline=True)  # a call would count references to all of its arrays
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
    jacobians = no_jacobians(problem).at
    exact_jacobians(problem.inner, w, jacobians)
    return jacobians


def no_jacobians(problem: Problem) -> KeptJacobians:
    """Memory for the Jacobians of all blocks, before the first full pass."""
    g = problem.inner
    return KeptJacobians(np.zeros((inner_count(g), inner_dim(g), inner_size(g))))
