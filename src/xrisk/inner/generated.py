"""Dense random transitions that are computed whenever they are asked for: no matrix of states by states is stored."""

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload, register_jitable

from xrisk.compile import kernel, specialise
from xrisk.data.threads import borders, in_parts, one_thread_each
from xrisk.functions.parameters import whole_from
from xrisk.inner.oracle import uniform_index
from xrisk.inner.transitions import draw_transition, largest_sample, transition_at, transition_count, transition_range

LOW = 2**32 - 1
MASK = 2**64 - 1
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64
BLOCK = 2**20  # numbers of a block of rows that is generated at a time


class Generated(NamedTuple):
    """P_ij = u_ij / Σₖ u_ik and rewards r_ij, u and r uniform in (0, 1); successors drawn uniformly, weight S·P_ij.

    The random policy evaluation problem of SVRPDA (equation 19 and supplement D) for any number S of states: u_ij and
    r_ij are hashes of (seed, i, j), so what is stored is one number for each state. Made by `generated_transitions`.

    Parameters
    ----------
    seed : int
        From 0 to 2⁶³ − 1.
    sums : array (S,)
        Σⱼ u_ij.
    """

    seed: int = 0
    sums: np.ndarray = np.ones(1)

    def check(self) -> None:
        """Refuse a seed out of range."""
        whole_from(0)("seed", self.seed)
        if self.seed >= 2**63:
            raise ValueError(f"seed must be at most 2⁶³ − 1, got {self.seed}")


class GeneratedSimulator(NamedTuple):
    """The transitions of `Generated`, with successors drawn from P_i by rejection: of two tries one is kept."""

    seed: int = 0
    sums: np.ndarray = np.ones(1)


def generated_transitions(states: int, seed: int = 0) -> Generated:
    """Random transitions between so many states, every one to every other: P_ij = u_ij / Σₖ u_ik.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.inner.generated import generated_transitions, materialised
    >>> law = generated_transitions(3, seed=1)
    >>> P, reward = materialised(law)
    >>> P.sum(axis=1).round(12).tolist(), law.sums.shape
    ([1.0, 1.0, 1.0], (3,))
    """
    whole_from(1)("states", states)
    Generated(seed).check()
    sums = np.empty(states)
    at = borders(states, states)
    in_parts(lambda low, high: specialise(write_sums, Generated(seed))(seed, low, sums[low:high], states), at)
    sums.flags.writeable = False
    return Generated(int(seed), sums)


def materialised(law: Generated) -> tuple[np.ndarray, np.ndarray]:
    """P and the rewards (S, S): for few states."""
    states = law.sums.size
    u, reward = np.empty((2, states, states))
    specialise(write_entries, law)(law.seed, 0, u, reward)
    return u / law.sums[:, None], reward


def generated_means(law: Generated, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """PΦ (S, d) and Σⱼ P_ij r_ij (S,), a block of rows at a time."""
    states, size = law.sums.size, max(1, BLOCK // law.sums.size)
    means, rewards = np.empty_like(features), np.empty(states)

    def part(low: int, high: int) -> None:
        u = np.empty((min(size, high - low), states))
        for first in range(low, high, size):
            rows = slice(first, min(first + size, high))
            block = u[: rows.stop - first]
            specialise(write_chances, law)(law.seed, first, block, rewards[rows])
            np.matmul(block, features, out=means[rows])

    with one_thread_each():
        in_parts(part, borders(states, states))
    means /= law.sums[:, None]
    rewards /= law.sums
    return means, rewards


def hashed(key, j):
    """Number j of the stream of splitmix64 that begins at ``key``, from 0 to 2⁶³ − 1."""
    z = (int(key) + (int(j) + 1) * GOLDEN) & MASK
    z = ((z ^ (z >> 30)) * FIRST) & MASK
    z = ((z ^ (z >> 27)) * SECOND) & MASK
    return (z ^ (z >> 31)) >> 1


@overload(hashed)
def _hashed(key, j):
    """The same in unsigned numbers, which wrap: signed ones must not overflow in compiled code."""

    def wrapped(key, j):
        z = np.uint64(key) + (np.uint64(j) + np.uint64(1)) * np.uint64(GOLDEN)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
        return np.int64((z ^ (z >> np.uint64(31))) >> np.uint64(1))

    return wrapped


@register_jitable(forceinline=True)
def row_key(seed, i):
    """Where the numbers of row i begin."""
    return hashed(hashed(seed, 0), i)


@register_jitable(forceinline=True)
def numbers_at(key, j):
    """u and r of column j of a row, in (0, 1): middles of 2³¹ and of 2³² equal intervals, by one hash."""
    z = hashed(key, j)
    return ((z >> 32) + 0.5) * 2.0**-31, ((z & LOW) + 0.5) * 2.0**-32


@kernel
def write_sums(seed, first, out, states):
    for b in range(out.size):
        key, total = row_key(seed, first + b), 0.0
        for j in range(states):
            total += numbers_at(key, j)[0]
        out[b] = total


@kernel
def write_entries(seed, first, u, reward):
    for b in range(u.shape[0]):
        key = row_key(seed, first + b)
        for j in range(u.shape[1]):
            u[b, j], reward[b, j] = numbers_at(key, j)


@kernel
def write_chances(seed, first, u, means):
    """u of a block of rows, and Σⱼ u_ij r_ij."""
    for b in range(u.shape[0]):
        key, total = row_key(seed, first + b), 0.0
        for j in range(u.shape[1]):
            u[b, j], reward = numbers_at(key, j)
            total += u[b, j] * reward
        means[b] = total


@transition_at.of(Generated)
def _(law, i, k):
    u, reward = numbers_at(row_key(law.seed, i), k)
    return k, reward, law.sums.size * u / law.sums[i]


@draw_transition.of(Generated)
def _(law, i, rng):
    return transition_at(law, i, uniform_index(rng, 0, law.sums.size))


@draw_transition.of(GeneratedSimulator)
def _(law, i, rng):
    key, j = row_key(law.seed, i), uniform_index(rng, 0, law.sums.size)
    u, reward = numbers_at(key, j)
    while rng.random() >= u:
        j = uniform_index(rng, 0, law.sums.size)
        u, reward = numbers_at(key, j)
    return j, reward, 1.0


@transition_range.of(Generated)
@transition_range.of(GeneratedSimulator)
def _(law, i):
    return i * law.sums.size, (i + 1) * law.sums.size


@transition_count.of(Generated)
@transition_count.of(GeneratedSimulator)
def _(law):
    return law.sums.size**2


@largest_sample.of(Generated)
def _(law, features, discount):
    return _bound(features, discount * law.sums.size / law.sums)  # u < 1


largest_sample.of(GeneratedSimulator)(lambda law, features, discount: _bound(features, discount))


def _bound(features: np.ndarray, scale: Any) -> float:
    norms = np.linalg.norm(features, axis=1)
    return float((norms + scale * norms.max()).max())
