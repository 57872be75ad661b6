"""Markov chains: how their transitions are stored, averaged and drawn."""
# mypy: disable-error-code="empty-body"

import itertools
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from xrisk.annotations import Rows, Spec
from xrisk.compile import kernel, prefetch, worthwhile
from xrisk.data.products import row_adjoint, row_block, row_gram, row_scores
from xrisk.data.products.dense import gram_of_blocks
from xrisk.data.products.verbs import summed, tiles
from xrisk.data.rows import frozen, row_count, row_size
from xrisk.data.threads import borders, in_parts, one_thread_each
from xrisk.generic import generic
from xrisk.inner import Generated, GeneratedSimulator, Reweighted, Simulated
from xrisk.inner.generated import generated_means

MANY = 2**23  # numbers: residuals of more are computed whenever they are read, if they have few successors
FEW = 16  # successors of a state, on average: they take twice the time and a third of the memory of stored residuals
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
    """Transitions that are computed on demand."""

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
def residuals_of(chain: Spec, features: Rows, gamma: float) -> tuple[Any, np.ndarray]:
    """Φ − γPΦ, a row for each state that is left, and the mean rewards there; features of the states as given."""


@generic
def simulator_law(chain: Spec) -> Any:
    """The law that draws s′ from P_s."""


@generic
def uniform_law(chain: Spec) -> Any:
    """The law that draws s′ uniformly over the stored transitions."""


@residuals_of.of(Stored)
def _(chain, features, gamma):
    if scipy.sparse.issparse(features):
        return _sparse_residuals(chain, features, gamma), mean_rewards(chain)
    return residual_matrix(_stored_rows(chain, features, gamma)), mean_rewards(chain)


def mean_rewards(chain: Stored) -> np.ndarray:
    """The mean reward (n,) of leaving each state that is left."""
    if not chain.reward.any():
        return chain.leaving
    sums = np.bincount(chain.states(), weights=chain.probability * chain.reward, minlength=chain.counted())
    return chain.leaving + sums


def _sparse_residuals(chain: Stored, features: Rows, gamma: float) -> Any:
    goes_on = chain.successors >= 0
    data, indices = chain.probability[goes_on], chain.order[chain.successors[goes_on]]
    indptr = np.append(0, np.cumsum(goes_on))[chain.starts]
    P = scipy.sparse.csr_array((data, indices, indptr), shape=(chain.counted(), features.shape[0]))
    return features[chain.order[: chain.counted()]] - gamma * (P @ features)


class ResidualRows(NamedTuple):
    """Rows Φ − γPΦ of the states that are left, computed when they are read, to save memory."""

    left: np.ndarray  # (n,) the states that are left
    successors: np.ndarray  # (transitions,) states as given, −1 where the episode ends
    starts: np.ndarray  # (n + 1,)
    probability: np.ndarray  # (transitions,)
    features: np.ndarray  # (states, d)
    gamma: float


@generic
def residuals_anew(chain: Spec, features: Rows, gamma: float) -> ResidualRows | None:
    """The rows of `residuals_of`, to be computed on demand; None if they are better computed once."""


residuals_anew.otherwise(lambda chain, features, gamma: None)


@residuals_anew.of(Stored)
def _(chain, features, gamma):
    is_large = chain.counted() * features.shape[1] > MANY and chain.successors.size <= FEW * chain.counted()
    return _stored_rows(chain, features, gamma) if is_large and not scipy.sparse.issparse(features) else None


def _stored_rows(chain: Stored, features: np.ndarray, gamma: float) -> ResidualRows:
    successors, left = chain.successors, chain.order[: chain.counted()]
    if (chain.order[:-1] > chain.order[1:]).any():
        successors = np.where(successors >= 0, chain.order[successors], -1).astype(successors.dtype)
    transitions = (frozen(successors), frozen(chain.starts), frozen(chain.probability))
    return ResidualRows(frozen(left), *transitions, frozen(features), gamma)


row_count.of(ResidualRows)(lambda rows: rows.left.size)
row_size.of(ResidualRows)(lambda rows: rows.features.shape[1])


@row_block.of(ResidualRows)
def _(rows, chosen):
    listed = np.arange(*chosen.indices(rows.left.size)) if isinstance(chosen, slice) else chosen
    out = np.empty((listed.size, row_size(rows)))
    _write(rows, listed, out)
    return out


def residual_matrix(rows: ResidualRows) -> np.ndarray:
    """All rows (n, d), on all cores."""
    out = np.empty((row_count(rows), row_size(rows)))

    def part(low: int, high: int) -> None:
        for tile in tiles(low, high, row_size(rows)):
            _write(rows, np.arange(tile.start, tile.stop), out[tile])

    in_parts(part, borders(*out.shape))
    return out


def _write(rows: ResidualRows, listed: np.ndarray, out: np.ndarray) -> None:
    out[:] = rows.features[rows.left[listed]]
    run = worthwhile(write_residuals, rows.successors.size * row_size(rows))
    run(rows.successors, rows.starts, rows.probability, rows.features, rows.gamma, listed, out)


@row_gram.of(ResidualRows)
def _(rows, h):
    return gram_of_blocks(rows, h, lambda chosen: row_block(rows, chosen))


@row_scores.of(ResidualRows)
def _(rows, W):
    out = np.empty((row_count(rows), W.shape[0]))

    def part(low: int, high: int) -> None:
        for tile in tiles(low, high, row_size(rows)):
            out[tile] = row_block(rows, tile) @ W.T

    with one_thread_each():
        in_parts(part, borders(row_count(rows), row_size(rows)))
    return out


@row_adjoint.of(ResidualRows)
def _(rows, S):
    def part(low: int, high: int) -> np.ndarray:
        return summed([S[tile].T @ row_block(rows, tile) for tile in tiles(low, high, row_size(rows))])

    with one_thread_each():
        return summed(in_parts(part, borders(row_count(rows), row_size(rows))))


@kernel
def write_residuals(successors, starts, probability, features, gamma, listed, out):
    for i in range(out.shape[0]):
        s, row = listed[i], out[i]
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
    """The chain with every entry of the matrix as a transition, except in rows of zeros."""
    states, goes_on = chain.counted(), chain.P.any(axis=1)
    kept = np.flatnonzero(goes_on)
    successors = np.tile(np.arange(states, dtype=np.int32), kept.size)
    probability = (chain.P[kept] / chain.sums[kept, None]).reshape(-1)
    starts = states * np.append(0, np.cumsum(goes_on))
    return Stored(successors, starts, probability, chain.reward[kept].reshape(-1), chain.leaving, chain.order)


@residuals_of.of(GeneratedChain)
def _(chain, features, gamma):
    features = features.toarray() if scipy.sparse.issparse(features) else features  # every state leads to every other
    features = features.astype(np.float64, copy=False)
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


uniform_law.of(GeneratedChain)(lambda chain: chain.law)


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
