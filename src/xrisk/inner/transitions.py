"""Bellman residuals: gₛ(w) = φₛᵀ w − E[r + γ φ_{s′}ᵀ w], s′ drawn from the transitions of state s."""

from typing import NamedTuple

import numpy as np

from xrisk.annotations import Spec
from xrisk.data.rows import Dense, frozen
from xrisk.functions.loss import AffineLoss
from xrisk.functions.parameters import require
from xrisk.generic import generic
from xrisk.inner.affine import affine_batches
from xrisk.inner.groups import Groups
from xrisk.inner.models import LinearModel
from xrisk.inner.oracle import (
    draw,
    draw_part,
    has_parts,
    inner_count,
    inner_samples,
    inner_size,
    sample_lipschitz,
    sample_range,
    uniform_index,
)
from xrisk.inner.passes import as_linear_groups

CHUNK = 2**16  # transitions looked at together


@generic
def draw_transition(law, i, rng):
    """A transition of state i: its successor (−1 where the episode ends), its reward, and its weight.

    The mean of weight·(what is seen of the transition) is the expectation under P_i.
    """


@generic
def transition_at(law, i, k):
    """Transition k = 0, 1, … of state i, in the same terms; of laws that draw every transition with equal chances."""


@generic
def transition_range(law, i):
    """(low, high): the transitions of state i are low, …, high − 1 of all."""


@generic
def transition_count(law):
    """Number of transitions of all states."""


@generic
def largest_sample(law, features, discount):
    """A bound on ‖φᵢ − weight·γ φⱼ‖ over the transitions (i, j) that are drawn."""


class Simulated(NamedTuple):
    """s′ ~ P_s, by the inverse of the distribution function: needs a simulator, has the lower variance."""

    successors: np.ndarray = np.zeros(1, dtype=np.int32)  # (transitions,) s′, state after state; −1: the episode ends
    reward: np.ndarray = np.zeros(1)  # (transitions,)
    starts: np.ndarray = np.arange(2)  # (states + 1,): those of state s are starts[s], …, starts[s + 1] − 1
    cumulative: np.ndarray = np.ones(1)  # (transitions,) sums of probabilities from the first transition of the state


class Reweighted(NamedTuple):
    """s′ uniform over the N stored transitions of s, with the weight N·P_ss′ (SVRPDA, equation 19)."""

    successors: np.ndarray = np.zeros(1, dtype=np.int32)  # (transitions,) s′, state after state; −1: the episode ends
    reward: np.ndarray = np.zeros(1)  # (transitions,)
    starts: np.ndarray = np.arange(2)  # (states + 1,): those of state s are starts[s], …, starts[s + 1] − 1
    probability: np.ndarray = np.ones(1)  # (transitions,)


@affine_batches
class Transitions(NamedTuple):
    """gₛ(w) = φₛᵀ w − Σ_{s′} P_ss′ (r_ss′ + γ φ_{s′}ᵀ w), one inner function for each state that is left.

    Built by `xrisk.applications.bellman`. With f(u) = u² the objective is the mean squared Bellman residual of the
    values φᵀw; f is not monotone and need not be, since gₛ is affine. Where an episode ends, no value follows.

    Parameters
    ----------
    features : array (states, d)
        φ; the states that are left come first.
    law : Simulated, Reweighted, Generated or GeneratedSimulator
        How transitions are known and drawn.
    discount : float
        γ.
    mean_rows, mean_reward : arrays (n, d) and (n,)
        φₛ − γ Σ P_ss′ φ_{s′} and Σ P_ss′ r_ss′, from which exact values are computed.
    """

    features: np.ndarray = np.zeros((1, 1))
    law: Spec = Simulated()
    discount: float = 0.9
    mean_rows: np.ndarray = np.zeros((1, 1))
    mean_reward: np.ndarray = np.zeros(1)

    def check(self) -> None:
        """Refuse a discount outside [0, 1]."""
        require(0.0 <= self.discount <= 1.0, "discount", self.discount, "between 0 and 1")


