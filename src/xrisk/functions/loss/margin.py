"""Losses of the margin y z: targets are ±1."""

from typing import NamedTuple

import numpy as np

from xrisk.functions.loss.generics import (
    loss_conjugate,
    loss_curvature,
    loss_domain,
    loss_is_affine,
    loss_is_classification,
    loss_kink,
    loss_lipschitz,
    loss_piece,
    loss_slope,
    loss_smoothness,
    loss_terms,
    loss_value,
)
from xrisk.functions.parameters import checks, positive
from xrisk.functions.special import clip, exp, exp_conjugate, logistic_terms, negative_entropy


class Logistic(NamedTuple):
    """ℓ(z, y) = log(1 + exp(−y z)).

    Examples
    --------
    >>> loss_slope(Logistic(), 0.0, 1.0)
    -0.5
    """


class HingeLoss(NamedTuple):
    """ℓ(z, y) = (1 − y z)₊.

    Examples
    --------
    >>> loss_value(HingeLoss(), 0.25, 1.0)
    0.75
    """


class SquaredHinge(NamedTuple):
    """ℓ(z, y) = (1 − y z)₊².

    Examples
    --------
    >>> loss_value(SquaredHinge(), 0.5, 1.0)
    0.25
    """


@checks(width=positive)
class SmoothedHinge(NamedTuple):
    """ℓ(z, y) = min_t (1 − t)₊ + (t − y z)² / (2 width): 0 from margin 1 on, 1 − y z − width/2 up to 1 − width.

    Examples
    --------
    >>> loss_value(SmoothedHinge(0.5), 0.0, 1.0)
    0.75
    """

    width: float = 1.0


class ExponentialLoss(NamedTuple):
    """ℓ(z, y) = exp(−y z); inf where it overflows.

    Examples
    --------
    >>> loss_value(ExponentialLoss(), 0.0, 1.0)
    1.0
    """


class MarginLoss(NamedTuple):
    """ℓ(z, y) = −y z: an affine inner function contains the label.

    Examples
    --------
    >>> loss_value(MarginLoss(), 3.0, -1.0)
    3.0
    """


@loss_is_classification.of(Logistic)
@loss_is_classification.of(HingeLoss)
@loss_is_classification.of(SquaredHinge)
@loss_is_classification.of(SmoothedHinge)
@loss_is_classification.of(ExponentialLoss)
@loss_is_classification.of(MarginLoss)
@loss_is_affine.of(MarginLoss)
def _(loss):
    return True


@loss_lipschitz.of(Logistic)
@loss_lipschitz.of(HingeLoss)
@loss_lipschitz.of(SmoothedHinge)
@loss_lipschitz.of(MarginLoss)
def _(loss):
    return 1.0


@loss_lipschitz.of(SquaredHinge)
@loss_lipschitz.of(ExponentialLoss)
def _(loss):
    return np.inf


@loss_domain.of(Logistic)
@loss_domain.of(HingeLoss)
@loss_domain.of(SmoothedHinge)
def _(loss, y):
    return (-1.0, 0.0) if y > 0 else (0.0, 1.0)


@loss_domain.of(SquaredHinge)
@loss_domain.of(ExponentialLoss)
def _(loss, y):
    return (-np.inf, 0.0) if y > 0 else (0.0, np.inf)


@loss_value.of(Logistic)
def _(loss, z, y):
    return logistic_terms(y * z)[0]


@loss_slope.of(Logistic)
def _(loss, z, y):
    return -y * logistic_terms(y * z)[1]


@loss_curvature.of(Logistic)
def _(loss, z, y):
    return logistic_terms(z)[2]


@loss_conjugate.of(Logistic)
def _(loss, v, y):
    return negative_entropy(-v * y)


loss_smoothness.of(Logistic)(lambda loss: 0.25)


@loss_value.of(HingeLoss)
def _(loss, z, y):
    return max(1.0 - y * z, 0.0)


