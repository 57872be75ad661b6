"""Every row an inner function of its own: gᵢ(w) = ℓᵢ(w), for risks over single rows."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.data.products import scaled_norms
from xrisk.data.rows import fetch_row, row_size
from xrisk.inner.groups import Groups, new_rows
from xrisk.inner.layout import Equal, InOrder
from xrisk.inner.models import (
    LinearModel,
    model_is_affine,
    model_lipschitz,
    model_rows,
    model_size,
    model_smoothness,
    row_loss,
    row_slopes,
    row_vjp,
    rows_loss,
    rows_vjp,
    slopes_vjp,
)
from xrisk.inner.oracle import (
    batch_losses,
    batch_losses_vjp,
    batch_value,
    batch_vjp,
    draw,
    draw_part,
    inner_count,
    inner_dim,
    inner_is_affine,
    inner_lipschitz,
    inner_pooled,
    inner_samples,
    inner_shares,
    inner_size,
    inner_smoothness,
    new_batch,
    place_block,
    sample_range,
    sample_share,
    sample_slopes,
    sample_vjp,
)


class Samples(NamedTuple):
    """gᵢ(w) = ℓᵢ(w), the loss of a model on row i: a risk over them is one over single rows.

    What `Groups` of one row each would be, without a list of them.

    Examples
    --------
    >>> import numpy as np, xrisk
    >>> from xrisk.inner import LinearModel, Samples, as_rows
    >>> model = LinearModel(as_rows(np.array([[1.0], [3.0]])), np.array([1.0, -1.0]))
    >>> problem = xrisk.Problem(Samples(model), xrisk.functions.CVaRRisk(0.5))
    >>> round(problem.value(np.ones(1)), 4)  # the worst half: log(1 + e³)
    3.0486
    """

    model: Spec = LinearModel()

    def check(self) -> None:
        """Refuse data without rows, and targets that are not one for each row."""
        rows = model_rows(self.model)
        if rows < 1:
            raise ValueError("X must have at least one row, got none")
        if self.model.target.shape != (rows,):
            raise ValueError(
                f"y must have one entry for each of the {rows} rows of X, got shape {self.model.target.shape}"
            )


@inner_count.of(Samples)
@inner_samples.of(Samples)
def _(g):
    return model_rows(g.model)


inner_dim.of(Samples)(lambda g: 1)
inner_size.of(Samples)(lambda g: model_size(g.model))
inner_is_affine.of(Samples)(lambda g: model_is_affine(g.model))
new_batch.of(Samples)(lambda g, size: new_rows(g.model, size))


@place_block.of(Samples)
def _(g, i, batch, b):
    batch.rows[b] = i
    batch.target[b] = g.model.target[i]
    fetch_row(g.model.rows, i)


@draw.of(Samples)
def _(g, i, rng, batch):  # there is one sample
    place_block(g, i, batch, 0)


@draw_part.of(Samples)
def _(g, i, first, batch):
    place_block(g, i, batch, 0)


@batch_value.of(Samples)
def _(g, i, w, batch, out):
    out[0] = row_loss(g.model, i, w)


@batch_vjp.of(Samples)
def _(g, i, w, batch, y, scale, grad):
    if y[0] != 0.0:
        row_vjp(g.model, i, w, scale * y[0], grad)


@batch_losses.of(Samples)
def _(g, w, batch, out):
    rows_loss(g.model, batch.rows, batch.target, w, out)


@batch_losses_vjp.of(Samples)
def _(g, w, batch, scales, grad):
    rows_vjp(g.model, batch.rows, batch.target, w, scales, batch.work, grad)


@sample_range.of(Samples)
def _(g, i):
    return i, i + 1


sample_share.of(Samples)(lambda g, i, p: 1.0)
sample_slopes.of(Samples)(lambda g, p, w, slopes: row_slopes(g.model, p, w, slopes))


@sample_vjp.of(Samples)
def _(g, p, slopes, scale, grad):
    slopes_vjp(g.model, p, slopes, scale, grad)


@inner_pooled.of(Samples)
def _(g):
    return Groups(g.model, np.array([0, model_rows(g.model)]), InOrder(), Equal(), 1)  # kernels know no defaults


@inner_shares.of(Samples)
def _(g):
    return np.full((model_rows(g.model), 1), 1.0 / model_rows(g.model))


@inner_lipschitz.of(Samples)
def _(g):
    return model_lipschitz(g.model) * _largest_row(g)


@inner_smoothness.of(Samples)
def _(g):
    return model_smoothness(g.model) * _largest_row(g) ** 2


def _largest_row(g: Samples) -> float:
    return float(scaled_norms(g.model.rows, np.ones(row_size(g.model.rows))).max())
