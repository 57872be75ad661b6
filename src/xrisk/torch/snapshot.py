"""Copies of state that a compiled backward pass does not read a second time."""

import torch


@torch.library.custom_op("xrisk::snapshot", mutates_args=())
def _snapshot(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@_snapshot.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def snapshot(x: torch.Tensor) -> torch.Tensor:
    """A copy of what is read from the state, for use in a gradient.

    torch.compile 2.13 saves memory by computing again in the backward pass what is cheap to compute, reads, copies and
    gathers included. Of state that was updated in between it then reads the new numbers, and the gradient is silently
    wrong (pytorch#197039). It does not do so with an operation that it does not know.
    """
    return _snapshot(x) if torch.compiler.is_compiling() else x.clone()
