"""Inner functions less a common threshold: gᵢ(w) − c with the variable (w, c)."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Inner
from xrisk.inner.groups import Groups
from xrisk.inner.oracle import (
    batch_value,
    batch_values,
    batch_vjp,
    draw,
    draw_part,
    exact_jacobians,
    exact_values,
    exact_vjp,
    has_batches,
    has_parts,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_samples,
    inner_size,
    inner_smoothness,
    new_batch,
    sample_lipschitz,
    sample_range,
    sample_smoothness,
    shares_batch,
)


class Shifted(NamedTuple):
    """gᵢ(w) − c, where x = (w, c)."""

    inner: Inner = Groups()


inner_count.of(Shifted)(lambda g: inner_count(g.inner))
inner_dim.of(Shifted)(lambda g: inner_dim(g.inner))


@inner_size.of(Shifted)
def _(g):
    return inner_size(g.inner) + 1


inner_samples.of(Shifted)(lambda g: inner_samples(g.inner))
inner_is_affine.of(Shifted)(lambda g: inner_is_affine(g.inner))
shares_batch.of(Shifted)(lambda g: shares_batch(g.inner))


@inner_lipschitz.of(Shifted)
def _(g):
    return np.hypot(inner_lipschitz(g.inner), 1.0)


inner_smoothness.of(Shifted)(lambda g: inner_smoothness(g.inner))
has_batches.of(Shifted)(lambda g: has_batches(g.inner))
new_batch.of(Shifted)(lambda g, size: new_batch(g.inner, size))


@draw.of(Shifted)
def _(g, i, rng, batch):
    draw(g.inner, i, rng, batch)


sample_range.of(Shifted)(lambda g, i: sample_range(g.inner, i))
has_parts.of(Shifted)(lambda g, size: has_parts(g.inner, size))


@draw_part.of(Shifted)
def _(g, i, first, batch):
    draw_part(g.inner, i, first, batch)


@batch_value.of(Shifted)
def _(g, i, x, batch, out):
    batch_value(g.inner, i, x[:-1], batch, out)
    for j in range(out.size):
        out[j] -= x[-1]


@batch_values.of(Shifted)
def _(g, i, x, x_prev, batch, out, out_prev):
    batch_values(g.inner, i, x[:-1], x_prev[:-1], batch, out, out_prev)
    for j in range(out.size):
        out[j] -= x[-1]
        out_prev[j] -= x_prev[-1]


@batch_vjp.of(Shifted)
def _(g, i, x, batch, y, scale, grad):
    batch_vjp(g.inner, i, x[:-1], batch, y, scale, grad[:-1])
    for j in range(y.size):
        grad[-1] -= scale * y[j]


@exact_values.of(Shifted)
def _(g, x, out):
    exact_values(g.inner, x[:-1], out)
    out -= x[-1]


@exact_vjp.of(Shifted)
def _(g, x, y, grad):
    exact_vjp(g.inner, x[:-1], y, grad[:-1])
    grad[-1] -= y.sum()


@exact_jacobians.of(Shifted)
def _(g, x, out):
    exact_jacobians(g.inner, x[:-1], out[:, :, :-1])
    out[:, :, -1] = -1.0


@sample_lipschitz.of(Shifted)
def _(g):
    return np.hypot(sample_lipschitz(g.inner), 1.0)


sample_smoothness.of(Shifted)(lambda g: sample_smoothness(g.inner))
