"""Contrastive loss of two views of each row, with all other rows as negatives."""

import math
from typing import Any

import torch
from torch.nn.functional import normalize

from xrisk.torch.across import joint
from xrisk.torch.checks import index_of, number
from xrisk.torch.compositional import CompositionalLoss
from xrisk.torch.functions import LogMeanExp

Tensor = torch.Tensor
CHUNK = 2**22  # pairs in memory at a time


class ContrastiveLoss(torch.nn.Module):
    """mean over rows and both views of τ log(mean over negatives z of exp((⟨zᵢ, z⟩ − ⟨zᵢ, zᵢ′⟩)/τ)).

    The global contrastive loss with a tracker for each row and view, SogCLR [1]_, Algorithm 1: small batches follow
    the loss with all rows as negatives. Embeddings are scaled to length one.

    Parameters
    ----------
    rows : int
        How many rows the data set has.
    tau : float
        Temperature τ.
    negatives : str
        ``"both"``: both views of the other rows (images, SimCLR). ``"other"``: the other view of the other rows (image
        and text, CLIP).
    track, dtype, group
        As of `AveragePrecisionLoss`.

    Notes
    -----
    Trackers are logarithms: nothing overflows at a small τ. A row without negatives in the batch counts nothing.

    References
    ----------
    .. [1] Z. Yuan et al. Provable Stochastic Optimization for Global Contrastive Learning. ICML 2022.

    Examples
    --------
    >>> loss = ContrastiveLoss(rows=100, tau=0.5)
    >>> first, second = torch.eye(3), torch.eye(3)
    >>> round(loss(first, second, torch.tensor([4, 8, 15])).item(), 4)
    -1.0
    """

    def __init__(
        self,
        rows: int,
        *,
        tau: float = 0.1,
        negatives: str = "both",
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.tau = number("tau", tau, math.ulp(0.0), math.inf, "positive")
        if negatives not in VIEWS:
            raise ValueError(f"negatives must be one of {', '.join(VIEWS)}, got {negatives!r}")
        self.views, self.group = VIEWS[negatives], group
        self.sums = CompositionalLoss(rows, LogMeanExp(self.tau), width=2, track=track, dtype=dtype, group=group)

    def forward(self, first: Tensor, second: Tensor, index: Tensor) -> Tensor:
        """The loss of the embeddings (B, d) of two views of each row and the numbers of the rows."""
        first, second = _embeddings(first, second)
        index = index_of("index", index, first.shape[0], self.sums.u.shape[0])
        whole = joint(torch.cat([first, second], 1), (index,), self.group)
        first, second = whole.values.chunk(2, 1)
        index = whole.others[0]
        other = index[:, None] != index
        values = self._logs((first, second), (first, second), other)
        weight = torch.where(other.any(1), 0.5, 0.0)
        return self.sums.step(values, index, weight=weight, ranks=whole.ranks)

    @torch.no_grad()
    def exact(self, first: Tensor, second: Tensor) -> Tensor:
        """The objective of all rows at hand, for validation, in double precision."""
        views = _embeddings(first.double(), second.double())
        place = torch.arange(first.shape[0], device=first.device)
        parts = [
            self._logs((views[0][rows], views[1][rows]), views, rows[:, None] != place)
            for rows in place.split(max(CHUNK // first.shape[0], 1))
        ]
        return self.tau * torch.cat(parts).mean()

    def _logs(self, anchors: tuple[Tensor, Tensor], views: tuple[Tensor, Tensor], other: Tensor) -> Tensor:
        """log mean exp((⟨zᵢ, z⟩ − ⟨zᵢ, zᵢ′⟩)/τ) (S, 2) of S rows, for either view as zᵢ."""
        with torch.autocast(anchors[0].device.type, enabled=False):
            own = (anchors[0] * anchors[1]).sum(1, keepdim=True)
            found = []
            for view, anchor in enumerate(anchors):
                negatives = [views[view ^ which] for which in self.views]
                near = torch.cat([(anchor @ z.T - own) / self.tau for z in negatives], 1)
                found.append(_log_mean(near, other.repeat(1, len(negatives))))
            return torch.stack(found, 1)


VIEWS = {"both": (0, 1), "other": (1,)}  # whether the negatives of an anchor are of its own view (0), of the other (1)


def _embeddings(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Both of length one, in single precision at least."""
    for name, view in (("first", first), ("second", second)):
        if not isinstance(view, Tensor) or not view.is_floating_point() or view.ndim != 2:
            shown = tuple(view.shape) if isinstance(view, Tensor) else type(view).__name__
            raise ValueError(f"{name} must be a tensor of embeddings (rows, d), got {shown}")
    if first.shape != second.shape:
        raise ValueError(f"second must have shape {tuple(first.shape)}, as the first view, got {tuple(second.shape)}")
    wide = first.dtype if first.dtype is torch.float64 else torch.float32
    return normalize(first.to(wide)), normalize(second.to(wide))


def _log_mean(values: Tensor, chosen: Tensor) -> Tensor:
    """log mean exp (S,) of the chosen entries of each row, 0 without any."""
    count = chosen.sum(1)
    # a row of −∞ only would have NaN as gradient
    logs = torch.logsumexp(torch.where(chosen | (count == 0)[:, None], values, -math.inf), 1)
    return torch.where(count > 0, logs - torch.log(count.clamp(min=1).to(logs.dtype)), 0.0)
