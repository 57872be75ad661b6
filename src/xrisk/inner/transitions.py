"""Bellman residuals: gₛ(w) = φₛᵀ w − E[r + γ φ_{s′}ᵀ w], s′ drawn from the transitions of state s."""

from typing import Any, NamedTuple

import numpy as np

from xrisk.data.rows import Dense, frozen
from xrisk.functions.loss import AffineLoss
from xrisk.functions.parameters import require
from xrisk.generic import generic
from xrisk.inner.affine import affine_batches
from xrisk.inner.groups import Groups
from xrisk.inner.models import LinearModel
from xrisk.inner.oracle import draw, inner_count, inner_samples, inner_size, uniform_index
from xrisk.inner.passes import as_linear_groups


@generic
def draw_transition(law, low, high, rng):
    """A position among those of a state, low, …, high − 1, and the weight that makes the sample unbiased."""


class Simulated(NamedTuple):
    """s′ ~ P_s, by the inverse of the distribution function: needs a simulator, has the lower variance."""

    cumulative: np.ndarray = np.ones(1)  # (transitions,) sums of probabilities from the first transition of the state


class Reweighted(NamedTuple):
    """s′ uniform over the N stored transitions of s, with the weight N·P_ss′ (SVRPDA, equation 19)."""

    probability: np.ndarray = np.ones(1)  # (transitions,)


@affine_batches
class Transitions(NamedTuple):
    """gₛ(w) = φₛᵀ w − Σ_{s′} P_ss′ (r_ss′ + γ φ_{s′}ᵀ w), one inner function for each state.

    Built by `xrisk.applications.bellman`. With f(u) = u² the objective is the mean squared Bellman residual of the
    values φᵀw; f is not monotone and need not be, since gₛ is affine.

    Parameters
    ----------
    features : array (states, d)
        φ.
    law : Simulated or Reweighted
        How a successor is drawn.
    successors, reward : arrays (transitions,)
        s′ and r_ss′ of every stored transition, state after state.
    starts : array (states + 1,)
        The transitions of state s are starts[s], …, starts[s + 1] − 1.
    discount : float
        γ.
    mean_rows, mean_reward : arrays (states, d) and (states,)
        φₛ − γ Σ P_ss′ φ_{s′} and Σ P_ss′ r_ss′, from which exact values are computed.
    """

    features: np.ndarray = np.zeros((1, 1))
    law: Any = Simulated()
    successors: np.ndarray = np.zeros(1, dtype=np.int64)
    reward: np.ndarray = np.zeros(1)
    starts: np.ndarray = np.arange(2)
    discount: float = 0.9
    mean_rows: np.ndarray = np.zeros((1, 1))
    mean_reward: np.ndarray = np.zeros(1)

    def check(self) -> None:
        """Refuse a discount outside [0, 1]."""
        require(0.0 <= self.discount <= 1.0, "discount", self.discount, "between 0 and 1")


@draw_transition.of(Simulated)
def _(law, low, high, rng):
    level = rng.random() * law.cumulative[high - 1]
    first, last = low, high - 1
    while first < last:  # the first position whose sum is above the level; one of probability 0 never is
        middle = (first + last) // 2
        if law.cumulative[middle] > level:
            last = middle
        else:
            first = middle + 1
    return first, 1.0


@draw_transition.of(Reweighted)
def _(law, low, high, rng):
    p = uniform_index(rng, low, high)
    return p, (high - low) * law.probability[p]


@inner_count.of(Transitions)
def _(g):
    return g.features.shape[0]


@inner_samples.of(Transitions)
def _(g):
    return g.successors.size


@inner_size.of(Transitions)
def _(g):
    return g.features.shape[1]


@draw.of(Transitions)
def _(g, i, rng, batch):
    row, shift = batch.row, 0.0
    for j in range(row.size):
        row[j] = g.features[i, j]
    for _ in range(batch.size):
        p, weight = draw_transition(g.law, g.starts[i], g.starts[i + 1], rng)
        weight /= batch.size
        shift -= weight * g.reward[p]
        successor = g.successors[p]
        for j in range(row.size):
            row[j] -= weight * g.discount * g.features[successor, j]
    batch.shift[0] = shift
    return batch


@as_linear_groups.of(Transitions)
def _(g):
    model = LinearModel(Dense(g.mean_rows), g.mean_reward, AffineLoss())
    return Groups(model, frozen(np.arange(g.mean_reward.size + 1)))
