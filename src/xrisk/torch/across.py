"""The joint batch of all processes: their scores, targets and indices, with the gradient of one's own scores."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist


class Joint(NamedTuple):
    """The batches of all processes, one after another."""

    values: torch.Tensor  # (rows, …) floating point; those of this process carry their graph
    others: tuple[torch.Tensor, ...]  # as many rows each
    own: slice  # the rows of this process
    ranks: int


def processes(group: Any = None) -> int:
    """How many processes share a batch."""
    return dist.get_world_size(group) if dist.is_available() and dist.is_initialized() else 1


def joint(values: torch.Tensor, others: tuple[torch.Tensor, ...], group: Any = None) -> Joint:
    """The rows of all processes. Batches may be of unequal sizes, or empty.

    The gradient with respect to the scores of other processes is theirs to compute: each process differentiates the
    loss of the joint batch in its own scores, times the number of processes, by which data parallel training divides.
    """
    ranks = processes(group)
    if ranks == 1:
        return Joint(values, others, slice(0, values.shape[0]), 1)
    sizes = _sizes(values, ranks, group)
    own = slice(sum(sizes[: dist.get_rank(group)]), sum(sizes[: dist.get_rank(group) + 1]))
    gathered = _gathered(values.detach(), sizes, group)
    whole = torch.cat([gathered[: own.start], values, gathered[own.stop :]])
    return Joint(whole, tuple(_gathered(other, sizes, group) for other in others), own, ranks)


def _sizes(values: torch.Tensor, ranks: int, group: Any) -> list[int]:
    mine = torch.tensor([values.shape[0]], device=values.device)
    found = [torch.empty_like(mine) for _ in range(ranks)]
    dist.all_gather(found, mine, group=group)
    return [int(size) for size in found]


def _gathered(mine: torch.Tensor, sizes: list[int], group: Any) -> torch.Tensor:
    """The rows of all processes, padded to one size on the way."""
    most = max(sizes)
    padded = mine.new_zeros((most, *mine.shape[1:]))
    padded[: mine.shape[0]] = mine
    is_bool = padded.dtype is torch.bool
    sent = padded.to(torch.uint8) if is_bool else padded
    found = [torch.empty_like(sent) for _ in sizes]
    dist.all_gather(found, sent.contiguous(), group=group)
    rows = torch.cat([part[:size] for part, size in zip(found, sizes, strict=True)])
    return rows.to(torch.bool) if is_bool else rows


def logged(value: torch.Tensor, carrier: torch.Tensor, ranks: int) -> torch.Tensor:
    """A loss whose value is the objective, on every process, and whose gradient is that of ``ranks`` carriers."""
    carrier = ranks * carrier
    return value.detach() + (carrier - carrier.detach())
