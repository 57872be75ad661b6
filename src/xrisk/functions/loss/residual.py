"""Losses of the residual z − y: targets are any number."""

from typing import NamedTuple

import numpy as np

from xrisk.functions.loss.generics import (
    loss_conjugate,
    loss_curvature,
    loss_domain,
    loss_is_affine,
    loss_kink,
    loss_lipschitz,
    loss_piece,
    loss_slope,
    loss_smoothness,
    loss_value,
)
from xrisk.functions.parameters import checks, inside_zero_to_one, positive
from xrisk.functions.special import clip


class Squared(NamedTuple):
    """ℓ(z, y) = ½ (z − y)².

    Examples
    --------
    >>> loss_value(Squared(), 3.0, 1.0)
    2.0
    """


@checks(delta=positive)
class Huber(NamedTuple):
    """ℓ(z, y) = ½ r² if |r| ≤ δ, else δ (|r| − δ/2), with r = z − y.

    Examples
    --------
    >>> loss_value(Huber(1.0), 3.0, 0.0)
    2.5
    """

    delta: float = 1.0


class Absolute(NamedTuple):
    """ℓ(z, y) = |z − y|.

    Examples
    --------
    >>> loss_value(Absolute(), 3.0, 1.0)
    2.0
    """


@checks(quantile=inside_zero_to_one)
class Pinball(NamedTuple):
    """ℓ(z, y) = q (y − z)₊ + (1 − q) (z − y)₊: its mean is smallest at the q-quantile of y.

    Examples
    --------
    >>> loss_value(Pinball(0.75), 0.0, 4.0)
    3.0
    """

    quantile: float = 0.5


class AffineLoss(NamedTuple):
    """ℓ(z, y) = z − y: makes inner functions affine.

    Examples
    --------
    >>> loss_value(AffineLoss(), 3.0, 1.0)
    2.0
    """


@loss_value.of(Squared)
def _(loss, z, y):
    return 0.5 * (z - y) * (z - y)


@loss_slope.of(Squared)
@loss_value.of(AffineLoss)
def _(loss, z, y):
    return z - y


@loss_curvature.of(Squared)
@loss_slope.of(AffineLoss)
def _(loss, z, y):
    return 1.0


@loss_conjugate.of(Squared)
def _(loss, v, y):
    return v * (0.5 * v + y)


@loss_domain.of(Squared)
def _(loss, y):
    return (-np.inf, np.inf)


@loss_lipschitz.of(Squared)
@loss_smoothness.of(Absolute)
@loss_smoothness.of(Pinball)
def _(loss):
    return np.inf


@loss_smoothness.of(Squared)
@loss_smoothness.of(Huber)
@loss_lipschitz.of(Absolute)
@loss_lipschitz.of(AffineLoss)
def _(loss):
    return 1.0


@loss_value.of(Huber)
def _(loss, z, y):
    a = abs(z - y)
    return 0.5 * a * a if a <= loss.delta else loss.delta * (a - 0.5 * loss.delta)


@loss_slope.of(Huber)
def _(loss, z, y):
    return clip(z - y, -loss.delta, loss.delta)


@loss_curvature.of(Huber)
def _(loss, z, y):
    return 1.0 if abs(z - y) < loss.delta else 0.0


@loss_conjugate.of(Huber)
def _(loss, v, y):
    return v * (0.5 * v + y) if abs(v) <= loss.delta else np.inf


@loss_domain.of(Huber)
def _(loss, y):
    return (-loss.delta, loss.delta)


loss_lipschitz.of(Huber)(lambda loss: loss.delta)


@loss_value.of(Absolute)
def _(loss, z, y):
    return abs(z - y)


@loss_slope.of(Absolute)
def _(loss, z, y):
    return 1.0 if z > y else (-1.0 if z < y else 0.0)


@loss_curvature.of(Absolute)
@loss_curvature.of(Pinball)
@loss_curvature.of(AffineLoss)
def _(loss, z, y):
    return 0.0


@loss_conjugate.of(Absolute)
def _(loss, v, y):
    return v * y if abs(v) <= 1.0 else np.inf


@loss_domain.of(Absolute)
def _(loss, y):
    return (-1.0, 1.0)


@loss_kink.of(Absolute)
def _(loss, y):
    return (-1.0, 1.0, y)


@loss_value.of(Pinball)
def _(loss, z, y):
    return loss.quantile * (y - z) if y > z else (1.0 - loss.quantile) * (z - y)


@loss_slope.of(Pinball)
def _(loss, z, y):
    return -loss.quantile if y > z else 1.0 - loss.quantile


@loss_conjugate.of(Pinball)
def _(loss, v, y):
    return v * y if -loss.quantile <= v <= 1.0 - loss.quantile else np.inf


@loss_domain.of(Pinball)
def _(loss, y):
    return (-loss.quantile, 1.0 - loss.quantile)


@loss_kink.of(Pinball)
def _(loss, y):
    return (-loss.quantile, 1.0 - loss.quantile, y)


@loss_lipschitz.of(Pinball)
def _(loss):
    return max(loss.quantile, 1.0 - loss.quantile)


@loss_conjugate.of(AffineLoss)
def _(loss, v, y):
    return 1.0 * y if v == 1.0 else np.inf


@loss_domain.of(AffineLoss)
def _(loss, y):
    return (1.0, 1.0)


@loss_kink.of(AffineLoss)
def _(loss, y):
    return (1.0, 1.0, y)


loss_smoothness.of(AffineLoss)(lambda loss: 0.0)
loss_is_affine.of(AffineLoss)(lambda loss: True)


@loss_piece.of(Huber)
def _(loss, y):
    return -loss.delta, loss.delta, y, 1.0
