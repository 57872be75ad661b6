"""Losses of rankings: average precision, NDCG and listwise likelihood, each a mean of functions of estimated ranks."""

import math
from typing import Any

import torch

from xrisk.functions import SquaredHinge
from xrisk.torch.across import joint
from xrisk.torch.checks import index_of, is_positive, number, scores_of
from xrisk.torch.compositional import CompositionalLoss
from xrisk.torch.functions import Discount, LogMeanExp, Quotient, block_value, loss_value
from xrisk.torch.queries import QueryRows, exact_of_queries, listwise_weights, log_sums, ndcg_weights, row_mean

Tensor = torch.Tensor
CHUNK = 2**22  # pairs in memory at a time


class AveragePrecisionLoss(torch.nn.Module):
    """−mean over positives i of u₁/u₂, with ranks u₁ = 1 + Σ ℓ(sᵢ − sⱼ) over positives j ≠ i, u₂ over all j ≠ i.

    The negative average precision, where ℓ stands in for the indicator of sⱼ ≥ sᵢ: SOAP [1]_, Algorithm 1. A batch
    estimates the sums over the other positives and over the negatives from its rows of either class.

    Parameters
    ----------
    targets : Tensor
        Labels (rows,) of the data set.
    surrogate : spec
        ℓ as a loss of the target 1, such as `xrisk.functions.SquaredHinge` or `xrisk.torch.functions.Sigmoid`.
    margin : float
        Unit of the scores' differences in ℓ.
    track : float
        Weight of the newest estimate in the trackers of the ranks.
    dtype : torch.dtype
        Of the trackers.
    group : ProcessGroup, optional
        The processes that share a batch.

    Notes
    -----
    A positive counts 1 for itself in both ranks, and its estimates are scaled for the others; the paper averages over
    all rows of the batch, itself among them, which overestimates its own part. A batch without positives or without
    negatives has value and gradient 0 and changes nothing.

    References
    ----------
    .. [1] Q. Qi et al. Stochastic Optimization of Areas Under Precision-Recall Curves. NeurIPS 2021.

    Examples
    --------
    >>> targets = torch.tensor([1, 0, 1, 0])
    >>> loss = AveragePrecisionLoss(targets)
    >>> scores = torch.tensor([3.0, 0.0, 1.5, 2.0], requires_grad=True)
    >>> value = loss(scores, targets, torch.arange(4))
    >>> value.backward()
    >>> round(value.item(), 4), round(loss.exact(scores, targets).item(), 4)
    (-0.8816, -0.8816)
    """

    def __init__(
        self,
        targets: Tensor,
        *,
        surrogate: Any = SquaredHinge(),
        margin: float = 1.0,
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        positive = is_positive("targets", targets)
        self.counts = _counts(positive)
        self.surrogate = surrogate
        self.margin = number("margin", margin, math.ulp(0.0), math.inf, "positive")
        self.group = group
        self.ranks = CompositionalLoss(positive.shape[0], Quotient(), width=2, track=track, dtype=dtype, group=group)

    def forward(self, scores: Tensor, targets: Tensor, index: Tensor) -> Tensor:
        """The loss of scores (B,), their labels and the numbers of their rows."""
        scores = scores_of("scores", scores)
        positive = is_positive("targets", targets, scores.shape[0])
        index = index_of("index", index, scores.shape[0], self.ranks.u.shape[0])
        whole = joint(scores, (positive, index), self.group)
        positive, index = whole.others
        other = index[:, None] != index
        values = self._ranks(whole.values, whole.values, other, positive, self.counts)
        return self.ranks.step(values, index, weight=positive & ~positive.all(), ranks=whole.ranks)

    @torch.no_grad()
    def exact(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The objective of all rows at hand, for validation, in double precision."""
        scores = scores_of("scores", scores).double()
        positive = is_positive("targets", targets, scores.shape[0])
        counts, place = _counts(positive), torch.arange(scores.shape[0], device=scores.device)
        parts = [
            self._ranks(scores[rows], scores, rows[:, None] != place, positive, counts)
            for rows in place[positive].split(max(CHUNK // scores.shape[0], 1))
        ]
        return block_value(Quotient(), torch.cat(parts)).mean()

    def _ranks(
        self, anchors: Tensor, scores: Tensor, other: Tensor, positive: Tensor, counts: tuple[int, int]
    ) -> Tensor:
        """The estimates (S, 2) of u₁ and u₂ of S anchors."""
        pairs = loss_value(self.surrogate, (anchors[:, None] - scores) / self.margin, 1.0)
        first = 1.0 + (counts[0] - 1) * row_mean(pairs, other & positive)
        return torch.stack([first, first + counts[1] * row_mean(pairs, other & ~positive)], 1)


class NDCGLoss(torch.nn.Module):
    """−mean over queries of Σᵢ (2^yᵢ − 1)/log₂(1 + uᵢ)/Z, with the rank uᵢ = 1 + Σ over j ≠ i of ℓ(sᵢ − sⱼ).

    The negative NDCG with ranks by a surrogate: SONG [1]_, Algorithm 1. Z is the discounted gain of the best order.
    Queries without a relevant row do not count. A batch should have several rows of each of its queries, such as
    `GroupBatches` draws; its estimate of a rank is scaled to the size of the query.

    Parameters
    ----------
    relevance : Tensor
        Relevance y ≥ 0 of each row of the data set.
    queries : Tensor
        Number of the query of each row.
    surrogate, margin, track, dtype, group
        As of `AveragePrecisionLoss`.

    Notes
    -----
    The value of a batch is that of its relevant rows, which count as drawn with equal chances.

    References
    ----------
    .. [1] Z. Qiu et al. Large-scale Stochastic Optimization of NDCG Surrogates. ICML 2022.

    Examples
    --------
    >>> relevance, queries = torch.tensor([2.0, 0.0, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 0, 1, 1])
    >>> loss = NDCGLoss(relevance, queries)
    >>> scores = torch.tensor([1.0, -1.0, -0.5, 2.0, 0.0])
    >>> value = loss(scores, relevance, torch.arange(5))
    >>> round(value.item(), 4), round(loss.exact(scores, relevance, queries).item(), 4)
    (-0.9577, -0.9577)
    """

    def __init__(
        self,
        relevance: Tensor,
        queries: Tensor,
        *,
        surrogate: Any = SquaredHinge(),
        margin: float = 1.0,
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.surrogate = surrogate
        self.margin = number("margin", margin, math.ulp(0.0), math.inf, "positive")
        self.rows = QueryRows(relevance, queries, ndcg_weights, dtype)
        self.ranks = CompositionalLoss(len(queries), Discount(), track=track, dtype=dtype, group=group)

    def forward(self, scores: Tensor, targets: Tensor, index: Tensor) -> Tensor:
        """The loss of scores (B,) and the numbers of their rows; the relevances are those of the data set."""
        return self.rows.step(self.ranks, self._ranks, scores, index)

    @torch.no_grad()
    def exact(self, scores: Tensor, targets: Tensor, queries: Tensor) -> Tensor:
        """The objective of all rows at hand, of whole queries, for validation, in double precision."""
        return exact_of_queries(Discount(), self._ranks, ndcg_weights, scores, targets, queries)

    def _ranks(self, scores: Tensor, other: Tensor, others: Tensor) -> Tensor:
        """Ranks (B,); ``other`` (B, B) are the rows to compare with, ``others`` how many there are in the data."""
        pairs = loss_value(self.surrogate, (scores[:, None] - scores) / self.margin, 1.0)
        return 1.0 + others * row_mean(pairs, other)


class ListwiseLoss(torch.nn.Module):
    """mean over queries of Σᵢ pᵢ log Σⱼ exp(sⱼ − sᵢ), with p the softmax of the relevances of the query.

    The cross-entropy of ListNet [1]_ with a tracker for each sum over a query [2]_, in logarithms. A batch should have
    several rows of each of its queries, such as `GroupBatches` draws.

    Parameters
    ----------
    relevance : Tensor
        Relevance of each row of the data set.
    queries : Tensor
        Number of the query of each row.
    track, dtype, group
        As of `AveragePrecisionLoss`.

    References
    ----------
    .. [1] Z. Cao et al. Learning to Rank: From Pairwise Approach to Listwise Approach. ICML 2007.
    .. [2] Z. Qiu et al. Large-scale Stochastic Optimization of NDCG Surrogates. ICML 2022.

    Examples
    --------
    >>> relevance, queries = torch.tensor([2.0, 0.0, 1.0, 1.0, 0.0]), torch.tensor([0, 0, 0, 1, 1])
    >>> loss = ListwiseLoss(relevance, queries)
    >>> scores = torch.tensor([1.0, -1.0, -0.5, 2.0, 0.0])
    >>> value = loss(scores, relevance, torch.arange(5))
    >>> round(value.item(), 4), round(loss.exact(scores, relevance, queries).item(), 4)
    (0.7592, 0.7592)
    """

    def __init__(
        self,
        relevance: Tensor,
        queries: Tensor,
        *,
        track: float = 0.9,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        self.rows = QueryRows(relevance, queries, listwise_weights, dtype)
        self.sums = CompositionalLoss(len(queries), LogMeanExp(), track=track, dtype=dtype, group=group)

    def forward(self, scores: Tensor, targets: Tensor, index: Tensor) -> Tensor:
        """The loss of scores (B,) and the numbers of their rows; the relevances are those of the data set."""
        return self.rows.step(self.sums, log_sums, scores, index)

    @torch.no_grad()
    def exact(self, scores: Tensor, targets: Tensor, queries: Tensor) -> Tensor:
        """The objective of all rows at hand, of whole queries, for validation, in double precision."""
        return exact_of_queries(LogMeanExp(), log_sums, listwise_weights, scores, targets, queries)


def _counts(positive: Tensor) -> tuple[int, int]:
    """Positives and negatives; both are needed."""
    positives = int(positive.sum())
    negatives = positive.numel() - positives
    if not positives or not negatives:
        raise ValueError(f"targets must have both classes, got {positives} positives in {positive.numel()}")
    return positives, negatives
