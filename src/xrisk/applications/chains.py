"""Markov chains: how their transitions are stored, what they average to, and how they are drawn."""
# mypy: disable-error-code="empty-body"

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.compile import kernel, prefetch, worthwhile
from xrisk.data.rows import frozen
from xrisk.data.threads import borders, in_parts
from xrisk.generic import generic
from xrisk.inner import Generated, GeneratedSimulator, Reweighted, Simulated
from xrisk.inner.generated import generated_means

AHEAD = 8  # transitions whose features are asked for before they are read


class Stored(NamedTuple):
    """Transitions of the first n states, state after state; a state without any ends the episode."""

    successors: np.ndarray  # (transitions,) −1 where the episode ends
    starts: np.ndarray  # (n + 1,)
    probability: np.ndarray  # (transitions,)
    reward: np.ndarray  # (transitions,) of each transition, added to
    leaving: np.ndarray  # (n,) the reward of leaving the state
    order: np.ndarray  # (states,) the states as given, those that are left before the others

    def counted(self) -> int:
        """How many states are left."""
        return self.leaving.size

    def longest(self) -> int:
        """The most transitions of one state."""
        return int(np.diff(self.starts).max(initial=0))

    def largest(self) -> float:
        """A bound on the mean rewards."""
        return float(np.abs(self.leaving).max(initial=0.0) + np.abs(self.reward).max(initial=0.0))

    def states(self) -> np.ndarray:
        """The state (transitions,) of every transition."""
        return np.repeat(np.arange(self.counted()), np.diff(self.starts))


class FullChain(NamedTuple):
    """Transitions between all states, by a dense matrix."""

    P: np.ndarray  # (states, states) probabilities times
    sums: np.ndarray  # (states,) what its rows sum to; one where they are zero and the episode ends
    reward: np.ndarray  # (states, states) of each transition, added to
    leaving: np.ndarray  # (states,) the reward of leaving the state
    order: np.ndarray  # (states,)

    def counted(self) -> int:
        """How many states are left: all."""
        return self.order.size

    def longest(self) -> int:
        """The most transitions of one state: to all."""
        return self.order.size

    def largest(self) -> float:
        """A bound on the mean rewards."""
        return float(np.abs(self.leaving).max() + np.abs(self.reward).max())


class GeneratedChain(NamedTuple):
    """Transitions that are computed when they are asked for."""

    law: Generated
    order: np.ndarray  # (states,)

    def counted(self) -> int:
        """How many states are left: all."""
        return self.order.size

    def longest(self) -> int:
        """The most transitions of one state: to all."""
        return self.order.size

    def largest(self) -> float:
        """A bound on the mean rewards, which lie in (0, 1)."""
        return 1.0


@generic
def residuals_of(chain: Any, features: Any, gamma: float) -> tuple[Any, np.ndarray]:
    """Φ − γPΦ, a row for each state that is left, and the mean rewards there; features in the order of the chain."""


@generic
def simulator_law(chain: Any) -> Any:
    """The law that draws s′ from P_s."""


@generic
def uniform_law(chain: Any) -> Any:
    """The law that draws s′ uniformly over the stored transitions."""


@residuals_of.of(Stored)
def _(chain, features, gamma):
    n, means = chain.counted(), chain.leaving
    if chain.reward.any():
        means = means + np.bincount(chain.states(), weights=chain.probability * chain.reward, minlength=n)
    sparse = scipy.sparse.issparse(features)
    return _sparse_residuals(chain, features, gamma) if sparse else _dense_residuals(chain, features, gamma), means


def _dense_residuals(chain: Stored, features: np.ndarray, gamma: float) -> np.ndarray:
    rows, n = np.empty((chain.counted(), features.shape[1])), chain.counted()
    table = (frozen(chain.successors), frozen(chain.starts), frozen(chain.probability), frozen(features))
    run = worthwhile(write_residuals, chain.successors.size * features.shape[1])
    in_parts(lambda low, high: run(*table, gamma, low, rows[low:high]), borders(n, features.shape[1]))
    return rows


