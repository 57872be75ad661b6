"""Outer functions of means that a batch only estimates: one tracker for each inner function."""

import math
from typing import Any, NamedTuple

import torch

from xrisk.torch.across import joint, logged
from xrisk.torch.checks import INTEGERS, index_of, is_finite, number
from xrisk.torch.functions import LogMeanExp, block_value, check_outer
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful
from xrisk.torch.tracking import Repeats, blend, repeat_mean, repeats, value_weight

Tensor = torch.Tensor


class Estimates(NamedTuple):
    """The inner values of the rows of a batch, as their trackers estimate them."""

    u: Tensor  # (B, width)
    kept: Tensor  # (B, width) what the state becomes, in its own precision
    seen: Tensor  # (B,) whether there is an estimate now
    is_sound: Tensor  # whether all numbers are finite
    may_write: Tensor  # (B,)
    same: Repeats

    def objective(self, value: Tensor, dtype: torch.dtype) -> Tensor:
        """The value, or NaN if a number is not finite."""
        return torch.where(self.is_sound, value.to(dtype), math.nan)


class CompositionalLoss(Stateful):
    """mean over i of f(gᵢ(w)), gᵢ(w) the mean of the values of index i.

    A tracker follows each gᵢ(w): uᵢ ← (1 − track)·uᵢ + track·(mean of the batch's values of index i), and the first
    visit takes that mean itself. The gradient of a batch is the mean of f′(uᵢ)·∇gᵢ over its indices [1]_, Algorithm 1;
    with momentum in the optimizer this is SOX, with ``track=1`` the biased method BSGD. The value is the mean of
    f(uᵢ) over the indices of the batch, the same on every process.

    Parameters
    ----------
    rows : int
        How many inner functions there are.
    outer : spec
        f, such as `xrisk.functions.Exponential`. A scalar f of ``width`` values acts as the sum of f(u_k).
    width : int
        How many values an inner function has.
    track : float
        Weight of the newest mean in the tracker.
    correction : float, optional
        Weight γ′ of the difference between the values and those of the same batch at the previous weights, which is
        added to the tracker [2]_. Each call then needs ``previous``: a second forward pass without gradient, which
        costs about a third of a training step.
    dtype : torch.dtype
        Of the trackers; a cast of the model does not change it.
    group : ProcessGroup, optional
        The processes that share a batch.

    Notes
    -----
    An index may be repeated in a batch: its values are averaged first. Values that are not finite change no tracker,
    and the loss is then NaN. In evaluation mode no tracker changes. Each call changes the trackers, also inside the
    closures of LBFGS and in every part of an accumulated batch.

    References
    ----------
    .. [1] B. Wang, T. Yang. Finite-Sum Coupled Compositional Stochastic Optimization. ICML 2022.
    .. [2] W. Jiang et al. Multi-block-Single-probe Variance Reduced Estimator. NeurIPS 2022. MSVR, equation (3).

    Examples
    --------
    >>> from xrisk.functions import Square
    >>> loss = CompositionalLoss(rows=3, outer=Square(), track=0.5)
    >>> loss(torch.tensor([1.0, 2.0]), torch.tensor([0, 2])).item()
    2.5
    >>> loss(torch.tensor([3.0, 5.0]), torch.tensor([0, 0])).item()
    6.25
    """

    u: Tensor  # (rows, width) trackers
    seen: Tensor  # (rows,) whether a tracker was written

    def __init__(
        self,
        rows: int,
        outer: Any,
        *,
        width: int = 1,
        track: float = 0.9,
        correction: float | None = None,
        dtype: torch.dtype = torch.float32,
        group: Any = None,
    ) -> None:
        super().__init__()
        check_outer("outer", outer, _whole("width", width))
        if dtype not in (torch.float32, torch.float64):
            raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
        self.outer, self.width, self.group = outer, width, group
        self.track = number("track", track, math.ulp(0.0), 1.0, "above 0 and at most 1")
        self.correction = None if correction is None else number("correction", correction, 0.0, 1e6, "not negative")
        if correction is not None and type(outer) is LogMeanExp:
            raise ValueError("correction must be None for LogMeanExp, whose tracker would leave the logarithm's domain")
        self.keep("u", torch.zeros(_whole("rows", rows), width, dtype=dtype))
        self.keep("seen", torch.zeros(rows, dtype=torch.bool))

    def extra_repr(self) -> str:
        return f"rows={self.u.shape[0]}, outer={self.outer}, width={self.width}, track={self.track}"

    def forward(self, values: Tensor, index: Tensor, previous: Tensor | None = None) -> Tensor:
        """The loss of inner values (B,) or (B, width) and the numbers (B,) of their inner functions."""
        values = self._blocks("values", values)
        index = index_of("index", index, values.shape[0], self.u.shape[0])
        if (previous is None) is not (self.correction is None):
            wanted = "None without correction" if self.correction is None else "the values at the previous weights"
            raise ValueError(f"previous must be {wanted}, got {'None' if previous is None else 'a tensor'}")
        if previous is None:
            whole = joint(values, (index,), self.group)
        else:
            previous = self._blocks("previous", previous.detach())
            if previous.shape != values.shape:
                raise ValueError(f"previous must have shape {tuple(values.shape)}, got {tuple(previous.shape)}")
            whole = joint(values, (index, previous), self.group)
        is_block = torch.ones_like(whole.others[0], dtype=torch.bool)
        return self.step(whole.values, *whole.others, weight=is_block, ranks=whole.ranks)

    def step(
        self, values: Tensor, index: Tensor, previous: Tensor | None = None, *, weight: Tensor, ranks: int
    ) -> Tensor:
        """The loss of the rows of all processes, with a weight (B,) on f of each; 0 says that a row is no estimate."""
        found = self.estimates(values.detach(), index, previous, is_block=weight != 0)
        self.write(index, found)
        share = shares(weight, found.same, values.dtype)
        value = (share * block_value(self.outer, found.u)).sum()
        slopes = value_weight(self.outer, found.u, values.detach()).to(values.dtype)
        return logged(found.objective(value, values.dtype), (share[:, None] * slopes * values).sum(), ranks)

    def estimates(
        self, values: Tensor, index: Tensor, previous: Tensor | None = None, *, is_block: Tensor
    ) -> Estimates:
        """What the trackers of a batch become; nothing is written yet."""
        same, before, seen = repeats(index), snapshot(self.u[index]), snapshot(self.seen[index])
        newest = repeat_mean(self.outer, values, same)
        u = blend(self.outer, before, newest, self.track)
        if previous is not None and self.correction is not None:
            u = u + self.correction * (newest - repeat_mean(self.outer, previous, same))
        u = torch.where(seen[:, None], u, newest)
        kept = u.to(before.dtype)
        is_sound = is_finite(values, kept)
        may_write = is_sound & is_block
        return Estimates(u, torch.where(may_write[:, None], kept, before), seen | may_write, is_sound, may_write, same)

    def write(self, index: Tensor, found: Estimates) -> None:
        """One write of each tensor: torch.compile loses the first of two. Rows of one index have equal values."""
        if self.training:
            self.u[index] = found.kept
            self.seen[index] = found.seen

    def exact(self, values: Tensor, index: Tensor | None = None) -> Tensor:
        """The objective of a full set: mean over i of f(mean of the values of index i); by default one value each."""
        values = self._blocks("values", values).double()
        index = torch.arange(values.shape[0], device=values.device) if index is None else index
        if index.dtype not in INTEGERS or index.shape != values.shape[:1]:
            raise ValueError(f"index must be integers of shape ({values.shape[0]},), got {tuple(index.shape)}")
        same = repeats(index.long())
        share = shares(torch.ones_like(index), same, values.dtype)
        return (share * block_value(self.outer, repeat_mean(self.outer, values, same))).sum()

    def _blocks(self, name: str, values: Any) -> Tensor:
        """Inner values (B, width), in single precision at least."""
        if not isinstance(values, Tensor) or not values.is_floating_point():
            shown = values.dtype if isinstance(values, Tensor) else type(values).__name__
            raise TypeError(f"{name} must be a tensor of floating-point numbers, got {shown}")
        blocks = values[:, None] if values.ndim == 1 and self.width == 1 else values
        if blocks.ndim != 2 or blocks.shape[1] != self.width:
            wanted = "(rows,)" if self.width == 1 else f"(rows, {self.width})"
            raise ValueError(f"{name} must have shape {wanted}, got {tuple(values.shape)}")
        return blocks if blocks.dtype in (torch.float32, torch.float64) else blocks.float()


def shares(weight: Tensor, same: Repeats, dtype: torch.dtype) -> Tensor:
    """Each row's part (B,) of a mean over the indices whose weight is not 0."""
    parts = (weight != 0).to(dtype) / same.size
    return weight * parts / parts.sum().clamp(min=1.0)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, got {value!r}")
    return value
