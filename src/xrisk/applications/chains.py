"""Transitions of a Markov chain however they are given: matrices, samples, or generated; what they average to."""
# mypy: disable-error-code="empty-body"

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.compile import kernel, prefetch, worthwhile
from xrisk.data.rows import as_numbers, frozen
from xrisk.data.threads import borders, in_parts
from xrisk.generic import generic
from xrisk.inner import Generated, GeneratedSimulator, Reweighted, Simulated
from xrisk.inner.generated import generated_means

ROUNDING = 1e-6  # by which a row of probabilities may miss the sum one
LARGEST_REWARD = 1e150
AHEAD = 8  # transitions whose features are asked for before they are read


class Names(NamedTuple):
    """What errors call the arguments."""

    transitions: str = "P"
    rewards: str = "reward"
    features: str = "features"


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

    def states(self) -> np.ndarray:
        """The state (transitions,) of every transition."""
        return np.repeat(np.arange(self.counted()), np.diff(self.starts))


class GeneratedChain(NamedTuple):
    """Transitions that are computed when they are asked for."""

    law: Generated
    order: np.ndarray  # (states,)

    def counted(self) -> int:
        """How many states are left: all."""
        return self.order.size


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


@residuals_of.of(GeneratedChain)
def _(chain, features, gamma):
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


def chain_of(transitions: Any, rewards: Any, states: int, names: Names = Names()) -> Stored | GeneratedChain:
    """The chain that the arguments of `bellman` describe."""
    if isinstance(transitions, Generated):
        return _generated(transitions, rewards, states, names)
    if type(transitions) is tuple:
        return _of_samples(transitions, rewards, states, names)
    return _of_matrix(transitions, rewards, states, names)


def _generated(law: Generated, rewards: Any, states: int, names: Names) -> GeneratedChain:
    if law.sums.shape != (states,):
        raise ValueError(
            f"{names.transitions} must have a state for each of the {states} rows of {names.features}, "
            f"got {law.sums.size} states"
        )
    if rewards is not None:
        raise ValueError(f"{names.rewards} must be None for generated transitions, which have rewards of their own")
    return GeneratedChain(law, np.arange(states))


def _of_matrix(P: Any, rewards: Any, states: int, names: Names) -> Stored:
    P = _probabilities(P, states, names)
    leaving, reward = _rewards(rewards, P, names)
    successors, starts = P.indices.astype(np.int32, copy=False), P.indptr.astype(np.int64)
    return Stored(successors, starts, P.data, reward, leaving, np.arange(states))


def _probabilities(P: Any, states: int, names: Names) -> Any:
    """P by compressed rows; of a dense matrix every entry is stored, but none of a row of zeros."""
    name = names.transitions
    if not scipy.sparse.issparse(P):
        P = _stored(as_numbers(name, P), name, states)
    elif P.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got dtype {P.dtype}")
    if P.shape != (states, states):
        wanted = f"({states}, {states}), one row for each row of {names.features}"
        raise ValueError(f"{name} must have shape {wanted}, got {P.shape}")
    P = _summed(scipy.sparse.csr_array(P))
    least, most = P.data.min(initial=0.0), P.data.max(initial=0.0)  # NaN if there is one
    if not (least >= 0.0 and most < np.inf):
        raise ValueError(f"{name} must hold probabilities, it holds a negative number, NaN or infinity")
    sums = P @ np.ones(states)
    ends = sums == 0.0
    off = np.abs(sums - 1.0) * ~ends
    if not (off <= ROUNDING).all():
        row = int(np.argmax(off))
        raise ValueError(f"{name} must have rows that sum to one, row {row} sums to {sums[row]:.12g}")
    sums[ends] = 1.0
    data = P.data / np.repeat(sums, np.diff(P.indptr))
    P = scipy.sparse.csr_array((data, P.indices, P.indptr), shape=P.shape)
    return _without_rows(P, ends) if np.diff(P.indptr)[ends].any() else P


def _summed(P: Any) -> Any:
    if P.has_canonical_format:
        return P
    P = P.copy()
    P.sum_duplicates()
    return P


def _without_rows(P: Any, dropped: np.ndarray) -> Any:
    """The matrix without the stored entries of some rows."""
    sizes = np.diff(P.indptr)
    kept = np.repeat(~dropped, sizes)
    indptr = np.append(0, np.cumsum(np.where(dropped, 0, sizes)))
    return scipy.sparse.csr_array((P.data[kept], P.indices[kept], indptr), shape=P.shape)