def _sparse_residuals(chain: Stored, features: Any, gamma: float) -> Any:
    goes_on = chain.successors >= 0
    data, indices = chain.probability[goes_on], chain.successors[goes_on]
    indptr = np.append(0, np.cumsum(goes_on))[chain.starts]
    P = scipy.sparse.csr_array((data, indices, indptr), shape=(chain.counted(), features.shape[0]))
    return features[: chain.counted()] - gamma * (P @ features)


@kernel
def write_residuals(successors, starts, probability, features, gamma, first, out):
    for i in range(out.shape[0]):
        s, row = first + i, out[i]
        for j in range(row.size):
            row[j] = features[s, j]
        for p in range(starts[s], starts[s + 1]):
            prefetch(features, max(successors[min(p + AHEAD, successors.size - 1)], 0))
            if successors[p] >= 0:
                scale, after = gamma * probability[p], features[successors[p]]
                for j in range(row.size):
                    row[j] -= scale * after[j]


@residuals_of.of(FullChain)
def _(chain, features, gamma):
    if scipy.sparse.issparse(features):
        return residuals_of(listed(chain), features, gamma)
    rows = chain.P @ features
    rows *= (-gamma / chain.sums)[:, None]
    rows += features
    return rows, chain.leaving + np.einsum("ij,ij->i", chain.P, chain.reward) / chain.sums


def listed(chain: FullChain) -> Stored:
    """The chain with every entry of the matrix as a transition, but for rows of zeros."""
    states, goes_on = chain.counted(), chain.P.any(axis=1)
    kept = np.flatnonzero(goes_on)
    successors = np.tile(np.arange(states, dtype=np.int32), kept.size)
    probability = (chain.P[kept] / chain.sums[kept, None]).reshape(-1)
    starts = states * np.append(0, np.cumsum(goes_on))
    return Stored(successors, starts, probability, chain.reward[kept].reshape(-1), chain.leaving, chain.order)


@residuals_of.of(GeneratedChain)
def _(chain, features, gamma):
    features = features.toarray() if scipy.sparse.issparse(features) else features  # every state leads to every other
    rows, means = generated_means(chain.law, features)
    rows *= -gamma
    rows += features
    return rows, means


@simulator_law.of(Stored)
def _(chain):
    full = _with_ends(chain)
    cumulative = np.empty(full.probability.size)
    for low, high in itertools.pairwise(full.starts.tolist()):
        np.cumsum(full.probability[low:high], out=cumulative[low:high])
    return Simulated(*_frozen_table(full), frozen(cumulative))


@uniform_law.of(Stored)
def _(chain):
    full = _with_ends(chain)
    return Reweighted(*_frozen_table(full), frozen(full.probability))


@simulator_law.of(FullChain)
def _(chain):
    return simulator_law(listed(chain))


@uniform_law.of(FullChain)
def _(chain):
    return uniform_law(listed(chain))


@simulator_law.of(GeneratedChain)
def _(chain):
    return GeneratedSimulator(*chain.law)


@uniform_law.of(GeneratedChain)
def _(chain):
    return chain.law


def _with_ends(chain: Stored) -> Stored:
    """The chain with one transition, to −1, of every state that has none."""
    ends = np.flatnonzero(np.diff(chain.starts) == 0)
    if not ends.size:
        return chain
    at = chain.starts[ends]
    starts = chain.starts + np.searchsorted(ends, np.arange(chain.starts.size))
    return chain._replace(
        successors=np.insert(chain.successors, at, -1),
        starts=starts,
        probability=np.insert(chain.probability, at, 1.0),
        reward=np.insert(chain.reward, at, 0.0),
    )


def _frozen_table(chain: Stored) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    reward = chain.reward + chain.leaving[chain.states()]
    return (
        frozen(chain.successors.astype(np.int32, copy=False)),
        frozen(reward),
        frozen(chain.starts.astype(np.int64, copy=False)),
    )
