"""Random Markov decision processes under a fixed policy."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.functions.parameters import whole_from
from xrisk.inner.generated import generated_transitions, materialised

MOST_STORED = 2000  # states of which all transitions are stored


class MDP(NamedTuple):
    """What `xrisk.applications.bellman` and `xrisk.PolicyEvaluator` take.

    Parameters
    ----------
    features : array (states, d)
        φ.
    transitions : array or CSR matrix (states, states), or `xrisk.inner.Generated`
        Probabilities under the policy.
    rewards : array (states, states) or (states,), or None
        Of the transitions, or of leaving a state; None where generated transitions have their own.
    """

    features: np.ndarray
    transitions: Any
    rewards: np.ndarray | None


def make_mdp(
    n_states: int = 100,
    n_features: int = 10,
    *,
    successors: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> MDP:
    """A random Markov decision process under a fixed policy, with features uniform in (0, 1).

    Every state leads to every other, P_ij = u_ij / Σₖ u_ik with u and the rewards r_ij uniform in (0, 1): the problem
    of the experiments in [1]_. With ``successors`` every state leads to so many others, drawn without replacement,
    with the probabilities between uniform cuts of (0, 1) and one reward for each state (a Garnet problem, [2]_).

    Parameters
    ----------
    n_states, n_features : int
        States, columns of the features.
    successors : int, optional
        From 1 to ``n_states``.
    random_state : int or Generator, optional
        The seed.

    Returns
    -------
    MDP
        For up to 2,000 states that all lead to each other, the matrices; for more, transitions that are computed on
        demand and take one number for each state. With ``successors`` a CSR matrix.

    References
    ----------
    .. [1] Devraj and Chen, Stochastic variance reduced primal dual algorithms for empirical composition optimization.
    .. [2] Archibald, McKinnon and Thomas, On the generation of Markov decision processes.

    Examples
    --------
    >>> import xrisk
    >>> from xrisk.datasets import make_mdp
    >>> mdp = make_mdp(500, 4, successors=3, random_state=0)
    >>> mdp.transitions.nnz
    1500
    >>> model = xrisk.PolicyEvaluator(0.9).fit(mdp.features, transitions=mdp.transitions, rewards=mdp.rewards)
    >>> model.certificate_.relative <= 1e-3
    True
    """
    whole_from(1)("n_states", n_states)
    whole_from(1)("n_features", n_features)
    rng = np.random.default_rng(random_state)
    features = rng.random((n_states, n_features))
    if successors is not None:
        whole_from(1)("successors", successors)
        if successors > n_states:
            raise ValueError(f"successors must be at most n_states={n_states}, got {successors}")
        return MDP(features, _garnet(n_states, successors, rng), rng.random(n_states))
    law = generated_transitions(n_states, int(rng.integers(2**63)))
    if n_states > MOST_STORED:
        return MDP(features, law, None)
    return MDP(features, *materialised(law))


def _garnet(states: int, successors: int, rng: np.random.Generator) -> Any:
    cuts = np.sort(rng.random((states, successors - 1)), axis=1)
    chances = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    listed = _distinct(states, successors, rng)
    indptr = successors * np.arange(states + 1)
    return scipy.sparse.csr_array((chances.reshape(-1), listed.reshape(-1), indptr), shape=(states, states))


def _distinct(states: int, successors: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct numbers below ``states`` in each row of an array (states, successors), ascending."""
    if 4 * successors**2 > states:  # too many would have to be redrawn
        drawn = np.array([rng.choice(states, successors, replace=False) for _ in range(states)], dtype=np.int32)
        return np.sort(drawn, axis=1)
    listed = np.sort(rng.integers(0, states, (states, successors), dtype=np.int32), axis=1)
    while (repeated := (np.diff(listed, axis=1) == 0).any(axis=1)).any():
        listed[repeated] = np.sort(rng.integers(0, states, (int(repeated.sum()), successors), dtype=np.int32), axis=1)
    return listed
