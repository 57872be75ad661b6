"""Two-way partial AUC for any model: the lowest positives against the highest negatives."""

from typing import Any

import torch

from xrisk.functions.loss import SquaredHinge
from xrisk.torch.checks import number
from xrisk.torch.pairs import (
    JointPairs,
    PairLoss,
    Update,
    hardest_pairs,
    highest,
    lowest,
    over_pairs,
    pair_loss_of,
    sides,
    step_size,
)
from xrisk.torch.two_way_rules import RULES, PAUCIRule, SOTAsRule, log_mean

SQUARED_HINGE = SquaredHinge()


class TwoWayPartialAUCLoss(PairLoss):
    """min over s, s′ of s′ + meanᵢ (gᵢ(w, sᵢ) − s′)₊/θ₀, gᵢ = sᵢ + meanⱼ (ℓ(aᵢ − bⱼ) − sᵢ)₊/θ₁: the hardest pairs.

    a and b are the scores of positives and of negatives. The objective is the mean loss of the k₁ lowest positives
    against the k₂ highest negatives, θ₀ = k₁/n₊ and θ₁ = k₂/n₋: the part of the ROC curve with TPR ≥ ``min_tpr`` and
    FPR ≤ ``max_fpr``.

    Parameters
    ----------
    targets : tensor (rows,)
        Labels of the whole training set: 0 and 1, −1 and 1, or booleans.
    min_tpr, max_fpr : float
        The part of the ROC curve.
    margin : float
        Where the pair loss would be 0 if it is a hinge: it is ℓ(aᵢ − bⱼ + 1 − margin).
    loss : loss spec
        ℓ, of `xrisk.functions.loss` or `xrisk.torch.functions`, that does not increase with the margin.
    method : str or rule
        ``"staco"`` (STACO1), ``"sonx"``, ``"sonex"``, ``"sota"``, ``"sota-s"`` or ``"pauci"``; for their parameters a
        rule such as ``xrisk.torch.STACORule(gamma=500)``, which is STACO2.
    dual_step : float
        Step size α of the duals yᵢ in [0, 1], and of γ of PAUCI, which are maximised.
    tail_step, threshold_step : float
        Step sizes β of sᵢ and β′ of s′. PAUCI has ``tail_step`` for all that is minimised.
    threshold : float
        Where sᵢ and s′ start; 1 in the paper, where no weight moves before they have come down to the losses.
    dtype : torch.float32 or torch.float64
        Of the state, and of what is computed from scores, under autocast too.
    group : process group, optional
        The processes that share a batch.

    Notes
    -----
    ``loss(scores, targets, index)`` takes the rows of a batch and their numbers in the data set, which positives of the
    constructor's ``targets`` keep their yᵢ and sᵢ by. Its value is the estimate s′ + mean yᵢ (gᵢ − s′)/θ₀ of the
    objective, and its gradient that of mean yᵢ 1[ℓᵢⱼ > sᵢ] ℓᵢⱼ/(θ₀θ₁) with everything but ℓ constant.

    STACO needs two independent batches of negatives. With one, gradients of w and s have the duals yᵢ from before the
    batch, which are independent of it, and s′ has the new ones. ``second``, a boolean for each row, names the negatives
    of the second batch: then yᵢ is updated from the first batch, and its new value is used with the second, as
    published. `stage` ends a stage of STACO2 or SOTA; the optimizer does the same for the weights by `ProximalPoint`.
    ``dual_step``, ``tail_step`` and ``threshold_step`` are attributes to be cut with the learning rate.

    A row that occurs twice in a batch changes its numbers once, by the mean. Every call in training mode updates them,
    so a closure that LBFGS calls many times does so many times.

    References
    ----------
    .. [1] Zhou, Wang, Thai and Yang, Stochastic primal-dual double block-coordinate for two-way partial AUC
       maximization, 2025, (3)–(12), Algorithms 1 and 2.
    .. [2] Zhu, Li, Wang, Wu and Yang, When AUC meets DRO, 2022 (SOTA, SOTA-s).
    .. [3] Hu, Zhu and Yang, Non-smooth weakly-convex finite-sum coupled compositional optimization, 2023 (SONX).
    .. [4] Shao, Xu, Yang, Bao and Huang, Asymptotically unbiased instance-wise regularized partial AUC optimization,
       2022 (PAUCI).

    Examples
    --------
    >>> import torch
    >>> import xrisk.torch as xt
    >>> _ = torch.manual_seed(0)
    >>> x = torch.randn(200, 3)
    >>> y = (x[:, 0] > 0.8).long()
    >>> model = torch.nn.Linear(3, 1)
    >>> loss = xt.TwoWayPartialAUCLoss(y, min_tpr=0.5, max_fpr=0.5)
    >>> before = loss.exact(model(x).sigmoid(), y)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     value = loss(model(x).sigmoid(), y, torch.arange(200))
    ...     value.backward()
    ...     optimizer.step()
    >>> loss.exact(model(x).sigmoid(), y) < before / 2
    True
    """

    y: torch.Tensor
    s: torch.Tensor
    level: torch.Tensor

    def __init__(
        self,
        targets: torch.Tensor,
        *,
        min_tpr: float,
        max_fpr: float,
        margin: float = 0.5,
        loss: Any = SQUARED_HINGE,
        method: Any = "staco",
        dual_step: float = 0.1,
        tail_step: float = 0.1,
        threshold_step: float = 0.1,
        threshold: float = 0.0,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__(targets, loss, margin, dtype=dtype, group=group)
        self.min_tpr, self.max_fpr = min_tpr, max_fpr
        self.theta0 = lowest("min_tpr", self.positives, min_tpr) / self.positives
        self.theta1 = highest("max_fpr", self.negatives, max_fpr) / self.negatives
        self.dual_step = step_size("dual_step", dual_step)
        self.tail_step = step_size("tail_step", tail_step)
        self.threshold_step = step_size("threshold_step", threshold_step)
        self.threshold = number("threshold", threshold, -1e30, 1e30, "a finite number")
        self.rule = rule_of(method)
        self.rule.prepare(self)

    def forward(
        self,
        scores: torch.Tensor,
        targets: torch.Tensor,
        index: torch.Tensor | None = None,
        *,
        second: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The objective's estimate from a batch; ``previous``, for a correction: its scores at the weights before."""
        return self.compute(scores, targets, index, second, previous)

    def update(self, pairs: JointPairs) -> Update:
        """What a batch leads to."""
        return self.rule.update(self, pairs)

    def stage(self) -> None:
        """End a stage: thresholds go on from their means, which become the anchors; yᵢ from 1 (STACO2) or its mean."""
        self.rule.stage(self)

    def exact(self, scores: torch.Tensor, targets: torch.Tensor) -> float:
        """The objective of a validation set; of its own soft form for SOTA-s, of (1 − (aᵢ − bⱼ))² for PAUCI."""
        high, low = sides(scores, targets)
        if type(self.rule) is SOTAsRule:
            return soft_two_way(self, high, low)
        k1, k2 = lowest("min_tpr", high.numel(), self.min_tpr), highest("max_fpr", low.numel(), self.max_fpr)
        square = pair_loss_of(SQUARED_HINGE, 1.0)  # margins of sigmoid scores are at most 1
        return hardest_pairs(high, low, k1, k2, square if type(self.rule) is PAUCIRule else self.pair_loss)


def rule_of(method: Any) -> Any:
    """The rule that a word stands for; a rule is one itself."""
    if isinstance(method, str) and method in RULES:
        return RULES[method]
    if type(method) not in {type(rule) for rule in RULES.values()}:
        raise ValueError(f"method must be one of {', '.join(RULES)} or a rule, got {method!r}")
    return method


def soft_two_way(loss: TwoWayPartialAUCLoss, high: torch.Tensor, low: torch.Tensor) -> float:
    """λ′ log meanᵢ (meanⱼ exp(ℓᵢⱼ/λ))^{λ/λ′}."""
    lam, outer_lam, share = loss.rule.lam, loss.rule.outer_lam, torch.full_like(low, 1.0 / low.numel())
    log_u = over_pairs(high, low, lambda t: log_mean(loss.pair_loss(t) / lam, share))
    return float(outer_lam * log_mean(lam / outer_lam * log_u, torch.full_like(high, 1.0 / high.numel())))
