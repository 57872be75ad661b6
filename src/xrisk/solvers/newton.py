"""Values, gradients and Hessians of all inner functions at once, in passes over the rows that never copy them whole."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.compile import kernel, specialise
from xrisk.functions import Multinomial, loss_domain, scores_slope, scores_value
from xrisk.generic import generic
from xrisk.inner.groups import Groups, row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel, model_rows
from xrisk.inner.noisy import NoisyCoordinates
from xrisk.inner.oracle import inner_size
from xrisk.inner.rows import CSR, WithIntercept, add_row, row_size
from xrisk.solvers.algebra import row_gram, row_pull, row_scores, row_squares, square_norms
from xrisk.solvers.smoothing import Bent, bend_loss, smooth_loss

ROUGHNESS = 10.0  # a random row costs about ten times what its operations would in a matrix product


class Layout(NamedTuple):
    """Which rows make which group: kernels that do not look at the model are compiled once for all models."""

    offsets: np.ndarray
    index: Any
    weight: Any


class Terms(NamedTuple):
    """The inner functions at one point; groups are counted one after another, n·m of them."""

    u: np.ndarray  # (n·m,) smoothed values
    true: np.ndarray  # (n·m,) values
    lower: np.ndarray  # (n·m,) what the slopes v prove of the values
    along: np.ndarray  # (n·m,) derivatives of u in the direction last tried
    v: np.ndarray  # (positions, scores) slopes of the losses
    h: np.ndarray  # (positions,) curvatures of the losses


@generic
def scores_of(inner, w):
    """The linear scores at w, all that the inner functions know of it: (rows, scores)."""


@generic
def empty_terms(inner):
    """Room for the terms."""


@generic
def fill_terms(inner, z, dz, mu, terms):
    """Write the terms at scores z, smoothed by ``mu``, and their derivatives along dz."""


@generic
def add_pull(inner, terms, q, grad):
    """Add Σ qᵢ ∇gᵢ to ``grad`` (d), q of shape (n·m,)."""


@generic
def jacobian(inner, terms):
    """∇gᵢ as rows: (n·m, d)."""


@generic
def add_bend(inner, terms, q, lengths, spare, H):
    """Add Σ qᵢ ∇²gᵢ to H (d, d), but for rows that together change it by less than ``spare`` in norm.

    ``lengths`` (rows,) are the squared norms of the rows.
    """


@generic
def add_squares(inner, terms, c, H):
    """Add Σ cᵢ ∇gᵢ ∇gᵢᵀ to H (d, d), c ≥ 0 of shape (n·m,)."""


@add_squares.otherwise
def squares_by_jacobian(inner, terms, c, H):
    """The sum through ∇gᵢ as a matrix."""
    J = jacobian(inner, terms)
    J *= np.sqrt(c)[:, None]
    H += J.T @ J


@generic
def row_lengths(inner):
    """Squared norms (rows,) of the rows."""


@generic
def moved_slopes(inner, here, last, dz, share):
    """Slopes of the losses after a step from ``here`` to ``last``: to first order where the loss was smoothed.

    ``share`` (n·m,) multiplies the moves of each group.
    """


@generic
def step_work(inner):
    """Floating-point operations of a Newton step but for its factorisation, by the time they take."""


@generic
def smoothed_inner(inner):
    """The inner functions with losses of lines and parabolas wrapped for smoothing."""


@generic
def column_sizes(inner):
    """Root mean square (d) of what multiplies each coordinate."""


@generic
def score_size(inner):
    """The size that scores are expected to have."""


def position_scores(inner: Groups, w: np.ndarray) -> np.ndarray:
    """The score, or scores, of every position of the groups at w: (positions, scores)."""
    z = scores_of(inner, np.ascontiguousarray(w, dtype=np.float64))
    listed = getattr(inner.index, "rows", None)
    return z if listed is None else z[listed]


@generic
def score_count(model):
    """Number of scores of a row."""


@score_count.of(LinearModel)
def _(model):
    return 1


@score_count.of(SoftmaxModel)
def _(model):
    return model.n_classes


@generic
def sample_terms(loss, z, target, mu, v):
    """(value, curvature, true value, lower bound) of the loss at the scores z of a row; its slopes go into ``v``."""


@sample_terms.otherwise
def _(loss, z, target, mu, v):
    value, slope, curvature, true, lower = smooth_loss(loss, z[0], target, mu)
    v[0] = slope
    return value, curvature, true, lower


@sample_terms.of(Multinomial)
def _(loss, z, target, mu, v):
    value = scores_value(loss, z, target)
    scores_slope(loss, z, target, v)
    return value, 0.0, value, value


@generic
def add_model_bend(model, g, terms, q, lengths, spare, H):
    """Add Σ q ∇²ℓ over positions to H, but for rows that do not matter."""


@add_model_bend.of(LinearModel)
def _(model, g, terms, q, lengths, spare, H):
    if terms.h.any():
        h = np.zeros((model_rows(model), 1))
        gather_rows(_layout(g), q, terms.h[:, None], h)
        if spare > 0.0:
            h[h[:, 0] * lengths <= min(spare, 0.01 * h.sum()) / lengths.size] = 0.0
        H += row_gram(model.rows, h[:, 0])


@add_model_bend.of(SoftmaxModel)
def _(model, g, terms, q, lengths, spare, H):
    d, weights = row_size(model.rows), np.empty(model_rows(model))
    for a in range(model.n_classes):
        for b in range(a + 1):
            weights[:] = 0.0
            gather_pair(_layout(g), model.target, q, terms.v, a, b, weights)
            block = row_gram(model.rows, weights)
            H[a * d : (a + 1) * d, b * d : (b + 1) * d] += block
            if a != b:
                H[b * d : (b + 1) * d, a * d : (a + 1) * d] += block


def _layout(g: Groups) -> Layout:
    return Layout(g.offsets, g.index, g.weight)


@scores_of.of(Groups)
def _(g, w):
    return row_scores(g.model.rows, w.reshape(score_count(g.model), -1))


@empty_terms.of(Groups)
def _(g):
    groups, positions = g.offsets.size - 1, int(g.offsets[-1])
    return Terms(*np.zeros((4, groups)), np.zeros((positions, score_count(g.model))), np.zeros(positions))


@fill_terms.of(Groups)
def _(g, z, dz, mu, terms):
    loss = g.model.loss
    specialise(group_terms, loss)(loss, g.model.target, _layout(g), z, dz, mu, terms)


@add_pull.of(Groups)
def _(g, terms, q, grad):
    S = np.zeros((model_rows(g.model), terms.v.shape[1]))
    gather_rows(_layout(g), q, terms.v, S)
    grad += row_pull(g.model.rows, S).reshape(-1)


@jacobian.of(Groups)
def _(g, terms):
    J = np.zeros((g.offsets.size - 1, inner_size(g)))
    group_gradients(g.model.rows, _layout(g), terms.v, row_size(g.model.rows), J)
    return J


@add_squares.of(Groups)
def _(g, terms, c, H):
    groups, positions = g.offsets.size - 1, int(g.offsets[-1])
    if groups < positions or score_count(g.model) > 1:
        squares_by_jacobian(g, terms, c, H)
        return
    h = np.zeros((model_rows(g.model), 1))  # every group is a row: the rows are not copied
    square_rows(_layout(g), c, terms.v, h)
    H += row_gram(g.model.rows, h[:, 0])


@add_bend.of(Groups)
def _(g, terms, q, lengths, spare, H):
    add_model_bend(g.model, g, terms, q, lengths, spare, H)


@row_lengths.of(Groups)
def _(g):
    return square_norms(g.model.rows)


@moved_slopes.of(Groups)
def _(g, here, last, dz, share):
    v = here.v.copy() if isinstance(g.model.loss, Bent) else last.v
    if isinstance(g.model.loss, Bent):
        loss = g.model.loss.loss
        specialise(move_within, loss)(loss, g.model.target, _layout(g), here.h, dz, share, v)
    return v[:, 0] if v.shape[1] == 1 else v


@step_work.of(Groups)
def _(g):
    rows = g.model.rows.rows if isinstance(g.model.rows, WithIntercept) else g.model.rows
    if isinstance(rows, CSR):
        squares = float((np.diff(rows.indptr).astype(np.float64) ** 2).sum()) * ROUGHNESS
    else:
        squares = float(rows.X.shape[0]) * rows.X.shape[1] ** 2
    return 2.0 * squares * score_count(g.model) ** 2


@smoothed_inner.of(Groups)
def _(g):
    if not isinstance(g.model, LinearModel):
        return g
    return g._replace(model=g.model._replace(loss=bend_loss(g.model.loss)))


@column_sizes.of(Groups)
def _(g):
    return np.sqrt(np.tile(row_squares(g.model.rows), score_count(g.model)))


@score_size.of(Groups)
def _(g):
    if isinstance(g.model, SoftmaxModel):
        return 1.0
    return float(np.abs(g.model.target).mean()) or 1.0


@score_size.of(NoisyCoordinates)
def _(g):
    return 1.0


@scores_of.of(NoisyCoordinates)
def _(g, w):
    return w[:, None].copy()


@empty_terms.of(NoisyCoordinates)
def _(g):
    return Terms(*np.zeros((4, g.n)), np.ones((g.n, 1)), np.zeros(g.n))


@fill_terms.of(NoisyCoordinates)
def _(g, z, dz, mu, terms):
    for values in (terms.u, terms.true, terms.lower):
        values[:] = z[:, 0]
    terms.along[:] = dz[:, 0]


@add_pull.of(NoisyCoordinates)
def _(g, terms, q, grad):
    grad += q


@jacobian.of(NoisyCoordinates)
def _(g, terms):
    return np.eye(g.n)


@add_bend.of(NoisyCoordinates)
def _(g, terms, q, lengths, spare, H):
    pass


@row_lengths.of(NoisyCoordinates)
def _(g):
    return np.ones(g.n)


@moved_slopes.of(NoisyCoordinates)
def _(g, here, last, dz, share):
    return last.v[:, 0]


@smoothed_inner.of(NoisyCoordinates)
def _(g):
    return g


@column_sizes.of(NoisyCoordinates)
def _(g):
    return np.ones(g.n)


@kernel
def group_terms(loss, target, layout, z, dz, mu, terms):
    offsets, index, weight = layout
    u, true, lower, along, v, h = terms
    for i in range(offsets.size - 1):
        low, high = offsets[i], offsets[i + 1]
        totals = (0.0, 0.0, 0.0, 0.0)
        for p in range(low, high):
            k, a = row_at(index, p), weight_at(weight, p)
            value, h[p], exact, proven = sample_terms(loss, z[k], target[k], mu, v[p])
            slope = 0.0
            for c in range(v.shape[1]):
                slope += v[p, c] * dz[k, c]
            totals = (totals[0] + a * value, totals[1] + a * exact, totals[2] + a * proven, totals[3] + a * slope)
        size = high - low
        u[i], true[i], lower[i], along[i] = totals[0] / size, totals[1] / size, totals[2] / size, totals[3] / size


@kernel
def move_within(loss, target, layout, h, dz, share, v):
    for i in range(share.size):
        for p in range(layout.offsets[i], layout.offsets[i + 1]):
            k = row_at(layout.index, p)
            low, high = loss_domain(loss, target[k])
            v[p, 0] = min(max(v[p, 0] + share[i] * h[p] * dz[k, 0], low), high)


@kernel
def gather_rows(layout, q, values, out):
    """Sum q·weight·value from positions to rows; a row may stand in several groups."""
    offsets, index, weight = layout
    for i in range(offsets.size - 1):
        low, high = offsets[i], offsets[i + 1]
        for p in range(low, high):
            part, k = q[i] * weight_at(weight, p) / (high - low), row_at(index, p)
            for c in range(values.shape[1]):
                out[k, c] += part * values[p, c]


@kernel
def square_rows(layout, c, values, out):
    """Sum c·(weight·value)² from positions to rows, each position a group."""
    for p in range(c.size):
        part = weight_at(layout.weight, p) * values[p, 0]
        out[row_at(layout.index, p), 0] += c[p] * part * part


@kernel
def gather_pair(layout, target, q, v, a, b, out):
    """Sum q·weight times the entry (a, b) of the Hessian of the multinomial loss, diag(p) − p pᵀ."""
    offsets, index, weight = layout
    for i in range(offsets.size - 1):
        low, high = offsets[i], offsets[i + 1]
        for p in range(low, high):
            k = row_at(index, p)
            share_a = v[p, a] + (1.0 if target[k] == a else 0.0)
            share_b = v[p, b] + (1.0 if target[k] == b else 0.0)
            bend = share_a * (1.0 - share_a) if a == b else -share_a * share_b
            out[k] += q[i] * weight_at(weight, p) / (high - low) * bend


@kernel
def group_gradients(rows, layout, v, d, J):
    offsets, index, weight = layout
    for i in range(offsets.size - 1):
        low, high = offsets[i], offsets[i + 1]
        for p in range(low, high):
            k, part = row_at(index, p), weight_at(weight, p) / (high - low)
            for c in range(v.shape[1]):
                add_row(rows, k, part * v[p, c], J[i, c * d : (c + 1) * d])
