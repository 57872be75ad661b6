"""Policy evaluation: the mean squared Bellman residual of values that are linear in features."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.annotations import Domain, Inner, Matrix, Rows, Spec, Vector
from xrisk.applications.arguments import as_number, checked_problem, domain_penalty, mean_loss
from xrisk.applications.chain_arguments import chain_of
from xrisk.applications.chains import (
    mean_rewards,
    residual_matrix,
    residuals_anew,
    residuals_of,
    simulator_law,
    uniform_law,
)
from xrisk.applications.squares import squares_about_minimiser
from xrisk.certificate.doubled import DoubledScores, doubled_scores, plain_scores
from xrisk.certificate.least_squares import MOST_COLUMNS
from xrisk.certificate.rounding import EPS
from xrisk.certificate.squares import BLOCK, Residuals, Squares, column_norms
from xrisk.data.matrices import fresh_csr, refuse_broken
from xrisk.data.products import row_block
from xrisk.data.rows import as_numbers, frozen, kept_dtype, refuse_non_finite
from xrisk.functions import NoPenalty, Square, Squared
from xrisk.functions.loss import AffineLoss
from xrisk.functions.parameters import require
from xrisk.inner import Equal, Groups, LinearModel, Transitions, Weighted, as_rows
from xrisk.problem import Problem

SMALL = 10**7  # entries; sparse features of at most so many are made dense for methods that sample
LAWS = {"simulator": simulator_law, "uniform": uniform_law}
SAMPLINGS = (*LAWS, "exact")


class Penalty(NamedTuple):
    """(l2/2)‖w‖² on a domain."""

    l2: float
    domain: Domain  # NoPenalty() if there is none

    def joined(self) -> Any:
        """As one penalty."""
        return domain_penalty(self.l2, self.domain)


def bellman(
    P: Matrix,
    reward: Any,
    features: Rows,
    *,
    discount: float = 0.9,
    l2: float = 0.0,
    domain: Domain = None,
    sampling: str = "simulator",
) -> Problem:
    """Values φᵀw of least squared Bellman residual: mean_s (φₛᵀw − Σ_{s′} P_ss′ (r_ss′ + γ φ_{s′}ᵀw))² + (l2/2)‖w‖².

    Parameters
    ----------
    P : array or sparse matrix (states, states), tuple (states, successors), or `xrisk.inner.Generated`
        Probabilities of the transitions under the policy; rows must sum to one, and are divided by their sums. A row of
        zeros ends the episode: no value follows. A tuple of two index arrays lists observed transitions, where the
        successor −1 ends the episode. P then has their frequencies; states that are never left have no residual and do
        not count in the mean. Generated transitions are those of `xrisk.datasets.make_mdp`.
    reward : array (states,) or (states, states), or sparse matrix; array (transitions,)
        r_s of leaving state s, or r_ss′ of a transition; of observed transitions one for each, or for each state.
        None for generated transitions, which have their own.
    features : array (states, d), or sparse matrix
        φ. Sparse features are made dense for methods that sample, and refused there if they are large.
    discount : float
        γ, between 0 and 1.
    l2 : float
        Strength of the penalty.
    domain : domain spec, optional
        Such as ``Ball(10.0)``: the theorems need a Lipschitz outer function, and the square is Lipschitz on bounded
        sets only.
    sampling : {"simulator", "uniform", "exact"}
        How successors are sampled: s′ from P_s, or uniformly over the stored entries of row s, of which a dense
        matrix stores all, with the weight N·P_ss′ of N entries [1]_, equation (19); the first has the lower variance.
        "exact" samples no successors: every residual is one row, for methods that read one state at a time.

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
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r}")
    features = state_features(features)
    chain = chain_of(P, reward, features.shape[0])
    return residual_problem(chain, features, discount, penalty_on(l2, domain), sampling)


