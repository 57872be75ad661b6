"""Pairs of a positive and a negative of a batch, and losses of them that keep numbers for rows of the data set."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from xrisk.functions.loss import loss_domain
from xrisk.torch.across import joint, logged
from xrisk.torch.checks import index_of, is_finite, is_positive, number, scores_of
from xrisk.torch.functions import Sigmoid, loss_value
from xrisk.torch.snapshot import snapshot
from xrisk.torch.state import Stateful

CHUNK = 2**22  # pairs in memory at a time


class JointPairs(NamedTuple):
    """All pairs of an outer and an inner row of a batch.

    The indexed form has the S outer and the B inner rows. The masked form has all rows on both sides, with shares of 0
    for those of the other class: it is compiled, and it is right for batches that lack a class.
    """

    outer: torch.Tensor  # (S,) scores
    inner: torch.Tensor  # (B,) scores
    losses: torch.Tensor  # (S, B) with the graph of the scores
    past: torch.Tensor | None  # (S, B) the losses at the weights before
    share: torch.Tensor  # (S,) 1/S
    first: torch.Tensor  # (B,) 1/B over the first batch of inner rows
    second: torch.Tensor  # (B,) 1/B over the second one, or over the only one
    is_lagged: bool  # whether there is only one
    slot: torch.Tensor  # (S,) place of an outer row in the state
    head: torch.Tensor  # (S,) the first row with the same slot
    average: torch.Tensor  # (S, S) the mean over rows with the same slot
    has_pairs: torch.Tensor  # whether both classes are there
    is_finite: torch.Tensor  # whether all scores are

    @property
    def values(self) -> torch.Tensor:
        """The losses as numbers."""
        return self.losses.detach()


class Update(NamedTuple):
    """What a batch leads to: the loss, and what the state becomes."""

    value: torch.Tensor  # the objective
    carrier: torch.Tensor  # the scalar that has the gradient
    rows: dict[str, torch.Tensor]  # (S,) each, by the names of the state
    numbers: dict[str, torch.Tensor]  # of the shapes in the state


class Sided(NamedTuple):
    """The rows of all processes."""

    scores: torch.Tensor  # (rows,)
    outer: torch.Tensor  # (rows,) booleans
    slot: torch.Tensor  # (rows,) place in the state, −1 of inner rows
    second: torch.Tensor | None  # (rows,) booleans: in the second batch of inner rows
    previous: torch.Tensor | None  # (rows,) scores at the weights before
    ranks: int


class PairLoss(Stateful, ABC):
    """A loss of pairs with numbers kept for each outer row; `update` says which, and how they change.

    A batch without positives or without negatives has a gradient of zero, changes nothing and is counted in
    ``batches_without_pairs``. Scores that are not finite give NaN and change nothing. In evaluation mode nothing
    changes.
    """

    batches_without_pairs: torch.Tensor

    def __init__(
        self,
        targets: torch.Tensor,
        loss: Any,
        margin: float,
        *,
        dtype: torch.dtype,
        group: Any,
        outer_is_positive: bool = True,
    ) -> None:
        super().__init__()
        self.pair_loss = pair_loss_of(loss, margin)
        self.dtype, self.group, self.outer_is_positive = state_dtype(dtype), group, outer_is_positive
        positive = is_positive("targets", targets)
        self.positives, self.negatives = int(positive.sum()), int((~positive).sum())
        if not self.positives or not self.negatives:
            raise ValueError(f"targets must have both classes, got {self.positives} positives in {positive.numel()}")
        outer = positive if self.outer_is_positive else ~positive
        self._slots = torch.where(outer, outer.cumsum(0) - 1, -1)  # not kept: it follows from the targets
        self.keep("batches_without_pairs", torch.zeros(1, dtype=torch.int64, device=positive.device))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        self._slots = self._slots.to(fn(self._slots).device)
        return self

    def keep_rows(self, *names: str, fill: float = 0.0, dtype: torch.dtype | None = None) -> None:
        """Keep a number for each outer row."""
        rows = self.positives if self.outer_is_positive else self.negatives
        for name in names:
            self.keep(name, torch.full((rows,), fill, dtype=dtype or self.dtype, device=self._slots.device))

    def keep_numbers(self, *names: str, fill: float = 0.0, dtype: torch.dtype | None = None) -> None:
        """Keep one number each, of shape (1,): torch.compile loses updates of tensors without an axis."""
        for name in names:
            self.keep(name, torch.full((1,), fill, dtype=dtype or self.dtype, device=self._slots.device))

    def rows(self, name: str, pairs: JointPairs) -> torch.Tensor:
        """What is kept for the outer rows of a batch (S,)."""
        return snapshot(self._kept[name][pairs.slot])

    def numbers(self, name: str) -> torch.Tensor:
        """What is kept for all rows together."""
        return snapshot(self._kept[name])

    @abstractmethod
    def update(self, pairs: JointPairs) -> Update:
        """What a batch leads to."""

    def compute(
        self,
        scores: torch.Tensor,
        targets: torch.Tensor,
        index: torch.Tensor | None,
        second: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of a batch; the state is updated."""
        own = scores_of("scores", scores)
        with torch.autocast(own.device.type, enabled=False):
            sided = self._sided(own, targets, index, second, previous)
            pairs = pair_batch(sided, self.pair_loss, 1.0 if self.outer_is_positive else -1.0)
            update = self.update(pairs)
            if self.training:
                self._write(pairs, update)
            value = torch.where(pairs.is_finite, update.value, torch.nan)
            return logged(value, torch.where(pairs.has_pairs, update.carrier, 0.0), sided.ranks)

    def _sided(self, own: torch.Tensor, targets: Any, index: Any, second: Any, previous: Any) -> Sided:
        rows = own.shape[0]
        positive = is_positive("targets", targets, rows)
        index = index_of("index", index, rows, self._slots.shape[0])
        outer = positive if self.outer_is_positive else ~positive
        if not torch.compiler.is_compiling():
            self._check_classes(index, outer)
        others = [outer, index]
        if second is not None:
            others.append(is_positive("second", second, rows))
        if previous is not None:
            others.append(scores_of("previous", previous).detach().to(self.dtype))
        whole = joint(own.to(self.dtype), tuple(others), self.group)
        if whole.values.shape[0] == 0:
            raise ValueError("scores must have at least one row, got none")
        rest = list(whole.others[2:])
        slot = self._slots[whole.others[1]]
        chosen = rest.pop(0) if second is not None else None
        return Sided(whole.values, whole.others[0], slot, chosen, rest.pop() if rest else None, whole.ranks)

    def _check_classes(self, index: torch.Tensor, outer: torch.Tensor) -> None:
        same_device(self._slots, outer)
        differ = (self._slots[index] >= 0) != outer
        if bool(differ.any()):
            row = int(index[differ][0])
            raise ValueError(f"targets must be those of the data set, got the other class for row {row}")

    @torch.no_grad()
    def _write(self, pairs: JointPairs, update: Update) -> None:
        """Each tensor is read and written once: torch.compile 2.13 miscompiles reads after writes in place."""
        slot, may_write = pairs.slot[pairs.head], pairs.has_pairs & pairs.is_finite
        for name, new in update.rows.items():
            kept = self._kept[name]
            kept.index_put_((slot,), torch.where(may_write, new[pairs.head].to(kept.dtype), kept[slot]))
        for name, new in update.numbers.items():
            kept = self._kept[name]
            kept.copy_(torch.where(may_write, new.to(kept.dtype), kept))
        self.batches_without_pairs.add_(~pairs.has_pairs)


