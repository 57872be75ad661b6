"""The arguments of problems: words for losses and divergences, strengths of penalties, numbers."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Domain, Inner, Loss, Outer, Penalty, Spec, Vector
from xrisk.data.rows import as_numbers, frozen
from xrisk.functions import (
    L1,
    L2,
    Absolute,
    ChiSquareBallRisk,
    ChiSquareRiskA,
    ChiSquareRiskB,
    CVaRRisk,
    ElasticNet,
    ExponentialLoss,
    HingeLoss,
    Huber,
    Identity,
    KLBallRisk,
    KLRisk,
    Logistic,
    MaxRisk,
    Multinomial,
    NoPenalty,
    Pinball,
    Restricted,
    SmoothedHinge,
    Squared,
    SquaredHinge,
    Unpenalised,
    loss_is_classification,
    loss_value,
    prox,
)
from xrisk.functions.parameters import flag
from xrisk.inner import Equal, Groups, LinearModel
from xrisk.problem import Problem, is_outer, is_risk

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
OF_ONE_SCORE = {word: loss for word, loss in LOSSES.items() if loss_value.implemented(loss)}
CLASS_LOSSES = {word: loss for word, loss in OF_ONE_SCORE.items() if loss_is_classification(loss)}
NUMBER_LOSSES = {word: loss for word, loss in OF_ONE_SCORE.items() if not loss_is_classification(loss)}


class Divergence(NamedTuple):
    """The risk over groups that a word stands for, and its description."""

    build: Callable[..., Any]  # the risk, from the numbers it takes
    takes: tuple[str, ...]  # names of these numbers
    meaning: str  # over which mixtures of the groups the worst case is taken
    objective: str  # completes "a linear model that minimises the …"


AT_A_COST = "loss under the worst mixture of {groups} (far from equal weights at a cost: {word}, λ = {lam})"

DIVERGENCES: dict[str, Divergence] = {
    "cvar": Divergence(
        CVaRRisk,
        ("alpha",),
        "any group may weigh up to 1/(alpha·groups): the mean of the worst fraction alpha of them",
        "mean loss over the worst {alpha} of {groups}",
    ),
    "chi2": Divergence(
        ChiSquareRiskA,
        ("lam",),
        "all mixtures, at the cost lam · mean ½(t−1)², where t is a weight over the equal weight",
        AT_A_COST,
    ),
    "chi2-b": Divergence(
        ChiSquareRiskB,
        ("lam",),
        'as "chi2", but at the cost lam · mean (t−1)²',
        AT_A_COST,
    ),
    "kl": Divergence(
        KLRisk,
        ("lam",),
        "all mixtures, at the cost lam times their Kullback–Leibler divergence from equal weights",
        AT_A_COST,
    ),
    "max": Divergence(MaxRisk, (), "the worst group alone", "loss in the worst of {groups}"),
}


class AmbiguitySet(NamedTuple):
    """The set of distributions near the observed one that a word stands for, and its description."""

    ball: Callable[..., Any] | None  # the risk of a radius and a strength
    cost: Callable[..., Any]  # the risk of a strength alone; of a fraction where there is no ball
    meaning: str


AMBIGUITIES: dict[str, AmbiguitySet] = {
    "kl": AmbiguitySet(
        KLBallRisk,
        KLRisk,
        "weights with Σ q log(q/p) at most radius, or at the cost strength times it, or both",
    ),
    "chi2": AmbiguitySet(
        ChiSquareBallRisk,
        ChiSquareRiskA,
        "weights with ½ Σ p (q/p − 1)² at most radius, or at the cost strength times it, or both",
    ),
    "cvar": AmbiguitySet(None, CVaRRisk, "any row may weigh up to p/alpha: the mean of the worst fraction alpha"),
}


def ambiguity_of(ambiguity: Spec, *, alpha: Any = None, radius: Any = None, strength: Any = None) -> Any:
    """The risk over rows that a word of AMBIGUITIES stands for; a spec stands for itself.

    Examples
    --------
    >>> from xrisk.applications.arguments import ambiguity_of
    >>> ambiguity_of("kl", radius=0.5, strength=0.001)
    KLBallRisk(radius=0.5, strength=0.001)
    """
    given = {"alpha": alpha, "radius": radius, "strength": strength}
    known = {name: as_number(name, value) for name, value in given.items() if value is not None}
    if is_risk(ambiguity):
        if known:
            name, value = next(iter(known.items()))
            raise ValueError(f"{name} must be None where ambiguity is a spec, which has its own, got {value}")
        return ambiguity
    if not isinstance(ambiguity, str):
        raise TypeError(f"ambiguity must be one of {', '.join(AMBIGUITIES)} or a spec of a risk, got {ambiguity!r}")
    chosen = by_name("ambiguity", ambiguity, AMBIGUITIES)
    takes = ("alpha",) if chosen.ball is None else ("radius", "strength")
    for name, value in known.items():
        if name not in takes:
            raise ValueError(
                f"{name} is not for ambiguity={ambiguity!r}, which takes {' and '.join(takes)}, got {value}"
            )
    if not known:
        raise ValueError(f"ambiguity={ambiguity!r} needs {' or '.join(takes)}, got none")
    if chosen.ball is None:
        return chosen.cost(known["alpha"])
    if "radius" not in known:
        return chosen.cost(known["strength"])
    return chosen.ball(known["radius"], known.get("strength", 0.0))


def risk_of(divergence: Spec, **numbers: Any) -> Any:
    """The risk that a word of DIVERGENCES stands for at ``alpha`` and ``lam``; a spec stands for itself.

    Examples
    --------
    >>> from xrisk.applications.arguments import risk_of
    >>> risk_of("cvar", alpha=0.2, lam=1.0)
    CVaRRisk(alpha=0.2)
    """
    known = {name: as_number(name, value) for name, value in numbers.items()}
    if is_risk(divergence) or is_outer(divergence):
        return divergence
    if not isinstance(divergence, str):
        raise TypeError(f"divergence must be one of {', '.join(DIVERGENCES)} or a spec of a risk, got {divergence!r}")
    chosen = by_name("divergence", divergence, DIVERGENCES)
    return chosen.build(*(known[name] for name in chosen.takes))


def divergences_that_take(number: str) -> list[str]:
    """The words whose risk takes the number of this name."""
    return [word for word, divergence in DIVERGENCES.items() if number in divergence.takes]


def quoted(words: Iterable[str]) -> str:
    """Words as a docstring lists them: "a", "b"."""
    return ", ".join(f'"{word}"' for word in words)


def penalty_of(l1: float, l2: float, fit_intercept: bool, loss: Loss) -> Any:
    """l1‖w‖₁ + (l2/2)‖w‖², the last coordinate left out where it is an intercept of a loss of one score."""
    for name, strength in (("l1", l1), ("l2", l2)):
        if not 0.0 <= as_number(name, strength) < np.inf:
            raise ValueError(f"{name} must be finite and not negative, got {strength}")
    penalty: Penalty = NoPenalty()
    if l1 > 0 and l2 > 0:
        penalty = ElasticNet(float(l1), float(l2))
    elif l1 > 0:
        penalty = L1(float(l1))
    elif l2 > 0:
        penalty = L2(float(l2))
    if not flag("fit_intercept", fit_intercept) or isinstance(penalty, NoPenalty) or isinstance(loss, Multinomial):
        return penalty
    return Unpenalised(penalty, 1)


def domain_penalty(l2: float, domain: Domain) -> Any:
    """(l2/2)‖w‖² on the domain; None and ``NoPenalty()`` stand for no domain."""
    penalty = penalty_of(0.0, l2, False, None)
    if isinstance(domain, NoPenalty | None):
        return penalty
    if not prox.implemented(domain):
        raise TypeError(f"domain must be a domain spec such as Ball(1.0), got {domain!r}")
    return domain if isinstance(penalty, NoPenalty) else Restricted(penalty, domain)


def checked_problem(inner: Inner, outer: Outer, penalty: Penalty) -> Problem:
    """The problem of these parts, checked."""
    problem = Problem(inner, outer, penalty)
    problem.check()
    return problem


def mean_loss(model: LinearModel, penalty: Penalty, weight: Any = Equal()) -> Problem:
    """The mean loss over all rows of a model, plus a penalty: one group, the identity outside."""
    return checked_problem(Groups(model, frozen(np.array([0, model.target.size])), weight=weight), Identity(), penalty)


def row_numbers_of(name: str, values: Any, n: int) -> np.ndarray:
    """One number for each of the n rows of X, as an array (n,)."""
    found = as_numbers(name, values)
    if found.shape != (n,):
        raise ValueError(f"{name} must have one entry for each of the {n} rows of X, got shape {found.shape}")
    return found


def signs_of(y: Vector, n: int) -> np.ndarray:
    """Labels (n,) that are −1 and 1."""
    y = row_numbers_of("y", y, n)
    if not ((y == 1) | (y == -1)).all():
        raise ValueError(f"y must hold −1 and 1, got {np.unique(y)[:5]}")
    return y


def row_weights(sample_weight: Vector, n: int) -> np.ndarray:
    """Weights (n,) of the rows, finite and not negative."""
    weights = row_numbers_of("sample_weight", sample_weight, n).astype(np.float64)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise ValueError(f"sample_weight must be finite and non-negative, got {weights[wrong][0]}")
    return weights


def as_number(argument: str, value: Any) -> float:
    """The value as a float; ``argument`` is what an error calls it. Text, True and False are no numbers."""
    try:
        if isinstance(value, str | bytes | bool | np.bool_):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{argument} must be a number, got {value!r}") from error


def by_name(argument: str, choice: Any, table: dict[str, Any]) -> Any:
    """The spec that a word of the table stands for; a spec stands for itself."""
    if not isinstance(choice, str):
        return choice
    if choice not in table:
        raise ValueError(f"{argument} must be one of {', '.join(table)} or a spec, got {choice!r}")
    return table[choice]
