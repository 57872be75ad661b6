"""The transitions and rewards of a user as a chain: matrices, observations, or generated ones."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.annotations import Matrix, Vector
from xrisk.applications.chains import FullChain, GeneratedChain, Stored
from xrisk.data.matrices import fresh_csr, refuse_broken
from xrisk.data.rows import as_numbers
from xrisk.inner import Generated

ROUNDING = 1e-6  # error of the sum of a row of probabilities
LARGEST_REWARD = 1e150
Chain = Stored | FullChain | GeneratedChain


class Names(NamedTuple):
    """What errors call the arguments."""

    transitions: str = "P"
    rewards: str = "reward"
    features: str = "features"


def chain_of(transitions: Any, rewards: Vector, states: int, names: Names = Names()) -> Chain:
    """The chain that the arguments of `bellman` describe."""
    if isinstance(transitions, Generated):
        return _generated(transitions, rewards, states, names)
    if type(transitions) is tuple:
        return _of_samples(transitions, rewards, states, names)
    return _of_matrix(transitions, rewards, states, names)


def _generated(law: Generated, rewards: Vector, states: int, names: Names) -> GeneratedChain:
    if law.sums.shape != (states,):
        raise ValueError(
            f"{names.transitions} must have a state for each of the {states} rows of {names.features}, "
            f"got {law.sums.size} states"
        )
    if rewards is not None:
        raise ValueError(f"{names.rewards} must be None for generated transitions, which have rewards of their own")
    return GeneratedChain(law, np.arange(states))


def _of_matrix(P: Matrix, rewards: Vector, states: int, names: Names) -> Stored | FullChain:
    sparse, name = scipy.sparse.issparse(P), names.transitions
    P = P if sparse else as_numbers(name, P)
    if P.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got dtype {P.dtype}")
    if P.shape != (states, states):
        wanted = f"({states}, {states}), one row for each row of {names.features}"
        raise ValueError(
            f"{name} must have shape {wanted}, got {P.shape}: observed transitions are a tuple (states, successors)"
        )
    return (_of_sparse if sparse else _of_dense)(P, rewards, names)


def _of_dense(P: np.ndarray, rewards: Vector, names: Names) -> FullChain:
    P = P.astype(np.float64, copy=False)
    sums = _row_sums(P, P, names)
    sums[sums == 0.0] = 1.0
    rewards = _rewards(rewards, P.shape, names)
    if rewards.ndim == 1:
        return FullChain(P, sums, np.broadcast_to(0.0, P.shape), rewards, np.arange(sums.size))
    rewards = rewards.toarray() if scipy.sparse.issparse(rewards) else rewards
    return FullChain(P, sums, finite_rewards(rewards, names.rewards), np.zeros(sums.size), np.arange(sums.size))


def _of_sparse(P: Matrix, rewards: Vector, names: Names) -> Stored:
    P = _summed(fresh_csr(refuse_broken(names.transitions, P)))
    sums = _row_sums(P, P.data, names)
    states, sizes, ends = np.arange(sums.size), np.diff(P.indptr), sums == 0.0
    sums[ends] = 1.0
    rewards = _rewards(rewards, P.shape, names)
    leaving, reward = rewards, np.broadcast_to(0.0, P.data.shape)
    if rewards.ndim == 2:
        leaving, reward = np.zeros(sums.size), _picked(rewards, states.repeat(sizes), P.indices, names)
    chain = Stored(
        P.indices.astype(np.int32, copy=False),
        P.indptr.astype(np.int64),
        P.data / sums.repeat(sizes),
        reward,
        leaving,
        states,
    )
    return _without_transitions(chain, ends) if sizes[ends].any() else chain


def _without_transitions(chain: Stored, ends: np.ndarray) -> Stored:
    """The chain without the zeros that are stored for states where the episode ends."""
    kept = np.repeat(~ends, np.diff(chain.starts))
    return chain._replace(
        successors=chain.successors[kept],
        starts=np.append(0, np.cumsum(kept))[chain.starts],
        probability=chain.probability[kept],
        reward=chain.reward[kept],
    )


def _row_sums(P: Matrix, entries: np.ndarray, names: Names) -> np.ndarray:
    """The sums of the rows, one or zero; refuses a matrix that does not hold probabilities."""
    name = names.transitions
    least, most = entries.min(initial=0.0), entries.max(initial=0.0)  # NaN if there is one
    if not (least >= 0.0 and most < np.inf):
        raise ValueError(f"{name} must hold probabilities, got {most if least >= 0.0 else least:g}")
    sums = P @ np.ones(P.shape[0])
    misses = np.where(sums == 0.0, 0.0, np.abs(sums - 1.0))
    if not (misses <= ROUNDING).all():
        row = int(np.argmax(misses))
        raise ValueError(f"{name} must have rows that sum to one, row {row} sums to {sums[row]:.12g}")
    return sums


def _rewards(rewards: Vector, shape: tuple[int, int], names: Names) -> Any:
    """Rewards of the states, finite, or of transitions: an array or a sparse matrix."""
    name = names.rewards
    rewards = fresh_csr(refuse_broken(name, rewards)) if scipy.sparse.issparse(rewards) else as_numbers(name, rewards)
    if rewards.shape not in (shape[:1], shape):
        raise ValueError(f"{name} must have shape ({shape[0]},) or {shape}, got {rewards.shape}")
    return finite_rewards(rewards, name) if rewards.ndim == 1 else rewards


def _picked(rewards: Vector, states: np.ndarray, successors: np.ndarray, names: Names) -> np.ndarray:
    """Rewards (transitions,) of some transitions."""
    picked = rewards[states, successors]
    picked = picked.toarray() if scipy.sparse.issparse(picked) else picked
    return finite_rewards(np.asarray(picked).reshape(-1), names.rewards)


def _summed(P: Matrix) -> Any:
    if P.has_canonical_format:
        return P
    P = P.copy()
    P.sum_duplicates()
    return P


def finite_rewards(rewards: np.ndarray, name: str) -> np.ndarray:
    """Rewards as floats; those that are not finite, or whose squares are not, are refused."""
    rewards = rewards.astype(np.float64, copy=False)
    least, most = rewards.min(initial=0.0), rewards.max(initial=0.0)
    if not (least > -np.inf and most < np.inf):
        raise ValueError(f"{name} must be finite, got {most if least > -np.inf else least:g}")
    if max(-least, most) > LARGEST_REWARD:
        raise ValueError(f"{name} must be at most {LARGEST_REWARD:g} in size for squares to be finite: scale it")
    return rewards


def _of_samples(pair: tuple, rewards: Vector, states: int, names: Names) -> Stored:
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


def _sampled_rewards(rewards: Vector, count: int, states: int, names: Names) -> tuple[np.ndarray, np.ndarray]:
    rewards = rewards if scipy.sparse.issparse(rewards) else as_numbers(names.rewards, rewards)
    if rewards.shape not in ((count,), (states,)):
        wanted = f"({count},), one for each transition, or ({states},), one for each state"
        raise ValueError(f"{names.rewards} must have shape {wanted}, got {rewards.shape}")
    rewards = finite_rewards(rewards, names.rewards)
    if rewards.shape == (count,):
        return np.zeros(states), rewards
    return rewards, np.zeros(count)
