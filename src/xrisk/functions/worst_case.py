"""The worst case of given losses over distributions near the observed one, to machine precision."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xrisk.annotations import Vector
from xrisk.compile import kernel
from xrisk.functions.ambiguity import excess_case, tail_case, tilted_case
from xrisk.functions.parameters import non_negative, require, share

LEAST_MASS = 1e-100  # relative to the largest: squares of quotients of masses must be numbers


class WorstCase(NamedTuple):
    """The distribution under which given losses are worst, as `worst_case` finds it."""

    weights: np.ndarray  # (n,) the worst distribution
    value: float  # the expected loss under it, less strength times its divergence
    multiplier: float  # λ of the divergence; the value at risk of "cvar"; nan of "spectral"


class DistributionSet(NamedTuple):
    """A set of distributions that `worst_case` knows: how the worst one is found, and the arguments it takes."""

    solve: Callable[..., tuple[float, float]]
    needs: tuple[str, ...]  # at least one of them


def worst_case(
    losses: Any,
    *,
    ambiguity: str = "kl",
    alpha: float | None = None,
    radius: float | None = None,
    strength: float | None = None,
    spectrum: Any = None,
    sample_weight: Vector = None,
) -> WorstCase:
    """The largest expectation of the losses over distributions q near the observed one, and the q that attains it.

    ============== =====================================================================================================
    ``"kl"``       max of ⟨q, v⟩ − strength·KL(q) over KL(q) ≤ radius, KL(q) = Σ qᵢ log(qᵢ/pᵢ); either may be left out
    ``"chi2"``     the same with χ²(q) = ½ Σ pᵢ (qᵢ/pᵢ − 1)²
    ``"cvar"``     max of ⟨q, v⟩ over qᵢ ≤ pᵢ/alpha: the mean of the worst share alpha of the losses
    ``"spectral"`` Σ σᵢ v₍ᵢ₎, the losses in descending order, weighted by ``spectrum``
    ============== =====================================================================================================

    Parameters
    ----------
    losses : array-like of shape (n,)
        The losses v, finite, of any scale.
    ambiguity : {"kl", "chi2", "cvar", "spectral"}
        The set of distributions.
    alpha : float in (0, 1], optional
        For "cvar".
    radius : float, optional
        The largest divergence, not negative; 0 is the observed distribution itself.
    strength : float, optional
        The price λ₀ of divergence, not negative. Without a radius it must be positive.
    spectrum : array-like of shape (k,), optional
        For "spectral": non-increasing weights, not negative, of k equal shares of the losses, the worst first; scaled
        to a sum of one. With k = n and equal sample weights: the weight of the largest loss, of the second largest, …
    sample_weight : array-like of shape (n,), optional
        The observed distribution p up to a factor; equal masses 1/n by default. Weights below 1e-100 of the
        largest count as zero.

    Returns
    -------
    WorstCase
        ``weights``, ``value`` and ``multiplier``. Equal losses share weight in proportion to their masses.

    Notes
    -----
    On a KL ball [1]_ q ∝ p exp(v/λ), and a safeguarded Newton method finds λ ≥ λ₀ from KL(q) = radius. On a χ² ball
    [3]_ q = p (v − η)₊/λ, where only the set of positive weights has to be found. CVaR [2]_ is computed by selection.
    Each step is one pass over the losses; "spectral" sorts them.

    References
    ----------
    .. [1] Qi, Lyu, Chan, Bai, Yang. Stochastic constrained DRO with a complexity independent of sample size.
       TMLR 2023.
    .. [2] Rockafellar, Uryasev. Optimization of conditional value-at-risk. Journal of Risk 2, 2000.
    .. [3] Duchi, Namkoong. Variance-based regularization with convex objectives. JMLR 20, 2019.

    Examples
    --------
    >>> import xrisk
    >>> found = xrisk.worst_case([0.0, 1.0, 2.0, 3.0], ambiguity="chi2", radius=0.1)
    >>> found.weights.round(6).tolist(), round(found.value, 6)
    ([0.1, 0.2, 0.3, 0.4], 2.0)
    >>> round(xrisk.worst_case([0.0, 1.0, 2.0, 3.0], ambiguity="kl", radius=0.1).multiplier, 6)
    2.413506
    >>> xrisk.worst_case([0.0, 1.0, 2.0, 3.0], ambiguity="cvar", alpha=0.5).value
    2.5
    """
    given = {"alpha": alpha, "radius": radius, "strength": strength, "spectrum": spectrum}
    known = {name: value for name, value in given.items() if value is not None}
    chosen = _chosen(ambiguity, known)
    v = _vector("losses", losses)
    p = np.empty(0) if sample_weight is None else _masses(sample_weight, v.size)
    q = np.empty(v.size)
    value, multiplier = chosen.solve(v, p, q, **known)
    return WorstCase(q, float(value), float(multiplier))


def _chosen(ambiguity: str, known: dict[str, Any]) -> DistributionSet:
    """The set of this name; refuse arguments that it does not take."""
    if ambiguity not in SETS:
        raise ValueError(f"ambiguity must be one of {', '.join(map(repr, SETS))}, got {ambiguity!r}")
    chosen = SETS[ambiguity]
    words = " or ".join(chosen.needs)
    for name, value in known.items():
        if name not in chosen.needs:
            raise ValueError(
                f"{name} must be left out with ambiguity={ambiguity!r}, which takes {words}, got {value!r}"
            )
        if name != "spectrum" and (isinstance(value, bool) or not isinstance(value, float | int | np.number)):
            raise TypeError(f"{name} must be a number, got {value!r}")
    if not known:
        raise ValueError(f"{words} must be given with ambiguity={ambiguity!r}, got none")
    return chosen


def _vector(name: str, values: Any) -> np.ndarray:
    try:
        v = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got a {type(values).__name__}") from None
    if v.ndim != 1 or v.size == 0:
        raise ValueError(f"{name} must have shape (n,) with n at least 1, got shape {v.shape}")
    if not np.isfinite(v).all():
        at = int(np.argmin(np.isfinite(v)))
        raise ValueError(f"{name} must be finite, got {v[at]} at position {at}")
    return v


def _masses(values: Any, n: int) -> np.ndarray:
    p = _vector("sample_weight", values)
    if p.size != n:
        raise ValueError(f"sample_weight must have one entry for each of the {n} losses, got {p.size}")
    if p.min() < 0.0 or p.max() == 0.0:
        raise ValueError(f"sample_weight must be non-negative and not all zero, got {p.min()} as the smallest")
    p = p / p.max()  # a sum of huge ones would overflow
    p[p < LEAST_MASS] = 0.0
    return p / p.sum()


def _mean(v: np.ndarray, p: np.ndarray, q: np.ndarray) -> tuple[float, float]:
    """The observed distribution: the ball of radius 0, whose multiplier is infinite."""
    q[:] = p if p.size else 1.0 / v.size
    half = 0.5 * v  # a sum of huge ones would overflow
    return 2.0 * math.fsum(q * half), math.inf


def _by_divergence(case: Callable[..., tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    def solve(
        v: np.ndarray, p: np.ndarray, q: np.ndarray, radius: float = math.inf, strength: float = 0.0
    ) -> tuple[float, float]:
        if radius != math.inf:
            non_negative("radius", radius)
        non_negative("strength", strength)
        require(strength > 0.0 or radius < math.inf, "strength", strength, "positive unless a radius is given")
        return case(v, p, float(strength), float(radius), q) if radius > 0.0 else _mean(v, p, q)

    return solve


def _cvar(v: np.ndarray, p: np.ndarray, q: np.ndarray, alpha: float) -> tuple[float, float]:
    share("alpha", alpha)
    return tail_case(v, p, float(alpha), q)


def _spectral(v: np.ndarray, p: np.ndarray, q: np.ndarray, spectrum: Any) -> tuple[float, float]:
    sigma = _vector("spectrum", spectrum)
    if sigma.min() < 0.0 or sigma.max() == 0.0 or (np.diff(sigma) > 0.0).any():
        raise ValueError("spectrum must be non-increasing, non-negative and not all zero: the worst losses weigh most")
    order = np.argsort(-v, kind="stable")
    until = np.append(0.0, np.cumsum(sigma / sigma.max()))
    spread_spectrum(v[order], p[order] if p.size else p, until / until[-1], q)
    weights = q.copy()
    q[order] = weights
    half = 0.5 * v
    return 2.0 * math.fsum(q * half), math.nan


@kernel
def spread_spectrum(v, p, until, q):
    """Weights of sorted losses v from the cumulative spectrum ``until`` (k + 1,); equal losses share their weight."""
    n, k, total, before, start = v.size, until.size - 1, 0.0, 0.0, 0
    for i in range(n):
        total += p[i] if p.size > 0 else 1.0
    reached = 0.0
    for i in range(n):
        reached += p[i] if p.size > 0 else 1.0
        if i + 1 < n and v[i + 1] == v[i]:
            continue
        place = min(k * (reached / total), float(k)) if p.size > 0 or k != n else float(i + 1)
        low = min(int(place), k - 1)
        after = until[low] + (place - low) * (until[low + 1] - until[low])
        mass = 0.0
        for j in range(start, i + 1):
            mass += p[j] if p.size > 0 else 1.0
        for j in range(start, i + 1):
            q[j] = (after - before) * ((p[j] if p.size > 0 else 1.0) / mass) if mass > 0.0 else 0.0
        start, before = i + 1, after


SETS = {
    "kl": DistributionSet(_by_divergence(tilted_case), ("radius", "strength")),
    "chi2": DistributionSet(_by_divergence(excess_case), ("radius", "strength")),
    "cvar": DistributionSet(_cvar, ("alpha",)),
    "spectral": DistributionSet(_spectral, ("spectrum",)),
}