def residual_problem(chain: Spec, features: Rows, discount: float, penalty: Penalty, sampling: str) -> Problem:
    """The problem of `bellman` from its parts."""
    if sampling != "exact":
        features = _dense(features)
    gamma = as_discount(discount)
    rows, targets = residuals_of(chain, features, gamma)
    inner: Inner
    if sampling == "exact":
        model = LinearModel(as_rows(rows), frozen(targets), AffineLoss())
        inner = Groups(model, frozen(np.arange(targets.size + 1)))
    else:
        placed = frozen(in_order(features, chain.order))
        inner = Transitions(placed, LAWS[sampling](chain), gamma, frozen(rows), frozen(targets))
    return checked_problem(inner, Square(), penalty.joined())


def averaged_bellman(
    P: Matrix,
    reward: Any,
    features: Rows,
    *,
    discount: float = 0.9,
    l2: float = 0.0,
    domain: Domain = None,
    state_weight: Vector = None,
) -> Problem:
    """The objective of `bellman` with the expectations taken first: Σₛ aₛ (φₛᵀw − bₛ − γ(PΦ)ₛw)² / Σₛ aₛ + (l2/2)‖w‖².

    The residuals are affine, so this is the same function of w, one mean over all states, for methods that read all
    of them. Parameters are those of `bellman`; features may be sparse and stay so.

    Parameters
    ----------
    state_weight : array (states,), optional
        aₛ, for example visit frequencies; equal weights by default.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.applications import averaged_bellman, bellman
    >>> P, reward, w = [[0.5, 0.5], [0.0, 1.0]], [1.0, 2.0], np.array([3.0, 1.0])
    >>> round(averaged_bellman(P, reward, np.eye(2)).value(w) - bellman(P, reward, np.eye(2)).value(w), 12)
    0.0
    """
    features = state_features(features)
    chain = chain_of(P, reward, features.shape[0])
    return averaged_problem(chain, features, discount, penalty_on(l2, domain), state_weight)


def averaged_problem(chain: Spec, features: Rows, discount: float, penalty: Penalty, state_weight: Vector) -> Problem:
    """The problem of `averaged_bellman` from its parts."""
    residuals, targets = known_residuals(chain, features, as_discount(discount))
    weight = _weights(state_weight, features.shape[0], chain)
    share = getattr(weight, "weights", np.ones(targets.size)) / targets.size
    summed = squares_about_minimiser(residuals.storage, targets, share, l2=penalty.l2, domain=penalty.domain)
    if summed is not None:
        return summed
    rows = residuals.whole()
    rows *= np.sqrt(2.0)  # the squared loss is ½(z − y)²
    model = LinearModel(as_rows(rows), frozen(np.sqrt(2.0) * targets), Squared())
    return mean_loss(model, penalty.joined(), weight)


def residual_squares(chain: Spec, features: Rows, discount: float, l2: float, state_weight: Vector) -> Squares:
    """The objective of `averaged_bellman` from the original features, transitions and rewards, for proofs."""
    gamma = as_discount(discount)
    known, targets = known_residuals(chain, features, gamma)
    weight = _weights(state_weight, features.shape[0], chain)
    share, d = getattr(weight, "weights", np.ones(targets.size)) / targets.size, features.shape[1]
    blocks = ((slice(low, low + BLOCK), known.part(low, low + BLOCK)) for low in range(0, targets.size, BLOCK))
    norms = column_norms(share, blocks, d)[0]
    each = EPS * (2 * chain.longest() + 16)  # a probability and a mean over successors
    loose, none = each * (1.0 + gamma) * _largest(features), np.zeros(d)

    def residuals(w: np.ndarray, doubled: bool) -> Residuals:
        values = _values(features, w, doubled)
        found, rewards = residuals_of(chain, (values.high + values.low)[:, None], gamma)
        size = (1.0 + gamma) * float(np.abs(values.high).max()) + chain.largest()
        error = each * size + (1.0 + gamma) * float(values.error.max())
        return Residuals(found[:, 0] - rewards, np.broadcast_to(error, rewards.shape), 0.0, 0.0)

    return Squares(known.part, share, 1.0, float(l2), none, none, norms, loose, residuals)


def _largest(features: Rows) -> np.ndarray:
    """The largest size (d,) in each column."""
    high, low = features.max(axis=0), features.min(axis=0)
    if scipy.sparse.issparse(features):
        high, low = (end.toarray().reshape(-1) for end in (high, low))
    return np.maximum(high, -low).astype(np.float64)