def state_dtype(dtype: Any) -> torch.dtype:
    """Single or double precision."""
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype}")
    return dtype


def same_device(state: torch.Tensor, scores: torch.Tensor) -> None:
    """Refuse scores of another device than the state's."""
    if state.device != scores.device:
        raise ValueError(f"scores must be on the device of the loss, {state.device}, got {scores.device}: loss.to(…)")


def step_size(name: str, value: Any) -> float:
    """A step size; 0 keeps what it would change."""
    return number(name, value, 0.0, 1e30, "a finite number that is not negative")


def pair_loss_of(loss: Any, margin: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """ℓ(t + 1 − margin) of the margins t of pairs: a hinge is then 0 from ``margin`` on."""
    if not (type(loss) is Sigmoid or (loss_domain.implemented(loss) and loss_domain(loss, 1.0)[1] <= 0.0)):
        raise ValueError(f"loss must be a loss spec that does not increase with the margin, got {loss!r}")
    if not (loss_domain.implemented(loss) and loss_domain(loss, 1.0)[1] <= 0.0):
        raise ValueError(f"loss must not increase with the margin, and say so by loss_domain, got {loss!r}")
    return partial(_shifted, loss, 1.0 - number("margin", margin, -1e30, 1e30, "a finite number"))


def _shifted(loss: Any, shift: float, t: torch.Tensor) -> torch.Tensor:
    return loss_value(loss, t + shift, 1.0)


def pair_batch(sided: Sided, pair_loss: Callable[[torch.Tensor], torch.Tensor], sign: float) -> JointPairs:
    """The pairs of a batch; ``sign`` is that of the outer rows in a margin."""
    over, under = places_of(sided.outer), places_of(~sided.outer)
    if over is None or under is None:
        over = under = None
    outer, slot, inner = taken(sided.outer, over), taken(sided.slot, over), taken(~sided.outer, under)
    second = None if sided.second is None else taken(sided.second, under)
    first, later = (inner, inner) if second is None else (inner & ~second, inner & second)
    is_pair = None if over is not None else outer[:, None] & inner[None, :]
    ahead, behind = taken(sided.scores, over), taken(sided.scores, under)
    past = None if sided.previous is None else (taken(sided.previous, over), taken(sided.previous, under))
    same = (slot[:, None] == slot[None, :]) & outer[None, :]
    dtype = ahead.dtype
    return JointPairs(
        outer=ahead,
        inner=behind,
        losses=_losses(ahead, behind, is_pair, pair_loss, sign),
        past=None if past is None else _losses(*past, is_pair, pair_loss, sign),
        share=shares_of(outer, dtype),
        first=shares_of(first, dtype),
        second=shares_of(later, dtype),
        is_lagged=second is None,
        slot=slot.clamp(min=0),
        head=((same | ~outer[:, None]) & outer[None, :]).int().argmax(1),
        average=same / same.sum(1, keepdim=True).clamp(min=1).to(dtype),
        has_pairs=outer.any() & first.any() & later.any(),
        is_finite=is_finite(sided.scores.detach()),
    )


def _losses(
    ahead: torch.Tensor, behind: torch.Tensor, is_pair: torch.Tensor | None, pair_loss: Any, sign: float
) -> Any:
    """Losses (S, B); the margins of rows that are no pair are 0, where no loss overflows."""
    margins = sign * (ahead[:, None] - behind[None, :])
    return pair_loss(margins if is_pair is None else torch.where(is_pair, margins, 0.0))


def places_of(mask: torch.Tensor) -> torch.Tensor | None:
    """Where a mask is true; None for all places, masked."""
    if torch.compiler.is_compiling():
        return None
    found = mask.nonzero()[:, 0]
    return found if found.shape[0] else None


def taken(x: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
    return x if places is None else x[places]


def shares_of(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """One over the number of rows at each of them."""
    return mask.to(dtype) / mask.sum().clamp(min=1)


def sides(scores: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the positives and of the negatives of a validation set, in double precision."""
    flat = scores_of("scores", scores).detach().double()
    positive = is_positive("targets", targets, flat.shape[0])
    if not bool(torch.isfinite(flat).all()):
        raise ValueError(f"scores must be finite, got {flat[~torch.isfinite(flat)][0].item()}")
    if not bool(positive.any()) or bool(positive.all()):
        raise ValueError(f"targets must have both classes, got {int(positive.sum())} positives in {flat.shape[0]}")
    return flat[positive], flat[~positive]


def over_pairs(
    outer: torch.Tensor, inner: torch.Tensor, of_pairs: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Numbers (outer rows,) from the differences (outer rows, inner rows) of scores, a chunk at a time."""
    chunks = outer.split(max(1, CHUNK // inner.shape[0]))
    return torch.cat([of_pairs(chunk[:, None] - inner[None, :]) for chunk in chunks])


def lowest(name: str, positives: int, min_tpr: float) -> int:
    """⌊n₊ (1 − min_tpr)⌋."""
    share = number(name, min_tpr, 0.0, 1.0, "a number in [0, 1)")
    k = int(positives * (1.0 - share) + 1e-9)  # 10·(1 − 0.9) rounds to below 1
    if k < 1:
        most = 1.0 - 1.0 / positives
        raise ValueError(f"{name} must be at most {most:.6g} for {positives} positives, got {min_tpr}")
    return k


def highest(name: str, negatives: int, max_fpr: float) -> int:
    """⌊n₋ max_fpr⌋."""
    share = number(name, max_fpr, 0.0, 1.0, "a number in (0, 1]")
    k = int(negatives * share + 1e-9)
    if k < 1:
        raise ValueError(f"{name} must be at least {1.0 / negatives:.6g} for {negatives} negatives, got {max_fpr}")
    return k


def hardest_pairs(
    high: torch.Tensor, low: torch.Tensor, k1: int, k2: int, pair_loss: Callable[[torch.Tensor], torch.Tensor]
) -> float:
    """The mean loss of the k₁ lowest positives against the k₂ highest negatives."""
    hard, top = high.topk(k1, largest=False).values, low.topk(k2).values
    return float(over_pairs(hard, top, lambda t: pair_loss(t).mean(1)).mean())
