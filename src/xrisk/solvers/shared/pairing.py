"""The batches of a block in an iteration: one for its value and one for its Jacobian, or one for both."""

from typing import NamedTuple

from xrisk.generic import generic


@generic
def draws_twice(pairing):
    """Whether the Jacobian is sampled on a batch of its own."""


@generic
def looks_back(pairing):
    """Whether the slope of f is taken at the old tracked value."""


class FreshBatch(NamedTuple):
    """The Jacobian on an independent batch; SOX takes ∇f at the new uᵢ (book, Algorithms 14 and 18)."""


class OldValue(NamedTuple):
    """The Jacobian on the same batch; ∇f at the old uᵢ (the paper of SOX)."""


class SameBatch(NamedTuple):
    """The Jacobian on the same batch, 𝓑̃ = 𝓑; SOX takes ∇f at the new uᵢ (the authors' code)."""


draws_twice.of(FreshBatch)(lambda pairing: True)
draws_twice.of(OldValue)(lambda pairing: False)
draws_twice.of(SameBatch)(lambda pairing: False)
looks_back.of(FreshBatch)(lambda pairing: False)
looks_back.of(OldValue)(lambda pairing: True)
looks_back.of(SameBatch)(lambda pairing: False)
