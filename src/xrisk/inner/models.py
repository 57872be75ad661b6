"""One sample at a time: the loss of a linear model on row k, and its gradient."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from xrisk.annotations import Loss, Rows, Spec
from xrisk.data.rows import (
    Dense,
    add_row,
    add_rows,
    frozen,
    row_count,
    row_dot,
    row_size,
    rows_dot,
    rows_dots,
)
from xrisk.functions.loss import (
    Absolute,
    Huber,
    Logistic,
    Multinomial,
    Pinball,
    Squared,
    loss_is_affine,
    loss_is_classification,
    loss_lipschitz,
    loss_slope,
    loss_smoothness,
    loss_value,
    scores_lipschitz,
    scores_slope,
    scores_smoothness,
    scores_value,
)
from xrisk.generic import generic

MOST_TARGETS = 100_000  # that their middle is taken of
FAR_TARGETS = 30.0  # times how much they vary


@generic
def model_size(model):
    """Number of parameters."""


@generic
def row_loss(model, k, w):
    """Loss on row k."""


@generic
def row_vjp(model, k, w, scale, grad):
    """Add scale·(gradient of the loss on row k) to ``grad``."""


@generic
def row_slopes(model, k, w, slopes):
    """The loss on row k; its slopes in the scores of the row are written into ``slopes`` (scores)."""


@generic
def slopes_vjp(model, k, slopes, scale, grad):
    """Add scale·(gradient of the loss on row k) to ``grad``, from its slopes."""


@generic
def rows_loss(model, chosen, target, w, out):
    """Losses on the rows ``chosen``, whose targets stand in ``target``."""


@rows_loss.otherwise
def _(model, chosen, target, w, out):
    for b in range(chosen.size):
        out[b] = row_loss(model, chosen[b], w)


@generic
def rows_losses(model, chosen, target, w, w_prev, out, out_prev):
    """Losses on the rows ``chosen`` at two points."""


@rows_losses.otherwise
def _(model, chosen, target, w, w_prev, out, out_prev):
    for b in range(chosen.size):
        out[b], out_prev[b] = row_loss(model, chosen[b], w), row_loss(model, chosen[b], w_prev)


@generic
def rows_vjp(model, chosen, target, w, scales, work, grad):
    """Add Σ scales[b]·(gradient on row chosen[b]) to ``grad``; ``work`` has space for a score per row."""


@rows_vjp.otherwise
def _(model, chosen, target, w, scales, work, grad):
    for b in range(chosen.size):
        row_vjp(model, chosen[b], w, scales[b], grad)


@generic
def model_is_affine(model):
    """Whether the loss is affine in the parameters."""


@generic
def model_lipschitz(model):
    """A bound on the norm of the gradient of the loss of a row of length one."""


@generic
def model_smoothness(model):
    """A bound on its Lipschitz constant."""


@generic
def model_scores(model):
    """Number of scores of a row."""


class LinearModel(NamedTuple):
    """ℓ(⟨x_k, w⟩, y_k): one score per row."""

    rows: Rows = Dense()
    target: np.ndarray = np.zeros(0)  # (rows,)
    loss: Loss = Logistic()

    def check(self) -> None:
        """Refuse what is no loss of one score, and targets that it is not defined for."""
        if not loss_value.implemented(self.loss):
            raise TypeError(f"loss must be a spec that implements loss_value, got {self.loss!r}")
        if not np.isfinite(self.target).all():
            raise ValueError("y must be finite, it holds NaN or infinity")
        if loss_is_classification(self.loss) and not np.isin(self.target, (-1.0, 1.0)).all():
            raise ValueError(f"y must hold −1 and 1 for a classification loss, got {np.unique(self.target)[:5]}")


class SoftmaxModel(NamedTuple):
    """ℓ(W x_k, y_k): a score per class; w holds the rows of W one after another."""

    rows: Rows = Dense()
    target: np.ndarray = np.zeros(0, dtype=np.int64)  # (rows,), classes 0, …, K−1
    n_classes: int = 2
    loss: Loss = Multinomial()

    def check(self) -> None:
        """Refuse what is no loss of many scores, and targets that are no classes."""
        if not scores_value.implemented(self.loss):
            raise TypeError(f"loss must be a spec that implements scores_value, got {self.loss!r}")
        if self.target.dtype.kind not in "iu" or not ((self.target >= 0) & (self.target < self.n_classes)).all():
            raise ValueError(f"y must hold the classes 0, …, {self.n_classes - 1}, got {np.unique(self.target)[:5]}")


model_size.of(LinearModel)(lambda model: row_size(model.rows))


@row_loss.of(LinearModel)
def _(model, k, w):
    return loss_value(model.loss, row_dot(model.rows, k, w), model.target[k])


@row_vjp.of(LinearModel)
def _(model, k, w, scale, grad):
    slope = loss_slope(model.loss, row_dot(model.rows, k, w), model.target[k])
    add_row(model.rows, k, scale * slope, grad)


@row_slopes.of(LinearModel)
def _(model, k, w, slopes):
    z = row_dot(model.rows, k, w)
    slopes[0] = loss_slope(model.loss, z, model.target[k])
    return loss_value(model.loss, z, model.target[k])


@slopes_vjp.of(LinearModel)
def _(model, k, slopes, scale, grad):
    add_row(model.rows, k, scale * slopes[0], grad)


@rows_loss.of(LinearModel)
def _(model, chosen, target, w, out):
    rows_dot(model.rows, chosen, w, out)
    to_losses(model.loss, target, out)


@rows_losses.of(LinearModel)
def _(model, chosen, target, w, w_prev, out, out_prev):
    rows_dots(model.rows, chosen, w, w_prev, out, out_prev)
    to_losses(model.loss, target, out)
    to_losses(model.loss, target, out_prev)


@register_jitable
def to_losses(loss, target, z):
    """Losses in the place of scores; nothing is gathered here, so that the loop may use vectors."""
    for b in range(z.size):
        z[b] = loss_value(loss, z[b], target[b])


@rows_vjp.of(LinearModel)
def _(model, chosen, target, w, scales, work, grad):
    rows_dot(model.rows, chosen, w, work)
    for b in range(chosen.size):
        work[b] = scales[b] * loss_slope(model.loss, work[b], target[b])
    add_rows(model.rows, chosen, work, grad)


model_is_affine.of(LinearModel)(lambda model: loss_is_affine(model.loss))
model_lipschitz.of(LinearModel)(lambda model: loss_lipschitz(model.loss))
model_smoothness.of(LinearModel)(lambda model: loss_smoothness(model.loss))
model_scores.of(LinearModel)(lambda model: 1)


@model_size.of(SoftmaxModel)
def _(model):
    return row_size(model.rows) * model.n_classes


@register_jitable(forceinline=True)
def class_scores(model, k, w, z):
    """Write the scores of row k into ``z`` (classes)."""
    d = row_size(model.rows)
    for c in range(z.size):
        z[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])


@row_loss.of(SoftmaxModel)
def _(model, k, w):
    z = np.empty(model.n_classes)
    class_scores(model, k, w, z)
    return scores_value(model.loss, z, model.target[k])


@row_vjp.of(SoftmaxModel)
def _(model, k, w, scale, grad):
    z, slopes = np.empty(model.n_classes), np.empty(model.n_classes)
    class_scores(model, k, w, z)
    scores_slope(model.loss, z, model.target[k], slopes)
    slopes_vjp(model, k, slopes, scale, grad)


@row_slopes.of(SoftmaxModel)
def _(model, k, w, slopes):
    class_scores(model, k, w, slopes)
    z = slopes.copy()
    scores_slope(model.loss, z, model.target[k], slopes)
    return scores_value(model.loss, z, model.target[k])


@slopes_vjp.of(SoftmaxModel)
def _(model, k, slopes, scale, grad):
    d = row_size(model.rows)
    for c in range(slopes.size):
        add_row(model.rows, k, scale * slopes[c], grad[c * d : (c + 1) * d])


model_is_affine.of(SoftmaxModel)(lambda model: False)
model_lipschitz.of(SoftmaxModel)(lambda model: scores_lipschitz(model.loss))
model_smoothness.of(SoftmaxModel)(lambda model: scores_smoothness(model.loss))
model_scores.of(SoftmaxModel)(lambda model: model.n_classes)


@generic
def loss_is_of_residuals(loss):
    """Whether ℓ(z, y) depends on z − y alone: an intercept then takes up what is taken out of the targets."""


loss_is_of_residuals.otherwise(lambda loss: False)


@loss_is_of_residuals.of(Squared)
@loss_is_of_residuals.of(Huber)
@loss_is_of_residuals.of(Absolute)
@loss_is_of_residuals.of(Pinball)
def _(loss):
    return True


@generic
def model_target_centre(model):
    """The middle of targets that are far from zero beside how much they vary; zero of others."""


model_target_centre.otherwise(lambda model: 0.0)


@model_target_centre.of(LinearModel)
def _(model):
    if not loss_is_of_residuals(model.loss):
        return 0.0
    y = model.target[:: max(1, model.target.size // MOST_TARGETS)].astype(np.float64)
    middle = float(np.median(y))
    return middle if abs(middle) > FAR_TARGETS * float(np.mean(np.abs(y - middle))) else 0.0


def with_less_target(model: Spec, centre: float) -> Any:
    """The same model, all targets less ``centre``."""
    return model._replace(target=frozen(np.subtract(model.target, centre, dtype=np.float64)))


@generic
def model_rows(model):
    """Number of rows."""


@model_rows.of(LinearModel)
@model_rows.of(SoftmaxModel)
def _(model):
    return row_count(model.rows)
