"""Policy evaluation: the mean squared Bellman residual of values that are linear in features."""

import itertools
from typing import Any

import numpy as np
import scipy.sparse

from xrisk.applications.arguments import as_number, penalty_of
from xrisk.data.rows import as_numbers, frozen
from xrisk.functions import NoPenalty, Restricted, Square, prox
from xrisk.inner import Reweighted, Simulated, Transitions
from xrisk.problem import Problem

ROUNDING = 1e-6  # by which a row of probabilities may miss the sum one


def bellman(
    P: Any,
    reward: Any,
    features: Any,
    *,
    discount: float = 0.9,
    l2: float = 0.0,
    domain: Any = None,
    sampling: str = "simulator",
) -> Problem:
    """Values φᵀw of least squared Bellman residual: mean_s (φₛᵀw − Σ_{s′} P_ss′ (r_ss′ + γ φ_{s′}ᵀw))² + (l2/2)‖w‖².

    Parameters
    ----------
    P : array or sparse matrix (states, states)
        Probabilities of the transitions under the policy; rows sum to one, and are divided by what they sum to.
    reward : array (states,) or (states, states), or sparse matrix
        r_s of leaving state s, or r_ss′ of a transition.
    features : array (states, d)
        φ.
    discount : float
        γ, between 0 and 1.
    l2 : float
        Strength of the penalty.
    domain : domain spec, optional
        Such as ``Ball(10.0)``: the square is Lipschitz on a bounded set only, which the theorems ask for.
    sampling : {"simulator", "uniform"}
        How successors are sampled: s′ from P_s, or uniformly over the stored entries of row s, of which a dense
        matrix stores all, with the weight N·P_ss′ of N entries [1]_, equation (19); the first has the lower variance.

    Returns
    -------
    Problem
        ``problem.inner.mean_rows`` and ``mean_reward`` are A = Φ − γPΦ and b of the least squares ‖Aw − b‖²/states.

    Notes
    -----
    f(u) = u² is not monotone; the problem is convex because the residuals are affine. In the ALEXR text (section 2.3)
    f carries another factor 1/states, which changes the scale only.

    References
    ----------
    .. [1] Devraj and Chen, Stochastic variance reduced primal dual algorithms for empirical composition optimization.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import bellman
    >>> from xrisk.solvers import exact
    >>> problem = bellman([[0.5, 0.5], [0.0, 1.0]], [1.0, 2.0], np.eye(2), discount=0.8)
    >>> exact(problem).w.round(6)  # v₂ = 2 + 0.8 v₂
    array([ 8.333333, 10.      ])
    """
    features = _features(features)
    P = _probabilities(P, features.shape[0])
    reward = _rewards(reward, P)
    means = np.asarray(P.multiply(reward).sum(axis=1)).reshape(-1)
    gamma = as_number("discount", discount)
    laws = {"simulator": _simulated, "uniform": _reweighted}
    if sampling not in laws:
        raise ValueError(f"sampling must be one of {', '.join(laws)}, got {sampling!r}")
    inner = Transitions(
        frozen(features),
        laws[sampling](P),
        frozen(P.indices.astype(np.int32, copy=False)),
        frozen(reward.data),
        frozen(P.indptr.astype(np.int64)),
        gamma,
        frozen(features - gamma * (P @ features)),
        frozen(means),
    )
    problem = Problem(inner, Square(), _penalty(l2, domain))
    problem.check()
    return problem


def _features(features: Any) -> np.ndarray:
    features = np.ascontiguousarray(as_numbers("features", features), dtype=np.float64)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must have a row for each state and at least one column, got shape {features.shape}")
    if not np.isfinite(features).all():
        raise ValueError("features must be finite, they hold NaN or infinity")
    return features


def _probabilities(P: Any, states: int) -> Any:
    """P by compressed rows; of a dense matrix every entry is stored."""
    if not scipy.sparse.issparse(P):
        P = _stored(as_numbers("P", P), "P", states)
    P = scipy.sparse.csr_array(P).astype(np.float64)
    if P.shape != (states, states):
        raise ValueError(f"P must have shape ({states}, {states}), one row for each row of features, got {P.shape}")
    P.sum_duplicates()
    if not (np.isfinite(P.data).all() and (P.data >= 0.0).all()):
        raise ValueError("P must hold probabilities, it holds a negative number, NaN or infinity")
    sums = np.asarray(P.sum(axis=1)).reshape(-1)
    if not (np.abs(sums - 1.0) <= ROUNDING).all():
        row = int(np.argmax(np.abs(sums - 1.0)))
        raise ValueError(f"P must have rows that sum to one, row {row} sums to {sums[row]}")
    P.data /= np.repeat(sums, np.diff(P.indptr))
    return P


def _stored(array: np.ndarray, name: str, states: int) -> Any:
    if array.shape != (states, states):
        raise ValueError(f"{name} must have shape ({states}, {states}), got {array.shape}")
    indices, indptr = np.tile(np.arange(states, dtype=np.int32), states), states * np.arange(states + 1)
    return scipy.sparse.csr_array((np.array(array, dtype=np.float64).reshape(-1), indices, indptr), shape=array.shape)


def _rewards(reward: Any, P: Any) -> Any:
    """Rewards where P has its entries, stored as those are."""
    states, sizes = P.shape[0], np.diff(P.indptr)
    reward = scipy.sparse.csr_array(reward) if scipy.sparse.issparse(reward) else as_numbers("reward", reward)
    if reward.shape not in ((states,), P.shape):
        raise ValueError(f"reward must have shape ({states},) or {P.shape}, got {reward.shape}")
    if reward.ndim == 1:
        data = np.repeat(reward, sizes).astype(np.float64)
    else:
        picked = reward[np.repeat(np.arange(states), sizes), P.indices]
        data = np.asarray(picked.toarray() if scipy.sparse.issparse(picked) else picked, dtype=np.float64).reshape(-1)
    if not np.isfinite(data).all():
        raise ValueError("reward must be finite, it holds NaN or infinity")
    return scipy.sparse.csr_array((data, P.indices, P.indptr), shape=P.shape)


def _simulated(P: Any) -> Simulated:
    cumulative = np.empty_like(P.data)
    for low, high in itertools.pairwise(P.indptr):
        np.cumsum(P.data[low:high], out=cumulative[low:high])
    return Simulated(frozen(cumulative))


def _reweighted(P: Any) -> Reweighted:
    return Reweighted(frozen(P.data))


def _penalty(l2: float, domain: Any) -> Any:
    penalty = penalty_of(0.0, l2, False, None)
    if domain is None:
        return penalty
    if not prox.implemented(domain):
        raise TypeError(f"domain must be a domain spec such as Ball(1.0), got {domain!r}")
    return domain if isinstance(penalty, NoPenalty) else Restricted(penalty, domain)
