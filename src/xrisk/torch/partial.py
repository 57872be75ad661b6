"""Partial AUC for any model, one rate in a range: high true positive rates, or low false positive rates."""

from typing import Any

import torch

from xrisk.functions.loss import SquaredHinge
from xrisk.torch.checks import number
from xrisk.torch.pairs import JointPairs, PairLoss, Update, hardest_pairs, highest, lowest, over_pairs, sides, step_size
from xrisk.torch.two_way_rules import log_mean, soft_carrier, tail_slopes, tail_values, tracked_log

SQUARED_HINGE = SquaredHinge()


class PartialAUCLoss(PairLoss):
    """Partial AUC with FPR ≤ ``max_fpr``, or with TPR ≥ ``min_tpr``, or a soft form of the former by ``strength`` = λ.

    With a and b the scores of positives and of negatives and ℓᵢⱼ = ℓ(aᵢ − bⱼ), one of::

        max_fpr:   meanᵢ min over s of s + meanⱼ (ℓᵢⱼ − s)₊/θ₁,    θ₁ = ⌊n₋ max_fpr⌋/n₋
        min_tpr:   min over s′ of s′ + meanᵢ (meanⱼ ℓᵢⱼ − s′)₊/θ₀,    θ₀ = ⌊n₊ (1 − min_tpr)⌋/n₊
        strength:  λ meanᵢ log meanⱼ exp(ℓᵢⱼ/λ)

    The first is the mean loss of all positives against the highest negatives, the second that of the lowest positives
    against all negatives.

    Parameters
    ----------
    targets : tensor (rows,)
        Labels of the whole training set: 0 and 1, −1 and 1, or booleans.
    min_tpr, max_fpr, strength : float
        Exactly one of them; for both rates see `TwoWayPartialAUCLoss`, for neither `AUCLoss`.
    margin : float
        Where the pair loss would be 0 if it is a hinge: it is ℓ(aᵢ − bⱼ + 1 − margin).
    loss : loss spec
        ℓ, which must not increase with the margin.
    tail_step : float
        Step size of the threshold s of a positive, with ``max_fpr``.
    dual_step, threshold_step : float
        Step sizes of the duals yᵢ in [0, 1] and of s′, with ``min_tpr``.
    track : float
        Weight of the newest mean of exp(ℓᵢⱼ/λ), with ``strength``.
    dtype : torch.float32 or torch.float64
        Of the state, and of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    Notes
    -----
    FPR is SOPA, the soft form SOPA-s [1]_; the paper's step of a threshold is ours over n₊. TPR is the primal-dual
    method of `TwoWayPartialAUCLoss`, whose Notes on one or two batches of negatives hold. The soft form keeps
    logarithms, so it does not overflow.

    References
    ----------
    .. [1] Zhu, Li, Wang, Wu and Yang, When AUC meets DRO: optimizing partial AUC for deep learning with non-convex
       convergence guarantee, 2022, Algorithms 1 and 2.

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> targets = torch.tensor([0, 1, 0, 1])
    >>> loss = xt.PartialAUCLoss(targets, max_fpr=0.5, margin=1.0)
    >>> loss.exact(torch.tensor([0.0, 1.0, 2.0, 3.0]), targets)  # 1 and 3 against 2: (2² + 0²)/2
    2.0
    """

    s: torch.Tensor
    y: torch.Tensor
    level: torch.Tensor
    log_u: torch.Tensor

    def __init__(
        self,
        targets: torch.Tensor,
        *,
        min_tpr: float = 0.0,
        max_fpr: float = 1.0,
        strength: float | None = None,
        margin: float = 0.5,
        loss: Any = SQUARED_HINGE,
        tail_step: float = 0.1,
        dual_step: float = 0.1,
        threshold_step: float = 0.1,
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__(targets, loss, margin, dtype=dtype, group=group)
        self.min_tpr, self.max_fpr, self.strength = min_tpr, max_fpr, strength
        self.theta0 = lowest("min_tpr", self.positives, min_tpr) / self.positives
        self.theta1 = highest("max_fpr", self.negatives, max_fpr) / self.negatives
        self.tail_step, self.dual_step = step_size("tail_step", tail_step), step_size("dual_step", dual_step)
        self.threshold_step = step_size("threshold_step", threshold_step)
        self.track = number("track", track, 1e-12, 1.0, "a number in (0, 1]")
        chosen = [min_tpr != 0.0, max_fpr != 1.0, strength is not None]
        if sum(chosen) != 1:
            raise ValueError(f"one of min_tpr, max_fpr and strength must be given, got {sum(chosen)} of them")
        self._prepare()

    def _prepare(self) -> None:
        if self.strength is not None:
            self.strength = number("strength", self.strength, 1e-30, 1e30, "a positive number")
            self.keep_rows("log_u")
            self.keep_rows("seen", dtype=torch.bool)
        elif self.min_tpr != 0.0:
            self.keep_rows("y", fill=1.0)
            self.keep_numbers("level")
        else:
            self.keep_rows("s")

    def forward(
        self,
        scores: torch.Tensor,
        targets: torch.Tensor,
        index: torch.Tensor | None = None,
        *,
        second: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The objective's estimate from a batch; ``second`` names the rows of a second batch of negatives."""
        return self.compute(scores, targets, index, second)

    def update(self, pairs: JointPairs) -> Update:
        """What a batch leads to."""
        if self.strength is not None:
            return self._soft(pairs, self.strength)
        return self._worst_positives(pairs) if self.min_tpr != 0.0 else self._worst_negatives(pairs)

    def _worst_negatives(self, pairs: JointPairs) -> Update:
        """SOPA."""
        s = self.rows("s", pairs)
        g = tail_values(pairs.values, s, pairs.first, self.theta1)
        slope, carrier = tail_slopes(pairs, s, torch.ones_like(s), self.theta1)
        return Update(pairs.share @ g, carrier, {"s": s - self.tail_step * slope}, {})

    def _worst_positives(self, pairs: JointPairs) -> Update:
        """Primal and dual steps, without thresholds of negatives."""
        y, level = self.rows("y", pairs), self.numbers("level")
        means = pairs.values @ pairs.first
        y_new = (y + self.dual_step / self.theta0 * (pairs.average @ means - level)).clamp(0.0, 1.0)
        used = (y if pairs.is_lagged else y_new) / self.theta0
        carrier = (pairs.share * used) @ (pairs.losses @ pairs.second)
        value = (level + pairs.share @ (used * (means - level))).squeeze()
        level_new = level - self.threshold_step * (1.0 - pairs.share @ y_new / self.theta0)
        return Update(value, carrier, {"y": y_new}, {"level": level_new})

    def _soft(self, pairs: JointPairs, strength: float) -> Update:
        """SOPA-s."""
        log_u = tracked_log(self, pairs, strength, self.track)
        carrier = soft_carrier(pairs, strength, -log_u)
        rows = {"log_u": log_u, "seen": torch.ones_like(log_u, dtype=torch.bool)}
        return Update(strength * (pairs.share @ log_u), carrier, rows, {})

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set."""
        high, low = sides(scores, targets)
        if self.strength is not None:
            lam, share = self.strength, torch.full_like(low, 1.0 / low.numel())
            return lam * float(over_pairs(high, low, lambda t: log_mean(self.pair_loss(t) / lam, share)).mean())
        k1, k2 = lowest("min_tpr", high.numel(), self.min_tpr), highest("max_fpr", low.numel(), self.max_fpr)
        return hardest_pairs(high, low, k1, k2, self.pair_loss)
