"""What the bounds need of every row: its loss and the loss's conjugate, each with room for rounding."""

import numpy as np

from xrisk.certificate.rounding import EPS
from xrisk.compile import kernel
from xrisk.functions import (
    loss_conjugate,
    loss_domain,
    loss_kink,
    loss_slope,
    loss_value,
    scores_conjugate,
    scores_slope,
    scores_value,
)
from xrisk.generic import generic
from xrisk.inner.groups import row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel
from xrisk.inner.rows import add_row, row_dot, row_norm, row_size

CHUNK = 256  # rows summed before their sum is added: the rounding of n terms is that of CHUNK + n/CHUNK


@generic
def dual_width(model):
    """Number of dual variables of a row."""


@generic
def sample_bounds(model, k, w, off):
    """The loss on row k, and a bound on it over all scores within ``off``."""


@generic
def sample_slope(model, k, w, width, v):
    """Write the slope of the loss on row k, smoothed over ``width`` where it has a kink, into ``v``."""


@generic
def make_feasible(model, k, v):
    """Move v into the domain of ℓ* on row k."""


@generic
def sample_conjugate(model, k, v):
    """ℓ*(v) on row k, and the size of its terms."""


@generic
def add_sample_dual(model, k, scale, v, combined):
    """Add scale·v⊗x_k to ``combined``."""


@generic
def sample_dual_dot(model, k, v, direction):
    """⟨v⊗x_k, direction⟩."""


@dual_width.of(LinearModel)
def _(model):
    return 1


@sample_bounds.of(LinearModel)
def _(model, k, w, off):
    z, y = row_dot(model.rows, k, w), model.target[k]
    above = max(loss_value(model.loss, z - off, y), loss_value(model.loss, z + off, y))  # ℓ is convex
    return loss_value(model.loss, z, y), above


@sample_slope.of(LinearModel)
def _(model, k, w, width, v):
    v[0] = smoothed_slope(model.loss, row_dot(model.rows, k, w), model.target[k], width)


@make_feasible.of(LinearModel)
def _(model, k, v):
    low, high = loss_domain(model.loss, model.target[k])
    v[0] = min(max(v[0], low), high)


@sample_conjugate.of(LinearModel)
def _(model, k, v):
    value = loss_conjugate(model.loss, v[0], model.target[k])
    return value, abs(value) + 2.0 * abs(v[0] * model.target[k])


@add_sample_dual.of(LinearModel)
def _(model, k, scale, v, combined):
    add_row(model.rows, k, scale * v[0], combined)


@sample_dual_dot.of(LinearModel)
def _(model, k, v, direction):
    return v[0] * row_dot(model.rows, k, direction)


@dual_width.of(SoftmaxModel)
def _(model):
    return model.n_classes


@sample_bounds.of(SoftmaxModel)
def _(model, k, w, off):
    d = row_size(model.rows)
    z, v = np.empty(model.n_classes), np.empty(model.n_classes)
    for c in range(z.size):
        z[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])
    scores_slope(model.loss, z, model.target[k], v)
    value = scores_value(model.loss, z, model.target[k])
    # Σ|v| = 2 (1 − p_k) grows at most by the factor exp(2 off), and is at most 2
    return value, value + 2.0 * off * min(np.abs(v).sum() * np.exp(min(2.0 * off, 1.0)), 2.0)


@sample_slope.of(SoftmaxModel)
def _(model, k, w, width, v):
    d = row_size(model.rows)
    z = np.empty(model.n_classes)
    for c in range(z.size):
        z[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])
    scores_slope(model.loss, z, model.target[k], v)


@make_feasible.of(SoftmaxModel)
def _(model, k, v):
    # v = p − e_k: of the other classes p ≥ 0 with a sum below 1, of class k minus that sum
    own, total = model.target[k], 0.0
    for c in range(v.size):
        v[c] = max(v[c], 0.0) if c != own else 0.0
        total += v[c]
    most = 1.0 - 2.0 * EPS * v.size
    if total > most:
        for c in range(v.size):
            v[c] *= most / total
        total = most
    v[own] = -total


@sample_conjugate.of(SoftmaxModel)
def _(model, k, v):
    # p_k = 1 + v_k is known to EPS, its logarithm is at most 36
    return scores_conjugate(model.loss, v, model.target[k]), v.size + 8.0