@draw_transition.of(Simulated)
def _(law, i, rng):
    first, last = law.starts[i], law.starts[i + 1] - 1
    level = rng.random() * law.cumulative[last]
    while first < last:  # the first position whose sum is above the level; one of probability 0 never is
        middle = (first + last) // 2
        if law.cumulative[middle] > level:
            last = middle
        else:
            first = middle + 1
    return law.successors[first], law.reward[first], 1.0


@draw_transition.of(Reweighted)
def _(law, i, rng):
    low, high = law.starts[i], law.starts[i + 1]
    p = uniform_index(rng, low, high)
    return law.successors[p], law.reward[p], (high - low) * law.probability[p]


@transition_at.of(Reweighted)
def _(law, i, k):
    low, high = law.starts[i], law.starts[i + 1]
    p = low + k
    return law.successors[p], law.reward[p], (high - low) * law.probability[p]


@transition_range.of(Simulated)
@transition_range.of(Reweighted)
def _(law, i):
    return law.starts[i], law.starts[i + 1]


@transition_count.of(Simulated)
@transition_count.of(Reweighted)
def _(law):
    return law.successors.size


@largest_sample.of(Simulated)
def _(law, features, discount):
    before = np.where(np.arange(law.cumulative.size) == law.starts[:-1].repeat(np.diff(law.starts)), 0.0, 1.0)
    chance = law.cumulative - before * np.append(0.0, law.cumulative[:-1])
    return _largest_stored(law, features, discount * (chance > 0.0))


@largest_sample.of(Reweighted)
def _(law, features, discount):
    sizes = np.diff(law.starts)
    return _largest_stored(law, features, discount * sizes.repeat(sizes) * law.probability)


def _largest_stored(law: Spec, features: np.ndarray, scales: np.ndarray) -> float:
    """The largest ‖φᵢ − scale·φⱼ‖ over the stored transitions; none follows the end of an episode."""
    states = np.arange(law.starts.size - 1).repeat(np.diff(law.starts))
    scales = np.where(law.successors >= 0, scales, 0.0)
    largest = 0.0
    for low in range(0, states.size, CHUNK):
        part = slice(low, low + CHUNK)
        rows = features[states[part]] - scales[part, None] * features[law.successors[part]]
        largest = max(largest, float(np.linalg.norm(rows, axis=1).max()))
    return largest


inner_count.of(Transitions)(lambda g: g.mean_reward.size)
inner_samples.of(Transitions)(lambda g: transition_count(g.law))
inner_size.of(Transitions)(lambda g: g.features.shape[1])
sample_lipschitz.of(Transitions)(lambda g: largest_sample(g.law, g.features, g.discount))


@draw.of(Transitions)
def _(g, i, rng, batch):
    row, share, shift = batch.row, 1.0 / batch.size, 0.0
    for b in range(batch.size):
        successor, reward, weight = draw_transition(g.law, i, rng)
        shift -= share * weight * reward
        factor = share * weight * g.discount if successor >= 0 else 0.0  # row −1 is there, and counts nothing
        for j in range(row.size):
            row[j] = (row[j] if b > 0 else g.features[i, j]) - factor * g.features[successor, j]
    batch.shift[0] = shift


@has_parts.of(Transitions)
def _(g, size):
    return transition_at.implemented(g.law)


sample_range.of(Transitions)(lambda g, i: transition_range(g.law, i))


@draw_part.of(Transitions)
def _(g, i, first, batch):
    low, high = transition_range(g.law, i)
    last = min(first + batch.size, high - low)
    row, shift = batch.row, 0.0
    for j in range(row.size):
        row[j] = (last - first) / batch.size * g.features[i, j]
    for k in range(first, last):
        successor, reward, weight = transition_at(g.law, i, k)
        weight /= batch.size
        shift -= weight * reward
        if successor >= 0:
            for j in range(row.size):
                row[j] -= weight * g.discount * g.features[successor, j]
    batch.shift[0] = shift


@as_linear_groups.of(Transitions)
def _(g):
    model = LinearModel(Dense(g.mean_rows), g.mean_reward, AffineLoss())
    return Groups(model, frozen(np.arange(g.mean_reward.size + 1)))
