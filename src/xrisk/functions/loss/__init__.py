"""Losses ℓ(z, y) of a score z and a target y: value, slope, curvature, conjugate, constants."""

from xrisk.functions.loss.generics import (
    loss_conjugate,
    loss_curvature,
    loss_domain,
    loss_is_affine,
    loss_is_classification,
    loss_kink,
    loss_lipschitz,
    loss_slope,
    loss_smoothness,
    loss_value,
    scores_conjugate,
    scores_lipschitz,
    scores_slope,
    scores_smoothness,
    scores_value,
)
from xrisk.functions.loss.margin import ExponentialLoss, HingeLoss, Logistic, MarginLoss, SmoothedHinge, SquaredHinge
from xrisk.functions.loss.residual import Absolute, AffineLoss, Huber, Pinball, Squared
from xrisk.functions.loss.scores import Multinomial

__all__ = [
    "Absolute",
    "AffineLoss",
    "ExponentialLoss",
    "HingeLoss",
    "Huber",
    "Logistic",
    "MarginLoss",
    "Multinomial",
    "Pinball",
    "SmoothedHinge",
    "Squared",
    "SquaredHinge",
    "loss_conjugate",
    "loss_curvature",
    "loss_domain",
    "loss_is_affine",
    "loss_is_classification",
    "loss_kink",
    "loss_lipschitz",
    "loss_slope",
    "loss_smoothness",
    "loss_value",
    "scores_conjugate",
    "scores_lipschitz",
    "scores_slope",
    "scores_smoothness",
    "scores_value",
]
