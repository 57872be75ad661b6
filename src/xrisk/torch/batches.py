"""Samplers of batches for `torch.utils.data.DataLoader`: batch t depends on the seed and on t alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.distributed as dist


class Numbered(ABC):
    """Batches 0, 1, 2, … of which ``steps`` make an epoch; a new iterator goes on where the last one stopped.

    What a batch holds follows from its number and the seed, so that workers, processes and a run that is resumed agree.
    ``state_dict`` is what ``torchdata``'s ``StatefulDataLoader`` asks for.
    """

    def __init__(self, steps: int, seed: int, rank: int | None, ranks: int | None) -> None:
        self.steps, self.seed = steps, whole("seed", seed, 0)
        self.rank, self.ranks = place_of(rank, ranks)
        self.batch = 0

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The rows of a joint batch."""

    def rows_of(self, batch: int) -> list[int]:
        """The rows of a batch that are for this process: every ``ranks``-th one."""
        rows = self.draw(np.random.default_rng([self.seed, batch]))
        return [int(row) for row in rows[self.rank :: self.ranks]]

    def __iter__(self) -> Iterator[list[int]]:
        """The batches that are left of the present epoch; all of the next one if there is none left."""
        end = (self.batch // self.steps + 1) * self.steps
        while self.batch < end:
            self.batch += 1
            yield self.rows_of(self.batch - 1)

    def __len__(self) -> int:
        return self.steps

    def state_dict(self) -> dict[str, int]:
        """The seed and the number of the next batch."""
        return {"batch": self.batch, "seed": self.seed}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on at the batch of the state, with its seed."""
        self.batch, self.seed = whole("batch", state["batch"], 0), whole("seed", state["seed"], 0)


class ClassBatches(Numbered):
    """S distinct positives, then B distinct negatives, then a second batch of negatives, in every batch.

    Parameters
    ----------
    targets : tensor or array (rows,)
        Labels of the training set: 0 and 1, −1 and 1, or booleans; above 0 is positive.
    positives, negatives : int
        S and B, of all processes together.
    second : int
        The size of a second batch of negatives that is independent of the first, as STACO needs; 0 for none. The two
        may share rows.
    steps : int, optional
        Batches in an epoch; by default as many as draw each negative once on average, at least one.
    seed : int
        The seed; no global generator is used or changed.
    rank, ranks : int, optional
        The place of this process and their number; by default those of ``torch.distributed`` if it is initialised.

    Notes
    -----
    Rank r has rows r, r + ranks, … of the joint batch: parts that differ by at most one row. Do not let Accelerate
    prepare the loader, and switch off Lightning's ``use_distributed_sampler``: they would split it a second time.

    Examples
    --------
    >>> import xrisk.torch as xt
    >>> batches = xt.ClassBatches([1, 0, 0, 1, 0, 0, 0], positives=1, negatives=2)
    >>> len(batches), [len(batch) for batch in batches]
    (2, [3, 3])
    """

    def __init__(
        self,
        targets: Any,
        positives: int,
        negatives: int,
        *,
        second: int = 0,
        steps: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> None:
        is_positive = integers("targets", targets) > 0
        self.positive_rows, self.negative_rows = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        self.positives = fitting("positives", positives, 1, self.positive_rows.size, "positives")
        self.negatives = fitting("negatives", negatives, 1, self.negative_rows.size, "negatives")
        self.second = fitting("second", second, 0, self.negative_rows.size, "negatives")
        most = max(self.negative_rows.size // self.negatives, 1)
        super().__init__(most if steps is None else whole("steps", steps, 1), seed, rank, ranks)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Positives, negatives, and the second batch of negatives."""
        parts = [
            distinct(self.positive_rows, self.positives, rng),
            distinct(self.negative_rows, self.negatives, rng),
            distinct(self.negative_rows, self.second, rng),
        ]
        return np.concatenate(parts)


class GroupBatches(Numbered):
    """B rows of each of S distinct groups, drawn with equal chance, in every batch.

    Parameters
    ----------
    groups : tensor or array (rows,)
        The groups of the rows of the training set, as integers.
    count, rows : int
        S, of at most as many groups as there are, and B, of all processes together.
    steps : int, optional
        Batches in an epoch; by default as many as draw as many rows as there are, at least one.
    seed, rank, ranks
        As for `ClassBatches`.

    Notes
    -----
    The rows of a group are distinct where it has B of them; smaller groups are drawn from with replacement, so that
    every group counts the same.

    Examples
    --------
    >>> import xrisk.torch as xt
    >>> batches = xt.GroupBatches([0, 0, 0, 1, 2, 2], count=2, rows=2)
    >>> len(batches), [len(batch) for batch in batches]
    (1, [4])
    """

    def __init__(
        self,
        groups: Any,
        count: int,
        rows: int,
        *,
        steps: int | None = None,
        seed: int = 0,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> None:
        labels = integers("groups", groups)
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order])) + 1
        self.members = np.split(order, starts)
        self.count = fitting("count", count, 1, len(self.members), "groups")
        self.rows = whole("rows", rows, 1)
        most = max(labels.size // (self.count * self.rows), 1)
        super().__init__(most if steps is None else whole("steps", steps, 1), seed, rank, ranks)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """The rows of one group after another."""
        chosen = rng.choice(len(self.members), self.count, replace=False)
        return np.concatenate([self._of_group(self.members[k], rng) for k in chosen])

    def _of_group(self, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if members.size >= self.rows:
            return distinct(members, self.rows, rng)
        return members[rng.integers(0, members.size, self.rows)]


def distinct(rows: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """``size`` of the rows, without replacement."""
    return rows[rng.choice(rows.size, size, replace=False)]


def integers(name: str, values: Any) -> np.ndarray:
    """Labels (rows,) as a NumPy array; floating-point numbers that are whole are accepted."""
    found = values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
    if found.ndim != 1 or found.size == 0:
        raise ValueError(f"{name} must have shape (rows,) with at least one row, got {found.shape}")
    if found.dtype.kind not in "biuf" or (found.dtype.kind == "f" and not (found == np.floor(found)).all()):
        raise TypeError(f"{name} must be whole numbers or booleans, got {found.dtype}")
    return found.astype(np.int64)


def whole(name: str, value: Any, least: int) -> int:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)


def fitting(name: str, value: Any, least: int, available: int, what: str) -> int:
    """A size of at most as many as there are."""
    if whole(name, value, least) > available:
        raise ValueError(f"{name} must be at most the {available} {what} of the training set, got {value}")
    return int(value)


def place_of(rank: int | None, ranks: int | None) -> tuple[int, int]:
    """The place of this process and the number of processes."""
    is_running = dist.is_available() and dist.is_initialized()
    if (rank is None) != (ranks is None):
        raise ValueError(f"rank and ranks must be given together, got {rank!r} and {ranks!r}")
    if rank is None:
        return (dist.get_rank(), dist.get_world_size()) if is_running else (0, 1)
    if whole("rank", rank, 0) >= whole("ranks", ranks, 1):
        raise ValueError(f"rank must be below ranks = {ranks}, got {rank}")
    return int(rank), int(ranks or 1)
