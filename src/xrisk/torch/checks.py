"""What losses accept: scores, labels and numbers of rows; errors name the argument, its value and what is right."""

from typing import Any

import torch

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def scores_of(name: str, scores: Any) -> torch.Tensor:
    """Scores (rows,) in single precision at least; a trailing axis of length one is dropped."""
    if not isinstance(scores, torch.Tensor) or not scores.is_floating_point():
        shown = scores.dtype if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise TypeError(f"{name} must be a tensor of floating-point numbers, got {shown}")
    flat = scores.squeeze(-1) if scores.ndim == 2 and scores.shape[1] == 1 else scores
    if flat.ndim != 1:
        raise ValueError(f"{name} must have shape (rows,) or (rows, 1), got {tuple(scores.shape)}")
    return flat if flat.dtype in (torch.float32, torch.float64) else flat.float()


def is_positive(name: str, targets: Any, rows: int | None = None) -> torch.Tensor:
    """Labels as booleans (rows,): of 0 and 1, −1 and 1, or booleans, in any dtype."""
    if not isinstance(targets, torch.Tensor):
        raise TypeError(f"{name} must be a tensor of labels, got {type(targets).__name__}")
    flat = targets.squeeze(-1) if targets.ndim == 2 and targets.shape[1] == 1 else targets
    if flat.ndim != 1 or (rows is not None and flat.shape[0] != rows):
        wanted = "(rows,)" if rows is None else f"({rows},), as the scores"
        raise ValueError(f"{name} must have shape {wanted}, got {tuple(targets.shape)}")
    if flat.dtype is torch.bool:
        return flat
    known = (flat == 1) | (flat == 0) | (flat == -1)
    if not torch.compiler.is_compiling():
        if not bool(known.all()):
            raise ValueError(f"{name} must be 0 and 1, or -1 and 1, got {flat[~known][0].item()}")
        if bool((flat == 0).any()) and bool((flat == -1).any()):
            raise ValueError(f"{name} must be 0 and 1, or -1 and 1, got both 0 and -1")
    return flat > 0


def index_of(name: str, index: Any, rows: int, known: int) -> torch.Tensor:
    """Numbers (rows,) of rows of the data set, from 0 to ``known`` − 1."""
    if index is None:
        raise TypeError(f"{name} must be the numbers of the rows in the data set, got None: see xrisk.torch.Indexed")
    if not isinstance(index, torch.Tensor) or index.dtype not in INTEGERS:
        shown = index.dtype if isinstance(index, torch.Tensor) else type(index).__name__
        raise TypeError(f"{name} must be a tensor of integers, got {shown}")
    if index.shape != (rows,):
        raise ValueError(f"{name} must have shape ({rows},), as the scores, got {tuple(index.shape)}")
    if not torch.compiler.is_compiling() and rows:
        low, high = int(index.min()), int(index.max())
        if low < 0 or high >= known:
            raise ValueError(f"{name} must lie between 0 and {known - 1}, got {low if low < 0 else high}")
    return index.long()


def number(name: str, value: Any, low: float, high: float, words: str) -> float:
    """A number from ``low`` to ``high``; the words complete "must be"."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{name} must be {words}, got {value!r}")
    return float(value)


def is_finite(*tensors: torch.Tensor) -> torch.Tensor:
    """A tensor of one boolean: whether all numbers are finite."""
    return torch.stack([torch.isfinite(each).all() for each in tensors]).all()
