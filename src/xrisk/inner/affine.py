"""Batches of affine inner functions: a sample of gᵢ is affine too, so a batch is its mean row and its constant."""

from typing import NamedTuple

import numpy as np

from xrisk.data.rows import dense_dot, dense_dots
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    exact_jacobians,
    exact_values,
    exact_vjp,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_size,
    inner_smoothness,
    new_batch,
)
from xrisk.inner.passes import as_linear_groups


class AffineBatch(NamedTuple):
    """gᵢ(w; batch) = ⟨row, w⟩ + shift: the mean over ``size`` samples, taken once for all points."""

    size: int
    row: np.ndarray  # (d,)
    shift: np.ndarray  # (1,)


def affine_batches(cls: type) -> type:
    """Give a spec of affine gᵢ: Rᵈ → R all verbs but its count and size, `draw` and `as_linear_groups`; a decorator.

    ``draw`` writes the mean of ``batch.size`` samples into ``batch.row`` and ``batch.shift``.
    """
    for verb, implementation in IMPLEMENTED:
        verb.of(cls)(implementation)
    return cls


def _one(g):
    return 1


def _true(g):
    return True


def _new_batch(g, size):
    return AffineBatch(size, np.zeros(inner_size(g)), np.zeros(1))


def _batch_value(g, i, w, batch, out):
    out[0] = dense_dot(batch.row, w) + batch.shift[0]


def _batch_values(g, i, w, w_prev, batch, out, out_prev):
    z, z_prev = dense_dots(batch.row, w, w_prev)
    out[0], out_prev[0] = z + batch.shift[0], z_prev + batch.shift[0]


def _batch_vjp(g, i, w, batch, y, scale, grad):
    if y[0] != 0.0:
        for j in range(grad.size):
            grad[j] += scale * y[0] * batch.row[j]


def _exact_values(g, w, out):
    exact_values(as_linear_groups(g), w, out)


def _exact_vjp(g, w, y, grad):
    exact_vjp(as_linear_groups(g), w, y, grad)


def _exact_jacobians(g, w, out):
    exact_jacobians(as_linear_groups(g), w, out)


def _lipschitz(g):
    return inner_lipschitz(as_linear_groups(g))


def _smoothness(g):
    return 0.0


IMPLEMENTED = (
    (inner_dim, _one),
    (inner_is_affine, _true),
    (new_batch, _new_batch),
    (batch_value, _batch_value),
    (batch_values, _batch_values),
    (batch_vjp, _batch_vjp),
    (exact_values, _exact_values),
    (exact_vjp, _exact_vjp),
    (exact_jacobians, _exact_jacobians),
    (inner_lipschitz, _lipschitz),
    (inner_smoothness, _smoothness),
)
