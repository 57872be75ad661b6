"""The whole area under the ROC curve for any model: in pairs, or as a min-max problem of single rows."""

from typing import Any, NamedTuple

import torch

from xrisk.functions.loss import SquaredHinge
from xrisk.torch.across import joint, logged
from xrisk.torch.checks import is_finite, is_positive, number, scores_of
from xrisk.torch.pairs import (
    over_pairs,
    pair_loss_of,
    places_of,
    same_device,
    shares_of,
    sides,
    state_dtype,
    step_size,
    taken,
)
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful

SQUARED_HINGE = SquaredHinge()


class Classes(NamedTuple):
    """Scores of both classes of the joint batch; where one is absent, those of all rows with shares of 0."""

    high: torch.Tensor  # (S,)
    low: torch.Tensor  # (B,)
    high_share: torch.Tensor  # (S,)
    low_share: torch.Tensor  # (B,)
    has_both: torch.Tensor
    is_finite: torch.Tensor
    ranks: int


def classes_of(own: torch.Tensor, targets: Any, dtype: torch.dtype, group: Any) -> Classes:
    """The rows of all processes by class."""
    whole = joint(own.to(dtype), (is_positive("targets", targets, own.shape[0]),), group)
    positive = whole.others[0]
    if whole.values.shape[0] == 0:
        raise ValueError("scores must have at least one row, got none")
    up, down = places_of(positive), places_of(~positive)
    if up is None or down is None:
        up = down = None
    return Classes(
        taken(whole.values, up),
        taken(whole.values, down),
        shares_of(taken(positive, up), dtype),
        shares_of(taken(~positive, down), dtype),
        positive.any() & (~positive).any(),
        is_finite(whole.values.detach()),
        whole.ranks,
    )


class AUCMLoss(Stateful):
    """AUC margin loss: Var₊(h) + Var₋(h) + (c + h̄₋ − h̄₊)₊², scores h of the rows, as a min-max problem of single rows.

    The batch's gradient is that, in the scores, of::

        min over a, b  max over α ≥ 0 of  mean₊ (h − a)² + mean₋ (h − b)² + 2α (c + h̄₋ − h̄₊) − α²

    Parameters
    ----------
    margin : float
        c.
    dual_step : float
        Step size of α; 0.5 is the newest gap itself.
    mean_step : float
        Step size of a and b; 0.5 is the newest means themselves.
    dtype : torch.float32 or torch.float64
        Of the state, and of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    Notes
    -----
    With a share π of positives in the batch, version 1 of LibAUC has the same loss times π(1 − π). a, b and α are not
    parameters: a, b and α take their own steps here, α upwards, whatever the optimizer of the model is. PESG is
    ``torch.optim.SGD(momentum=1 - m, dampening=1 - m)`` with `ProximalPoint`.

    References
    ----------
    .. [1] Yuan, Yan, Sonka and Yang, Large-scale robust deep AUC maximization: a new surrogate loss and empirical
       studies on medical image classification, 2021.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> loss = xt.AUCMLoss()
    >>> loss.exact(torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0, 1, 0, 1]))  # 1 + 1 + (1 + 1 − 2)²
    2.0
    """

    a: torch.Tensor
    b: torch.Tensor
    alpha: torch.Tensor
    batches_without_pairs: torch.Tensor

    def __init__(
        self,
        *,
        margin: float = 1.0,
        dual_step: float = 0.1,
        mean_step: float = 0.1,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.margin = number("margin", margin, 1e-30, 1e30, "a positive number")
        self.dual_step, self.mean_step = step_size("dual_step", dual_step), step_size("mean_step", mean_step)
        self.dtype, self.group = state_dtype(dtype), group
        for name in ("a", "b", "alpha"):
            self.keep(name, torch.zeros(1, dtype=dtype))
        self.keep("batches_without_pairs", torch.zeros(1, dtype=torch.int64))

    def forward(self, scores: torch.Tensor, targets: torch.Tensor, index: Any = None) -> torch.Tensor:
        """The saddle value of a batch, and its gradient; ``index`` is not used."""
        own = scores_of("scores", scores)
        same_device(self.a, own)
        with torch.autocast(own.device.type, enabled=False):
            found = classes_of(own, targets, self.dtype, self.group)
            a, b, alpha = snapshot(self.a), snapshot(self.b), snapshot(self.alpha)
            gap = found.low_share @ found.low - found.high_share @ found.high
            spread = found.high_share @ (found.high - a) ** 2 + found.low_share @ (found.low - b) ** 2
            carrier = torch.where(found.has_both, spread + (2.0 * alpha * gap).squeeze(), 0.0)
            value = carrier.detach() + torch.where(found.has_both, 2.0 * alpha * self.margin - alpha**2, 0.0).squeeze()
            if self.training:
                self._write(found, gap.detach())
            return logged(torch.where(found.is_finite, value, torch.nan), carrier, found.ranks)

    @torch.no_grad()
    def _write(self, found: Classes, gap: torch.Tensor) -> None:
        may_write = found.has_both & found.is_finite
        steps = {
            "a": self.a + 2.0 * self.mean_step * (found.high_share @ found.high - self.a),
            "b": self.b + 2.0 * self.mean_step * (found.low_share @ found.low - self.b),
            "alpha": (self.alpha + 2.0 * self.dual_step * (self.margin + gap - self.alpha)).clamp(min=0.0),
        }
        for name, new in steps.items():
            self._kept[name].copy_(torch.where(may_write, new, self._kept[name]))
        self.batches_without_pairs.add_(~found.has_both)

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set."""
        high, low = sides(scores, targets)
        gap = (self.margin + low.mean() - high.mean()).clamp(min=0.0)
        return float(high.var(correction=0) + low.var(correction=0) + gap**2)


class AUCLoss(torch.nn.Module):
    """Area under the ROC curve: the mean over all pairs of ℓ(aᵢ − bⱼ), aᵢ of a positive and bⱼ of a negative.

    Nothing is kept from batch to batch: the mean over the pairs of a batch is an unbiased estimate.

    Parameters
    ----------
    margin : float
        Where the pair loss would be 0 if it is a hinge: it is ℓ(aᵢ − bⱼ + 1 − margin).
    loss : loss spec
        ℓ, which must not increase with the margin.
    dtype : torch.float32 or torch.float64
        Of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    References
    ----------
    .. [1] Gao and Zhou, On the consistency of AUC pairwise optimization, 2015.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> loss = xt.AUCLoss(margin=1.0)
    >>> loss(torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.tensor([0, 1, 0, 1])).item()  # 1 and 3 against 0 and 2
    1.0
    """

    def __init__(
        self,
        *,
        margin: float = 0.5,
        loss: Any = SQUARED_HINGE,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.pair_loss, self.dtype, self.group = pair_loss_of(loss, margin), state_dtype(dtype), group

    def forward(self, scores: torch.Tensor, targets: torch.Tensor, index: Any = None) -> torch.Tensor:
        """The mean loss of the pairs of a batch; ``index`` is not used."""
        own = scores_of("scores", scores)
        with torch.autocast(own.device.type, enabled=False):
            found = classes_of(own, targets, self.dtype, self.group)
            weight = found.high_share[:, None] * found.low_share[None, :]
            margins = found.high[:, None] - found.low[None, :]
            losses = self.pair_loss(torch.where(weight > 0.0, margins, 0.0))
            carrier = (weight * losses).sum()
            return logged(torch.where(found.is_finite, carrier.detach(), torch.nan), carrier, found.ranks)

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set."""
        high, low = sides(scores, targets)
        return float(over_pairs(high, low, lambda t: self.pair_loss(t).mean(1)).mean())
