"""Contrastive losses of two views of each row, with all other rows as negatives."""

import math
from typing import Any

import torch

from xrisk.functions import Identity
from xrisk.torch.across import logged
from xrisk.torch.checks import number
from xrisk.torch.compositional import CompositionalLoss, Estimates, shares
from xrisk.torch.functions import LogMeanExp
from xrisk.torch.negatives import Anchors, all_anchors, batch_anchors, log_mean, tilted_mean, views_of
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful
from xrisk.torch.tracking import repeat_mean, value_weight

Tensor = torch.Tensor
HALVINGS = 60  # of an interval of τ


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
        self.views = views_of(negatives)
        self.sums = CompositionalLoss(rows, LogMeanExp(self.tau), width=2, track=track, dtype=dtype, group=group)

    def forward(self, first: Tensor, second: Tensor, index: Tensor) -> Tensor:
        """The loss of the embeddings (B, d) of two views of each row and the numbers of the rows."""
        blocks = self.sums
        anchors = batch_anchors(first, second, index, blocks.u.shape[0], self.views, blocks.group)
        values = log_mean(anchors.near / self.tau, anchors.chosen)
        weight = torch.where(anchors.is_block, 0.5, 0.0)
        return blocks.step(values, anchors.rows, weight=weight, ranks=anchors.ranks)

    @torch.no_grad()
    def exact(self, first: Tensor, second: Tensor) -> Tensor:
        """The objective of all rows at hand, for validation, in double precision."""
        parts = [log_mean(part.near / self.tau, part.chosen) for part in all_anchors(first, second, self.views)]
        return self.tau * torch.cat(parts).mean()


class RobustContrastiveLoss(Stateful):
    """mean over rows and both views of min over τ ≥ τ₀ of τ log(mean exp((⟨zᵢ, z⟩ − ⟨zᵢ, zᵢ′⟩)/τ)) + τρ.

    The largest mean over weights of the negatives within a KL ball of radius ρ: every anchor has its own temperature,
    high for a frequent meaning and low for a rare one; iSogCLR [1]_, Algorithm 1. The temperatures are part of the
    loss, not of the model: they move by their own gradient in every call.

    Parameters
    ----------
    rows : int
        How many rows the data set has.
    radius : float
        Radius ρ of the KL ball.
    tau : float
        First temperature of all anchors.
    floor : float
        Least temperature τ₀.
    tau_step, tau_momentum : float
        Step size of the temperatures, and the weight of the newest gradient in its moving average.
    negatives, track, dtype, group
        As of `ContrastiveLoss`.

    References
    ----------
    .. [1] Z. Qiu et al. Not All Semantics are Created Equal: Contrastive Self-supervised Learning with Automatic
       Temperature Individualization. ICML 2023.

    Examples
    --------
    >>> loss = RobustContrastiveLoss(rows=100, radius=0.2, tau=0.5)
    >>> first, second = torch.eye(3), torch.eye(3)
    >>> round(loss(first, second, torch.tensor([4, 8, 15])).item(), 4)
    -0.9
    """

    taus: Tensor  # (rows, 2) temperature of each view
    slopes: Tensor  # (rows, 2) moving average of its gradient

    def __init__(
        self,
        rows: int,
        *,
        radius: float,
        tau: float = 0.1,
        floor: float = 0.01,
        tau_step: float = 0.01,
        tau_momentum: float = 0.9,
        negatives: str = "both",
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        least = math.ulp(0.0)
        self.radius = number("radius", radius, least, math.inf, "positive")
        self.floor = number("floor", floor, least, math.inf, "positive")
        start = number("tau", tau, self.floor, math.inf, f"at least the floor {floor}")
        self.tau_step = number("tau_step", tau_step, least, math.inf, "positive")
        self.tau_momentum = number("tau_momentum", tau_momentum, least, 1.0, "above 0 and at most 1")
        self.views = views_of(negatives)
        self.sums = CompositionalLoss(rows, LogMeanExp(), width=2, track=track, dtype=dtype, group=group)
        self.keep("taus", torch.full((rows, 2), start, dtype=dtype))
        self.keep("slopes", torch.zeros(rows, 2, dtype=dtype))

    def forward(self, first: Tensor, second: Tensor, index: Tensor) -> Tensor:
        """The loss of the embeddings (B, d) of two views of each row and the numbers of the rows."""
        sums = self.sums
        anchors = batch_anchors(first, second, index, sums.u.shape[0], self.views, sums.group)
        tau = snapshot(self.taus[anchors.rows])
        scaled = anchors.near / tau.to(anchors.near.dtype)[..., None]
        values = log_mean(scaled, anchors.chosen)
        found = sums.estimates(values.detach(), anchors.rows, is_block=anchors.is_block)
        weights = value_weight(sums.outer, found.u, values.detach())
        self._write(anchors, found, found.u + self.radius - weights * tilted_mean(scaled.detach(), anchors.chosen))
        share = 0.5 * shares(anchors.is_block.to(values.dtype), found.same, values.dtype)[:, None]
        carrier = (share * (tau * weights).to(values.dtype) * values).sum()
        return logged(
            found.objective((share * tau * (found.u + self.radius)).sum(), values.dtype), carrier, anchors.ranks
        )

    def _write(self, anchors: Anchors, found: Estimates, newest: Tensor) -> None:
        """One write of each tensor, from the gradients (B, 2) of the temperatures."""
        if not self.training:
            return
        before, tau = snapshot(self.slopes[anchors.rows]), snapshot(self.taus[anchors.rows])
        mean = repeat_mean(Identity(), newest.to(before.dtype), found.same)
        slope = before + self.tau_momentum * (mean - before)
        moved = (tau - self.tau_step * slope).clamp(min=self.floor)
        may_write = found.may_write[:, None]
        self.sums.write(anchors.rows, found)
        self.slopes[anchors.rows] = torch.where(may_write, slope, before)
        self.taus[anchors.rows] = torch.where(may_write, moved, tau)

    @torch.no_grad()
    def exact(self, first: Tensor, second: Tensor) -> Tensor:
        """The objective of all rows at hand, at the best temperatures, for validation, in double precision."""
        return torch.cat([self._best(part) for part in all_anchors(first, second, self.views)]).mean()

    def _best(self, anchors: Anchors) -> Tensor:
        """The least value (S, 2) over τ, where KL(τ) = ρ: KL falls in τ, and is at most 1/(2τ²) for cosines."""
        low = torch.full_like(anchors.near[..., 0], self.floor)
        high = low.clamp(min=math.sqrt(0.5 / self.radius))
        for _ in range(HALVINGS):
            tau = 0.5 * (low + high)
            scaled = anchors.near / tau[..., None]
            divergence = tilted_mean(scaled, anchors.chosen) - log_mean(scaled, anchors.chosen)
            low, high = (torch.where(divergence > self.radius, a, b) for a, b in ((tau, low), (high, tau)))
        return high * (log_mean(anchors.near / high[..., None], anchors.chosen) + self.radius)