def _stored(array: np.ndarray, name: str, states: int) -> Any:
    if array.shape != (states, states):
        raise ValueError(f"{name} must have shape ({states}, {states}), got {array.shape}")
    indices, indptr = np.tile(np.arange(states, dtype=np.int32), states), states * np.arange(states + 1)
    return scipy.sparse.csr_array((np.array(array, dtype=np.float64).reshape(-1), indices, indptr), shape=array.shape)


def _rewards(rewards: Any, P: Any, names: Names) -> tuple[np.ndarray, np.ndarray]:
    """Rewards (states,) of leaving a state, and (entries,) of the entries of P; one of them is zero."""
    name, states = names.rewards, P.shape[0]
    rewards = scipy.sparse.csr_array(rewards) if scipy.sparse.issparse(rewards) else as_numbers(name, rewards)
    if rewards.shape not in ((states,), P.shape):
        raise ValueError(f"{name} must have shape ({states},) or {P.shape}, got {rewards.shape}")
    if rewards.ndim == 1:
        return finite_rewards(rewards, name), np.broadcast_to(0.0, P.data.shape)
    picked = rewards[np.repeat(np.arange(states), np.diff(P.indptr)), P.indices]
    picked = picked.toarray() if scipy.sparse.issparse(picked) else picked
    return np.zeros(states), finite_rewards(np.asarray(picked).reshape(-1), name)


def finite_rewards(rewards: np.ndarray, name: str) -> np.ndarray:
    """Rewards as floats; those that are not finite, or whose squares are not, are refused."""
    rewards = rewards.astype(np.float64, copy=False)
    least, most = rewards.min(initial=0.0), rewards.max(initial=0.0)
    if not (least > -np.inf and most < np.inf):
        raise ValueError(f"{name} must be finite, it holds NaN or infinity")
    if max(-least, most) > LARGEST_REWARD:
        raise ValueError(f"{name} must be at most {LARGEST_REWARD:g} in size for squares to be finite: scale it")
    return rewards


def _of_samples(pair: tuple, rewards: Any, states: int, names: Names) -> Stored:
    """The chain of observed transitions, each as likely as any other of its state."""
    before, after = _indices(pair, states, names)
    sizes = np.bincount(before, minlength=states)
    left = sizes > 0
    order = np.concatenate([np.flatnonzero(left), np.flatnonzero(~left)])
    place = np.empty(states + 1, dtype=np.int32)
    place[order], place[-1] = np.arange(states, dtype=np.int32), -1  # the last stands for the end
    sizes = sizes[order][: int(left.sum())]
    listed = np.argsort(place[before], kind="stable")
    leaving, reward = _sampled_rewards(rewards, before.size, states, names)
    return Stored(
        place[after[listed]],
        np.append(0, np.cumsum(sizes)),
        np.repeat(1.0 / sizes, sizes),
        reward[listed],
        leaving[order[: sizes.size]],
        order,
    )


def _indices(pair: tuple, states: int, names: Names) -> tuple[np.ndarray, np.ndarray]:
    name = names.transitions
    if len(pair) != 2:
        raise ValueError(f"{name} must be a matrix or a pair (states, successors), got a tuple of {len(pair)}")
    before, after = (as_numbers(name, part) for part in pair)
    if before.ndim != 1 or before.shape != after.shape or not before.size:
        shapes = f"{before.shape} and {after.shape}"
        raise ValueError(f"{name} must be two index arrays of one length, at least 1, got shapes {shapes}")
    for part in (before, after):
        if part.dtype.kind not in "iu":
            raise ValueError(f"{name} must hold numbers of states, got dtype {part.dtype}")
    for what, part, least in (("states", before, 0), ("successors", after, -1)):
        if part.min() < least or part.max() >= states:
            wrong = part.min() if part.min() < least else part.max()
            raise ValueError(f"{name} must hold {what} from {least} to {states - 1}, got {wrong}")
    return before.astype(np.int64, copy=False), after.astype(np.int64, copy=False)


def _sampled_rewards(rewards: Any, count: int, states: int, names: Names) -> tuple[np.ndarray, np.ndarray]:
    rewards = as_numbers(names.rewards, rewards)
    if rewards.shape not in ((count,), (states,)):
        wanted = f"({count},), one for each transition, or ({states},), one for each state"
        raise ValueError(f"{names.rewards} must have shape {wanted}, got {rewards.shape}")
    rewards = finite_rewards(rewards, names.rewards)
    if rewards.shape == (count,):
        return np.zeros(states), rewards
    return rewards, np.zeros(count)
