"""One sample at a time, by its number: for methods that remember something of every sample."""

from xrisk.data.rows import add_row, row_dot, row_size
from xrisk.functions.loss import loss_slope, loss_value, scores_slope, scores_value
from xrisk.generic import generic
from xrisk.inner.groups import Groups, row_at, weight_at
from xrisk.inner.models import LinearModel, SoftmaxModel


@generic
def sample_range(g, i):
    """(low, high): the samples of gᵢ are low, …, high − 1."""


@generic
def sample_share(g, i, p):
    """What sample p counts in gᵢ; the shares of its samples sum to one."""


@generic
def sample_slopes(g, p, w, slopes):
    """The loss of sample p; its slopes in the scores of the sample are written into ``slopes`` (scores)."""


@generic
def add_sample(g, p, slopes, scale, grad):
    """Add scale·(gradient of the loss of sample p) to ``grad``, from its slopes."""


@generic
def row_slopes(model, k, w, slopes):
    """`sample_slopes` of row k."""


@generic
def add_slopes(model, k, slopes, scale, grad):
    """`add_sample` of row k."""


@sample_range.of(Groups)
def _(g, i):
    return g.offsets[i], g.offsets[i + 1]


@sample_share.of(Groups)
def _(g, i, p):
    return weight_at(g.weight, p) / (g.offsets[i + 1] - g.offsets[i])


@sample_slopes.of(Groups)
def _(g, p, w, slopes):
    return row_slopes(g.model, row_at(g.index, p), w, slopes)


@add_sample.of(Groups)
def _(g, p, slopes, scale, grad):
    add_slopes(g.model, row_at(g.index, p), slopes, scale, grad)


@row_slopes.of(LinearModel)
def _(model, k, w, slopes):
    z = row_dot(model.rows, k, w)
    slopes[0] = loss_slope(model.loss, z, model.target[k])
    return loss_value(model.loss, z, model.target[k])


@add_slopes.of(LinearModel)
def _(model, k, slopes, scale, grad):
    add_row(model.rows, k, scale * slopes[0], grad)


@row_slopes.of(SoftmaxModel)
def _(model, k, w, slopes):
    d = row_size(model.rows)
    for c in range(slopes.size):
        slopes[c] = row_dot(model.rows, k, w[c * d : (c + 1) * d])
    z = slopes.copy()
    scores_slope(model.loss, z, model.target[k], slopes)
    return scores_value(model.loss, z, model.target[k])


@add_slopes.of(SoftmaxModel)
def _(model, k, slopes, scale, grad):
    d = row_size(model.rows)
    for c in range(slopes.size):
        add_row(model.rows, k, scale * slopes[c], grad[c * d : (c + 1) * d])
