"""The metric of L-BFGS: an estimate of the Hessian from steps and changes of slopes."""

from typing import NamedTuple

import numpy as np


class Memory(NamedTuple):
    """The last steps, the latest at place (kept − 1) modulo their number."""

    steps: np.ndarray  # (memory, d)
    changes: np.ndarray  # (memory, d) how the slopes changed along them
    kept: int  # so far


def no_memory(size: int, d: int) -> Memory:
    """Memory for ``size`` steps."""
    return Memory(np.zeros((size, d)), np.zeros((size, d)), 0)


def forgotten(memory: Memory) -> Memory:
    """The memory without its steps."""
    return memory._replace(kept=0)


def remembered(memory: Memory, step: np.ndarray, change: np.ndarray) -> Memory:
    """The memory with one more step, if the slope grew along it."""
    if not float(step @ change) > 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return memory
    place, steps, changes = memory.kept % memory.steps.shape[0], memory.steps.copy(), memory.changes.copy()
    steps[place], changes[place] = step, change
    return Memory(steps, changes, memory.kept + 1)


def inverse_times(memory: Memory, diagonal: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Every row (m, d) times the inverse of the Hessian that is remembered; ``diagonal`` (d,) is a first guess at it.

    Examples
    --------
    >>> import numpy as np
    >>> from xrisk.solvers.shared.metric import inverse_times, no_memory, remembered
    >>> memory = remembered(no_memory(3, 2), np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    >>> inverse_times(memory, np.ones(2), np.array([[4.0, 4.0]]))
    array([[1., 1.]])
    """
    size = memory.steps.shape[0]
    recent = [k % size for k in range(memory.kept - 1, max(memory.kept - size, 0) - 1, -1)]
    steps = [(memory.steps[k], memory.changes[k], float(memory.steps[k] @ memory.changes[k])) for k in recent]
    out, shares = rows.copy(), []
    for step, change, along in steps:
        shares.append((out @ step) / along)
        out -= shares[-1][:, None] * change
    scale = steps[0][2] / float(steps[0][1] @ (steps[0][1] / diagonal)) if steps else 1.0
    out *= scale / diagonal
    for (step, change, along), share in zip(reversed(steps), reversed(shares), strict=True):
        out += (share - (out @ change) / along)[:, None] * step
    return out
