"""Rows that belong to queries, and what losses of rankings by query have in common."""

import math
from collections.abc import Callable
from typing import Any

import torch

from xrisk.torch.across import joint
from xrisk.torch.checks import INTEGERS, index_of, scores_of
from xrisk.torch.compositional import CompositionalLoss
from xrisk.torch.functions import block_value

Tensor = torch.Tensor
Weights = Callable[[Tensor, Tensor], Tensor]  # of relevances and numbers of queries, 0, 1, …: the weight of each row
Values = Callable[[Tensor, Tensor, Tensor], Tensor]  # of scores, whom to compare with, and how many there are in all


def row_mean(pairs: Tensor, chosen: Tensor) -> Tensor:
    """The mean (B,) of the chosen entries of each row, 0 without any."""
    return torch.where(chosen, pairs, 0.0).sum(1) / chosen.sum(1).clamp(min=1)


def log_sums(scores: Tensor, other: Tensor, others: Tensor) -> Tensor:
    """log Σ exp(sⱼ − sᵢ) (B,), over i itself and as many others as there are in the data."""
    has_others = other.any(1)
    # a row of −∞ only would have NaN as gradient
    chosen = torch.where(has_others[:, None], other, True)
    logs = torch.logsumexp(torch.where(chosen, scores - scores[:, None], -math.inf), 1)
    # whole numbers would be divided in single precision
    scale = torch.log(others.clamp(min=1).to(scores.dtype) / other.sum(1).clamp(min=1))
    return torch.where(has_others, -torch.nn.functional.logsigmoid(-(logs + scale)), 0.0)


def ndcg_weights(relevance: Tensor, queries: Tensor) -> Tensor:
    """(2^y − 1)/Z over the number of queries that have a relevant row."""
    gains = torch.exp2(relevance.double()) - 1.0
    descending = gains.argsort(descending=True)
    order = descending[queries[descending].argsort(stable=True)]
    sizes = torch.bincount(queries)
    place = torch.arange(len(order), device=order.device) - (sizes.cumsum(0) - sizes)[queries[order]]
    best = torch.zeros(len(sizes), dtype=torch.double, device=order.device)
    best = best.index_add(0, queries[order], gains[order] / torch.log2(2.0 + place.double()))
    return torch.where(gains > 0.0, gains / best[queries], 0.0) / (best > 0.0).sum().clamp(min=1)


def listwise_weights(relevance: Tensor, queries: Tensor) -> Tensor:
    """The softmax of the relevances of each query, over the number of queries."""
    relevance, sizes = relevance.double(), torch.bincount(queries)
    top = torch.full((len(sizes),), -math.inf, dtype=torch.double, device=relevance.device)
    top = top.scatter_reduce(0, queries, relevance, "amax")
    parts = torch.exp(relevance - top[queries])
    total = torch.zeros_like(top).index_add(0, queries, parts)
    return parts / total[queries] / len(sizes)


class QueryRows(torch.nn.Module):
    """The query of each row of the data set, how many other rows it has, and the row's weight in the objective."""

    def __init__(self, relevance: Tensor, queries: Tensor, weights: Weights, dtype: torch.dtype) -> None:
        super().__init__()
        relevance, queries = checked("relevance", relevance, queries)
        weight = weights(relevance, queries)
        # constants of the data set, neither saved nor cast; the mean over the rows that count is the objective
        self.query, self.others = queries, (torch.bincount(queries) - 1)[queries]
        self.weight = (weight * (weight != 0).sum()).to(dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        device = fn(self.weight).device
        self.query, self.others, self.weight = (x.to(device) for x in (self.query, self.others, self.weight))
        return self

    def step(self, blocks: CompositionalLoss, values: Values, scores: Tensor, index: Tensor) -> Tensor:
        """The loss of the scores (B,) of the rows with these numbers."""
        scores = scores_of("scores", scores)
        index = index_of("index", index, scores.shape[0], self.query.shape[0])
        whole = joint(scores, (index,), blocks.group)
        index = whole.others[0]
        query, others = self.query[index], self.others[index]
        other = (query[:, None] == query) & (index[:, None] != index)
        is_known = other.any(1) | (others == 0)
        weight = torch.where(is_known, self.weight[index], 0.0)
        return blocks.step(values(whole.values, other, others)[:, None], index, weight=weight, ranks=whole.ranks)


def exact_of_queries(
    outer: Any, values: Values, weights: Weights, scores: Tensor, relevance: Tensor, queries: Tensor
) -> Tensor:
    """Σ weight·f(value) over the rows, whose values are those of whole queries."""
    scores = scores_of("scores", scores).double()
    relevance, queries = checked("targets", relevance, queries)
    if scores.shape != relevance.shape:
        raise ValueError(f"scores must have shape {tuple(relevance.shape)}, as the targets, got {tuple(scores.shape)}")
    weight, total = weights(relevance, queries), scores.new_zeros(())
    for rows in queries.argsort(stable=True).split(torch.bincount(queries).tolist()):
        other = ~torch.eye(len(rows), dtype=torch.bool, device=rows.device)
        found = values(scores[rows], other, torch.full_like(rows, len(rows) - 1))
        total = total + (weight[rows] * block_value(outer, found[:, None])).sum()
    return total


def checked(name: str, relevance: Any, queries: Any) -> tuple[Tensor, Tensor]:
    """Relevances as they are, and the queries numbered 0, 1, …"""
    if not isinstance(relevance, Tensor) or relevance.ndim != 1 or not bool(torch.isfinite(relevance).all()):
        shown = tuple(relevance.shape) if isinstance(relevance, Tensor) else type(relevance).__name__
        raise ValueError(f"{name} must be a tensor of finite relevances (rows,), got {shown}")
    if not isinstance(queries, Tensor) or queries.dtype not in INTEGERS or queries.shape != relevance.shape:
        shown = tuple(queries.shape) if isinstance(queries, Tensor) else type(queries).__name__
        raise ValueError(f"queries must be a tensor of integers {tuple(relevance.shape)}, got {shown}")
    if bool((relevance < 0).any()):
        raise ValueError(f"{name} must not be negative, got {relevance.min().item()}")
    return relevance, queries.unique(return_inverse=True)[1]
