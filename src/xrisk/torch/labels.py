"""One loss for each label, or for each class against the rest."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import torch

from xrisk.torch.checks import INTEGERS, index_of

Tensor = torch.Tensor
POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class PerLabel(torch.nn.Module):
    """mean over labels l of loss_l(scores[:, l], targets[:, l]), for many labels with missing ones, or many classes.

    Each label has a loss of its own, with its own state, built from the rows whose label is known.

    Parameters
    ----------
    loss : callable
        Makes the loss of one label: a class such as `AveragePrecisionLoss`, or a function. It is given the targets
        (rows,) of the label if it needs an argument.
    targets : Tensor
        Labels (rows, labels) of 0 and 1, in which NaN is missing; or the classes (rows,) as integers 0, 1, …, each of
        which is then one label: that class against the rest.
    **options
        Passed on to ``loss``.

    Notes
    -----
    `torch.compile` takes it in one graph if no label is missing.

    Examples
    --------
    >>> from xrisk.torch.rankings import AveragePrecisionLoss
    >>> targets = torch.tensor([[1.0, 0.0], [0.0, float("nan")], [1.0, 1.0]])
    >>> loss = PerLabel(AveragePrecisionLoss, targets, track=0.5)
    >>> scores = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    >>> round(loss(scores, targets, torch.arange(3)).item(), 4), round(loss.exact(scores, targets).item(), 4)
    (-1.0, -1.0)
    """

    def __init__(self, loss: Callable[..., Any], targets: Tensor, **options: Any) -> None:
        super().__init__()
        columns = _columns(targets, None)
        self.labels, self.rows = columns.shape[1], columns.shape[0]
        is_known = _is_known(columns)
        # place of a row among those whose label is known; None where all are
        self._place = None if bool(is_known.all()) else torch.where(is_known, is_known.cumsum(0) - 1, -1)
        self.losses = torch.nn.ModuleList(
            _made(loss, label, columns[is_known[:, label], label], options) for label in range(self.labels)
        )

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        if self._place is not None:
            self._place = self._place.to(fn(self._place).device)
        return self

    def forward(self, scores: Tensor, targets: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of scores (B, labels), their targets, and the numbers (B,) of their rows."""
        scores, columns = self._checked(scores, targets)
        if index is not None:
            index = index_of("index", index, scores.shape[0], self.rows)
        return torch.stack(self._parts(scores, columns, index)).mean()

    def exact(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The objective of all rows at hand, for validation, in double precision."""
        scores, columns = self._checked(scores, targets)
        is_known = _is_known(columns)
        found = []
        for label, loss in enumerate(self.losses):
            rows = is_known[:, label]
            value = loss.exact(scores[rows, label], columns[rows, label])  # type: ignore[operator]
            found.append(torch.as_tensor(value, dtype=torch.float64))
        return torch.stack(found).mean()

    def _parts(self, scores: Tensor, columns: Tensor, index: Tensor | None) -> list[Tensor]:
        """What each label's loss says; every process calls each of them, also without rows."""
        found = []
        for label, loss in enumerate(self.losses):
            z, y, place = scores[:, label], columns[:, label], index
            if self._place is not None:
                rows = _is_known(y)
                z, y = z[rows], y[rows]
                place = None if index is None else self._place[index[rows], label]
            found.append(loss(z, y, place))
        return found

    def _checked(self, scores: Any, targets: Any) -> tuple[Tensor, Tensor]:
        """Scores and labels, one column per label."""
        if not isinstance(scores, Tensor) or scores.ndim != 2 or scores.shape[1] != self.labels:
            shown = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise ValueError(f"scores must have shape (rows, {self.labels}), got {shown}")
        columns = _columns(targets, self.labels)
        if columns.shape != scores.shape:
            raise ValueError(f"targets must have as many rows as the scores, {len(scores)}, got {len(columns)}")
        return scores, columns


def _columns(targets: Any, labels: int | None) -> Tensor:
    """Targets (rows, labels): as they are, or each class against the rest."""
    if not isinstance(targets, Tensor):
        raise TypeError(f"targets must be a tensor of labels, got {type(targets).__name__}")
    if targets.ndim == 1 and targets.dtype in INTEGERS:
        classes = int(targets.max()) + 1 if labels is None else labels
        return targets[:, None] == torch.arange(classes, device=targets.device)
    if targets.ndim != 2 or (labels is not None and targets.shape[1] != labels):
        wanted = "labels" if labels is None else str(labels)
        shown = f"{tuple(targets.shape)} of {targets.dtype}"
        raise ValueError(f"targets must have shape (rows, {wanted}), or be classes (rows,) as integers, got {shown}")
    return targets


def _is_known(targets: Tensor) -> Tensor:
    """Where a label is not missing."""
    return ~torch.isnan(targets)


def _made(loss: Callable[..., Any], label: int, targets: Tensor, options: dict[str, Any]) -> torch.nn.Module:
    """The loss of one label; errors say of which."""
    needed = [each for each in signature(loss).parameters.values() if each.default is each.empty]
    try:
        return loss(targets, **options) if any(each.kind in POSITIONAL for each in needed) else loss(**options)
    except ValueError as error:
        raise ValueError(f"label {label}: {error}") from error