def _values(features: Rows, w: np.ndarray, doubled: bool) -> DoubledScores:
    """Φw of all states, block after block; sparse features of many columns are not made dense."""
    sparse, doubled = scipy.sparse.issparse(features), doubled and w.size <= MOST_COLUMNS
    if sparse and not doubled:
        return plain_scores(features, w)
    scores, found = doubled_scores if doubled else plain_scores, np.empty((3, features.shape[0]))
    for low in range(0, features.shape[0], BLOCK):
        part = features[low : low + BLOCK]
        found[:, low : low + BLOCK] = scores(part.toarray() if sparse else part.astype(np.float64, copy=False), w)
    return DoubledScores(*found)


class Known(NamedTuple):
    """The rows A = Φ − γPΦ (n, d) of the states that are left."""

    storage: Any  # for products with all of them
    whole: Callable[[], Any]  # one matrix, dense or CSR as the features are
    part: Callable[[int, int], Any]  # rows from one to another


def known_residuals(chain: Spec, features: Rows, gamma: float) -> tuple[Known, np.ndarray]:
    """The residuals and the mean rewards b (n,); many rows are computed from the features whenever they are read."""
    rows = residuals_anew(chain, features, gamma)
    if rows is not None:
        known = Known(rows, partial(residual_matrix, rows), lambda low, high: row_block(rows, slice(low, high)))
        return known, mean_rewards(chain)
    matrix, targets = residuals_of(chain, features, gamma)
    return Known(as_rows(matrix), lambda: matrix, lambda low, high: matrix[low:high]), targets


def in_order(features: Rows, order: np.ndarray) -> Any:
    """The features, sorted so that the states that are left come first; unchanged if all are left."""
    return features if (order[:-1] < order[1:]).all() else features[order]


def as_discount(discount: Any) -> float:
    """γ as a float between 0 and 1."""
    gamma = as_number("discount", discount)
    require(0.0 <= gamma <= 1.0, "discount", gamma, "between 0 and 1")
    return gamma


def state_features(features: Rows) -> Any:
    """Features as a C-ordered array of float32 or float64, or a CSR matrix; refuses anything but a finite matrix."""
    sparse = scipy.sparse.issparse(features)
    if sparse:
        features = fresh_csr(refuse_broken("features", features)).astype(np.float64, copy=False)
    else:
        features = as_numbers("features", features)
        features = np.ascontiguousarray(features, dtype=kept_dtype(features.dtype))
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features must have a row for each state and at least one column, got shape {features.shape}")
    refuse_non_finite("features", features.data[:, None] if sparse else features)
    return features


def _dense(features: Rows) -> np.ndarray:
    if not scipy.sparse.issparse(features):
        return features.astype(np.float64, copy=False)
    size = features.shape[0] * features.shape[1]
    if size > SMALL:
        raise ValueError(
            f"features must be dense for methods that sample, or sparse with at most {SMALL} numbers, got {size}: "
            "averaged_bellman, sampling='exact' and solver='auto' take them as they are"
        )
    return features.toarray()


def _weights(state_weight: Vector, states: int, chain: Spec) -> Any:
    """Weights of the states that are left, which average to one."""
    if state_weight is None:
        return Equal()
    weight = as_numbers("state_weight", state_weight)
    if weight.shape != (states,):
        raise ValueError(f"state_weight must have shape ({states},), got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
        raise ValueError("state_weight must be finite and not negative")
    weight = weight[chain.order[: chain.counted()]].astype(np.float64)
    if not weight.any():
        raise ValueError("state_weight must be positive for some state that is left, it is zero for all")
    weight /= weight.max()  # the sum of large ones would overflow
    return Weighted(frozen(weight * (weight.size / weight.sum())))


def penalty_on(l2: Any, domain: Domain = None) -> Penalty:
    """The penalty that the arguments of `bellman` describe."""
    domain_penalty(l2, domain)  # refuses what is no strength or no domain
    return Penalty(float(l2), NoPenalty() if domain is None else domain)
