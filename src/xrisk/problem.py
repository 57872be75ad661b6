"""A problem: inner functions, an outer function or a risk, and a penalty."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Inner, Outer, Penalty, Risk
from xrisk.compile import canonical, kernel, walk, worthwhile
from xrisk.functions import (
    NoPenalty,
    WithThreshold,
    block_is_monotone,
    block_slope,
    block_value,
    outer_value,
    penalty_value,
    prox,
    risk_outer,
    risk_threshold,
    risk_value,
)
from xrisk.inner.oracle import exact_values, inner_count, inner_dim, inner_is_affine, inner_size
from xrisk.inner.shifted import Shifted


class ThresholdBounds(NamedTuple):
    """low ≤ c ≤ high for the threshold c of a risk ρ(u) = min_c c + mean_i f(uᵢ − c).

    The optimum of the problem stays what it is if its threshold lies between them: that of a CVaR is one of the inner
    values, not below 0 if no loss is.
    """

    low: float = -np.inf
    high: float = np.inf


class Problem(NamedTuple):
    """min over w of mean_i f(gᵢ(w)) + r(w), or of ρ(g₁(w), …, gₙ(w)) + r(w).

    Parameters
    ----------
    inner : spec
        The inner functions gᵢ, for example `xrisk.inner.Groups`.
    outer : spec
        An outer function f (`xrisk.functions.Softplus` …) or a joint risk ρ (`xrisk.functions.CVaRRisk` …).
    penalty : spec
        A penalty or a domain.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk import Problem
    >>> from xrisk.functions import HardSmooth, L2
    >>> from xrisk.inner import NoisyCoordinates
    >>> problem = Problem(NoisyCoordinates(n=4, nu=0.1), HardSmooth(nu=0.1), L2(0.125))
    >>> problem.value(np.zeros(4))
    0.0
    """

    inner: Inner
    outer: Outer
    penalty: Penalty = NoPenalty()

    def value(self, w: np.ndarray) -> float:
        """The exact objective at ``w`` (d)."""
        u = inner_values(self, w)
        if u.max() == np.inf:  # risks take differences, which would be NaN
            return np.inf
        if is_risk(self.outer):
            risk = risk_at(self.outer, np.ascontiguousarray(u[:, 0]))
        else:
            risk = mean_block_value(self.outer, u)
        return float(risk + penalty_at(self.penalty, w))

    def check(self) -> None:
        """Raise one clear sentence when something in the problem is wrong; nothing is compiled."""
        for name, spec, verb in (("inner", self.inner, inner_count), ("penalty", self.penalty, prox)):
            if not verb.implemented(spec):
                raise TypeError(f"{name} must be a spec that implements {verb.__name__}, got {_shown(spec)}")
        if not (is_risk(self.outer) or is_outer(self.outer)):
            raise TypeError(f"outer must be an outer function or a risk, got {_shown(self.outer)}")
        for spec in walk(self):
            if spec is not self and hasattr(spec, "check"):
                spec.check()
        if is_risk(self.outer) and inner_dim(self.inner) != 1:
            raise ValueError(f"a risk needs inner functions of one component, got {inner_dim(self.inner)}")
        if not is_risk(self.outer) and not block_is_monotone(self.outer) and not inner_is_affine(self.inner):
            raise ValueError(
                f"outer must be non-decreasing unless the inner functions are affine, got {type(self.outer).__name__}: "
                "the problem would not be convex"
            )


def penalty_at(penalty: Penalty, w: np.ndarray) -> float:
    """r(w)."""
    return float(worthwhile(value_of_penalty, w.size, penalty)(penalty, w))


def apply_prox(penalty: Penalty, w: np.ndarray, step: float) -> None:
    """Move w (d) to the proximal point, in place."""
    worthwhile(prox_of_penalty, w.size, penalty)(penalty, w, step)


def risk_at(rho: Risk, u: np.ndarray) -> float:
    """ρ(u) of values u (n,)."""
    return float(worthwhile(value_of_risk, u.size, rho)(rho, u))


@kernel
def value_of_risk(rho, u):
    return risk_value(rho, u)


@kernel
def value_of_penalty(penalty, w):
    return penalty_value(penalty, w)


@kernel
def prox_of_penalty(penalty, w, step):
    prox(penalty, w, step)


def _shown(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(thing).__name__}"


def mean_block_value(outer: Outer, u: np.ndarray) -> float:
    """mean_i f(uᵢ) of inner values u (n, m)."""
    values = np.empty(u.shape[0])
    worthwhile(block_values, u.size, outer)(outer, u, values)
    return float(values.mean())


def block_slopes(outer: Outer, u: np.ndarray) -> np.ndarray:
    """y of shape (n, m), each yᵢ a subgradient of f at uᵢ, of inner values u (n, m)."""
    y = np.empty_like(u)
    worthwhile(write_block_slopes, u.size, outer)(outer, u, y)
    return y


@kernel
def block_values(outer, u, out):
    for i in range(u.shape[0]):
        out[i] = block_value(outer, u[i])


@kernel
def write_block_slopes(outer, u, y):
    for i in range(u.shape[0]):
        block_slope(outer, u[i], y[i])


def is_risk(outer: Outer) -> bool:
    """Whether ``outer`` is a joint risk over the blocks."""
    return type(outer) in risk_value.table


def is_outer(outer: Outer) -> bool:
    """Whether ``outer`` is an outer function of one block."""
    return type(outer) in outer_value.table or type(outer) in block_value.table


def inner_values(problem: Problem, w: np.ndarray) -> np.ndarray:
    """g(w), exact, of shape (n, m)."""
    w = np.ascontiguousarray(w, dtype=np.float64)
    d = inner_size(problem.inner)
    if w.shape != (d,):
        raise ValueError(f"w must have shape ({d},), got {w.shape}")
    u = np.empty((inner_count(problem.inner), inner_dim(problem.inner)))
    exact_values(problem.inner, w, u)
    return u


def coupled(problem: Problem, bounds: ThresholdBounds = ThresholdBounds()) -> Problem:
    """The problem as a finite sum of f(gᵢ(x)): a risk ρ(u) = min_c c + mean f(uᵢ − c) gets its threshold c as variable.

    Of the new variable x = (w, c) the threshold stands last, within the bounds.
    """
    problem = canonical(problem)
    if not is_risk(problem.outer):
        return problem
    if not risk_outer.implemented(problem.outer):
        raise ValueError(
            f"the method needs a risk of the form min_c c + mean f(u − c), got {type(problem.outer).__name__}: "
            "Auto and the methods for divergence balls, such as SCDRO, take it"
        )
    outer = risk_outer(problem.outer, inner_count(problem.inner))
    low, high = canonical(bounds)
    return Problem(Shifted(problem.inner), outer, WithThreshold(problem.penalty, 1.0, low, high))


def coupled_start(problem: Problem, w: np.ndarray, bounds: ThresholdBounds = ThresholdBounds()) -> np.ndarray:
    """The variable of the coupled problem at ``w``, its threshold optimal there or the bound next to that."""
    if not is_risk(problem.outer):
        return w.copy()
    u = np.ascontiguousarray(inner_values(problem, w)[:, 0])
    return np.append(w, np.clip(risk_threshold(problem.outer, u), *bounds))
