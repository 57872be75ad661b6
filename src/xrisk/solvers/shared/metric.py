"""The metric of L-BFGS: an estimate of the Hessian from steps and changes of slopes."""

from typing import NamedTuple

import numpy as np


class Memory(NamedTuple):
    """The last steps, the latest at place (kept − 1) modulo their number."""

    moves: np.ndarray  # (memory, d)
    turns: np.ndarray  # (memory, d) how the slopes changed along them
    kept: int  # so far


def no_memory(size: int, d: int) -> Memory:
    """Memory for ``size`` steps."""
    return Memory(np.zeros((size, d)), np.zeros((size, d)), 0)


def forgotten(memory: Memory) -> Memory:
    """The memory without its steps."""
    return memory._replace(kept=0)


def remembered(memory: Memory, move: np.ndarray, turn: np.ndarray) -> Memory:
    """The memory with one more step, if the slope grew along it."""
    if not float(move @ turn) > 1e-12 * float(np.linalg.norm(move) * np.linalg.norm(turn)):
        return memory
    place, moves, turns = memory.kept % memory.moves.shape[0], memory.moves.copy(), memory.turns.copy()
    moves[place], turns[place] = move, turn
    return Memory(moves, turns, memory.kept + 1)


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
    size = memory.moves.shape[0]
    recent = [k % size for k in range(memory.kept - 1, max(memory.kept - size, 0) - 1, -1)]
    steps = [(memory.moves[k], memory.turns[k], float(memory.moves[k] @ memory.turns[k])) for k in recent]
    out, shares = rows.copy(), []
    for move, turn, along in steps:
        shares.append((out @ move) / along)
        out -= shares[-1][:, None] * turn
    scale = steps[0][2] / float(steps[0][1] @ (steps[0][1] / diagonal)) if steps else 1.0
    out *= scale / diagonal
    for (move, turn, along), share in zip(reversed(steps), reversed(shares), strict=True):
        out += (share - (out @ turn) / along)[:, None] * move
    return out