@add_sample_dual.of(SoftmaxModel)
def _(model, k, scale, v, combined):
    d = row_size(model.rows)
    for c in range(v.size):
        add_row(model.rows, k, scale * v[c], combined[c * d : (c + 1) * d])


@sample_dual_dot.of(SoftmaxModel)
def _(model, k, v, direction):
    d = row_size(model.rows)
    total = 0.0
    for c in range(v.size):
        total += v[c] * row_dot(model.rows, k, direction[c * d : (c + 1) * d])
    return total


@generic
def smoothed_slope(loss, z, y, width):
    """Slope of the loss, of its Moreau envelope if it is piecewise linear and ``width`` is positive."""


@smoothed_slope.otherwise
def _(loss, z, y, width):
    return loss_slope(loss, z, y)


def _envelope_slope(loss, z, y, width):
    low, high, at = loss_kink(loss, y)
    if width == 0.0:
        return loss_slope(loss, z, y)
    return min(max((z - at) / width, low), high)


for _kinked in loss_kink.table:
    smoothed_slope.of(_kinked)(_envelope_slope)


@kernel
def slopes_at(g, w, width, v):
    for p in range(v.shape[0]):
        sample_slope(g.model, row_at(g.index, p), w, width, v[p])


@kernel
def feasible_slopes(g, v):
    for p in range(v.shape[0]):
        make_feasible(g.model, row_at(g.index, p), v[p])


@kernel
def kink_distance(g, w):
    """Mean distance of the scores from the kinks of their losses."""
    total = 0.0
    for p in range(g.offsets[-1]):
        k = row_at(g.index, p)
        total += abs(row_dot(g.model.rows, k, w) - loss_kink(g.model.loss, g.model.target[k])[2])
    return total / g.offsets[-1]


@kernel
def means_with_error(g, w, reach, u, error):
    """Group means, and by how much they may be off: by rounding, and were w moved by ``reach``."""
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        total, lost, off, size = 0.0, 0.0, 0.0, 0.0
        for p in range(low, high):
            k, a = row_at(g.index, p), weight_at(g.weight, p)
            value, above = sample_bounds(g.model, k, w, reach * row_norm(g.model.rows, k))
            off += a * (above - value)
            size += a * (abs(value) + abs(above))
            term = a * value - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
        u[i // g.dim, i % g.dim] = total / (high - low)
        error[i // g.dim, i % g.dim] = (off * (1.0 + EPS * (high - low)) + 16.0 * EPS * size) / (high - low)


@kernel
def conjugate_means(g, v, mean, size, spread):
    """Group means of ℓ*(v), of the sizes of its terms, and of ‖v⊗x‖: what rounding is measured by."""
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        total, lost, terms, length = 0.0, 0.0, 0.0, 0.0
        for p in range(low, high):
            k, a = row_at(g.index, p), weight_at(g.weight, p)
            value, around = sample_conjugate(g.model, k, v[p])
            terms += a * around
            length += a * np.abs(v[p]).sum() * row_norm(g.model.rows, k)
            term = a * value - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
        mean[i // g.dim, i % g.dim] = total / (high - low)
        size[i // g.dim, i % g.dim] = terms / (high - low)
        spread[i // g.dim, i % g.dim] = length / (high - low)


@kernel
def combine(g, q, v, combined):
    """Add Σᵢ qᵢ mean v⊗x to ``combined``."""
    part = np.zeros_like(combined)
    held = 0
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        share = q[i // g.dim, i % g.dim] / (high - low)
        if share == 0.0:
            continue
        for p in range(low, high):
            add_sample_dual(g.model, row_at(g.index, p), share * weight_at(g.weight, p), v[p], part)
            held += 1
            if held == CHUNK:
                combined += part
                part[:] = 0.0
                held = 0
    combined += part


@kernel
def pulls(g, q, v, direction, out):
    """The parts of ⟨Σᵢ qᵢ mean v⊗x, direction⟩, one for each position."""
    for i in range(g.offsets.size - 1):
        low, high = g.offsets[i], g.offsets[i + 1]
        share = q[i // g.dim, i % g.dim] / (high - low)
        for p in range(low, high):
            out[p] = share * weight_at(g.weight, p) * sample_dual_dot(g.model, row_at(g.index, p), v[p], direction)
