"""How inner values are averaged over repeated rows and over time, in the scale of their outer function."""

import math
from typing import NamedTuple

import torch

from xrisk.torch.dispatch import by_type
from xrisk.torch.functions import LogMeanExp, outer_slope

Tensor = torch.Tensor


class Repeats(NamedTuple):
    """Which rows of a batch have the same index; all shapes are known, as a compiled graph needs them."""

    slot: Tensor  # (B,) the same number for the same index, below B
    size: Tensor  # (B,) rows with that index


def repeats(index: Tensor) -> Repeats:
    """The repeated rows of a batch.

    Examples
    --------
    >>> repeats(torch.tensor([7, 3, 7])).size
    tensor([2, 1, 2])
    """
    slot = torch.searchsorted(index.sort().values, index)
    count = torch.zeros_like(index).index_add(0, slot, torch.ones_like(index))
    return Repeats(slot, count[slot])


@by_type
def repeat_mean(f, values, same):
    """The mean (B, m) of the values (B, m) of rows with the same index."""


@by_type
def blend(f, u, values, weight):
    """(1 − weight)·u + weight·values."""


@by_type
def value_weight(f, u, values):
    """∂f/∂v (B, m): what the gradients of the values are multiplied with."""


@repeat_mean.otherwise
def _(f, values, same):
    total = torch.zeros_like(values).index_add(0, same.slot, values)
    return total[same.slot] / same.size[:, None]


blend.otherwise(lambda f, u, values, weight: u + weight * (values - u))
value_weight.otherwise(lambda f, u, values: outer_slope(f, u))


@repeat_mean.of(LogMeanExp)
def _(f, values, same):
    # shifted by the largest of the same index: exp underflows at −87 in single precision
    slot = same.slot[:, None].expand_as(values)
    top = torch.full_like(values, -math.inf).scatter_reduce(0, slot, values.detach(), "amax").gather(0, slot)
    total = torch.zeros_like(values).index_add(0, same.slot, torch.exp(values - top))
    return top + torch.log(total[same.slot] / same.size[:, None])


@blend.of(LogMeanExp)
def _(f, u, values, weight):
    if weight == 1.0:
        return values
    return torch.logaddexp(u + math.log1p(-weight), values + math.log(weight))


@value_weight.of(LogMeanExp)
def _(f, u, values):
    return f.tau * torch.exp(values - u)  # at most τ/weight, as u contains its share of the values
