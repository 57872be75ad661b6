"""Pushes: rankings that are right at one end of the list, the top or the bottom."""

from typing import Any

import torch

from xrisk.functions.loss import ExponentialLoss, SquaredHinge
from xrisk.torch.checks import number
from xrisk.torch.pairs import JointPairs, PairLoss, Update, hardest_pairs, over_pairs, sides, step_size
from xrisk.torch.two_way_rules import tail_slopes, tail_values

EXPONENTIAL, SQUARED_HINGE = ExponentialLoss(), SquaredHinge()


class PNormPushLoss(PairLoss):
    """p-norm push: the mean over i of gᵢ(w)^p, gᵢ a row's mean loss ℓ(a − b) against the other class.

    With negatives outside, a negative above many positives has a large gᵢ and is removed from the top of the list; with
    positives outside, positives are removed from the bottom.

    Parameters
    ----------
    targets : tensor (rows,)
        Labels of the whole training set: 0 and 1, −1 and 1, or booleans.
    p : float
        At least 1; 1 is the area under the ROC curve.
    outer : {"negatives", "positives"}
        Whose mean losses are raised to the power.
    loss : loss spec
        ℓ, not negative, which must not increase with the margin.
    margin : float
        The pair loss is ℓ(a − b + 1 − margin).
    track : float
        Weight of the newest mean loss in its moving average uᵢ; with rows that are sampled rarely, near 1.
    dtype : torch.float32 or torch.float64
        Of the state, and of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    Notes
    -----
    The gradient is that of mean p uᵢ^{p−1} gᵢ, with uᵢ updated first and constant (SOX [2]_). ``second`` names the rows
    of a second batch of the other class, from which the gradient is then taken.

    References
    ----------
    .. [1] Rudin, The p-norm push: a simple convex ranking algorithm that concentrates at the top of the list, 2009.
    .. [2] Wang and Yang, Finite-sum coupled compositional stochastic optimization, 2022, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> from xrisk.functions import HingeLoss
    >>> targets = torch.tensor([0, 1, 0, 1])
    >>> loss = xt.PNormPushLoss(targets, p=2, loss=HingeLoss())
    >>> loss.exact(torch.tensor([0.0, 1.0, 2.0, 3.0]), targets)  # gaps (0, 0) and (2, 0): (0² + 1²)/2
    0.5
    """

    u: torch.Tensor
    seen: torch.Tensor

    def __init__(
        self,
        targets: torch.Tensor,
        *,
        p: float = 4.0,
        outer: str = "negatives",
        loss: Any = EXPONENTIAL,
        margin: float = 1.0,
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        if outer not in ("negatives", "positives"):
            raise ValueError(f"outer must be 'negatives' or 'positives', got {outer!r}")
        super().__init__(targets, loss, margin, dtype=dtype, group=group, outer_is_positive=outer == "positives")
        self.p = number("p", p, 1.0, 1e6, "finite and at least 1")
        self.track = number("track", track, 1e-12, 1.0, "a number in (0, 1]")
        self.keep_rows("u")
        self.keep_rows("seen", dtype=torch.bool)

    def forward(
        self,
        scores: torch.Tensor,
        targets: torch.Tensor,
        index: torch.Tensor | None = None,
        *,
        second: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The objective's estimate from a batch, and its gradient."""
        return self.compute(scores, targets, index, second)

    def update(self, pairs: JointPairs) -> Update:
        """What a batch leads to."""
        g, old = pairs.average @ (pairs.values @ pairs.first), self.rows("u", pairs)
        u = torch.where(self.rows("seen", pairs), old + self.track * (g - old), g)
        slope = self.p * u ** (self.p - 1.0)
        carrier = (pairs.share * slope) @ (pairs.losses @ pairs.second)
        return Update(pairs.share @ u**self.p, carrier, {"u": u, "seen": torch.ones_like(u, dtype=torch.bool)}, {})

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set."""
        high, low = sides(scores, targets)
        sign = 1.0 if self.outer_is_positive else -1.0
        outer, inner = (high, low) if self.outer_is_positive else (low, high)
        return float((over_pairs(outer, inner, lambda t: self.pair_loss(sign * t).mean(1)) ** self.p).mean())


class TopPushLoss(PairLoss):
    """TopPush: the mean over positives i of ℓ(aᵢ − maxⱼ bⱼ), every positive against the highest negative.

    As a tail: meanᵢ min over s of s + n₋ meanⱼ (ℓᵢⱼ − s)₊, with a threshold s for each positive.

    Parameters
    ----------
    targets : tensor (rows,)
        Labels of the whole training set: 0 and 1, −1 and 1, or booleans.
    loss : loss spec
        ℓ, which must not increase with the margin.
    margin : float
        Where the pair loss would be 0 if it is a hinge: it is ℓ(aᵢ − bⱼ + 1 − margin).
    tail_step : float
        Step size of a threshold, divided by n₋.
    dtype : torch.float32 or torch.float64
        Of the state, and of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    Notes
    -----
    It is SOPA [2]_ for the highest 1/n₋ of the negatives. Few batches have a negative above a threshold, and those that
    do weigh n₋ times as much: with many negatives, `PartialAUCLoss` with ``max_fpr`` or ``strength`` is less noisy.

    References
    ----------
    .. [1] Li, Jin and Zhou, Top rank optimization in linear time, 2014.
    .. [2] Zhu, Li, Wang, Wu and Yang, When AUC meets DRO, 2022, Algorithm 1.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> targets = torch.tensor([0, 1, 0, 1])
    >>> loss = xt.TopPushLoss(targets)
    >>> loss.exact(torch.tensor([0.0, 1.0, 2.0, 3.0]), targets)  # 1 and 3 against the negative at 2: (2² + 0²)/2
    2.0
    """

    s: torch.Tensor

    def __init__(
        self,
        targets: torch.Tensor,
        *,
        loss: Any = SQUARED_HINGE,
        margin: float = 1.0,
        tail_step: float = 0.1,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__(targets, loss, margin, dtype=dtype, group=group)
        self.tail_step = step_size("tail_step", tail_step)
        self.keep_rows("s")

    def forward(self, scores: torch.Tensor, targets: torch.Tensor, index: torch.Tensor | None = None) -> torch.Tensor:
        """The objective's estimate from a batch, and its gradient."""
        return self.compute(scores, targets, index)

    def update(self, pairs: JointPairs) -> Update:
        """What a batch leads to."""
        s, theta1 = self.rows("s", pairs), 1.0 / self.negatives
        slope, carrier = tail_slopes(pairs, s, torch.ones_like(s), theta1)
        value = pairs.share @ tail_values(pairs.values, s, pairs.first, theta1)
        return Update(value, carrier, {"s": s - self.tail_step * theta1 * slope}, {})

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set."""
        high, low = sides(scores, targets)
        return hardest_pairs(high, low, high.numel(), 1, self.pair_loss)
