"""Two views of each row of a batch, and how near the views of other rows are to them."""

import math
from typing import Any, NamedTuple

import torch
from torch.nn.functional import normalize

from xrisk.torch.across import joint
from xrisk.torch.checks import index_of

Tensor = torch.Tensor
CHUNK = 2**22  # pairs in memory at a time
VIEWS = {"both": (0, 1), "other": (1,)}  # whether the negatives of an anchor are of its own view (0), of the other (1)


class Anchors(NamedTuple):
    """Both views of S rows as anchors, with K negatives each."""

    near: Tensor  # (S, 2, K) ⟨zᵢ, z⟩ − ⟨zᵢ, zᵢ′⟩
    chosen: Tensor  # (S, 1, K) whether z is of another row
    rows: Tensor  # (S,) their numbers
    ranks: int

    @property
    def is_block(self) -> Tensor:
        """Whether an anchor has negatives (S,)."""
        return self.chosen.any(-1).squeeze(1)


def views_of(negatives: str) -> tuple[int, ...]:
    """The views that negatives are of, by name."""
    if negatives not in VIEWS:
        raise ValueError(f"negatives must be one of {', '.join(VIEWS)}, got {negatives!r}")
    return VIEWS[negatives]


def batch_anchors(first: Any, second: Any, index: Any, rows: int, views: tuple[int, ...], group: Any) -> Anchors:
    """The rows of all processes as anchors."""
    first, second = embeddings(first, second)
    index = index_of("index", index, first.shape[0], rows)
    whole = joint(torch.cat([first, second], 1), (index,), group)
    both = torch.stack(whole.values.chunk(2, 1))
    index = whole.others[0]
    return Anchors(_near(both, both, views), _chosen(index, index, views), index, whole.ranks)


def all_anchors(first: Any, second: Any, views: tuple[int, ...]) -> list[Anchors]:
    """All rows at hand as anchors, in parts, in double precision."""
    both = torch.stack(embeddings(first, second)).double()
    place = torch.arange(both.shape[1], device=both.device)
    parts = place.split(max(CHUNK // max(len(place), 1), 1))
    return [Anchors(_near(both[:, rows], both, views), _chosen(rows, place, views), rows, 1) for rows in parts]


def _near(anchors: Tensor, both: Tensor, views: tuple[int, ...]) -> Tensor:
    with torch.autocast(both.device.type, enabled=False):
        own = (anchors[0] * anchors[1]).sum(1, keepdim=True)
        found = [torch.cat([anchors[view] @ both[view ^ k].T for k in views], 1) - own for view in (0, 1)]
        return torch.stack(found, 1)


def _chosen(index: Tensor, others: Tensor, views: tuple[int, ...]) -> Tensor:
    return (index[:, None] != others).repeat(1, len(views))[:, None]


def embeddings(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Both of length one, in single precision at least."""
    for name, view in (("first", first), ("second", second)):
        if not isinstance(view, Tensor) or not view.is_floating_point() or view.ndim != 2:
            shown = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise ValueError(f"{name} must be a tensor of embeddings (rows, d), got {shown}")
    if first.shape != second.shape:
        raise ValueError(f"second must have shape {tuple(first.shape)}, as the first view, got {tuple(second.shape)}")
    wide = first.dtype if first.dtype is torch.float64 else torch.float32
    return normalize(first.to(wide)), normalize(second.to(wide))


def log_mean(values: Tensor, chosen: Tensor) -> Tensor:
    """log mean exp (S, 2) of the chosen of the values (S, 2, K), 0 without any."""
    count = chosen.sum(-1)
    # all values at −∞ would have NaN as gradient
    logs = torch.logsumexp(torch.where(chosen | (count == 0)[..., None], values, -math.inf), -1)
    return torch.where(count > 0, logs - torch.log(count.clamp(min=1).to(logs.dtype)), 0.0)


def tilted_mean(values: Tensor, chosen: Tensor) -> Tensor:
    """The mean (S, 2) of the chosen of the values under weights exp(values), 0 without any."""
    weights = torch.softmax(torch.where(chosen | ~chosen.any(-1, keepdim=True), values, -math.inf), -1)
    return torch.where(chosen, weights * values, 0.0).sum(-1)
