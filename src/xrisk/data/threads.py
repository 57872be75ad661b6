"""Full passes on all cores: parts with fixed borders, run by threads and combined in their order."""

import contextlib
import functools
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import Any

import numba
import numpy as np
from threadpoolctl import ThreadpoolController

PARTS = 16  # of a pass at most: enough for sixteen cores, few enough that starting them costs nothing
LEAST = 2**16  # numbers read by a part: below that a thread costs more than it saves


class Interrupted(Exception):  # noqa: N818  (an interruption that was requested, not an error)
    """A pass was interrupted; its result is incomplete."""


_requested: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)  # whether passes are to stop


@contextlib.contextmanager
def interruptible(requested: Callable[[], bool]) -> Iterator[None]:
    """Within, a pass raises `Interrupted` before its next part as soon as ``requested()`` is true.

    ``requested`` is called by the threads that run the parts; passes of other threads do not know of it.
    """
    before = _requested.set(requested)
    try:
        yield
    finally:
        _requested.reset(before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Within, passes run to their end."""
    with interruptible(lambda: False):
        yield


def give_way() -> None:
    """Raise `Interrupted` if passes are to stop."""
    if _requested.get()():
        raise Interrupted


def borders(count: int, width: float = 1.0, most: int = PARTS) -> np.ndarray:
    """Where the parts of ``count`` items, ``width`` numbers each, begin and end; the same for any number of threads.

    Examples
    --------
    >>> from xrisk.data.threads import borders
    >>> borders(100).tolist(), borders(300_000).tolist()
    ([0, 100], [0, 75000, 150000, 225000, 300000])
    """
    parts = int(min(max(count * width / LEAST, 1), most, max(count, 1)))
    return np.linspace(0, count, parts + 1).astype(np.int64) if parts > 1 else np.array([0, count])


def in_parts(function: Callable[[int, int], Any], at: np.ndarray) -> list[Any]:
    """``function(low, high)`` for every part between two borders, in the order of the parts.

    The calling thread takes parts, too: whichever thread is free takes the next one.
    """
    pairs = list(itertools.pairwise(at.tolist()))
    workers = min(threads(), len(pairs)) if len(pairs) > 1 else 1
    if workers == 1:
        return [_patiently(function, low, high) for low, high in pairs]
    done, ahead, turn = [None] * len(pairs), iter(range(len(pairs))), threading.Lock()

    def work() -> None:
        try:
            while (k := _next(ahead, turn)) is not None:
                done[k] = _patiently(function, *pairs[k])
        except BaseException:
            while _next(ahead, turn) is not None:  # the other threads take no more parts
                pass
            raise

    jobs = [_pool(workers - 1).submit(copy_context().run, work) for _ in range(workers - 1)]
    try:
        work()
    finally:  # arrays of the caller are written to until the last one ends
        failed = [error for job in jobs if not job.cancel() and (error := job.exception()) is not None]
    if failed:
        raise failed[0]
    return done


def _next(ahead: Iterator[int], turn: threading.Lock) -> int | None:
    with turn:
        return next(ahead, None)


def _patiently(function: Callable[[int, int], Any], low: int, high: int) -> Any:
    give_way()
    return function(low, high)


def threads() -> int:
    """Cores that a pass may use: those of the process, less what Numba's or a BLAS's limits leave.

    In a worker of a process pool the others are taken to be busy, unless ``NUMBA_NUM_THREADS`` says otherwise.
    """
    if multiprocessing.parent_process() is not None and "NUMBA_NUM_THREADS" not in os.environ:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if "NUMBA_NUM_THREADS" in os.environ:
        cores = numba.get_num_threads()
    return max(1, min([cores, numba.get_num_threads(), *_limits()]))


def _limits() -> list[int]:
    if getattr(_inside, "depth", 0):  # the limit of one is our own
        return list(_inside.before)
    return _blas_threads()


_inside = threading.local()


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Matrix products run on one thread each: those of a pass would get in each other's way, and sums would differ."""
    if getattr(_inside, "depth", 0) or all(count == 1 for count in _blas_threads()):
        yield
        return
    _inside.before, _inside.depth = _blas_threads(), 1
    for library in _blas():
        library.set_num_threads(1)
    try:
        yield
    finally:
        for library, count in zip(_blas(), _inside.before, strict=True):
            library.set_num_threads(count)
        _inside.depth = 0


def _blas_threads() -> list[int]:
    return [library.num_threads for library in _blas()]


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS is one more)

    return ThreadpoolController()


@functools.cache
def _blas() -> list[Any]:
    return list(_controller().select(user_api="blas").lib_controllers)


@functools.cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="xrisk")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