@loss_slope.of(HingeLoss)
def _(loss, z, y):
    return -1.0 * y if y * z < 1.0 else 0.0


@loss_curvature.of(HingeLoss)
@loss_curvature.of(MarginLoss)
def _(loss, z, y):
    return 0.0


@loss_conjugate.of(HingeLoss)
def _(loss, v, y):
    return v * y if -1.0 <= v * y <= 0.0 else np.inf


loss_smoothness.of(HingeLoss)(lambda loss: np.inf)


@loss_kink.of(HingeLoss)
def _(loss, y):
    return (-1.0, 0.0, 1.0) if y > 0 else (0.0, 1.0, -1.0)


@loss_value.of(SquaredHinge)
def _(loss, z, y):
    gap = max(1.0 - y * z, 0.0)
    return gap * gap


@loss_slope.of(SquaredHinge)
def _(loss, z, y):
    return -2.0 * y * max(1.0 - y * z, 0.0)


@loss_curvature.of(SquaredHinge)
def _(loss, z, y):
    return 2.0 if y * z < 1.0 else 0.0


@loss_conjugate.of(SquaredHinge)
def _(loss, v, y):
    return v * y * (1.0 + v * y / 4.0) if v * y <= 0.0 else np.inf


loss_smoothness.of(SquaredHinge)(lambda loss: 2.0)


@loss_value.of(SmoothedHinge)
def _(loss, z, y):
    gap = 1.0 - y * z
    if gap >= loss.width:
        return gap - 0.5 * loss.width
    return 0.5 * gap * (gap / loss.width) if gap > 0.0 else 0.0


@loss_slope.of(SmoothedHinge)
def _(loss, z, y):
    return -y * clip((1.0 - y * z) / loss.width, 0.0, 1.0)


@loss_curvature.of(SmoothedHinge)
def _(loss, z, y):
    return 1.0 / loss.width if 0.0 < 1.0 - y * z < loss.width else 0.0


@loss_conjugate.of(SmoothedHinge)
def _(loss, v, y):
    return v * y * (1.0 + 0.5 * loss.width * v * y) if -1.0 <= v * y <= 0.0 else np.inf


@loss_smoothness.of(SmoothedHinge)
def _(loss):
    return 1.0 / loss.width


@loss_value.of(ExponentialLoss)
@loss_curvature.of(ExponentialLoss)
def _(loss, z, y):
    return exp(-y * z)


@loss_slope.of(ExponentialLoss)
def _(loss, z, y):
    return -y * exp(-y * z)


@loss_conjugate.of(ExponentialLoss)
def _(loss, v, y):
    return exp_conjugate(-v * y)


loss_smoothness.of(ExponentialLoss)(lambda loss: np.inf)


@loss_value.of(MarginLoss)
def _(loss, z, y):
    return -y * z


@loss_slope.of(MarginLoss)
def _(loss, z, y):
    return -1.0 * y


@loss_conjugate.of(MarginLoss)
def _(loss, v, y):
    return 0.0 if v == -y else np.inf


@loss_domain.of(MarginLoss)
def _(loss, y):
    return (-1.0 * y, -1.0 * y)


@loss_kink.of(MarginLoss)
def _(loss, y):
    return (-1.0 * y, -1.0 * y, 0.0)


loss_smoothness.of(MarginLoss)(lambda loss: 0.0)


@loss_piece.of(SquaredHinge)
def _(loss, y):
    return (-np.inf, 0.0, 1.0, 0.5) if y > 0 else (0.0, np.inf, -1.0, 0.5)


@loss_piece.of(SmoothedHinge)
def _(loss, y):
    return (-1.0, 0.0, 1.0, loss.width) if y > 0 else (0.0, 1.0, -1.0, loss.width)


@loss_terms.of(Logistic)
def _(loss, z, y):
    value, tail, curvature = logistic_terms(y * z)
    return value, -y * tail, curvature
