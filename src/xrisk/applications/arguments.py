"""What the arguments of every problem mean: words for losses, strengths of penalties, numbers."""

from typing import Any

import numpy as np

from xrisk.functions import (
    L1,
    L2,
    Absolute,
    ElasticNet,
    ExponentialLoss,
    HingeLoss,
    Huber,
    Logistic,
    Multinomial,
    NoPenalty,
    Pinball,
    SmoothedHinge,
    Squared,
    SquaredHinge,
    Unpenalised,
)

LOSSES: dict[str, Any] = {
    "logistic": Logistic(),
    "squared": Squared(),
    "hinge": HingeLoss(),
    "squared_hinge": SquaredHinge(),
    "smoothed_hinge": SmoothedHinge(),
    "huber": Huber(),
    "absolute": Absolute(),
    "pinball": Pinball(),
    "exponential": ExponentialLoss(),
    "multinomial": Multinomial(),
}


def penalty_of(l1: float, l2: float, fit_intercept: bool, loss: Any) -> Any:
    """l1‖w‖₁ + (l2/2)‖w‖², the last coordinate left out where it is an intercept of a loss of one score."""
    for name, strength in (("l1", l1), ("l2", l2)):
        if not 0.0 <= as_number(name, strength) < np.inf:
            raise ValueError(f"{name} must be finite and not negative, got {strength}")
    penalty: Any = NoPenalty()
    if l1 > 0 and l2 > 0:
        penalty = ElasticNet(float(l1), float(l2))
    elif l1 > 0:
        penalty = L1(float(l1))
    elif l2 > 0:
        penalty = L2(float(l2))
    if not fit_intercept or isinstance(penalty, NoPenalty) or isinstance(loss, Multinomial):
        return penalty
    return Unpenalised(penalty, 1)


def as_number(argument: str, value: Any) -> float:
    """The value as a float; ``argument`` is what an error calls it."""
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{argument} must be a number, got {value!r}") from error


def by_name(argument: str, choice: Any, table: dict[str, Any]) -> Any:
    """The spec that a word of the table stands for; a spec stands for itself."""
    if not isinstance(choice, str):
        return choice
    if choice not in table:
        raise ValueError(f"{argument} must be one of {', '.join(table)} or a spec, got {choice!r}")
    return table[choice]
